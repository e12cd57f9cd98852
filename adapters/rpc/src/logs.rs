//! Where the log lines of a running attempt come from.

use flyte_core::{Action, Timestamp};
use futures::future::BoxFuture;
use futures::stream::BoxStream;

/// One line of a container's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written, where the source knows.
    pub at: Option<Timestamp>,
    /// The line without its end.
    pub text: String,
}

/// Lines as they are written; ends with the container. An error is a sentence.
pub type LogStream = BoxStream<'static, Result<LogLine, String>>;

/// Reads the logs of Pods.
pub trait LogSource: Send + Sync {
    /// All lines of the primary container of this attempt, then further ones until it ends; `None` when the Pod is not
    /// there (any more). An error is a sentence.
    fn tail(&self, action: &Action, attempt: u32) -> BoxFuture<'static, Result<Option<LogStream>, String>>;
}
