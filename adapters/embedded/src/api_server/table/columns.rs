//! The columns of each kind.

use super::{age, pod};
use crate::api_server::json_path;
use crate::api_server::resource::{PrinterColumn, Resource};
use flyte_core::{Timestamp, text};
use serde_json::{Value, json};

/// The most bytes of a cell.
const CELL_MAX_BYTES: usize = 1024;

/// Makes a cell of an object, at a time.
type Cell = Box<dyn Fn(&Value, Timestamp) -> Value>;

/// One column.
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Above 0 it is shown in wide tables only.
    pub priority: i64,
    /// What is in it.
    pub cell: Cell,
}

fn column(name: &str, kind: &str, cell: impl Fn(&Value, Timestamp) -> Value + 'static) -> Column {
    Column { name: name.into(), kind: kind.into(), priority: 0, cell: Box::new(cell) }
}

fn at(name: &str, path: &'static str) -> Column {
    column(name, "string", move |object, _| object.pointer(path).cloned().unwrap_or(json!("")))
}

/// As [`at`], for what may be missing.
fn perhaps(name: &str, path: &'static str) -> Column {
    column(name, "string", move |object, _| match object.pointer(path) {
        Some(Value::Null) | None => json!("<none>"),
        Some(value) => value.clone(),
    })
}

fn count(name: &str, path: &'static str) -> Column {
    column(name, "integer", move |object, _| {
        json!(match object.pointer(path) {
            Some(Value::Object(fields)) => fields.len(),
            Some(Value::Array(items)) => items.len(),
            _ => 0,
        })
    })
}

fn age_column() -> Column {
    column("Age", "date", |object, now| age(&object["metadata"]["creationTimestamp"], now))
}

/// The columns for objects of a kind.
pub fn columns(resource: &Resource) -> Vec<Column> {
    let name = at("Name", "/metadata/name");
    match resource.key().as_str() {
        "/pods" => vec![
            name,
            column("Ready", "string", |object, _| json!(pod::ready(object))),
            column("Status", "string", |object, _| json!(pod::status(object))),
            column("Restarts", "integer", |object, _| json!(pod::restarts(object))),
            age_column(),
        ],
        "/nodes" => vec![
            name,
            column("Status", "string", |node, _| {
                let conditions = node["status"]["conditions"].as_array();
                let ready =
                    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
                let cordoned = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
                json!(format!("{}{cordoned}", if ready { "Ready" } else { "NotReady" }))
            }),
            column("Roles", "string", |_, _| json!("<none>")),
            age_column(),
            at("Version", "/status/nodeInfo/kubeletVersion"),
        ],
        "/namespaces" => vec![name, at("Status", "/status/phase"), age_column()],
        "/configmaps" => vec![name, count("Data", "/data"), age_column()],
        "/secrets" => vec![name, at("Type", "/type"), count("Data", "/data"), age_column()],
        "/services" => vec![
            name,
            column("Type", "string", |service, _| {
                json!(service["spec"]["type"].as_str().unwrap_or("ClusterIP"))
            }),
            perhaps("Cluster-IP", "/spec/clusterIP"),
            column("External-IP", "string", |_, _| json!("<none>")),
            column("Port(s)", "string", |service, _| json!(ports(service))),
            age_column(),
        ],
        "/events" => vec![
            column("Last Seen", "date", |event, now| age(&last_seen(event), now)),
            at("Type", "/type"),
            at("Reason", "/reason"),
            column("Object", "string", |event, _| {
                let part =
                    |field: &str| event["involvedObject"][field].as_str().unwrap_or_default().to_string();
                json!(format!("{}/{}", part("kind").to_lowercase(), part("name")))
            }),
            column("Message", "string", |event, _| {
                json!(event["message"].as_str().unwrap_or_default().trim())
            }),
        ],
        "coordination.k8s.io/leases" => vec![name, at("Holder", "/spec/holderIdentity"), age_column()],
        "apiextensions.k8s.io/customresourcedefinitions" => {
            vec![
                name,
                column("Created At", "date", |object, _| object["metadata"]["creationTimestamp"].clone()),
            ]
        }
        _ if resource.columns.is_empty() => vec![name, age_column()],
        _ => std::iter::once(name).chain(resource.columns.iter().map(custom)).collect(),
    }
}

fn custom(asked: &PrinterColumn) -> Column {
    let (path, kind) = (asked.path.clone(), asked.kind.clone());
    let cell = move |object: &Value, now: Timestamp| {
        let found = json_path::first(object, &path).filter(|value| !value.is_null());
        match (kind.as_str(), found) {
            (_, None) => Value::Null,
            ("date", Some(time)) => age(time, now),
            ("string", Some(Value::String(found))) => json!(text::bounded(found, CELL_MAX_BYTES)),
            ("string", Some(found)) => json!(text::bounded(&found.to_string(), CELL_MAX_BYTES)),
            (_, Some(found)) => found.clone(),
        }
    };
    Column {
        name: asked.name.clone(),
        kind: asked.kind.clone(),
        priority: asked.priority,
        cell: Box::new(cell),
    }
}

fn ports(service: &Value) -> String {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports: Vec<String> = ports
        .map(|port| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP")))
        .collect();
    if ports.is_empty() { "<none>".into() } else { ports.join(",") }
}

fn last_seen(event: &Value) -> Value {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    times
        .iter()
        .filter_map(|path| event.pointer(path))
        .find(|time| time.is_string())
        .cloned()
        .unwrap_or_default()
}
