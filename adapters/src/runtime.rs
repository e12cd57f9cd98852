//! The manager as a whole: start, run, stop.

use crate::cluster::{self, Choice, Embedded, random};
use crate::config::Config;
use crate::serve;
use flyte_core::plan;
use flyte_core::pod::Graces;
use flyte_core::{Action, naming};
use flyte_kubernetes::{Executor, Options as ExecutorOptions, Settings, ensure_namespace, install_crd};
use flyte_objects::Objects;
use flyte_rpc::{Defaults, Limits, LogLine, LogSource, LogStream, Services};
use flyte_store::{Options as StoreOptions, Store};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use kube::Client;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long open requests have for their end when the manager stops, before the database is closed.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// How long a real cluster may take to answer at start.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(30);
/// How long a readiness check may take.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// How many uploads are taken at a time.
const UPLOADS_MAX: usize = 4;

/// A manager that listens and works.
pub struct Manager {
    /// Where the runs service listens.
    pub runs_address: SocketAddr,
    /// Where the queue service listens.
    pub queue_address: SocketAddr,
    /// Where the health probes listen.
    pub health_address: SocketAddr,
    /// The kubeconfig of the embedded cluster; `None` with a real one.
    pub kubeconfig: Option<std::path::PathBuf>,
    store: Store,
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
    node_shutdown: CancellationToken,
}

impl Manager {
    /// Opens the database, migrates it, starts the services, connects to the cluster and begins to reconcile.
    ///
    /// # Errors
    /// A sentence that says what failed and what to do.
    pub async fn start(config: &Config) -> Result<Self, String> {
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        // Chosen first: it decides where may be listened.
        let choice = cluster::choose(&config.kubernetes).await.map_err(|error| error.to_string())?;
        let is_embedded = matches!(choice, Choice::Embedded { .. });
        let loopback_only = is_embedded && !config.kubernetes.allow_remote;

        let database = config.database_file.display().to_string();
        let store =
            Store::open(StoreOptions::file(database.clone())).await.map_err(|error| error.to_string())?;
        tracing::info!(file = %database, "the database is open and up to date");
        let objects =
            Objects::directory(&config.storage_dir).map_err(|error| format!("{error}; set storage.dir"))?;

        let runs = serve::listen(&config.runs, loopback_only)?;
        let queue = serve::listen(&config.queue, loopback_only)?;
        let health = serve::listen(&config.health, loopback_only)?;
        if loopback_only && !config.runs.addresses(false)?.iter().all(|address| address.ip().is_loopback()) {
            tracing::warn!(
                address = %runs.address,
                "in embedded mode every caller may run commands on this machine, so only loopback is listened on, \
                 whatever manager.runsService.host says; manager.kubernetes.embedded.allowRemote changes that"
            );
        }

        let shutdown = CancellationToken::new();
        let node_shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (client, kubeconfig) =
            connect(config, choice, &store, &shutdown, &node_shutdown, &mut tasks).await?;
        install_crd(&client, &config.kubernetes.namespace).await.map_err(|error| error.to_string())?;
        ensure_namespace(&client, &config.kubernetes.namespace).await.map_err(|error| error.to_string())?;

        let executor = Executor::new(ExecutorOptions {
            client: client.clone(),
            namespace: config.kubernetes.namespace.clone(),
            store: store.clone(),
            objects: objects.clone(),
            settings: settings(config, is_embedded, runs.address.port()),
        });
        let synced = executor.ready();
        let services = services(config, &store, objects, client, synced, shutdown.clone());
        let router = flyte_rpc::router(services);

        let manager = Self {
            runs_address: runs.address,
            queue_address: queue.address,
            health_address: health.address,
            kubeconfig,
            store,
            tasks: {
                for listener in [runs, queue, health] {
                    tasks.spawn(serve::serve(
                        listener,
                        router.clone(),
                        config.connections_max,
                        shutdown.clone(),
                    ));
                }
                let shutdown = shutdown.clone();
                tasks.spawn(async move { executor.run(shutdown).await });
                tasks
            },
            shutdown,
            node_shutdown,
        };
        tracing::info!(
            runs = %manager.runs_address,
            queue = %manager.queue_address,
            health = %manager.health_address,
            namespace = %config.kubernetes.namespace,
            "flyte-manager serves"
        );
        Ok(manager)
    }

    /// Returns, with a sentence, when the manager cannot go on.
    pub async fn failed(&self) -> String {
        let reason = self.store.failed().await;
        format!("the database failed: {reason}; free or repair its disk and start again")
    }

    /// Stops accepting, ends streams, lets what was accepted be written, and closes the database.
    pub async fn stop(mut self) {
        tracing::info!("stopping");
        self.shutdown.cancel();
        let store = self.store.clone();
        // Processes end last, so that nothing of their end is taken for a failure.
        let services = async { while self.tasks.join_next().await.is_some() {} };
        let stopping = async {
            tokio::time::sleep(STOP_PATIENCE / 5).await;
            self.node_shutdown.cancel();
        };
        let all = async {
            tokio::join!(services, stopping);
        };
        if tokio::time::timeout(STOP_PATIENCE, all).await.is_err() {
            tracing::warn!("some requests did not end in time and are cut off");
        }
        self.tasks.abort_all();
        store.close().await;
        tracing::info!("stopped");
    }
}

async fn connect(
    config: &Config,
    choice: Choice,
    store: &Store,
    shutdown: &CancellationToken,
    node_shutdown: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Result<(Client, Option<std::path::PathBuf>), String> {
    match choice {
        Choice::Cluster { config: mut cluster, why } => {
            tracing::info!(url = %cluster.cluster_url, "a real cluster is used, because {why}");
            cluster.read_timeout = None;
            let client = Client::try_from(*cluster)
                .map_err(|error| format!("failed to get Kubernetes config: {error}"))?;
            match tokio::time::timeout(CLUSTER_PATIENCE, client.apiserver_version()).await {
                Ok(Ok(_)) => Ok((client, None)),
                Ok(Err(error)) => Err(format!(
                    "failed to get Kubernetes config: the cluster does not answer: {error}; check that it runs and that \
                     the kubeconfig is the right one, or set manager.kubernetes.mode to embedded"
                )),
                Err(_) => Err("failed to get Kubernetes config: the cluster does not answer in time; check that it runs \
                               and that the kubeconfig is the right one, or set manager.kubernetes.mode to embedded"
                    .into()),
            }
        }
        Choice::Embedded { why } => {
            let embedded = Embedded::start(&config.kubernetes, store.clock(), Default::default())?;
            let client = embedded.client.clone();
            let kubeconfig = embedded.kubeconfig.clone();
            tracing::info!(
                kubeconfig = %kubeconfig.display(),
                "an embedded cluster is used, because {why}; tasks run as processes of this machine"
            );
            tasks.spawn(embedded.run(shutdown.clone(), node_shutdown.clone()));
            Ok((client, Some(kubeconfig)))
        }
    }
}

fn settings(config: &Config, is_embedded: bool, port: u16) -> Settings {
    let executor = &config.executor;
    let local = || is_embedded.then(|| format!("localhost:{port}"));
    Settings {
        max_concurrent: executor.max_concurrent,
        resync_ms: executor.resync_ms,
        plan: plan::Settings {
            ttl_ms: executor.task_action_ttl_ms,
            graces: Graces {
                image_pull_ms: executor.image_pull_grace_ms,
                create_container_ms: executor.create_container_grace_ms,
            },
            pending_timeout_ms: executor.pending_timeout_ms,
            ..plan::Settings::default()
        },
        endpoint: executor.endpoint.clone().or_else(local).unwrap_or_default(),
        copilot_image: executor.copilot_image.clone().or_else(|| is_embedded.then(|| "flyte-manager".into())),
        service_account: executor.service_account.clone(),
        env: executor.env.clone(),
    }
}

fn services(
    config: &Config,
    store: &Store,
    objects: Objects,
    client: Client,
    synced: watch::Receiver<bool>,
    shutdown: CancellationToken,
) -> Services {
    let mut link_key = [0; 32];
    random(&mut link_key);
    let namespace = config.kubernetes.namespace.clone();
    Services {
        store: store.clone(),
        objects,
        random: Arc::new(random),
        readiness: readiness(store.clone(), client.clone(), synced),
        limits: Limits { message_max_bytes: config.request_max_bytes, ..Limits::default() },
        defaults: Defaults {
            system_retries: config.executor.system_retries,
            backoff_base_ms: config.executor.backoff_base_ms,
            backoff_cap_ms: config.executor.backoff_cap_ms,
            namespace: namespace.clone(),
        },
        shutdown,
        link_key,
        uploads: Arc::new(Semaphore::new(UPLOADS_MAX)),
        logs: Some(Arc::new(PodLogs { client, namespace })),
    }
}

/// Ready when the database answers, the cluster answers, and the executor has seen all of it.
fn readiness(store: Store, client: Client, synced: watch::Receiver<bool>) -> flyte_rpc::Readiness {
    Arc::new(move || {
        let (store, client, synced) = (store.clone(), client.clone(), synced.clone());
        async move {
            let check = async {
                store.probe().await.map_err(|error| error.to_string())?;
                if !*synced.borrow() {
                    return Err("the executor has not seen the whole cluster yet".to_string());
                }
                client
                    .apiserver_version()
                    .await
                    .map_err(|error| format!("the cluster does not answer: {error}"))?;
                Ok(())
            };
            tokio::time::timeout(READY_TIMEOUT, check)
                .await
                .unwrap_or_else(|_| Err("the database or the cluster does not answer in time".into()))
        }
        .boxed()
    })
}

/// The logs of Pods, for the services.
struct PodLogs {
    client: Client,
    namespace: String,
}

impl LogSource for PodLogs {
    fn tail(&self, action: &Action, attempt: u32) -> BoxFuture<'static, Result<Option<LogStream>, String>> {
        let (client, namespace) = (self.client.clone(), self.namespace.clone());
        let pod = naming::pod_name(&action.id, attempt);
        async move {
            let lines = flyte_kubernetes::tail(&client, &namespace, &pod).await?;
            Ok(lines.map(|lines| {
                lines.map(|line| line.map(|line| LogLine { at: line.at, text: line.text })).boxed()
            }))
        }
        .boxed()
    }
}
