//! A cluster inside the process, so that a laptop needs nothing: an API server in memory and a node agent that runs the
//! containers of Pods as local processes.
//!
//! The API server is deterministic: time and random bytes are handed in and nothing in it waits. The simulator uses it
//! with faults around it.
#![warn(missing_docs)]

pub mod api_server;
pub mod node;
