//! The end of an attempt: what the Pod proves and what its outputs say, taken together.

use super::{Finish, Proof};
use crate::failure::Origin;
use crate::{Failure, text};

/// What was found under the attempt's output prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputsFound {
    /// Whether a readable `outputs.pb` is there.
    pub outputs: bool,
    /// The `error.pb` that is there.
    pub error: Option<ErrorDocument>,
}

/// `flyteidl2.core.ErrorDocument`, as the SDK writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorDocument {
    /// The error's code, such as `ValueError`.
    pub code: String,
    /// The error's text.
    pub message: String,
    /// Whether the task allows another attempt.
    pub recoverable: bool,
    /// Who caused it, according to the task.
    pub origin: Origin,
}

/// The code of an error document that our own collector of output files wrote. It did not see how the task ended, so it
/// is no word of the task's.
pub const COLLECTOR_CODE: &str = "OutputsInvalid";

/// Decides how the attempt ended. `Ok` is success.
///
/// The order of proof: an error document is the task's own last word and wins over the exit code (the SDK exits with 0
/// after a user's exception); then the Pod's failure; then missing outputs. A Pod that vanished succeeded only when its
/// outputs are there, and otherwise failed by the cluster, never by the user (case 11).
///
/// # Errors
/// The failure that ends the attempt.
pub fn conclude(finish: &Finish, found: &OutputsFound, outputs_needed: bool) -> Result<(), Failure> {
    if let Some(document) = &found.error {
        if let (Proof::Failed(failure), COLLECTOR_CODE) = (&finish.proof, document.code.as_str()) {
            return Err(failure.clone());
        }
        return Err(Failure {
            retryable: document.recoverable,
            ..Failure::retryable(document.origin, &document.code, &document.message)
        });
    }
    match &finish.proof {
        Proof::Failed(failure) => Err(failure.clone()),
        Proof::Vanished(_) if found.outputs => Ok(()),
        Proof::Vanished(failure) => Err(failure.clone()),
        Proof::Completed if outputs_needed && !found.outputs => Err(Failure::retryable(
            Origin::System,
            "OutputsNotFound",
            text::message(
                "The task ended with exit code 0 but left no outputs.pb, although its interface declares outputs",
            ),
        )),
        Proof::Completed => Ok(()),
    }
}
