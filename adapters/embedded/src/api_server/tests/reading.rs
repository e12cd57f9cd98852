use super::*;
use crate::api_server::{Interceptor, LogQuery, LogStream, PodLogs, Refused, RequestInfo};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Mutex;

#[tokio::test]
async fn all_pages_of_a_list_show_the_same_version() {
    let world = world(None);
    for name in ["a", "b", "c", "d"] {
        world.post(MAPS, map(name)).await;
    }
    let first = world.get(&format!("{MAPS}?limit=2")).await.1;
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a".into(), "b".into()], &json!(2))
    );
    world.delete(&format!("{MAPS}/d"), json!({})).await;
    world.post(MAPS, map("bb")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = world.get(&format!("{MAPS}?limit=9&continue={token}")).await.1;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = world.get(&format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")).await.1;
    assert_eq!(names(&exact), ["a", "b", "c", "d"]);
    world.server.force_compact();
    assert_eq!(world.get(&format!("{MAPS}?limit=9&continue={token}")).await.0, 410);
}

/// What a watch tells at once.
async fn watched(world: &World, query: &str) -> Vec<Value> {
    let request = Request::get(format!("{MAPS}?watch=1&{query}")).body(Body::empty()).unwrap();
    let response = world.server.router().oneshot(request).await.unwrap();
    world.server.close_watches();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.to_vec())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_watch_begins_where_it_is_asked_to() {
    let world = world(None);
    world.post(MAPS, map("a")).await;
    let kinds = |lines: &[Value]| {
        lines.iter().map(|line| line["type"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let streamed = watched(&world, "sendInitialEvents=true&allowWatchBookmarks=true").await;
    assert_eq!(kinds(&streamed), ["ADDED", "BOOKMARK"]);
    assert_eq!(
        streamed[1]["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    assert_eq!(kinds(&watched(&world, "").await), ["ADDED"]);
    assert_eq!(kinds(&watched(&world, "sendInitialEvents=false").await), Vec::<String>::new());
    let future = watched(&world, "resourceVersion=99999999999999999").await;
    assert_eq!((kinds(&future), &future[0]["object"]["code"]), (vec!["ERROR".to_string()], &json!(410)));
}

#[tokio::test]
async fn a_version_of_an_earlier_cluster_is_too_old_for_a_later_one() {
    let earlier = world(None);
    let made = earlier.post(MAPS, map("a")).await.1;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let clock = Arc::new(AtomicI64::new(START_MS + 60_000));
    let later = World { server: server_at(clock.clone(), None), now_ms: clock };
    let lines = watched(&later, &format!("resourceVersion={version}")).await;
    assert_eq!((&lines[0]["type"], &lines[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

struct Echo;

impl PodLogs for Echo {
    fn read(
        &self,
        _: &str,
        container: &str,
        query: LogQuery,
    ) -> BoxFuture<'static, Result<LogStream, String>> {
        let text = json!([container, query.tail_lines, query.since_s]).to_string();
        let chunks: LogStream = Box::pin(futures::stream::iter([Ok(bytes::Bytes::from(text))]));
        async move { Ok(chunks) }.boxed()
    }
}

#[tokio::test]
async fn a_log_is_of_the_container_that_is_named_or_the_only_one() {
    let world = world(None);
    world.server.set_pod_logs(Arc::new(Echo));
    world.post(PODS, pod("one")).await;
    let two = json!({"metadata": {"name": "two"}, "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}});
    world.post(PODS, two).await;
    assert_eq!(world.get(&format!("{PODS}/one/log?tailLines=5")).await, (200, json!(["c", 5, null])));
    assert_eq!(world.get(&format!("{PODS}/two/log?container=b")).await, (200, json!(["b", null, null])));
    assert_eq!(
        world.get(&format!("{PODS}/one/log?sinceTime=2026-03-01T11:59:00Z")).await,
        (200, json!(["c", null, 60]))
    );
    for query in ["two/log", "two/log?container=x", "one/log?previous=true", "one/log?tailLines=x"] {
        assert_eq!(world.get(&format!("{PODS}/{query}")).await.0, 400, "{query}");
    }
}

#[derive(Default)]
struct Gate(Mutex<Vec<RequestInfo>>);

impl Interceptor for Gate {
    fn before(&self, request: RequestInfo) -> BoxFuture<'static, Option<Refused>> {
        let stop = request.query.contains("dryRun");
        self.0.lock().unwrap().push(request);
        async move { stop.then(|| Refused::new(503, "ServiceUnavailable", "not now")) }.boxed()
    }

    fn after(&self, request: RequestInfo) -> BoxFuture<'static, Option<Refused>> {
        let lose = request.path.ends_with("/configmaps");
        async move { lose.then(|| Refused::new(500, "InternalError", "lost")) }.boxed()
    }
}

#[tokio::test]
async fn an_interceptor_sees_the_body_and_can_refuse_before_and_after_the_effect() {
    let world = world(None);
    let gate = Arc::new(Gate::default());
    world.server.set_interceptor(gate.clone());
    assert_eq!(world.post(&format!("{MAPS}?dryRun=All"), map("a")).await.0, 503);
    assert_eq!(world.post(MAPS, map("a")).await.0, 500);
    assert_eq!(world.server.snapshot("", "configmaps").len(), 1, "the lost answer had its effect");
    let seen = gate.0.lock().unwrap()[1].clone();
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", MAPS));
    assert_eq!(serde_json::from_slice::<Value>(&seen.body).unwrap(), map("a"));
}
