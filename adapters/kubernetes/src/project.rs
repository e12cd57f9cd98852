//! An action as the cluster shows it.

use crate::labels;
use crate::task_action::{
    ErrorState, HISTORY_MAX, MESSAGE_MAX_BYTES, PhaseEntry, STATE_JSON_MAX_BYTES, TaskAction, TaskActionSpec,
    TaskActionStatus,
};
use flyte_core::plan::projection;
use flyte_core::{Action, Origin, Phase, Timestamp, naming, text};
use flyte_store::{ActionRow, TransitionRow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The TaskAction of an action, as it is created.
pub fn task_action(row: &ActionRow, namespace: &str) -> TaskAction {
    let action = &row.action;
    let meta = &row.meta;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
    let mut object = TaskAction::new(
        &naming::task_action_name(&action.id),
        TaskActionSpec {
            org: action.id.run.org.clone(),
            project: action.id.run.project.clone(),
            domain: action.id.run.domain.clone(),
            run_name: action.id.run.name.clone(),
            action_name: action.id.name.clone(),
            parent_action_name: action.parent.clone(),
            action_type: "task".into(),
            input_uri: action.input_uri.clone(),
            run_output_base: action.run_output_base.clone(),
            cache_key: some(&meta.cache_key),
            task_type: some(&meta.task_type),
            short_name: some(&meta.short_name),
            group: some(&action.group),
            interruptible: meta.interruptible,
            image: None,
        },
    );
    object.metadata.namespace = Some(namespace.to_string());
    object.metadata.labels = Some(labels::labels(&action.id));
    object.metadata.annotations = Some(labels::annotations(&action.id));
    object
}

/// The status of an action. `transitions` are the newest that it went through, oldest first.
pub fn status(row: &ActionRow, transitions: &[TransitionRow], generation: Option<i64>) -> TaskActionStatus {
    let action = &row.action;
    let shown = projection(action);
    let skip = transitions.len().saturating_sub(HISTORY_MAX);
    TaskActionStatus {
        phase: shown.phase.name().to_string(),
        attempt: shown.attempt,
        message: shown.message.clone(),
        state_json: state_json(action),
        conditions: conditions(action, &shown.message, generation),
        phase_history: transitions
            .iter()
            .skip(skip)
            .map(|transition| PhaseEntry {
                phase: transition.phase.name().to_string(),
                attempt: transition.attempt,
                occurred_at: time(transition.at),
                message: text::bounded(&transition.message, MESSAGE_MAX_BYTES),
            })
            .collect(),
        error_state: action.failure.as_ref().map(|failure| ErrorState {
            code: failure.code.clone(),
            kind: match failure.origin {
                Origin::User => "USER".into(),
                Origin::System => "SYSTEM".into(),
            },
            message: text::bounded(&failure.message, MESSAGE_MAX_BYTES),
        }),
    }
}

/// The state document, in short when somebody has put a very long one.
fn state_json(action: &Action) -> String {
    if action.state.len() <= STATE_JSON_MAX_BYTES {
        return action.state.clone();
    }
    flyte_core::state_document::render(action)
}

fn conditions(action: &Action, message: &str, generation: Option<i64>) -> Vec<Condition> {
    let condition = |kind: &str, on: bool| Condition {
        type_: kind.to_string(),
        status: if on { "True" } else { "False" }.to_string(),
        reason: camel_case(action.phase),
        message: message.to_string(),
        last_transition_time: time(action.updated_at),
        observed_generation: generation,
    };
    vec![
        condition("Progressing", !action.phase.is_terminal()),
        condition("Succeeded", matches!(action.phase, Phase::Succeeded | Phase::Recovered)),
        condition("Failed", matches!(action.phase, Phase::Failed | Phase::TimedOut | Phase::Aborted)),
    ]
}

fn camel_case(phase: Phase) -> String {
    phase
        .name()
        .split('_')
        .map(|word| {
            word.chars()
                .take(1)
                .chain(word.chars().skip(1).map(|c| c.to_ascii_lowercase()))
                .collect::<String>()
        })
        .collect()
}

fn time(at: Timestamp) -> Time {
    Time(jiff::Timestamp::from_millisecond(at.as_ms()).unwrap_or_default())
}
