//! What a Pod's status says, in the manager's own terms. The adapters fill [`Observation`] from a Kubernetes object;
//! [`classify`] reads it.

mod classify;
mod outcome;

pub use classify::{classify, container_ended};
pub use outcome::{COLLECTOR_CODE, ErrorDocument, OutputsFound, conclude};

use crate::{Failure, Phase, Timestamp};
use serde::{Deserialize, Serialize};

/// The name and identity of one Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    /// The object's name.
    pub name: String,
    /// The object's uid; a Pod of the same name with another uid is another Pod.
    pub uid: String,
}

/// The part of a Pod that decides about its attempt
/// (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodStatus>).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// `status.phase`: Pending, Running, Succeeded, Failed or Unknown; empty when absent.
    pub phase: String,
    /// `status.reason`, such as `Evicted`; empty when absent.
    pub reason: String,
    /// `status.message`; empty when absent.
    pub message: String,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// `status.initContainerStatuses`, in the order of the spec; includes native sidecars.
    pub init_containers: Vec<Container>,
    /// `status.containerStatuses`, in the order of the spec.
    pub containers: Vec<Container>,
    /// The name of the container that decides, from our annotation or the only container of the spec.
    pub primary: String,
    /// Whether the spec has a container of that name; its status may come later.
    pub primary_in_spec: bool,
    /// `metadata.creationTimestamp`.
    pub created_at: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: when the object may be gone at the earliest. Set by any deletion, ours or not.
    pub deletion_at: Option<Timestamp>,
}

/// One of a Pod's conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// `PodScheduled`, `Initialized`, `ContainersReady`, `Ready`, `DisruptionTarget` ...
    pub kind: String,
    /// Whether the status is `True`; `False` and `Unknown` are both false.
    pub is_true: bool,
    /// The reason, such as `Unschedulable`; empty when absent.
    pub reason: String,
    /// The message; empty when absent.
    pub message: String,
}

/// One container's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// The container's name in the spec.
    pub name: String,
    /// What it does now.
    pub state: ContainerState,
    /// Whether it is one that the manager itself put into the Pod and has to wait for (the collector of output files).
    pub ours: bool,
    /// Whether it is an init container that goes on running beside the others (`restartPolicy: Always`).
    pub sidecar: bool,
}

/// What a container does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    /// The kubelet has said nothing yet.
    #[default]
    Unknown,
    /// It has not started, or waits to be started again.
    Waiting {
        /// Such as `ImagePullBackOff`; empty when absent.
        reason: String,
        /// The kubelet's text; empty when absent.
        message: String,
    },
    /// It runs.
    Running {
        /// When it started.
        started_at: Option<Timestamp>,
    },
    /// It has ended.
    Terminated(Terminated),
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminated {
    /// The exit code; 128 + signal when a signal ended it.
    pub exit_code: i32,
    /// The signal's number, when the runtime reports it.
    pub signal: Option<i32>,
    /// Such as `Completed`, `Error`, `OOMKilled`; empty when absent.
    pub reason: String,
    /// The termination message; empty when absent.
    pub message: String,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// The limits of patience while a Pod does not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graces {
    /// How long image pulls may fail before the attempt is given up.
    pub image_pull_ms: u64,
    /// How long a container may fail to be created before the attempt is given up.
    pub create_container_ms: u64,
}

impl Default for Graces {
    fn default() -> Self {
        Self { image_pull_ms: 180_000, create_container_ms: 180_000 }
    }
}

/// What a Pod's status means for its attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it should; the attempt is in this phase.
    Progress(Progress),
    /// It does not start, for a reason that may pass. When it lasts longer than the grace, measured from the first bad
    /// observation, `failure` ends the attempt.
    Stuck {
        /// The phase to show meanwhile.
        phase: Phase,
        /// How long it may last.
        grace_ms: u64,
        /// What ends the attempt afterwards; its message is shown meanwhile.
        failure: Failure,
    },
    /// The attempt has ended; outputs decide together with this what became of it.
    Ended(Finish),
}

/// A Pod that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// `Queued`, `WaitingForResources`, `Initializing` or `Running`.
    pub phase: Phase,
    /// What people want to know about it, such as the scheduler's reason; usually empty.
    pub message: String,
    /// When the primary container started, while it runs.
    pub running_at: Option<Timestamp>,
}

/// How a Pod ended, before its outputs are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// What the Pod's status proves.
    pub proof: Proof,
    /// When the primary container started, where it is known.
    pub started_at: Option<Timestamp>,
    /// When it ended, where it is known.
    pub finished_at: Option<Timestamp>,
}

/// What is proven about the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The primary container exited with code 0.
    Completed,
    /// The container or the Pod failed, for this reason.
    Failed(Failure),
    /// The Pod is gone and nobody saw its end; only the outputs can tell (case 11).
    Vanished(Failure),
}

#[cfg(test)]
mod tests;
