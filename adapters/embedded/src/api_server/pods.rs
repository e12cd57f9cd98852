//! Rules and defaults of Pods.

use super::names::label_fault;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Fills in what a Pod's author has left out.
pub fn fill_in(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.entry("restartPolicy").or_insert(json!("Always"));
    spec.entry("terminationGracePeriodSeconds").or_insert(json!(30));
    spec.entry("serviceAccountName").or_insert(json!("default"));
    spec.entry("dnsPolicy").or_insert(json!("ClusterFirst"));
    spec.entry("schedulerName").or_insert(json!("default-scheduler"));
    spec.entry("securityContext").or_insert(json!({}));
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(fields) = container.as_object_mut() else { continue };
            let image = fields.get("image").and_then(Value::as_str).unwrap_or_default();
            let tag = image.rsplit('/').next().unwrap_or_default().split_once(':');
            let newest = !image.contains('@') && tag.is_none_or(|(_, tag)| tag == "latest");
            fields.entry("imagePullPolicy").or_insert(json!(if newest { "Always" } else { "IfNotPresent" }));
            fields.entry("resources").or_insert(json!({}));
            fields.entry("terminationMessagePath").or_insert(json!("/dev/termination-log"));
            fields.entry("terminationMessagePolicy").or_insert(json!("File"));
        }
    }
}

/// What is wrong with a Pod, by field.
pub fn faults(pod: &Value) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let spec = &pod["spec"];
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        faults.push(("spec.containers".to_string(), "Required value".to_string()));
    }
    let mut seen = BTreeSet::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let at = |field: &str| format!("spec.{list}[{index}].{field}");
            let name = container["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                faults.push((at("name"), "Required value".to_string()));
            } else if let Some(why) = label_fault(name) {
                faults.push((at("name"), why.to_string()));
            } else if !seen.insert(name) {
                faults.push((at("name"), format!("Duplicate value: \"{name}\"")));
            }
            if container["image"].as_str().is_none_or(str::is_empty) {
                faults.push((at("image"), "Required value".to_string()));
            }
        }
    }
    if let Some(policy) = spec["restartPolicy"].as_str()
        && !matches!(policy, "Always" | "OnFailure" | "Never")
    {
        let supported = "supported values: \"Always\", \"OnFailure\", \"Never\"";
        faults.push(("spec.restartPolicy".into(), format!("Unsupported value: \"{policy}\": {supported}")));
    }
    faults
}

/// What is wrong with a change of a Pod: only a few fields of what runs can be changed.
pub fn change_fault(before: &Value, after: &Value) -> Option<(String, String)> {
    let fixed = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            for field in ["activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"] {
                fields.remove(field);
            }
            for list in ["initContainers", "containers"] {
                for container in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    container.as_object_mut().map(|fields| fields.remove("image"));
                }
            }
        }
        spec
    };
    (fixed(before) != fixed(after)).then(|| {
        let why = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, \
                   `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` and \
                   `spec.terminationGracePeriodSeconds`";
        ("spec".to_string(), why.to_string())
    })
}

/// Puts a Pod on a node and says so in its conditions.
pub fn bind(pod: &mut Value, node: &str, now: &str) {
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("nodeName".into(), json!(node));
    }
    let Some(fields) = pod.as_object_mut() else { return };
    let Some(status) = fields.entry("status").or_insert_with(|| json!({})).as_object_mut() else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}));
    }
}

/// How the Pod stands when memory is short, from what its containers ask for.
pub fn qos_class(spec: &Value) -> &'static str {
    let containers: Vec<&Value> = ["initContainers", "containers"]
        .iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten())
        .collect();
    let asks = |container: &Value, what: &str| {
        container["resources"][what].as_object().is_some_and(|asked| !asked.is_empty())
    };
    let is_guaranteed = |container: &Value| {
        let (limits, requests) = (&container["resources"]["limits"], &container["resources"]["requests"]);
        ["cpu", "memory"].iter().all(|what| {
            limits[what].is_string() && (requests[what].is_null() || requests[what] == limits[what])
        })
    };
    if containers.iter().all(|container| !asks(container, "limits") && !asks(container, "requests")) {
        "BestEffort"
    } else if containers.iter().all(|container| is_guaranteed(container)) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_standing_follows_from_what_its_containers_ask_for() {
        let spec = |resources: Value| json!({"containers": [{"resources": resources}]});
        for (resources, class) in [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), "Burstable"),
        ] {
            assert_eq!(qos_class(&spec(resources.clone())), class, "{resources}");
        }
    }

    #[test]
    fn the_image_of_a_running_pod_can_be_changed_and_its_command_cannot() {
        let pod = |image: &str, command: &str| json!({"spec": {"containers": [{"image": image, "command": [command]}]}});
        assert_eq!(change_fault(&pod("a", "x"), &pod("b", "x")), None);
        assert_eq!(change_fault(&pod("a", "x"), &pod("a", "y")).unwrap().0, "spec");
    }
}
