//! Structural schemas of custom resources: what is unknown is dropped, what breaks a rule is refused
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>).

use flyte_core::{Timestamp, text};
use regex::RegexBuilder;
use serde_json::{Map, Number, Value};
use std::collections::BTreeSet;

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

/// Puts in what the schema has as defaults, for fields that are missing, or null where null is not allowed.
pub fn fill_in(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                let Some(default) = schema.get("default") else { continue };
                let given = fields.get(name);
                if given.is_none() || (given == Some(&Value::Null) && schema["nullable"] != true) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            let others = schema.get("additionalProperties").filter(|others| others.is_object());
            for (name, field) in fields {
                if let Some(schema) = properties.and_then(|properties| properties.get(name)).or(others) {
                    fill_in(schema, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fill_in(schema, item));
            }
        }
        _ => {}
    }
}

/// What breaks a rule of the schema, by field.
pub fn faults(schema: &Value, value: &Value) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    check(schema, value, "", &mut faults);
    // One answer need not list thousands.
    faults.truncate(FAULTS_MAX);
    faults
}

/// How many faults are told at most.
const FAULTS_MAX: usize = 64;

type Faults = Vec<(String, String)>;

fn check(schema: &Value, value: &Value, at: &str, faults: &mut Faults) {
    let mut fault = |why: String| faults.push((at.trim_start_matches('.').to_string(), why));
    if value.is_null() {
        let wanted = schema.get("type").and_then(Value::as_str);
        if schema["nullable"] != true && !at.is_empty() && wanted.is_some() {
            fault("Invalid value: \"null\": must not be null".into());
        }
        return;
    }
    let is_int_or_string = schema["x-kubernetes-int-or-string"] == true;
    if is_int_or_string && !value.is_string() && !is_of("integer", value) {
        return fault(format!("Invalid value: \"{}\": must be an integer or a string", kind(value)));
    }
    if let Some(wanted) = schema.get("type").and_then(Value::as_str)
        && !is_of(wanted, value)
        && !is_int_or_string
    {
        return fault(format!("Invalid value: \"{}\": must be of type {wanted}", kind(value)));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        fault(format!("Unsupported value: {}: supported values: {}", short(value), allowed.join(", ")));
    }
    check_combinations(schema, value, at, faults);
    match value {
        Value::Object(fields) => check_object(schema, fields, at, faults),
        Value::Array(items) => check_array(schema, items, at, faults),
        Value::String(text) => check_text(schema, text, at, faults),
        Value::Number(number) => check_number(schema, number, at, faults),
        Value::Bool(_) | Value::Null => {}
    }
}

fn check_object(schema: &Value, fields: &Map<String, Value>, at: &str, faults: &mut Faults) {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = name.as_str()
            && !fields.contains_key(name)
        {
            let field = format!("{at}.{name}").trim_start_matches('.').to_string();
            faults.push((field, "Required value".into()));
        }
    }
    check_count(schema, "Properties", fields.len(), at, faults);
    for (name, field) in fields {
        if at.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        if let Some(schema) = schema["properties"].get(name).or(others) {
            check(schema, field, &format!("{at}.{name}"), faults);
        }
    }
}

fn check_array(schema: &Value, items: &[Value], at: &str, faults: &mut Faults) {
    check_count(schema, "Items", items.len(), at, faults);
    if let Some(schema) = schema.get("items") {
        for (index, item) in items.iter().enumerate() {
            check(schema, item, &format!("{at}[{index}]"), faults);
        }
    }
    // Lists that are maps or sets have each item once.
    let keys: Vec<&str> = match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            keys.filter_map(Value::as_str).collect()
        }
        Some("set") => Vec::new(),
        _ => return,
    };
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let identity = match keys.as_slice() {
            [] => item.to_string(),
            keys => keys.iter().map(|key| item[key].to_string() + ",").collect(),
        };
        if !seen.insert(identity) {
            let field = format!("{at}[{index}]").trim_start_matches('.').to_string();
            faults.push((field, format!("Duplicate value: {}", short(item))));
        }
    }
}

fn check_count(schema: &Value, what: &str, count: usize, at: &str, faults: &mut Faults) {
    let field = || at.trim_start_matches('.').to_string();
    let limit = |name: &str| schema.get(format!("{name}{what}")).and_then(Value::as_u64);
    let what = what.to_lowercase();
    if let Some(max) = limit("max").filter(|max| count as u64 > *max) {
        faults.push((field(), format!("Too many: {count}: must have at most {max} {what}")));
    }
    if let Some(min) = limit("min").filter(|min| (count as u64) < *min) {
        faults.push((field(), format!("Invalid value: {count}: should have at least {min} {what}")));
    }
}

fn check_text(schema: &Value, text: &str, at: &str, faults: &mut Faults) {
    let mut fault = |why: String| faults.push((at.trim_start_matches('.').to_string(), why));
    let chars = text.chars().count() as u64;
    if let Some(max) = schema.get("maxLength").and_then(Value::as_u64).filter(|max| chars > *max) {
        fault(format!("Too long: may not be more than {max} bytes"));
    }
    if let Some(min) = schema.get("minLength").and_then(Value::as_u64).filter(|min| chars < *min) {
        fault(format!("Invalid value: should be at least {min} chars long"));
    }
    if schema["format"] == "date-time" && Timestamp::parse(text).is_none() {
        fault(format!("Invalid value: {}: must be of type date-time", short(&Value::from(text))));
    }
    // An expression that this engine does not know does not stop anybody.
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Ok(expression) = RegexBuilder::new(pattern).size_limit(PATTERN_MAX_BYTES).build()
        && !expression.is_match(text)
    {
        fault(format!("Invalid value: {}: should match '{pattern}'", short(&Value::from(text))));
    }
}

/// How large a compiled pattern may be.
const PATTERN_MAX_BYTES: usize = 1024 * 1024;

fn check_number(schema: &Value, number: &Number, at: &str, faults: &mut Faults) {
    let mut fault = |why: String| {
        faults.push((at.trim_start_matches('.').to_string(), format!("Invalid value: {number}: {why}")))
    };
    let Some(value) = number.as_f64() else { return };
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    if let Some(minimum) = limit("minimum") {
        if schema["exclusiveMinimum"] == true && value <= minimum {
            fault(format!("should be greater than {minimum}"));
        } else if value < minimum {
            fault(format!("should be greater than or equal to {minimum}"));
        }
    }
    if let Some(maximum) = limit("maximum") {
        if schema["exclusiveMaximum"] == true && value >= maximum {
            fault(format!("should be less than {maximum}"));
        } else if value > maximum {
            fault(format!("should be less than or equal to {maximum}"));
        }
    }
    let fits = match schema["format"].as_str() {
        Some("int32") => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        Some("int64") => number.as_i64().is_some(),
        _ => true,
    };
    if !fits && schema["type"] == "integer" {
        fault(format!("must be of type {}", schema["format"].as_str().unwrap_or_default()));
    }
}

/// `allOf`, `anyOf`, `oneOf` and `not`.
fn check_combinations(schema: &Value, value: &Value, at: &str, faults: &mut Faults) {
    let mut fault = |why: &str| faults.push((at.trim_start_matches('.').to_string(), why.to_string()));
    let holds = |schema: &Value| {
        let mut faults = Vec::new();
        check(schema, value, at, &mut faults);
        faults.is_empty()
    };
    let schemas = |name: &str| schema.get(name).and_then(Value::as_array);
    if schemas("anyOf").is_some_and(|any| !any.iter().any(holds)) {
        fault("Invalid value: must validate at least one schema (anyOf)");
    }
    if schemas("oneOf").is_some_and(|one| one.iter().filter(|schema| holds(schema)).count() != 1) {
        fault("Invalid value: must validate one and only one schema (oneOf)");
    }
    if schema.get("not").is_some_and(holds) {
        fault("Invalid value: must not validate the schema (not)");
    }
    for schema in schemas("allOf").into_iter().flatten() {
        check(schema, value, at, faults);
    }
}

/// A value as it is shown in a message.
fn short(value: &Value) -> String {
    text::bounded(&value.to_string(), 128)
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
