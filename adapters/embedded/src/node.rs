//! Runs Pods as local processes.
//!
//! A container is a process group on this machine: its image is not pulled and its command is looked up in `PATH`. It has
//! a working directory of its own, the environment that its Pod asks for, and its output goes to a file that the API
//! server's log endpoint reads. `agent` follows the Pods that are bound to this node; `pod` takes one through its life;
//! `runtime` is where processes are started, behind a trait so that tests and the simulator have others.

mod agent;
mod command;
mod logs;
mod pod;
mod process;
mod runtime;
mod status;

pub use agent::{Node, Options};
pub use logs::ContainerLogs;
pub use process::LocalProcesses;
pub use runtime::{Exit, Process, ProcessSpec, Runtime, Stop};
