use super::*;
use flyte_core::{Action, Kind, NewAction, Policy, RunId, Timestamp};
use flyte_store::ActionMeta;
use serde_json::{Value, json};

fn row() -> ActionRow {
    let new = NewAction {
        id: RunId::new("local", "flytesnacks", "development", "nightly").root(),
        parent: None,
        kind: Kind::Task,
        group: String::new(),
        input_uri: "file:///s/nightly/a0/inputs.pb".into(),
        run_output_base: "file:///s/nightly".into(),
        policy: Policy::default(),
        recorded: None,
        request_digest: String::new(),
    };
    let action = Action::admit(new, Timestamp::from_ms(1_772_366_400_000));
    ActionRow { row_id: 1, seq: 1, action, meta: ActionMeta::default(), spec_digest: String::new() }
}

fn container() -> c::Container {
    c::Container {
        image: "busybox".into(),
        args: vec!["echo".into(), "{{.inputs.x}} {{.outputPrefix}} {{.prevCheckpointPrefix}}".into()],
        env: vec![c::KeyValuePair { key: "OWN".into(), value: "{{.runName}}".into() }],
        ..c::Container::default()
    }
}

fn spec(target: c::task_template::Target) -> task::TaskSpec {
    task::TaskSpec {
        task_template: Some(c::TaskTemplate { target: Some(target), ..c::TaskTemplate::default() }),
        ..task::TaskSpec::default()
    }
}

fn made(spec: &task::TaskSpec, attempt: u32, settings: &Settings) -> Result<Value, Failure> {
    let run_spec = task::RunSpec {
        labels: Some(task::Labels { values: [("team".to_string(), "größe".to_string())].into() }),
        envs: Some(task::Envs {
            values: vec![c::KeyValuePair { key: "LOG_LEVEL".into(), value: "30".into() }],
        }),
        ..task::RunSpec::default()
    };
    let row = row();
    let recipe = Recipe {
        row: &row,
        spec,
        run_spec: &run_spec,
        attempt,
        owner_uid: "owner",
        inputs: [("x".to_string(), "7".to_string())].into(),
        namespace: "flyte",
        settings,
    };
    build(&recipe).map(|pod| serde_json::to_value(pod).unwrap())
}

#[test]
fn a_container_becomes_a_pod_with_everything_that_its_process_needs() {
    let settings = Settings { endpoint: "localhost:8090".into(), ..Settings::default() };
    let pod = made(&spec(c::task_template::Target::Container(container())), 2, &settings).unwrap();
    assert_eq!(
        pod["metadata"],
        json!({
            "name": "nightly-a0-67z2g7mey7eqje67-2",
            "namespace": "flyte",
            "labels": {
                "app.kubernetes.io/managed-by": "flyte-manager",
                "flyte.org/action": "a0",
                "flyte.org/action-hash": "67z2g7mey7eqje67",
                "flyte.org/attempt": "2",
                "flyte.org/domain": "development",
                "flyte.org/project": "flytesnacks",
                "flyte.org/run": "nightly",
                "flyte.org/run-hash": pod["metadata"]["labels"]["flyte.org/run-hash"],
                "team": pod["metadata"]["labels"]["team"],
            },
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                "flyte.org/action": "a0",
                "flyte.org/domain": "development",
                "flyte.org/org": "local",
                "flyte.org/primary-container": "primary",
                "flyte.org/project": "flytesnacks",
                "flyte.org/run": "nightly",
            },
            "ownerReferences": [{
                "apiVersion": "flyte.org/v1", "kind": "TaskAction", "name": "nightly-a0-67z2g7mey7eqje67",
                "uid": "owner", "controller": true,
            }],
        })
    );
    let env = |name: &str, value: &str| json!({"name": name, "value": value});
    assert_eq!(
        pod["spec"],
        json!({
            "restartPolicy": "Never",
            "containers": [{
                "name": "primary",
                "image": "busybox",
                "args": ["echo", "7 file:///s/nightly/a0/2 file:///s/nightly/a0/1/_flytecheckpoints"],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "env": [
                    env("OWN", "nightly"),
                    env("ACTION_NAME", "a0"),
                    env("FLYTE_ATTEMPT_NUMBER", "1"),
                    env("FLYTE_INTERNAL_EXECUTION_DOMAIN", "development"),
                    env("FLYTE_INTERNAL_EXECUTION_PROJECT", "flytesnacks"),
                    env("FSSPEC_FILE", "{\"auto_mkdir\": true}"),
                    env("LOG_LEVEL", "30"),
                    env("PYTHONUNBUFFERED", "1"),
                    env("RUN_NAME", "nightly"),
                    env("_U_EP_OVERRIDE", "localhost:8090"),
                    env("_U_INSECURE", "1"),
                    env("_U_ORG_NAME", "local"),
                    env("_U_RUN_BASE", "file:///s/nightly"),
                ],
            }],
        })
    );
}

#[test]
fn a_raw_container_has_helpers_for_its_files() {
    let settings = Settings { copilot_image: Some("flyte-manager:1".into()), ..Settings::default() };
    let raw = c::Container {
        data_config: Some(c::DataLoadingConfig {
            enabled: true,
            input_path: "/var/inputs".into(),
            output_path: "/var/outputs".into(),
            ..c::DataLoadingConfig::default()
        }),
        ..container()
    };
    let task = spec(c::task_template::Target::Container(raw));
    let pod = made(&task, 1, &settings).unwrap();
    let init = pod["spec"]["initContainers"].as_array().unwrap();
    let names: Vec<&str> = init.iter().map(|container| container["name"].as_str().unwrap()).collect();
    assert_eq!(names, [copilot::DOWNLOAD, copilot::UPLOAD]);
    assert_eq!(
        init[0]["command"],
        json!([
            "flyte-manager",
            "copilot",
            "download",
            "--inputs-uri",
            "file:///s/nightly/a0/inputs.pb",
            "--dir",
            "/var/inputs",
            "--format",
            "JSON"
        ])
    );
    assert_eq!(init[1]["restartPolicy"], "Always");
    assert_eq!(
        pod["spec"]["containers"][0]["volumeMounts"],
        json!([{"name": "flyte-inputs", "mountPath": "/var/inputs"}, {"name": "flyte-outputs", "mountPath": "/var/outputs"}])
    );
    assert_eq!(made(&task, 1, &Settings::default()).unwrap_err().code, "CopilotMissing");
}

#[test]
fn a_pod_template_keeps_what_it_says() {
    let value = |kind| prost_types::Value { kind: Some(kind) };
    let text = |text: &str| value(prost_types::value::Kind::StringValue(text.into()));
    let object = |fields: Vec<(&str, prost_types::Value)>| prost_types::Struct {
        fields: fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
    };
    let list = |values| value(prost_types::value::Kind::ListValue(prost_types::ListValue { values }));
    let container = |name: &str| {
        value(prost_types::value::Kind::StructValue(object(vec![
            ("name", text(name)),
            ("image", text("i")),
            ("args", list(vec![text("{{.actionName}}")])),
        ])))
    };
    let pod = |primary: &str| c::K8sPod {
        pod_spec: Some(object(vec![
            ("containers", list(vec![container("side"), container("main")])),
            ("terminationGracePeriodSeconds", value(prost_types::value::Kind::NumberValue(5.0))),
        ])),
        primary_container_name: primary.into(),
        ..c::K8sPod::default()
    };
    let made_of = |pod| made(&spec(c::task_template::Target::K8sPod(pod)), 1, &Settings::default());
    let made = made_of(pod("main")).unwrap();
    assert_eq!(made["spec"]["terminationGracePeriodSeconds"], 5);
    assert_eq!(made["spec"]["containers"][1]["args"], json!(["a0"]));
    assert_eq!(made["metadata"]["annotations"]["flyte.org/primary-container"], "main");
    assert_eq!(made_of(pod("other")).unwrap_err().code, "PrimaryContainerMissing");
    assert_eq!(
        made_of(c::K8sPod {
            pod_spec: Some(object(vec![("containers", text("x"))])),
            ..c::K8sPod::default()
        })
        .unwrap_err()
        .code,
        "PodTemplateInvalid"
    );
}

#[test]
fn what_makes_no_pod_is_the_users_failure_with_a_sentence() {
    let container_of = |change: fn(&mut c::Container)| {
        let mut container = container();
        change(&mut container);
        made(&spec(c::task_template::Target::Container(container)), 1, &Settings::default()).unwrap_err()
    };
    assert_eq!(container_of(|container| container.image.clear()).code, "ImageMissing");
    let failure = container_of(|container| {
        container.resources = Some(c::Resources {
            requests: vec![c::resources::ResourceEntry {
                name: c::resources::ResourceName::Memory.into(),
                value: "lots".into(),
            }],
            limits: Vec::new(),
        });
    });
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        (
            "ResourcesInvalid",
            "The task's resource requests for memory are 'lots', which is no quantity such as 500m, 2 or 1Gi"
        )
    );
    assert_eq!(container_of(|container| container.args = vec!["x".repeat(2_000_000)]).code, "PodTooLarge");
    assert_eq!(made(&task::TaskSpec::default(), 1, &Settings::default()).unwrap_err().code, "NoTarget");
}
