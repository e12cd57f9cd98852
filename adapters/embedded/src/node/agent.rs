//! Follows the Pods that are bound to this node.

use super::logs::ContainerLogs;
use super::pod::{Deadline, Grace, PodRun};
use super::process::kill_leftovers;
use super::runtime::Runtime;
use super::status::PodView;
use crate::api_server::Now;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The variable that marks the processes of a node, so that the next life of the node finds them.
const MARKER: &str = "FLYTE_MANAGER_NODE";

/// How a node is made.
pub struct Options {
    /// A client of the cluster.
    pub client: Client,
    /// The node's name.
    pub name: String,
    /// Where the directories of Pods are.
    pub root: PathBuf,
    /// The wall clock.
    pub now: Now,
    /// Where processes are started.
    pub runtime: Arc<dyn Runtime>,
    /// Variables that every container has.
    pub environment: BTreeMap<String, String>,
    /// This very program, which is also the copilot.
    pub own_program: Option<PathBuf>,
}

/// What the runs of all Pods share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) now: Now,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) logs: ContainerLogs,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) own_program: Option<PathBuf>,
    pub(crate) marker: (String, String),
}

/// A node that runs Pods as processes.
pub struct Node {
    name: String,
    root: PathBuf,
    context: Arc<Context>,
    /// Held for the life of the node: two nodes on one directory would kill each other's processes.
    _lock: File,
}

/// A Pod that this node runs.
struct Known {
    deletion: watch::Sender<Option<Grace>>,
}

impl Node {
    /// A node over a directory. What an earlier life has left there is killed and removed.
    ///
    /// # Errors
    /// A sentence when the directory cannot be used.
    pub fn new(options: Options) -> Result<Self, String> {
        let cannot = |error: std::io::Error| {
            format!("cannot use {} for the embedded cluster: {error}", options.root.display())
        };
        std::fs::create_dir_all(&options.root).map_err(cannot)?;
        let root = options.root.canonicalize().map_err(cannot)?;
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(root.join("lock"))
            .map_err(cannot)?;
        lock.try_lock().map_err(|_| {
            format!(
                "another flyte-manager uses {}; set manager.kubernetes.embedded.dir to another directory",
                root.display()
            )
        })?;
        let marker = (MARKER.to_string(), root.display().to_string());
        let killed = kill_leftovers(&format!("{}={}", marker.0, marker.1));
        if killed > 0 {
            tracing::warn!(killed, "processes of an earlier start were still running and were killed");
        }
        let pods = root.join("pods");
        if pods.exists() {
            std::fs::remove_dir_all(&pods).map_err(cannot)?;
        }
        std::fs::create_dir_all(&pods).map_err(cannot)?;
        Ok(Self {
            name: options.name,
            root,
            context: Arc::new(Context {
                client: options.client,
                now: options.now,
                runtime: options.runtime,
                logs: ContainerLogs::default(),
                environment: options.environment,
                own_program: options.own_program,
                marker,
            }),
            _lock: lock,
        })
    }

    /// The logs of the node's containers, for the API server.
    pub fn logs(&self) -> ContainerLogs {
        self.context.logs.clone()
    }

    /// Runs Pods until `shutdown`, then kills what runs.
    pub async fn run(&self, shutdown: CancellationToken) {
        self.register().await;
        let pods: Api<Pod> = Api::all(self.context.client.clone());
        let config = watcher::Config::default().fields(&format!("spec.nodeName={}", self.name));
        let mut events = watcher(pods, config).default_backoff().boxed();
        let mut known: BTreeMap<String, Known> = BTreeMap::new();
        let tasks = TaskTracker::new();
        let mut listed: Option<Vec<Pod>> = None;
        loop {
            let event = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                event = events.next() => event,
            };
            match event {
                Some(Ok(watcher::Event::Init)) => listed = Some(Vec::new()),
                Some(Ok(watcher::Event::InitApply(pod))) => {
                    if let Some(listed) = &mut listed {
                        listed.push(pod);
                    }
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    let listed = listed.take().unwrap_or_default();
                    let uids: Vec<String> =
                        listed.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
                    let gone: Vec<String> = known.keys().filter(|uid| !uids.contains(uid)).cloned().collect();
                    gone.iter().for_each(|uid| self.forget(uid, &mut known));
                    listed.into_iter().for_each(|pod| self.take(pod, &mut known, &tasks));
                }
                Some(Ok(watcher::Event::Apply(pod))) => self.take(pod, &mut known, &tasks),
                Some(Ok(watcher::Event::Delete(pod))) => {
                    self.forget(pod.metadata.uid.as_deref().unwrap_or_default(), &mut known);
                }
                Some(Err(error)) => tracing::debug!(%error, "the node cannot see its Pods at the moment"),
                None => break,
            }
        }
        // Processes must not outlive the manager: their ends would be seen by nobody.
        for pod in known.values() {
            pod.deletion.send_replace(Some(Grace(Duration::ZERO)));
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn register(&self) {
        let nodes: Api<NodeObject> = Api::all(self.context.client.clone());
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name, "labels": {"kubernetes.io/hostname": self.name}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]},
        });
        if let Err(error) =
            nodes.patch(&self.name, &PatchParams::apply("flyte-manager"), &Patch::Apply(&node)).await
        {
            tracing::debug!(%error, "the node could not register itself; it runs Pods all the same");
        }
    }

    fn take(&self, pod: Pod, known: &mut BTreeMap<String, Known>, tasks: &TaskTracker) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let grace = pod.metadata.deletion_timestamp.as_ref().map(|_| {
            let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
            Grace(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
        });
        if let Some(known) = known.get(&uid) {
            known.deletion.send_if_modified(|current| std::mem::replace(current, grace) != grace);
            return;
        }
        if uid.is_empty() || uid.contains('/') {
            return;
        }
        let (deletion, receiver): (_, Deadline) = watch::channel(grace);
        known.insert(uid.clone(), Known { deletion });
        let view = PodView::new(&pod, &self.context.now);
        let run = PodRun {
            context: self.context.clone(),
            view,
            pod,
            deletion: receiver,
            dir: self.root.join("pods").join(&uid),
        };
        tasks.spawn(run.run());
    }

    fn forget(&self, uid: &str, known: &mut BTreeMap<String, Known>) {
        // Dropping the sender ends the run and kills what is left of it.
        if known.remove(uid).is_none() {
            return;
        }
        self.context.logs.forget(uid);
        let dir = self.root.join("pods").join(uid);
        if let Err(error) = std::fs::remove_dir_all(&dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(%error, dir = %dir.display(), "the directory of a Pod could not be removed");
        }
    }
}
