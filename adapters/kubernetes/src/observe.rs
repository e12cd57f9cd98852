//! A Pod as the core sees it.

use crate::labels::{ATTEMPT, PRIMARY_CONTAINER};
use crate::pod_spec::is_ours;
use flyte_core::Timestamp;
use flyte_core::plan::PodView;
use flyte_core::pod::{Condition, Container, ContainerState, Observation, PodRef, Terminated};
use k8s_openapi::api::core::v1::{ContainerState as K8sState, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The Pod; `None` when it does not say which attempt it is.
pub fn pod_view(pod: &Pod) -> Option<PodView> {
    let metadata = &pod.metadata;
    Some(PodView {
        pod: PodRef { name: metadata.name.clone()?, uid: metadata.uid.clone()? },
        attempt: metadata.labels.as_ref()?.get(ATTEMPT)?.parse().ok()?,
        observation: observation(pod),
    })
}

/// The part of a Pod that decides about its attempt.
pub fn observation(pod: &Pod) -> Observation {
    let status = pod.status.clone().unwrap_or_default();
    let spec = pod.spec.as_ref();
    let annotated =
        pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(PRIMARY_CONTAINER));
    let first = || spec.and_then(|spec| spec.containers.first()).map(|container| container.name.clone());
    let primary = annotated.cloned().or_else(first).unwrap_or_default();
    let sidecars: Vec<&str> = spec
        .and_then(|spec| spec.init_containers.as_ref())
        .into_iter()
        .flatten()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let containers = |statuses: Option<Vec<ContainerStatus>>| {
        statuses
            .unwrap_or_default()
            .into_iter()
            .map(|status| Container {
                ours: is_ours(&status.name),
                sidecar: sidecars.contains(&status.name.as_str()),
                state: state(status.state, status.last_state),
                name: status.name,
            })
            .collect()
    };
    Observation {
        phase: status.phase.unwrap_or_default(),
        reason: status.reason.unwrap_or_default(),
        message: status.message.unwrap_or_default(),
        conditions: status
            .conditions
            .unwrap_or_default()
            .into_iter()
            .map(|condition| Condition {
                kind: condition.type_,
                is_true: condition.status == "True",
                reason: condition.reason.unwrap_or_default(),
                message: condition.message.unwrap_or_default(),
            })
            .collect(),
        init_containers: containers(status.init_container_statuses),
        containers: containers(status.container_statuses),
        primary_in_spec: spec
            .is_some_and(|spec| spec.containers.iter().any(|container| container.name == primary)),
        primary,
        created_at: pod.metadata.creation_timestamp.as_ref().and_then(time),
        deletion_at: pod.metadata.deletion_timestamp.as_ref().and_then(time),
    }
}

fn time(time: &Time) -> Option<Timestamp> {
    Some(Timestamp::from_ms(time.0.as_millisecond()))
}

/// What a container does. A kubelet may show a container that has ended as waiting, with its end in the last state.
fn state(state: Option<K8sState>, last: Option<K8sState>) -> ContainerState {
    let state = state.unwrap_or_default();
    let ended = state
        .terminated
        .or_else(|| last.filter(|_| state.running.is_none()).and_then(|last| last.terminated));
    if let Some(running) = state.running {
        return ContainerState::Running { started_at: running.started_at.as_ref().and_then(time) };
    }
    if let Some(ended) = ended {
        return ContainerState::Terminated(Terminated {
            exit_code: ended.exit_code,
            signal: ended.signal,
            reason: ended.reason.unwrap_or_default(),
            message: ended.message.unwrap_or_default(),
            started_at: ended.started_at.as_ref().and_then(time),
            finished_at: ended.finished_at.as_ref().and_then(time),
        });
    }
    match state.waiting {
        Some(waiting) => ContainerState::Waiting {
            reason: waiting.reason.unwrap_or_default(),
            message: waiting.message.unwrap_or_default(),
        },
        None => ContainerState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_seen_with_everything_that_decides() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u", "labels": {"flyte.org/attempt": "2"},
                "annotations": {"flyte.org/primary-container": "main"},
                "creationTimestamp": "2026-03-01T12:00:00Z", "deletionTimestamp": "2026-03-01T12:01:00Z"},
            "spec": {"containers": [{"name": "side"}, {"name": "main"}],
                "initContainers": [{"name": "flyte-copilot-upload", "restartPolicy": "Always"}]},
            "status": {"phase": "Running", "reason": "R", "message": "M",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}],
                "initContainerStatuses": [{"name": "flyte-copilot-upload", "image": "", "imageID": "", "ready": true,
                    "restartCount": 0, "state": {"running": {"startedAt": "2026-03-01T12:00:01Z"}}}],
                "containerStatuses": [
                    {"name": "side", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                     "state": {"waiting": {"reason": "ImagePullBackOff", "message": "slow"}}},
                    {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                     "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                     "lastState": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled",
                         "startedAt": "2026-03-01T12:00:02Z", "finishedAt": "2026-03-01T12:00:03Z"}}}]},
        }))
        .unwrap();
        let at = |second: i64| Some(Timestamp::from_ms(1_772_366_400_000 + second * 1_000));
        let container = |name: &str, state, ours| Container { name: name.into(), state, ours, sidecar: ours };
        assert_eq!(
            pod_view(&pod),
            Some(PodView {
                pod: PodRef { name: "p".into(), uid: "u".into() },
                attempt: 2,
                observation: Observation {
                    phase: "Running".into(),
                    reason: "R".into(),
                    message: "M".into(),
                    conditions: vec![Condition {
                        kind: "PodScheduled".into(),
                        is_true: false,
                        reason: "Unschedulable".into(),
                        message: "no room".into(),
                    }],
                    init_containers: vec![container(
                        "flyte-copilot-upload",
                        ContainerState::Running { started_at: at(1) },
                        true
                    )],
                    containers: vec![
                        container(
                            "side",
                            ContainerState::Waiting {
                                reason: "ImagePullBackOff".into(),
                                message: "slow".into()
                            },
                            false
                        ),
                        container(
                            "main",
                            ContainerState::Terminated(Terminated {
                                exit_code: 137,
                                signal: Some(9),
                                reason: "OOMKilled".into(),
                                message: String::new(),
                                started_at: at(2),
                                finished_at: at(3),
                            }),
                            false
                        ),
                    ],
                    primary: "main".into(),
                    primary_in_spec: true,
                    created_at: at(0),
                    deletion_at: at(60),
                },
            })
        );
        assert_eq!(pod_view(&Pod::default()), None);
        assert_eq!(observation(&Pod::default()), Observation::default());
    }
}
