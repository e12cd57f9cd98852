//! The Pod of an attempt, made of the task's specification.

mod copilot;
mod environment;
mod inputs;
mod resources;

pub use inputs::{json_of, needs_inputs, text, texts};

use crate::labels::{self, ATTEMPT, PRIMARY, PRIMARY_CONTAINER};
use crate::settings::Settings;
use flyte_core::template::{self, Values};
use flyte_core::{Failure, Origin, naming};
use flyte_proto::{core as c, task};
use flyte_store::ActionRow;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use std::collections::BTreeMap;

/// The largest Pod that is tried, in bytes of JSON: etcd refuses objects above 1.5 MiB (case 21).
const POD_MAX_BYTES: usize = 1_400_000;

/// What a Pod is made of.
pub struct Recipe<'a> {
    /// The action.
    pub row: &'a ActionRow,
    /// Its task.
    pub spec: &'a task::TaskSpec,
    /// What its run asks for.
    pub run_spec: &'a task::RunSpec,
    /// The attempt.
    pub attempt: u32,
    /// The uid of the TaskAction that owns it.
    pub owner_uid: &'a str,
    /// The values of the inputs that the template uses.
    pub inputs: BTreeMap<String, String>,
    /// Where the Pod goes.
    pub namespace: &'a str,
    /// How the executor works.
    pub settings: &'a Settings,
}

/// Whether a container of this name is one that we put into Pods.
pub fn is_ours(container: &str) -> bool {
    container == copilot::DOWNLOAD || container == copilot::UPLOAD
}

/// Makes the Pod.
///
/// # Errors
/// The user's failure when the specification makes no Pod.
pub fn build(recipe: &Recipe<'_>) -> Result<Pod, Failure> {
    let template = recipe.spec.task_template.clone().unwrap_or_default();
    let values = values(recipe);
    let (mut pod_spec, primary, data_config, metadata) = match &template.target {
        Some(c::task_template::Target::Container(container)) => {
            (from_container(container)?, PRIMARY.to_string(), container.data_config.clone(), None)
        }
        Some(c::task_template::Target::K8sPod(pod)) => {
            let (spec, primary) = from_pod(pod)?;
            (spec, primary, pod.data_config.clone(), pod.metadata.clone())
        }
        _ => return Err(fault("NoTarget", "The task says neither which container nor which Pod to run")),
    };
    let environment = environment::variables(recipe, &values);
    for container in pod_spec.init_containers.iter_mut().flatten().chain(&mut pod_spec.containers) {
        substitute(container, &values)?;
        environment::add(container, &environment);
    }
    if let Some(config) = data_config.filter(|config| config.enabled) {
        copilot::add(&mut pod_spec, &primary, &config, &template, recipe)?;
    }
    pod_spec.restart_policy = Some("Never".into());
    if pod_spec.service_account_name.is_none() {
        let asked = recipe.run_spec.security_context.as_ref().and_then(|context| context.run_as.as_ref());
        let asked =
            asked.map(|identity| identity.k8s_service_account.clone()).filter(|name| !name.is_empty());
        pod_spec.service_account_name = asked.or_else(|| recipe.settings.service_account.clone());
    }
    let pod = Pod { spec: Some(pod_spec), ..with_metadata(recipe, metadata, &primary) };
    let bytes = serde_json::to_vec(&pod).map_err(|error| fault("PodUnwritable", &error.to_string()))?.len();
    if bytes > POD_MAX_BYTES {
        return Err(fault(
            "PodTooLarge",
            &format!(
                "The Pod would have {bytes} bytes, more than the {POD_MAX_BYTES} that a cluster takes; make the task's \
                 command, environment or template smaller"
            ),
        ));
    }
    Ok(pod)
}

fn fault(code: &str, message: &str) -> Failure {
    Failure::permanent(Origin::User, code, message)
}

fn with_metadata(recipe: &Recipe<'_>, metadata: Option<c::K8sObjectMetadata>, primary: &str) -> Pod {
    let id = &recipe.row.action.id;
    let (mut labels, mut annotations) =
        metadata.map(|metadata| (metadata.labels, metadata.annotations)).unwrap_or_default();
    let asked = &recipe.run_spec;
    labels.extend(asked.labels.iter().flat_map(|labels| labels.values.clone()));
    for value in labels.values_mut() {
        *value = naming::label_value(value);
    }
    annotations.extend(asked.annotations.iter().flat_map(|annotations| annotations.values.clone()));
    labels.extend(labels::labels(id));
    labels.insert(ATTEMPT.into(), recipe.attempt.to_string());
    annotations.extend(labels::annotations(id));
    annotations.insert(PRIMARY_CONTAINER.into(), primary.to_string());
    annotations.entry("cluster-autoscaler.kubernetes.io/safe-to-evict".into()).or_insert("false".into());
    let mut pod = Pod::default();
    pod.metadata.name = Some(naming::pod_name(id, recipe.attempt));
    pod.metadata.namespace = Some(recipe.namespace.to_string());
    pod.metadata.labels = Some(labels);
    pod.metadata.annotations = Some(annotations);
    pod.metadata.owner_references = Some(vec![OwnerReference {
        api_version: crate::TaskAction::api_version(&()).into_owned(),
        kind: crate::TaskAction::kind(&()).into_owned(),
        name: naming::task_action_name(id),
        uid: recipe.owner_uid.to_string(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    pod
}

fn from_container(container: &c::Container) -> Result<PodSpec, Failure> {
    if container.image.is_empty() {
        return Err(fault("ImageMissing", "The task's container names no image"));
    }
    let some = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
    let ports = container
        .ports
        .iter()
        .map(|port| k8s_openapi::api::core::v1::ContainerPort {
            container_port: i32::try_from(port.container_port).unwrap_or(0),
            name: (!port.name.is_empty()).then(|| port.name.clone()),
            ..Default::default()
        })
        .collect::<Vec<_>>();
    let container = Container {
        name: PRIMARY.into(),
        image: Some(container.image.clone()),
        command: some(&container.command),
        args: some(&container.args),
        env: environment::of(&container.env),
        resources: resources::of(container.resources.as_ref())?,
        ports: (!ports.is_empty()).then_some(ports),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        ..Container::default()
    };
    Ok(PodSpec { containers: vec![container], ..PodSpec::default() })
}

/// A Pod that the task brings whole, and its container that decides.
fn from_pod(pod: &c::K8sPod) -> Result<(PodSpec, String), Failure> {
    let json = pod.pod_spec.as_ref().map(inputs::struct_json).unwrap_or_default();
    let spec: PodSpec = serde_json::from_value(json).map_err(|error| {
        fault("PodTemplateInvalid", &format!("The task's pod_spec is not a Pod's: {error}"))
    })?;
    let names: Vec<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    let primary = match pod.primary_container_name.as_str() {
        "" if names.len() == 1 => names.first().copied().unwrap_or_default(),
        "" => PRIMARY,
        name => name,
    };
    if !names.contains(&primary) {
        return Err(fault(
            "PrimaryContainerMissing",
            &format!(
                "The task's primary container '{primary}' is not in its pod_spec, which has {}",
                names.join(", ")
            ),
        ));
    }
    let primary = primary.to_string();
    Ok((spec, primary))
}

fn substitute(container: &mut Container, values: &Values) -> Result<(), Failure> {
    let variables = container.env.iter_mut().flatten().filter_map(|variable| variable.value.as_mut());
    let words = container.command.iter_mut().flatten().chain(container.args.iter_mut().flatten());
    for text in words.chain(variables) {
        *text = template::substitute(text, values).ok_or_else(|| {
            let limit = template::RESULT_MAX_BYTES;
            fault("PodTooLarge", &format!("A part of the task's command would be longer than {limit} bytes once its variables are filled in"))
        })?;
    }
    Ok(())
}

fn values(recipe: &Recipe<'_>) -> Values {
    let action = &recipe.row.action;
    let prefix = action.output_prefix(recipe.attempt);
    let checkpoints = |prefix: String| format!("{prefix}/_flytecheckpoints");
    let raw = recipe.run_spec.raw_data_storage.as_ref().map(|storage| storage.raw_data_prefix.clone());
    let start = recipe.run_spec.run_start_time.as_ref().map_or(action.created_at, |time| {
        flyte_core::Timestamp::from_ms(
            time.seconds.saturating_mul(1_000).saturating_add(i64::from(time.nanos) / 1_000_000),
        )
    });
    Values {
        input: action.input_uri.clone(),
        input_prefix: action.input_uri.rsplit_once('/').map(|(dir, _)| dir.to_string()).unwrap_or_default(),
        raw_output_data_prefix: match raw.filter(|raw| !raw.is_empty()) {
            Some(raw) => {
                format!(
                    "{}/{}/{}/{}",
                    raw.trim_end_matches('/'),
                    action.id.run.name,
                    action.id.name,
                    recipe.attempt
                )
            }
            None => format!("{prefix}/raw"),
        },
        checkpoint_output_prefix: checkpoints(prefix.clone()),
        prev_checkpoint_prefix: recipe
            .attempt
            .checked_sub(1)
            .filter(|earlier| *earlier > 0)
            .map(|earlier| checkpoints(action.output_prefix(earlier))),
        output_prefix: prefix,
        run_name: action.id.run.name.clone(),
        action_name: action.id.name.clone(),
        run_start_time: start.to_string(),
        per_retry_unique_key: naming::pod_name(&action.id, recipe.attempt),
        namespace: recipe.namespace.to_string(),
        task_template_path: String::new(),
        inputs: recipe.inputs.clone(),
    }
}

#[cfg(test)]
mod tests;
