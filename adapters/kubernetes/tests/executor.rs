//! The executor against the API server in memory. The tests play the kubelet: they write the statuses of Pods.

use flyte_core::{ActionId, Kind, NewAction, Phase, Policy, RunId};
use flyte_embedded::api_server::{ApiServer, Interceptor, Options as ServerOptions, Refused, RequestInfo};
use flyte_kubernetes::{Executor, Options, Settings, TaskAction, ensure_namespace, install_crd};
use flyte_objects::Objects;
use flyte_proto::{core as c, task};
use flyte_store::{ActionMeta, Clock, NewRun, Options as StoreOptions, Spec, SpecKind, Store, Topic};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long anything may take on a slow machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers some requests instead of the server, and counts those that write.
#[derive(Default)]
struct Faults {
    refusals: Mutex<Vec<(String, String, Refused, bool)>>,
    writes: Mutex<BTreeMap<String, u32>>,
}

impl Faults {
    /// Refuses the next request of this method whose path ends so; `after` it had its effect, or before.
    fn refuse(&self, method: &str, suffix: &str, refused: Refused, after: bool) {
        self.refusals.lock().unwrap().push((method.into(), suffix.into(), refused, after));
    }

    fn take(&self, request: &RequestInfo, after: bool) -> Option<Refused> {
        let mut refusals = self.refusals.lock().unwrap();
        let place = refusals.iter().position(|(method, suffix, _, when)| {
            *method == request.method && request.path.ends_with(suffix.as_str()) && *when == after
        })?;
        Some(refusals.remove(place).2)
    }
}

struct Hook(Arc<Faults>);

impl Interceptor for Hook {
    fn before(&self, request: RequestInfo) -> BoxFuture<'static, Option<Refused>> {
        if request.method != "GET" && request.path.contains("/namespaces/flyte/") {
            let kind =
                request.path.split('/').find(|part| matches!(*part, "pods" | "taskactions")).unwrap_or("");
            *self.0.writes.lock().unwrap().entry(format!("{} {kind}", request.method)).or_default() += 1;
        }
        let answer = self.0.take(&request, false);
        async move { answer }.boxed()
    }

    fn after(&self, request: RequestInfo) -> BoxFuture<'static, Option<Refused>> {
        let answer = self.0.take(&request, true);
        async move { answer }.boxed()
    }
}

struct World {
    server: ApiServer,
    client: Client,
    store: Store,
    objects: Objects,
    faults: Arc<Faults>,
    executor: Option<(CancellationToken, tokio::task::JoinHandle<()>)>,
    settings: Settings,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let draws = AtomicU64::new(0);
        let server_clock = clock.clone();
        let server = ApiServer::new(ServerOptions {
            now: Arc::new(move || server_clock.now()),
            random: Arc::new(move |buffer| {
                let draw = draws.fetch_add(1, Ordering::Relaxed).to_le_bytes();
                buffer.iter_mut().enumerate().for_each(|(index, byte)| *byte = draw[index % 8]);
            }),
            auto_bind: Some("node".into()),
            event_log_max: 10_000,
            secret: None,
        });
        let faults = Arc::new(Faults::default());
        server.set_interceptor(Arc::new(Hook(faults.clone())));
        let client = server.client("flyte");
        install_crd(&client, "flyte").await.unwrap();
        ensure_namespace(&client, "flyte").await.unwrap();
        let path = dir.path().join("flyte.db").display().to_string();
        let store = Store::open(StoreOptions { clock, ..StoreOptions::file(path) }).await.unwrap();
        let mut settings = Settings::default();
        settings.plan.graces = flyte_core::pod::Graces { image_pull_ms: 0, create_container_ms: 0 };
        let mut world = Self {
            server,
            client,
            store,
            objects: Objects::in_memory("mem://x"),
            faults,
            executor: None,
            settings,
            _dir: dir,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let executor = Executor::new(Options {
            client: self.client.clone(),
            namespace: "flyte".into(),
            store: self.store.clone(),
            objects: self.objects.clone(),
            settings: self.settings.clone(),
        });
        let token = CancellationToken::new();
        let shutdown = token.clone();
        self.executor = Some((token, tokio::spawn(async move { executor.run(shutdown).await })));
    }

    async fn stop(&mut self) {
        let (token, task) = self.executor.take().unwrap();
        token.cancel();
        task.await.unwrap();
    }

    async fn create(&self, name: &str, policy: Policy) -> ActionId {
        let run = RunId::new("local", "p", "d", name);
        let spec = task::TaskSpec {
            task_template: Some(c::TaskTemplate {
                target: Some(c::task_template::Target::Container(c::Container {
                    image: "busybox".into(),
                    args: vec!["true".into()],
                    ..c::Container::default()
                })),
                ..c::TaskTemplate::default()
            }),
            ..task::TaskSpec::default()
        };
        let root = NewAction {
            id: run.root(),
            parent: None,
            kind: Kind::Task,
            group: String::new(),
            input_uri: "mem://x/inputs.pb".into(),
            run_output_base: format!("mem://x/{name}"),
            policy,
            recorded: None,
            request_digest: String::new(),
        };
        let new = NewRun {
            root,
            meta: ActionMeta::default(),
            spec: Spec { digest: "spec".into(), kind: SpecKind::Task, bytes: spec.encode_to_vec().into() },
            run_spec: Arc::from([]),
            labels: BTreeMap::new(),
            source: 0,
        };
        self.store.create_run(new).await.unwrap();
        run.root()
    }

    /// Waits until the action fulfils a condition.
    async fn until(
        &self,
        id: &ActionId,
        what: &str,
        holds: impl Fn(&flyte_core::Action) -> bool,
    ) -> flyte_core::Action {
        let mut changes = self.store.subscribe(Topic::Action(id.clone()));
        let wait = async {
            loop {
                let action = self.store.action(id).await.unwrap().unwrap().action.clone();
                if holds(&action) {
                    return action;
                }
                changes.recv().await.unwrap();
            }
        };
        let found = tokio::time::timeout(PATIENCE, wait).await;
        match found {
            Ok(action) => action,
            Err(_) => panic!("not {what}: {:#?}", self.store.action(id).await.unwrap().unwrap().action),
        }
    }

    async fn phase(&self, id: &ActionId, phase: Phase) -> flyte_core::Action {
        self.until(id, phase.name(), |action| action.phase == phase).await
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "flyte")
    }

    fn task_actions(&self) -> Api<TaskAction> {
        Api::namespaced(self.client.clone(), "flyte")
    }

    /// The Pod of the current attempt, as soon as the database knows it.
    async fn pod(&self, id: &ActionId, attempt: u32) -> String {
        let action = self
            .until(id, "with a Pod", |action| {
                action.attempt().number == attempt && action.attempt().pod.is_some()
            })
            .await;
        action.attempt().pod.clone().unwrap().name
    }

    async fn report(&self, pod: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.pods().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn running(&self, pod: &str) {
        let state = json!({"running": {"startedAt": "2026-03-01T12:00:00Z"}});
        self.report(pod, json!({"phase": "Running", "containerStatuses": [container(state)]})).await;
    }

    async fn exits(&self, pod: &str, code: i32) {
        let state = json!({"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": "2026-03-01T12:00:00Z", "finishedAt": "2026-03-01T12:00:01Z"}});
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        self.report(pod, json!({"phase": phase, "containerStatuses": [container(state)]})).await;
    }

    /// Nothing of the action is left but its TaskAction, which shows this phase.
    async fn settled(&self, phase: &str) {
        let settled = async {
            loop {
                let objects = self.server.snapshot("flyte.org", "taskactions");
                let shown = objects.iter().all(|object| object["status"]["phase"] == phase);
                if shown && self.server.snapshot("", "pods").is_empty() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, settled).await;
        assert!(
            found.is_ok(),
            "{:#?} {:#?}",
            self.server.snapshot("flyte.org", "taskactions"),
            self.server.snapshot("", "pods")
        );
    }
}

fn container(state: Value) -> Value {
    json!({"name": "primary", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

fn policy(user_retries: u32, system_retries: u32) -> Policy {
    Policy { user_retries, system_retries, backoff_base_ms: 1, backoff_cap_ms: 1, ..Policy::default() }
}

#[tokio::test]
async fn a_plain_success_costs_seven_writes_at_most() {
    let mut world = World::new().await;
    world.settings.plan.ttl_ms = 0;
    world.stop().await;
    world.start();
    let id = world.create("r", policy(0, 0)).await;
    let pod = world.pod(&id, 1).await;
    world.running(&pod).await;
    world.phase(&id, Phase::Running).await;
    world.exits(&pod, 0).await;
    let action = world.phase(&id, Phase::Succeeded).await;
    assert_eq!(action.output_uri, "mem://x/r/a0/1");
    let collected = world.until(&id, "collected", |action| !action.in_cluster).await;
    assert_eq!(collected.phase, Phase::Succeeded);
    assert_eq!(
        world.server.snapshot("", "pods").len() + world.server.snapshot("flyte.org", "taskactions").len(),
        0
    );
    let mut writes = world.faults.writes.lock().unwrap().clone();
    // The test's own three statuses of the Pod.
    *writes.get_mut("PATCH pods").unwrap() -= 2;
    writes.retain(|_, count| *count > 0);
    assert!(writes.values().sum::<u32>() <= 7, "{writes:?}");
}

#[tokio::test]
async fn failures_are_tried_again_as_often_as_their_budgets_allow() {
    let world = World::new().await;
    let id = world.create("r", policy(1, 1)).await;
    let first = world.pod(&id, 1).await;
    world.exits(&first, 2).await;
    let second = world.pod(&id, 2).await;
    world.report(&second, json!({"phase": "Failed", "reason": "Evicted", "message": "no disk"})).await;
    let third = world.pod(&id, 3).await;
    world.exits(&third, 2).await;
    let action = world.phase(&id, Phase::Failed).await;
    assert_eq!((action.attempts.len(), action.user_failures, action.system_failures), (3, 2, 1));
    world.settled("FAILED").await;
    let object = world.task_actions().list(&Default::default()).await.unwrap().items.remove(0);
    let status = object.status.unwrap();
    assert_eq!((status.attempt, status.error_state.unwrap().kind.as_str()), (3, "USER"));
    assert!(
        status.conditions.iter().any(|condition| condition.type_ == "Failed" && condition.status == "True")
    );
}

#[tokio::test]
async fn the_tasks_own_error_document_is_its_last_word() {
    let world = World::new().await;
    let id = world.create("r", policy(0, 0)).await;
    let pod = world.pod(&id, 1).await;
    let document = c::ErrorDocument {
        error: Some(c::ContainerError {
            code: "ValueError".into(),
            message: "boom".into(),
            ..Default::default()
        }),
    };
    world.objects.put("mem://x/r/a0/1/error.pb", document.encode_to_vec().into()).await.unwrap();
    world.exits(&pod, 0).await;
    let failure = world.phase(&id, Phase::Failed).await.failure.unwrap();
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("ValueError", "boom"));
}

#[tokio::test]
async fn an_abort_deletes_the_pod() {
    let world = World::new().await;
    let id = world.create("r", policy(0, 0)).await;
    let pod = world.pod(&id, 1).await;
    world.running(&pod).await;
    world.phase(&id, Phase::Running).await;
    let abort = flyte_core::Input::Abort { reason: "enough".into(), by: String::new() };
    world.store.apply(&id, abort).await.unwrap();
    let deleting = async {
        while world.pods().get(&pod).await.unwrap().metadata.deletion_timestamp.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, deleting).await.expect("the Pod stays");
    world.pods().delete(&pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    world.settled("ABORTED").await;
}

#[tokio::test]
async fn case_11_a_pod_that_is_gone_succeeded_when_its_outputs_are_there_and_was_lost_by_the_system_otherwise()
 {
    let world = World::new().await;
    let id = world.create("r", policy(0, 1)).await;
    let first = world.pod(&id, 1).await;
    world.running(&first).await;
    world.phase(&id, Phase::Running).await;
    world.pods().delete(&first, &DeleteParams::default().grace_period(0)).await.unwrap();
    let second = world.pod(&id, 2).await;
    world.running(&second).await;
    world
        .until(&id, "running again", |action| action.attempt().number == 2 && action.phase == Phase::Running)
        .await;
    world.objects.put("mem://x/r/a0/2/outputs.pb", bytes::Bytes::new()).await.unwrap();
    world.pods().delete(&second, &DeleteParams::default().grace_period(0)).await.unwrap();
    let action = world.phase(&id, Phase::Succeeded).await;
    assert_eq!((action.user_failures, action.system_failures), (0, 1));
}

#[tokio::test]
async fn case_15_a_pod_whose_creation_was_answered_with_an_error_is_found_and_not_made_twice() {
    let world = World::new().await;
    world.faults.refuse("POST", "/taskactions", Refused::new(504, "Timeout", "slow"), true);
    world.faults.refuse("POST", "/pods", Refused::new(500, "InternalError", "broken"), true);
    let id = world.create("r", policy(0, 0)).await;
    let pod = world.pod(&id, 1).await;
    assert_eq!(world.server.snapshot("", "pods").len(), 1);
    world.exits(&pod, 0).await;
    let action = world.phase(&id, Phase::Succeeded).await;
    assert_eq!(action.attempts.len(), 1);
}

#[tokio::test]
async fn case_17_an_exhausted_quota_is_waited_for_and_shown() {
    let world = World::new().await;
    let message = "pods \"x\" is forbidden: exceeded quota: q, requested: cpu=1, used: cpu=8, limited: cpu=8";
    world.faults.refuse("POST", "/pods", Refused::new(403, "Forbidden", message), false);
    let id = world.create("r", policy(0, 0)).await;
    let waiting = world.phase(&id, Phase::WaitingForResources).await;
    assert!(waiting.attempt().message.contains("exceeded quota"), "{}", waiting.attempt().message);
    let pod = world.pod(&id, 1).await;
    world.exits(&pod, 0).await;
    assert_eq!(world.phase(&id, Phase::Succeeded).await.attempts.len(), 1);
}

#[tokio::test]
async fn a_pod_that_the_cluster_never_takes_fails_with_the_clusters_words() {
    let world = World::new().await;
    world.faults.refuse(
        "POST",
        "/pods",
        Refused::new(422, "Invalid", "Pod is invalid: spec.x: nonsense"),
        false,
    );
    let id = world.create("r", policy(3, 3)).await;
    let action = world.phase(&id, Phase::Failed).await;
    assert_eq!(action.attempts.len(), 1, "another try would end the same");
    assert!(action.failure.unwrap().message.contains("spec.x: nonsense"));
    world.settled("FAILED").await;
}

#[tokio::test]
async fn a_task_action_that_a_stranger_deletes_is_made_again() {
    let world = World::new().await;
    let id = world.create("r", policy(0, 1)).await;
    let pod = world.pod(&id, 1).await;
    world.running(&pod).await;
    world.phase(&id, Phase::Running).await;
    let before = world.task_actions().list(&Default::default()).await.unwrap().items.remove(0);
    world.task_actions().delete(&before.name_any(), &DeleteParams::default()).await.unwrap();
    // Its Pod goes with it; the cluster lost both, which is the system's failure.
    world.pods().delete(&pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    let second = world.pod(&id, 2).await;
    world.exits(&second, 0).await;
    let action = world.phase(&id, Phase::Succeeded).await;
    assert_eq!((action.attempts.len(), action.system_failures), (2, 1));
    let after = world.task_actions().list(&Default::default()).await.unwrap().items.remove(0);
    assert_ne!(after.uid(), before.uid());
}

#[tokio::test]
async fn a_restart_in_the_middle_goes_on_where_the_cluster_is() {
    let mut world = World::new().await;
    let id = world.create("r", policy(0, 0)).await;
    let pod = world.pod(&id, 1).await;
    world.running(&pod).await;
    world.phase(&id, Phase::Running).await;
    world.stop().await;
    // What happens meanwhile is seen afterwards, and so is what was created meanwhile.
    world.exits(&pod, 0).await;
    let other = world.create("other", policy(0, 0)).await;
    world.start();
    assert_eq!(world.phase(&id, Phase::Succeeded).await.attempts.len(), 1);
    world.pod(&other, 1).await;
}

#[tokio::test]
async fn many_actions_end_though_the_cluster_refuses_often_and_forgets_its_past() {
    let world = World::new().await;
    let ids: Vec<ActionId> = {
        let mut ids = Vec::new();
        for n in 0..40 {
            ids.push(world.create(&format!("r{n}"), policy(0, 3)).await);
        }
        ids
    };
    for n in 0..60 {
        let (method, suffix) = [("POST", "/pods"), ("POST", "/taskactions"), ("PATCH", "/status")][n % 3];
        world.faults.refuse(method, suffix, Refused::new(503, "ServiceUnavailable", "not now"), n % 2 == 0);
    }
    for (n, id) in ids.iter().enumerate() {
        let pod = world.pod(id, 1).await;
        if n % 7 == 0 {
            world.server.force_compact();
            world.server.close_watches();
        }
        // The status of a Pod may be refused to the kubelet too, which tries again.
        let state = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        let patch =
            Patch::Merge(json!({"status": {"phase": "Succeeded", "containerStatuses": [container(state)]}}));
        while world.pods().patch_status(&pod, &PatchParams::default(), &patch).await.is_err() {}
    }
    for id in &ids {
        let action = world.phase(id, Phase::Succeeded).await;
        assert_eq!(action.attempts.len(), 1, "{id}");
    }
    world.settled("SUCCEEDED").await;
}
