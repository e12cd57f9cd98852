//! Watches: every change after a version, as lines of JSON.

use super::answers::shown;
use super::call::{Call, Form};
use crate::api_server::Shared;
use crate::api_server::cluster::{Event, Happened, Query};
use crate::api_server::resource::Resource;
use crate::api_server::status::Refused;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval_at, sleep};

/// How long a watch lasts when nobody says.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How often a watch that wants them is told how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// How many changes are looked at before what was found is sent on.
const BATCH: usize = 1_000;

/// Opens a watch.
pub fn watch(
    shared: &Arc<Shared>,
    resource: &Resource,
    namespace: &str,
    call: &Call,
) -> Result<Response, Refused> {
    let selector = call.selector(resource)?;
    let timeout = match call.number("timeoutSeconds")? {
        None | Some(0) => DEFAULT_TIMEOUT,
        Some(seconds) => Duration::from_secs(seconds),
    };
    let from = call.number("resourceVersion")?.filter(|version| *version != 0);
    let newest = shared.cluster().revision();
    let begin = match (call.text("sendInitialEvents"), from) {
        ("true" | "1", Some(at_least)) if at_least > newest => {
            return Err(Refused::too_new(at_least, newest));
        }
        ("true" | "1", _) => Begin::State { marks_end: true },
        ("", None) => Begin::State { marks_end: false },
        (_, None) => Begin::After(newest),
        (_, Some(version)) => Begin::After(version),
    };
    let view = View {
        resource: resource.clone(),
        query: Query { namespace: namespace.to_string(), selector, ..Query::default() },
        form: call.form(),
        bookmarks: call.is_on("allowWatchBookmarks"),
    };
    let stream = lines(shared.clone(), view, begin, timeout);
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(stream)).into_response())
}

/// Where a watch begins.
enum Begin {
    /// With all objects as they are, as if they were new.
    State {
        /// Whether a bookmark says when they have all come.
        marks_end: bool,
    },
    /// With the first change after a version.
    After(u64),
}

/// What one watch sees.
struct View {
    resource: Resource,
    query: Query,
    form: Form,
    bookmarks: bool,
}

impl View {
    /// The event as this watch sees it: an object that comes to meet the selector is added, one that no longer does is
    /// deleted.
    fn line(&self, shared: &Shared, event: &Event) -> Option<Bytes> {
        let (namespace, selector) = (&self.query.namespace, &self.query.selector);
        if event.key.resource != self.resource.key()
            || (!namespace.is_empty() && event.key.namespace != *namespace)
        {
            return None;
        }
        let before = event.before.as_ref().filter(|before| selector.matches(before));
        let after =
            (event.happened != Happened::Deleted && selector.matches(&event.object)).then_some(&event.object);
        match (before, after) {
            (None, Some(object)) => Some(self.write(shared, "ADDED", object)),
            (Some(_), Some(object)) => Some(self.write(shared, "MODIFIED", object)),
            (Some(_), None) if event.happened == Happened::Deleted => {
                Some(self.write(shared, "DELETED", &event.object))
            }
            (Some(before), None) => {
                // What it has become is none of this watch's business; the version is.
                let mut last = before.as_ref().clone();
                if let Some(metadata) = last.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("resourceVersion".into(), json!(event.revision.to_string()));
                }
                Some(self.write(shared, "DELETED", &Arc::new(last)))
            }
            (None, None) => None,
        }
    }

    fn write(&self, shared: &Shared, kind: &str, object: &Arc<Value>) -> Bytes {
        match shown(shared, &self.resource, object, self.form) {
            Some(body) => line(&format!("{{\"type\":\"{kind}\",\"object\":{body}}}")),
            None => line(&format!("{{\"type\":\"{kind}\",\"object\":{object}}}")),
        }
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.form {
            Form::Whole => (self.resource.kind.clone(), self.resource.api_version()),
            Form::Metadata => ("PartialObjectMetadata".into(), "meta.k8s.io/v1".into()),
            Form::Table(_) => ("Table".into(), "meta.k8s.io/v1".into()),
        };
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        line(&json!({"type": "BOOKMARK", "object": object}).to_string())
    }

    /// What there is to tell after a version, and the version up to which it is told.
    fn news(&self, shared: &Shared, after: u64) -> Result<(Vec<Bytes>, u64), Refused> {
        let cluster = shared.cluster();
        let (mut lines, mut at) = (Vec::new(), after);
        for event in cluster.events_after(after)?.take(BATCH) {
            at = event.revision;
            lines.extend(self.line(shared, event));
        }
        Ok((lines, at))
    }
}

fn line(text: &str) -> Bytes {
    Bytes::from(format!("{text}\n"))
}

fn lines(
    shared: Arc<Shared>,
    view: View,
    begin: Begin,
    timeout: Duration,
) -> impl futures::Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    let mut changed = shared.changed.subscribe();
    let mut cut = shared.cut.subscribe();
    async_stream::stream! {
        let end = sleep(timeout);
        tokio::pin!(end);
        let mut bookmark = interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
        let mut at = match begin {
            Begin::After(version) => version,
            Begin::State { marks_end } => {
                let page = shared.cluster().list(&view.resource, &view.query);
                // The newest state can always be listed.
                let Ok(page) = page else { return };
                for object in &page.items {
                    yield Ok(view.write(&shared, "ADDED", object));
                }
                if marks_end {
                    yield Ok(view.bookmark(page.revision, true));
                }
                page.revision
            }
        };
        loop {
            changed.borrow_and_update();
            loop {
                match view.news(&shared, at) {
                    Ok((_, up_to)) if up_to == at => break,
                    Ok((lines, up_to)) => {
                        at = up_to;
                        for line in lines {
                            yield Ok(line);
                        }
                    }
                    Err(gone) => {
                        yield Ok(line(&json!({"type": "ERROR", "object": gone.body()}).to_string()));
                        return;
                    }
                }
            }
            tokio::select! {
                biased;
                _ = cut.changed() => return,
                () = &mut end => return,
                _ = bookmark.tick(), if view.bookmarks => yield Ok(view.bookmark(at, false)),
                changed = changed.changed() => if changed.is_err() { return },
            }
        }
    }
}
