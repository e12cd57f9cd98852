//! What can go wrong, as sentences.

use crate::row::ActionRow;
use flyte_core::{ActionId, Refusal, text};
use std::sync::Arc;

/// Why the database could not be opened. Its file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be opened as a database.
    #[error("failed to open the database {path}: {reason}")]
    Open {
        /// The file.
        path: String,
        /// What the engine said.
        reason: String,
    },
    /// The schema could not be brought up to date.
    #[error("failed to run migrations: {0}")]
    Migrate(String),
}

/// Why nothing was written. Nothing of the command has happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// There is one with this identity already, made by another request.
    #[error("{0}")]
    AlreadyExists(String),
    /// What the command needs is not there.
    #[error("{0}")]
    NotFound(String),
    /// The parent has ended, so no child may follow.
    #[error("{0}")]
    ParentEnded(String),
    /// More commands wait than are kept; later the same command may succeed.
    #[error("too many changes are waiting to be written; try again later")]
    Overloaded,
    /// The disk has no room. Commands succeed again when it has.
    #[error("the disk of the database is full: {0}")]
    DiskFull(String),
    /// The database cannot be written.
    #[error("the database cannot be written: {0}")]
    Unavailable(String),
}

/// Why an input was not applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// There is no such action.
    #[error("there is no action {0}")]
    NotFound(ActionId),
    /// The action does not take it; it is as given.
    #[error("{0}")]
    Refused(Refusal, Arc<ActionRow>),
    /// It could not be written.
    #[error("{0}")]
    Write(WriteError),
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The database does not answer.
    #[error("the database cannot be read: {0}")]
    Unavailable(String),
    /// What is stored cannot be what was written.
    #[error("the database holds something impossible: {0}")]
    Corrupt(String),
}

impl From<turso::Error> for ReadError {
    fn from(error: turso::Error) -> Self {
        match error {
            turso::Error::Corrupt(reason) | turso::Error::NotAdb(reason) => Self::Corrupt(bounded(&reason)),
            error => Self::Unavailable(bounded(&error.to_string())),
        }
    }
}

impl From<ReadError> for WriteError {
    fn from(error: ReadError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

pub(crate) fn bounded(reason: &str) -> String {
    text::bounded(reason, 512)
}
