//! The users of a world: they create runs, enqueue children as tasks do, abort, and watch, over gRPC, and try again when
//! requests or answers are lost.

use super::Parts;
use super::manager::Manager;
use crate::rng::Rng;
use flyte_core::{Action, Phase};
use flyte_proto::workflow::queue_service_client::QueueServiceClient;
use flyte_proto::workflow::run_service_client::RunServiceClient;
use flyte_proto::{Raw, common, core as c, task, workflow as w};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

/// Starts all clients; those that are answered at last end by themselves.
pub fn start(parts: &Parts, runs: u64) -> Vec<JoinHandle<()>> {
    (0..runs).map(|number| tokio::spawn(client(parts.clone(), number))).collect()
}

fn id(name: &str) -> common::RunIdentifier {
    common::RunIdentifier { org: String::new(), project: "p".into(), domain: "d".into(), name: name.into() }
}

fn action_id(run: &str, name: &str) -> common::ActionIdentifier {
    common::ActionIdentifier { run: Some(id(run)), name: name.into() }
}

fn spec(retries: u32) -> task::TaskSpec {
    let container = c::Container {
        image: "i".into(),
        args: vec!["run".into(), "{{.outputPrefix}}".into()],
        ..c::Container::default()
    };
    task::TaskSpec {
        task_template: Some(c::TaskTemplate {
            metadata: Some(c::TaskMetadata {
                retries: Some(c::RetryStrategy { retries, ..c::RetryStrategy::default() }),
                ..c::TaskMetadata::default()
            }),
            target: Some(c::task_template::Target::Container(container)),
            ..c::TaskTemplate::default()
        }),
        ..task::TaskSpec::default()
    }
}

/// What came of a call.
enum Answer<T> {
    Ok(T),
    Refused(Status),
    /// Nobody knows whether it had its effect.
    Unknown,
}

/// Calls the manager over a network that loses requests and answers.
async fn call<T, F>(parts: &Parts, rng: &mut Rng, what: &str, call: impl FnOnce(Manager) -> F) -> Answer<T>
where
    F: Future<Output = Result<T, Status>>,
{
    tokio::time::sleep(Duration::from_millis(rng.below(20))).await;
    let storm = parts.is_storm();
    if storm && rng.chance(parts.faults.request_lost) {
        parts.fired.note("F15 request lost");
        return Answer::Unknown;
    }
    let Some(manager) = parts.up() else { return Answer::Unknown };
    let dead = manager.dead.clone();
    let answer = tokio::select! {
        biased;
        () = dead.cancelled() => return Answer::Unknown,
        answer = call(manager) => answer,
    };
    if storm && rng.chance(parts.faults.reply_lost) {
        parts.fired.note("F15 reply lost");
        return Answer::Unknown;
    }
    match answer {
        Ok(answer) => {
            parts.trace.note(&format!("{what}: ok"));
            Answer::Ok(answer)
        }
        Err(status) => {
            parts.trace.note(&format!("{what}: {}", status.code()));
            Answer::Refused(status)
        }
    }
}

async fn client(parts: Parts, number: u64) {
    let mut rng = parts.rng.child(&format!("client {number}"));
    tokio::time::sleep(Duration::from_millis(rng.below(super::STORM_S * 800))).await;
    let name = format!("run-{number}");
    create(&parts, &mut rng, &name).await;
    tokio::spawn(watch(parts.clone(), number, name.clone()));
    if rng.chance(400) {
        children(&parts, &mut rng, &name).await;
    }
    if rng.chance(250) {
        tokio::time::sleep(Duration::from_millis(rng.below(120_000))).await;
        abort(&parts, &mut rng, &name).await;
    }
}

/// Creates a run until it is known that it is there.
async fn create(parts: &Parts, rng: &mut Rng, name: &str) {
    let retries = rng.below(3) as u32;
    let mut tried = false;
    loop {
        let request = w::CreateRunRequest {
            id: Some(w::create_run_request::Id::RunId(id(name))),
            task: Some(w::create_run_request::Task::TaskSpec(Raw::from(spec(retries)))),
            ..w::CreateRunRequest::default()
        };
        let answer = call(parts, rng, &format!("create {name}"), |manager| async move {
            RunServiceClient::new(manager.router).create_run(request).await
        })
        .await;
        match answer {
            Answer::Ok(_) => break,
            Answer::Refused(status) if status.code() == Code::AlreadyExists => {
                if !tried {
                    parts.oracle.violation("S5", format!("run {name} exists before it was asked for"));
                }
                break;
            }
            Answer::Refused(status) => {
                if !matches!(status.code(), Code::Unavailable | Code::ResourceExhausted) {
                    parts.oracle.violation("S13", format!("create {name}: {status}"));
                }
            }
            Answer::Unknown => {}
        }
        tried = true;
        tokio::time::sleep(Duration::from_millis(rng.between(100, 5_000))).await;
    }
    parts.oracle.acknowledged(name);
}

/// Enqueues children under the root, as the task's own process would, for as long as the root goes on.
async fn children(parts: &Parts, rng: &mut Rng, run: &str) {
    for child in 0..rng.between(1, 4) {
        for _ in 0..20 {
            let request = w::EnqueueActionRequest {
                action_id: Some(action_id(run, &format!("c{child}"))),
                parent_action_name: Some("a0".into()),
                input_uri: "mem://sim/in".into(),
                run_output_base: format!("mem://sim/out/{run}"),
                spec: Some(w::enqueue_action_request::Spec::Task(w::TaskAction {
                    spec: Some(Raw::from(spec(1))),
                    ..w::TaskAction::default()
                })),
                ..w::EnqueueActionRequest::default()
            };
            let answer = call(parts, rng, &format!("enqueue {run}/c{child}"), |manager| async move {
                QueueServiceClient::new(manager.router).enqueue_action(request).await
            })
            .await;
            match answer {
                Answer::Ok(_) => break,
                Answer::Refused(status) if status.code() == Code::FailedPrecondition => return,
                Answer::Refused(status)
                    if !matches!(status.code(), Code::Unavailable | Code::ResourceExhausted) =>
                {
                    parts.oracle.violation("S5", format!("enqueue {run}/c{child}: {status}"));
                    return;
                }
                _ => tokio::time::sleep(Duration::from_millis(rng.between(100, 3_000))).await,
            }
        }
    }
}

async fn abort(parts: &Parts, rng: &mut Rng, run: &str) {
    for _ in 0..50 {
        let request = w::AbortRunRequest { run_id: Some(id(run)), reason: Some("enough".into()) };
        let answer = call(parts, rng, &format!("abort {run}"), |manager| async move {
            RunServiceClient::new(manager.router).abort_run(request).await
        })
        .await;
        match answer {
            Answer::Ok(_) => return parts.oracle.aborted(run),
            Answer::Refused(status) if status.code() == Code::NotFound => {
                return parts.oracle.violation("S2", format!("abort {run}: {status}"));
            }
            _ => tokio::time::sleep(Duration::from_millis(rng.between(100, 3_000))).await,
        }
    }
}

/// Watches a run to its end, connecting again whenever the stream breaks; a clean end needs a terminal state (S9).
async fn watch(parts: Parts, number: u64, run: String) {
    for stream in 0.. {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let Some(manager) = parts.up() else { continue };
        let request = w::WatchRunDetailsRequest { run_id: Some(id(&run)) };
        let dead = manager.dead.clone();
        let read = async {
            let mut messages = match RunServiceClient::new(manager.router).watch_run_details(request).await {
                Ok(answer) => answer.into_inner(),
                Err(_) => return false,
            };
            let mut last = Phase::Queued;
            loop {
                match messages.message().await {
                    Ok(Some(message)) => {
                        let status = message
                            .details
                            .and_then(|details| details.action)
                            .and_then(|action| action.status);
                        let Some(status) = status else { continue };
                        last = Phase::from_number(status.phase).unwrap_or(last);
                        parts.oracle.streamed(number * 1_000 + stream, &run, status.attempts, last);
                    }
                    Ok(None) => {
                        if !last.is_terminal() {
                            parts
                                .oracle
                                .violation("S9", format!("the stream of {run} ended cleanly at {last}"));
                        }
                        return true;
                    }
                    Err(status) => {
                        if status.code() == Code::NotFound {
                            parts.oracle.violation("S2", format!("watch {run}: {status}"));
                        }
                        return false;
                    }
                }
            }
        };
        let ended = tokio::select! {
            biased;
            () = dead.cancelled() => false,
            ended = read => ended,
        };
        if ended {
            return;
        }
    }
}

/// Returns when all clients are done and every action has ended and was collected.
pub async fn settled(parts: &Parts, clients: Vec<JoinHandle<()>>) {
    for client in clients {
        let _ = client.await;
    }
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let Some(manager) = parts.up() else { continue };
        match manager.store.in_cluster(0, 1).await {
            Ok(rest) if rest.is_empty() => return,
            _ => drop(observe(parts, &manager).await),
        }
    }
}

/// Shows the oracle what the database has.
async fn observe(parts: &Parts, manager: &Manager) -> BTreeMap<String, Vec<Action>> {
    let mut all = BTreeMap::new();
    for name in parts.oracle.runs() {
        let run = flyte_core::RunId::new(flyte_core::id::DEFAULT_ORG, "p", "d", name.as_str());
        match manager.store.run_actions(&run, 0, 1_000).await {
            Ok(rows) => {
                rows.iter().for_each(|row| parts.oracle.stored(&row.action));
                all.insert(name, rows.iter().map(|row| row.action.clone()).collect());
            }
            Err(error) => parts.oracle.violation("S2", format!("{name} cannot be read: {error}")),
        }
    }
    all
}

/// Judges the world as it is at its end.
pub async fn judge(parts: &Parts) {
    let mut tries = 0;
    let manager = loop {
        if let Some(manager) = parts.up() {
            break manager;
        }
        tries += 1;
        if tries > 1_000 {
            return parts.oracle.violation("L1", "the manager is not up at the end");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    let actions = observe(parts, &manager).await;
    parts.oracle.finished(&actions);
    for (group, plural) in [("flyte.org", "taskactions"), ("", "pods")] {
        let left = parts.server.snapshot(group, plural);
        if !left.is_empty() {
            let names: Vec<_> = left.iter().map(|object| object["metadata"]["name"].to_string()).collect();
            parts.oracle.violation("S4", format!("{plural} are left: {}", names.join(", ")));
        }
    }
    match manager.store.select("PRAGMA integrity_check").await {
        Ok(rows) if rows == [["ok"]] => {}
        other => parts.oracle.violation("S2", format!("integrity_check: {other:?}")),
    }
    // The whole content of the database is part of what has to be the same in every repetition (M1).
    for table in ["runs", "actions", "attempts", "transitions"] {
        if let Ok(rows) = manager.store.select(&format!("SELECT * FROM {table} ORDER BY 1, 2")).await {
            parts.trace.note(&format!("{rows:?}"));
        }
    }
}
