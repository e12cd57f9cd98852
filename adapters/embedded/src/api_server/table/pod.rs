//! What `kubectl get pods` says of a Pod, as a real API server puts it.

use serde_json::Value;

fn statuses<'a>(pod: &'a Value, list: &str) -> impl DoubleEndedIterator<Item = &'a Value> {
    pod["status"][list].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// How many containers are ready, of how many.
pub fn ready(pod: &Value) -> String {
    let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let ready = statuses(pod, "containerStatuses").filter(|status| status["ready"] == true).count();
    format!("{ready}/{all}")
}

/// How often its containers have been started again.
pub fn restarts(pod: &Value) -> i64 {
    statuses(pod, "containerStatuses")
        .map(|status| status["restartCount"].as_i64().unwrap_or(0))
        .fold(0, i64::saturating_add)
}

/// One word for its state.
pub fn status(pod: &Value) -> String {
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return if pod["status"]["reason"] == "NodeLost" { "Unknown" } else { "Terminating" }.into();
    }
    if let Some(initializing) = initializing(pod) {
        return initializing;
    }
    let mut word =
        pod["status"]["reason"].as_str().or(pod["status"]["phase"].as_str()).unwrap_or("Unknown").to_string();
    let mut is_running = false;
    for status in statuses(pod, "containerStatuses").rev() {
        if let Some(reason) = reason(&status["state"]["waiting"]) {
            word = reason;
        } else if status["state"]["terminated"].is_object() {
            word = ended(&status["state"]["terminated"]);
        } else if status["ready"] == true && status["state"]["running"].is_object() {
            is_running = true;
        }
    }
    if word == "Completed" && is_running { "Running".into() } else { word }
}

/// The state of init containers, while they have not all succeeded.
fn initializing(pod: &Value) -> Option<String> {
    let all = pod["spec"]["initContainers"].as_array().map_or(0, Vec::len);
    for (index, status) in statuses(pod, "initContainerStatuses").enumerate() {
        let state = &status["state"];
        let terminated = &state["terminated"];
        if terminated["exitCode"] == 0 || status["started"] == true {
            continue;
        }
        return Some(if terminated.is_object() {
            format!("Init:{}", ended(terminated))
        } else {
            match reason(&state["waiting"]).filter(|reason| reason != "PodInitializing") {
                Some(reason) => format!("Init:{reason}"),
                None => format!("Init:{index}/{all}"),
            }
        });
    }
    None
}

fn reason(state: &Value) -> Option<String> {
    state["reason"].as_str().filter(|reason| !reason.is_empty()).map(str::to_string)
}

fn ended(terminated: &Value) -> String {
    reason(terminated).unwrap_or_else(|| match terminated["signal"].as_i64() {
        Some(signal) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pods_state_is_told_in_one_word() {
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        let ended = |code: i64| json!({"state": {"terminated": {"exitCode": code}}});
        let init = |status: Value| json!({"spec": {"initContainers": [{}, {}]}, "status": {"initContainerStatuses": [status]}});
        for (pod, word) in [
            (json!({"status": {"phase": "Pending"}}), "Pending"),
            (json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}), "Terminating"),
            (json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted"),
            (
                json!({"status": {"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff")]}}),
                "ImagePullBackOff",
            ),
            (json!({"status": {"phase": "Failed", "containerStatuses": [ended(7)]}}), "ExitCode:7"),
            (init(waiting("PodInitializing")), "Init:0/2"),
            (init(ended(3)), "Init:ExitCode:3"),
            (json!({"status": 7}), "Unknown"),
        ] {
            assert_eq!(status(&pod), word, "{pod}");
        }
    }
}
