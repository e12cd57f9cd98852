//! `flyteidl2.workflow.StateService`: what a parent knows of its children, and what reporters say of actions.

use crate::Fault;
use crate::call::Call;
use crate::convert::{from_proto, to_proto};
use crate::runs;
use crate::watch::{self, Item, Many};
use crate::wire::registry::Registry;
use connectrpc::ErrorCode;
use flyte_core::{ActionId, Input, Refusal, state_document};
use flyte_proto::google::rpc::Status;
use flyte_proto::workflow as w;
use flyte_store::ApplyError;
use futures::{Stream, StreamExt};

/// Registers the service's methods.
pub fn register(registry: &mut Registry) {
    registry.unary("flyteidl2.workflow.StateService/Put", put);
    registry.unary("flyteidl2.workflow.StateService/Get", get);
    registry.server_stream("flyteidl2.workflow.StateService/Watch", watch);
}

async fn put(call: Call, request: w::PutRequest) -> Result<w::PutResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let report = state_document::parse(&request.state)
        .map_err(|error| Fault::new(ErrorCode::InvalidArgument, error.to_string()))?;
    match call.store.apply(&id, Input::Reported(report)).await {
        Ok(_) | Err(ApplyError::Refused(Refusal::NoChange, _)) => Ok(w::PutResponse {
            action_id: request.action_id,
            status: Some(Status { code: 0, message: String::new(), details: Vec::new() }),
        }),
        Err(ApplyError::Refused(refusal, _)) => Err(Fault::new(
            ErrorCode::FailedPrecondition,
            format!("the state of action {id} is not taken: {refusal}"),
        )),
        Err(ApplyError::NotFound(id)) => Err(Fault::not_found(format!("there is no action {id}"))),
        Err(ApplyError::Write(error)) => Err(error.into()),
    }
}

async fn get(call: Call, request: w::GetRequest) -> Result<w::GetResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let row = runs::required_action(&call, &id).await?;
    Ok(w::GetResponse {
        action_id: request.action_id,
        status: Some(Status { code: 0, message: String::new(), details: Vec::new() }),
        state: row.action.state.clone(),
    })
}

fn watch(call: Call, request: w::WatchRequest) -> impl Stream<Item = Result<w::WatchResponse, Fault>> + Send {
    use w::watch_response::Message;
    async_stream::try_stream! {
        let w::watch_request::Filter::ParentActionId(parent) = request
            .filter
            .ok_or_else(|| Fault::invalid("filter", "parent_action_id is required"))?;
        let parent = from_proto::required_action_id(Some(&parent), "parent_action_id")?;
        let updates = children(call, parent);
        futures::pin_mut!(updates);
        while let Some(update) = updates.next().await {
            let message = match update? {
                Update::Child(update) => Message::ActionUpdate(update),
                Update::Sentinel => Message::ControlMessage(w::ControlMessage { sentinel: true }),
            };
            yield w::WatchResponse { message: Some(message) };
        }
    }
}

/// What a parent is told.
pub enum Update {
    /// The state of a child.
    Child(w::ActionUpdate),
    /// All children that there were at the beginning have been told of.
    Sentinel,
}

/// Every child as it is, then the sentinel, then every change (at least once, never backwards), for as long as the
/// parent's process listens.
pub fn children(call: Call, parent: ActionId) -> impl Stream<Item = Result<Update, Fault>> + Send {
    async_stream::try_stream! {
        runs::required_action(&call, &parent).await?;
        let items = watch::many(call, Many::Children(parent));
        futures::pin_mut!(items);
        while let Some(item) = items.next().await {
            match item? {
                Item::Rows(rows) => {
                    for row in rows {
                        yield Update::Child(to_proto::action_update(&row));
                    }
                }
                Item::CaughtUp => yield Update::Sentinel,
            }
        }
    }
}
