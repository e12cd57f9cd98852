//! What the API server promises beyond plain reads and writes, by its own router and by a real client.

mod deletion;
mod hostile;
mod reading;
mod writing;

use super::{ApiServer, Options};
use axum::body::Body;
use axum::http::Request;
use flyte_core::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const START_MS: i64 = 1_772_366_400_000;

struct World {
    server: ApiServer,
    now_ms: Arc<AtomicI64>,
}

fn world(auto_bind: Option<&str>) -> World {
    let now_ms = Arc::new(AtomicI64::new(START_MS));
    World { server: server_at(now_ms.clone(), auto_bind), now_ms }
}

fn server_at(clock: Arc<AtomicI64>, auto_bind: Option<&str>) -> ApiServer {
    let draws = AtomicU64::new(0);
    ApiServer::new(Options {
        now: Arc::new(move || Timestamp::from_ms(clock.load(Ordering::Relaxed))),
        random: Arc::new(move |buffer| {
            let draw = draws.fetch_add(1, Ordering::Relaxed).to_le_bytes();
            buffer.iter_mut().enumerate().for_each(|(index, byte)| *byte = draw[index % 8]);
        }),
        auto_bind: auto_bind.map(str::to_string),
        event_log_max: 100_000,
        secret: None,
    })
}

impl World {
    async fn send(&self, method: &str, path: &str, kind: &str, body: String) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let response = self.server.router().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "", String::new()).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send("POST", path, "application/json", body.to_string()).await
    }

    async fn merge(&self, path: &str, body: Value) -> (u16, Value) {
        self.send("PATCH", path, "application/merge-patch+json", body.to_string()).await
    }

    async fn delete(&self, path: &str, options: Value) -> (u16, Value) {
        self.send("DELETE", path, "application/json", options.to_string()).await
    }

    /// The names of what is at a path.
    async fn names(&self, path: &str) -> Vec<String> {
        names(&self.get(path).await.1)
    }

    /// Installs the custom resource `songs.example.org`, with a title that is needed and a count that has a default.
    async fn define_songs(&self) {
        let spec = json!({"type": "object", "required": ["title"], "properties": {
            "title": {"type": "string"}, "count": {"type": "integer", "default": 3}}});
        let definition = json!({"metadata": {"name": "songs.example.org"}, "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "songs", "singular": "song", "kind": "Song"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(self.post(path, definition).await.0, 201);
    }
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_string()).collect()
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

fn owned(name: &str, owner: &Value, blocks: bool) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks});
    json!({"metadata": {"name": name, "ownerReferences": [owner]}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}
