//! Reading an action with all that answers show of it.

use crate::Fault;
use crate::call::Call;
use crate::convert::to_proto;
use flyte_core::{ActionId, Kind, Phase, RunId};
use flyte_proto::{Raw, task, workflow};
use flyte_store::{ActionRow, RunRow, Spec, TransitionRow};
use prost::Message;
use std::sync::Arc;

/// The most transitions that are shown of one action.
const TRANSITIONS_MAX: usize = 2_000;

/// An action that has to be there.
pub async fn required_action(call: &Call, id: &ActionId) -> Result<Arc<ActionRow>, Fault> {
    match action(call, id).await? {
        Some(row) => Ok(row),
        None if id.is_root() => Err(Fault::not_found(format!("there is no run {}", id.run))),
        None => Err(Fault::not_found(format!("there is no action {id}"))),
    }
}

/// An action, if it is there.
pub async fn action(call: &Call, id: &ActionId) -> Result<Option<Arc<ActionRow>>, Fault> {
    Ok(call.store.action(id).await?)
}

/// Everything about an action as it is given.
pub async fn details(call: &Call, row: &ActionRow) -> Result<workflow::ActionDetails, Fault> {
    let run = if row.action.id.is_root() { call.store.run(&row.action.id.run).await? } else { None };
    with_run(call, row, run.as_ref()).await
}

/// Everything about a run, whose root action is given.
pub async fn run_details(call: &Call, root: &ActionRow) -> Result<workflow::RunDetails, Fault> {
    let id: &RunId = &root.action.id.run;
    let run = call.store.run(id).await?.ok_or_else(|| Fault::not_found(format!("there is no run {id}")))?;
    Ok(workflow::RunDetails {
        run_spec: Some(Raw::from_bytes(run.run_spec.to_vec())),
        action: Some(with_run(call, root, Some(&run)).await?),
    })
}

async fn with_run(
    call: &Call,
    row: &ActionRow,
    run: Option<&RunRow>,
) -> Result<workflow::ActionDetails, Fault> {
    let spec: Option<Arc<Spec>> = call.store.spec(&row.spec_digest).await?;
    let transitions = transitions(call, row).await?;
    Ok(to_proto::details(row, run, spec.as_deref(), &transitions, call.store.clock().now()))
}

/// The transitions that an action as it is given has gone through: what was added since it was read is left out.
pub async fn transitions(call: &Call, row: &ActionRow) -> Result<Vec<TransitionRow>, Fault> {
    let mut found = call.store.transitions(&row.action.id, 0, TRANSITIONS_MAX).await?;
    let current = (row.action.attempt().number, row.action.phase.rank());
    found.retain(|transition| (transition.attempt, transition.phase.rank()) <= current);
    Ok(found)
}

/// Where the code bundle of a task is, if it has one.
pub async fn code_bundle(call: &Call, row: &ActionRow) -> Result<Option<String>, Fault> {
    let Some(spec) = call.store.spec(&row.spec_digest).await? else { return Ok(None) };
    let Ok(spec) = task::TaskSpec::decode(spec.bytes.as_ref()) else { return Ok(None) };
    let metadata = spec.task_template.and_then(|template| template.metadata);
    Ok(metadata.map(|metadata| metadata.code_bundle_uri).filter(|uri| !uri.is_empty()))
}

/// The inputs and outputs of an action, and where they are.
#[derive(Default)]
pub struct Data {
    /// The inputs; empty when there are none.
    pub inputs: Raw<task::Inputs>,
    /// The outputs; empty when there are none (yet).
    pub outputs: Raw<task::Outputs>,
    /// Where the inputs are.
    pub inputs_uri: String,
    /// Where the outputs are; empty before the action has succeeded.
    pub outputs_uri: String,
}

/// Where an action's inputs and outputs are, with their content when `read`.
pub async fn data(call: &Call, id: &ActionId, read: bool) -> Result<Data, Fault> {
    let row = required_action(call, id).await?;
    let action = &row.action;
    let outputs_uri = match (action.phase, action.kind) {
        (Phase::Succeeded | Phase::Recovered, Kind::Task) => {
            format!("{}/outputs.pb", action.output_uri.trim_end_matches('/'))
        }
        _ => action.output_uri.clone(),
    };
    let mut data = Data { inputs_uri: action.input_uri.clone(), outputs_uri, ..Data::default() };
    if read {
        data.inputs = Raw::from_bytes(content(call, &data.inputs_uri).await?);
        data.outputs = Raw::from_bytes(content(call, &data.outputs_uri).await?);
    }
    Ok(data)
}

async fn content(call: &Call, uri: &str) -> Result<Vec<u8>, Fault> {
    if uri.is_empty() {
        return Ok(Vec::new());
    }
    let found = call.objects.get(uri, call.limits.data_max_bytes).await?;
    Ok(found.map(|bytes| bytes.to_vec()).unwrap_or_default())
}
