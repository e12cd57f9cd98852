//! What several services share: creating, enqueuing, aborting and reading.

mod create;
mod enqueue;
mod place;
mod read;

pub use create::create;
pub use enqueue::{NewSpec, Request, enqueue};
pub use place::{inputs_place, project_dir, segment};
pub use read::{action, code_bundle, data, details, required_action, run_details};

use crate::Fault;
use crate::call::Call;
use connectrpc::ErrorCode;
use flyte_core::{ActionId, Input};
use flyte_store::{ApplyError, ReadError, WriteError};

/// Stops an action and everything below it. One that has ended already stays as it is, which is no error: the caller
/// has what it wants.
pub async fn abort(call: &Call, id: &ActionId, reason: Option<&str>) -> Result<(), Fault> {
    let reason = reason.filter(|reason| !reason.is_empty()).unwrap_or("User requested abort");
    let input = Input::Abort { reason: flyte_core::text::message(reason), by: String::new() };
    match call.store.apply(id, input).await {
        Ok(_) | Err(ApplyError::Refused(..)) => Ok(()),
        Err(ApplyError::NotFound(id)) if id.is_root() => {
            Err(Fault::not_found(format!("there is no run {}", id.run)))
        }
        Err(ApplyError::NotFound(id)) => Err(Fault::not_found(format!("there is no action {id}"))),
        Err(ApplyError::Write(error)) => Err(error.into()),
    }
}

impl From<WriteError> for Fault {
    fn from(error: WriteError) -> Self {
        let code = match &error {
            WriteError::AlreadyExists(_) => ErrorCode::AlreadyExists,
            WriteError::NotFound(_) => ErrorCode::NotFound,
            WriteError::ParentEnded(_) => ErrorCode::FailedPrecondition,
            WriteError::Overloaded => ErrorCode::ResourceExhausted,
            WriteError::DiskFull(_) | WriteError::Unavailable(_) => ErrorCode::Unavailable,
        };
        Fault::new(code, error.to_string())
    }
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        let code = match &error {
            ReadError::Unavailable(_) => ErrorCode::Unavailable,
            ReadError::Corrupt(_) => ErrorCode::DataLoss,
        };
        Fault::new(code, error.to_string())
    }
}

impl From<flyte_objects::ObjectError> for Fault {
    fn from(error: flyte_objects::ObjectError) -> Self {
        let code = match &error {
            flyte_objects::ObjectError::Elsewhere { .. } => ErrorCode::FailedPrecondition,
            flyte_objects::ObjectError::TooLarge { .. } => ErrorCode::ResourceExhausted,
            flyte_objects::ObjectError::Failed { .. } => ErrorCode::Unavailable,
        };
        Fault::new(code, error.to_string())
    }
}
