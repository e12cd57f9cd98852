//! Label and field selectors
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors>).

use super::resource::Resource;
use super::status::Refused;
use flyte_core::text;
use serde_json::Value;

/// A condition on the labels or fields of objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector` for objects of a kind.
    ///
    /// # Errors
    /// When one of them makes no sense, or the kind cannot be selected by a field.
    pub fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self, Refused> {
        let all = |text: &str, read: fn(&str) -> Option<Requirement>| {
            let unreadable = |part: &str| {
                Refused::bad_request(format!("unable to parse requirement: {}", text::bounded(part, 128)))
            };
            split(text)
                .into_iter()
                .map(|part| read(part).ok_or_else(|| unreadable(part)))
                .collect::<Result<Vec<_>, _>>()
        };
        let selector = Self { labels: all(labels, requirement)?, fields: all(fields, equation)? };
        for requirement in &selector.fields {
            let (Requirement::In(field, _)
            | Requirement::NotIn(field, _)
            | Requirement::Exists(field)
            | Requirement::Missing(field)) = requirement;
            if !is_field(resource, field) {
                let field = text::bounded(field, 128);
                return Err(Refused::bad_request(format!("field label not supported: {field}")));
            }
        }
        Ok(selector)
    }

    /// Whether everything is chosen.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the object meets all conditions.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|requirement| requirement.holds(|key| labels.get(key).and_then(Value::as_str)))
            && self.fields.iter().all(|requirement| {
                requirement.holds(|path| {
                    let value = path.split('.').try_fold(object, |value, key| value.get(key));
                    Some(value.and_then(Value::as_str).unwrap_or(""))
                })
            })
    }
}

impl Requirement {
    fn holds<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Self::In(key, values) => {
                value(key).is_some_and(|found| values.iter().any(|wanted| wanted == found))
            }
            Self::NotIn(key, values) => {
                value(key).is_none_or(|found| values.iter().all(|unwanted| unwanted != found))
            }
            Self::Exists(key) => value(key).is_some(),
            Self::Missing(key) => value(key).is_none(),
        }
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Whether objects of a kind can be selected by a field.
fn is_field(resource: &Resource, field: &str) -> bool {
    let own: &[&str] = match resource.key().as_str() {
        "/pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "/nodes" => &["spec.unschedulable"],
        "/namespaces" => &["status.phase"],
        "/secrets" => &["type"],
        "/services" => &["spec.clusterIP", "spec.type"],
        "/events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source.component",
            "type",
        ],
        _ => &[],
    };
    let selectable = || resource.selectable_fields.iter().any(|found| found.trim_start_matches('.') == field);
    matches!(field, "metadata.name" | "metadata.namespace") || own.contains(&field) || selectable()
}

/// A condition on a field: fields can be compared only.
fn equation(part: &str) -> Option<Requirement> {
    let (field, value, equal) = match part.split_once("!=") {
        Some((field, value)) => (field, value, false),
        None => {
            let (field, value) = part.split_once("==").or_else(|| part.split_once('='))?;
            (field, value, true)
        }
    };
    let (field, values) = (field.trim(), vec![value.trim().to_string()]);
    if field.is_empty() {
        return None;
    }
    let field = if field == "source" { "source.component" } else { field }.to_string();
    Some(if equal { Requirement::In(field, values) } else { Requirement::NotIn(field, values) })
}

/// A condition on a label.
fn requirement(part: &str) -> Option<Requirement> {
    let key = |text: &str| {
        Some(text.trim().to_string()).filter(|key| !key.is_empty() && !key.contains(char::is_whitespace))
    };
    if let Some((left, right)) = part.split_once('(') {
        let values: Vec<String> =
            right.strip_suffix(')')?.split(',').map(|value| value.trim().to_string()).collect();
        let mut words = left.split_whitespace();
        let (name, operator) = (words.next()?, words.next()?);
        return match (operator, words.next()) {
            ("in", None) => Some(Requirement::In(key(name)?, values)),
            ("notin", None) => Some(Requirement::NotIn(key(name)?, values)),
            _ => None,
        };
    }
    if let Some((left, right)) = part.split_once("!=") {
        return Some(Requirement::NotIn(key(left)?, vec![right.trim().to_string()]));
    }
    if let Some((left, right)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(Requirement::In(key(left)?, vec![right.trim().to_string()]));
    }
    match part.strip_prefix('!') {
        Some(rest) => Some(Requirement::Missing(key(rest)?)),
        None => Some(Requirement::Exists(key(part)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_server::resource::built_in;
    use serde_json::json;

    #[test]
    fn selectors_choose_by_labels_and_fields() {
        let object =
            json!({"metadata": {"name": "p", "labels": {"app": "x", "tier": ""}}, "spec": {"nodeName": "n"}});
        let pods = built_in().into_iter().find(|resource| resource.plural == "pods").unwrap();
        for (labels, fields, chosen) in [
            ("", "", true),
            ("app=x", "", true),
            ("app==y", "", false),
            ("app!=y,tier", "", true),
            ("app in (y, x),!other", "", true),
            ("app notin (x)", "", false),
            ("other!=x", "", true),
            ("!app", "", false),
            ("", "metadata.name=p,spec.nodeName=n", true),
            ("", "spec.nodeName!=n", false),
            ("", "status.phase=", true),
        ] {
            assert_eq!(
                Selector::parse(&pods, labels, fields).unwrap().matches(&object),
                chosen,
                "{labels} {fields}"
            );
        }
        for labels in ["=x", "a b", "a in x", "a within (x)", "in (x)"] {
            assert!(Selector::parse(&pods, labels, "").is_err(), "{labels}");
        }
        for fields in ["metadata.name", "=x", "spec.hostNetwork=true", "status.phase in (x)"] {
            assert!(Selector::parse(&pods, "", fields).is_err(), "{fields}");
        }
    }
}
