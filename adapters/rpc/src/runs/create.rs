//! CreateRun: a run and its root action, stored together or not at all.

use super::place::{inputs_place, run_base};
use crate::Fault;
use crate::call::Call;
use crate::convert::{from_proto, to_proto};
use connectrpc::ErrorCode;
use flyte_core::id::ROOT_ACTION_NAME;
use flyte_core::{Kind, NewAction, RunId, naming};
use flyte_objects::ObjectError;
use flyte_proto::{core, task, workflow};
use flyte_store::{ActionRow, NewRun, RunRow, SpecKind};
use prost::Message;
use std::sync::Arc;
use workflow::create_run_request::{Id, InputWrapper, Task};

/// Creates the run that is asked for.
pub async fn create(call: &Call, request: workflow::CreateRunRequest) -> Result<workflow::Run, Fault> {
    let id = run_id(call, request.id.as_ref())?;
    let spec_bytes = match &request.task {
        Some(Task::TaskSpec(spec)) => spec.as_bytes(),
        Some(Task::TaskId(task)) => {
            return Err(Fault::not_found(format!(
                "task_id: task {} version {} is not deployed in {}/{}; send the task itself as task_spec",
                task.name, task.version, task.project, task.domain
            )));
        }
        Some(Task::TriggerName(trigger)) => {
            return Err(Fault::not_found(format!("trigger_name: there is no trigger {}", trigger.name)));
        }
        None => return Err(Fault::invalid("task", "it is required")),
    };
    let spec = decode_task_spec(spec_bytes, "task_spec")?;
    let run_spec_bytes = request.run_spec.as_ref().map_or(&[][..], |spec| spec.as_bytes());
    let run_spec = task::RunSpec::decode(run_spec_bytes)
        .map_err(|error| Fault::invalid("run_spec", format!("its bytes are not a RunSpec: {error}")))?;
    let base = run_base(call, &id, &run_spec.run_base_dir);
    let inputs = Inputs::of(request.input_wrapper.as_ref());
    let request_digest = from_proto::digest(&[
        spec_bytes,
        run_spec_bytes,
        inputs.digest.as_bytes(),
        &request.source.to_be_bytes(),
    ]);
    let input_uri = inputs.keep(call, &format!("{base}/{ROOT_ACTION_NAME}")).await?;

    let template = spec.task_template.clone().unwrap_or_default();
    let mut meta = from_proto::task_meta(&spec, run_spec.interruptible);
    meta.queue = run_spec.queue.clone();
    let labels = run_spec.labels.map(|labels| labels.values).unwrap_or_default();
    let new = NewRun {
        root: NewAction {
            id: id.root(),
            parent: None,
            kind: Kind::Task,
            group: String::new(),
            input_uri,
            run_output_base: base,
            policy: from_proto::policy(&template, &call.defaults),
            recorded: None,
            request_digest,
        },
        meta,
        spec: from_proto::spec(SpecKind::Task, spec_bytes),
        run_spec: run_spec_bytes.into(),
        labels,
        source: request.source,
    };
    let (labels, source) = (new.labels.clone(), new.source);
    let root = call.store.create_run(new).await?;
    let run = run_row(&root, labels, source);
    Ok(to_proto::run(&run, &root, call.store.clock().now()))
}

/// The run as the answer shows it, without reading it back.
fn run_row(root: &Arc<ActionRow>, labels: std::collections::BTreeMap<String, String>, source: i32) -> RunRow {
    let action = &root.action;
    RunRow {
        row_id: 0,
        id: action.id.run.clone(),
        phase: action.phase,
        created_at: action.created_at,
        updated_at: action.updated_at,
        ended_at: action.ended_at,
        labels,
        source,
        run_spec: Arc::from([]),
    }
}

fn run_id(call: &Call, id: Option<&Id>) -> Result<RunId, Fault> {
    match id {
        Some(Id::RunId(id)) => match naming::run_name_fault(&id.name) {
            None => Ok(from_proto::run_id(id)),
            Some(fault) => Err(Fault::invalid("run_id.name", fault)),
        },
        Some(Id::ProjectId(project)) => {
            let mut random = [0; 19];
            (call.random)(&mut random);
            Ok(RunId::new(
                from_proto::org(&project.organization),
                &project.name,
                &project.domain,
                naming::generated_run_name(random),
            ))
        }
        None => Err(Fault::invalid("id", "one of run_id and project_id is required")),
    }
}

/// Reads a task and checks that the executor could make anything of it.
pub fn decode_task_spec(bytes: &[u8], field: &str) -> Result<task::TaskSpec, Fault> {
    let spec = task::TaskSpec::decode(bytes)
        .map_err(|error| Fault::invalid(field, format!("its bytes are not a TaskSpec: {error}")))?;
    let target = spec.task_template.as_ref().and_then(|template| template.target.as_ref());
    match target {
        Some(core::task_template::Target::Container(_) | core::task_template::Target::K8sPod(_)) => Ok(spec),
        Some(core::task_template::Target::Sql(_)) => Err(Fault::invalid(
            format!("{field}.task_template.sql"),
            "SQL tasks need a connector, which this version of flyte-manager does not have; use container or k8s_pod",
        )),
        None => Err(Fault::invalid(
            format!("{field}.task_template.target"),
            "it is required: container or k8s_pod says what to run",
        )),
    }
}

/// The inputs of a run as they came.
struct Inputs<'a> {
    inline: Option<&'a [u8]>,
    uri: &'a str,
    digest: String,
}

impl<'a> Inputs<'a> {
    fn of(wrapper: Option<&'a InputWrapper>) -> Self {
        match wrapper {
            Some(InputWrapper::OffloadedInputData(data)) => Self {
                inline: None,
                uri: &data.uri,
                digest: from_proto::digest(&[b"uri", data.uri.as_bytes(), data.inputs_hash.as_bytes()]),
            },
            Some(InputWrapper::Inputs(inputs)) => Self::inline(inputs.as_bytes()),
            None => Self::inline(&[]),
        }
    }

    fn inline(bytes: &'a [u8]) -> Self {
        Self { inline: Some(bytes), uri: "", digest: from_proto::digest(&[b"inline", bytes]) }
    }

    /// Makes sure that the inputs lie in the storage before anything is promised; answers where.
    async fn keep(&self, call: &Call, dir: &str) -> Result<String, Fault> {
        let Some(bytes) = self.inline else {
            // Inputs elsewhere are the task's own affair; those in our storage have to be there.
            return match call.objects.size(self.uri).await {
                Ok(Some(_)) | Err(ObjectError::Elsewhere { .. }) => Ok(self.uri.to_string()),
                Ok(None) => Err(Fault::invalid(
                    "offloaded_input_data.uri",
                    format!("there is no object '{}'; upload the inputs again", self.uri),
                )),
                Err(error) => Err(error.into()),
            };
        };
        let uri = inputs_place(dir, &self.digest);
        match call.objects.put(&uri, bytes.to_vec().into()).await {
            Ok(()) => Ok(uri),
            Err(ObjectError::Elsewhere { .. }) => Err(Fault::new(
                ErrorCode::InvalidArgument,
                format!(
                    "run_spec.run_base_dir: '{dir}' is not under the storage '{}', so inputs cannot be written there; \
                     upload them and send offloaded_input_data, or leave run_base_dir empty",
                    call.objects.base_uri()
                ),
            )),
            Err(error) => Err(error.into()),
        }
    }
}
