//! What is stored, as clients read it.

use flyte_core::{Action, ActionId, Attempt, Failure, Kind, Origin, Phase, RunId, Timestamp};
use flyte_proto::{Raw, common, core, task, workflow};
use flyte_store::TransitionRow;
use flyte_store::row::{ActionRow, RunRow, Spec, SpecKind};

/// A run's identity.
pub fn run_identifier(id: &RunId) -> common::RunIdentifier {
    common::RunIdentifier {
        org: id.org.clone(),
        project: id.project.clone(),
        domain: id.domain.clone(),
        name: id.name.clone(),
    }
}

/// An action's identity.
pub fn action_identifier(id: &ActionId) -> common::ActionIdentifier {
    common::ActionIdentifier { run: Some(run_identifier(&id.run)), name: id.name.clone() }
}

/// A time.
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let ms = time.as_ms();
    prost_types::Timestamp {
        seconds: ms.div_euclid(1000),
        nanos: i32::try_from(ms.rem_euclid(1000)).unwrap_or(0) * 1_000_000,
    }
}

/// A run as lists show it.
pub fn run(run: &RunRow, root: &ActionRow, now: Timestamp) -> workflow::Run {
    workflow::Run { action: Some(action(root, Some(run), now)), labels: run.labels.clone() }
}

/// An action as lists show it. `run` is given for a root, whose metadata tells where the run came from.
pub fn action(row: &ActionRow, run: Option<&RunRow>, now: Timestamp) -> workflow::Action {
    workflow::Action {
        id: Some(action_identifier(&row.action.id)),
        metadata: Some(metadata(row, run)),
        status: Some(status(&row.action, now)),
    }
}

fn metadata(row: &ActionRow, run: Option<&RunRow>) -> workflow::ActionMetadata {
    use workflow::action_metadata::Spec;
    let meta = &row.meta;
    let (action_type, spec) = match row.action.kind {
        Kind::Task => (
            workflow::ActionType::Task,
            Spec::Task(workflow::TaskActionMetadata {
                id: meta.task.as_ref().map(|id| task::TaskIdentifier {
                    org: id.org.clone(),
                    project: id.project.clone(),
                    domain: id.domain.clone(),
                    name: id.name.clone(),
                    version: id.version.clone(),
                }),
                task_type: meta.task_type.clone(),
                short_name: meta.short_name.clone(),
                queue: (!meta.queue.is_empty()).then(|| meta.queue.clone()),
            }),
        ),
        Kind::Trace => (
            workflow::ActionType::Trace,
            Spec::Trace(workflow::TraceActionMetadata { name: meta.short_name.clone() }),
        ),
        Kind::Condition => (
            workflow::ActionType::Condition,
            Spec::Condition(workflow::ConditionActionMetadata {
                name: meta.short_name.clone(),
                r#type: None,
            }),
        ),
    };
    workflow::ActionMetadata {
        parent: row.action.parent.clone().unwrap_or_default(),
        group: row.action.group.clone(),
        spec: Some(spec),
        action_type: action_type.into(),
        environment_name: meta.environment_name.clone(),
        funtion_name: meta.function_name.clone(),
        source: run.map_or(0, |run| run.source),
        ..Default::default()
    }
}

/// Where an action is. Times and duration count from the start of the first attempt, before it from the creation.
fn status(action: &Action, now: Timestamp) -> workflow::ActionStatus {
    workflow::ActionStatus {
        phase: action.phase.number(),
        start_time: Some(timestamp(action.started_at.unwrap_or(action.created_at))),
        end_time: action.ended_at.map(timestamp),
        attempts: action.attempt().number,
        cache_status: 0,
        duration_ms: Some(action.duration_ms(now)),
    }
}

/// Everything about an action. `transitions` are all of it that the stored action has gone through, oldest first.
pub fn details(
    row: &ActionRow,
    run: Option<&RunRow>,
    spec: Option<&Spec>,
    transitions: &[TransitionRow],
    now: Timestamp,
) -> workflow::ActionDetails {
    use workflow::action_details::{Result, Spec as DetailsSpec};
    let action = &row.action;
    let result = match (&action.failure, &action.abort) {
        (_, Some(abort)) if action.phase == Phase::Aborted => {
            Some(Result::AbortInfo(workflow::AbortInfo { reason: abort.reason.clone(), aborted_by: None }))
        }
        (Some(failure), _) if action.phase.is_terminal() => Some(Result::ErrorInfo(error_info(failure))),
        _ => None,
    };
    workflow::ActionDetails {
        id: Some(action_identifier(&action.id)),
        metadata: Some(metadata(row, run)),
        status: Some(status(action, now)),
        attempts: action
            .attempts
            .iter()
            .map(|attempt| attempt_details(action, attempt, transitions))
            .collect(),
        result,
        spec: spec.map(|spec| match spec.kind {
            SpecKind::Task => DetailsSpec::Task(Raw::from_bytes(spec.bytes.to_vec())),
            SpecKind::Trace => DetailsSpec::Trace(Raw::from_bytes(spec.bytes.to_vec())),
            SpecKind::Condition => DetailsSpec::Condition(Raw::from_bytes(spec.bytes.to_vec())),
        }),
    }
}

fn attempt_details(
    action: &Action,
    attempt: &Attempt,
    transitions: &[TransitionRow],
) -> workflow::ActionAttempt {
    let own: Vec<&TransitionRow> =
        transitions.iter().filter(|found| found.attempt == attempt.number).collect();
    let phase_transitions = own
        .iter()
        .enumerate()
        .map(|(index, transition)| workflow::PhaseTransition {
            phase: transition.phase.number(),
            start_time: Some(timestamp(transition.at)),
            end_time: match own.get(index + 1) {
                Some(next) => Some(timestamp(next.at)),
                None => attempt.ended_at.filter(|_| transition.phase.is_terminal()).map(timestamp),
            },
        })
        .collect();
    let outputs = (attempt.phase == Phase::Succeeded).then(|| task::OutputReferences {
        output_uri: match action.kind {
            Kind::Task => format!("{}/outputs.pb", action.output_prefix(attempt.number)),
            Kind::Trace | Kind::Condition => action.output_uri.clone(),
        },
        report_uri: String::new(),
    });
    workflow::ActionAttempt {
        phase: attempt.phase.number(),
        start_time: Some(timestamp(attempt.running_at.unwrap_or(attempt.created_at))),
        end_time: attempt.ended_at.map(timestamp),
        error_info: attempt.failure.as_ref().map(error_info),
        attempt: attempt.number,
        outputs,
        logs_available: logs_available(attempt),
        cluster_events: own.iter().filter_map(|transition| cluster_event(transition)).collect(),
        phase_transitions,
        ..Default::default()
    }
}

/// Whether the attempt has, or had, a running container: from RUNNING on. `--follow` waits for it.
pub fn logs_available(attempt: &Attempt) -> bool {
    attempt.running_at.is_some() || matches!(attempt.phase, Phase::Running | Phase::Succeeded)
}

/// A failure, for details.
pub fn error_info(failure: &Failure) -> workflow::ErrorInfo {
    use workflow::error_info::Kind;
    workflow::ErrorInfo {
        message: failure.message.clone(),
        kind: match failure.origin {
            Origin::User => Kind::User.into(),
            Origin::System => Kind::System.into(),
        },
        code: failure.code.clone(),
        gpu_fault: None,
    }
}

/// What a transition tells people; `None` when it has nothing to say.
pub fn cluster_event(transition: &TransitionRow) -> Option<workflow::ClusterEvent> {
    use workflow::cluster_event::Type;
    let bad = matches!(transition.phase, Phase::Failed | Phase::TimedOut | Phase::Aborted);
    Some(workflow::ClusterEvent {
        occurred_at: Some(timestamp(transition.at)),
        message: match transition.message.as_str() {
            "" => format!("attempt {} is {}", transition.attempt, transition.phase),
            message => message.to_string(),
        },
        r#type: if bad { Type::Warning.into() } else { Type::Normal.into() },
        reason: transition.phase.name().to_string(),
        source_component: "flyte-manager".into(),
        count: 1,
        gpu_fault: None,
    })
}

/// The state of a child, as its parent reads it: outputs by prefix for a task, as recorded for a trace.
pub fn action_update(row: &ActionRow) -> workflow::ActionUpdate {
    let action = &row.action;
    workflow::ActionUpdate {
        action_id: Some(action_identifier(&action.id)),
        phase: action.phase.number(),
        error: action.failure.as_ref().filter(|_| action.phase.is_terminal()).map(|failure| {
            core::ExecutionError {
                code: failure.code.clone(),
                message: failure.message.clone(),
                kind: match failure.origin {
                    Origin::User => core::execution_error::ErrorKind::User.into(),
                    Origin::System => core::execution_error::ErrorKind::System.into(),
                },
                timestamp: action.ended_at.map(timestamp),
                ..Default::default()
            }
        }),
        // The SDK warns of a task without a place for its outputs, even while it runs.
        output_uri: match (action.kind, action.output_uri.as_str()) {
            (Kind::Task, "") => action.output_prefix(action.attempt().number),
            (_, uri) => uri.to_string(),
        },
        value: None,
        address: None,
    }
}
