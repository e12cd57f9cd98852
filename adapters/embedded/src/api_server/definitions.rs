//! Rules for CustomResourceDefinitions.

use super::names::{label_fault, name_fault};
use super::resource::Resource;
use serde_json::{Value, json};

/// What is wrong with a definition, by field. `is_taken` says whether a kind of that key cannot be defined anew.
pub fn faults(
    definition: &Value,
    before: Option<&Value>,
    is_taken: impl Fn(&str) -> bool,
) -> Vec<(String, String)> {
    let fault = |field: &str, why: String| vec![(field.to_string(), why)];
    let spec = &definition["spec"];
    let Some(defined) = Resource::of_definition(definition) else {
        return fault("spec", "Required value: group, names, scope and a served version".into());
    };
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    if format!("{}.{}", defined.plural, defined.group) != name {
        let wanted = format!("{}.{}", defined.plural, defined.group);
        return fault(
            "metadata.name",
            format!("Invalid value: \"{name}\": must be spec.names.plural+\".\"+spec.group ({wanted})"),
        );
    }
    let mut faults = Vec::new();
    if !defined.group.contains('.') || name_fault(&defined.group).is_some() {
        faults.extend(fault(
            "spec.group",
            format!("Invalid value: \"{}\": should be a domain with at least one dot", defined.group),
        ));
    }
    if is_taken(&defined.key()) {
        faults.extend(fault(
            "spec.names.plural",
            format!("Invalid value: \"{}\": is built in", defined.plural),
        ));
    }
    for (field, value) in [
        ("spec.names.plural", defined.plural.as_str()),
        ("spec.names.singular", defined.singular.as_str()),
        ("spec.versions.name", defined.version.as_str()),
        ("spec.names.kind", defined.kind.to_lowercase().as_str()),
    ] {
        if let Some(why) = label_fault(value) {
            faults.extend(fault(field, why.to_string()));
        }
    }
    if !matches!(spec["scope"].as_str(), Some("Namespaced" | "Cluster")) {
        faults.extend(fault(
            "spec.scope",
            "Unsupported value: supported values: \"Cluster\", \"Namespaced\"".into(),
        ));
    }
    if before.is_some_and(|before| before["spec"]["scope"] != spec["scope"]) {
        faults.extend(fault("spec.scope", "Invalid value: field is immutable".into()));
    }
    if defined.schema.is_none_or(|schema| schema["type"] != "object") {
        let at = "spec.versions[0].schema.openAPIV3Schema";
        faults
            .extend(fault(at, "Required value: schemas are required, and their type must be object".into()));
    }
    faults
}

/// The status of a definition that is served from now on.
pub fn status(spec: &Value, now: &str) -> Value {
    let stored: Vec<&Value> = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| &version["name"])
        .collect();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now});
    json!({
        "acceptedNames": spec["names"],
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    })
}
