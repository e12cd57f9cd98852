//! Why an attempt or an action failed.

use crate::text;
use serde::{Deserialize, Serialize};

/// Whose failure it was; it decides which budget a retry is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Origin {
    /// The user's code or request; retries come from the task's own budget.
    User,
    /// The cluster or the manager; retries come from the executor's budget.
    System,
}

/// One failure, as it is stored and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Whose failure it was.
    pub origin: Origin,
    /// A short word for machines, such as `OOMKilled`; never empty.
    pub code: String,
    /// A sentence for people; never empty (S11).
    pub message: String,
    /// Whether another attempt may help.
    pub retryable: bool,
}

impl Failure {
    /// A failure that another attempt may cure. An empty code or message is replaced, and both are bounded.
    pub fn retryable(origin: Origin, code: impl AsRef<str>, message: impl AsRef<str>) -> Self {
        Self::new(origin, code.as_ref(), message.as_ref(), true)
    }

    /// A failure that every further attempt would repeat.
    pub fn permanent(origin: Origin, code: impl AsRef<str>, message: impl AsRef<str>) -> Self {
        Self::new(origin, code.as_ref(), message.as_ref(), false)
    }

    fn new(origin: Origin, code: &str, message: &str, retryable: bool) -> Self {
        let code = if code.is_empty() { "Unknown" } else { code };
        let message = if message.is_empty() { "no further message was given" } else { message };
        Self {
            origin,
            code: text::bounded(code, text::CODE_MAX_BYTES),
            message: text::message(message),
            retryable,
        }
    }
}
