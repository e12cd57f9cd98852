//! The daemon: configuration, command line, and the composition of the parts.
//!
//! - [`config`] reads the file and the environment.
//! - [`runtime`] puts store, executor and services together and takes them through start and stop.
//! - [`cluster`] chooses the cluster, and starts the embedded one.
//! - [`commands`] has one file for each command of the binary.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cli;
pub mod cluster;
pub mod commands;
pub mod config;
pub mod runtime;
mod serve;
mod telemetry;
