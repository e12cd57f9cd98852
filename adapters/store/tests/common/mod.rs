//! Requests for the tests of the store.
#![allow(dead_code, reason = "each test file uses a part")]

use flyte_core::pod::{PodRef, Progress};
use flyte_core::{Input, Kind, NewAction, Phase, Policy, RunId, Timestamp};
use flyte_store::{ActionMeta, Clock, NewChild, NewRun, Options, Spec, SpecKind, Store, TaskId};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub const START_MS: i64 = 1_772_366_400_000;

/// A clock that tells a second later each time it is asked.
pub fn clock() -> Clock {
    let ticks = AtomicI64::new(0);
    Clock::from_fn(move || Timestamp::from_ms(START_MS + 1_000 * ticks.fetch_add(1, Ordering::Relaxed)))
}

pub fn options(dir: &Path) -> Options {
    Options { clock: clock(), ..Options::file(dir.join("flyte.db").to_str().unwrap()) }
}

pub async fn open(dir: &Path) -> Store {
    Store::open(options(dir)).await.unwrap()
}

pub fn run_id(name: &str) -> RunId {
    RunId::new("local", "flytesnacks", "development", name)
}

fn spec(kind: SpecKind, bytes: &[u8]) -> Spec {
    Spec { digest: format!("{kind:?}-{bytes:?}"), kind, bytes: bytes.into() }
}

pub fn new_action(run: &RunId, name: &str, parent: Option<&str>) -> NewAction {
    NewAction {
        id: run.action(name),
        parent: parent.map(str::to_string),
        kind: Kind::Task,
        group: String::new(),
        input_uri: format!("mem://x/{}/{name}/inputs.pb", run.name),
        run_output_base: format!("mem://x/{}", run.name),
        policy: Policy::default(),
        recorded: None,
        request_digest: format!("request of {name}"),
    }
}

pub fn meta(task: &str) -> ActionMeta {
    ActionMeta {
        task: Some(TaskId {
            org: "local".into(),
            project: "flytesnacks".into(),
            domain: "development".into(),
            name: task.into(),
            version: "v1".into(),
        }),
        short_name: "main".into(),
        ..ActionMeta::default()
    }
}

pub fn new_run(id: &RunId) -> NewRun {
    NewRun {
        root: new_action(id, "a0", None),
        meta: meta("hello.main"),
        spec: spec(SpecKind::Task, b"template"),
        run_spec: Arc::from(&b"run spec"[..]),
        labels: BTreeMap::from([("team".to_string(), "blue".to_string())]),
        source: 2,
    }
}

pub fn new_child(run: &RunId, name: &str, parent: &str) -> NewChild {
    NewChild {
        action: new_action(run, name, Some(parent)),
        meta: meta("hello.child"),
        spec: spec(SpecKind::Task, b"template of a child"),
    }
}

pub fn pod() -> PodRef {
    PodRef { name: "p".into(), uid: "u".into() }
}

pub fn created() -> Input {
    Input::PodCreated { attempt: 1, pod: pod() }
}

pub fn running() -> Input {
    Input::Progressed {
        attempt: 1,
        pod_uid: "u".into(),
        progress: Progress { phase: Phase::Running, message: String::new(), running_at: None },
    }
}

pub fn succeeded() -> Input {
    Input::AttemptEnded { attempt: 1, started_at: None, finished_at: None, failure: None }
}

pub fn abort() -> Input {
    Input::Abort { reason: "enough".into(), by: "me".into() }
}
