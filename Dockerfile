# Build: the toolchain and a C compiler, nothing else.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --locked --release -p flyte-manager && strip target/release/flyte-manager

# Run: the binary, certificates of authorities, and sqlite3 to look at the database.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates sqlite3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --home-dir /data flyte
COPY --from=build /src/target/release/flyte-manager /usr/local/bin/flyte-manager
COPY config.yaml /etc/flyte-manager/config.yaml
USER 10001
WORKDIR /data
EXPOSE 8090 8089 8081
ENTRYPOINT ["flyte-manager"]
CMD ["--config", "/etc/flyte-manager/config.yaml"]
