//! Rules for the names of objects and labels
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>).

use super::resource::{NAMESPACES, Resource};
use serde_json::Value;

/// The most bytes of all annotations of an object.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

const NOT_A_LABEL: &str = "Invalid value: a lowercase RFC 1123 label must consist of at most 63 lower case alphanumeric \
                           characters or '-', and must start and end with an alphanumeric character";
const NOT_A_NAME: &str = "Invalid value: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                          characters, '-' or '.', and must start and end with an alphanumeric character";

/// Why a text cannot be a DNS label (RFC 1123); `None` when it can.
pub fn label_fault(text: &str) -> Option<&'static str> {
    (!is_dns(text) || text.len() > 63).then_some(NOT_A_LABEL)
}

/// Why a text cannot be an object's name; `None` when it can (RFC 1123 subdomain).
pub fn name_fault(name: &str) -> Option<&'static str> {
    (name.len() > 253 || !name.split('.').all(is_dns)).then_some(NOT_A_NAME)
}

fn is_dns(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether a text can be the value of a label or the last part of a label's key.
fn is_label_text(text: &str) -> bool {
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => name_fault(prefix).is_none() && is_label_text(name),
        None => is_label_text(key),
    }
}

/// What is wrong with an object's metadata, by field.
pub fn metadata_faults(resource: &Resource, object: &Value) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let mut fault = |field: &str, why: String| faults.push((format!("metadata.{field}"), why));
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let rule = if resource.key() == NAMESPACES { label_fault } else { name_fault };
    if let Some(why) = rule(name) {
        fault("name", why.replacen("Invalid value", &format!("Invalid value: {name:?}"), 1));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !is_qualified(key) {
            fault(
                "labels",
                format!(
                    "Invalid value: {key:?}: the key must be a name, with or without a domain and '/' before it"
                ),
            );
        }
        if !value.as_str().is_some_and(|value| value.is_empty() || is_label_text(value)) {
            fault(
                "labels",
                format!(
                    "Invalid value: {value}: the value of label {key} must be 63 characters or less of alphanumeric characters, '-', '_' or '.', and start and end with an alphanumeric character"
                ),
            );
        }
    }
    let mut bytes = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        if !is_qualified(&key.to_lowercase()) {
            fault(
                "annotations",
                format!(
                    "Invalid value: {key:?}: the key must be a name, with or without a domain and '/' before it"
                ),
            );
        }
    }
    if bytes > ANNOTATIONS_MAX_BYTES {
        fault("annotations", format!("Too long: may not be more than {ANNOTATIONS_MAX_BYTES} bytes"));
    }
    for finalizer in metadata["finalizers"].as_array().into_iter().flatten() {
        if !finalizer.as_str().is_some_and(is_qualified) {
            fault(
                "finalizers",
                format!(
                    "Invalid value: {finalizer}: name is neither a standard finalizer name nor is it fully qualified"
                ),
            );
        }
    }
    let mut controllers = 0;
    for (index, owner) in metadata["ownerReferences"].as_array().into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                fault(
                    &format!("ownerReferences[{index}].{field}"),
                    "Required value: must not be empty".into(),
                );
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        fault("ownerReferences", "Invalid value: only one reference can have controller set to true".into());
    }
    faults
}

/// What is wrong when an object that is being deleted gets finalizers that it did not have.
pub fn new_finalizer_fault(before: &Value, after: &Value) -> Option<(String, String)> {
    let had = |finalizer: &Value| {
        before["metadata"]["finalizers"].as_array().is_some_and(|before| before.contains(finalizer))
    };
    let new: Vec<String> = after["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|finalizer| !had(finalizer))
        .map(ToString::to_string)
        .collect();
    (!new.is_empty()).then(|| {
        let why =
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers";
        ("metadata.finalizers".to_string(), format!("{why} {}", new.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keys_and_values_follow_the_rules_of_kubernetes() {
        for (name, fine) in
            [("a", true), ("a.b-c", true), ("", false), ("A", false), ("-a", false), ("a..b", false)]
        {
            assert_eq!(name_fault(name).is_none(), fine, "{name}");
        }
        assert!(name_fault(&"a".repeat(253)).is_none() && name_fault(&"a".repeat(254)).is_some());
        assert!(label_fault(&"a".repeat(63)).is_none() && label_fault(&"a".repeat(64)).is_some());
        assert!(label_fault("a.b").is_some());
        for (key, fine) in [
            ("app", true),
            ("flyte.org/run-name", true),
            ("A_b.C", true),
            ("a/b/c", false),
            ("/b", false),
            ("a b", false),
        ] {
            assert_eq!(is_qualified(key), fine, "{key}");
        }
    }
}
