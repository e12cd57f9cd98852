use super::*;

const SONGS: &str = "/apis/example.org/v1/namespaces/default/songs";

#[tokio::test]
async fn a_custom_resource_gets_defaults_and_a_generation_and_needs_a_version_to_be_replaced() {
    let world = world(None);
    world.define_songs().await;
    let song = json!({"metadata": {"name": "s"}, "spec": {"title": "t"}});
    let made = world.post(SONGS, song.clone()).await.1;
    assert_eq!(made["spec"], json!({"title": "t", "count": 3}));
    let put = |body: Value| {
        world.send(
            "PUT",
            "/apis/example.org/v1/namespaces/default/songs/s",
            "application/json",
            body.to_string(),
        )
    };
    assert_eq!(put(song).await.0, 422);
    let mut newer = made.clone();
    newer["spec"]["title"] = json!("u");
    assert_eq!(put(newer.clone()).await.1["metadata"]["generation"], 2);
    assert_eq!(put(newer).await.0, 409);
    let path = format!("{SONGS}/s");
    let strategic = world.send("PATCH", &path, "application/strategic-merge-patch+json", "{}".into()).await;
    assert_eq!(strategic.0, 415);
    assert_eq!(
        world.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.1["metadata"]["generation"],
        2
    );
}

#[tokio::test]
async fn unknown_fields_are_refused_when_asked_and_dropped_otherwise() {
    let world = world(None);
    world.define_songs().await;
    let song = json!({"metadata": {"name": "s"}, "spec": {"title": "t", "odd": 1}});
    let (code, refusal) = world.post(&format!("{SONGS}?fieldValidation=Strict"), song.clone()).await;
    assert_eq!(code, 400);
    assert!(refusal["message"].as_str().unwrap().ends_with("unknown field \"spec.odd\""), "{refusal}");
    assert_eq!(world.post(SONGS, song).await.1["spec"], json!({"title": "t", "count": 3}));
    let mut odd = pod("p");
    odd["spec"]["odd"] = json!(1);
    assert_eq!(world.post(&format!("{PODS}?fieldValidation=Strict"), odd).await.0, 400);
}

#[tokio::test]
async fn a_dry_run_checks_everything_and_keeps_nothing() {
    let world = world(None);
    assert_eq!(world.post(&format!("{MAPS}?dryRun=All"), map("a")).await.0, 201);
    assert_eq!(world.post(&format!("{MAPS}?dryRun=All"), map("A")).await.0, 422);
    assert_eq!(world.post(&format!("{MAPS}?dryRun=Some"), map("a")).await.0, 400);
    assert!(world.names(MAPS).await.is_empty());
}

#[tokio::test]
async fn a_pod_is_bound_once_and_what_runs_cannot_be_changed() {
    let world = world(None);
    world.post(PODS, pod("p")).await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(world.post(&format!("{PODS}/p/binding"), binding.clone()).await.0, 201);
    assert_eq!(world.post(&format!("{PODS}/p/binding"), binding).await.0, 409);
    let bound = world.get(&format!("{PODS}/p")).await.1;
    assert_eq!((&bound["spec"]["nodeName"], &bound["metadata"]["generation"]), (&json!("n"), &json!(1)));
    assert_eq!(world.merge(&format!("{PODS}/p"), json!({"spec": {"nodeName": "m"}})).await.0, 422);
}

#[tokio::test]
async fn a_name_that_is_generated_is_no_longer_than_a_label() {
    let world = world(None);
    let generated = json!({"metadata": {"generateName": "x".repeat(200)}});
    let (code, made) = world.post(MAPS, generated).await;
    assert_eq!((code, made["metadata"]["name"].as_str().unwrap().len()), (201, 63));
}

#[tokio::test]
async fn server_side_apply_creates_and_merges_and_says_who_it_is() {
    let world = world(None);
    let path = format!("{MAPS}/a?fieldManager=m");
    let kind = "application/apply-patch+yaml";
    assert_eq!(world.send("PATCH", &format!("{MAPS}/a"), kind, "{}".into()).await.0, 422);
    assert_eq!(world.send("PATCH", &path, kind, "data: {a: b}".into()).await.0, 201);
    let merged = world.send("PATCH", &path, kind, "data: {c: d}".into()).await;
    assert_eq!((merged.0, &merged.1["data"]), (200, &json!({"a": "b", "c": "d"})));
    let other = json!({"metadata": {"name": "b"}});
    assert_eq!(world.send("PATCH", &path, kind, other.to_string()).await.0, 400);
}

#[tokio::test]
async fn a_definition_cannot_take_the_place_of_what_is_built_in() {
    let world = world(None);
    let definition = |name: &str, group: &str| {
        json!({"metadata": {"name": name}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"plural": "leases", "kind": "Lease"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
    };
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let builtin = definition("leases.coordination.k8s.io", "coordination.k8s.io");
    assert_eq!(world.post(path, builtin).await.0, 422);
    assert_eq!(world.post(path, definition("leases.", "")).await.0, 422);
    assert_eq!(world.post(path, definition("leases.example.org", "example.org")).await.0, 201);
}
