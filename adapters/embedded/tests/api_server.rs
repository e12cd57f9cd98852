//! The API server as a real client sees it.

use flyte_core::Timestamp;
use flyte_embedded::api_server::{ApiServer, Options};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tower::ServiceExt;

struct World {
    server: ApiServer,
    client: Client,
    now: Arc<AtomicI64>,
}

fn world(auto_bind: Option<&str>, event_log_max: usize) -> World {
    let now = Arc::new(AtomicI64::new(1_772_366_400_000));
    let (clock, draws) = (now.clone(), AtomicU64::new(0));
    let server = ApiServer::new(Options {
        now: Arc::new(move || Timestamp::from_ms(clock.load(Ordering::Relaxed))),
        random: Arc::new(move |buffer| {
            let draw = draws.fetch_add(1, Ordering::Relaxed).to_le_bytes();
            buffer.iter_mut().enumerate().for_each(|(index, byte)| *byte = draw[index % 8]);
        }),
        auto_bind: auto_bind.map(str::to_string),
        event_log_max,
        secret: Some("secret".into()),
    });
    World { client: server.client("default"), server, now }
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"v": value}}, "data": {"k": value}}))
        .unwrap()
}

fn pod(name: &str, extra: Value) -> Pod {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json_merge(&mut pod, extra);
    serde_json::from_value(pod).unwrap()
}

fn json_merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            patch
                .into_iter()
                .for_each(|(key, value)| json_merge(target.entry(key).or_insert(Value::Null), value));
        }
        (target, patch) => *target = patch,
    }
}

fn code<T>(result: Result<T, kube::Error>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        Err(error) => panic!("{error}"),
        Ok(_) => (200, String::new()),
    }
}

#[tokio::test]
async fn objects_are_made_read_changed_and_deleted_with_their_versions() {
    let world = world(None, 1000);
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let made = maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    assert!(made.uid().is_some() && made.resource_version().is_some());
    assert_eq!(
        code(maps.create(&PostParams::default(), &config_map("a", "1")).await),
        (409, "AlreadyExists".into())
    );
    assert_eq!(code(maps.get("b").await), (404, "NotFound".into()));

    let mut newer = made.clone();
    newer.data = Some([("k".to_string(), "2".to_string())].into());
    let replaced = maps.replace("a", &PostParams::default(), &newer).await.unwrap();
    assert_ne!(replaced.resource_version(), made.resource_version());
    assert_eq!(code(maps.replace("a", &PostParams::default(), &newer).await), (409, "Conflict".into()));
    let same = maps.replace("a", &PostParams::default(), &replaced).await.unwrap();
    assert_eq!(same.resource_version(), replaced.resource_version(), "a change of nothing makes no version");

    let patch = Patch::Merge(json!({"data": {"x": "y"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);
    let other = DeleteParams::default()
        .preconditions(kube::api::Preconditions { uid: Some("other".into()), resource_version: None });
    assert_eq!(code(maps.delete("a", &other).await), (409, "Conflict".into()));
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(maps.delete("a", &DeleteParams::default()).await), (404, "NotFound".into()));
}

#[tokio::test]
async fn what_breaks_rules_is_refused_with_its_field() {
    let world = world(None, 1000);
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let elsewhere: Api<ConfigMap> = Api::namespaced(world.client.clone(), "nowhere");
    assert_eq!(code(maps.create(&PostParams::default(), &config_map("Bad_Name", "1")).await).0, 422);
    assert_eq!(code(maps.create(&PostParams::default(), &config_map("a", "größe")).await).0, 422);
    assert_eq!(code(elsewhere.create(&PostParams::default(), &config_map("a", "1")).await).0, 404);
    for wrong in [
        json!({"spec": {"containers": []}}),
        json!({"spec": {"containers": [{"name": "c"}]}}),
        json!({"spec": {"containers": [{"name": "C", "image": "i"}]}}),
        json!({"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}}),
        json!({"spec": {"restartPolicy": "Sometimes"}}),
    ] {
        assert_eq!(
            code(pods.create(&PostParams::default(), &pod("p", wrong.clone())).await).0,
            422,
            "{wrong}"
        );
    }
    let generated = json!({"metadata": {"name": null, "generateName": "p-"}});
    let made = pods.create(&PostParams::default(), &pod("x", generated)).await.unwrap();
    assert!(made.name_any().starts_with("p-") && made.name_any().len() == 7, "{}", made.name_any());
}

#[tokio::test]
async fn lists_have_selectors_and_pages() {
    let world = world(None, 1000);
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    for name in ["a", "b", "c", "d", "e"] {
        let value = if name < "c" { "low" } else { "high" };
        maps.create(&PostParams::default(), &config_map(name, value)).await.unwrap();
    }
    let names = |list: &kube::core::ObjectList<ConfigMap>| {
        list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join("")
    };
    let chosen = maps.list(&ListParams::default().labels("v=high")).await.unwrap();
    assert_eq!(names(&chosen), "cde");
    assert_eq!(names(&maps.list(&ListParams::default().fields("metadata.name=b")).await.unwrap()), "b");
    let (mut all, mut params) = (String::new(), ListParams::default().limit(2));
    loop {
        let page = maps.list(&params).await.unwrap();
        all += &names(&page);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(all, "abcde");
}

#[tokio::test]
async fn a_watch_tells_every_change_after_its_version_and_410_when_they_are_forgotten() {
    let world = world(None, 16);
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let watch = maps.watch(&WatchParams::default().labels("v=yes"), &start).await.unwrap();
    maps.create(&PostParams::default(), &config_map("a", "yes")).await.unwrap();
    maps.create(&PostParams::default(), &config_map("b", "no")).await.unwrap();
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"v": value}}}));
    maps.patch("b", &PatchParams::default(), &label("yes")).await.unwrap();
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"z": "z"}}))).await.unwrap();
    maps.patch("a", &PatchParams::default(), &label("no")).await.unwrap();
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    let events: Vec<String> = watch
        .take(5)
        .map_ok(|event| match event {
            WatchEvent::Added(map) => format!("+{}", map.name_any()),
            WatchEvent::Modified(map) => format!("~{}", map.name_any()),
            WatchEvent::Deleted(map) => format!("-{}", map.name_any()),
            other => format!("{other:?}"),
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(events, ["+a", "+b", "~a", "-a", "-b"]);
    world.server.force_compact();
    let mut late = maps.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    assert!(matches!(late.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
}

#[tokio::test]
async fn the_status_of_a_pod_is_changed_by_its_own_path_alone() {
    let world = world(Some("node"), 1000);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let made = pods.create(&PostParams::default(), &pod("p", json!({}))).await.unwrap();
    assert_eq!(made.spec.as_ref().unwrap().node_name.as_deref(), Some("node"));
    assert_eq!(made.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    let phase = |phase: &str| Patch::Merge(json!({"status": {"phase": phase}}));
    let after = pods.patch("p", &PatchParams::default(), &phase("Running")).await.unwrap();
    assert_eq!(after.status.unwrap().phase.as_deref(), Some("Pending"));
    let after = pods.patch_status("p", &PatchParams::default(), &phase("Running")).await.unwrap();
    assert_eq!(after.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(after.metadata.generation, Some(1), "a status is no generation");
}

#[tokio::test]
async fn a_pod_on_a_node_is_deleted_when_the_node_says_so_and_one_that_has_ended_at_once() {
    let world = world(Some("node"), 1000);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    pods.create(&PostParams::default(), &pod("p", json!({}))).await.unwrap();
    let deleted = pods.delete("p", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(deleted.metadata.deletion_grace_period_seconds, Some(30));
    let until = deleted.metadata.deletion_timestamp.unwrap().0.as_millisecond();
    assert_eq!(until, world.now.load(Ordering::Relaxed) + 30_000);
    assert!(pods.get_opt("p").await.unwrap().is_some());
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());

    pods.create(&PostParams::default(), &pod("q", json!({}))).await.unwrap();
    let ended = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    pods.patch_status("q", &PatchParams::default(), &ended).await.unwrap();
    pods.delete("q", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("q").await.unwrap().is_none());
}

#[tokio::test]
async fn dependents_go_with_their_owner_and_finalizers_hold_objects_back() {
    let world = world(None, 1000);
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let owner = maps.create(&PostParams::default(), &config_map("owner", "1")).await.unwrap();
    let owned = |name: &str| {
        let mut map = config_map(name, "1");
        map.metadata.owner_references = Some(vec![
            serde_json::from_value(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid().unwrap(),
            }))
            .unwrap(),
        ]);
        map
    };
    maps.create(&PostParams::default(), &owned("child")).await.unwrap();
    let mut held = owned("held");
    held.metadata.finalizers = Some(vec!["example.org/hold".into()]);
    maps.create(&PostParams::default(), &held).await.unwrap();
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("child").await.unwrap().is_none());
    assert!(maps.get("held").await.unwrap().metadata.deletion_timestamp.is_some());
    maps.patch("held", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await
        .unwrap();
    assert!(maps.get_opt("held").await.unwrap().is_none());
    maps.create(&PostParams::default(), &owned("late")).await.unwrap();
    assert!(maps.get_opt("late").await.unwrap().is_none(), "an owner that is gone takes latecomers too");
}

#[tokio::test]
async fn a_custom_resource_is_defined_pruned_checked_and_applied() {
    let world = world(None, 1000);
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "songs.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "songs", "singular": "song", "kind": "Song"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Title", "type": "string", "jsonPath": ".spec.title"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}},
                    "status": {"type": "object", "properties": {"plays": {"type": "integer"}}}}}}}],
        },
    }))
    .unwrap();
    let params = PatchParams::apply("test").force();
    let made = definitions.patch("songs.example.org", &params, &Patch::Apply(&definition)).await.unwrap();
    assert!(
        made.status
            .unwrap()
            .conditions
            .unwrap()
            .iter()
            .any(|c| c.type_ == "Established" && c.status == "True")
    );

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.org", "v1", "Song"));
    let songs: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "default", &kind);
    let song = |spec: Value| {
        let mut song = DynamicObject::new("s", &kind);
        song.data = json!({"spec": spec, "status": {"plays": 9}});
        song
    };
    assert_eq!(code(songs.create(&PostParams::default(), &song(json!({}))).await).0, 422);
    assert_eq!(code(songs.create(&PostParams::default(), &song(json!({"title": 7}))).await).0, 422);
    let made = songs.create(&PostParams::default(), &song(json!({"title": "t", "odd": 1}))).await.unwrap();
    assert_eq!(made.data, json!({"spec": {"title": "t"}}), "what is unknown, and the status, are left out");
    let status = Patch::Merge(json!({"status": {"plays": 3}, "spec": {"title": "changed"}}));
    let after = songs.patch_status("s", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(after.data, json!({"spec": {"title": "t"}, "status": {"plays": 3}}));
    definitions.delete("songs.example.org", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(songs.get("s").await).0, 404);
}

#[tokio::test]
async fn a_namespace_takes_its_objects_with_it() {
    let world = world(None, 1000);
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "n");
    maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 0);
}

async fn http(
    world: &World,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> (u16, Value) {
    let mut request = axum::http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(axum::body::Body::from(body)).unwrap();
    let response = world.server.router().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn kubectl_finds_what_there_is_and_gets_tables() {
    let world = world(Some("node"), 1000);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    pods.create(&PostParams::default(), &pod("p", json!({}))).await.unwrap();
    world.now.fetch_add(125_000, Ordering::Relaxed);
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let (code, table) =
        http(&world, "GET", "/secret/api/v1/namespaces/default/pods", &accept, Vec::new()).await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")));
    assert_eq!(table["rows"][0]["cells"], json!(["p", "0/1", "Pending", 0, "2m5s"]));
    let (_, list) = http(&world, "GET", "/secret/api/v1", &[], Vec::new()).await;
    assert!(list["resources"].as_array().unwrap().iter().any(|found| found["name"] == "pods/log"));
    let (_, groups) = http(&world, "GET", "/secret/apis", &[], Vec::new()).await;
    assert_eq!(groups["groups"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn nobody_gets_in_without_the_secret_and_nothing_sent_makes_it_panic() {
    let world = world(None, 1000);
    assert_eq!(http(&world, "GET", "/api/v1/pods", &[], Vec::new()).await.0, 401);
    assert_eq!(http(&world, "GET", "/secretapi/v1/pods", &[], Vec::new()).await.0, 401);
    let maps = "/secret/api/v1/namespaces/default/configmaps";
    let json_type = [("content-type", "application/json")];
    for (method, path, body, code) in [
        ("POST", maps, "{", 400),
        ("POST", maps, "[]", 400),
        ("POST", maps, "7", 400),
        ("POST", maps, r#"{"metadata": 7}"#, 400),
        ("POST", maps, r#"{"metadata": {}}"#, 422),
        ("POST", maps, r#"{"metadata": {"name": 7}}"#, 422),
        ("POST", maps, r#"{"metadata": {"name": "a", "labels": {"x": 7}}}"#, 422),
        ("POST", maps, r#"{"kind": "Pod", "metadata": {"name": "a"}}"#, 400),
        ("POST", "/secret/api/v1/configmaps", r#"{"metadata": {"name": "a"}}"#, 404),
        ("POST", "/secret/api/v1/namespaces/default/pods", r#"{"metadata": {"name": "a"}, "spec": 7}"#, 422),
        ("PUT", "/secret/api/v1/namespaces/default/configmaps/none", "{}", 404),
        ("GET", "/secret/api/v1/namespaces/default/configmaps?limit=x", "", 400),
        ("GET", "/secret/api/v1/namespaces/default/configmaps?limit=1&continue=x", "", 410),
        ("GET", "/secret/api/v1/namespaces/default/configmaps?labelSelector=a%20b", "", 400),
        ("GET", "/secret/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=x", "", 400),
        ("GET", "/secret/api/v1/namespaces/a/b/c/d/e/f", "", 404),
        ("GET", "/secret/apis/none/v1/things", "", 404),
        ("PATCH", "/secret/api/v1/namespaces/default", "{}", 415),
        ("DELETE", "/secret/api/v1/nodes/none", "[]", 404),
        ("OPTIONS", maps, "", 405),
    ] {
        let (found, answer) = http(&world, method, path, &json_type, body.as_bytes().to_vec()).await;
        assert_eq!(found, code, "{method} {path} {body}: {answer}");
    }
    assert_eq!(http(&world, "POST", maps, &json_type, vec![b' '; 4 * 1024 * 1024]).await.0, 413);
}
