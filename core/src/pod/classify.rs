//! From a Pod's status to its meaning.

use super::{Container, ContainerState, Finish, Graces, Observation, Progress, Proof, Terminated, Verdict};
use crate::failure::Origin::{System, User};
use crate::{Failure, Phase};

/// What the observed status means. Only the primary container decides about the end (case 9), except that collectors
/// of ours must have ended too, since they bring the outputs.
pub fn classify(pod: &Observation, graces: &Graces) -> Verdict {
    let primary = pod.containers.iter().find(|container| container.name == pod.primary);
    if let Some(ContainerState::Terminated(end)) = primary.map(|container| &container.state) {
        return primary_ended(pod, end);
    }
    match pod.phase.as_str() {
        "Failed" => Verdict::Ended(pod_failed(pod)),
        "Succeeded" => {
            Verdict::Ended(Finish { proof: Proof::Completed, started_at: None, finished_at: None })
        }
        _ => not_ended(pod, primary, graces),
    }
}

fn primary_ended(pod: &Observation, end: &Terminated) -> Verdict {
    let collecting = pod
        .init_containers
        .iter()
        .chain(&pod.containers)
        .any(|container| container.ours && matches!(container.state, ContainerState::Running { .. }));
    if end.exit_code == 0 && collecting && pod.phase == "Running" {
        return Verdict::Progress(Progress {
            phase: Phase::Running,
            message: String::new(),
            running_at: end.started_at,
        });
    }
    let proof = match container_ended(&pod.primary, end) {
        None => Proof::Completed,
        // A container that ran out of memory did so by itself, whatever else happened to its Pod.
        Some(failure) if end.reason == "OOMKilled" => Proof::Failed(failure),
        Some(failure) if is_disruption(pod) => Proof::Failed(disruption(pod, Some(&failure.message))),
        Some(failure) if pod.deletion_at.is_some() => Proof::Failed(Failure::retryable(
            System,
            "PodDeleted",
            format!("The Pod was deleted while its task ran: {}", failure.message),
        )),
        Some(failure) => Proof::Failed(failure),
    };
    Verdict::Ended(Finish { proof, started_at: end.started_at, finished_at: end.finished_at })
}

/// The failure that a terminated container stands for; `None` when it exited with code 0.
pub fn container_ended(name: &str, end: &Terminated) -> Option<Failure> {
    if end.exit_code == 0 && end.reason != "OOMKilled" {
        return None;
    }
    let signal = end.signal.filter(|signal| *signal > 0).or(match end.exit_code {
        code @ 129..=192 => Some(code - 128),
        // -9 as an unsigned byte, as some runtimes report it.
        247 => Some(9),
        _ => None,
    });
    let mut text = match signal {
        Some(signal) => {
            format!("Container '{name}' was ended by signal {signal} (exit code {})", end.exit_code)
        }
        None => format!("Container '{name}' exited with code {}", end.exit_code),
    };
    if !end.reason.is_empty() && end.reason != "Error" {
        text.push_str(&format!(", reason {}", end.reason));
    }
    if !end.message.trim().is_empty() {
        text.push_str(": ");
        text.push_str(end.message.trim());
    }
    let code = if end.reason.is_empty() { "Error" } else { &end.reason };
    Some(match (end.reason.as_str(), signal) {
        ("OOMKilled", _) => Failure::retryable(User, "OOMKilled", text),
        // The runtime's own trouble; the command is not to blame (case 3).
        ("StartError" | "ContainerCannotRun", _)
            if ["is reserved", "deadline exceeded", "timed out", "no space left"]
                .iter()
                .any(|words| end.message.contains(words)) =>
        {
            Failure::retryable(System, code, text)
        }
        ("StartError" | "ContainerCannotRun", _) => Failure::permanent(User, code, text),
        (_, Some(9)) => Failure::retryable(System, "Interrupted", text),
        _ => Failure::retryable(User, code, text),
    })
}

fn is_disruption(pod: &Observation) -> bool {
    pod.conditions.iter().any(|condition| condition.kind == "DisruptionTarget" && condition.is_true)
        || matches!(
            pod.reason.as_str(),
            "Evicted"
                | "Preempting"
                | "Preempted"
                | "Shutdown"
                | "Terminated"
                | "NodeShutdown"
                | "NodeLost"
                | "NodeAffinity"
                | "UnexpectedAdmissionError"
                | "TerminationByKubelet"
        )
}

fn disruption(pod: &Observation, also: Option<&str>) -> Failure {
    let condition =
        pod.conditions.iter().find(|condition| condition.kind == "DisruptionTarget" && condition.is_true);
    let code = match (pod.reason.as_str(), condition) {
        ("", Some(condition)) if !condition.reason.is_empty() => condition.reason.as_str(),
        ("", _) => "PodFailed",
        (reason, _) => reason,
    };
    let mut text = format!("The cluster ended the Pod, reason {code}");
    for message in [Some(pod.message.as_str()), condition.map(|condition| condition.message.as_str()), also]
        .into_iter()
        .flatten()
        .filter(|message| !message.is_empty())
    {
        text.push_str(": ");
        text.push_str(message);
    }
    Failure::retryable(System, code, text)
}

/// A failed Pod whose primary container shows no end.
fn pod_failed(pod: &Observation) -> Finish {
    let inner = pod.init_containers.iter().find_map(|container| match &container.state {
        ContainerState::Terminated(end) if !container.sidecar => container_ended(&container.name, end),
        _ => None,
    });
    let failure = match inner {
        _ if is_disruption(pod) => disruption(pod, None),
        Some(failure) => failure,
        None if pod.reason == "DeadlineExceeded" => Failure::retryable(
            User,
            "DeadlineExceeded",
            format!("The Pod ran longer than its activeDeadlineSeconds: {}", pod.message),
        ),
        None => disruption(pod, None),
    };
    Finish { proof: Proof::Failed(failure), started_at: None, finished_at: None }
}

fn not_ended(pod: &Observation, primary: Option<&Container>, graces: &Graces) -> Verdict {
    if let Some(ContainerState::Running { started_at }) = primary.map(|container| &container.state) {
        return Verdict::Progress(Progress {
            phase: Phase::Running,
            message: String::new(),
            running_at: *started_at,
        });
    }
    if !pod.primary_in_spec {
        return Verdict::Ended(Finish {
            proof: Proof::Failed(Failure::permanent(
                User,
                "PrimaryContainerNotFound",
                format!(
                    "The Pod has no container named '{}', which should decide about the task",
                    pod.primary
                ),
            )),
            started_at: None,
            finished_at: None,
        });
    }
    if let Some(condition) = pod.conditions.iter().find(|condition| condition.kind == "PodScheduled")
        && !condition.is_true
    {
        let message = [condition.reason.as_str(), condition.message.as_str()]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(": ");
        return progress(Phase::WaitingForResources, message);
    }
    for container in pod.init_containers.iter().chain(&pod.containers) {
        if let ContainerState::Waiting { reason, message } = &container.state
            && let Some(verdict) = waiting(&container.name, reason, message, graces)
        {
            return verdict;
        }
    }
    if pod.phase.is_empty() || (pod.phase == "Pending" && pod.conditions.is_empty()) {
        return progress(Phase::Queued, String::new());
    }
    progress(Phase::Initializing, String::new())
}

fn progress(phase: Phase, message: String) -> Verdict {
    Verdict::Progress(Progress { phase, message: crate::text::message(&message), running_at: None })
}

/// What a waiting container means; `None` when it waits as every container does at first.
fn waiting(name: &str, reason: &str, message: &str, graces: &Graces) -> Option<Verdict> {
    let text = |what: &str| {
        let mut text = format!("Container '{name}' {what} ({reason})");
        if !message.is_empty() {
            text.push_str(": ");
            text.push_str(message);
        }
        text
    };
    let stuck = |grace_ms, failure| Some(Verdict::Stuck { phase: Phase::Initializing, grace_ms, failure });
    let ended = |failure| {
        Some(Verdict::Ended(Finish { proof: Proof::Failed(failure), started_at: None, finished_at: None }))
    };
    match reason {
        "" | "ContainerCreating" | "PodInitializing" => None,
        "ErrImagePull"
        | "ImagePullBackOff"
        | "ImageInspectError"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => {
            let rate_limited = message.contains("429") || message.contains("toomanyrequests");
            let origin = if rate_limited || reason == "RegistryUnavailable" { System } else { User };
            stuck(graces.image_pull_ms, Failure::retryable(origin, reason, text("cannot pull its image")))
        }
        "InvalidImageName" => {
            ended(Failure::permanent(User, reason, text("has an image name that is not valid")))
        }
        "ErrImageNeverPull" => ended(Failure::permanent(
            User,
            reason,
            text("has an image that is not on the node and must not be pulled"),
        )),
        "CreateContainerConfigError" => stuck(
            graces.create_container_ms,
            Failure::retryable(User, reason, text("has a configuration that fails")),
        ),
        "CreateContainerError"
        | "RunContainerError"
        | "PostStartHookError"
        | "PreCreateHookError"
        | "PreStartHookError" => {
            stuck(graces.create_container_ms, Failure::retryable(System, reason, text("cannot be started")))
        }
        "CrashLoopBackOff" => {
            stuck(graces.create_container_ms, Failure::retryable(User, reason, text("fails again and again")))
        }
        _ => stuck(graces.create_container_ms, Failure::retryable(System, reason, text("does not start"))),
    }
}
