//! Tables for `kubectl get`
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>).

use super::resource::Resource;
use flyte_core::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// The objects as rows.
pub fn table(resource: &Resource, items: &[Arc<Value>], metadata: Value, now: Timestamp) -> Value {
    let columns = columns(resource);
    let definitions: Vec<Value> = columns
        .iter()
        .map(|column| {
            json!({"name": column.name, "type": column.kind, "format": if column.name == "Name" { "name" } else { "" },
                   "description": "", "priority": 0})
        })
        .collect();
    let rows: Vec<Value> = items
        .iter()
        .map(|object| {
            let cells: Vec<Value> = columns.iter().map(|column| (column.cell)(object, now)).collect();
            json!({"cells": cells, "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }})
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions, "rows": rows})
}

/// Makes a cell of an object, at a time.
type Cell = Box<dyn Fn(&Value, Timestamp) -> Value>;

struct Column {
    name: String,
    kind: String,
    cell: Cell,
}

fn column(name: &str, kind: &str, cell: impl Fn(&Value, Timestamp) -> Value + 'static) -> Column {
    Column { name: name.into(), kind: kind.into(), cell: Box::new(cell) }
}

fn path_column(name: &str, path: &'static str) -> Column {
    column(name, "string", move |object, _| object.pointer(path).cloned().unwrap_or(json!("")))
}

fn columns(resource: &Resource) -> Vec<Column> {
    let mut columns = vec![path_column("Name", "/metadata/name")];
    let age_column =
        || column("Age", "date", |object, now| age(&object["metadata"]["creationTimestamp"], now));
    match resource.key().as_str() {
        "/pods" => {
            columns.push(column("Ready", "string", |pod, _| {
                let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
                let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
                json!(format!("{}/{all}", statuses.filter(|status| status["ready"] == true).count()))
            }));
            columns.push(column("Status", "string", |pod, _| json!(pod_status(pod))));
            columns.push(column("Restarts", "integer", |pod, _| {
                let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
                json!(statuses.map(|status| status["restartCount"].as_i64().unwrap_or(0)).sum::<i64>())
            }));
            columns.push(age_column());
        }
        "/namespaces" => {
            columns.push(path_column("Status", "/status/phase"));
            columns.push(age_column());
        }
        "/events" => {
            columns.clear();
            columns.push(column("Last Seen", "date", age_of_event));
            columns.push(path_column("Type", "/type"));
            columns.push(path_column("Reason", "/reason"));
            columns.push(path_column("Object", "/involvedObject/name"));
            columns.push(path_column("Message", "/message"));
        }
        _ if resource.columns.is_empty() => columns.push(age_column()),
        _ => {
            for (name, kind, path) in resource.columns.clone() {
                let is_date = kind == "date";
                columns.push(column(&name, &kind, move |object, now| {
                    let found = path
                        .split('.')
                        .filter(|part| !part.is_empty())
                        .try_fold(object, |value, part| value.get(part));
                    match found {
                        Some(time) if is_date => age(time, now),
                        Some(value) => value.clone(),
                        None => Value::Null,
                    }
                }));
            }
        }
    }
    columns
}

fn pod_status(pod: &Value) -> String {
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".into();
    }
    for status in pod["status"]["containerStatuses"].as_array().into_iter().flatten() {
        let state = &status["state"];
        for reason in [&state["waiting"]["reason"], &state["terminated"]["reason"]] {
            if let Some(reason) = reason.as_str() {
                return reason.into();
            }
        }
    }
    pod["status"]["reason"].as_str().or(pod["status"]["phase"].as_str()).unwrap_or("Unknown").into()
}

fn age_of_event(event: &Value, now: Timestamp) -> Value {
    let time = if event["lastTimestamp"].is_string() { &event["lastTimestamp"] } else { &event["eventTime"] };
    age(time, now)
}

/// How long ago, as kubectl writes it.
fn age(time: &Value, now: Timestamp) -> Value {
    let Some(time) = time.as_str().and_then(Timestamp::parse) else { return json!("<unknown>") };
    let s = now.since_ms(time) / 1_000;
    json!(match s {
        0..120 => format!("{s}s"),
        120..600 => format!("{}m{}s", s / 60, s % 60),
        600..10_800 => format!("{}m", s / 60),
        10_800..172_800 => format!("{}h", s / 3_600),
        _ => format!("{}d", s / 86_400),
    })
}
