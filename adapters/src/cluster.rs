//! Which cluster is used: a real one, or the one inside this process.

use crate::config::{Kubernetes, Listen, Mode};
use crate::serve;
use flyte_core::Timestamp;
use flyte_embedded::api_server::{ApiServer, Options as ApiServerOptions};
use flyte_embedded::node::{LocalProcesses, Node, Options as NodeOptions};
use flyte_store::Clock;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The name of the embedded cluster's node.
const NODE: &str = "local";
/// How many changes watches of the embedded cluster can go back.
const EVENT_LOG_MAX: usize = 16_384;
/// The most connections to the embedded API server.
const CONNECTIONS_MAX: usize = 256;
/// Variables of this process that task processes get too; everything else may be secret.
const INHERITED: [&str; 7] = ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "TZ"];

/// Which cluster it is, and why.
pub enum Choice {
    /// A real one.
    Cluster {
        /// How to reach it.
        config: Box<Config>,
        /// Where its configuration was found, for people.
        why: String,
    },
    /// The one inside this process.
    Embedded {
        /// Why, for people.
        why: String,
    },
}

/// Why there is no cluster, as a sentence.
#[derive(Debug, thiserror::Error)]
#[error("failed to get Kubernetes config: {0}")]
pub struct NoCluster(pub String);

/// Chooses the cluster: a kubeconfig that is named, else the one that this process runs in, else the user's kubeconfig,
/// else the embedded one.
///
/// # Errors
/// When the configuration that is asked for is missing or broken.
pub async fn choose(settings: &Kubernetes) -> Result<Choice, NoCluster> {
    if settings.mode == Mode::Embedded {
        return Ok(Choice::Embedded { why: "manager.kubernetes.mode is embedded".into() });
    }
    if let Some(path) = &settings.kubeconfig {
        let config = from_file(path).await.map_err(|reason| {
            NoCluster(format!(
                "{reason}; check manager.kubernetes.kubeconfig ({}), or leave it out to have the cluster found",
                path.display()
            ))
        })?;
        let why = format!("manager.kubernetes.kubeconfig is {}", path.display());
        return Ok(Choice::Cluster { config: Box::new(config), why });
    }
    if let Ok(config) = Config::incluster() {
        return Ok(Choice::Cluster {
            config: Box::new(config),
            why: "this process runs in a cluster".into(),
        });
    }
    match user_kubeconfig() {
        Some(path) => {
            let config = from_file(&path).await.map_err(|reason| {
                NoCluster(format!(
                    "{reason}; repair {}, name another in manager.kubernetes.kubeconfig, or set \
                     manager.kubernetes.mode to embedded",
                    path.display()
                ))
            })?;
            Ok(Choice::Cluster { config: Box::new(config), why: format!("there is a kubeconfig at {}", path.display()) })
        }
        None if settings.mode == Mode::Cluster => Err(NoCluster(
            "manager.kubernetes.mode is cluster, but this process does not run in a cluster, KUBECONFIG is not set and \
             ~/.kube/config is not there; name a kubeconfig in manager.kubernetes.kubeconfig"
                .into(),
        )),
        None => Ok(Choice::Embedded {
            why: "no kubeconfig is configured, this process does not run in a cluster, KUBECONFIG is not set and \
                  ~/.kube/config is not there"
                .into(),
        }),
    }
}

/// KUBECONFIG, or the usual file when it is there.
fn user_kubeconfig() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()) {
        // Several files may be named; kube merges them by itself, the first one stands for them in messages.
        return std::env::split_paths(&path).next();
    }
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    Some(home.join(".kube/config")).filter(|path| path.exists())
}

async fn from_file(path: &Path) -> Result<Config, String> {
    let options = KubeConfigOptions::default();
    let explicit =
        std::env::var_os("KUBECONFIG").is_some_and(|paths| std::env::split_paths(&paths).count() > 1);
    let kubeconfig = if explicit { Kubeconfig::read() } else { Kubeconfig::read_from(path) };
    let kubeconfig = kubeconfig.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| format!("{} cannot be used: {error}", path.display()))
}

/// A cluster inside this process.
pub struct Embedded {
    /// A client of it.
    pub client: Client,
    /// The kubeconfig that kubectl uses it with.
    pub kubeconfig: PathBuf,
    node: Node,
    server: ApiServer,
    listener: serve::Listener,
}

impl Embedded {
    /// Makes the cluster over a directory: nothing runs yet.
    ///
    /// # Errors
    /// A sentence when the directory or the port cannot be used.
    pub fn start(
        settings: &Kubernetes,
        clock: &Clock,
        environment: BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let now: Arc<dyn Fn() -> Timestamp + Send + Sync> = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let mut secret = [0; 24];
        random(&mut secret);
        let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let server = ApiServer::new(ApiServerOptions {
            now: now.clone(),
            random: Arc::new(random),
            auto_bind: Some(NODE.into()),
            event_log_max: EVENT_LOG_MAX,
            secret: Some(secret),
        });
        let client = server.client(&settings.namespace);
        let mut all: BTreeMap<String, String> =
            INHERITED.iter().filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?))).collect();
        all.extend(environment);
        let node = Node::new(NodeOptions {
            client: client.clone(),
            name: NODE.into(),
            root: settings.embedded_dir.clone(),
            now,
            runtime: Arc::new(LocalProcesses),
            environment: all,
            own_program: std::env::current_exe().ok(),
        })?;
        server.set_pod_logs(Arc::new(node.logs()));
        let address = Listen {
            host: "127.0.0.1".into(),
            port: settings.embedded_port,
            port_key: "manager.kubernetes.embedded.port",
        };
        let listener = serve::listen(&address, true)?;
        let kubeconfig = settings.embedded_dir.join("kubeconfig");
        let text = server.kubeconfig(&format!("http://{}", listener.address), &settings.namespace);
        write_private(&kubeconfig, &text)
            .map_err(|error| format!("cannot write {}: {error}", kubeconfig.display()))?;
        let kubeconfig = kubeconfig.canonicalize().unwrap_or(kubeconfig);
        Ok(Self { client, kubeconfig, node, server, listener })
    }

    /// Runs the node and serves kubectl until `shutdown`; the node goes on until `node_shutdown`.
    pub async fn run(self, shutdown: CancellationToken, node_shutdown: CancellationToken) {
        let serving = serve::serve(self.listener, self.server.router(), CONNECTIONS_MAX, shutdown);
        tokio::join!(serving, self.node.run(node_shutdown));
    }
}

/// Bytes from the operating system.
pub fn random(buffer: &mut [u8]) {
    #[allow(clippy::expect_used, reason = "without randomness nothing that names or signs things may go on")]
    getrandom::fill(buffer).expect("the operating system gives random bytes");
}

/// Writes a file that only this user can read: it holds the secret of the cluster.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
