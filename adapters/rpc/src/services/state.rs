//! `flyteidl2.workflow.StateService`: what a parent knows of its children, and what reporters say of actions.

use crate::Fault;
use crate::call::Call;
use crate::convert::{from_proto, to_proto};
use crate::fault::TEXT_MAX_BYTES;
use crate::runs;
use crate::watch::{self, Item, Many};
use crate::wire::registry::Registry;
use flyte_core::{ActionId, Input, Refusal, state_document, text};
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

/// Codes of `google.rpc.Code` that answers carry within them.
const OK: i32 = 0;
const INVALID_ARGUMENT: i32 = 3;
const NOT_FOUND: i32 = 5;
const FAILED_PRECONDITION: i32 = 9;
const INTERNAL: i32 = 13;

/// What became of a state is said in the answer, as the older manager did; only what breaks the schema's rules is an
/// error of the call.
async fn put(call: Call, request: w::PutRequest) -> Result<w::PutResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let (code, message) = match state_document::parse(&request.state) {
        Err(error) => (INVALID_ARGUMENT, error.to_string()),
        Ok(report) => match call.store.apply(&id, Input::Reported(report)).await {
            Ok(_) | Err(ApplyError::Refused(Refusal::NoChange, _)) => (OK, String::new()),
            Err(ApplyError::Refused(refusal, _)) => {
                (FAILED_PRECONDITION, format!("the state of action {id} is not taken: {refusal}"))
            }
            Err(ApplyError::NotFound(id)) => (NOT_FOUND, format!("there is no action {id}")),
            Err(ApplyError::Write(error)) => (INTERNAL, error.to_string()),
        },
    };
    Ok(w::PutResponse { action_id: request.action_id, status: Some(status(code, &message)) })
}

async fn get(call: Call, request: w::GetRequest) -> Result<w::GetResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let (status, state) = match runs::action(&call, &id).await? {
        Some(row) => (status(OK, ""), row.action.state.clone()),
        None => (status(NOT_FOUND, &format!("there is no action {id}")), String::new()),
    };
    Ok(w::GetResponse { action_id: request.action_id, status: Some(status), state })
}

fn status(code: i32, message: &str) -> Status {
    Status { code, message: text::bounded(message, TEXT_MAX_BYTES), details: Vec::new() }
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
                Update::Child(update) => Message::ActionUpdate(*update),
                Update::Sentinel => Message::ControlMessage(w::ControlMessage { sentinel: true }),
            };
            yield w::WatchResponse { message: Some(message) };
        }
    }
}

/// What a parent is told.
pub enum Update {
    /// The state of a child.
    Child(Box<w::ActionUpdate>),
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
                        yield Update::Child(Box::new(to_proto::action_update(&row)));
                    }
                }
                Item::CaughtUp => yield Update::Sentinel,
            }
        }
    }
}
