//! Plain HTTP beside the RPCs.

pub mod probes;

pub use ::http::StatusCode;
