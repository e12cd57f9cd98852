# What people type. Each target says what it does: `make help`.

CARGO ?= cargo
CONFIG ?= config.yaml
BIN := target/debug/flyte-manager

.PHONY: help build release run demo check test lint fmt deny crd sim clean image

help: ## Show the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the daemon.
	$(CARGO) build --locked -p flyte-manager

release: ## Build the daemon, optimised, as target/release/flyte-manager.
	$(CARGO) build --locked --release -p flyte-manager

run: build ## Run the daemon with config.yaml (CONFIG=...).
	$(BIN) --config $(CONFIG)

demo: build ## Run one task on an embedded cluster and show what happens.
	$(BIN) demo

check: build ## Test configuration, database, cluster and ports.
	$(BIN) --config $(CONFIG) check

test: ## Run all tests.
	$(CARGO) test --locked --workspace

lint: ## Check format, lints and the rules that keep the daemon deterministic.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

fmt: ## Format the code.
	$(CARGO) fmt --all

deny: ## Check licences, sources and banned dependencies (needs cargo-deny).
	$(CARGO) deny --locked check licenses bans sources

crd: ## Write the definition of TaskActions anew.
	UPDATE_CRD=1 $(CARGO) test --locked -p flyte-kubernetes the_published_definition

sim: ## Run the simulator's tests.
	$(CARGO) test --locked -p sim

image: ## Build the container image.
	docker build -t flyte-manager .

clean: ## Remove what was built, and the database and storage of `make run`.
	$(CARGO) clean
	rm -rf flyte.db flyte.db-* flyte-data flyte-data.cluster
