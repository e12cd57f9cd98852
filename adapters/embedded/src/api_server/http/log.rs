//! The logs of containers.

use super::call::Call;
use crate::api_server::resource::Resource;
use crate::api_server::status::Refused;
use crate::api_server::{LogQuery, Shared};
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use flyte_core::Timestamp;
use serde_json::Value;
use std::sync::Arc;

/// Answers the log of a container as it comes.
pub async fn log(
    shared: &Arc<Shared>,
    pods: &Resource,
    namespace: &str,
    name: &str,
    call: &Call,
) -> Result<Response, Refused> {
    let pod = shared.cluster().get(pods, namespace, name)?;
    let container = container(&pod, name, call.text("container"))?;
    let Some(logs) = shared.logs.get().cloned() else {
        return Err(Refused::new(501, "NotImplemented", "this cluster keeps no logs"));
    };
    if call.is_on("previous") {
        return Err(Refused::bad_request(format!(
            "previous terminated container \"{container}\" in pod \"{name}\" not found"
        )));
    }
    let size = |number: Option<u64>| number.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let since_s = match (call.number("sinceSeconds")?, call.text("sinceTime")) {
        (Some(_), time) if !time.is_empty() => {
            return Err(Refused::bad_request("at most one of sinceTime or sinceSeconds may be specified"));
        }
        (seconds, "") => seconds,
        (_, time) => {
            let since = Timestamp::parse(time).ok_or_else(|| {
                Refused::bad_request("the parameter sinceTime must be a time in the form of RFC 3339")
            })?;
            Some((shared.now)().since_ms(since).div_ceil(1_000))
        }
    };
    let query = LogQuery {
        follow: call.is_on("follow"),
        tail_lines: size(call.number("tailLines")?),
        since_s,
        timestamps: call.is_on("timestamps"),
        limit_bytes: size(call.number("limitBytes")?),
    };
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let stream = logs.read(uid, &container, query).await.map_err(Refused::bad_request)?;
    Ok(([(header::CONTENT_TYPE, "text/plain")], Body::from_stream(stream)).into_response())
}

/// The container that is meant: the one that is named, or the only one.
fn container(pod: &Value, name: &str, asked: &str) -> Result<String, Refused> {
    let names = |list: &str| -> Vec<&str> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    match (asked, containers.as_slice()) {
        ("", [only]) => Ok((*only).to_string()),
        ("", _) => {
            let mut message = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                containers.join(" ")
            );
            if !init.is_empty() {
                message += &format!(" or one of the init containers: [{}]", init.join(" "));
            }
            Err(Refused::bad_request(message))
        }
        (asked, _) if containers.contains(&asked) || init.contains(&asked) => Ok(asked.to_string()),
        (asked, _) => Err(Refused::bad_request(format!(
            "container {} is not valid for pod {name}",
            flyte_core::text::bounded(asked, 64)
        ))),
    }
}
