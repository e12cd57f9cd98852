//! What users have: Connect JSON over HTTP/1.1, and a gRPC client.

use bytes::Bytes;
use flyte_proto::workflow::run_service_client::RunServiceClient;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};

type Answer = Result<(u16, String), Box<dyn std::error::Error>>;

/// A request as curl sends it.
async fn request(method: &str, port: u16, path: &str, body: String) -> Answer {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://127.0.0.1:{port}{path}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let response = client.request(request).await?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}

pub async fn get(port: u16, path: &str) -> Answer {
    request("GET", port, path, String::new()).await
}

/// Calls a method of RunService with JSON.
pub async fn call(port: u16, method: &str, body: &Value) -> (u16, Value) {
    let path = format!("/flyteidl2.workflow.RunService/{method}");
    let (code, body) = request("POST", port, &path, body.to_string()).await.unwrap();
    (code, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

pub fn run_id(name: &str) -> Value {
    json!({"org": "", "project": "flytesnacks", "domain": "development", "name": name})
}

/// A run of a shell command.
pub fn shell(name: &str, command: &str, retries: u32) -> Value {
    json!({
        "runId": run_id(name),
        "taskSpec": {"taskTemplate": {
            "id": {"resourceType": "TASK", "project": "flytesnacks", "domain": "development", "name": "t.main", "version": "v1"},
            "type": "container",
            "metadata": {"retries": {"retries": retries}},
            "container": {"image": "busybox", "args": ["/bin/sh", "-c", command]},
        }},
    })
}

pub async fn runs(port: u16) -> RunServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    RunServiceClient::new(endpoint.connect().await.unwrap())
}
