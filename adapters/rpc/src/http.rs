//! Plain HTTP beside the RPCs.

pub mod files;
pub mod probes;

pub use ::http::StatusCode;
