//! Streams have no gaps, never go back, and end as they should.

mod common;

use common::*;
use flyte_core::pod::{PodRef, Progress};
use flyte_core::{ActionId, Input, Phase, RunId};
use flyte_proto::workflow::run_service_client::RunServiceClient;
use flyte_proto::workflow::state_service_client::StateServiceClient;
use flyte_proto::{common as c, workflow as w};
use serde_json::json;

fn root(run: &str) -> ActionId {
    RunId::new("local", "p", "d", run).root()
}

fn wire(run: &str, action: &str) -> c::ActionIdentifier {
    let run =
        c::RunIdentifier { org: String::new(), project: "p".into(), domain: "d".into(), name: run.into() };
    c::ActionIdentifier { run: Some(run), name: action.into() }
}

fn inputs() -> [Input; 3] {
    [
        Input::PodCreated { attempt: 1, pod: PodRef { name: "p".into(), uid: "u".into() } },
        Input::Progressed {
            attempt: 1,
            pod_uid: "u".into(),
            progress: Progress { phase: Phase::Running, message: String::new(), running_at: None },
        },
        Input::AttemptEnded { attempt: 1, started_at: None, finished_at: None, failure: None },
    ]
}

async fn finish(server: &Server, id: &ActionId) {
    for input in inputs() {
        server.store.apply(id, input).await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_of_one_action_ends_cleanly_after_its_end_and_only_then() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let mut client = RunServiceClient::new(server.channel());
    let request = || w::WatchActionDetailsRequest { action_id: Some(wire("r", "a0")) };
    let mut stream = client.watch_action_details(request()).await.unwrap().into_inner();
    let mut seen = Vec::new();
    seen.push(stream.message().await.unwrap().unwrap().details.unwrap().status.unwrap().phase);
    finish(&server, &root("r")).await;
    while let Some(message) = stream.message().await.unwrap() {
        seen.push(message.details.unwrap().status.unwrap().phase);
    }
    assert_eq!((seen.first(), seen.last()), (Some(&1), Some(&5)), "{seen:?}");
    assert!(seen.is_sorted());
    let mut late = client.watch_action_details(request()).await.unwrap().into_inner();
    assert_eq!(late.message().await.unwrap().unwrap().details.unwrap().status.unwrap().phase, 5);
    assert!(late.message().await.unwrap().is_none());
}

/// What a parent is told: names with phases, and where the sentinel stood.
async fn told(stream: &mut tonic::Streaming<w::WatchResponse>, messages: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..messages {
        all.push(match stream.message().await.unwrap().unwrap().message.unwrap() {
            w::watch_response::Message::ActionUpdate(update) => {
                format!("{} {}", update.action_id.unwrap().name, update.phase)
            }
            w::watch_response::Message::ControlMessage(_) => "sentinel".to_string(),
        });
    }
    all
}

#[tokio::test]
async fn a_parent_hears_of_all_children_then_the_sentinel_then_of_changes() {
    let server = Server::start().await;
    for run in ["r", "other"] {
        server.ok("workflow.RunService/CreateRun", &create(run)).await;
        for child in ["b", "c"] {
            server.ok("workflow.QueueService/EnqueueAction", &enqueue(run, child)).await;
        }
    }
    let request = w::WatchRequest { filter: Some(w::watch_request::Filter::ParentActionId(wire("r", "a0"))) };
    let mut stream = StateServiceClient::new(server.channel()).watch(request).await.unwrap().into_inner();
    assert_eq!(told(&mut stream, 3).await, ["b 1", "c 1", "sentinel"]);
    // Case 54: children of the same name under another root of the same name are nobody else's news.
    finish(&server, &RunId::new("local", "p", "d", "other").action("b")).await;
    server.ok("workflow.QueueService/EnqueueAction", &enqueue("r", "d")).await;
    finish(&server, &RunId::new("local", "p", "d", "r").action("c")).await;
    let rest = told(&mut stream, 4).await;
    assert_eq!((rest[0].as_str(), rest[3].as_str()), ("d 1", "c 5"), "{rest:?}");
}

#[tokio::test]
async fn case_58_a_reader_that_was_too_slow_still_hears_the_end_of_everything() {
    let server = Server::with(|options| options.watch_buffer = 2).await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let request = w::WatchRequest { filter: Some(w::watch_request::Filter::ParentActionId(wire("r", "a0"))) };
    let mut stream = StateServiceClient::new(server.channel()).watch(request).await.unwrap().into_inner();
    assert_eq!(told(&mut stream, 1).await, ["sentinel"]);
    for n in 0..50 {
        let name = format!("c{n}");
        server.ok("workflow.QueueService/EnqueueAction", &enqueue("r", &name)).await;
        finish(&server, &RunId::new("local", "p", "d", "r").action(name)).await;
    }
    let mut ended = std::collections::BTreeSet::new();
    while ended.len() < 50 {
        let line = told(&mut stream, 1).await.remove(0);
        if let Some(name) = line.strip_suffix(" 5") {
            ended.insert(name.to_string());
        }
    }
}

#[tokio::test]
async fn the_actions_of_a_run_are_told_with_the_counts_of_their_children() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    server.ok("workflow.QueueService/EnqueueAction", &enqueue("r", "b")).await;
    let request = w::WatchActionsRequest {
        run_id: wire("r", "a0").run,
        filter: vec![c::Filter { field: "PHASE".into(), values: vec!["5".into()], ..c::Filter::default() }],
        enable_run_store: false,
    };
    let mut stream =
        RunServiceClient::new(server.channel()).watch_actions(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap().enriched_actions;
    assert_eq!(first.len(), 2);
    assert_eq!(first[0].children_phase_counts, [(1, 1)].into());
    assert!(first.iter().all(|action| !action.meets_filter));
    finish(&server, &RunId::new("local", "p", "d", "r").action("b")).await;
    loop {
        let batch = stream.message().await.unwrap().unwrap().enriched_actions;
        let parent =
            batch.iter().find(|found| found.action.as_ref().unwrap().id.as_ref().unwrap().name == "a0");
        if parent.is_some_and(|parent| parent.children_phase_counts == [(5, 1)].into()) {
            assert!(batch.iter().any(|found| found.meets_filter));
            break;
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_streams_with_unavailable() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let mut client = RunServiceClient::new(server.channel());
    let request = w::WatchRunsRequest {
        target: Some(w::watch_runs_request::Target::ProjectId(c::ProjectIdentifier {
            organization: String::new(),
            domain: "d".into(),
            name: "p".into(),
        })),
    };
    let mut stream = client.watch_runs(request).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().runs.len(), 1);
    server.shutdown.cancel();
    let status = stream.message().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (tonic::Code::Unavailable, "the server is shutting down; connect again")
    );
}

#[tokio::test]
async fn states_are_put_in_order_and_their_outcome_is_within_the_answer() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let put = async |action: &str, state: &str| {
        let body = json!({"actionId": action_id("r", action), "state": state});
        let answer = server.ok("workflow.StateService/Put", &body).await;
        answer["status"]["code"].as_i64().unwrap_or(0)
    };
    assert_eq!(put("a0", r#"{"phase":"ACTION_PHASE_RUNNING"}"#).await, 0);
    assert_eq!(put("a0", r#"{"phase":"ACTION_PHASE_RUNNING"}"#).await, 0, "the same again is no error");
    assert_eq!(put("a0", r#"{"phase":"QUEUED"}"#).await, 9);
    assert_eq!(put("a0", "nonsense").await, 3);
    assert_eq!(put("none", r#"{"phase":"RUNNING"}"#).await, 5);
    let got = server.ok("workflow.StateService/Get", &json!({"actionId": action_id("r", "a0")})).await;
    assert_eq!(got["state"], r#"{"phase":"ACTION_PHASE_RUNNING"}"#);
}

#[tokio::test]
async fn case_40_an_action_that_is_enqueued_again_is_no_error_and_another_under_its_name_is() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let body = enqueue("r", "c");
    server.ok("workflow.QueueService/EnqueueAction", &body).await;
    server.ok("workflow.QueueService/EnqueueAction", &body).await;
    let mut other = body.clone();
    other["inputUri"] = json!("mem://x/other");
    assert_eq!(server.fails("workflow.QueueService/EnqueueAction", &other).await.0, "already_exists");
    let trace = json!({
        "actionId": action_id("r", "t"), "parentActionName": "a0", "inputUri": "mem://x/i", "runOutputBase": "mem://x/o",
        "trace": {"name": "step", "phase": "ACTION_PHASE_SUCCEEDED", "spec": {}, "outputs": {"outputUri": "mem://x/o/t/outputs.pb"}},
    });
    server.ok("workflow.QueueService/EnqueueAction", &trace).await;
    let details =
        server.ok("workflow.RunService/GetActionDetails", &json!({"actionId": action_id("r", "t")})).await;
    assert_eq!(details["details"]["status"]["phase"], "ACTION_PHASE_SUCCEEDED");
    server.ok("workflow.QueueService/AbortQueuedRun", &json!({"runId": run_id("r")})).await;
    let (code, message) = server.fails("workflow.QueueService/EnqueueAction", &enqueue("r", "late")).await;
    assert_eq!(
        (code.as_str(), message.contains("already ended as ABORTED")),
        ("failed_precondition", true),
        "{message}"
    );
}
