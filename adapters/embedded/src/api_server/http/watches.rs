//! Watches: every change after a version, as lines of JSON.

use super::{Call, partial};
use crate::api_server::cluster::{Event, Happened};
use crate::api_server::resource::Resource;
use crate::api_server::selector::Selector;
use crate::api_server::status::Refused;
use crate::api_server::{Shared, table};
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long a watch lasts when nobody says.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How often a watch that wants them is told how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// Opens a watch.
pub fn watch(
    shared: &Arc<Shared>,
    resource: &Resource,
    namespace: &str,
    call: &Call,
) -> Result<Response, Refused> {
    let selector = call.selector()?;
    let timeout = call.number("timeoutSeconds")?.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let from = match call.text("resourceVersion") {
        "" | "0" => None,
        text => Some(text.parse::<u64>().map_err(|_| {
            Refused::bad_request(format!("Invalid resource version '{text}': it must be a number"))
        })?),
    };
    let view = View {
        resource: resource.clone(),
        namespace: namespace.to_string(),
        selector,
        as_table: call.wants_table(),
        as_metadata: call.wants_metadata(),
        bookmarks: call.is_on("allowWatchBookmarks"),
    };
    let initial = call.is_on("sendInitialEvents") || from.is_none();
    let stream = lines(shared.clone(), view, from, initial, call.is_on("sendInitialEvents"), timeout);
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(stream)).into_response())
}

/// What one watch sees.
struct View {
    resource: Resource,
    namespace: String,
    selector: Selector,
    as_table: bool,
    as_metadata: bool,
    bookmarks: bool,
}

impl View {
    /// The event as this watch sees it: an object that comes to meet the selector is added, one that no longer does is
    /// deleted.
    fn line(&self, shared: &Shared, event: &Event) -> Option<Bytes> {
        if event.resource != self.resource.key()
            || (!self.namespace.is_empty() && event.namespace != self.namespace)
        {
            return None;
        }
        let before = event.before.as_ref().is_some_and(|before| self.selector.matches(before));
        let after = event.happened != Happened::Deleted && self.selector.matches(&event.object);
        let kind = match (before, after) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        Some(self.write(shared, kind, &event.object))
    }

    fn write(&self, shared: &Shared, kind: &str, object: &Arc<Value>) -> Bytes {
        let body = if self.as_table {
            table::table(&self.resource, std::slice::from_ref(object), json!({}), (shared.now)())
        } else if self.as_metadata {
            partial(object)
        } else {
            return line(&format!("{{\"type\":\"{kind}\",\"object\":{object}}}"));
        };
        line(&json!({"type": kind, "object": body}).to_string())
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = (&self.resource.kind, self.resource.api_version());
        line(&json!({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": metadata}}).to_string())
    }
}

fn line(text: &str) -> Bytes {
    Bytes::from(format!("{text}\n"))
}

fn lines(
    shared: Arc<Shared>,
    view: View,
    from: Option<u64>,
    initial: bool,
    marks_initial_end: bool,
    timeout: Duration,
) -> impl futures::Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    let mut changed = shared.changed.subscribe();
    let mut cut = shared.cut.subscribe();
    async_stream::stream! {
        let end = tokio::time::sleep(timeout);
        tokio::pin!(end);
        let mut bookmark = tokio::time::interval_at(tokio::time::Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
        let mut at = from.unwrap_or(0);
        if initial {
            let page = shared.cluster().list(&view.resource, &view.namespace, &view.selector, 0, "");
            if let Ok(page) = page {
                at = page.revision;
                for object in &page.items {
                    yield Ok(view.write(&shared, "ADDED", object));
                }
            }
            if marks_initial_end {
                yield Ok(view.bookmark(at, true));
            }
        }
        loop {
            changed.borrow_and_update();
            let news = {
                let cluster = shared.cluster();
                let revision = cluster.revision();
                cluster
                    .events_after(at)
                    .map(|events| (events.filter_map(|event| view.line(&shared, event)).collect::<Vec<_>>(), revision))
            };
            match news {
                Ok((news, revision)) => {
                    at = revision.max(at);
                    for line in news {
                        yield Ok(line);
                    }
                }
                Err(gone) => {
                    yield Ok(line(&json!({"type": "ERROR", "object": gone.body()}).to_string()));
                    return;
                }
            }
            tokio::select! {
                biased;
                changed = changed.changed() => if changed.is_err() { return },
                _ = cut.changed() => return,
                () = &mut end => return,
                _ = bookmark.tick(), if view.bookmarks => yield Ok(view.bookmark(at, false)),
            }
        }
    }
}
