//! Rules for the names of objects and labels
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>).

use serde_json::Value;

/// Why a text cannot be an object's name; `None` when it can (RFC 1123 subdomain).
pub fn name_fault(name: &str) -> Option<&'static str> {
    let good = !name.is_empty()
        && name.len() <= 253
        && name.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        });
    (!good).then_some(
        "Invalid value: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
         and must start and end with an alphanumeric character",
    )
}

/// What is wrong with an object's metadata, by field.
pub fn metadata_faults(object: &Value) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let metadata = &object["metadata"];
    if let Some(why) = metadata["name"].as_str().and_then(name_fault) {
        faults.push(("metadata.name".to_string(), why.to_string()));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let fine = value.as_str().is_some_and(|value| {
            value.is_empty()
                || (value.len() <= 63
                    && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
                    && value.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && value.ends_with(|c: char| c.is_ascii_alphanumeric()))
        });
        if !fine {
            faults.push((
                "metadata.labels".to_string(),
                format!("Invalid value: {value}: the value of label {key} must be 63 characters or less of alphanumeric characters, '-', '_' or '.'"),
            ));
        }
    }
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let bytes: usize = annotations.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > 256 * 1024 {
        faults.push((
            "metadata.annotations".to_string(),
            "Too long: may not be more than 262144 bytes".to_string(),
        ));
    }
    faults
}

/// What is wrong with a Pod, by field.
pub fn pod_faults(pod: &Value) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let spec = &pod["spec"];
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        faults.push(("spec.containers".to_string(), "Required value".to_string()));
    }
    let mut seen = std::collections::BTreeSet::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let at = |field: &str| format!("spec.{list}[{index}].{field}");
            match container["name"].as_str() {
                Some(name) if name_fault(name).is_none() && name.len() <= 63 && !name.contains('.') => {
                    if !seen.insert(name.to_string()) {
                        faults.push((at("name"), format!("Duplicate value: \"{name}\"")));
                    }
                }
                _ => faults
                    .push((at("name"), "Invalid value: a lowercase RFC 1123 label is required".to_string())),
            }
            if container["image"].as_str().is_none_or(str::is_empty) {
                faults.push((at("image"), "Required value".to_string()));
            }
        }
    }
    if let Some(policy) = spec["restartPolicy"].as_str()
        && !matches!(policy, "Always" | "OnFailure" | "Never")
    {
        faults.push((
            "spec.restartPolicy".to_string(),
            format!(
                "Unsupported value: \"{policy}\": supported values: \"Always\", \"OnFailure\", \"Never\""
            ),
        ));
    }
    faults
}
