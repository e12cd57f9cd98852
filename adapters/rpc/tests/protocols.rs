//! One router speaks every protocol that clients have.

mod common;

use bytes::Bytes;
use common::*;
use flyte_proto::workflow::run_service_client::RunServiceClient;
use flyte_proto::{common as c, workflow as w};
use prost::Message;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::atomic::Ordering;

const GET_RUN: &str = "/flyteidl2.workflow.RunService/GetRunDetails";

fn id(name: &str) -> c::RunIdentifier {
    c::RunIdentifier { org: String::new(), project: "p".into(), domain: "d".into(), name: name.into() }
}

fn request(name: &str) -> Vec<u8> {
    w::GetRunDetailsRequest { run_id: Some(id(name)) }.encode_to_vec()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An envelope of the streaming protocols.
fn envelope(flags: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![flags];
    all.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    all.extend(bytes);
    all
}

/// Flags and bytes of each envelope.
fn envelopes(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    while bytes.len() >= 5 {
        let len = u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
        all.push((bytes[0], bytes[5..5 + len].to_vec()));
        bytes = &bytes[5 + len..];
    }
    all
}

fn phase(details: w::RunDetails) -> i32 {
    details.action.unwrap().status.unwrap().phase
}

#[tokio::test]
async fn connect_answers_in_the_form_it_was_asked_in_compressed_or_not() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let answer = server.ok("workflow.RunService/GetRunDetails", &json!({"run_id": run_id("r")})).await;
    assert_eq!(
        answer["details"]["action"]["status"]["phase"], "ACTION_PHASE_QUEUED",
        "both spellings are read"
    );
    let plain = [("content-type", "application/proto"), ("connect-protocol-version", "1")];
    let packed = [plain[0], plain[1], ("content-encoding", "gzip"), ("accept-encoding", "gzip,identity")];
    for (headers, body) in [(&plain[..], request("r")), (&packed[..], gzip(&request("r")))] {
        let (code, answered, body) = server.send("POST", GET_RUN, headers, body).await;
        assert_eq!((code, answered["content-type"].to_str().unwrap()), (200, "application/proto"));
        let answer = w::GetRunDetailsResponse::decode(body).unwrap();
        assert_eq!(phase(answer.details.unwrap()), 1);
    }
    let (code, headers, body) = server.send("POST", GET_RUN, &plain, request("none")).await;
    assert_eq!((code, headers["content-type"].to_str().unwrap()), (404, "application/json"));
    let error: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(error, json!({"code": "not_found", "message": "there is no run p/d/none"}));
}

#[tokio::test]
async fn a_connect_stream_is_envelopes_with_an_end() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    server.ok("workflow.RunService/AbortRun", &json!({"runId": run_id("r")})).await;
    let headers = [("content-type", "application/connect+proto"), ("connect-content-encoding", "gzip")];
    let path = "/flyteidl2.workflow.RunService/WatchRunDetails";
    let (code, _, body) = server.send("POST", path, &headers, envelope(1, &gzip(&request("r")))).await;
    let parts = envelopes(&body);
    assert_eq!((code, parts.len()), (200, 2));
    let message = w::WatchRunDetailsResponse::decode(Bytes::from(parts[0].1.clone())).unwrap();
    assert_eq!((parts[0].0, phase(message.details.unwrap())), (0, 7));
    assert_eq!(parts[1], (2, b"{}".to_vec()));
    let (_, _, body) = server.send("POST", path, &headers, envelope(1, &gzip(&request("none")))).await;
    let end: Value = serde_json::from_slice(&envelopes(&body).last().unwrap().1).unwrap();
    assert_eq!(end["error"]["code"], "not_found");
}

#[tokio::test]
async fn grpc_and_grpc_web_have_the_same_answers_and_codes() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let mut client = RunServiceClient::new(server.channel());
    let answer = client.get_run_details(w::GetRunDetailsRequest { run_id: Some(id("r")) }).await.unwrap();
    assert_eq!(phase(answer.into_inner().details.unwrap()), 1);
    let status =
        client.get_run_details(w::GetRunDetailsRequest { run_id: Some(id("none")) }).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (tonic::Code::NotFound, "there is no run p/d/none"));
    let headers = [("content-type", "application/grpc-web+proto"), ("x-grpc-web", "1")];
    let (code, _, body) = server.send("POST", GET_RUN, &headers, envelope(0, &request("r"))).await;
    let parts = envelopes(&body);
    assert_eq!((code, parts.len(), parts[1].0 & 0x80), (200, 2, 0x80));
    let trailers = String::from_utf8(parts[1].1.clone()).unwrap().to_ascii_lowercase();
    assert!(trailers.contains("grpc-status: 0") || trailers.contains("grpc-status:0"), "{trailers}");
}

#[tokio::test]
async fn case_66_a_very_long_error_leaves_the_connection_and_its_other_streams_whole() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let mut client = RunServiceClient::new(server.channel());
    let request = w::WatchRunDetailsRequest { run_id: Some(id("r")) };
    let mut stream = client.watch_run_details(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    let list = w::ListRunsRequest {
        request: Some(c::ListRequest {
            filters: vec![c::Filter {
                field: "phase".into(),
                values: vec!["ö".repeat(300_000)],
                ..c::Filter::default()
            }],
            ..c::ListRequest::default()
        }),
        scope_by: Some(w::list_runs_request::ScopeBy::ProjectId(c::ProjectIdentifier {
            organization: String::new(),
            domain: "d".into(),
            name: "p".into(),
        })),
        ..w::ListRunsRequest::default()
    };
    let status = client.list_runs(list).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().len() < 4_096, "{}", status.message().len());
    server.ok("workflow.RunService/AbortRun", &json!({"runId": run_id("r")})).await;
    let last = stream.message().await.unwrap().unwrap();
    assert_eq!(phase(last.details.unwrap()), 7, "the other stream goes on");
}

#[tokio::test]
async fn case_68_whole_numbers_keep_all_their_digits_in_json() {
    let server = Server::start().await;
    let literal = |name: &str, value: Value| json!({"name": name, "value": {"scalar": {"primitive": {"integer": value}}}});
    let mut body = create("r");
    body["inputs"] = json!({"literals": [
        literal("a", json!("9007199254740993")), literal("b", json!("-9223372036854775808")),
        literal("c", json!(9_007_199_254_740_993_i64))]});
    server.ok("workflow.RunService/CreateRun", &body).await;
    let data =
        server.ok("workflow.RunService/GetActionData", &json!({"actionId": action_id("r", "a0")})).await;
    let integers: Vec<&str> = data["inputs"]["literals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|literal| literal["value"]["scalar"]["primitive"]["integer"].as_str().unwrap())
        .collect();
    assert_eq!(integers, ["9007199254740993", "-9223372036854775808", "9007199254740993"]);
}

#[tokio::test]
async fn probes_health_and_reflection_tell_the_truth() {
    let server = Server::start().await;
    let get = async |path: &str| {
        let (code, _, body) = server.send("GET", path, &[], Bytes::new()).await;
        (code, String::from_utf8(body.to_vec()).unwrap())
    };
    assert_eq!(get("/healthz").await, (200, "ok\n".into()));
    assert_eq!(get("/readyz").await, (200, "ready\n".into()));
    server.ready.store(false, Ordering::Relaxed);
    assert_eq!(get("/healthz").await.0, 200);
    assert_eq!(get("/readyz").await, (503, "not ready: the cluster sleeps\n".into()));
    assert_eq!(get("/nowhere").await.0, 404);
    let check = async || {
        let json = [("content-type", "application/json")];
        let (_, _, body) = server.send("POST", "/grpc.health.v1.Health/Check", &json, "{}").await;
        serde_json::from_slice::<Value>(&body).unwrap()
    };
    assert_eq!(check().await["status"], "NOT_SERVING");
    server.ready.store(true, Ordering::Relaxed);
    assert_eq!(check().await["status"], "SERVING");
    let list = envelope(0, &[0x3a, 0x00]);
    let headers = [("content-type", "application/grpc-web+proto")];
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let (code, _, body) = server.send("POST", path, &headers, list).await;
    assert_eq!(code, 200);
    assert!(String::from_utf8_lossy(&body).contains("flyteidl2.workflow.RunService"));
    let (code, message) = server.fails("task.TaskService/ListTasks", &json!({})).await;
    assert_eq!(code, "unimplemented", "{message}");
}

#[tokio::test]
async fn uploads_are_taken_under_links_that_were_granted_and_only_with_the_right_content() {
    use base64::Engine;
    let server = Server::start().await;
    let base64 = base64::engine::general_purpose::STANDARD;
    let content = b"a bundle";
    let md5 = base64.encode(<md5::Md5 as md5::Digest>::digest(content));
    let location = json!({"project": "p", "domain": "d", "filename": "fast.tar.gz", "contentMd5": md5});
    let answer = server.ok("dataproxy.DataProxyService/CreateUploadLocation", &location).await;
    let url = answer["signedUrl"].as_str().unwrap();
    let path =
        url.strip_prefix(&format!("http://127.0.0.1:{}", server.port)).unwrap_or_else(|| panic!("{url}"));
    assert_eq!(server.send("PUT", path, &[], &b"another"[..]).await.0, 400);
    let wrong = [("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")];
    assert_eq!(server.send("PUT", path, &wrong, &content[..]).await.0, 400);
    assert_eq!(server.send("PUT", path, &[("content-md5", &md5)], &content[..]).await.0, 200);
    let native = answer["nativeUrl"].as_str().unwrap();
    assert_eq!(server.objects.get(native, 100).await.unwrap().unwrap(), &content[..]);
    let forged = path.replacen("/files/e", "/files/f", 1);
    assert_eq!(server.send("PUT", &forged, &[], &content[..]).await.0, 403);
    assert_eq!(server.send("GET", path, &[], Bytes::new()).await.0, 403, "a link to write is none to read");
    let leaves = json!({"project": "..", "domain": "..", "filename": "../../etc/passwd", "contentMd5": md5});
    let answer = server.ok("dataproxy.DataProxyService/CreateUploadLocation", &leaves).await;
    assert_eq!(
        answer["nativeUrl"].as_str().unwrap().split('/').filter(|part| *part == "..").count(),
        0,
        "no name leaves its directory"
    );
}

#[tokio::test]
async fn an_archived_log_is_read_line_by_line_with_its_times() {
    let server = Server::start().await;
    server.ok("workflow.RunService/CreateRun", &create("r")).await;
    let root = flyte_core::RunId::new("local", "p", "d", "r").root();
    let action = server.store.action(&root).await.unwrap().unwrap().action.clone();
    let text = "2026-03-01T12:00:01.000Z one\n2026-03-01T12:00:02.000Z two words\nno time\n";
    server.objects.put(&format!("{}/logs.txt", action.output_prefix(1)), Bytes::from(text)).await.unwrap();
    server.ok("workflow.RunService/AbortRun", &json!({"runId": run_id("r")})).await;
    let body = json!({"actionId": action_id("r", "a0"), "attempt": 1}).to_string();
    let headers = [("content-type", "application/connect+json")];
    let path = "/flyteidl2.dataproxy.DataProxyService/TailLogs";
    let (_, _, answer) = server.send("POST", path, &headers, envelope(0, body.as_bytes())).await;
    let parts = envelopes(&answer);
    let page: Value = serde_json::from_slice(&parts[0].1).unwrap();
    let lines: Vec<(&str, &str)> = page["logs"][0]["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["timestamp"].as_str().unwrap_or(""), line["message"].as_str().unwrap()))
        .collect();
    assert_eq!(
        lines,
        [("2026-03-01T12:00:01Z", "one\n"), ("2026-03-01T12:00:02Z", "two words\n"), ("", "no time\n")]
    );
    assert_eq!(parts.last().unwrap(), &(2, b"{}".to_vec()));
}
