//! The configuration: a file, the environment, and defaults.

pub mod keys;
mod tree;
mod values;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use values::Values;

/// How the manager is set up. Each field is a key of [`keys::KEYS`], which says what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `manager.runsService`.
    pub runs: Listen,
    /// `manager.queueService`.
    pub queue: Listen,
    /// `manager.executor.healthProbePort`.
    pub health: Listen,
    /// `manager.executor`.
    pub executor: Executor,
    /// `manager.kubernetes`.
    pub kubernetes: Kubernetes,
    /// `database.sqlite.file`.
    pub database_file: PathBuf,
    /// `storage.dir`.
    pub storage_dir: PathBuf,
    /// `logger`.
    pub logger: Logger,
    /// `limits.requestMaxBytes`.
    pub request_max_bytes: usize,
    /// `limits.connectionsMax`.
    pub connections_max: usize,
    /// Things to tell that are no errors, such as keys that are ignored.
    pub warnings: Vec<String>,
}

/// An address to listen on, and the keys that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The host: an address or a name.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The key of the port, for errors.
    pub port_key: &'static str,
}

/// `manager.executor`.
#[derive(Clone, Debug, PartialEq)]
pub struct Executor {
    /// `maxConcurrent`.
    pub max_concurrent: usize,
    /// `resyncInterval`.
    pub resync_ms: u64,
    /// `taskActionTtl`.
    pub task_action_ttl_ms: u64,
    /// `maxSystemRetries`.
    pub system_retries: u32,
    /// `backoffBase`.
    pub backoff_base_ms: u64,
    /// `backoffCap`.
    pub backoff_cap_ms: u64,
    /// `imagePullGrace`.
    pub image_pull_grace_ms: u64,
    /// `createContainerGrace`.
    pub create_container_grace_ms: u64,
    /// `podPendingTimeout`; `None` is for ever.
    pub pending_timeout_ms: Option<u64>,
    /// `serviceAccount`.
    pub service_account: Option<String>,
    /// `endpoint`.
    pub endpoint: Option<String>,
    /// `copilotImage`.
    pub copilot_image: Option<String>,
    /// `env`.
    pub env: BTreeMap<String, String>,
}

/// Which cluster is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A real one when there is a configuration for one, else the embedded one.
    Auto,
    /// A real one only.
    Cluster,
    /// The one inside this process.
    Embedded,
}

/// `manager.kubernetes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// `namespace`.
    pub namespace: String,
    /// `kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `mode`.
    pub mode: Mode,
    /// `embedded.port`.
    pub embedded_port: u16,
    /// `embedded.dir`.
    pub embedded_dir: PathBuf,
    /// `embedded.allowRemote`.
    pub allow_remote: bool,
}

/// `logger`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logger {
    /// `level`, 0 to 6.
    pub level: u8,
    /// `show-source`.
    pub show_source: bool,
    /// `format` is json.
    pub json: bool,
}

/// Why there is no configuration; the text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// Something in it, or in the environment, is wrong.
    #[error("the configuration{} is wrong:\n{faults}", file.as_ref().map(|file| format!(" {file}")).unwrap_or_default())]
    Wrong {
        /// The file; `None` when none was given.
        file: Option<String>,
        /// A sentence for each fault, one a line.
        faults: String,
    },
}

/// Where the configuration is looked for when none is named.
pub const DEFAULT_FILE: &str = "config.yaml";

impl Config {
    /// Reads a file, or `config.yaml` of the working directory when none is named and it is there, and the environment.
    ///
    /// # Errors
    /// When the file cannot be read, or a key or value is wrong.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let file = match file {
            Some(file) => Some(file.to_path_buf()),
            None => Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists()),
        };
        let text = match &file {
            None => String::new(),
            Some(file) => std::fs::read_to_string(file).map_err(|error| ConfigError::File {
                path: file.display().to_string(),
                reason: error.to_string(),
            })?,
        };
        Self::parse(&text, environment).map_err(|faults| ConfigError::Wrong {
            file: file.map(|file| file.display().to_string()),
            faults,
        })
    }

    /// Reads the text of a file and an environment.
    ///
    /// # Errors
    /// A sentence for each fault, one a line.
    pub fn parse(
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let values = Values::collect(text, environment)?;
        let listen = |host: &str, port_key: &'static str| Listen {
            host: values.required(host),
            port: values.port(port_key),
            port_key,
        };
        let storage_dir = PathBuf::from(values.required("storage.dir"));
        let beside = || {
            let mut name = storage_dir.clone().into_os_string();
            name.push(".cluster");
            PathBuf::from(name)
        };
        Ok(Self {
            runs: listen("manager.runsService.host", "manager.runsService.port"),
            queue: listen("manager.queueService.host", "manager.queueService.port"),
            health: listen("manager.runsService.host", "manager.executor.healthProbePort"),
            executor: Executor {
                max_concurrent: size(values.number("manager.executor.maxConcurrent")),
                resync_ms: values.duration_ms("manager.executor.resyncInterval").max(1_000),
                task_action_ttl_ms: values.duration_ms("manager.executor.taskActionTtl"),
                system_retries: u32::try_from(values.number("manager.executor.maxSystemRetries"))
                    .unwrap_or(u32::MAX),
                backoff_base_ms: values.duration_ms("manager.executor.backoffBase"),
                backoff_cap_ms: values.duration_ms("manager.executor.backoffCap"),
                image_pull_grace_ms: values.duration_ms("manager.executor.imagePullGrace"),
                create_container_grace_ms: values.duration_ms("manager.executor.createContainerGrace"),
                pending_timeout_ms: Some(values.duration_ms("manager.executor.podPendingTimeout"))
                    .filter(|ms| *ms > 0),
                service_account: values.text("manager.executor.serviceAccount"),
                endpoint: values.text("manager.executor.endpoint"),
                copilot_image: values.text("manager.executor.copilotImage"),
                env: values.map("manager.executor.env"),
            },
            kubernetes: Kubernetes {
                namespace: values.required("manager.kubernetes.namespace"),
                kubeconfig: values.text("manager.kubernetes.kubeconfig").map(PathBuf::from),
                mode: match values.required("manager.kubernetes.mode").as_str() {
                    "cluster" => Mode::Cluster,
                    "embedded" => Mode::Embedded,
                    _ => Mode::Auto,
                },
                embedded_port: values.port("manager.kubernetes.embedded.port"),
                embedded_dir: values
                    .text("manager.kubernetes.embedded.dir")
                    .map_or_else(beside, PathBuf::from),
                allow_remote: values.is_on("manager.kubernetes.embedded.allowRemote"),
            },
            database_file: PathBuf::from(values.required("database.sqlite.file")),
            storage_dir,
            logger: Logger {
                level: u8::try_from(values.number("logger.level")).unwrap_or(u8::MAX),
                show_source: values.is_on("logger.show-source"),
                json: values.required("logger.format") == "json",
            },
            request_max_bytes: size(values.number("limits.requestMaxBytes")),
            connections_max: size(values.number("limits.connectionsMax")),
            warnings: values.warnings,
        })
    }
}

impl Listen {
    /// The addresses to try, in order; only loopback ones when `loopback_only`.
    ///
    /// # Errors
    /// A sentence when the host is no address and cannot be found.
    pub fn addresses(&self, loopback_only: bool) -> Result<Vec<SocketAddr>, String> {
        let found: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| {
                format!("the host '{}' of {} cannot be found: {error}", self.host, self.port_key)
            })?
            .collect();
        if loopback_only && !found.iter().all(|address| address.ip().is_loopback()) {
            return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)]);
        }
        Ok(found)
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Vec<(String, String)> {
        Vec::new()
    }

    #[test]
    fn the_published_file_says_the_defaults() {
        let published =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../config.yaml")).unwrap();
        assert_eq!(Config::parse(&published, none()), Config::parse("", none()));
    }

    #[test]
    fn without_a_file_everything_has_its_documented_default() {
        let config = Config::parse("", none()).unwrap();
        assert_eq!((config.runs.host.as_str(), config.runs.port), ("0.0.0.0", 8090));
        assert_eq!((config.queue.port, config.health.port), (8089, 8081));
        assert_eq!(config.kubernetes.mode, Mode::Auto);
        assert_eq!(config.kubernetes.namespace, "flyte");
        assert_eq!(config.database_file, PathBuf::from("flyte.db"));
        assert_eq!(config.kubernetes.embedded_dir, PathBuf::from("flyte-data.cluster"));
    }

    #[test]
    fn embedded_mode_listens_on_loopback_whatever_the_host() {
        let listen = |host: &str| Listen { host: host.into(), port: 7, port_key: "k" };
        let text = |host: &str, only| format!("{:?}", listen(host).addresses(only).unwrap());
        assert_eq!(text("0.0.0.0", true), "[127.0.0.1:7]");
        assert_eq!(text("0.0.0.0", false), "[0.0.0.0:7]");
        assert_eq!(text("::1", true), "[[::1]:7]");
        assert_eq!(text("10.1.2.3", true), "[127.0.0.1:7]");
        assert!(
            listen("not a host").addresses(false).unwrap_err().contains("'not a host' of k cannot be found")
        );
    }
}
