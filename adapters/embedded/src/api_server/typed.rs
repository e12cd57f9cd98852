//! The built-in types: what does not fit them is refused, so that nobody who reads objects with types meets one that
//! cannot be read; what they do not know is dropped.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object of a built-in kind as its type has it; unchanged when the kind is another.
///
/// # Errors
/// The field and what is wrong with it.
pub fn object(key: &str, value: Value) -> Result<Value, (String, String)> {
    match key {
        "/pods" => through::<v1::Pod>(value),
        "/nodes" => through::<v1::Node>(value),
        "/namespaces" => through::<v1::Namespace>(value),
        "/configmaps" => through::<v1::ConfigMap>(value),
        "/secrets" => through::<v1::Secret>(value),
        "/serviceaccounts" => through::<v1::ServiceAccount>(value),
        "/services" => through::<v1::Service>(value),
        "/events" => through::<v1::Event>(value),
        "/persistentvolumeclaims" => through::<v1::PersistentVolumeClaim>(value),
        "coordination.k8s.io/leases" => through::<Lease>(value),
        "apiextensions.k8s.io/customresourcedefinitions" => through::<CustomResourceDefinition>(value),
        _ => Ok(value),
    }
}

/// The metadata of any object.
///
/// # Errors
/// The field and what is wrong with it.
pub fn metadata(value: Value) -> Result<Value, (String, String)> {
    through::<ObjectMeta>(value).map_err(|(field, why)| (format!("metadata.{field}"), why))
}

fn through<T: DeserializeOwned + Serialize>(value: Value) -> Result<Value, (String, String)> {
    let typed: T = serde_path_to_error::deserialize(value)
        .map_err(|error| (error.path().to_string(), format!("Invalid value: {}", error.inner())))?;
    serde_json::to_value(typed).map_err(|error| (String::new(), format!("Invalid value: {error}")))
}

/// The paths of fields that `before` has and `after` does not have.
pub fn dropped(before: &Value, after: &Value, at: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                match after.get(name) {
                    Some(kept) => dropped(value, kept, &path, found),
                    None if is_nothing(value) => {}
                    None => found.push(path),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                dropped(before, after, &format!("{at}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// What types write in several ways or not at all.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_type_does_not_know_is_dropped_and_named() {
        let pod = json!({"metadata": {"name": "p", "odd": 1}, "spec": {"containers": [{"name": "c", "odd": {"x": 2}}]}});
        let typed = object("/pods", pod.clone()).unwrap();
        assert_eq!(
            typed,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
        );
        let mut found = Vec::new();
        dropped(&pod, &typed, "", &mut found);
        assert_eq!(found, ["metadata.odd", "spec.containers[0].odd"]);
    }

    #[test]
    fn what_does_not_fit_a_type_is_named_by_its_field() {
        let (field, why) =
            object("/pods", json!({"metadata": {}, "spec": {"containers": [{"name": 7}]}})).unwrap_err();
        assert_eq!(field, "spec.containers[0].name");
        assert!(why.starts_with("Invalid value: invalid type: integer `7`"), "{why}");
        assert_eq!(metadata(json!({"labels": {"a": 1}})).unwrap_err().0, "metadata.labels.a");
    }
}
