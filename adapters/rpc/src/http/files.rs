//! Uploads and downloads over plain HTTP, each under a link that the data proxy has granted.

use crate::call::Call;
use crate::services::Services;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use flyte_core::Timestamp;
use flyte_objects::ObjectError;
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::sync::Arc;

/// What a link allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// To write.
    Put,
    /// To read.
    Get,
}

/// A link to one object.
#[derive(Debug, Serialize, Deserialize)]
pub struct Grant {
    /// What it allows.
    pub way: Way,
    /// The object.
    pub uri: String,
    /// The digest that the content must have.
    pub md5: Option<[u8; 16]>,
    /// Until when.
    pub expires_at: Timestamp,
}

impl Grant {
    /// The address, under the host that the caller reached the server by.
    pub fn url(&self, call: &Call) -> String {
        let host = call.host().unwrap_or("localhost:8090");
        let name = self.uri.rsplit('/').next().unwrap_or_default();
        format!("http://{host}/files/{}/{name}", self.token(&call.link_key))
    }

    fn token(&self, key: &[u8; 32]) -> String {
        let claims = serde_json::to_vec(self).unwrap_or_default();
        let tag = sign(key, &claims).map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(claims), URL_SAFE_NO_PAD.encode(tag))
    }

    fn read(token: &str, key: &[u8; 32]) -> Option<Self> {
        let (claims, tag) = token.split_once('.')?;
        let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        sign(key, &claims)?.verify_slice(&tag).ok()?;
        serde_json::from_slice(&claims).ok()
    }
}

fn sign(key: &[u8; 32], claims: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(claims);
    Some(mac)
}

fn no(status: StatusCode, why: impl Into<String>) -> Response {
    (status, why.into() + "\n").into_response()
}

fn granted(services: &Services, token: &str, way: Way) -> Result<Grant, &'static str> {
    let grant = Grant::read(token, &services.link_key)
        .filter(|grant| grant.way == way)
        .ok_or("this link was not granted by this server; ask for a new one")?;
    if grant.expires_at < services.store.clock().now() {
        return Err("this link has expired; ask for a new one");
    }
    Ok(grant)
}

/// Takes an upload.
pub async fn put(
    State(services): State<Arc<Services>>,
    Path((token, _)): Path<(String, String)>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let grant = match granted(&services, &token, Way::Put) {
        Ok(grant) => grant,
        Err(why) => return no(StatusCode::FORBIDDEN, why),
    };
    // Uploads are held in memory, so few are taken at a time.
    let Ok(_permit) = services.uploads.acquire().await else {
        return no(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    };
    let max = usize::try_from(services.limits.upload_max_bytes).unwrap_or(usize::MAX);
    let body: Bytes = match axum::body::to_bytes(request.into_body(), max).await {
        Ok(body) => body,
        Err(error) => {
            return no(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the upload is larger than {max} bytes or broke off: {error}"),
            );
        }
    };
    let digest: [u8; 16] = Md5::digest(&body).into();
    let said = headers.get("content-md5").and_then(|md5| STANDARD.decode(md5).ok());
    if grant.md5.is_some_and(|md5| md5 != digest) || said.is_some_and(|said| said != digest) {
        return no(StatusCode::BAD_REQUEST, "the content does not have the MD5 digest that was announced");
    }
    match services.objects.put(&grant.uri, body).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(error) => failed(&error),
    }
}

/// Gives a download.
pub async fn get(
    State(services): State<Arc<Services>>,
    Path((token, _)): Path<(String, String)>,
) -> Response {
    let grant = match granted(&services, &token, Way::Get) {
        Ok(grant) => grant,
        Err(why) => return no(StatusCode::FORBIDDEN, why),
    };
    match services.objects.get(&grant.uri, services.limits.upload_max_bytes).await {
        Ok(Some(bytes)) => {
            let kind = if grant.uri.ends_with(".html") {
                "text/html; charset=utf-8"
            } else {
                "application/octet-stream"
            };
            // What a task wrote must not act in the name of this server.
            let headers = [("content-type", kind), ("content-security-policy", "sandbox allow-scripts")];
            (headers, bytes).into_response()
        }
        Ok(None) => no(StatusCode::NOT_FOUND, "the object is gone"),
        Err(error) => failed(&error),
    }
}

fn failed(error: &ObjectError) -> Response {
    let status = match error {
        ObjectError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        ObjectError::Elsewhere { .. } => StatusCode::FORBIDDEN,
        ObjectError::Failed { .. } => StatusCode::SERVICE_UNAVAILABLE,
    };
    no(status, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_good_for_what_it_was_granted_for_and_cannot_be_made_up() {
        let grant = Grant {
            way: Way::Put,
            uri: "mem://x/a".into(),
            md5: Some([7; 16]),
            expires_at: Timestamp::from_ms(5),
        };
        let token = grant.token(&[1; 32]);
        let read = Grant::read(&token, &[1; 32]).unwrap();
        assert_eq!(
            (read.way, read.uri, read.md5, read.expires_at),
            (grant.way, grant.uri, grant.md5, grant.expires_at)
        );
        assert!(Grant::read(&token, &[2; 32]).is_none());
        assert!(Grant::read(&format!("{token}A"), &[1; 32]).is_none());
        assert!(Grant::read("", &[1; 32]).is_none());
        assert!(Grant::read("e30.e30", &[1; 32]).is_none());
    }
}
