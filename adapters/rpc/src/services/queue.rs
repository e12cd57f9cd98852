//! `flyteidl2.workflow.QueueService`: what a running task asks for.

use crate::Fault;
use crate::call::Call;
use crate::convert::from_proto;
use crate::runs::{self, NewSpec};
use crate::wire::registry::Registry;
use flyte_proto::workflow as w;

/// Registers the service's methods.
pub fn register(registry: &mut Registry) {
    registry.unary("flyteidl2.workflow.QueueService/EnqueueAction", enqueue);
    registry.unary("flyteidl2.workflow.QueueService/AbortQueuedRun", abort_run);
    registry.unary("flyteidl2.workflow.QueueService/AbortQueuedAction", abort_action);
}

async fn enqueue(call: Call, request: w::EnqueueActionRequest) -> Result<w::EnqueueActionResponse, Fault> {
    use w::enqueue_action_request::Spec;
    let spec = match request.spec {
        Some(Spec::Task(task)) => NewSpec::Task(task),
        Some(Spec::Trace(trace)) => NewSpec::Trace(trace),
        Some(Spec::Condition(_)) => NewSpec::Condition,
        None => return Err(Fault::invalid("spec", "one of task, trace and condition is required")),
    };
    let request = runs::Request {
        at: "",
        action_id: request.action_id,
        parent_action_name: request.parent_action_name,
        input_uri: request.input_uri,
        run_output_base: request.run_output_base,
        group: request.group,
        subject: request.subject,
        spec,
    };
    runs::enqueue(&call, request).await?;
    Ok(w::EnqueueActionResponse {})
}

async fn abort_run(
    call: Call,
    request: w::AbortQueuedRunRequest,
) -> Result<w::AbortQueuedRunResponse, Fault> {
    let id = from_proto::required_run_id(request.run_id.as_ref(), "run_id")?;
    runs::abort(&call, &id.root(), request.reason.as_deref()).await?;
    Ok(w::AbortQueuedRunResponse {})
}

async fn abort_action(
    call: Call,
    request: w::AbortQueuedActionRequest,
) -> Result<w::AbortQueuedActionResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    runs::abort(&call, &id, request.reason.as_deref()).await?;
    Ok(w::AbortQueuedActionResponse {})
}
