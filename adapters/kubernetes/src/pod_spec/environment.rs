//! Variables of task containers.

use super::Recipe;
use flyte_core::template::{Values, substitute};
use flyte_proto::core as c;
use k8s_openapi::api::core::v1::{Container, EnvVar};
use std::collections::BTreeMap;

fn variable(name: impl Into<String>, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

/// A container's own variables.
pub fn of(pairs: &[c::KeyValuePair]) -> Option<Vec<EnvVar>> {
    let all: Vec<EnvVar> = pairs.iter().map(|pair| variable(&pair.key, &pair.value)).collect();
    (!all.is_empty()).then_some(all)
}

/// What every container of an attempt is told: the configuration's variables, the run's, and what the SDK's own process
/// needs to find its run, its storage and this manager.
pub fn variables(recipe: &Recipe<'_>, values: &Values) -> BTreeMap<String, String> {
    let action = &recipe.row.action;
    let run = &action.id.run;
    let mut all = recipe.settings.env.clone();
    for pair in recipe.run_spec.envs.iter().flat_map(|envs| &envs.values) {
        // One that is too long makes the Pod too large, which is told of there.
        all.insert(pair.key.clone(), substitute(&pair.value, values).unwrap_or_else(|| pair.value.clone()));
    }
    let mut set = |name: &str, value: &str| all.insert(name.to_string(), value.to_string());
    set("_U_ORG_NAME", &run.org);
    set("FLYTE_INTERNAL_EXECUTION_PROJECT", &run.project);
    set("FLYTE_INTERNAL_EXECUTION_DOMAIN", &run.domain);
    set("FLYTE_ATTEMPT_NUMBER", &recipe.attempt.saturating_sub(1).to_string());
    set("_U_RUN_BASE", &action.run_output_base);
    set("RUN_NAME", &run.name);
    set("ACTION_NAME", &action.id.name);
    if !recipe.settings.endpoint.is_empty() {
        set("_U_EP_OVERRIDE", &recipe.settings.endpoint);
        set("_U_INSECURE", "1");
    }
    if action.run_output_base.starts_with("file://") || action.run_output_base.starts_with('/') {
        // The SDK's storage layer makes no directories by itself.
        all.entry("FSSPEC_FILE".to_string()).or_insert_with(|| r#"{"auto_mkdir": true}"#.to_string());
    }
    all
}

/// Adds variables to a container; its own win, apart from the run's, which the user has set last.
pub fn add(container: &mut Container, variables: &BTreeMap<String, String>) {
    let mut env = container.env.take().unwrap_or_default();
    env.retain(|own| !variables.contains_key(&own.name));
    env.extend(variables.iter().map(|(name, value)| variable(name, value)));
    container.env = Some(env);
}
