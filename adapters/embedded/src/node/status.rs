//! The status that the node writes for a Pod.

use super::runtime::Exit;
use crate::api_server::Now;
use flyte_core::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// What one container does.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It has not started.
    Waiting {
        /// Such as `ContainerCreating`.
        reason: String,
        /// A sentence; empty for none.
        message: String,
    },
    /// It runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// It has ended.
    Ended {
        /// How.
        exit: Exit,
        /// Such as `Completed`.
        reason: String,
        /// What it left to say; empty for nothing.
        message: String,
        /// When it had started.
        started: Timestamp,
        /// When it ended.
        ended: Timestamp,
    },
}

impl State {
    /// It waits for the Pod to get to it.
    pub fn creating() -> Self {
        Self::Waiting { reason: "ContainerCreating".into(), message: String::new() }
    }

    /// The exit code, once it has ended.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Ended { exit, .. } => Some(exit.code),
            Self::Waiting { .. } | Self::Running { .. } => None,
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
            Self::Running { since } => json!({"running": {"startedAt": since}}),
            Self::Ended { exit, reason, message, started, ended } => json!({"terminated": {
                "exitCode": exit.code, "signal": exit.signal, "reason": reason, "message": message,
                "startedAt": started, "finishedAt": ended,
            }}),
        }
    }
}

/// A container as the status shows it.
#[derive(Clone, Debug)]
pub struct ContainerView {
    /// Its name.
    pub name: String,
    /// Its image, as the Pod names it.
    pub image: String,
    /// What it does.
    pub state: State,
    /// How often it was started anew.
    pub restarts: u32,
}

/// A Pod as the status shows it.
#[derive(Clone, Debug)]
pub struct PodView {
    /// `status.phase`.
    pub phase: &'static str,
    /// `status.reason`; empty for none.
    pub reason: String,
    /// `status.message`; empty for none.
    pub message: String,
    /// When the node took it.
    pub started: Timestamp,
    /// The init containers.
    pub init: Vec<ContainerView>,
    /// The containers.
    pub main: Vec<ContainerView>,
    /// Whether all init containers have done their work.
    pub initialized: bool,
}

impl PodView {
    /// The Pod as it begins.
    pub fn new(pod: &Pod, now: &Now) -> Self {
        let view = |containers: Option<&Vec<k8s_openapi::api::core::v1::Container>>| {
            containers
                .into_iter()
                .flatten()
                .map(|container| ContainerView {
                    name: container.name.clone(),
                    image: container.image.clone().unwrap_or_default(),
                    state: State::creating(),
                    restarts: 0,
                })
                .collect()
        };
        let spec = pod.spec.as_ref();
        Self {
            phase: "Pending",
            reason: String::new(),
            message: String::new(),
            started: now(),
            init: view(spec.and_then(|spec| spec.init_containers.as_ref())),
            main: view(spec.map(|spec| &spec.containers)),
            initialized: false,
        }
    }

    /// `status` as JSON.
    pub fn json(&self, now: Timestamp) -> Value {
        let ready = self.phase == "Running"
            && self.main.iter().all(|view| matches!(view.state, State::Running { .. }));
        let condition = |kind: &str, on: bool| json!({"type": kind, "status": if on { "True" } else { "False" }, "lastTransitionTime": now});
        json!({
            "phase": self.phase,
            "reason": (!self.reason.is_empty()).then_some(&self.reason),
            "message": (!self.message.is_empty()).then_some(&self.message),
            "startTime": self.started,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "conditions": [
                condition("PodScheduled", true),
                condition("Initialized", self.initialized),
                condition("ContainersReady", ready),
                condition("Ready", ready),
            ],
            "initContainerStatuses": containers(&self.init),
            "containerStatuses": containers(&self.main),
        })
    }
}

fn containers(views: &[ContainerView]) -> Vec<Value> {
    views
        .iter()
        .map(|view| {
            let running = matches!(view.state, State::Running { .. });
            json!({
                "name": view.name,
                "image": view.image,
                "imageID": "",
                "ready": running,
                "started": running,
                "restartCount": view.restarts,
                "state": view.state.json(),
            })
        })
        .collect()
}
