//! `flyteidl2.workflow.RunService`.

mod lists;
mod watches;

use crate::Fault;
use crate::call::Call;
use crate::convert::{from_proto, to_proto};
use crate::runs;
use crate::wire::registry::Registry;
use flyte_core::naming;
use flyte_proto::core;
use flyte_proto::workflow as w;

/// Registers the service's methods.
pub fn register(registry: &mut Registry) {
    let at = |method: &str| format!("flyteidl2.workflow.RunService/{method}");
    registry.unary(&at("CreateRun"), create_run);
    registry.unary(&at("AbortRun"), abort_run);
    registry.unary(&at("AbortAction"), abort_action);
    registry.unary(&at("GetRunDetails"), get_run_details);
    // The name that the older manager's documentation has for it.
    registry.alias(&at("GetRun"), get_run_details);
    registry.unary(&at("GetActionDetails"), get_action_details);
    registry.unary(&at("GetActionData"), get_action_data);
    registry.unary(&at("GetActionDataURIs"), get_action_data_uris);
    registry.unary(&at("GetActionLogContext"), get_action_log_context);
    registry.unary(&at("ListRuns"), lists::list_runs);
    registry.unary(&at("ListActions"), lists::list_actions);
    registry.server_stream(&at("WatchRunDetails"), watches::watch_run_details);
    registry.server_stream(&at("WatchActionDetails"), watches::watch_action_details);
    registry.server_stream(&at("WatchRuns"), watches::watch_runs);
    registry.server_stream(&at("WatchActions"), watches::watch_actions);
    registry.server_stream(&at("WatchClusterEvents"), watches::watch_cluster_events);
}

async fn create_run(call: Call, request: w::CreateRunRequest) -> Result<w::CreateRunResponse, Fault> {
    Ok(w::CreateRunResponse { run: Some(runs::create(&call, request).await?) })
}

async fn abort_run(call: Call, request: w::AbortRunRequest) -> Result<w::AbortRunResponse, Fault> {
    let id = from_proto::required_run_id(request.run_id.as_ref(), "run_id")?;
    runs::abort(&call, &id.root(), request.reason.as_deref()).await?;
    Ok(w::AbortRunResponse {})
}

async fn abort_action(call: Call, request: w::AbortActionRequest) -> Result<w::AbortActionResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    runs::abort(&call, &id, Some(&request.reason)).await?;
    Ok(w::AbortActionResponse {})
}

async fn get_run_details(
    call: Call,
    request: w::GetRunDetailsRequest,
) -> Result<w::GetRunDetailsResponse, Fault> {
    let id = from_proto::required_run_id(request.run_id.as_ref(), "run_id")?;
    let root = runs::required_action(&call, &id.root()).await?;
    Ok(w::GetRunDetailsResponse { details: Some(runs::run_details(&call, &root).await?) })
}

async fn get_action_details(
    call: Call,
    request: w::GetActionDetailsRequest,
) -> Result<w::GetActionDetailsResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let row = runs::required_action(&call, &id).await?;
    Ok(w::GetActionDetailsResponse { details: Some(runs::details(&call, &row).await?) })
}

async fn get_action_data(
    call: Call,
    request: w::GetActionDataRequest,
) -> Result<w::GetActionDataResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let data = runs::data(&call, &id, true).await?;
    Ok(w::GetActionDataResponse { inputs: Some(data.inputs), outputs: Some(data.outputs) })
}

async fn get_action_data_uris(
    call: Call,
    request: w::GetActionDataUrIsRequest,
) -> Result<w::GetActionDataUrIsResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let data = runs::data(&call, &id, false).await?;
    Ok(w::GetActionDataUrIsResponse { inputs_uri: data.inputs_uri, outputs_uri: data.outputs_uri })
}

async fn get_action_log_context(
    call: Call,
    request: w::GetActionLogContextRequest,
) -> Result<w::GetActionLogContextResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let row = runs::required_action(&call, &id).await?;
    let attempt = row
        .action
        .attempts
        .iter()
        .find(|attempt| attempt.number == request.attempt)
        .ok_or_else(|| Fault::not_found(format!("action {id} has no attempt {}", request.attempt)))?;
    let name =
        attempt.pod.as_ref().map_or_else(|| naming::pod_name(&id, attempt.number), |pod| pod.name.clone());
    let container = core::ContainerContext {
        container_name: "primary".into(),
        process: Some(core::container_context::ProcessContext {
            container_start_time: attempt.running_at.map(to_proto::timestamp),
            container_end_time: attempt.ended_at.map(to_proto::timestamp),
        }),
    };
    #[allow(deprecated, reason = "the schema's deprecated fields stay empty")]
    let log_context = core::LogContext {
        pods: vec![core::PodLogContext {
            namespace: call.defaults.namespace.clone(),
            pod_name: name.clone(),
            primary_container_name: container.container_name.clone(),
            containers: vec![container],
            init_containers: Vec::new(),
        }],
        primary_pod_name: name,
        ..Default::default()
    };
    Ok(w::GetActionLogContextResponse {
        log_context: Some(log_context),
        cluster: String::new(),
        start_time: attempt.running_at.map(to_proto::timestamp),
        end_time: attempt.ended_at.map(to_proto::timestamp),
    })
}
