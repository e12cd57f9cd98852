//! What there is, for clients that ask
//! (<https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api>).

use super::cluster::Cluster;
use super::resource::{PODS, Resource};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// `/api`.
pub fn versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/apis`.
pub fn groups(cluster: &Cluster) -> Value {
    let groups: BTreeSet<(String, String)> = cluster
        .resources()
        .filter(|resource| !resource.group.is_empty())
        .map(|resource| (resource.group.clone(), resource.version.clone()))
        .collect();
    let groups: Vec<Value> = groups.into_iter().map(|(group, version)| group_of(&group, &version)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub fn group(cluster: &Cluster, name: &str) -> Option<Value> {
    let resource = cluster.resources().find(|resource| resource.group == name && !name.is_empty())?;
    let mut group = group_of(name, &resource.version);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

fn group_of(group: &str, version: &str) -> Value {
    let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
    json!({"name": group, "versions": [version], "preferredVersion": version})
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub fn resources(cluster: &Cluster, group: &str, version: &str) -> Option<Value> {
    let all: Vec<&Resource> = cluster
        .resources()
        .filter(|resource| resource.group == group && resource.version == version)
        .collect();
    let first = all.first()?;
    let mut resources = Vec::new();
    for resource in &all {
        resources.push(json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": VERBS,
            "shortNames": resource.short_names,
            "categories": resource.categories,
            "storageVersionHash": "",
        }));
        if resource.has_status {
            resources.push(json!({
                "name": format!("{}/status", resource.plural),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": ["get", "patch", "update"],
            }));
        }
        if resource.key() == PODS {
            for (name, kind, verb) in [("pods/binding", "Binding", "create"), ("pods/log", "Pod", "get")] {
                resources.push(
                    json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": [verb]}),
                );
            }
        }
    }
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": first.api_version(), "resources": resources}),
    )
}

/// `/version`.
pub fn version() -> Value {
    json!({"major": "1", "minor": "34", "gitVersion": "v1.34.0+flyte-manager", "gitCommit": "", "gitTreeState": "clean",
           "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": ""})
}
