//! The ways to change a part of an object
//! (<https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/>).

use super::status::Refused;
use serde_json::{Map, Value};

/// How the body of a PATCH is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// `application/json-patch+json` (RFC 6902).
    Json,
    /// `application/merge-patch+json` (RFC 7386).
    Merge,
    /// `application/strategic-merge-patch+json`: lists of named things are merged by their keys.
    Strategic,
    /// `application/apply-patch+yaml`: server-side apply.
    Apply,
}

impl Patch {
    /// The way that a content type names.
    pub fn of(content_type: &str) -> Option<Self> {
        Some(match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Self::Json,
            "application/merge-patch+json" => Self::Merge,
            "application/strategic-merge-patch+json" => Self::Strategic,
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => Self::Apply,
            _ => return None,
        })
    }

    /// The object with the patch applied.
    ///
    /// # Errors
    /// When the patch makes no sense, or a test in it fails.
    pub fn apply(self, object: &Value, patch: Value) -> Result<Value, Refused> {
        let mut result = object.clone();
        match self {
            Self::Json => {
                let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|error| {
                    Refused::bad_request(format!("the JSON patch cannot be read: {error}"))
                })?;
                json_patch::patch(&mut result, &patch).map_err(|error| {
                    Refused::new(
                        422,
                        "Invalid",
                        format!("the server rejected our request due to an error in our request: {error}"),
                    )
                })?;
            }
            Self::Merge => merge(&mut result, patch, false),
            Self::Strategic | Self::Apply => merge(&mut result, patch, true),
        }
        Ok(result)
    }
}

fn merge(target: &mut Value, patch: Value, by_key: bool) {
    match patch {
        Value::Object(changes) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Some(fields) = target.as_object_mut() else { return };
            if by_key && changes.get("$patch").and_then(Value::as_str) == Some("replace") {
                fields.clear();
            }
            for (name, change) in changes {
                if by_key
                    && (name.starts_with("$setElementOrder/")
                        || name.starts_with("$retainKeys")
                        || name == "$patch")
                {
                    continue;
                }
                if change.is_null() {
                    fields.remove(&name);
                    continue;
                }
                match (by_key.then(|| merge_key(&name)).flatten(), change) {
                    (Some(key), Value::Array(items)) => {
                        merge_list(
                            fields.entry(name).or_insert_with(|| Value::Array(Vec::new())),
                            items,
                            key,
                        );
                    }
                    (_, change) => merge(fields.entry(name).or_insert(Value::Null), change, by_key),
                }
            }
        }
        other => *target = other,
    }
}

/// The key that a list of this name is merged by.
fn merge_key(list: &str) -> Option<&'static str> {
    Some(match list {
        "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env" | "imagePullSecrets" => {
            "name"
        }
        "conditions" => "type",
        "ownerReferences" => "uid",
        "volumeMounts" => "mountPath",
        "hostAliases" => "ip",
        _ => return None,
    })
}

fn merge_list(target: &mut Value, items: Vec<Value>, key: &str) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Some(list) = target.as_array_mut() else { return };
    for item in items {
        let place = list.iter().position(|found| found.get(key).is_some() && found.get(key) == item.get(key));
        let delete = item.get("$patch").and_then(Value::as_str) == Some("delete");
        match place {
            Some(place) if delete => {
                list.remove(place);
            }
            Some(place) => {
                if let Some(found) = list.get_mut(place) {
                    merge(found, item, true);
                }
            }
            None if delete => {}
            None => list.push(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_way_changes_what_it_names_and_nothing_else() {
        let object =
            json!({"a": 1, "b": {"c": 2, "d": 3}, "conditions": [{"type": "X", "status": "True", "n": 1}]});
        for (way, patch, result) in [
            (
                Patch::Merge,
                json!({"a": null, "b": {"c": 5}}),
                json!({"b": {"c": 5, "d": 3}, "conditions": object["conditions"]}),
            ),
            (
                Patch::Merge,
                json!({"conditions": []}),
                json!({"a": 1, "b": {"c": 2, "d": 3}, "conditions": []}),
            ),
            (
                Patch::Strategic,
                json!({"conditions": [{"type": "X", "status": "False"}, {"type": "Y"}]}),
                json!({"a": 1, "b": {"c": 2, "d": 3},
                    "conditions": [{"type": "X", "status": "False", "n": 1}, {"type": "Y"}]}),
            ),
            (
                Patch::Strategic,
                json!({"conditions": [{"type": "X", "$patch": "delete"}]}),
                json!({"a": 1, "b": {"c": 2, "d": 3}, "conditions": []}),
            ),
            (
                Patch::Json,
                json!([{"op": "test", "path": "/a", "value": 1}, {"op": "replace", "path": "/b/c", "value": 9}]),
                json!({"a": 1, "b": {"c": 9, "d": 3}, "conditions": object["conditions"]}),
            ),
        ] {
            assert_eq!(way.apply(&object, patch).unwrap(), result);
        }
        assert_eq!(
            Patch::Json.apply(&object, json!([{"op": "test", "path": "/a", "value": 2}])).unwrap_err().code,
            422
        );
        assert_eq!(Patch::Json.apply(&object, json!({"a": 1})).unwrap_err().code, 400);
    }
}
