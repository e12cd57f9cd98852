//! What a handler gets beside the message.

use crate::services::Services;
use axum::http::HeaderMap;
use std::sync::Arc;

/// One call: what it may use and the headers that it came with.
#[derive(Clone)]
pub struct Call {
    services: Arc<Services>,
    headers: HeaderMap,
}

impl Call {
    /// A call with these headers.
    pub fn new(services: Arc<Services>, headers: HeaderMap) -> Self {
        Self { services, headers }
    }

    /// The host and port that the client reached the server under, if it said so.
    pub fn host(&self) -> Option<&str> {
        self.headers.get("host").and_then(|host| host.to_str().ok())
    }
}

impl std::ops::Deref for Call {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}
