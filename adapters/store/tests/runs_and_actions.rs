//! What is stored is what was asked for, and it stays.

mod common;

use common::*;
use flyte_core::{Phase, Refusal};
use flyte_store::{ApplyError, Enqueued, RecvError, Store, Topic, WriteError};

#[tokio::test]
async fn a_run_is_stored_whole_and_is_the_same_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let id = run_id("nightly");
    let root = store.create_run(new_run(&id)).await.unwrap();
    assert_eq!((root.row_id, root.seq, root.action.phase), (1, 1, Phase::Queued));
    for input in [created(), running(), succeeded()] {
        store.apply(&id.root(), input).await.unwrap();
    }
    let before = (
        store.action(&id.root()).await.unwrap().unwrap(),
        store.run(&id).await.unwrap().unwrap(),
        store.transitions(&id.root(), 0, 100).await.unwrap(),
    );
    assert_eq!(before.0.action.phase, Phase::Succeeded);
    assert_eq!(before.1.phase, Phase::Succeeded);
    assert_eq!(before.1.run_spec.as_ref(), b"run spec");
    assert_eq!(before.1.labels, new_run(&id).labels);
    assert_eq!(
        before.2.iter().map(|found| found.phase).collect::<Vec<_>>(),
        [Phase::Queued, Phase::Initializing, Phase::Running, Phase::Succeeded]
    );
    let spec = store.spec(&before.0.spec_digest).await.unwrap().unwrap();
    assert_eq!(*spec, new_run(&id).spec);
    store.close().await;

    let store = open(dir.path()).await;
    let after = (
        store.action(&id.root()).await.unwrap().unwrap(),
        store.run(&id).await.unwrap().unwrap(),
        store.transitions(&id.root(), 0, 100).await.unwrap(),
    );
    assert_eq!(after, before);
    let next = store.create_run(new_run(&run_id("next"))).await.unwrap();
    assert_eq!(next.seq, before.0.seq + 1, "sequence numbers go on after a restart");
}

#[tokio::test]
async fn case_48_of_many_requests_for_one_name_exactly_one_makes_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let id = run_id("nightly");
    let answers = futures::future::join_all((0..10).map(|_| store.create_run(new_run(&id)))).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (1, 9));
    let error = WriteError::AlreadyExists(
        "run flytesnacks/development/nightly exists already; choose another name".into(),
    );
    assert!(refused.iter().all(|answer| *answer == Err(error.clone())));
    let kept = store.action(&id.root()).await.unwrap().unwrap();
    store.apply(&id.root(), abort()).await.unwrap();
    assert_eq!(store.create_run(new_run(&id)).await, Err(error));
    assert_eq!(store.action(&id.root()).await.unwrap().unwrap().row_id, kept.row_id);
}

#[tokio::test]
async fn children_are_taken_once_and_only_under_a_parent_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let id = run_id("r");
    assert_eq!(
        store.enqueue(new_child(&id, "c", "a0")).await,
        Err(WriteError::NotFound("there is no run flytesnacks/development/r".into()))
    );
    store.create_run(new_run(&id)).await.unwrap();
    assert_eq!(
        store.enqueue(new_child(&id, "c", "b")).await,
        Err(WriteError::NotFound("there is no parent action flytesnacks/development/r/b".into()))
    );
    let Enqueued::Created(child) = store.enqueue(new_child(&id, "c", "a0")).await.unwrap() else { panic!() };
    assert_eq!(store.enqueue(new_child(&id, "c", "a0")).await, Ok(Enqueued::Same(child)));
    let mut other = new_child(&id, "c", "a0");
    other.action.request_digest = "another".into();
    assert_eq!(
        store.enqueue(other).await,
        Err(WriteError::AlreadyExists(
            "action flytesnacks/development/r/c exists already, made by another request".into()
        ))
    );
    store.apply(&id.root(), abort()).await.unwrap();
    assert_eq!(
        store.enqueue(new_child(&id, "d", "a0")).await,
        Err(WriteError::ParentEnded(
            "action flytesnacks/development/r/d is not taken: its parent a0 has already ended as ABORTED"
                .into()
        ))
    );
    assert!(matches!(store.enqueue(new_child(&id, "c", "a0")).await, Ok(Enqueued::Same(_))));
}

#[tokio::test]
async fn an_abort_reaches_every_descendant_in_the_same_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let id = run_id("r");
    store.create_run(new_run(&id)).await.unwrap();
    for (name, parent) in [("b", "a0"), ("c", "b"), ("d", "c"), ("e", "a0")] {
        store.enqueue(new_child(&id, name, parent)).await.unwrap();
    }
    for input in [created(), running(), succeeded()] {
        store.apply(&id.action("e"), input).await.unwrap();
    }
    let mut changes = store.subscribe(Topic::Run(id.clone()));
    store.apply(&id.root(), abort()).await.unwrap();
    let mut aborted = Vec::new();
    for _ in 0..4 {
        let row = changes.recv().await.unwrap();
        assert_eq!(row.action.phase, Phase::Aborted);
        assert_eq!(row.action.abort.as_ref().unwrap().reason, "enough");
        aborted.push(row.action.id.name.clone());
    }
    assert_eq!(aborted, ["a0", "b", "c", "d"]);
    let counts = store.counts(&id).await.unwrap();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(Phase::Succeeded, 1), (Phase::Aborted, 4)]);
}

#[tokio::test]
async fn a_refused_input_says_why_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let id = run_id("r");
    assert_eq!(store.apply(&id.root(), abort()).await, Err(ApplyError::NotFound(id.root())));
    store.create_run(new_run(&id)).await.unwrap();
    let ended = store.apply(&id.root(), abort()).await.unwrap();
    assert_eq!(
        store.apply(&id.root(), running()).await,
        Err(ApplyError::Refused(
            Refusal::Terminal { name: "a0".into(), phase: Phase::Aborted },
            ended.clone()
        ))
    );
    assert_eq!(store.action(&id.root()).await.unwrap(), Some(ended));
}

#[tokio::test]
async fn subscribers_hear_of_their_topic_in_order_and_of_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let (x, y) = (run_id("x"), run_id("y"));
    let mut all = store.subscribe(Topic::All);
    let mut root = store.subscribe(Topic::Action(x.root()));
    let mut children = store.subscribe(Topic::Children(x.root()));
    store.create_run(new_run(&x)).await.unwrap();
    store.create_run(new_run(&y)).await.unwrap();
    store.enqueue(new_child(&x, "c", "a0")).await.unwrap();
    store.enqueue(new_child(&y, "c", "a0")).await.unwrap();
    store.close().await;
    let mut heard = Vec::new();
    for subscription in [&mut all, &mut root, &mut children] {
        let mut ids = Vec::new();
        loop {
            match subscription.recv().await {
                Ok(row) => {
                    ids.push((row.seq, row.action.id.to_string().split_off("flytesnacks/development/".len())))
                }
                Err(error) => break assert_eq!(error, RecvError::Closed),
            }
        }
        heard.push(ids);
    }
    let named =
        |pairs: &[(i64, &str)]| pairs.iter().map(|(seq, id)| (*seq, id.to_string())).collect::<Vec<_>>();
    assert_eq!(
        heard,
        [
            named(&[(1, "x/a0"), (2, "y/a0"), (3, "x/c"), (4, "y/c")]),
            named(&[(1, "x/a0")]),
            named(&[(3, "x/c")]),
        ]
    );
}

#[tokio::test]
async fn a_subscriber_that_was_too_slow_is_told_once_and_then_hears_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(flyte_store::Options { watch_buffer: 2, ..options(dir.path()) }).await.unwrap();
    let id = run_id("r");
    let mut changes = store.subscribe(Topic::All);
    store.create_run(new_run(&id)).await.unwrap();
    for name in ["b", "c", "d"] {
        store.enqueue(new_child(&id, name, "a0")).await.unwrap();
    }
    assert_eq!(changes.recv().await, Err(RecvError::Lagged));
    store.enqueue(new_child(&id, "e", "a0")).await.unwrap();
    assert_eq!(changes.recv().await.unwrap().action.id.name, "e");
}

#[tokio::test]
async fn commands_that_come_together_share_transactions_and_all_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let id = run_id("r");
    store.create_run(new_run(&id)).await.unwrap();
    let names: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
    let answers =
        futures::future::join_all(names.iter().map(|name| store.enqueue(new_child(&id, name, "a0")))).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Enqueued::Created(_)))));
    let mut found = Vec::new();
    loop {
        let after = found.last().map_or(0, |row: &std::sync::Arc<flyte_store::ActionRow>| row.row_id);
        let page = store.children(&id.root(), after, 77).await.unwrap();
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found.iter().map(|row| row.action.id.name.clone()).collect::<Vec<_>>(), names);
    assert_eq!(store.in_cluster(0, 1000).await.unwrap().len(), 301);
    assert_eq!(store.run_actions(&id, 1, 1000).await.unwrap().len(), 300);
}

#[tokio::test]
async fn a_closed_store_refuses_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.close().await;
    let stopping = || WriteError::Unavailable("the manager is stopping".into());
    assert_eq!(store.create_run(new_run(&run_id("r"))).await, Err(stopping()));
    assert_eq!(store.apply(&run_id("r").root(), abort()).await, Err(ApplyError::Write(stopping())));
    assert!(store.action(&run_id("r").root()).await.is_err());
}
