//! Logs of Pods: followed while they run, archived before they are deleted.

use crate::labels::PRIMARY_CONTAINER;
use crate::refusal::is_not_found;
use bytes::Bytes;
use flyte_core::Timestamp;
use flyte_objects::Objects;
use futures::stream::{Stream, StreamExt};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};

/// The most bytes of a log that are archived.
const ARCHIVE_MAX_BYTES: i64 = 64 * 1024 * 1024;

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was written.
    pub at: Option<Timestamp>,
    /// The line without its end.
    pub text: String,
}

/// The log of a Pod's primary container from its beginning until it ends; `None` when there is no such Pod or no log
/// yet.
///
/// # Errors
/// A sentence when the cluster does not answer.
pub async fn tail(
    client: &Client,
    namespace: &str,
    pod: &str,
) -> Result<Option<impl Stream<Item = Result<Line, String>> + Send + use<>>, String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let said = |error: kube::Error| format!("the log of Pod {pod} cannot be read: {error}");
    let Some(object) = pods.get_opt(pod).await.map_err(said)? else { return Ok(None) };
    let params = LogParams { follow: true, ..params(&object) };
    match pods.log_stream(pod, &params).await {
        Ok(stream) => {
            let lines = stream.lines().map_err(|error| format!("the log broke off: {error}"));
            Ok(Some(lines.map(|line| line.map(|line| parse(&line)))))
        }
        Err(error) if is_not_found(&error) => Ok(None),
        // The container has not started, which is no trouble.
        Err(kube::Error::Api(status)) if status.code == 400 => Ok(None),
        Err(error) => Err(said(error)),
    }
}

/// Keeps the log of a Pod under a URI.
///
/// # Errors
/// A sentence when it could not be read or written.
pub async fn archive(
    client: &Client,
    namespace: &str,
    pod: &str,
    objects: &Objects,
    uri: &str,
) -> Result<(), String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let said = |error: kube::Error| format!("the log of Pod {pod} cannot be read: {error}");
    let Some(object) = pods.get_opt(pod).await.map_err(said)? else { return Ok(()) };
    let params = LogParams { limit_bytes: Some(ARCHIVE_MAX_BYTES), ..params(&object) };
    let text = match pods.logs(pod, &params).await {
        Ok(text) => text,
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => return Ok(()),
        Err(error) => return Err(said(error)),
    };
    objects.put(uri, Bytes::from(text)).await.map_err(|error| error.to_string())
}

fn params(pod: &Pod) -> LogParams {
    let primary =
        pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(PRIMARY_CONTAINER));
    LogParams { container: primary.cloned(), timestamps: true, ..LogParams::default() }
}

fn parse(line: &str) -> Line {
    match line.split_once(' ') {
        Some((at, text)) if Timestamp::parse(at).is_some() => {
            Line { at: Timestamp::parse(at), text: text.to_string() }
        }
        _ => Line { at: None, text: line.to_string() },
    }
}
