//! The ways to change a part of an object
//! (<https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/>).

mod operations;

use super::resource::Resource;
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
    pub fn apply(self, resource: &Resource, object: &Value, patch: Value) -> Result<Value, Refused> {
        let mut result = object.clone();
        match self {
            Self::Json => operations::apply(&mut result, patch)?,
            Self::Merge => merge(&mut result, patch, Lists::Replaced),
            Self::Strategic => merge(&mut result, patch, Lists::ByName),
            Self::Apply => {
                let lists = resource.schema.as_ref().map_or(Lists::ByName, Lists::BySchema);
                merge(&mut result, patch, lists);
            }
        }
        Ok(result)
    }
}

/// How lists are merged.
#[derive(Clone, Copy)]
enum Lists<'a> {
    /// They are not.
    Replaced,
    /// As the built-in types have it; it follows from the list's name.
    ByName,
    /// As the schema of a custom resource says.
    BySchema(&'a Value),
}

impl<'a> Lists<'a> {
    /// The rule for a field of an object.
    fn field(self, name: &str) -> Self {
        match self {
            Self::BySchema(schema) => {
                let known = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
                Self::BySchema(known.unwrap_or(&Value::Null))
            }
            other => other,
        }
    }

    /// The rule for the items of a list.
    fn items(self) -> Self {
        match self {
            Self::BySchema(schema) => Self::BySchema(&schema["items"]),
            other => other,
        }
    }

    /// The keys of the items of this list, when it is merged by keys.
    fn keys(self, list: &str) -> Option<Vec<&'a str>> {
        match self {
            Self::Replaced => None,
            Self::ByName => key_of(list).map(|key| vec![key]),
            Self::BySchema(schema) if schema["x-kubernetes-list-type"] == "map" => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array()?;
                Some(keys.iter().filter_map(Value::as_str).collect())
            }
            Self::BySchema(_) => None,
        }
    }

    /// Whether this list is a set of values without order.
    fn is_set(self, list: &str) -> bool {
        match self {
            Self::Replaced => false,
            Self::ByName => list == "finalizers",
            Self::BySchema(schema) => schema["x-kubernetes-list-type"] == "set" || list == "finalizers",
        }
    }

    /// Whether the directives of strategic merge patches are known.
    fn has_directives(self) -> bool {
        matches!(self, Self::ByName)
    }
}

fn merge(target: &mut Value, patch: Value, lists: Lists<'_>) {
    let changes = match patch {
        Value::Object(changes) => changes,
        other => {
            *target = other;
            return;
        }
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    if lists.has_directives() {
        match changes.get("$patch").and_then(Value::as_str) {
            Some("replace") => fields.clear(),
            Some("delete") => return fields.clear(),
            _ => {}
        }
        if let Some(kept) = changes.get("$retainKeys").and_then(Value::as_array) {
            fields.retain(|name, _| kept.iter().any(|kept| kept == name));
        }
    }
    for (name, change) in changes {
        if lists.has_directives() && name.starts_with('$') {
            if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/")
                && let (Some(found), Some(gone)) =
                    (fields.get_mut(list).and_then(Value::as_array_mut), change.as_array())
            {
                found.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if change.is_null() {
            fields.remove(&name);
            continue;
        }
        let lists = if name == "metadata" { Lists::metadata(lists) } else { lists.field(&name) };
        let entry = fields.entry(name.clone()).or_insert(Value::Null);
        match change {
            Value::Array(items) => match lists.keys(&name) {
                Some(keys) => merge_list(entry, items, &keys, lists.items()),
                None if lists.is_set(&name) => join(entry, items),
                None => *entry = Value::Array(items),
            },
            change => merge(entry, change, lists),
        }
    }
}

impl Lists<'_> {
    /// The rule for metadata, which no schema describes.
    fn metadata(self) -> Self {
        match self {
            Self::Replaced => Self::Replaced,
            _ => Self::ByName,
        }
    }
}

/// The key of the items of a list of this name.
fn key_of(list: &str) -> Option<&'static str> {
    Some(match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets" => "name",
        "conditions" | "addresses" => "type",
        "ownerReferences" => "uid",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "ports" => "containerPort",
        "hostAliases" | "podIPs" | "hostIPs" => "ip",
        "taints" => "key",
        "topologySpreadConstraints" => "topologyKey",
        _ => return None,
    })
}

fn merge_list(target: &mut Value, items: Vec<Value>, keys: &[&str], lists: Lists<'_>) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Some(list) = target.as_array_mut() else { return };
    let directive = |item: &Value| {
        let directive = item.get("$patch").and_then(Value::as_str).filter(|_| lists.has_directives());
        directive.map(str::to_string)
    };
    if items.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        *list = items.into_iter().filter(|item| directive(item).is_none()).collect();
        return;
    }
    for item in items {
        let is_same = |found: &Value| {
            keys.iter().all(|key| found.get(key) == item.get(key))
                && keys.iter().any(|key| item.get(key).is_some())
        };
        let place = list.iter().position(is_same);
        let delete = directive(&item).as_deref() == Some("delete");
        match place {
            Some(place) if delete => drop(list.remove(place)),
            Some(place) => {
                if let Some(found) = list.get_mut(place) {
                    merge(found, item, lists);
                }
            }
            None if delete => {}
            None => {
                // Through `merge`, so that directives and nulls do not end up in the object.
                let mut new = Value::Null;
                merge(&mut new, item, lists);
                list.push(new);
            }
        }
    }
}

/// Adds to a set what is not in it.
fn join(target: &mut Value, items: Vec<Value>) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Some(list) = target.as_array_mut() else { return };
    for item in items {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_server::resource::built_in;
    use serde_json::json;

    fn pods() -> Resource {
        built_in().into_iter().find(|resource| resource.plural == "pods").unwrap()
    }

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
            assert_eq!(way.apply(&pods(), &object, patch).unwrap(), result);
        }
        assert_eq!(
            Patch::Json
                .apply(&pods(), &object, json!([{"op": "test", "path": "/a", "value": 2}]))
                .unwrap_err()
                .code,
            422
        );
        assert_eq!(Patch::Json.apply(&pods(), &object, json!({"a": 1})).unwrap_err().code, 400);
    }

    #[test]
    fn directives_of_strategic_patches_are_followed_and_leave_no_trace() {
        let object = json!({"finalizers": ["a/a", "b/b"], "spec": {"x": 1, "y": 2}, "env": [{"name": "A"}, {"name": "B"}]});
        for (patch, result) in [
            (json!({"$deleteFromPrimitiveList/finalizers": ["a/a"]}), ("finalizers", json!(["b/b"]))),
            (json!({"finalizers": ["b/b", "c/c"]}), ("finalizers", json!(["a/a", "b/b", "c/c"]))),
            (json!({"spec": {"$patch": "replace", "z": 3}}), ("spec", json!({"z": 3}))),
            (json!({"spec": {"$retainKeys": ["x"], "x": 4}}), ("spec", json!({"x": 4}))),
            (json!({"env": [{"$patch": "replace"}, {"name": "C"}]}), ("env", json!([{"name": "C"}]))),
            (
                json!({"$setElementOrder/env": [], "env": [{"name": "D", "value": null}]}),
                ("env", json!([{"name": "A"}, {"name": "B"}, {"name": "D"}])),
            ),
        ] {
            assert_eq!(Patch::Strategic.apply(&pods(), &object, patch).unwrap()[result.0], result.1);
        }
    }

    #[test]
    fn apply_merges_the_lists_of_custom_resources_as_their_schema_says() {
        let mut custom = pods();
        custom.schema = Some(json!({"type": "object", "properties": {
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"env": {"type": "array"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set"},
            "conditions": {"type": "array"},
        }}));
        let object =
            json!({"map": [{"k": 1, "env": [{"name": "a"}]}], "set": [1, 2], "conditions": [{"type": "A"}]});
        let patch = json!({"map": [{"k": 1, "env": [{"name": "b"}]}, {"k": 2}], "set": [2, 3], "conditions": [{"type": "B"}]});
        assert_eq!(
            Patch::Apply.apply(&custom, &object, patch).unwrap(),
            json!({"map": [{"k": 1, "env": [{"name": "b"}]}, {"k": 2}], "set": [1, 2, 3], "conditions": [{"type": "B"}]})
        );
    }
}
