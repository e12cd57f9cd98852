//! The TaskAction resource: what the cluster shows of an action. The database is the truth; this is its projection.

use flyte_core::plan::Projection;
use flyte_core::{Phase, text};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most entries of `status.phaseHistory`; older ones are dropped, the database keeps them all.
pub const HISTORY_MAX: usize = 32;
/// The most bytes of a message in a status. With [`HISTORY_MAX`] and [`STATE_JSON_MAX_BYTES`] it keeps a status under
/// 64 KiB, far from what an API server refuses (case 21).
pub const MESSAGE_MAX_BYTES: usize = 1024;
/// The longest state document that is shown in a status; a longer one is shown in short.
pub const STATE_JSON_MAX_BYTES: usize = 16 * 1024;

/// What was asked for. Small fields only: the task's template, inputs and outputs stay where they are.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "flyte.org",
    version = "v1",
    kind = "TaskAction",
    plural = "taskactions",
    singular = "taskaction",
    namespaced,
    status = "TaskActionStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Run","type":"string","jsonPath":".spec.runName"}"#,
    printcolumn = r#"{"name":"Action","type":"string","jsonPath":".spec.actionName"}"#,
    printcolumn = r#"{"name":"Attempt","type":"integer","jsonPath":".status.attempt"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TaskActionSpec {
    /// The organisation; empty when the client knows of none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub org: String,
    /// The project.
    pub project: String,
    /// The domain.
    pub domain: String,
    /// The run's name.
    pub run_name: String,
    /// The action's name in its run; `a0` is the root.
    pub action_name: String,
    /// The parent's name in the same run; absent for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_action_name: Option<String>,
    /// `task`.
    pub action_type: String,
    /// Where the inputs are.
    pub input_uri: String,
    /// Where the run's outputs go: those of an attempt to `{runOutputBase}/{actionName}/{attempt}`.
    pub run_output_base: String,
    /// The cache key that the client gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// The task's type, such as `python`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// The task's short name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_name: Option<String>,
    /// The group that the action is shown in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether the task may run on nodes that can be taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// The image of the primary container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// Where the action is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskActionStatus {
    /// The phase: QUEUED, WAITING_FOR_RESOURCES, INITIALIZING, RUNNING, PAUSED, SUCCEEDED, FAILED, ABORTED, TIMED_OUT
    /// or RECOVERED.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The current attempt; 1 is the first.
    #[serde(default)]
    pub attempt: u32,
    /// What is remarkable about it, for people.
    #[serde(default)]
    pub message: String,
    /// The action's state as a JSON document, as the state service answers it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state_json: String,
    /// Progressing, Succeeded and Failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The phases that it went through, oldest first; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phase_history: Vec<PhaseEntry>,
    /// Why it failed or timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_state: Option<ErrorState>,
}

/// One phase that the action reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseEntry {
    /// The phase.
    pub phase: String,
    /// The attempt; 1 is the first.
    pub attempt: u32,
    /// When it was reached.
    #[schemars(schema_with = "time_schema")]
    pub occurred_at: Time,
    /// What is remarkable about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Why an action failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorState {
    /// A short word, such as `OOMKilled`.
    pub code: String,
    /// USER or SYSTEM.
    pub kind: String,
    /// A sentence for people.
    pub message: String,
}

fn time_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "format": "date-time"})
}

/// The conditions as a list with one entry per type, so that others may apply theirs beside ours.
fn conditions_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "description": "Progressing, Succeeded and Failed.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0.0},
            },
        },
    })
}

impl TaskActionStatus {
    /// What this status shows; `None` when it shows nothing that is known.
    pub fn projection(&self) -> Option<Projection> {
        Some(Projection {
            phase: Phase::parse(&self.phase)?,
            attempt: self.attempt,
            message: self.message.clone(),
        })
    }

    /// The status cut down to what always fits: no document and no history, and short texts.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        const SHORT_BYTES: usize = 256;
        self.state_json.clear();
        self.phase_history.clear();
        self.message = text::bounded(&self.message, SHORT_BYTES);
        for condition in &mut self.conditions {
            condition.message = text::bounded(&condition.message, SHORT_BYTES);
        }
        if let Some(error) = &mut self.error_state {
            error.message = text::bounded(&error.message, SHORT_BYTES);
        }
        self
    }
}

/// The definition of the resource, as it is installed.
pub fn crd() -> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
    TaskAction::crd()
}

/// The definition as YAML, for `kubectl apply`.
///
/// # Errors
/// Never in practice: the definition is a fixed value.
pub fn crd_yaml() -> Result<String, serde_saphyr::ser_error::Error> {
    serde_saphyr::to_string(&crd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_definition_is_the_one_of_the_type() {
        let yaml = crd_yaml().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/flyte.org_taskactions.yaml");
        if std::env::var_os("UPDATE_CRD").is_some() {
            std::fs::write(path, &yaml).unwrap();
        }
        let published = std::fs::read_to_string(path).unwrap();
        assert!(
            published == yaml,
            "write crds/flyte.org_taskactions.yaml anew: UPDATE_CRD=1 cargo test -p flyte-kubernetes"
        );
    }
}
