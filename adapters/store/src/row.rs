//! What is stored, as callers hand it in and get it back.

use flyte_core::{Action, NewAction, Phase, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The identity of a task's version, as far as the client gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskId {
    /// The organisation; may be empty.
    pub org: String,
    /// The project.
    pub project: String,
    /// The domain.
    pub domain: String,
    /// The task's name, such as `hello.main`.
    pub name: String,
    /// The version.
    pub version: String,
}

/// What lists and details show of an action beyond its state; taken from the request when it is enqueued.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionMeta {
    /// The task; `None` for traces and conditions.
    pub task: Option<TaskId>,
    /// The template's type, such as `python` or `raw-container`.
    pub task_type: String,
    /// The short name for people; a trace's or a condition's own name.
    pub short_name: String,
    /// The environment's name.
    pub environment_name: String,
    /// The function's name.
    pub function_name: String,
    /// The cache key that the client gave; empty for none.
    pub cache_key: String,
    /// The queue that the client asked for; empty for none.
    pub queue: String,
    /// Whether the task may run on nodes that can be taken away; `None` when nobody said.
    pub interruptible: Option<bool>,
    /// Who enqueued it; empty when unknown.
    pub created_by: String,
}

/// A serialised specification, kept once for all actions that share it.
#[derive(Clone, PartialEq, Eq)]
pub struct Spec {
    /// Lower-case hex of SHA-256 over kind and bytes.
    pub digest: String,
    /// Which message the bytes hold.
    pub kind: SpecKind,
    /// The message exactly as the client sent it, unknown fields included.
    pub bytes: Arc<[u8]>,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spec({:?}, {} bytes, {})", self.kind, self.bytes.len(), self.digest)
    }
}

/// The message that a [`Spec`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SpecKind {
    /// `flyteidl2.task.TaskSpec`.
    Task,
    /// `flyteidl2.task.TraceSpec`.
    Trace,
    /// `flyteidl2.workflow.ConditionAction`.
    Condition,
}

/// A run that a client asks for: stored together with its root action, or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Its root action; the run's identity is the action's.
    pub root: NewAction,
    /// What lists show of the root action.
    pub meta: ActionMeta,
    /// The root's task specification.
    pub spec: Spec,
    /// `flyteidl2.task.RunSpec` exactly as it applies.
    pub run_spec: Arc<[u8]>,
    /// The run's labels.
    pub labels: BTreeMap<String, String>,
    /// `flyteidl2.workflow.RunSource`, by its number.
    pub source: i32,
}

/// An action that a parent enqueues.
#[derive(Clone, Debug, PartialEq)]
pub struct NewChild {
    /// The action.
    pub action: NewAction,
    /// What lists show of it.
    pub meta: ActionMeta,
    /// Its specification.
    pub spec: Spec,
}

/// A run, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// The order of creation; never reused.
    pub row_id: i64,
    /// Its identity.
    pub id: RunId,
    /// The root action's phase.
    pub phase: Phase,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its root action last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// `flyteidl2.workflow.RunSource`, by its number.
    pub source: i32,
    /// `flyteidl2.task.RunSpec`, as bytes.
    pub run_spec: Arc<[u8]>,
}

/// An action, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRow {
    /// The order of creation; never reused.
    pub row_id: i64,
    /// The number of the change that made it what it is; larger is newer, over all actions of the database.
    pub seq: i64,
    /// Its state.
    pub action: Action,
    /// What lists show of it.
    pub meta: ActionMeta,
    /// The digest of its specification.
    pub spec_digest: String,
}

/// One phase that an action reached, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionRow {
    /// The order over all transitions of the database.
    pub seq: i64,
    /// The attempt.
    pub attempt: u32,
    /// The phase.
    pub phase: Phase,
    /// When.
    pub at: Timestamp,
    /// What people are told about it; often empty.
    pub message: String,
}
