//! The services that clients call, over Connect, gRPC and gRPC-Web.
//!
//! - `wire` knows protocols: it decodes, validates, dispatches, encodes and bounds what goes out.
//! - `services` has one file per service; its functions take messages and give messages or a [`Fault`].
//! - `runs` holds what several services share: creating, enqueuing, aborting, reading.
//! - `watch` turns the store's changes into streams without a gap.
//! - `convert` turns messages into the core's types and back.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod call;
mod convert;
mod fault;
mod http;
mod logs;
mod runs;
mod services;
mod watch;
mod wire;

pub use fault::Fault;
pub use logs::{LogLine, LogSource, LogStream};
pub use services::{Defaults, Limits, Random, Readiness, Services};
pub use wire::front::router;
