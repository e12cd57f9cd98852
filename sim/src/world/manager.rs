//! The manager of a world: the real store, executor and services, put together, killed and started again.

use super::Parts;
use crate::rng::Rng;
use axum::Router;
use flyte_core::plan;
use flyte_kubernetes::{Executor, Options as ExecutorOptions, Settings, ensure_namespace, install_crd};
use flyte_rpc::{Defaults, Limits, Services, router};
use flyte_store::{Options as StoreOptions, Store};
use futures::FutureExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A manager that is up.
#[derive(Clone)]
pub struct Manager {
    pub store: Store,
    pub router: Router,
    /// Cancelled when the process dies: calls that are under way break off.
    pub dead: CancellationToken,
}

/// What a cluster has before any manager: the definition and the namespace.
pub async fn prepare(parts: &Parts) {
    let client = parts.server.client("flyte");
    while install_crd(&client, "flyte").await.is_err() || ensure_namespace(&client, "flyte").await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Starts the manager, kills it as often as the faults say, and starts it again whenever it is not up.
pub async fn supervise(parts: Parts) {
    let mut rng = parts.rng.child("supervisor");
    let mut deaths: Vec<u64> = (0..parts.faults.crashes).map(|_| rng.below(super::STORM_S * 1_000)).collect();
    deaths.sort_unstable();
    let began = tokio::time::Instant::now();
    let mut deaths = deaths.into_iter().peekable();
    loop {
        match start(&parts, &mut rng).await {
            Ok((manager, executor)) => {
                parts.trace.note("the manager is up");
                set(&parts, Some(manager.clone()));
                let death = deaths.peek().map(|at_ms| began + Duration::from_millis(*at_ms));
                let killed = async {
                    match death {
                        Some(at) => tokio::time::sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    reason = manager.store.failed() => parts.trace.note(&format!("the manager gives up: {reason}")),
                    () = killed => {
                        deaths.next();
                        parts.trace.note("the manager is killed");
                    }
                }
                set(&parts, None);
                manager.dead.cancel();
                executor.abort();
                if rng.chance(parts.faults.power_loss) {
                    parts.disk.power_loss();
                } else {
                    parts.disk.process_crash();
                }
            }
            Err(error) => {
                parts.trace.note(&format!("the manager does not start: {error}"));
                parts.disk.process_crash();
            }
        }
        tokio::time::sleep(Duration::from_millis(rng.between(100, 60_000))).await;
    }
}

fn set(parts: &Parts, manager: Option<Manager>) {
    *parts.manager.lock().unwrap_or_else(PoisonError::into_inner) = manager;
}

async fn start(parts: &Parts, rng: &mut Rng) -> Result<(Manager, tokio::task::JoinHandle<()>), String> {
    let store = Store::open(StoreOptions {
        io: Some(parts.disk.mount()),
        clock: parts.clock.clone(),
        watch_buffer: rng.between(2, 64) as usize,
        batch_max: rng.between(1, 128) as usize,
        ..StoreOptions::file(parts.disk.path())
    })
    .await
    .map_err(|error| error.to_string())?;
    let client = parts.server.client("flyte");
    let executor = Executor::new(ExecutorOptions {
        client: client.clone(),
        namespace: "flyte".into(),
        store: store.clone(),
        objects: parts.objects.clone(),
        settings: Settings {
            max_concurrent: rng.between(1, 32) as usize,
            plan: plan::Settings { ttl_ms: 60_000, ..plan::Settings::default() },
            ..Settings::default()
        },
    });
    let dead = CancellationToken::new();
    let names = Mutex::new(Rng::new(rng.draw()));
    let services = Services {
        store: store.clone(),
        objects: parts.objects.clone(),
        random: Arc::new(move |buffer: &mut [u8]| {
            names.lock().unwrap_or_else(PoisonError::into_inner).fill(buffer)
        }),
        readiness: Arc::new(|| async { Ok(()) }.boxed()),
        limits: Limits { page: 7, ..Limits::default() },
        defaults: Defaults::default(),
        shutdown: dead.clone(),
        link_key: [7; 32],
        uploads: Arc::new(Semaphore::new(1)),
        logs: None,
    };
    let manager = Manager { store, router: router(services), dead: dead.clone() };
    let running = tokio::spawn(async move { executor.run(dead).await });
    Ok((manager, running))
}
