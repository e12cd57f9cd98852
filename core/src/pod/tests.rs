//! What Pods really show, one line each: the status in short, and what it means for the attempt.

use super::*;
use crate::Origin;

/// A Pod from a line of words. The first is the phase (`-` for none); `=` gives a container's state.
fn pod(line: &str) -> Observation {
    let mut words = line.split_whitespace();
    let phase = words.next().unwrap_or("-");
    let mut pod = Observation {
        phase: if phase == "-" { String::new() } else { phase.into() },
        primary: "primary".into(),
        primary_in_spec: true,
        ..Observation::default()
    };
    let condition = |kind: &str, is_true, reason: &str| Condition {
        kind: kind.into(),
        is_true,
        reason: reason.into(),
        message: String::new(),
    };
    for word in words {
        match word.split_once(['=', ':']) {
            None if word == "scheduled" => pod.conditions.push(condition("PodScheduled", true, "")),
            None if word == "unscheduled" => {
                pod.conditions.push(condition("PodScheduled", false, "Unschedulable"))
            }
            None if word == "gated" => {
                pod.conditions.push(condition("PodScheduled", false, "SchedulingGated"))
            }
            None if word == "ready" => pod.conditions.push(condition("Ready", true, "")),
            None if word == "deleted" => pod.deletion_at = Some(Timestamp::from_ms(1)),
            None if word == "absent" => pod.primary_in_spec = false,
            Some(("reason", reason)) => pod.reason = reason.into(),
            Some(("message", message)) => pod.message = message.into(),
            Some(("disrupted", reason)) => pod.conditions.push(condition("DisruptionTarget", true, reason)),
            Some(("undisrupted", reason)) => {
                pod.conditions.push(condition("DisruptionTarget", false, reason))
            }
            Some((name, state)) => {
                let (list, name) = match name.split_once('/') {
                    Some((_, name)) => (&mut pod.init_containers, name),
                    None => (&mut pod.containers, name),
                };
                list.push(Container {
                    name: name.into(),
                    state: container(state),
                    ours: name.starts_with("ours"),
                    sidecar: word.starts_with("side/"),
                });
            }
            None => panic!("{word}"),
        }
    }
    pod
}

/// `run`, `none`, `wait.REASON`, `exit.CODE.REASON`, `signal.NUMBER.REASON`; `message` after a third dot.
fn container(state: &str) -> ContainerState {
    let mut parts = state.splitn(4, '.');
    let mut next = || parts.next().unwrap_or_default().to_string();
    match next().as_str() {
        "run" => ContainerState::Running { started_at: Some(Timestamp::from_ms(5)) },
        "wait" => ContainerState::Waiting { reason: next(), message: next() },
        "exit" => ContainerState::Terminated(Terminated {
            exit_code: next().parse().unwrap(),
            reason: next(),
            message: next(),
            ..Terminated::default()
        }),
        "signal" => {
            let signal: i32 = next().parse().unwrap();
            ContainerState::Terminated(Terminated {
                exit_code: 128 + signal,
                signal: Some(signal),
                reason: next(),
                ..Terminated::default()
            })
        }
        _ => ContainerState::Unknown,
    }
}

/// A verdict as a line of words.
fn said(verdict: &Verdict) -> String {
    let failure = |failure: &Failure| {
        let origin = if failure.origin == Origin::User { "user" } else { "system" };
        format!("{origin} {} {}", failure.code, if failure.retryable { "again" } else { "never" })
    };
    match verdict {
        Verdict::Progress(progress) => progress.phase.name().to_lowercase(),
        Verdict::Stuck { failure: inner, grace_ms, .. } => {
            format!("stuck {} {}", grace_ms / 1_000, failure(inner))
        }
        Verdict::Ended(finish) => match &finish.proof {
            Proof::Completed => "done".into(),
            Proof::Failed(inner) => failure(inner),
            Proof::Vanished(_) => "vanished".into(),
        },
    }
}

const ROWS: &[(&str, &str)] = &[
    // Before a node is found
    ("-", "queued"),
    ("Pending", "queued"),
    ("Pending primary=none", "queued"),
    ("Pending unscheduled", "waiting_for_resources"),
    ("Pending gated", "waiting_for_resources"),
    ("- unscheduled", "waiting_for_resources"),
    ("Pending unscheduled primary=wait.ContainerCreating", "waiting_for_resources"),
    ("Unknown unscheduled", "waiting_for_resources"),
    // On its way on a node
    ("Pending scheduled", "initializing"),
    ("Pending scheduled primary=none", "initializing"),
    ("Pending scheduled primary=wait", "initializing"),
    ("Pending scheduled primary=wait.ContainerCreating", "initializing"),
    ("Pending scheduled primary=wait.PodInitializing", "initializing"),
    ("Pending scheduled init/setup=run primary=wait.PodInitializing", "initializing"),
    ("Pending scheduled init/setup=exit.0.Completed primary=wait.PodInitializing", "initializing"),
    ("Pending scheduled side/mesh=run primary=wait.PodInitializing", "initializing"),
    ("Pending scheduled init/setup=wait.ContainerCreating primary=wait.PodInitializing", "initializing"),
    ("Running scheduled primary=none", "initializing"),
    ("Running scheduled primary=wait.ContainerCreating", "initializing"),
    ("Running scheduled", "initializing"),
    ("Running scheduled other=run primary=wait.ContainerCreating", "initializing"),
    ("Unknown scheduled", "initializing"),
    ("Strange scheduled", "initializing"),
    // Images
    ("Pending scheduled primary=wait.ErrImagePull", "stuck 180 user ErrImagePull again"),
    ("Pending scheduled primary=wait.ImagePullBackOff", "stuck 180 user ImagePullBackOff again"),
    ("Pending scheduled primary=wait.ImageInspectError", "stuck 180 user ImageInspectError again"),
    (
        "Pending scheduled primary=wait.SignatureValidationFailed",
        "stuck 180 user SignatureValidationFailed again",
    ),
    ("Pending scheduled primary=wait.RegistryUnavailable", "stuck 180 system RegistryUnavailable again"),
    ("Pending scheduled primary=wait.ErrImagePull.toomanyrequests", "stuck 180 system ErrImagePull again"),
    ("Pending scheduled primary=wait.ImagePullBackOff.429", "stuck 180 system ImagePullBackOff again"),
    ("Pending scheduled primary=wait.InvalidImageName", "user InvalidImageName never"),
    ("Pending scheduled primary=wait.ErrImageNeverPull", "user ErrImageNeverPull never"),
    (
        "Pending scheduled init/setup=wait.ImagePullBackOff primary=wait.PodInitializing",
        "stuck 180 user ImagePullBackOff again",
    ),
    (
        "Pending scheduled side/mesh=wait.ErrImagePull primary=wait.PodInitializing",
        "stuck 180 user ErrImagePull again",
    ),
    (
        "Running scheduled other=wait.ImagePullBackOff primary=wait.ContainerCreating",
        "stuck 180 user ImagePullBackOff again",
    ),
    (
        "Pending scheduled init/setup=wait.InvalidImageName primary=wait.PodInitializing",
        "user InvalidImageName never",
    ),
    // Containers that do not start
    (
        "Pending scheduled primary=wait.CreateContainerConfigError",
        "stuck 180 user CreateContainerConfigError again",
    ),
    ("Pending scheduled primary=wait.CreateContainerError", "stuck 180 system CreateContainerError again"),
    ("Pending scheduled primary=wait.RunContainerError", "stuck 180 system RunContainerError again"),
    ("Pending scheduled primary=wait.PostStartHookError", "stuck 180 system PostStartHookError again"),
    ("Pending scheduled primary=wait.PreCreateHookError", "stuck 180 system PreCreateHookError again"),
    ("Pending scheduled primary=wait.PreStartHookError", "stuck 180 system PreStartHookError again"),
    ("Running scheduled primary=wait.CrashLoopBackOff", "stuck 180 user CrashLoopBackOff again"),
    (
        "Pending scheduled init/setup=wait.CrashLoopBackOff primary=wait.PodInitializing",
        "stuck 180 user CrashLoopBackOff again",
    ),
    ("Pending scheduled primary=wait.SomethingNew", "stuck 180 system SomethingNew again"),
    (
        "Pending scheduled init/setup=wait.CreateContainerConfigError primary=wait.PodInitializing",
        "stuck 180 user CreateContainerConfigError again",
    ),
    // Running
    ("Running scheduled primary=run", "running"),
    ("Running scheduled ready primary=run", "running"),
    ("Pending scheduled primary=run", "running"),
    ("Unknown scheduled primary=run", "running"),
    ("- primary=run", "running"),
    ("Running primary=run other=exit.0.Completed", "running"),
    ("Running primary=run other=exit.1.Error", "running"),
    ("Running primary=run other=wait.ImagePullBackOff", "running"),
    ("Running primary=run side/mesh=wait.CrashLoopBackOff", "running"),
    ("Running deleted primary=run", "running"),
    ("Running disrupted=PreemptionByScheduler primary=run", "running"),
    ("Running unscheduled primary=run", "running"),
    // Done
    ("Succeeded primary=exit.0.Completed", "done"),
    ("Succeeded", "done"),
    ("Succeeded primary=none", "done"),
    ("Running primary=exit.0.Completed", "done"),
    ("Pending primary=exit.0.Completed", "done"),
    ("Failed primary=exit.0.Completed", "done"),
    ("Failed primary=exit.0.Completed other=exit.1.Error", "done"),
    ("Failed reason=Evicted primary=exit.0.Completed", "done"),
    ("Running deleted primary=exit.0.Completed", "done"),
    ("Running primary=exit.0.Completed other=run", "done"),
    ("Running primary=exit.0.Completed side/mesh=run", "done"),
    ("Running primary=exit.0.Completed istio=run", "done"),
    ("Unknown primary=exit.0.Completed", "done"),
    ("Failed disrupted=DeletionByTaintManager primary=exit.0.Completed", "done"),
    // Collectors of ours have to have done their work
    ("Running primary=exit.0.Completed side/ours=run", "running"),
    ("Running primary=exit.0.Completed ours=run", "running"),
    ("Running primary=exit.0.Completed side/ours=exit.0.Completed", "done"),
    ("Running primary=exit.3.Error side/ours=run", "user Error again"),
    ("Failed primary=exit.0.Completed side/ours=run", "done"),
    ("Succeeded primary=exit.0.Completed side/ours=run", "done"),
    // Failures of the task
    ("Failed primary=exit.1.Error", "user Error again"),
    ("Running primary=exit.1.Error", "user Error again"),
    ("Failed primary=exit.2", "user Error again"),
    ("Failed primary=exit.255.Error", "user Error again"),
    ("Failed primary=exit.-1.Error", "user Error again"),
    ("Running primary=exit.7.Error other=run", "user Error again"),
    ("Running primary=exit.7.Error side/mesh=run", "user Error again"),
    ("Failed primary=exit.137.OOMKilled", "user OOMKilled again"),
    ("Failed primary=exit.0.OOMKilled", "user OOMKilled again"),
    ("Failed primary=signal.9.OOMKilled", "user OOMKilled again"),
    ("Failed reason=Evicted primary=exit.137.OOMKilled", "user OOMKilled again"),
    ("Failed deleted primary=exit.137.OOMKilled", "user OOMKilled again"),
    ("Failed primary=exit.139.Error", "user Error again"),
    ("Failed primary=signal.11.Error", "user Error again"),
    ("Failed primary=signal.6.Error", "user Error again"),
    ("Failed primary=signal.15.Error", "user Error again"),
    ("Failed primary=exit.143.Error", "user Error again"),
    ("Failed primary=exit.128.StartError", "user StartError never"),
    ("Failed primary=exit.127.ContainerCannotRun", "user ContainerCannotRun never"),
    ("Failed primary=exit.126.StartError.denied", "user StartError never"),
    ("Failed reason=DeadlineExceeded", "user DeadlineExceeded again"),
    ("Failed reason=DeadlineExceeded primary=none", "user DeadlineExceeded again"),
    ("Failed init/setup=exit.3.Error primary=wait.PodInitializing", "user Error again"),
    ("Failed init/setup=exit.137.OOMKilled primary=wait.PodInitializing", "user OOMKilled again"),
    ("Failed init/one=exit.0.Completed init/two=exit.4.Error primary=none", "user Error again"),
    ("Failed absent other=exit.1.Error", "system PodFailed again"),
    ("Running absent other=run", "user PrimaryContainerNotFound never"),
    ("Pending absent", "user PrimaryContainerNotFound never"),
    // Failures of the cluster
    ("Failed reason=Evicted", "system Evicted again"),
    ("Failed reason=Evicted primary=exit.1.Error", "system Evicted again"),
    ("Failed reason=Evicted primary=wait.ContainerCreating", "system Evicted again"),
    ("Failed reason=Preempting", "system Preempting again"),
    ("Failed reason=Preempted primary=exit.143.Error", "system Preempted again"),
    ("Failed reason=Shutdown", "system Shutdown again"),
    ("Failed reason=NodeShutdown", "system NodeShutdown again"),
    ("Failed reason=Terminated primary=signal.15.Error", "system Terminated again"),
    ("Failed reason=NodeLost", "system NodeLost again"),
    ("Failed reason=NodeAffinity", "system NodeAffinity again"),
    ("Failed reason=UnexpectedAdmissionError", "system UnexpectedAdmissionError again"),
    ("Failed reason=OutOfcpu", "system OutOfcpu again"),
    ("Failed reason=OutOfmemory", "system OutOfmemory again"),
    ("Failed", "system PodFailed again"),
    ("Failed primary=none", "system PodFailed again"),
    ("Failed primary=wait.ContainerCreating", "system PodFailed again"),
    ("Failed disrupted=PreemptionByScheduler", "system PreemptionByScheduler again"),
    ("Failed disrupted=EvictionByEvictionAPI primary=exit.143.Error", "system EvictionByEvictionAPI again"),
    ("Failed disrupted=DeletionByTaintManager primary=signal.9.Error", "system DeletionByTaintManager again"),
    ("Failed undisrupted=EvictionByEvictionAPI primary=exit.1.Error", "user Error again"),
    ("Failed primary=signal.9.Error", "system Interrupted again"),
    ("Failed primary=exit.137.Error", "system Interrupted again"),
    ("Failed primary=exit.247.Error", "system Interrupted again"),
    ("Failed deleted primary=exit.143.Error", "system PodDeleted again"),
    ("Failed deleted primary=signal.9.Error", "system PodDeleted again"),
    ("Running deleted primary=exit.1.Error", "system PodDeleted again"),
    ("Failed reason=Evicted init/setup=exit.1.Error primary=none", "system Evicted again"),
    ("Failed init/setup=signal.9.Error primary=none", "system Interrupted again"),
    ("Failed side/mesh=exit.1.Error primary=none", "system PodFailed again"),
];

#[test]
fn every_status_has_its_meaning() {
    assert!(ROWS.len() >= 120, "{}", ROWS.len());
    let graces = Graces::default();
    let wrong: Vec<String> = ROWS
        .iter()
        .map(|(line, meaning)| (line, meaning, said(&classify(&pod(line), &graces))))
        .filter(|(_, meaning, found)| *meaning != found)
        .map(|(line, meaning, found)| format!("{line}\n  wanted {meaning}\n  found  {found}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn failures_carry_what_the_cluster_said() {
    let message = |line: &str| match classify(&pod(line), &Graces::default()) {
        Verdict::Ended(Finish { proof: Proof::Failed(failure), .. }) => failure.message,
        Verdict::Stuck { failure, .. } => failure.message,
        Verdict::Progress(progress) => progress.message,
        Verdict::Ended(_) => String::new(),
    };
    for (line, text) in [
        ("Failed primary=exit.7.Error.why", "Container 'primary' exited with code 7: why"),
        ("Failed primary=signal.11.Error", "Container 'primary' was ended by signal 11 (exit code 139)"),
        (
            "Failed primary=exit.137.OOMKilled",
            "Container 'primary' was ended by signal 9 (exit code 137), reason OOMKilled",
        ),
        ("Failed reason=Evicted message:disk", "The cluster ended the Pod, reason Evicted: disk"),
        ("Pending unscheduled", "Unschedulable"),
        (
            "Pending scheduled primary=wait.ErrImagePull.nope",
            "Container 'primary' cannot pull its image (ErrImagePull): nope",
        ),
        (
            "Failed deleted primary=exit.143.Error",
            "The Pod was deleted while its task ran: Container 'primary' was ended by signal 15 (exit code 143)",
        ),
    ] {
        assert_eq!(message(line), text, "{line}");
    }
}

#[test]
fn outputs_and_the_pod_decide_together() {
    let failure = |origin, code: &str| Failure::retryable(origin, code, "m");
    let document = |recoverable| ErrorDocument {
        code: "ValueError".into(),
        message: "boom".into(),
        recoverable,
        origin: Origin::User,
    };
    let collectors = || ErrorDocument { code: COLLECTOR_CODE.into(), ..document(true) };
    let failed = || Proof::Failed(failure(Origin::User, "Error"));
    let lost = || Proof::Vanished(failure(Origin::System, "PodLost"));
    for (proof, outputs, error, needed, result) in [
        (Proof::Completed, true, None, true, "ok"),
        (Proof::Completed, false, None, false, "ok"),
        (Proof::Completed, false, None, true, "OutputsNotFound true"),
        (Proof::Completed, true, Some(document(true)), true, "ValueError true"),
        (Proof::Completed, true, Some(document(false)), true, "ValueError false"),
        (failed(), true, None, true, "Error true"),
        (failed(), false, Some(document(false)), true, "ValueError false"),
        (failed(), false, Some(collectors()), true, "Error true"),
        (Proof::Completed, false, Some(collectors()), true, "OutputsInvalid true"),
        (lost(), true, None, true, "ok"),
        (lost(), false, None, true, "PodLost true"),
        (lost(), false, None, false, "PodLost true"),
        (lost(), true, Some(document(true)), false, "ValueError true"),
    ] {
        let finish = Finish { proof, started_at: None, finished_at: None };
        let found = OutputsFound { outputs, error };
        let said = match conclude(&finish, &found, needed) {
            Ok(()) => "ok".to_string(),
            Err(failure) => format!("{} {}", failure.code, failure.retryable),
        };
        assert_eq!(said, result, "{finish:?} {found:?} {needed}");
    }
}
