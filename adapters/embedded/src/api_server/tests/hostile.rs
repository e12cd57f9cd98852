use super::*;
use proptest::prelude::*;

/// Any JSON, with the names that the server looks for.
fn json_value() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("metadata"),
        Just("spec"),
        Just("status"),
        Just("name"),
        Just("generateName"),
        Just("uid"),
        Just("labels"),
        Just("ownerReferences"),
        Just("finalizers"),
        Just("containers"),
        Just("conditions"),
        Just("phase"),
        Just("versions"),
        Just("names"),
        Just("schema"),
        Just("$patch"),
        Just("path"),
        Just("op"),
        Just("resourceVersion"),
        Just("nodeName"),
        Just("target"),
        Just("a"),
        Just("data"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        prop_oneof![Just("a".to_string()), Just("replace".into()), Just("/a".into()), ".{0,8}"]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_string(), value))
                .collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_json_makes_the_server_panic_or_answer_with_an_error_of_its_own(bodies in prop::collection::vec(json_value(), 1..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let world = world(Some("node"));
            world.define_songs().await;
            world.post(PODS, pod("a")).await;
            world.post(MAPS, map("a")).await;
            let songs = "/apis/example.org/v1/namespaces/default/songs";
            world.post(songs, json!({"metadata": {"name": "a"}, "spec": {"title": "t"}})).await;
            let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let defined = format!("{definitions}/songs.example.org");
            for body in bodies {
                for collection in [PODS, MAPS, songs, definitions, "/api/v1/namespaces", "/api/v1/namespaces/default/events"] {
                    let (code, answer) = world.post(collection, body.clone()).await;
                    assert!(code < 500, "{collection}: {answer}");
                }
                for object in [format!("{PODS}/a"), format!("{PODS}/a/status"), format!("{MAPS}/a"), format!("{songs}/a"), format!("{songs}/a/status"), defined.clone()] {
                    for kind in ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"] {
                        let path = format!("{object}?fieldManager=m");
                        let (code, answer) = world.send("PATCH", &path, &format!("application/{kind}"), body.to_string()).await;
                        assert!(code < 500, "{kind} {object}: {answer}");
                    }
                    assert!(world.send("PUT", &object, "application/json", body.to_string()).await.0 < 500);
                }
                assert!(world.post(&format!("{PODS}/a/binding"), body.clone()).await.0 < 500);
                assert!(world.delete(&format!("{MAPS}/a"), body).await.0 < 500);
            }
            // Whatever was taken can be read by those who know the types.
            for pod in world.server.snapshot("", "pods") {
                serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(pod).unwrap();
            }
            let accept = Request::get(PODS).header("accept", "application/json;as=Table").body(Body::empty()).unwrap();
            assert_eq!(world.server.router().oneshot(accept).await.unwrap().status(), 200);
        });
    }
}

#[tokio::test]
async fn what_is_too_deep_for_readers_is_refused_however_it_comes() {
    let world = world(None);
    world.post(MAPS, map("a")).await;
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let body = format!("{{\"metadata\": {{\"name\": \"d\"}}, \"data\": {}}}", deep(120));
    assert_eq!(world.send("POST", MAPS, "application/json", body).await.0, 400);
    assert_eq!(world.send("POST", MAPS, "application/json", deep(100_000)).await.0, 400);
    assert_eq!(world.send("POST", MAPS, "application/yaml", deep(100_000)).await.0, 400);
}

#[tokio::test]
async fn the_secret_is_taken_in_the_path_or_as_a_token_and_health_needs_none() {
    let mut world = world(None);
    world.server.secret = Some("s".into());
    assert_eq!(world.get("/s/api/v1/pods").await.0, 200);
    assert_eq!(world.get("/sapi/v1/pods").await.0, 401);
    for (token, code) in [("Bearer s", 200), ("Bearer t", 401), ("s", 401)] {
        let request =
            Request::get("/api/v1/pods").header("authorization", token).body(Body::empty()).unwrap();
        assert_eq!(world.server.router().oneshot(request).await.unwrap().status().as_u16(), code, "{token}");
    }
    let health = Request::get("/healthz").body(Body::empty()).unwrap();
    assert_eq!(world.server.router().oneshot(health).await.unwrap().status(), 200);
}
