//! Inputs and outputs of raw containers as files.
//!
//! A raw container reads one file for each input and leaves one for each output, named like the variable. Both helpers
//! run this very program: one before the container, one beside it.

mod download;
mod upload;

pub use download::download;
pub use upload::{Upload, upload};

/// Why the copilot failed, as a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CopilotError(pub String);

impl From<flyte_objects::ObjectError> for CopilotError {
    fn from(error: flyte_objects::ObjectError) -> Self {
        Self(error.to_string())
    }
}

/// A file name made of a variable's; one that would leave the directory has none.
fn file_name(variable: &str) -> Option<&str> {
    (!variable.is_empty() && variable != "." && variable != ".." && !variable.contains(['/', '\0']))
        .then_some(variable)
}
