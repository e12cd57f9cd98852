#![allow(clippy::disallowed_methods, reason = "real processes run on the real clock")]
//! The node with real processes and the API server beside it.

use flyte_core::Timestamp;
use flyte_embedded::api_server::{ApiServer, Options as ApiServerOptions};
use flyte_embedded::node::{LocalProcesses, Node, Options};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, LogParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long anything may take on a slow machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    pods: Api<Pod>,
    shutdown: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    dir: tempfile::TempDir,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let now: Arc<dyn Fn() -> Timestamp + Send + Sync> =
        Arc::new(|| Timestamp::from_ms(jiff::Timestamp::now().as_millisecond()));
    let counter = std::sync::atomic::AtomicU64::new(0);
    let server = ApiServer::new(ApiServerOptions {
        now: now.clone(),
        random: Arc::new(move |buffer| {
            let draw = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_le_bytes();
            buffer.iter_mut().enumerate().for_each(|(index, byte)| *byte = draw[index % 8]);
        }),
        auto_bind: Some("node".into()),
        event_log_max: 10_000,
        secret: None,
    });
    let client = server.client("default");
    let node = Node::new(Options {
        client: client.clone(),
        name: "node".into(),
        root: dir.path().join("node"),
        now,
        runtime: Arc::new(LocalProcesses),
        environment: BTreeMap::from([("PATH".to_string(), std::env::var("PATH").unwrap())]),
        own_program: None,
    })
    .unwrap();
    server.set_pod_logs(Arc::new(node.logs()));
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    let running = tokio::spawn(async move { node.run(token).await });
    World { pods: Api::namespaced(client, "default"), shutdown, running, dir }
}

fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "busybox", "command": ["/bin/sh", "-c", script]})
}

fn pod(name: &str, spec: Value) -> Pod {
    let mut spec = spec;
    spec["restartPolicy"] = spec.get("restartPolicy").cloned().unwrap_or(json!("Never"));
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

impl World {
    async fn create(&self, pod: Pod) {
        self.pods.create(&PostParams::default(), &pod).await.unwrap();
    }

    /// The status of a Pod as soon as it fulfils a condition.
    async fn until(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let matches = |pod: Option<&Pod>| {
            pod.is_some_and(|pod| {
                holds(&serde_json::to_value(pod.status.clone().unwrap_or_default()).unwrap())
            })
        };
        let found = tokio::time::timeout(PATIENCE, await_condition(self.pods.clone(), name, matches)).await;
        let pod = found.unwrap_or_else(|_| panic!("{name} does not get there")).unwrap().unwrap();
        serde_json::to_value(pod.status).unwrap()
    }

    async fn ended(&self, name: &str) -> Value {
        self.until(name, |status| matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))).await
    }

    async fn run(&self, name: &str, spec: Value) -> Value {
        self.create(pod(name, spec)).await;
        self.ended(name).await
    }

    async fn log(&self, name: &str) -> String {
        self.pods.logs(name, &LogParams::default()).await.unwrap()
    }

    async fn gone(&self, name: &str, uid: &str) {
        let gone = await_condition(self.pods.clone(), name, conditions::is_deleted(uid));
        tokio::time::timeout(PATIENCE, gone).await.expect("the Pod stays").unwrap();
    }
}

fn terminated(status: &Value) -> (i64, &str) {
    let end = &status["containerStatuses"][0]["state"]["terminated"];
    (end["exitCode"].as_i64().unwrap(), end["reason"].as_str().unwrap())
}

#[tokio::test]
async fn containers_end_with_their_exit_codes_and_their_output_is_kept() {
    let world = world();
    let good = world.run("good", json!({"containers": [shell("c", "echo out; echo err >&2")]})).await;
    assert_eq!((good["phase"].as_str(), terminated(&good)), (Some("Succeeded"), (0, "Completed")));
    let log = world.log("good").await;
    assert!(log == "out\nerr\n" || log == "err\nout\n", "{log}");
    let bad = world.run("bad", json!({"containers": [shell("c", "echo why; exit 7")]})).await;
    assert_eq!((bad["phase"].as_str(), terminated(&bad)), (Some("Failed"), (7, "Error")));
    let killed = world.run("killed", json!({"containers": [shell("c", "kill -9 $$$$")]})).await;
    assert_eq!(terminated(&killed), (137, "Error"));
    let mut container = shell("c", "echo the reason; exit 1");
    container["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    let message = world.run("message", json!({"containers": [container]})).await;
    assert_eq!(message["containerStatuses"][0]["state"]["terminated"]["message"], "the reason\n");
    let wrote = shell("c", "echo said > /dev/termination-log; exit 1");
    let wrote = world.run("wrote", json!({"containers": [wrote]})).await;
    assert_eq!(wrote["containerStatuses"][0]["state"]["terminated"]["message"], "said\n");
}

#[tokio::test]
async fn a_command_that_is_not_there_fails_with_a_sentence() {
    let world = world();
    let container = json!({"name": "c", "image": "i", "args": ["no-such-program"]});
    let status = world.run("p", json!({"containers": [container]})).await;
    let end = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((end["exitCode"].as_i64(), end["reason"].as_str()), (Some(128), Some("StartError")));
    assert_eq!(
        end["message"],
        "cannot start 'no-such-program': No such file or directory (os error 2); in embedded mode images are not pulled \
         and commands run on this machine"
    );
    let none = json!({"name": "c", "image": "i"});
    let status = world.run("q", json!({"containers": [none]})).await;
    assert_eq!(terminated(&status), (128, "StartError"));
}

#[tokio::test]
async fn each_container_has_its_environment_directory_and_volumes() {
    let world = world();
    let mut first = shell("first", "echo data > /shared/file; pwd > /shared/dir; env > /shared/env");
    first["volumeMounts"] = json!([{"name": "v", "mountPath": "/shared"}]);
    first["env"] = json!([
        {"name": "A", "value": "x"}, {"name": "B", "value": "$(A)-y"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    let mut second =
        shell("second", "cat /shared/file; ls | wc -l; grep -E '^(A|B|NAME|SECRET)=' /shared/env | sort");
    second["volumeMounts"] = first["volumeMounts"].clone();
    let spec = json!({"initContainers": [first], "containers": [second], "volumes": [{"name": "v", "emptyDir": {}}]});
    let status = world.run("p", spec).await;
    assert_eq!(status["phase"], "Succeeded", "{status}");
    let log = world.log("p").await;
    assert_eq!(log.split_whitespace().collect::<Vec<_>>(), ["data", "0", "A=x", "B=x-y", "NAME=p"]);
    let mut wants = shell("c", "true");
    wants["env"] = json!([{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    world.create(pod("q", json!({"containers": [wants]}))).await;
    let waits = |status: &Value| {
        status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    };
    world.until("q", waits).await;
}

#[tokio::test]
async fn init_containers_run_in_order_and_a_sidecar_ends_after_the_task() {
    let world = world();
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let with = |mut container: Value| {
        container["volumeMounts"] = mount.clone();
        container
    };
    let mut sidecar = with(shell(
        "side",
        "trap 'cat /v/main > /v/seen; exit 0' TERM; echo up >> /v/order; while :; do sleep 0.05; done",
    ));
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "initContainers": [with(shell("one", "echo one >> /v/order")), sidecar, with(shell("two", "echo two >> /v/order"))],
        "containers": [with(shell("main", "echo last > /v/main; cat /v/order"))],
        "volumes": [{"name": "v", "emptyDir": {}}],
    });
    let status = world.run("p", spec).await;
    assert_eq!(status["phase"], "Succeeded", "{status}");
    assert_eq!(
        status["initContainerStatuses"][1]["state"]["terminated"]["exitCode"], 0,
        "it has done its last work"
    );
    let log = world.log("p").await;
    assert!(log.starts_with("one\n") && log.contains("two\n"), "{log}");
    let failing =
        json!({"initContainers": [shell("no", "exit 3")], "containers": [shell("main", "echo never")]});
    let status = world.run("q", failing).await;
    assert_eq!(
        (&status["phase"], &status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"]),
        (&json!("Failed"), &json!(3))
    );
    assert!(status["containerStatuses"][0]["state"]["waiting"].is_object());
}

#[tokio::test]
async fn a_deleted_pod_is_asked_to_end_and_then_made_to_with_everything_it_started() {
    let world = world();
    let marker = world.dir.path().join("alive").display().to_string();
    // The child ignores the request to end; so does its own child.
    let script = format!(
        "trap '' TERM; (trap '' TERM; while :; do touch {marker}; sleep 0.05; done) & echo up; wait; sleep 600"
    );
    let mut spec = json!({"containers": [shell("c", &script)], "terminationGracePeriodSeconds": 1});
    spec["restartPolicy"] = json!("Never");
    world.create(pod("p", spec)).await;
    world.until("p", |status| status["phase"] == "Running").await;
    let uid = world.pods.get("p").await.unwrap().metadata.uid.unwrap();
    world.pods.delete("p", &DeleteParams::default()).await.unwrap();
    world.gone("p", &uid).await;
    let _ = std::fs::remove_file(&marker);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!std::path::Path::new(&marker).exists(), "something of the Pod still runs");

    world
        .create(pod(
            "kind",
            json!({"containers": [shell("c", "trap 'echo bye; exit 0' TERM; echo up; sleep 600 & wait")]}),
        ))
        .await;
    world.until("kind", |status| status["phase"] == "Running").await;
    let uid = world.pods.get("kind").await.unwrap().metadata.uid.unwrap();
    world.pods.delete("kind", &DeleteParams::default()).await.unwrap();
    world.gone("kind", &uid).await;
}

#[tokio::test]
async fn a_deletion_without_grace_ends_what_is_being_asked_to_end() {
    let world = world();
    let spec = json!({"containers": [shell("c", "trap '' TERM; echo up; while :; do sleep 0.1; done")], "terminationGracePeriodSeconds": 600});
    world.create(pod("p", spec)).await;
    world.until("p", |status| status["phase"] == "Running").await;
    let uid = world.pods.get("p").await.unwrap().metadata.uid.unwrap();
    world.pods.delete("p", &DeleteParams::default()).await.unwrap();
    world.pods.delete("p", &DeleteParams::default().grace_period(1)).await.unwrap();
    world.shutdown.cancel();
    tokio::time::timeout(PATIENCE, world.running).await.expect("the node does not end").unwrap();
    let gone = await_condition(world.pods.clone(), "p", conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, gone).await.expect("the Pod stays").unwrap();
}

#[tokio::test]
async fn a_sidecar_hears_that_it_has_to_end_however_short_the_task() {
    let world = world();
    for n in 0..10 {
        let mount = json!([{"name": "v", "mountPath": "/v"}]);
        // It takes a while until it listens, as a program does that has to be loaded first.
        let mut sidecar = shell(
            "side",
            "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; trap 'echo done > /v/seen; exit 0' TERM; while :; do sleep 0.02; done",
        );
        sidecar["restartPolicy"] = json!("Always");
        sidecar["volumeMounts"] = mount.clone();
        let spec = json!({
            "initContainers": [sidecar], "containers": [shell("main", "true")],
            "volumes": [{"name": "v", "emptyDir": {}}],
        });
        let status = world.run(&format!("p{n}"), spec).await;
        assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0, "{status}");
    }
}

#[tokio::test]
async fn a_long_log_keeps_every_character() {
    let world = world();
    let script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe größe; done";
    world.run("p", json!({"containers": [shell("c", script)]})).await;
    let log = world.log("p").await;
    assert_eq!((log.matches("größe").count(), log.contains('\u{fffd}')), (400 * 28, false));
}

#[tokio::test]
async fn limits_and_deadlines_end_a_pod_with_their_reasons() {
    let world = world();
    let slow = json!({"containers": [shell("c", "sleep 600")], "activeDeadlineSeconds": 1, "terminationGracePeriodSeconds": 1});
    let status = world.run("slow", slow).await;
    assert_eq!(
        (status["phase"].as_str(), status["reason"].as_str()),
        (Some("Failed"), Some("DeadlineExceeded"))
    );
    // The shell's variable doubles until the limit is passed.
    let mut greedy = shell("c", "x=0123456789abcdef; while :; do x=$x$x; done");
    greedy["resources"] = json!({"limits": {"memory": "64Mi"}});
    let status = world.run("greedy", json!({"containers": [greedy]})).await;
    assert_eq!(terminated(&status), (137, "OOMKilled"));
}

#[tokio::test]
async fn a_restart_policy_starts_a_failed_container_anew() {
    let world = world();
    let mark = world.dir.path().join("mark").display().to_string();
    let script = format!("if [ -e {mark} ]; then exit 0; fi; touch {mark}; exit 1");
    let status =
        world.run("p", json!({"containers": [shell("c", &script)], "restartPolicy": "OnFailure"})).await;
    assert_eq!(
        (&status["phase"], &status["containerStatuses"][0]["restartCount"]),
        (&json!("Succeeded"), &json!(1))
    );
}

#[tokio::test]
async fn a_node_that_stops_leaves_no_process_and_two_nodes_do_not_share_a_directory() {
    let world = world();
    let marker = world.dir.path().join("alive").display().to_string();
    world
        .create(pod(
            "p",
            json!({"containers": [shell("c", &format!("while :; do touch {marker}; sleep 0.05; done"))]}),
        ))
        .await;
    world.until("p", |status| status["phase"] == "Running").await;
    let second = Node::new(Options {
        client: world.pods.clone().into_client(),
        name: "other".into(),
        root: world.dir.path().join("node"),
        now: Arc::new(|| Timestamp::from_ms(0)),
        runtime: Arc::new(LocalProcesses),
        environment: BTreeMap::new(),
        own_program: None,
    });
    assert!(second.err().unwrap().contains("another flyte-manager uses"));
    world.shutdown.cancel();
    tokio::time::timeout(PATIENCE, world.running).await.expect("the node does not end").unwrap();
    let _ = std::fs::remove_file(&marker);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!std::path::Path::new(&marker).exists(), "the process outlives its node");
}
