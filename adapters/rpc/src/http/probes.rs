//! The readiness probe. Liveness is constant: a process that answers lives.

use crate::services::Services;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use flyte_core::text;
use std::sync::Arc;

/// 200 when everything that the services need is there, else 503 with the reason.
pub async fn ready(State(services): State<Arc<Services>>) -> Response {
    match (services.readiness)().await {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", text::message(&reason)))
            .into_response(),
    }
}
