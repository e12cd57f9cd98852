//! One world: clients, the manager over a disk, the cluster with its nodes, and faults between them, on one thread under
//! tokio's paused clock.

mod clients;
mod manager;

use crate::disk::Disk;
use crate::entropy;
use crate::faults::{Faults, Fired};
use crate::kubelet::Kubelet;
use crate::oracle::Oracle;
use crate::rng::Rng;
use flyte_core::Timestamp;
use flyte_embedded::api_server::{ApiServer, Interceptor, Options as ServerOptions, Refused, RequestInfo};
use flyte_objects::Objects;
use flyte_store::Clock;
use futures::FutureExt;
use futures::future::BoxFuture;
use manager::Manager;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long faults last.
const STORM_S: u64 = 600;
/// How long everything has to come to rest afterwards, in simulated time.
const CALM_S: u64 = 4 * 3_600;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// The faults; `None` are those of the seed.
    pub faults: Option<Faults>,
    /// How many runs are created.
    pub runs: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// A hash of everything that happened, with its time.
    pub hash: u64,
    /// What must not have been.
    pub violations: Vec<String>,
    /// How often each fault has happened.
    pub fired: BTreeMap<&'static str, u64>,
    /// How many requests the API server has seen.
    pub requests: u64,
    /// How many Pods there were.
    pub pods: u64,
    /// How many messages watchers have got.
    pub streamed: u64,
    /// How long it took in simulated seconds.
    pub simulated_s: u64,
}

/// A log of what happens, as a hash.
#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<(u64, u64)>>);

impl Trace {
    /// Something has happened now.
    pub fn note(&self, what: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        for byte in entropy::elapsed_ns().to_le_bytes().into_iter().chain(what.bytes()) {
            state.0 = (state.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        tracing::trace!(at_ms = entropy::elapsed_ns() / 1_000_000, "{what}");
    }

    fn read(&self) -> (u64, u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that parts of a world share.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    pub(crate) fired: Fired,
    pub(crate) trace: Trace,
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) server: ApiServer,
    pub(crate) objects: Objects,
    pub(crate) disk: Disk,
    pub(crate) clock: Clock,
    /// Whether faults still happen.
    pub(crate) storm: Arc<std::sync::atomic::AtomicBool>,
    /// The manager that is up; `None` while there is none.
    pub(crate) manager: Arc<Mutex<Option<Manager>>>,
}

impl Parts {
    pub(crate) fn is_storm(&self) -> bool {
        self.storm.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn up(&self) -> Option<Manager> {
        self.manager.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs a world on a thread of its own, so that whatever is seeded by thread begins anew.
pub fn run(options: Options) -> Outcome {
    let seed = options.seed;
    let (sender, receiver) = std::sync::mpsc::channel();
    #[allow(
        clippy::disallowed_methods,
        reason = "each world has a thread of its own, and nothing else runs on it"
    )]
    let thread = std::thread::Builder::new().name(format!("world-{seed}")).spawn(move || {
        entropy::enter(seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        if let Ok(runtime) = runtime {
            let outcome = runtime.block_on(async {
                entropy::begin();
                simulate(options).await
            });
            let _ = sender.send(outcome);
            runtime.shutdown_background();
        }
    });
    let panicked = |why: String| Outcome {
        seed,
        hash: 0,
        violations: vec![format!("M4: {why}")],
        fired: BTreeMap::new(),
        requests: 0,
        pods: 0,
        streamed: 0,
        simulated_s: 0,
    };
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(())) => receiver.recv().unwrap_or_else(|_| panicked("the world could not be made".into())),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            panicked(text.unwrap_or_else(|| "a panic".into()))
        }
        Err(error) => panicked(error.to_string()),
    }
}

async fn simulate(options: Options) -> Outcome {
    let rng = Rng::new(options.seed);
    let faults = options.faults.unwrap_or_else(|| Faults::of(&rng));
    let clock = Clock::from_fn(|| Timestamp::from_ms(entropy::wall_ms()));
    let server_rng = Mutex::new(rng.child("api server"));
    let server = ApiServer::new(ServerOptions {
        now: Arc::new(|| Timestamp::from_ms(entropy::wall_ms())),
        random: Arc::new(move |buffer| {
            server_rng.lock().unwrap_or_else(PoisonError::into_inner).fill(buffer)
        }),
        auto_bind: Some("node".into()),
        event_log_max: 4_096,
        secret: None,
    });
    let parts = Parts {
        disk: Disk::new(rng.child("disk")),
        rng,
        faults: faults.clone(),
        fired: Fired::default(),
        trace: Trace::default(),
        oracle: Arc::default(),
        server: server.clone(),
        objects: Objects::in_memory("mem://sim"),
        clock,
        storm: Arc::new(true.into()),
        manager: Arc::default(),
    };
    server.set_interceptor(Arc::new(Weather {
        parts: parts.clone(),
        rng: Mutex::new(parts.rng.child("weather")),
    }));
    manager::prepare(&parts).await;

    let kubelet = Kubelet::new(
        server.clone(),
        parts.objects.clone(),
        parts.rng.child("kubelet"),
        faults.clone(),
        parts.fired.clone(),
        parts.oracle.clone(),
    );
    let tasks = [
        tokio::spawn(kubelet.run()),
        tokio::spawn(manager::supervise(parts.clone())),
        tokio::spawn(chaos(parts.clone())),
    ];
    let clients = clients::start(&parts, options.runs);
    tokio::time::sleep(Duration::from_secs(STORM_S)).await;
    calm(&parts);
    let rest = tokio::time::timeout(Duration::from_secs(CALM_S), clients::settled(&parts, clients)).await;
    if rest.is_err() {
        parts.trace.note("the world did not come to rest");
    }
    clients::judge(&parts).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let (violations, pods, streamed) = parts.oracle.report();
    let (hash, requests) = parts.trace.read();
    let mut fired = parts.fired.all();
    fired.extend(parts.disk.fired());
    Outcome {
        seed: options.seed,
        hash,
        violations,
        fired,
        requests,
        pods,
        streamed,
        simulated_s: entropy::elapsed_ns() / 1_000_000_000,
    }
}

/// Ends all faults.
fn calm(parts: &Parts) {
    parts.storm.store(false, std::sync::atomic::Ordering::Relaxed);
    parts.disk.set_errors(0, 0);
    parts.disk.set_full(false);
    parts.disk.set_lies(false);
    parts.trace.note("the storm is over");
}

/// What happens to the world as a whole.
async fn chaos(parts: Parts) {
    let mut rng = parts.rng.child("chaos");
    parts.disk.set_errors(parts.faults.disk_write_errors, parts.faults.disk_sync_errors);
    parts.disk.set_lies(parts.faults.lying_disk);
    let mut plan: Vec<(u64, u8)> = Vec::new();
    let mut add = |count: u64, kind: u8, rng: &mut Rng| {
        plan.extend((0..count).map(|_| (rng.below(STORM_S * 1_000), kind)));
    };
    let every = parts.faults.watch_cut_every_s;
    add(STORM_S.checked_div(every).unwrap_or(0), 0, &mut rng);
    add(parts.faults.disk_full, 1, &mut rng);
    add(parts.faults.clock_jumps, 2, &mut rng);
    add(parts.faults.strangers, 3, &mut rng);
    plan.sort_unstable();
    let began = tokio::time::Instant::now();
    for (at_ms, kind) in plan {
        tokio::time::sleep_until(began + Duration::from_millis(at_ms)).await;
        match kind {
            0 => {
                parts.fired.note("F30 watches cut and the past forgotten");
                parts.server.force_compact();
                parts.server.close_watches();
            }
            1 => {
                parts.disk.set_full(true);
                tokio::time::sleep(Duration::from_millis(rng.between(100, 20_000))).await;
                parts.disk.set_full(false);
            }
            2 => {
                parts.fired.note("F14 wall clock jumps");
                let ms = rng.between(0, 7_200_000) as i64 - 3_600_000;
                entropy::skew(ms);
            }
            _ => stranger(&parts, &mut rng).await,
        }
    }
}

/// Somebody deletes one of our objects.
async fn stranger(parts: &Parts, rng: &mut Rng) {
    let (group, plural) = [("flyte.org", "taskactions"), ("", "pods")][rng.below(2) as usize];
    let objects = parts.server.snapshot(group, plural);
    if objects.is_empty() {
        return;
    }
    let object = &objects[rng.below(objects.len() as u64) as usize];
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    parts.fired.note("F36 a stranger deletes");
    parts.trace.note(&format!("a stranger deletes {plural}/{name}"));
    let client = parts.server.client("flyte");
    let params = kube::api::DeleteParams::default();
    if plural == "pods" {
        let _ = kube::Api::<k8s_openapi::api::core::v1::Pod>::namespaced(client, "flyte")
            .delete(name, &params)
            .await;
    } else {
        let _ = kube::Api::<flyte_kubernetes::TaskAction>::namespaced(client, "flyte")
            .delete(name, &params)
            .await;
    }
}

/// Stands before the API server.
struct Weather {
    parts: Parts,
    rng: Mutex<Rng>,
}

impl Weather {
    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn error(&self) -> Refused {
        let errors =
            [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout")];
        let (code, reason) = errors[self.draw(|rng| rng.below(4)) as usize];
        Refused::new(code, reason, "the weather is bad")
    }
}

impl Interceptor for Weather {
    fn before(&self, request: RequestInfo) -> BoxFuture<'static, Option<Refused>> {
        self.parts.trace.note(&format!("{} {}?{}", request.method, request.path, request.query));
        if !self.parts.is_storm() {
            return async { None }.boxed();
        }
        let delay_ms = self.draw(|rng| rng.below(self.parts.faults.api_delay_ms + 1));
        let refused = self.draw(|rng| rng.chance(self.parts.faults.api_refuses)).then(|| {
            self.parts.fired.note("F20 refused before its effect");
            self.error()
        });
        async move {
            if delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            refused
        }
        .boxed()
    }

    fn after(&self, request: RequestInfo) -> BoxFuture<'static, Option<Refused>> {
        let ambiguous = self.parts.is_storm()
            && request.method != "GET"
            && self.draw(|rng| rng.chance(self.parts.faults.api_ambiguous));
        let answer = ambiguous.then(|| {
            self.parts.fired.note("F21 failed after its effect");
            self.error()
        });
        async move { answer }.boxed()
    }
}
