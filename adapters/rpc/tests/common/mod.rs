//! A server over a store in a temporary directory, and clients for it.
#![allow(dead_code, reason = "each test file uses a part")]

use bytes::Bytes;
use flyte_core::Timestamp;
use flyte_objects::Objects;
use flyte_rpc::{Defaults, Limits, Services, router};
use flyte_store::{Clock, Options, Store};
use futures::FutureExt;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use tokio_util::sync::CancellationToken;

pub const START_MS: i64 = 1_772_366_400_000;

/// A server that listens.
pub struct Server {
    pub port: u16,
    pub store: Store,
    pub objects: Objects,
    pub shutdown: CancellationToken,
    pub ready: Arc<AtomicBool>,
    _dir: tempfile::TempDir,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A server whose store was opened with other options.
    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ticks = AtomicI64::new(0);
        let clock = Clock::from_fn(move || {
            Timestamp::from_ms(START_MS + 1_000 * ticks.fetch_add(1, Ordering::Relaxed))
        });
        let mut options = Options { clock, ..Options::file(dir.path().join("flyte.db").to_str().unwrap()) };
        change(&mut options);
        let store = Store::open(options).await.unwrap();
        let objects = Objects::in_memory("mem://x");
        let shutdown = CancellationToken::new();
        let ready = Arc::new(AtomicBool::new(true));
        let (next, is_ready) = (AtomicU8::new(0), ready.clone());
        let router = router(Services {
            store: store.clone(),
            objects: objects.clone(),
            random: Arc::new(move |buffer: &mut [u8]| buffer.fill(next.fetch_add(1, Ordering::Relaxed))),
            readiness: Arc::new(move || {
                let ready = is_ready.load(Ordering::Relaxed);
                async move { if ready { Ok(()) } else { Err("the cluster sleeps".to_string()) } }.boxed()
            }),
            limits: Limits { message_max_bytes: 1024 * 1024, ..Limits::default() },
            defaults: Defaults::default(),
            shutdown: shutdown.clone(),
            link_key: [7; 32],
            uploads: Arc::new(tokio::sync::Semaphore::new(2)),
            logs: None,
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = hyper_util::service::TowerToHyperService::new(router.clone());
                tokio::spawn(async move {
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { port, store, objects, shutdown, ready, _dir: dir }
    }

    /// Any request; answers code, headers and body.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (u16, http::HeaderMap, Bytes) {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let mut request =
            http::Request::builder().method(method).uri(format!("http://127.0.0.1:{}{path}", self.port));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = client.request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status.as_u16(), parts.headers, body.collect().await.unwrap().to_bytes())
    }

    /// A Connect call with JSON: the method has its service's name without `flyteidl2.`.
    pub async fn call(&self, method: &str, body: &Value) -> (u16, Value) {
        let path = format!("/flyteidl2.{method}");
        let (code, _, body) =
            self.send("POST", &path, &[("content-type", "application/json")], body.to_string()).await;
        (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// A call that succeeds.
    pub async fn ok(&self, method: &str, body: &Value) -> Value {
        let (code, answer) = self.call(method, body).await;
        assert_eq!(code, 200, "{method}: {answer}");
        answer
    }

    /// A call that fails: code and message.
    pub async fn fails(&self, method: &str, body: &Value) -> (String, String) {
        let (code, answer) = self.call(method, body).await;
        assert_ne!(code, 200, "{method}: {answer}");
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_string();
        (text("code"), text("message"))
    }

    pub fn channel(&self) -> tonic::transport::Channel {
        tonic::transport::Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port))
            .unwrap()
            .connect_lazy()
    }
}

pub fn run_id(name: &str) -> Value {
    json!({"org": "", "project": "p", "domain": "d", "name": name})
}

pub fn action_id(run: &str, name: &str) -> Value {
    json!({"run": run_id(run), "name": name})
}

pub fn task_spec() -> Value {
    json!({"taskTemplate": {
        "id": {"resourceType": "TASK", "project": "p", "domain": "d", "name": "t.main", "version": "v1"},
        "type": "container",
        "container": {"image": "busybox", "args": ["true"]},
    }})
}

pub fn create(name: &str) -> Value {
    json!({"runId": run_id(name), "taskSpec": task_spec()})
}

pub fn enqueue(run: &str, name: &str) -> Value {
    json!({
        "actionId": action_id(run, name), "parentActionName": "a0", "inputUri": "mem://x/i", "runOutputBase": "mem://x/o",
        "task": {"spec": task_spec()},
    })
}
