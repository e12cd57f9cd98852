//! `flyteidl2.actions.ActionsService`: the newer form of the queue and state services.

use crate::Fault;
use crate::call::Call;
use crate::convert::from_proto;
use crate::runs::{self, NewSpec};
use crate::services::state::{Update, children};
use crate::wire::registry::Registry;
use flyte_proto::actions as a;
use flyte_proto::workflow as w;
use futures::{Stream, StreamExt};

/// Registers the service's methods.
pub fn register(registry: &mut Registry) {
    registry.unary("flyteidl2.actions.ActionsService/Enqueue", enqueue);
    registry.unary("flyteidl2.actions.ActionsService/Abort", abort);
    registry.server_stream("flyteidl2.actions.ActionsService/WatchForUpdates", watch);
}

async fn enqueue(call: Call, request: a::EnqueueRequest) -> Result<a::EnqueueResponse, Fault> {
    use a::action::Spec;
    let action = request.action.ok_or_else(|| Fault::invalid("action", "it is required"))?;
    let spec = match action.spec {
        Some(Spec::Task(task)) => NewSpec::Task(task),
        Some(Spec::Trace(trace)) => NewSpec::Trace(trace),
        Some(Spec::Condition(_)) => NewSpec::Condition,
        None => return Err(Fault::invalid("action.spec", "one of task, trace and condition is required")),
    };
    let request = runs::Request {
        at: "action.",
        action_id: action.action_id,
        parent_action_name: action.parent_action_name,
        input_uri: action.input_uri,
        run_output_base: action.run_output_base,
        group: action.group,
        subject: action.subject,
        spec,
    };
    runs::enqueue(&call, request).await?;
    Ok(a::EnqueueResponse {})
}

async fn abort(call: Call, request: a::AbortRequest) -> Result<a::AbortResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    runs::abort(&call, &id, request.reason.as_deref()).await?;
    Ok(a::AbortResponse {})
}

fn watch(
    call: Call,
    request: a::WatchForUpdatesRequest,
) -> impl Stream<Item = Result<a::WatchForUpdatesResponse, Fault>> + Send {
    use a::watch_for_updates_response::Message;
    async_stream::try_stream! {
        let a::watch_for_updates_request::Filter::ParentActionId(parent) = request
            .filter
            .ok_or_else(|| Fault::invalid("filter", "parent_action_id is required"))?;
        let parent = from_proto::required_action_id(Some(&parent), "parent_action_id")?;
        let updates = children(call, parent);
        futures::pin_mut!(updates);
        while let Some(update) = updates.next().await {
            let message = match update? {
                Update::Child(update) => Message::ActionUpdate(*update),
                Update::Sentinel => Message::ControlMessage(w::ControlMessage { sentinel: true }),
            };
            yield a::WatchForUpdatesResponse { message: Some(message) };
        }
    }
}
