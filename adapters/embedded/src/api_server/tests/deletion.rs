use super::*;

#[tokio::test]
async fn an_owner_that_is_deleted_in_the_foreground_waits_for_the_dependents_that_block_it() {
    let world = world(Some("node"));
    let owner = world.post(MAPS, map("owner")).await.1;
    let mut dependent = owned("p", &owner, true);
    dependent["spec"] = pod("p")["spec"].clone();
    assert_eq!(world.post(PODS, dependent).await.0, 201);
    let foreground = json!({"propagationPolicy": "Foreground"});
    let (code, held) = world.delete(&format!("{MAPS}/owner"), foreground).await;
    assert_eq!((code, &held["metadata"]["finalizers"]), (200, &json!(["foregroundDeletion"])));
    let waiting = world.get(&format!("{PODS}/p")).await.1;
    assert!(waiting["metadata"]["deletionTimestamp"].is_string(), "the Pod has its grace: {waiting}");
    world.delete(&format!("{PODS}/p"), json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(world.get(&format!("{MAPS}/owner")).await.0, 404);
}

#[tokio::test]
async fn orphans_stay_without_their_owner() {
    let world = world(None);
    let owner = world.post(MAPS, map("owner")).await.1;
    world.post(MAPS, owned("child", &owner, true)).await;
    world.delete(&format!("{MAPS}/owner"), json!({"propagationPolicy": "Orphan"})).await;
    let (code, child) = world.get(&format!("{MAPS}/child")).await;
    assert_eq!((code, &child["metadata"]["ownerReferences"]), (200, &json!([])));
}

#[tokio::test]
async fn a_namespace_goes_when_the_last_pod_in_it_has_ended() {
    let world = world(Some("node"));
    world.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    world.post("/api/v1/namespaces/n/configmaps", map("a")).await;
    world.post("/api/v1/namespaces/n/pods", pod("p")).await;
    let (_, namespace) = world.delete("/api/v1/namespaces/n", json!({})).await;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert!(world.names("/api/v1/namespaces/n/configmaps").await.is_empty());
    assert_eq!(world.post("/api/v1/namespaces/n/configmaps", map("b")).await.0, 403);
    world.delete("/api/v1/namespaces/n/pods/p", json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(world.get("/api/v1/namespaces/n").await.0, 404);
    assert_eq!(world.delete("/api/v1/namespaces/default", json!({})).await.0, 403);
}

#[tokio::test]
async fn a_long_chain_of_owners_goes_at_once() {
    let world = world(None);
    let mut last = world.post(MAPS, map("m0")).await.1;
    for index in 1..2_000 {
        last = world.post(MAPS, owned(&format!("m{index}"), &last, false)).await.1;
    }
    world.delete(&format!("{MAPS}/m0"), json!({})).await;
    assert!(world.names(MAPS).await.is_empty());
}

#[tokio::test]
async fn a_collection_is_deleted_with_dependents_among_it_and_not_in_a_dry_run() {
    let world = world(None);
    let owner = world.post(MAPS, map("a")).await.1;
    world.post(MAPS, owned("b", &owner, false)).await;
    for dry in [json!({"dryRun": ["All"]}), json!({"dryRun": ["All"], "gracePeriodSeconds": 0})] {
        assert_eq!(world.delete(MAPS, dry.clone()).await.0, 200);
        assert_eq!(world.delete(&format!("{MAPS}/a"), dry).await.0, 200);
    }
    assert_eq!(world.names(MAPS).await, ["a", "b"]);
    assert_eq!(world.delete(MAPS, json!({})).await.0, 200);
    assert!(world.names(MAPS).await.is_empty());
}

#[tokio::test]
async fn an_event_is_kept_for_an_hour() {
    let world = world(None);
    let events = "/api/v1/namespaces/default/events";
    let event =
        |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p"}});
    assert_eq!(world.post(events, event("old")).await.0, 201);
    world.now_ms.fetch_add(3_600_000, Ordering::Relaxed);
    assert_eq!(world.post(events, event("new")).await.0, 201);
    assert_eq!(world.names(events).await, ["new"]);
}
