//! The executor: makes the cluster do what the database says, and tells the database what the cluster did.
//!
//! `flyte_core::plan` decides; this crate looks at the cluster, performs one command at a time for each action, and feeds
//! the answers back.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cluster;
pub mod copilot;
mod executor;
mod labels;
mod logs;
mod observe;
mod outputs;
mod pod_spec;
mod project;
mod refusal;
mod settings;
mod task_action;

pub use cluster::{SetupError, ensure_namespace, install_crd};
pub use executor::{Executor, Options};
pub use logs::{Line, tail};
pub use settings::Settings;
pub use task_action::{TaskAction, TaskActionSpec, TaskActionStatus, crd, crd_yaml};
