//! Runs, actions and everything about them in one SQLite file.
//!
//! One writer does all changes, several to a transaction, and publishes them once they are durable. Reads go on beside it
//! on connections of their own.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod clock;
mod error;
mod hub;
mod list;
mod read;
pub mod row;
mod schema;
mod sql;
mod store;
mod visitor;
mod writer;

pub use clock::Clock;
pub use error::{ApplyError, OpenError, ReadError, WriteError};
pub use flyte_core::listing;
pub use hub::{RecvError, Subscription, Topic};
pub use list::{Page, RunScope};
pub use row::TransitionRow;
pub use row::{ActionMeta, ActionRow, NewChild, NewRun, RunRow, Spec, SpecKind, TaskId};
pub use schema::SCHEMA_VERSION;
pub use store::{Options, Store};
pub use writer::Enqueued;
