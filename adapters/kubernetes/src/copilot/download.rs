//! Inputs as files.

use super::{CopilotError, file_name};
use crate::pod_spec;
use flyte_objects::Objects;
use flyte_proto::{core as c, task};
use prost::Message;
use serde_json::{Map, Value};
use std::path::Path;

/// The largest inputs document that is read.
const INPUTS_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The largest file that is fetched for an input.
const FILE_MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Writes each input to a file of its name, and all of them to `inputs.pb` and, in the form that is asked for, to
/// `inputs.json`, `inputs.yaml` or `inputs.pb` alone.
///
/// # Errors
/// A sentence when the inputs cannot be read or a file cannot be written.
pub async fn download(
    objects: &Objects,
    inputs_uri: &str,
    dir: &Path,
    format: &str,
) -> Result<(), CopilotError> {
    let bytes = objects
        .get(inputs_uri, INPUTS_MAX_BYTES)
        .await?
        .ok_or_else(|| CopilotError(format!("the inputs '{inputs_uri}' are not there")))?;
    let inputs = task::Inputs::decode(bytes.as_ref())
        .map_err(|error| CopilotError(format!("the inputs '{inputs_uri}' cannot be read: {error}")))?;
    let write = |name: &str, bytes: &[u8]| {
        std::fs::create_dir_all(dir)
            .and_then(|()| std::fs::write(dir.join(name), bytes))
            .map_err(|error| CopilotError(format!("cannot write {}: {error}", dir.join(name).display())))
    };
    let mut all = Map::new();
    for literal in &inputs.literals {
        let (Some(name), Some(value)) = (file_name(&literal.name), &literal.value) else {
            return Err(CopilotError(format!("the input '{}' cannot be a file's name", literal.name)));
        };
        match blob_uri(value) {
            Some(uri) => {
                let bytes = objects.get(uri, FILE_MAX_BYTES).await?.ok_or_else(|| {
                    CopilotError(format!("the file '{uri}' of input '{name}' is not there"))
                })?;
                write(name, &bytes)?;
            }
            None => write(name, pod_spec::text(value).as_bytes())?,
        }
        all.insert(name.to_string(), pod_spec::json_of(value));
    }
    write("inputs.pb", &bytes)?;
    match format {
        "JSON" => write("inputs.json", Value::Object(all).to_string().as_bytes()),
        "YAML" => {
            let yaml = serde_saphyr::to_string(&Value::Object(all))
                .map_err(|error| CopilotError(error.to_string()))?;
            write("inputs.yaml", yaml.as_bytes())
        }
        _ => Ok(()),
    }
}

fn blob_uri(literal: &c::Literal) -> Option<&str> {
    match literal.value.as_ref()? {
        c::literal::Value::Scalar(scalar) => match scalar.value.as_ref()? {
            c::scalar::Value::Blob(blob) => Some(&blob.uri),
            _ => None,
        },
        _ => None,
    }
}
