//! `grpc.health.v1.Health` over the readiness check.

use crate::services::Services;
use crate::wire::registry::Registry;
use connectrpc::ConnectError;
use connectrpc_health::{Checker, Status};
use std::sync::Arc;

/// Every service is as healthy as the whole process.
pub struct Health {
    /// Which services there are.
    pub registry: Arc<Registry>,
    /// Where the readiness check is.
    pub services: Arc<Services>,
}

impl Checker for Health {
    async fn check(&self, service: &str) -> Result<Status, ConnectError> {
        if !service.is_empty() && !self.registry.has_service(service) {
            return Err(ConnectError::not_found("there is no such service"));
        }
        match (self.services.readiness)().await {
            Ok(()) => Ok(Status::Serving),
            Err(_) => Ok(Status::NotServing),
        }
    }
}
