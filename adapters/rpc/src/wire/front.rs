//! The HTTP router: probes, uploads, and the Connect runtime behind everything else.

use crate::Limits;
use crate::http;
use crate::services::{self, Services};
use crate::wire::dispatcher::Methods;
use crate::wire::health::Health;
use crate::wire::registry::Registry;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use connectrpc::{Chain, CompressionPolicy, ConnectRpcService};
use connectrpc_health::HealthExt;
use std::sync::Arc;
use tower::ServiceExt;

/// Services that the runtime's own crates serve.
const RUNTIME_SERVICES: [&str; 3] = [
    connectrpc_health::HEALTH_SERVICE_NAME,
    connectrpc_reflection::SERVER_REFLECTION_SERVICE_NAME,
    connectrpc_reflection::SERVER_REFLECTION_V1ALPHA_SERVICE_NAME,
];

/// Everything that is served on one port: the Connect, gRPC and gRPC-Web protocols, binary and JSON, the probes and the
/// upload endpoint.
///
/// The caller serves it over HTTP/1.1 and HTTP/2 with prior knowledge, and sets there what keeps connections alive:
/// HTTP/2 pings and TCP keep-alive, so that a peer that died without a word is noticed on an idle stream (case 56).
/// Answers are never compressed; requests may be, as a whole or by envelope.
pub fn router(services: Services) -> axum::Router {
    let services = Arc::new(services);
    let mut registry = Registry::default();
    services::register(&mut registry);
    registry.refuse_the_rest();
    let registry = Arc::new(registry);

    let health = connectrpc_health::HealthService::new(Health {
        registry: registry.clone(),
        services: services.clone(),
    });
    let runtime = Arc::new(health).register(connectrpc::Router::new());
    let runtime = connectrpc_health::apply_request_limits(runtime, connectrpc_health::request_limits());
    let runtime =
        match connectrpc_reflection::Reflector::from_descriptor_set_bytes(flyte_proto::FILE_DESCRIPTOR_SET) {
            Ok(reflector) => connectrpc_reflection::install(runtime, reflector),
            Err(error) => {
                tracing::error!(%error, "the schema cannot be read, so server reflection is off");
                runtime
            }
        };

    let methods = Methods::new(registry.clone(), services.clone());
    let rpc = ConnectRpcService::new(Chain(methods, runtime))
        .with_limits(limits(&services.limits))
        .with_compression_policy(CompressionPolicy::disabled());
    let fallback = move |request: Request| {
        let known = service_of(&request)
            .is_some_and(|service| registry.has_service(service) || RUNTIME_SERVICES.contains(&service));
        let rpc = rpc.clone();
        async move {
            if known {
                match rpc.oneshot(request).await {
                    Ok(response) => response.map(axum::body::Body::new),
                    Err(never) => match never {},
                }
            } else {
                not_found()
            }
        }
    };
    axum::Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(http::probes::ready))
        .route("/files/{token}/{name}", put(http::files::put).get(http::files::get))
        .fallback(fallback)
        .with_state(services)
}

fn limits(limits: &Limits) -> connectrpc::Limits {
    connectrpc::Limits::default()
        .with_max_request_body_size(limits.message_max_bytes)
        .with_max_message_size(limits.message_max_bytes)
}

/// `package.Service` of `/package.Service/Method`.
fn service_of(request: &Request) -> Option<&str> {
    request.uri().path().strip_prefix('/')?.split_once('/').map(|(service, _)| service)
}

fn not_found() -> Response {
    (
        http::StatusCode::NOT_FOUND,
        "there is nothing at this path; the services are listed by server reflection\n",
    )
        .into_response()
}
