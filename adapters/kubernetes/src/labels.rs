//! What marks objects as ours.

use flyte_core::{ActionId, naming};
use std::collections::BTreeMap;

/// The label that all objects of ours have, with [`MANAGER`] as its value.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGER: &str = "flyte-manager";
/// The label that tells which action an object belongs to.
pub const ACTION_HASH: &str = "flyte.org/action-hash";
/// The label that tells which attempt a Pod is.
pub const ATTEMPT: &str = "flyte.org/attempt";
/// The annotation that names the container that decides.
pub const PRIMARY_CONTAINER: &str = "flyte.org/primary-container";
/// The name of the container of a task that has one.
pub const PRIMARY: &str = "primary";

/// Labels of all objects of an action; names that are no label values are shortened.
pub fn labels(id: &ActionId) -> BTreeMap<String, String> {
    let run = &id.run;
    [
        (MANAGED_BY, MANAGER.to_string()),
        (ACTION_HASH, naming::identity_hash(id)),
        ("flyte.org/run-hash", naming::run_hash(run)),
        ("flyte.org/project", naming::label_value(&run.project)),
        ("flyte.org/domain", naming::label_value(&run.domain)),
        ("flyte.org/run", naming::label_value(&run.name)),
        ("flyte.org/action", naming::label_value(&id.name)),
    ]
    .map(|(key, value)| (key.to_string(), value))
    .into()
}

/// Annotations of all objects of an action: its identity in full.
pub fn annotations(id: &ActionId) -> BTreeMap<String, String> {
    let run = &id.run;
    [
        ("org", &run.org),
        ("project", &run.project),
        ("domain", &run.domain),
        ("run", &run.name),
        ("action", &id.name),
    ]
    .map(|(key, value)| (format!("flyte.org/{key}"), value.clone()))
    .into()
}

/// The identity that [`annotations`] has written.
pub fn identity(annotations: &BTreeMap<String, String>) -> Option<ActionId> {
    let get = |key: &str| annotations.get(&format!("flyte.org/{key}")).cloned();
    let run = flyte_core::RunId::new(get("org")?, get("project")?, get("domain")?, get("run")?);
    Some(run.action(get("action")?))
}
