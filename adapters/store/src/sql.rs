//! Rows of the tables to and from what callers know.

use crate::error::{ReadError, bounded};
use crate::row::{ActionMeta, ActionRow, RunRow, Spec, SpecKind};
use flyte_core::{Action, Attempt, Phase, RunId, Timestamp, invariant};
use std::collections::BTreeMap;
use std::sync::Arc;
use turso::{Row, Value};

/// The columns that [`action_row`] reads.
pub(crate) const ACTION_COLUMNS: &str = "a.id, a.seq, a.record, a.state, a.meta, a.spec_digest";

/// The columns that [`run_row`] reads.
pub(crate) const RUN_COLUMNS: &str = "r.id, r.org, r.project, r.domain, r.name, r.phase, r.created_at, r.updated_at, \
     r.ended_at, r.labels, r.source, r.run_spec_digest";

fn corrupt(what: &str, why: impl std::fmt::Display) -> ReadError {
    ReadError::Corrupt(bounded(&format!("{what}: {why}")))
}

pub(crate) fn text(row: &Row, index: usize) -> Result<String, ReadError> {
    match row.get_value(index)? {
        Value::Text(text) => Ok(text),
        other => Err(corrupt("a column of text", format!("{other:?}"))),
    }
}

pub(crate) fn optional_text(row: &Row, index: usize) -> Result<Option<String>, ReadError> {
    match row.get_value(index)? {
        Value::Null => Ok(None),
        Value::Text(text) => Ok(Some(text)),
        other => Err(corrupt("a column of text", format!("{other:?}"))),
    }
}

pub(crate) fn integer(row: &Row, index: usize) -> Result<i64, ReadError> {
    match row.get_value(index)? {
        Value::Integer(number) => Ok(number),
        other => Err(corrupt("a column of numbers", format!("{other:?}"))),
    }
}

pub(crate) fn time(text: &str) -> Result<Timestamp, ReadError> {
    Timestamp::parse(text).ok_or_else(|| corrupt("a time", text))
}

pub(crate) fn phase(text: &str) -> Result<Phase, ReadError> {
    Phase::parse(text).ok_or_else(|| corrupt("a phase", text))
}

pub(crate) fn action_row(row: &Row) -> Result<ActionRow, ReadError> {
    let row_id = integer(row, 0)?;
    let what = || format!("the action in row {row_id}");
    let mut action: Action = serde_json::from_str(&text(row, 2)?).map_err(|error| corrupt(&what(), error))?;
    action.state = text(row, 3)?;
    let meta: ActionMeta = serde_json::from_str(&text(row, 4)?).map_err(|error| corrupt(&what(), error))?;
    invariant::check(&action).map_err(|broken| corrupt(&what(), broken))?;
    Ok(ActionRow { row_id, seq: integer(row, 1)?, action, meta, spec_digest: text(row, 5)? })
}

/// A run without its specification, and the digest of that.
pub(crate) fn run_row(row: &Row) -> Result<(RunRow, String), ReadError> {
    let labels: BTreeMap<String, String> =
        serde_json::from_str(&text(row, 9)?).map_err(|error| corrupt("the labels of a run", error))?;
    let run = RunRow {
        row_id: integer(row, 0)?,
        id: RunId { org: text(row, 1)?, project: text(row, 2)?, domain: text(row, 3)?, name: text(row, 4)? },
        phase: phase(&text(row, 5)?)?,
        created_at: time(&text(row, 6)?)?,
        updated_at: time(&text(row, 7)?)?,
        ended_at: optional_text(row, 8)?.map(|text| time(&text)).transpose()?,
        labels,
        source: i32::try_from(integer(row, 10)?).map_err(|error| corrupt("the source of a run", error))?,
        run_spec: Arc::from([]),
    };
    Ok((run, text(row, 11)?))
}

/// The kind of a stored specification; run specifications are kept beside those of actions.
pub(crate) const RUN_SPEC_KIND: &str = "RUN";

pub(crate) fn spec_kind(kind: SpecKind) -> &'static str {
    match kind {
        SpecKind::Task => "TASK",
        SpecKind::Trace => "TRACE",
        SpecKind::Condition => "CONDITION",
    }
}

pub(crate) fn spec(digest: &str, row: &Row) -> Result<Spec, ReadError> {
    let kind = match text(row, 0)?.as_str() {
        "TASK" => SpecKind::Task,
        "TRACE" => SpecKind::Trace,
        "CONDITION" => SpecKind::Condition,
        other => return Err(corrupt("the kind of a specification", other)),
    };
    Ok(Spec { digest: digest.to_string(), kind, bytes: blob(row, 1)? })
}

pub(crate) fn blob(row: &Row, index: usize) -> Result<Arc<[u8]>, ReadError> {
    match row.get_value(index)? {
        Value::Blob(bytes) => Ok(bytes.into()),
        other => Err(corrupt("a column of bytes", format!("{other:?}"))),
    }
}

fn optional(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::Text(text.to_string()) }
}

fn optional_time(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |time| Value::Text(time.to_string()))
}

/// The columns that runs and actions have in common because lists are filtered and sorted by them.
fn shown(action: &Action) -> [Value; 6] {
    [
        Value::Text(action.phase.name().to_string()),
        Value::Text(action.created_at.to_string()),
        optional_time(action.started_at),
        Value::Text(action.updated_at.to_string()),
        optional_time(action.ended_at),
        action.ended_at.map_or(Value::Null, |end| {
            Value::Integer(i64::try_from(action.duration_ms(end)).unwrap_or(i64::MAX))
        }),
    ]
}

fn described(meta: &ActionMeta) -> [Value; 8] {
    let task = meta.task.as_ref();
    [
        task.map_or(Value::Null, |task| optional(&task.project)),
        task.map_or(Value::Null, |task| optional(&task.domain)),
        task.map_or(Value::Null, |task| optional(&task.name)),
        task.map_or(Value::Null, |task| optional(&task.version)),
        optional(&meta.short_name),
        optional(&meta.function_name),
        optional(&meta.environment_name),
        optional(&meta.created_by),
    ]
}

pub(crate) const INSERT_RUN: &str = "INSERT INTO runs (org, project, domain, name, source, labels, run_spec_digest, \
     phase, created_at, started_at, updated_at, ended_at, duration_ms, \
     task_project, task_domain, task_name, task_version, short_name, function_name, environment_name, created_by) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";

pub(crate) fn run_values(
    root: &ActionRow,
    labels: &BTreeMap<String, String>,
    source: i32,
    run_spec_digest: &str,
) -> Vec<Value> {
    let id = &root.action.id.run;
    let mut values = vec![
        Value::Text(id.org.clone()),
        Value::Text(id.project.clone()),
        Value::Text(id.domain.clone()),
        Value::Text(id.name.clone()),
        Value::Integer(source.into()),
        Value::Text(serde_json::json!(labels).to_string()),
        Value::Text(run_spec_digest.to_string()),
    ];
    values.extend(shown(&root.action));
    values.extend(described(&root.meta));
    values
}

pub(crate) const UPDATE_RUN: &str = "UPDATE runs SET phase = ?1, created_at = ?2, started_at = ?3, updated_at = ?4, \
     ended_at = ?5, duration_ms = ?6 WHERE id = (SELECT run_id FROM actions WHERE id = ?7)";

pub(crate) fn run_update_values(root: &ActionRow) -> Vec<Value> {
    let mut values = shown(&root.action).to_vec();
    values.push(Value::Integer(root.row_id));
    values
}

pub(crate) const INSERT_ACTION: &str = "INSERT INTO actions (run_id, run_name, name, parent, kind, group_name, \
     spec_digest, meta, phase, created_at, started_at, updated_at, ended_at, duration_ms, \
     state, attempts, in_cluster, seq, record, \
     task_project, task_domain, task_name, task_version, short_name, function_name, environment_name, created_by) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, \
     ?24, ?25, ?26, ?27)";

pub(crate) fn action_values(run_row_id: i64, row: &ActionRow) -> Result<Vec<Value>, serde_json::Error> {
    let action = &row.action;
    let mut values = vec![
        Value::Integer(run_row_id),
        Value::Text(action.id.run.name.clone()),
        Value::Text(action.id.name.clone()),
        action.parent.clone().map_or(Value::Null, Value::Text),
        Value::Text(kind_name(action).to_string()),
        optional(&action.group),
        Value::Text(row.spec_digest.clone()),
        Value::Text(serde_json::to_string(&row.meta)?),
    ];
    values.extend(shown(action));
    values.extend(changing(row)?);
    values.extend(described(&row.meta));
    Ok(values)
}

pub(crate) const UPDATE_ACTION: &str = "UPDATE actions SET phase = ?1, created_at = ?2, started_at = ?3, \
     updated_at = ?4, ended_at = ?5, duration_ms = ?6, state = ?7, attempts = ?8, in_cluster = ?9, seq = ?10, \
     record = ?11 WHERE id = ?12";

pub(crate) fn action_update_values(row: &ActionRow) -> Result<Vec<Value>, serde_json::Error> {
    let mut values = shown(&row.action).to_vec();
    values.extend(changing(row)?);
    values.push(Value::Integer(row.row_id));
    Ok(values)
}

fn changing(row: &ActionRow) -> Result<[Value; 5], serde_json::Error> {
    let record = serde_json::to_string(&Action { state: String::new(), ..row.action.clone() })?;
    Ok([
        Value::Text(row.action.state.clone()),
        Value::Integer(i64::try_from(row.action.attempts.len()).unwrap_or(i64::MAX)),
        Value::Integer(row.action.in_cluster.into()),
        Value::Integer(row.seq),
        Value::Text(record),
    ])
}

fn kind_name(action: &Action) -> &'static str {
    match action.kind {
        flyte_core::Kind::Task => "TASK",
        flyte_core::Kind::Trace => "TRACE",
        flyte_core::Kind::Condition => "CONDITION",
    }
}

pub(crate) const PUT_ATTEMPT: &str = "INSERT OR REPLACE INTO attempts (action_id, attempt, phase, pod, created_at, \
     started_at, ended_at, error_kind, error_code, error_message) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

pub(crate) fn attempt_values(action_row_id: i64, attempt: &Attempt) -> Vec<Value> {
    let failure = attempt.failure.as_ref();
    let text = |text: &str| Value::Text(text.to_string());
    vec![
        Value::Integer(action_row_id),
        Value::Integer(attempt.number.into()),
        text(attempt.phase.name()),
        attempt.pod.as_ref().map_or(Value::Null, |pod| text(&pod.name)),
        text(&attempt.created_at.to_string()),
        optional_time(attempt.running_at),
        optional_time(attempt.ended_at),
        failure.map_or(Value::Null, |failure| {
            text(match failure.origin {
                flyte_core::Origin::User => "USER",
                flyte_core::Origin::System => "SYSTEM",
            })
        }),
        failure.map_or(Value::Null, |failure| text(&failure.code)),
        failure.map_or(Value::Null, |failure| text(&failure.message)),
    ]
}

/// Finds the action of [`identity`].
pub(crate) const ACTION_BY_ID: &str = "FROM actions a WHERE a.run_id = \
     (SELECT r.id FROM runs r WHERE r.org = ?1 AND r.project = ?2 AND r.domain = ?3 AND r.name = ?4) AND a.name = ?5";

/// Finds the children of the action of [`identity`].
pub(crate) const CHILDREN_OF: &str = "FROM actions a WHERE a.run_id = \
     (SELECT r.id FROM runs r WHERE r.org = ?1 AND r.project = ?2 AND r.domain = ?3 AND r.name = ?4) AND a.parent = ?5";

/// Finds the run of [`run_identity`].
pub(crate) const RUN_BY_ID: &str =
    "FROM runs r WHERE r.org = ?1 AND r.project = ?2 AND r.domain = ?3 AND r.name = ?4";

pub(crate) fn run_identity(id: &RunId) -> Vec<Value> {
    [&id.org, &id.project, &id.domain, &id.name].map(|text| Value::Text(text.clone())).to_vec()
}

pub(crate) fn identity(id: &flyte_core::ActionId) -> Vec<Value> {
    let mut values = run_identity(&id.run);
    values.push(Value::Text(id.name.clone()));
    values
}
