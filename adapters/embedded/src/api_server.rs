//! An API server in memory, with the semantics that kube and kubectl rely on.
//!
//! [`cluster`](self) holds objects and rules; `http` puts them behind the paths and forms of Kubernetes' API. The same
//! router serves a client in this process without sockets, and kubectl on a loopback port.

mod cluster;
mod definitions;
mod discovery;
mod http;
mod json_path;
mod limits;
mod names;
mod patch;
mod pods;
mod resource;
mod schema;
mod selector;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod typed;

pub use cluster::{Now, Random};
pub use status::Refused;

use cluster::Cluster;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::watch;

/// What a log is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Go on until the container has ended.
    pub follow: bool,
    /// Only so many lines at the end.
    pub tail_lines: Option<usize>,
    /// Only what is younger than so many seconds.
    pub since_s: Option<u64>,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Stop after so many bytes.
    pub limit_bytes: Option<usize>,
}

/// A log's bytes as they come.
pub type LogStream = BoxStream<'static, Result<bytes::Bytes, std::io::Error>>;

/// Reads the logs of containers.
pub trait PodLogs: Send + Sync {
    /// The log of a container of the Pod with this uid; the first container when none is named. An error is a sentence.
    fn read(
        &self,
        uid: &str,
        container: &str,
        query: LogQuery,
    ) -> BoxFuture<'static, Result<LogStream, String>>;
}

/// A request as an interceptor sees it.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, undecoded.
    pub query: String,
    /// The body, whole.
    pub body: bytes::Bytes,
}

/// Stands before the API server and may hold up, refuse or lose what goes through; the simulator has one.
pub trait Interceptor: Send + Sync {
    /// Before the request has any effect; `Some` answers it instead.
    fn before(&self, request: RequestInfo) -> BoxFuture<'static, Option<Refused>>;
    /// After the request had its effect; `Some` replaces the answer.
    fn after(&self, request: RequestInfo) -> BoxFuture<'static, Option<Refused>>;
}

/// How an API server is made.
#[derive(Clone)]
pub struct Options {
    /// The wall clock.
    pub now: Now,
    /// For uids and generated names.
    pub random: Random,
    /// The node that new Pods are bound to at once; `None` leaves them unscheduled.
    pub auto_bind: Option<String>,
    /// How many changes watches can go back.
    pub event_log_max: usize,
    /// The secret that paths have to begin with; the client in this process needs none.
    pub secret: Option<String>,
}

pub(crate) struct Shared {
    cluster: Mutex<Cluster>,
    changed: watch::Sender<u64>,
    /// Counts up when all watches are to end.
    cut: watch::Sender<u64>,
    logs: OnceLock<Arc<dyn PodLogs>>,
    interceptor: OnceLock<Arc<dyn Interceptor>>,
    now: Now,
}

impl Shared {
    pub(crate) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the cluster and wakes watches.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut cluster = self.cluster();
        let result = change(&mut cluster);
        let revision = cluster.revision();
        drop(cluster);
        self.changed.send_if_modified(|known| std::mem::replace(known, revision) != revision);
        result
    }
}

/// The API server. Clones share one cluster.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
    secret: Option<String>,
}

impl ApiServer {
    /// A server with an empty cluster.
    pub fn new(options: Options) -> Self {
        let cluster =
            Cluster::new(options.now.clone(), options.random, options.auto_bind, options.event_log_max);
        let shared = Shared {
            changed: watch::Sender::new(cluster.revision()),
            cluster: Mutex::new(cluster),
            cut: watch::Sender::new(0),
            logs: OnceLock::new(),
            interceptor: OnceLock::new(),
            now: options.now,
        };
        Self { shared: Arc::new(shared), secret: options.secret }
    }

    /// A client in this process.
    pub fn client(&self, default_namespace: &str) -> kube::Client {
        kube::Client::new(http::router(self.shared.clone(), None), default_namespace)
    }

    /// Everything that kubectl asks for.
    pub fn router(&self) -> axum::Router {
        http::router(self.shared.clone(), self.secret.clone())
    }

    /// Says where logs come from; the first to say it wins.
    pub fn set_pod_logs(&self, logs: Arc<dyn PodLogs>) {
        let _ = self.shared.logs.set(logs);
    }

    /// Puts something before the server; the first wins.
    pub fn set_interceptor(&self, interceptor: Arc<dyn Interceptor>) {
        let _ = self.shared.interceptor.set(interceptor);
    }

    /// A kubeconfig for this server at a URL.
    pub fn kubeconfig(&self, url: &str, namespace: &str) -> String {
        let secret = self.secret.as_ref().map(|secret| format!("/{secret}")).unwrap_or_default();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: flyte-manager\nclusters:\n- name: flyte-manager\n  cluster: \
             {{server: \"{url}{secret}\"}}\nusers:\n- name: flyte-manager\n  user: {{}}\ncontexts:\n- name: \
             flyte-manager\n  context: {{cluster: flyte-manager, user: flyte-manager, namespace: {namespace}}}\n"
        )
    }

    /// All objects of a kind, for checks from outside.
    pub fn snapshot(&self, group: &str, plural: &str) -> Vec<Value> {
        let cluster = self.shared.cluster();
        let resource =
            cluster.resources().find(|found| found.group == group && found.plural == plural).cloned();
        let Some(resource) = resource else { return Vec::new() };
        let page = cluster.list(&resource, &cluster::Query::default());
        page.map(|page| page.items.iter().map(|item| item.as_ref().clone()).collect()).unwrap_or_default()
    }

    /// Makes every watch from the past begin anew (410).
    pub fn force_compact(&self) {
        self.shared.change(Cluster::compact);
    }

    /// Ends all watches that are open.
    pub fn close_watches(&self) {
        self.shared.cut.send_modify(|cuts| *cuts += 1);
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiServer")
    }
}
