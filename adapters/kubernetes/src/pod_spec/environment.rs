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

/// What every container of an attempt is told.
pub struct Variables {
    /// What the run asks for, and what the SDK's own process needs to find its run and this manager: these win.
    given: BTreeMap<String, String>,
    /// What the configuration says, and what is good for most: a container's own variables win over these.
    defaults: BTreeMap<String, String>,
}

/// The variables of an attempt.
pub fn variables(recipe: &Recipe<'_>, values: &Values) -> Variables {
    let action = &recipe.row.action;
    let run = &action.id.run;
    let mut given = BTreeMap::new();
    for pair in recipe.run_spec.envs.iter().flat_map(|envs| &envs.values) {
        // One that is too long makes the Pod too large, which is told of there.
        given.insert(pair.key.clone(), substitute(&pair.value, values).unwrap_or_else(|| pair.value.clone()));
    }
    let mut set = |name: &str, value: &str| given.insert(name.to_string(), value.to_string());
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
    // Logs are watched while they are written; Python would keep lines back for a pipe.
    let mut defaults = BTreeMap::from([("PYTHONUNBUFFERED".to_string(), "1".to_string())]);
    if action.run_output_base.starts_with("file://") || action.run_output_base.starts_with('/') {
        // The SDK's storage layer makes no directories by itself.
        defaults.insert("FSSPEC_FILE".to_string(), r#"{"auto_mkdir": true}"#.to_string());
    }
    defaults.extend(recipe.settings.env.clone());
    Variables { given, defaults }
}

/// Adds variables to a container.
pub fn add(container: &mut Container, variables: &Variables) {
    let mut env = container.env.take().unwrap_or_default();
    env.retain(|own| !variables.given.contains_key(&own.name));
    let mut all = variables.defaults.clone();
    all.retain(|name, _| !env.iter().any(|own| own.name == *name));
    all.extend(variables.given.clone());
    env.extend(all.into_iter().map(|(name, value)| variable(name, value)));
    container.env = Some(env);
}
