//! Raw containers know nothing of Flyte: one helper writes their inputs as files before they start, another makes
//! `outputs.pb` of the files that they leave.

use super::{Recipe, fault};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flyte_core::Failure;
use flyte_proto::core as c;
use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, Volume, VolumeMount};
use prost::Message;

/// The init container that brings inputs.
pub const DOWNLOAD: &str = "flyte-copilot-download";
/// The sidecar that takes outputs away.
pub const UPLOAD: &str = "flyte-copilot-upload";
const INPUTS: &str = "flyte-inputs";
const OUTPUTS: &str = "flyte-outputs";

/// Adds both helpers and the directories that they share with the primary container.
pub fn add(
    spec: &mut PodSpec,
    primary: &str,
    config: &c::DataLoadingConfig,
    template: &c::TaskTemplate,
    recipe: &Recipe<'_>,
) -> Result<(), Failure> {
    let Some(image) = recipe.settings.copilot_image.clone() else {
        return Err(fault(
            "CopilotMissing",
            "The task is a raw container with inputs and outputs as files, which needs an image with flyte-manager in it; \
             set manager.executor.copilotImage",
        ));
    };
    let input_path = or(&config.input_path, "/var/inputs");
    let output_path = or(&config.output_path, "/var/outputs");
    let format = config.format().as_str_name().to_string();
    let action = &recipe.row.action;
    let interface = template.interface.as_ref().map(Message::encode_to_vec).unwrap_or_default();
    let volume = |name: &str| Volume {
        name: name.into(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    let mount = |name: &str, path: &str| VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        ..VolumeMount::default()
    };
    let container = |name: &str, args: &[&str], mounts: Vec<VolumeMount>| Container {
        name: name.into(),
        image: Some(image.clone()),
        command: Some(["flyte-manager", "copilot"].iter().chain(args).map(ToString::to_string).collect()),
        volume_mounts: Some(mounts),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        ..Container::default()
    };
    let download = container(
        DOWNLOAD,
        &["download", "--inputs-uri", &action.input_uri, "--dir", &input_path, "--format", &format],
        vec![mount(INPUTS, &input_path)],
    );
    let mut upload = container(
        UPLOAD,
        &[
            "upload",
            "--dir",
            &output_path,
            "--outputs-prefix",
            &action.output_prefix(recipe.attempt),
            "--interface",
            &STANDARD.encode(interface),
            "--format",
            &format,
        ],
        vec![mount(OUTPUTS, &output_path)],
    );
    // A native sidecar: it is told to end once the primary container has ended.
    upload.restart_policy = Some("Always".into());
    spec.volumes.get_or_insert_default().extend([volume(INPUTS), volume(OUTPUTS)]);
    let init = spec.init_containers.get_or_insert_default();
    init.insert(0, download);
    init.insert(1, upload);
    for container in spec.containers.iter_mut().filter(|container| container.name == primary) {
        container
            .volume_mounts
            .get_or_insert_default()
            .extend([mount(INPUTS, &input_path), mount(OUTPUTS, &output_path)]);
    }
    Ok(())
}

fn or(path: &str, default: &str) -> String {
    let path = path.trim_end_matches('/');
    if path.is_empty() { default.to_string() } else { path.to_string() }
}
