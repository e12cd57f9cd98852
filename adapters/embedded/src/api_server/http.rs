//! The paths and forms of the API over HTTP (<https://kubernetes.io/docs/reference/using-api/api-concepts/>).

mod answers;
mod call;
mod log;
mod objects;
mod watches;

use super::limits::BYTES_MAX;
use super::resource::Resource;
use super::status::Refused;
use super::{RequestInfo, Shared, discovery};
use answers::{answer, refused};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use call::Call;
use http_body_util::LengthLimitError;
use percent_encoding::percent_decode_str;
use serde_json::json;
use std::error::Error;
use std::sync::Arc;

/// Serves everything; when there is a secret, only to those who know it. It is the first part of the path, since kubectl
/// sends no token over plain HTTP; a bearer token is taken too.
pub fn router(shared: Arc<Shared>, secret: Option<String>) -> Router {
    Router::new().fallback(move |request: Request| {
        let shared = shared.clone();
        let path = match &secret {
            None => Some(request.uri().path().to_string()),
            Some(secret) => allowed_path(request.uri().path(), request.headers(), secret),
        };
        async move {
            match path {
                Some(path) => handle(shared, path, request).await,
                None if is_health(request.uri().path()) => "ok".into_response(),
                None => refused(&Refused::new(
                    401,
                    "Unauthorized",
                    "the address of this server has a secret part; use the kubeconfig that names it",
                )),
            }
        }
    })
}

/// The path behind the secret, if the request knows the secret.
fn allowed_path(path: &str, headers: &HeaderMap, secret: &str) -> Option<String> {
    let rest = path.strip_prefix('/').and_then(|path| path.strip_prefix(secret));
    if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Some(rest.to_string());
    }
    let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    (token == secret).then(|| path.to_string())
}

fn is_health(path: &str) -> bool {
    matches!(path.trim_matches('/'), "healthz" | "livez" | "readyz")
}

async fn handle(shared: Arc<Shared>, path: String, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = match axum::body::to_bytes(body, BYTES_MAX).await {
        Ok(body) => body,
        Err(error) if error.source().is_some_and(|source| source.is::<LengthLimitError>()) => {
            return refused(&Refused::too_large());
        }
        Err(error) => {
            return refused(&Refused::bad_request(format!("the body of the request broke off: {error}")));
        }
    };
    let info = RequestInfo {
        method: parts.method.to_string(),
        path,
        query: parts.uri.query().unwrap_or_default().to_string(),
        body: body.clone(),
    };
    let interceptor = shared.interceptor.get().cloned();
    if let Some(interceptor) = &interceptor
        && let Some(answer) = interceptor.before(info.clone()).await
    {
        return refused(&answer);
    }
    let call = Call::new(parts.method, &info.query, parts.headers, body);
    let response = route(&shared, &info.path, &call).await.unwrap_or_else(|answer| refused(&answer));
    if let Some(interceptor) = &interceptor
        && let Some(answer) = interceptor.after(info).await
    {
        return refused(&answer);
    }
    response
}

/// What a path names.
struct Target {
    resource: Resource,
    namespace: String,
    name: Option<String>,
    sub: Option<String>,
}

async fn route(shared: &Arc<Shared>, path: &str, call: &Call) -> Result<Response, Refused> {
    let parts: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Ok("ok".into_response()),
        ["version"] => Ok(answer(&discovery::version())),
        ["api"] => Ok(answer(&discovery::versions())),
        ["apis"] => Ok(answer(&discovery::groups(&shared.cluster()))),
        ["apis", group] => discovery::group(&shared.cluster(), group)
            .map(|group| answer(&group))
            .ok_or_else(Refused::no_resource),
        // kubectl checks objects against these before it sends them; nothing in them means that it checks nothing.
        ["openapi", "v2"] if call.header(header::ACCEPT).contains("protobuf") => {
            let kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
            Ok(([(header::CONTENT_TYPE, kind)], "").into_response())
        }
        ["openapi", "v2"] => Ok(answer(
            &json!({"swagger": "2.0", "info": {"title": "flyte-manager", "version": "1"}, "paths": {}}),
        )),
        ["openapi", "v3"] => Ok(answer(&json!({"paths": {}}))),
        ["api", "v1", rest @ ..] => group(shared, "", "v1", rest, call).await,
        ["apis", name, version, rest @ ..] => group(shared, name, version, rest, call).await,
        _ => Err(Refused::no_resource()),
    }
}

async fn group(
    shared: &Arc<Shared>,
    group: &str,
    version: &str,
    rest: &[&str],
    call: &Call,
) -> Result<Response, Refused> {
    let find = |plural: &str| shared.cluster().find(group, version, plural).ok_or_else(Refused::no_resource);
    let (namespace, rest) = match rest {
        [] => {
            return discovery::resources(&shared.cluster(), group, version)
                .map(|list| answer(&list))
                .ok_or_else(Refused::no_resource);
        }
        ["namespaces", name, plural, rest @ ..] if !matches!(*plural, "status" | "finalize") => {
            let target = Target {
                resource: find(plural)?,
                namespace: (*name).to_string(),
                name: rest.first().map(ToString::to_string),
                sub: rest.get(1).map(ToString::to_string),
            };
            if !target.resource.namespaced || rest.len() > 2 {
                return Err(Refused::no_resource());
            }
            return objects::serve(shared, target, call).await;
        }
        rest => (String::new(), rest),
    };
    let target = Target {
        resource: find(rest.first().copied().unwrap_or_default())?,
        namespace,
        name: rest.get(1).map(ToString::to_string),
        sub: rest.get(2).map(ToString::to_string),
    };
    if rest.len() > 3 || (target.resource.namespaced && target.name.is_some()) {
        return Err(Refused::no_resource());
    }
    objects::serve(shared, target, call).await
}
