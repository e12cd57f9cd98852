//! The services, one file each, and what they are given.

mod actions;
mod cluster;
mod data_proxy;
mod queue;
mod run;
mod run_logs;
mod state;

use crate::logs::LogSource;
use crate::wire::registry::Registry;
use flyte_objects::Objects;
use flyte_store::Store;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Fills a buffer with bytes that nobody can guess.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Whether everything that the services need is there; an error is a sentence.
pub type Readiness = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// What the services work with.
#[derive(Clone)]
pub struct Services {
    /// Runs and actions.
    pub store: Store,
    /// Inputs, outputs and logs.
    pub objects: Objects,
    /// For names of runs and places of inputs.
    pub random: Random,
    /// The readiness check.
    pub readiness: Readiness,
    /// Bounds of requests and answers.
    pub limits: Limits,
    /// What applies where a request says nothing.
    pub defaults: Defaults,
    /// Cancelled when the server stops: streams end with UNAVAILABLE.
    pub shutdown: CancellationToken,
    /// The key that links for uploads and downloads are signed with; random, new at each start.
    pub link_key: [u8; 32],
    /// How many uploads are taken at a time.
    pub uploads: Arc<Semaphore>,
    /// Logs of running Pods; without it only archived logs are served.
    pub logs: Option<Arc<dyn LogSource>>,
}

/// Bounds of requests and answers.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most bytes of a request, before and after decompression.
    pub message_max_bytes: usize,
    /// The most bytes of an inputs or outputs document that is read for an answer.
    pub data_max_bytes: u64,
    /// The most bytes of an upload or a download over plain HTTP.
    pub upload_max_bytes: u64,
    /// The most bytes of an archived log that is read for an answer.
    pub log_max_bytes: u64,
    /// The most actions in one answer of a watch's snapshot, and the page size of reads behind streams.
    pub page: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_max_bytes: 10 * 1024 * 1024,
            data_max_bytes: 10 * 1024 * 1024,
            upload_max_bytes: 256 * 1024 * 1024,
            log_max_bytes: 64 * 1024 * 1024,
            page: 500,
        }
    }
}

/// What applies where a request says nothing.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Further attempts after failures of the cluster's.
    pub system_retries: u32,
    /// The wait before the second attempt.
    pub backoff_base_ms: u64,
    /// The longest wait between two attempts.
    pub backoff_cap_ms: u64,
    /// The namespace that Pods are created in, for log contexts.
    pub namespace: String,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { system_retries: 3, backoff_base_ms: 1_000, backoff_cap_ms: 60_000, namespace: "flyte".into() }
    }
}

/// Registers every method that is served.
pub fn register(registry: &mut Registry) {
    run::register(registry);
    state::register(registry);
    queue::register(registry);
    actions::register(registry);
    cluster::register(registry);
    data_proxy::register(registry);
    run_logs::register(registry);
}
