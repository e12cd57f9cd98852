//! Enqueuing: an action under its parent, asked for by the parent's process.

use super::create::decode_task_spec;
use crate::Fault;
use crate::call::Call;
use crate::convert::from_proto;
use flyte_core::action::Recorded;
use flyte_core::id::ROOT_ACTION_NAME;
use flyte_core::{Failure, Kind, NewAction, Origin, Phase, Policy};
use flyte_proto::{Raw, common, workflow};
use flyte_store::{ActionMeta, NewChild, SpecKind};
use prost::Message;

/// What both queue services are asked for.
pub struct Request {
    /// The path of the fields below in the request, for errors; empty or with a dot at its end.
    pub at: &'static str,
    /// The action.
    pub action_id: Option<common::ActionIdentifier>,
    /// Its parent; the root when absent.
    pub parent_action_name: Option<String>,
    /// Where its inputs are.
    pub input_uri: String,
    /// Where the run's outputs go.
    pub run_output_base: String,
    /// The group that it is shown in.
    pub group: String,
    /// Who asked.
    pub subject: String,
    /// What it is.
    pub spec: NewSpec,
}

/// What an action is.
pub enum NewSpec {
    /// A task to run.
    Task(workflow::TaskAction),
    /// A step to record.
    Trace(workflow::TraceAction),
    /// A wait for a person.
    Condition,
}

/// Stores the action; the same request again is no error.
pub async fn enqueue(call: &Call, request: Request) -> Result<(), Fault> {
    let at = request.at;
    let id = from_proto::required_action_id(request.action_id.as_ref(), &format!("{at}action_id"))?;
    let parent = match request.parent_action_name.filter(|parent| !parent.is_empty()) {
        Some(parent) if parent == id.name => {
            return Err(Fault::invalid(
                format!("{at}parent_action_name"),
                "an action cannot be its own parent",
            ));
        }
        Some(parent) => parent,
        None => ROOT_ACTION_NAME.to_string(),
    };
    if id.is_root() {
        return Err(Fault::invalid(
            format!("{at}action_id.name"),
            format!("'{ROOT_ACTION_NAME}' is the root action, which CreateRun makes"),
        ));
    }
    let (kind, spec_kind, spec_bytes, mut meta, policy, recorded) = match &request.spec {
        NewSpec::Task(task) => {
            let bytes = task.spec.as_ref().map_or(&[][..], Raw::as_bytes);
            let spec = decode_task_spec(bytes, &format!("{at}task.spec"))?;
            let mut meta = from_proto::task_meta(&spec, None);
            if let Some(id) = &task.id {
                meta.task = Some(from_proto::task_id(id));
            }
            meta.cache_key = task.cache_key.clone().unwrap_or_default();
            meta.queue = task.queue.clone();
            let policy = from_proto::policy(&spec.task_template.unwrap_or_default(), &call.defaults);
            (Kind::Task, SpecKind::Task, bytes.to_vec(), meta, policy, None)
        }
        NewSpec::Trace(trace) => {
            let bytes = trace.spec.as_ref().map_or(&[][..], Raw::as_bytes).to_vec();
            let meta = ActionMeta { short_name: trace.name.clone(), ..ActionMeta::default() };
            let recorded = recorded(trace, at)?;
            (Kind::Trace, SpecKind::Trace, bytes, meta, Policy::default(), Some(recorded))
        }
        NewSpec::Condition => {
            return Err(Fault::invalid(
                format!("{at}condition"),
                "this version of flyte-manager cannot wait for conditions; use a task or a trace",
            ));
        }
    };
    meta.created_by = request.subject;
    let request_digest = from_proto::digest(&[
        format!("{kind:?}").as_bytes(),
        &spec_bytes,
        parent.as_bytes(),
        request.input_uri.as_bytes(),
        request.run_output_base.as_bytes(),
        request.group.as_bytes(),
        meta.cache_key.as_bytes(),
        &trace_digest(&request.spec),
    ]);
    let new = NewChild {
        action: NewAction {
            id,
            parent: Some(parent),
            kind,
            group: request.group,
            input_uri: request.input_uri,
            run_output_base: request.run_output_base,
            policy,
            recorded,
            request_digest,
        },
        meta,
        spec: from_proto::spec(spec_kind, &spec_bytes),
    };
    call.store.enqueue(new).await?;
    Ok(())
}

/// The outcome is part of what a trace asks for.
fn trace_digest(spec: &NewSpec) -> Vec<u8> {
    match spec {
        NewSpec::Trace(trace) => trace.encode_to_vec(),
        NewSpec::Task(_) | NewSpec::Condition => Vec::new(),
    }
}

fn recorded(trace: &workflow::TraceAction, at: &str) -> Result<Recorded, Fault> {
    let phase = match Phase::from_number(trace.phase) {
        None => Phase::Succeeded,
        Some(phase @ (Phase::Succeeded | Phase::Failed)) => phase,
        Some(phase) => {
            return Err(Fault::invalid(
                format!("{at}trace.phase"),
                format!("a trace is recorded when it has ended, as SUCCEEDED or FAILED, not as {phase}"),
            ));
        }
    };
    Ok(Recorded {
        phase,
        started_at: trace.start_time.as_ref().map(from_proto::timestamp),
        ended_at: trace.end_time.as_ref().map(from_proto::timestamp),
        output_uri: trace.outputs.as_ref().map(|outputs| outputs.output_uri.clone()).unwrap_or_default(),
        failure: (phase == Phase::Failed)
            .then(|| Failure::permanent(Origin::User, "TraceFailed", format!("step {} failed", trace.name))),
    })
}
