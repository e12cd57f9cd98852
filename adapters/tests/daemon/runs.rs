//! Runs from request to end.

use crate::client::{call, run_id, runs, shell};
use crate::process::{Daemon, PATIENCE, processes_with};
use flyte_core::Phase;
use flyte_proto::{common, workflow as w};
use serde_json::json;
use std::time::Duration;

fn id(name: &str) -> common::RunIdentifier {
    common::RunIdentifier {
        org: String::new(),
        project: "flytesnacks".into(),
        domain: "development".into(),
        name: name.into(),
    }
}

/// The phases that a watcher over gRPC sees until the run has ended.
async fn phases(port: u16, name: &str) -> Vec<Phase> {
    let watch = async {
        let request = w::WatchRunDetailsRequest { run_id: Some(id(name)) };
        let mut stream = runs(port).await.watch_run_details(request).await.unwrap().into_inner();
        let mut seen = Vec::new();
        while let Some(message) = stream.message().await.unwrap() {
            let action = message.details.unwrap().action.unwrap();
            let phase = Phase::from_number(action.status.unwrap().phase).unwrap();
            if seen.last() != Some(&phase) {
                seen.push(phase);
            }
        }
        seen
    };
    tokio::time::timeout(PATIENCE, watch).await.expect("the run does not end")
}

/// Waits until the run is in a phase.
async fn until(port: u16, name: &str, phase: &str) {
    let wait = async {
        loop {
            let (_, details) = call(port, "GetRunDetails", &json!({"runId": run_id(name)})).await;
            if details["details"]["action"]["status"]["phase"] == phase {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{name} does not become {phase}"));
}

#[tokio::test]
async fn a_run_is_created_watched_to_its_end_and_listed() {
    let mut daemon = Daemon::new();
    daemon.start().await;
    let (code, created) = call(daemon.port, "CreateRun", &shell("hello", "echo hi", 0)).await;
    assert_eq!((code, &created["run"]["action"]["id"]["name"]), (200, &json!("a0")), "{created}");
    let seen = phases(daemon.port, "hello").await;
    assert_eq!(seen.last(), Some(&Phase::Succeeded));
    assert!(seen.is_sorted_by_key(|phase| phase.rank()), "{seen:?}");

    let (code, failed) = call(daemon.port, "CreateRun", &shell("bad", "echo no; exit 7", 1)).await;
    assert_eq!(code, 200, "{failed}");
    assert_eq!(phases(daemon.port, "bad").await.last(), Some(&Phase::Failed));
    let (_, details) = call(daemon.port, "GetRun", &json!({"runId": run_id("bad")})).await;
    let action = &details["details"]["action"];
    assert_eq!(action["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(action["errorInfo"]["kind"], "KIND_USER");
    assert!(action["errorInfo"]["message"].as_str().unwrap().contains('7'), "{action}");

    let list = json!({"projectId": {"organization": "", "name": "flytesnacks", "domain": "development"}});
    let (code, listed) = call(daemon.port, "ListRuns", &list).await;
    let listed: Vec<(&str, &str)> = listed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["action"])
        .map(|root| (root["id"]["run"]["name"].as_str().unwrap(), root["status"]["phase"].as_str().unwrap()))
        .collect();
    assert_eq!(
        (code, listed),
        (200, vec![("bad", "ACTION_PHASE_FAILED"), ("hello", "ACTION_PHASE_SUCCEEDED")])
    );

    let (code, again) = call(daemon.port, "CreateRun", &shell("hello", "echo hi", 0)).await;
    assert_eq!((code, &again["code"]), (409, &json!("already_exists")));
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn an_aborted_run_leaves_no_process_of_its_task() {
    let mut daemon = Daemon::new();
    daemon.start().await;
    let marker = daemon.path("marker").display().to_string();
    let command = format!("echo started; MARKER={marker} sleep 600 & MARKER={marker} sleep 600; wait");
    call(daemon.port, "CreateRun", &shell("sleeper", &command, 3)).await;
    until(daemon.port, "sleeper", "ACTION_PHASE_RUNNING").await;
    assert!(!processes_with(&marker).is_empty());
    let abort = json!({"runId": run_id("sleeper"), "reason": "enough"});
    assert_eq!(call(daemon.port, "AbortRun", &abort).await.0, 200);
    let gone = async {
        while !processes_with(&marker).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("processes of the aborted task go on");
    let (_, details) = call(daemon.port, "GetRunDetails", &json!({"runId": run_id("sleeper")})).await;
    assert_eq!(details["details"]["action"]["status"]["phase"], "ACTION_PHASE_ABORTED");
    assert_eq!(details["details"]["action"]["abortInfo"]["reason"], "enough");
    // Once more is no error, and what is not there is one.
    assert_eq!(call(daemon.port, "AbortRun", &abort).await.0, 200);
    assert_eq!(call(daemon.port, "AbortRun", &json!({"runId": run_id("none")})).await.0, 404);
}

#[tokio::test]
async fn a_killed_manager_loses_nothing_and_its_runs_end_after_the_next_start() {
    let mut daemon = Daemon::new();
    daemon.start().await;
    let gate = daemon.path("gate").display().to_string();
    let first = daemon.path("first").display().to_string();
    // The first try waits for ever; the next one, after the restart, goes through.
    let command = format!(
        "if [ -e {first} ]; then exit 0; fi; touch {first}; while [ ! -e {gate} ]; do sleep 0.1; done"
    );
    for name in ["one", "two", "three"] {
        assert_eq!(call(daemon.port, "CreateRun", &shell(name, &command, 0)).await.0, 200);
    }
    until(daemon.port, "one", "ACTION_PHASE_RUNNING").await;
    daemon.kill();
    daemon.start().await;
    std::fs::write(&gate, "").unwrap();
    for name in ["one", "two", "three"] {
        assert_eq!(phases(daemon.port, name).await.last(), Some(&Phase::Succeeded), "{name}");
    }
    let (_, details) = call(daemon.port, "GetRunDetails", &json!({"runId": run_id("one")})).await;
    let attempts = details["details"]["action"]["attempts"].as_array().unwrap().clone();
    assert_eq!(
        attempts.len(),
        2,
        "the lost process was a failure of the system's, which has a budget of its own"
    );
    assert_eq!(attempts[0]["errorInfo"]["kind"], "KIND_SYSTEM");
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn a_stop_ends_streams_and_keeps_runs_for_the_next_start() {
    let mut daemon = Daemon::new();
    daemon.start().await;
    let gate = daemon.path("gate").display().to_string();
    let command = format!("while [ ! -e {gate} ]; do sleep 0.1; done");
    call(daemon.port, "CreateRun", &shell("waiter", &command, 0)).await;
    until(daemon.port, "waiter", "ACTION_PHASE_RUNNING").await;
    let request = w::WatchRunDetailsRequest { run_id: Some(id("waiter")) };
    let mut stream = runs(daemon.port).await.watch_run_details(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    let (status, end) = tokio::join!(daemon.terminate(), async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status.code()),
            }
        }
    });
    assert!(status.success());
    assert_eq!(end, Some(tonic::Code::Unavailable));
    std::fs::write(&gate, "").unwrap();
    daemon.start().await;
    assert_eq!(phases(daemon.port, "waiter").await.last(), Some(&Phase::Succeeded));
}
