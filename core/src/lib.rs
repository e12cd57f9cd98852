//! The product as a pure state machine.
//!
//! Nothing here waits, reads a clock, draws a random number, logs or does I/O. Time and ids come in as arguments;
//! what has to be done in the world goes out as values. The adapters perform them and feed the answer back.
//!
//! - [`action`] is the life of one action: what is known of it and of its attempts.
//! - [`transition`] is the only way to change an action: `step(action, input, now)`.
//! - [`plan`] decides what the executor does next in the cluster, given an action and what is seen there.
//! - [`pod`] reads a Pod's status: still going, stuck, or ended, and why.
//! - [`naming`] makes Kubernetes object names of identifiers.
//! - [`invariant`] holds the assertions that stay on in release builds.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod action;
pub mod backoff;
pub mod failure;
pub mod id;
pub mod invariant;
pub mod listing;
pub mod naming;
pub mod phase;
pub mod plan;
pub mod pod;
pub mod state_document;
pub mod template;
pub mod text;
pub mod time;
pub mod transition;

pub use action::{Action, Attempt, Kind, NewAction, Policy};
pub use failure::{Failure, Origin};
pub use id::{ActionId, RunId};
pub use phase::Phase;
pub use time::Timestamp;
pub use transition::{Input, Refusal, Step, step};
