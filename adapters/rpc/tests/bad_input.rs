//! Requests that are wrong: each is answered with its code and the field that is wrong, and leaves nothing behind.

mod common;

use common::*;
use serde_json::{Value, json};

/// The body with something at a path put in, or taken out by null.
fn with(mut body: Value, path: &str, value: Value) -> Value {
    let mut at = &mut body;
    let mut parts: Vec<&str> = path.split('.').collect();
    let last = parts.pop().unwrap();
    for part in parts {
        at = &mut at[part];
    }
    match value {
        Value::Null => drop(at.as_object_mut().unwrap().remove(last)),
        value => at[last] = value,
    }
    body
}

#[tokio::test]
async fn every_malformed_request_is_refused_with_its_code_and_field() {
    const RUN: &str = "workflow.RunService";
    const QUEUE: &str = "workflow.QueueService";
    const STATE: &str = "workflow.StateService";
    const DATA: &str = "dataproxy.DataProxyService";
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("there")).await;
    let create = create("new");
    let enqueue = enqueue("there", "c");
    let list = json!({"projectId": {"organization": "", "domain": "d", "name": "p"}});
    let filter = |filter: Value| with(list.clone(), "request", json!({"filters": [filter]}));
    let trace = with(with(enqueue.clone(), "task", Value::Null), "trace", json!({"name": "t", "spec": {}}));
    let upload = json!({"project": "p", "domain": "d", "contentMd5": "AAAAAAAAAAAAAAAAAAAAAA=="});
    let invalid = "invalid_argument";
    let long = "x".repeat(64);
    let rows: Vec<(String, Value, &str, &str)> = [
        // CreateRun
        (RUN, "CreateRun", json!({}), invalid, "id"),
        (RUN, "CreateRun", with(create.clone(), "runId", Value::Null), invalid, "id"),
        (RUN, "CreateRun", with(create.clone(), "taskSpec", Value::Null), invalid, "task"),
        (RUN, "CreateRun", with(create.clone(), "runId.name", json!("")), invalid, "run_id.name"),
        (RUN, "CreateRun", with(create.clone(), "runId.name", json!("1run")), invalid, "run_id.name"),
        (RUN, "CreateRun", with(create.clone(), "runId.name", json!("my.run")), invalid, "run_id.name"),
        (RUN, "CreateRun", with(create.clone(), "runId.name", json!("Run_A")), invalid, "run_id.name"),
        (RUN, "CreateRun", with(create.clone(), "runId.name", json!("a-")), invalid, "run_id.name"),
        (RUN, "CreateRun", with(create.clone(), "runId.name", json!("größe")), invalid, "run_id.name"),
        (RUN, "CreateRun", with(create.clone(), "runId.name", json!("a".repeat(31))), invalid, "run_id.name"),
        (RUN, "CreateRun", with(create.clone(), "runId.project", json!("")), invalid, "run_id.project"),
        (RUN, "CreateRun", with(create.clone(), "runId.project", json!(long)), invalid, "run_id.project"),
        (RUN, "CreateRun", with(create.clone(), "runId.domain", json!("")), invalid, "run_id.domain"),
        (RUN, "CreateRun", with(create.clone(), "taskSpec", json!({})), invalid, "task_spec.task_template"),
        (
            RUN,
            "CreateRun",
            with(create.clone(), "taskSpec", json!({"taskTemplate": {}})),
            invalid,
            "task_spec.task_template",
        ),
        (
            RUN,
            "CreateRun",
            with(create.clone(), "taskSpec", json!({"taskTemplate": {"sql": {"statement": "SELECT 1"}}})),
            invalid,
            "task_spec.task_template.sql",
        ),
        (
            RUN,
            "CreateRun",
            with(create.clone(), "taskSpec.shortName", json!(long)),
            invalid,
            "task_spec.short_name",
        ),
        (
            RUN,
            "CreateRun",
            with(create.clone(), "offloadedInputData", json!({"uri": "", "inputsHash": "h"})),
            invalid,
            "offloaded_input_data.uri",
        ),
        (
            RUN,
            "CreateRun",
            with(create.clone(), "offloadedInputData", json!({"uri": "mem://x/none", "inputsHash": "h"})),
            invalid,
            "offloaded_input_data.uri",
        ),
        (
            RUN,
            "CreateRun",
            with(create.clone(), "runSpec", json!({"runBaseDir": "/etc"})),
            invalid,
            "run_spec.run_base_dir",
        ),
        (RUN, "CreateRun", with(create.clone(), "runSpec", json!("text")), invalid, "runSpec"),
        (RUN, "CreateRun", with(create.clone(), "source", json!(true)), invalid, "source"),
        (
            RUN,
            "CreateRun",
            with(
                with(create.clone(), "taskSpec", Value::Null),
                "taskId",
                json!({"org": "", "project": "p", "domain": "d", "name": "t", "version": "v"}),
            ),
            "not_found",
            "task_id",
        ),
        (RUN, "CreateRun", json!([]), invalid, "CreateRunRequest"),
        // Reads and aborts
        (RUN, "GetRunDetails", json!({}), invalid, "run_id"),
        (RUN, "GetRunDetails", json!({"runId": run_id("none")}), "not_found", "p/d/none"),
        (RUN, "GetActionDetails", json!({}), invalid, "action_id"),
        (RUN, "GetActionDetails", json!({"actionId": {"name": "a0"}}), invalid, "action_id.run"),
        (
            RUN,
            "GetActionDetails",
            json!({"actionId": action_id("there", "none")}),
            "not_found",
            "p/d/there/none",
        ),
        (RUN, "GetActionData", json!({"actionId": action_id("none", "a0")}), "not_found", "p/d/none"),
        (RUN, "GetActionLogContext", json!({"actionId": action_id("there", "a0")}), invalid, "attempt"),
        (
            RUN,
            "GetActionLogContext",
            json!({"actionId": action_id("there", "a0"), "attempt": 9}),
            "not_found",
            "attempt 9",
        ),
        (RUN, "AbortRun", json!({}), invalid, "run_id"),
        (RUN, "AbortRun", json!({"runId": run_id("none")}), "not_found", "p/d/none"),
        (RUN, "AbortAction", json!({"actionId": action_id("there", "none")}), "not_found", "p/d/there/none"),
        // Lists
        (RUN, "ListRuns", json!({}), invalid, "scope_by"),
        (RUN, "ListRuns", with(list.clone(), "projectId.name", json!("")), invalid, "project_id.name"),
        (RUN, "ListRuns", with(list.clone(), "request", json!({"limit": 201})), invalid, "request.limit"),
        (RUN, "ListRuns", with(list.clone(), "request", json!({"limit": -1})), invalid, "limit"),
        (RUN, "ListRuns", with(list.clone(), "request", json!({"token": "7"})), invalid, "request.token"),
        (
            RUN,
            "ListRuns",
            with(list.clone(), "request", json!({"rawFilters": ["x"]})),
            invalid,
            "request.raw_filters",
        ),
        (
            RUN,
            "ListRuns",
            with(list.clone(), "request", json!({"sortBy": {"key": "colour"}})),
            invalid,
            "request.sort_by",
        ),
        (
            RUN,
            "ListRuns",
            filter(json!({"field": "colour", "values": ["x"]})),
            invalid,
            "request.filters[0].field",
        ),
        (
            RUN,
            "ListRuns",
            filter(json!({"field": "phase", "values": ["GREAT"]})),
            invalid,
            "request.filters[0].values[0]",
        ),
        (RUN, "ListRuns", filter(json!({"field": "phase"})), invalid, "request.filters[0].values"),
        (
            RUN,
            "ListRuns",
            filter(json!({"function": 99, "field": "phase", "values": ["1"]})),
            invalid,
            "function",
        ),
        (RUN, "ListActions", json!({}), invalid, "run_id"),
        (RUN, "ListActions", json!({"runId": run_id("none")}), "not_found", "p/d/none"),
        // The queue
        (QUEUE, "EnqueueAction", with(enqueue.clone(), "task", Value::Null), invalid, "spec"),
        (QUEUE, "EnqueueAction", with(enqueue.clone(), "actionId", Value::Null), invalid, "action_id"),
        (
            QUEUE,
            "EnqueueAction",
            with(enqueue.clone(), "actionId.name", json!("")),
            invalid,
            "action_id.name",
        ),
        (
            QUEUE,
            "EnqueueAction",
            with(enqueue.clone(), "actionId.name", json!("x".repeat(31))),
            invalid,
            "action_id.name",
        ),
        (
            QUEUE,
            "EnqueueAction",
            with(enqueue.clone(), "actionId.name", json!("a0")),
            invalid,
            "parent_action_name",
        ),
        (QUEUE, "EnqueueAction", with(enqueue.clone(), "inputUri", json!("")), invalid, "input_uri"),
        (
            QUEUE,
            "EnqueueAction",
            with(enqueue.clone(), "runOutputBase", Value::Null),
            invalid,
            "run_output_base",
        ),
        (
            QUEUE,
            "EnqueueAction",
            with(enqueue.clone(), "parentActionName", json!("c")),
            invalid,
            "parent_action_name",
        ),
        (
            QUEUE,
            "EnqueueAction",
            with(enqueue.clone(), "parentActionName", json!("none")),
            "not_found",
            "p/d/there/none",
        ),
        (
            QUEUE,
            "EnqueueAction",
            with(enqueue.clone(), "actionId.run", run_id("none")),
            "not_found",
            "p/d/none",
        ),
        (QUEUE, "EnqueueAction", with(enqueue.clone(), "task", json!({})), invalid, "task.spec"),
        (QUEUE, "EnqueueAction", with(trace.clone(), "trace.name", json!("")), invalid, "trace.name"),
        (
            QUEUE,
            "EnqueueAction",
            with(trace.clone(), "trace.phase", json!("ACTION_PHASE_RUNNING")),
            invalid,
            "trace.phase",
        ),
        (
            QUEUE,
            "EnqueueAction",
            with(with(enqueue.clone(), "task", Value::Null), "condition", json!({"name": "c"})),
            invalid,
            "condition",
        ),
        (
            QUEUE,
            "AbortQueuedAction",
            json!({"actionId": action_id("there", "none")}),
            "not_found",
            "p/d/there/none",
        ),
        // States
        (STATE, "Put", json!({"actionId": action_id("there", "a0")}), invalid, "state"),
        (STATE, "Put", json!({"state": "{}"}), invalid, "action_id"),
        (STATE, "Get", json!({}), invalid, "action_id"),
        // Data
        (DATA, "CreateUploadLocation", with(upload.clone(), "project", json!("")), invalid, "project"),
        (
            DATA,
            "CreateUploadLocation",
            with(upload.clone(), "contentMd5", json!("AAAA")),
            invalid,
            "content_md5",
        ),
        (
            DATA,
            "CreateUploadLocation",
            with(upload.clone(), "contentLength", json!("-1")),
            invalid,
            "content_length",
        ),
        (
            DATA,
            "CreateUploadLocation",
            with(upload.clone(), "contentLength", json!("999999999999")),
            invalid,
            "content_length",
        ),
        (DATA, "UploadInputs", json!({}), invalid, "id"),
        (DATA, "CreateDownloadLink", json!({}), invalid, "source"),
        ("cluster.ClusterService", "SelectCluster", json!({"orgId": {"name": "o"}}), invalid, "operation"),
        ("actions.ActionsService", "Enqueue", json!({}), invalid, "action"),
    ]
    .into_iter()
    .map(|(service, method, body, code, field)| (format!("{service}/{method}"), body, code, field))
    .collect();
    assert!(rows.len() >= 40);
    let mut wrong = Vec::new();
    for (method, body, code, field) in &rows {
        let (_, answer) = server.call(method, body).await;
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        let (found, message) = (text("code"), text("message"));
        if found != *code || !message.contains(field) {
            wrong.push(format!(
                "{method} {body}\n  wanted {code} naming {field}\n  found  {found}: {message}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let runs = server.ok("workflow.RunService/ListRuns", &list).await;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "nothing was left behind");
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused_on_every_protocol() {
    let server = Server::start().await;
    let path = "/flyteidl2.workflow.RunService/CreateRun";
    for (kind, body, code) in [
        ("application/json", &b"{"[..], 400),
        ("application/json", b"\xff\xfe", 400),
        ("application/proto", b"\xff\xff\xff", 400),
        ("application/proto", b"\x0a\x7f", 400),
        ("text/plain", b"hello", 415),
    ] {
        let (found, _, answer) = server.send("POST", path, &[("content-type", kind)], body).await;
        assert_eq!(found, code, "{kind}: {}", String::from_utf8_lossy(&answer));
    }
    let large = format!("{{\"runId\": {{\"name\": \"{}\"}}}}", "x".repeat(2 * 1024 * 1024));
    let (code, _, answer) = server.send("POST", path, &[("content-type", "application/json")], large).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((code, &answer["code"]), (429, &json!("resource_exhausted")), "{answer}");
}
