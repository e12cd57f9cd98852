//! The paths and forms of the API over HTTP (<https://kubernetes.io/docs/reference/using-api/api-concepts/>).

mod watches;

use super::cluster::{Deletion, Part};
use super::patch::Patch;
use super::resource::Resource;
use super::selector::Selector;
use super::status::Refused;
use super::{LogQuery, RequestInfo, Shared, discovery, table};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest body, as in a real API server.
const BODY_MAX_BYTES: usize = 3 * 1024 * 1024;
/// The most objects of one page when nobody says.
const LIST_MAX: usize = 10_000;

/// Serves everything; when there is a secret, only under a path that begins with it. A secret in a header would not do:
/// kubectl sends none over plain HTTP.
pub fn router(shared: Arc<Shared>, secret: Option<String>) -> Router {
    let prefix = secret.map(|secret| format!("/{secret}"));
    Router::new().fallback(move |request: Request| {
        let shared = shared.clone();
        let path = request.uri().path();
        let path = match &prefix {
            None => Some(path.to_string()),
            Some(prefix) => {
                path.strip_prefix(prefix.as_str()).filter(|rest| rest.starts_with('/')).map(str::to_string)
            }
        };
        async move {
            match path {
                Some(path) => handle(shared, path, request).await,
                None if matches!(request.uri().path(), "/healthz" | "/livez" | "/readyz") => {
                    "ok".into_response()
                }
                None => refused(&Refused::new(
                    401,
                    "Unauthorized",
                    "the address of this server has a secret part; use the kubeconfig that names it",
                )),
            }
        }
    })
}

async fn handle(shared: Arc<Shared>, path: String, request: Request) -> Response {
    let info = RequestInfo {
        method: request.method().to_string(),
        path,
        query: request.uri().query().unwrap_or_default().to_string(),
    };
    let interceptor = shared.interceptor.get().cloned();
    if let Some(interceptor) = &interceptor
        && let Some(answer) = interceptor.before(info.clone()).await
    {
        return refused(&answer);
    }
    let (parts, body) = request.into_parts();
    let response = match axum::body::to_bytes(body, BODY_MAX_BYTES).await {
        Ok(body) => {
            let call = Call { method: parts.method, query: query(&info.query), headers: parts.headers, body };
            route(&shared, &info.path, &call).await.unwrap_or_else(|answer| refused(&answer))
        }
        Err(_) => refused(&Refused::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_MAX_BYTES}"),
        )),
    };
    if let Some(interceptor) = &interceptor
        && let Some(answer) = interceptor.after(info).await
    {
        return refused(&answer);
    }
    response
}

/// A request without its path.
struct Call {
    method: Method,
    query: BTreeMap<String, String>,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    fn text(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.text(name), "true" | "1")
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Refused> {
        match self.text(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Refused::bad_request(format!("the parameter {name} must be a number, not '{text}'"))
            }),
        }
    }

    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    fn wants_table(&self) -> bool {
        self.header(header::ACCEPT).contains("as=Table")
    }

    fn wants_metadata(&self) -> bool {
        self.header(header::ACCEPT).contains("as=PartialObjectMetadata")
    }

    fn is_dry_run(&self) -> bool {
        self.query.contains_key("dryRun")
    }

    fn selector(&self) -> Result<Selector, Refused> {
        Selector::parse(self.text("labelSelector"), self.text("fieldSelector"))
    }

    /// The body, in JSON or YAML.
    fn value(&self) -> Result<Value, Refused> {
        if self.header(header::CONTENT_TYPE).contains("yaml") {
            let text = std::str::from_utf8(&self.body)
                .map_err(|_| Refused::bad_request("the body is not valid UTF-8"))?;
            return serde_saphyr::from_str(text)
                .map_err(|error| Refused::bad_request(format!("the body is not valid YAML: {error}")));
        }
        if self.header(header::CONTENT_TYPE).contains("protobuf") {
            return Err(Refused::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format; this server takes JSON and YAML",
            ));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Refused::bad_request(format!("the body is not valid JSON: {error}")))
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
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
            return serve(shared, target, call).await;
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
    serve(shared, target, call).await
}

async fn serve(shared: &Arc<Shared>, target: Target, call: &Call) -> Result<Response, Refused> {
    let Target { resource, namespace, name, sub } = &target;
    let part = match sub.as_deref() {
        None => Part::Main,
        Some("status") => Part::Status,
        Some("log") if resource.key() == "/pods" && call.method == Method::GET => {
            return log(shared, namespace, name.as_deref().unwrap_or_default(), call).await;
        }
        Some(_) => return Err(Refused::no_resource()),
    };
    let changed = |object: Arc<Value>, code| one(shared, resource, &object, code, call);
    match (&call.method, name) {
        (&Method::GET, None) if call.is_on("watch") => watches::watch(shared, resource, namespace, call),
        (&Method::GET, None) => list(shared, resource, namespace, call),
        (&Method::GET, Some(name)) => {
            let object = shared.cluster().get(resource, namespace, name)?;
            Ok(changed(object, StatusCode::OK))
        }
        (&Method::POST, None) => {
            let object = call.value()?;
            let dry_run = call.is_dry_run();
            let object = shared.change(|cluster| cluster.create(resource, namespace, object, dry_run))?;
            Ok(changed(object, StatusCode::CREATED))
        }
        (&Method::PUT, Some(name)) => {
            let object = call.value()?;
            let dry_run = call.is_dry_run();
            let object =
                shared.change(|cluster| cluster.update(resource, namespace, name, object, part, dry_run))?;
            Ok(changed(object, StatusCode::OK))
        }
        (&Method::PATCH, Some(name)) => {
            let way = Patch::of(call.header(header::CONTENT_TYPE)).ok_or_else(|| {
                Refused::new(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
            })?;
            let patch = call.value()?;
            let dry_run = call.is_dry_run();
            let object = shared
                .change(|cluster| cluster.patch(resource, namespace, name, way, patch, part, dry_run))?;
            Ok(changed(object, StatusCode::OK))
        }
        (&Method::DELETE, Some(name)) => {
            let how = deletion(call)?;
            if call.is_dry_run() {
                let object = shared.cluster().get(resource, namespace, name)?;
                return Ok(changed(object, StatusCode::OK));
            }
            let (object, gone) = shared.change(|cluster| cluster.delete(resource, namespace, name, &how))?;
            if gone && resource.key() != "/pods" {
                return Ok(answer(&json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": {"name": name, "group": resource.group, "kind": resource.plural, "uid": object["metadata"]["uid"]},
                })));
            }
            Ok(changed(object, StatusCode::OK))
        }
        (&Method::DELETE, None) => {
            let how = deletion(call)?;
            let selector = call.selector()?;
            let page = shared.change(|cluster| {
                let page = cluster.list(resource, namespace, &selector, 0, "")?;
                for object in &page.items {
                    let text =
                        |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_string();
                    cluster.delete(resource, &text("namespace"), &text("name"), &how)?;
                }
                Ok::<_, Refused>(page)
            })?;
            Ok(answer(&list_of(resource, &page.items, json!({"resourceVersion": page.revision.to_string()}))))
        }
        _ => Err(Refused::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )),
    }
}

fn deletion(call: &Call) -> Result<Deletion, Refused> {
    let body = if call.body.is_empty() { json!({}) } else { call.value()? };
    let text = |value: &Value| value.as_str().map(str::to_string);
    let wish = match call.number("gracePeriodSeconds")? {
        Some(seconds) => i64::try_from(seconds).ok(),
        None => body["gracePeriodSeconds"].as_i64(),
    };
    let policy = match call.text("propagationPolicy") {
        "" => body["propagationPolicy"].as_str().unwrap_or_default(),
        policy => policy,
    };
    Ok(Deletion {
        grace_s: wish,
        uid: text(&body["preconditions"]["uid"]),
        resource_version: text(&body["preconditions"]["resourceVersion"]),
        orphan: policy == "Orphan" || body["orphanDependents"] == true,
    })
}

fn list(
    shared: &Arc<Shared>,
    resource: &Resource,
    namespace: &str,
    call: &Call,
) -> Result<Response, Refused> {
    let selector = call.selector()?;
    let limit = call.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
    let limit = if limit == 0 && call.text("continue").is_empty() { LIST_MAX.max(limit) } else { limit };
    let page = shared.cluster().list(resource, namespace, &selector, limit, call.text("continue"))?;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if !page.next.is_empty() {
        metadata["continue"] = json!(page.next);
        metadata["remainingItemCount"] = json!(page.remaining);
    }
    if call.wants_table() {
        return Ok(answer(&table::table(resource, &page.items, metadata, (shared.now)())));
    }
    if call.wants_metadata() {
        let items: Vec<Value> = page.items.iter().map(|object| partial(object)).collect();
        return Ok(answer(
            &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}),
        ));
    }
    Ok(answer(&list_of(resource, &page.items, metadata)))
}

fn list_of(resource: &Resource, items: &[Arc<Value>], metadata: Value) -> Value {
    let items: Vec<&Value> = items.iter().map(Arc::as_ref).collect();
    json!({"kind": format!("{}List", resource.kind), "apiVersion": resource.api_version(), "metadata": metadata, "items": items})
}

fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn one(shared: &Shared, resource: &Resource, object: &Arc<Value>, code: StatusCode, call: &Call) -> Response {
    let body = if call.wants_table() {
        table::table(resource, std::slice::from_ref(object), json!({}), (shared.now)())
    } else if call.wants_metadata() {
        partial(object)
    } else {
        return (code, [(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response();
    };
    (code, answer(&body)).into_response()
}

async fn log(shared: &Arc<Shared>, namespace: &str, name: &str, call: &Call) -> Result<Response, Refused> {
    let pods = shared.cluster().find("", "v1", "pods").ok_or_else(Refused::no_resource)?;
    let pod = shared.cluster().get(&pods, namespace, name)?;
    let containers: Vec<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    let container = match call.text("container") {
        "" => containers.first().copied().unwrap_or_default(),
        container if containers.contains(&container) => container,
        container => {
            return Err(Refused::bad_request(format!("container {container} is not valid for pod {name}")));
        }
    };
    let Some(logs) = shared.logs.get().cloned() else {
        return Err(Refused::new(501, "NotImplemented", "this cluster keeps no logs"));
    };
    let size = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let query = LogQuery {
        follow: call.is_on("follow"),
        tail_lines: size(call.number("tailLines")?),
        since_s: call.number("sinceSeconds")?,
        timestamps: call.is_on("timestamps"),
        limit_bytes: size(call.number("limitBytes")?),
    };
    let stream = logs
        .read(pod["metadata"]["uid"].as_str().unwrap_or_default(), container, query)
        .await
        .map_err(Refused::bad_request)?;
    Ok(([(header::CONTENT_TYPE, "text/plain")], Body::from_stream(stream)).into_response())
}

fn answer(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn refused(refused: &Refused) -> Response {
    let code = StatusCode::from_u16(refused.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (code, answer(&refused.body())).into_response();
    *response.status_mut() = code;
    if let Some(seconds) = refused.details["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
