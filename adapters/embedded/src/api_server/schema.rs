//! Structural schemas of custom resources: what is unknown is dropped, what breaks a rule is refused
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>).

use serde_json::Value;

/// Drops fields that the schema does not know. `metadata`, `apiVersion` and `kind` of the root stay.
pub fn prune(schema: &Value, value: &mut Value, is_root: bool) {
    let keeps_all = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let others = schema.get("additionalProperties").filter(|others| others.is_object());
            if !keeps_all && others.is_none() && properties.is_some() {
                fields.retain(|name, _| {
                    (is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
                        || properties.is_some_and(|properties| properties.contains_key(name))
                });
            }
            for (name, field) in fields {
                if is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                if let Some(schema) = properties.and_then(|properties| properties.get(name)).or(others) {
                    prune(schema, field, false);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| prune(schema, item, false));
            }
        }
        _ => {}
    }
}

/// What breaks a rule of the schema, by field.
pub fn faults(schema: &Value, value: &Value) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    check(schema, value, "", &mut faults);
    faults
}

fn check(schema: &Value, value: &Value, at: &str, faults: &mut Vec<(String, String)>) {
    let mut fault = |why: String| faults.push((at.trim_start_matches('.').to_string(), why));
    if value.is_null() {
        if schema["nullable"] != true && !at.is_empty() {
            fault("Invalid value: \"null\": must not be null".into());
        }
        return;
    }
    if let Some(wanted) = schema.get("type").and_then(Value::as_str)
        && !is_of(wanted, value)
        && schema["x-kubernetes-int-or-string"] != true
    {
        return fault(format!("Invalid value: \"{}\": must be of type {wanted}", kind(value)));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        fault(format!("Unsupported value: {value}: supported values: {}", allowed.join(", ")));
    }
    match value {
        Value::Object(fields) => {
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                if let Some(name) = name.as_str()
                    && !fields.contains_key(name)
                {
                    faults.push((
                        format!("{at}.{name}").trim_start_matches('.').to_string(),
                        "Required value".into(),
                    ));
                }
            }
            for (name, field) in fields {
                if at.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                let known = schema["properties"].get(name);
                if let Some(schema) = known.or(schema.get("additionalProperties").filter(|s| s.is_object())) {
                    check(schema, field, &format!("{at}.{name}"), faults);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check(schema, item, &format!("{at}[{index}]"), faults);
                }
            }
        }
        Value::String(text) => {
            let chars = text.chars().count() as u64;
            if schema.get("maxLength").and_then(Value::as_u64).is_some_and(|max| chars > max) {
                fault(format!("Too long: may not be more than {} bytes", schema["maxLength"]));
            }
            if schema.get("minLength").and_then(Value::as_u64).is_some_and(|min| chars < min) {
                fault(format!("Invalid value: should be at least {} chars long", schema["minLength"]));
            }
        }
        Value::Number(number) => {
            let below = schema.get("minimum").and_then(Value::as_f64).zip(number.as_f64());
            if below.is_some_and(|(minimum, number)| number < minimum) {
                fault(format!(
                    "Invalid value: {number}: should be greater than or equal to {}",
                    schema["minimum"]
                ));
            }
        }
        Value::Bool(_) | Value::Null => {}
    }
}

fn is_of(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => {
            value.as_i64().is_some()
                || value.as_u64().is_some()
                || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        "number" => value.is_number(),
        _ => true,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "required": ["spec"], "properties": {"spec": {
            "type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 3},
                "count": {"type": "integer", "minimum": 0},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "boolean"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        }}})
    }

    #[test]
    fn unknown_fields_are_dropped_and_known_ones_stay() {
        let mut value = json!({"apiVersion": "v", "kind": "k", "metadata": {"name": "n"}, "odd": 1, "spec": {
            "name": "n", "odd": 1, "list": [{"x": true, "odd": 1}], "map": {"any": "y"}, "free": {"any": 1}}});
        prune(&schema(), &mut value, true);
        assert_eq!(
            value,
            json!({"apiVersion": "v", "kind": "k", "metadata": {"name": "n"}, "spec": {
                "name": "n", "list": [{"x": true}], "map": {"any": "y"}, "free": {"any": 1}}})
        );
    }

    #[test]
    fn broken_rules_are_named_by_field() {
        for (value, field) in [
            (json!({}), "spec"),
            (json!({"spec": 7}), "spec"),
            (json!({"spec": {}}), "spec.name"),
            (json!({"spec": {"name": ""}}), "spec.name"),
            (json!({"spec": {"name": "long"}}), "spec.name"),
            (json!({"spec": {"name": null}}), "spec.name"),
            (json!({"spec": {"name": "n", "count": 1.5}}), "spec.count"),
            (json!({"spec": {"name": "n", "count": -1}}), "spec.count"),
            (json!({"spec": {"name": "n", "mode": "c"}}), "spec.mode"),
            (json!({"spec": {"name": "n", "list": [{"x": 1}]}}), "spec.list[0].x"),
            (json!({"spec": {"name": "n", "map": {"k": 1}}}), "spec.map.k"),
        ] {
            let found = faults(&schema(), &value);
            assert_eq!(found.iter().map(|(field, _)| field.as_str()).collect::<Vec<_>>(), [field], "{value}");
        }
        assert_eq!(faults(&schema(), &json!({"metadata": 7, "spec": {"name": "n", "count": 2}})), []);
    }
}
