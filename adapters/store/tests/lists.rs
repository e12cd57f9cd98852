//! Lists: every row once, in order, and only those that were asked for.

mod common;

use common::*;
use flyte_core::listing::{Function, RawFilter, RawSort, Resource, parse};
use flyte_store::{RunScope, Store, TaskId};

async fn names(store: &Store, scope: &RunScope, filters: &[RawFilter], sort: &[RawSort]) -> Vec<String> {
    let mut names = Vec::new();
    let mut token = String::new();
    loop {
        let request = parse(Resource::Runs, 2, &token, filters, sort).unwrap();
        let page = store.list_runs(scope, &request).await.unwrap();
        names.extend(page.items.iter().map(|(run, root)| {
            assert_eq!(run.id.root(), root.action.id);
            run.id.name.clone()
        }));
        token = page.next_token;
        if token.is_empty() {
            return names;
        }
    }
}

fn filter(function: Function, field: &str, values: &[&str]) -> RawFilter {
    RawFilter { function, field: field.into(), values: values.iter().map(ToString::to_string).collect() }
}

fn sort(key: &str, ascending: bool) -> RawSort {
    RawSort { key: key.into(), ascending }
}

/// Five runs: `a` and `b` have succeeded, `c` is aborted, `d` and `e` are queued; `e` has another task and label.
async fn five_runs(store: &Store) {
    for name in ["a", "b", "c", "d", "e"] {
        let mut new = new_run(&run_id(name));
        if name == "e" {
            new.meta = meta("Other.task_x");
            new.labels.insert("team".into(), "it's \"red\"".into());
            new.labels.insert("odd \"key\"".into(), "1".into());
        }
        store.create_run(new).await.unwrap();
    }
    for name in ["a", "b"] {
        for input in [created(), running(), succeeded()] {
            store.apply(&run_id(name).root(), input).await.unwrap();
        }
    }
    store.apply(&run_id("c").root(), abort()).await.unwrap();
}

#[tokio::test]
async fn pages_hold_every_run_once_in_the_order_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    five_runs(&store).await;
    for (sorts, order) in [
        (vec![], "edcba"),
        (vec![sort("created_at", true)], "abcde"),
        (vec![sort("created_at", false)], "edcba"),
        (vec![sort("name", false)], "edcba"),
        (vec![sort("task_name", true), sort("name", false)], "edcba"),
        (vec![sort("task_name", false), sort("name", true)], "abcde"),
        (vec![sort("phase", true)], "cdeab"),
        (vec![sort("ended_at", false)], "cbaed"),
        (vec![sort("duration_ms", true)], "deabc"),
    ] {
        let found = names(&store, &RunScope::All, &[], &sorts).await;
        assert_eq!(found.concat(), order, "{sorts:?}");
    }
}

#[tokio::test]
async fn filters_hold_together() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    five_runs(&store).await;
    use Function::*;
    for (filters, found) in [
        (vec![filter(Equal, "phase", &["5"])], "ba"),
        (vec![filter(NotEqual, "phase", &["SUCCEEDED"])], "edc"),
        (vec![filter(ValueIn, "phase", &["1", "ACTION_PHASE_ABORTED"])], "edc"),
        (vec![filter(ValueIn, "phase", &["7"])], "c"),
        (vec![filter(ValueNotIn, "phase", &["7", "5"])], "ed"),
        (vec![filter(Contains, "task_name", &["hello"])], "dcba"),
        (vec![filter(Contains, "task_name", &["%"])], ""),
        (vec![filter(ContainsCaseInsensitive, "task_name", &["OTHER"])], "e"),
        (vec![filter(EndsWith, "task_name", &["_x"])], "e"),
        (vec![filter(NotEndsWith, "task_name", &["main"])], "e"),
        (vec![filter(Equal, "labels.team", &["blue"]), filter(Equal, "phase", &["7"])], "c"),
        (vec![filter(Equal, "labels.team", &["it's \"red\""])], "e"),
        (vec![filter(Equal, "labels.odd \"key\"", &["1"])], "e"),
        (vec![filter(Exists, "labels.odd \"key\"", &[])], "e"),
        (vec![filter(NotExists, "ended_at", &[])], "ed"),
        (vec![filter(Equal, "name", &["' OR 1=1 --"])], ""),
        (vec![filter(GreaterThan, "created_at", &["2026-03-01T12:00:02Z"])], "edc"),
        (vec![filter(LessThanOrEqual, "created_at", &["2026-03-01T12:00:02Z"])], "ba"),
        (vec![filter(Equal, "run_source", &["2"])], "edcba"),
        (vec![filter(Equal, "run_source", &["1"])], ""),
    ] {
        assert_eq!(names(&store, &RunScope::All, &filters, &[]).await.concat(), found, "{filters:?}");
    }
}

#[tokio::test]
async fn scopes_hold_the_runs_of_one_project_or_task() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    five_runs(&store).await;
    let text = str::to_string;
    let project = |name: &str| RunScope::Project {
        org: text("local"),
        project: text(name),
        domain: text("development"),
    };
    let task = |name: &str| RunScope::TaskName {
        org: text("local"),
        project: text("flytesnacks"),
        domain: text("development"),
        name: text(name),
    };
    let version =
        |version: &str| RunScope::Task(TaskId { version: text(version), ..meta("hello.main").task.unwrap() });
    for (scope, found) in [
        (RunScope::Org(text("local")), "edcba"),
        (RunScope::Org(text("other")), ""),
        (project("flytesnacks"), "edcba"),
        (project("other"), ""),
        (task("hello.main"), "dcba"),
        (task("hello"), ""),
        (version("v1"), "dcba"),
        (version("v2"), ""),
    ] {
        assert_eq!(names(&store, &scope, &[], &[]).await.concat(), found, "{scope:?}");
    }
}

#[tokio::test]
async fn rows_that_come_between_two_pages_neither_hide_nor_repeat_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    five_runs(&store).await;
    let first = parse(Resource::Runs, 2, "", &[], &[]).unwrap();
    let page = store.list_runs(&RunScope::All, &first).await.unwrap();
    store.create_run(new_run(&run_id("f"))).await.unwrap();
    let second = parse(Resource::Runs, 200, &page.next_token, &[], &[]).unwrap();
    let rest = store.list_runs(&RunScope::All, &second).await.unwrap();
    let name = |items: &[(flyte_store::RunRow, std::sync::Arc<flyte_store::ActionRow>)]| {
        items.iter().map(|(run, _)| run.id.name.clone()).collect::<String>()
    };
    assert_eq!((name(&page.items).as_str(), name(&rest.items).as_str()), ("ed", "cba"));
}

#[tokio::test]
async fn the_actions_of_a_run_are_listed_with_their_own_fields() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let id = run_id("r");
    store.create_run(new_run(&id)).await.unwrap();
    store.create_run(new_run(&run_id("other"))).await.unwrap();
    for name in ["b", "c", "d"] {
        store.enqueue(new_child(&id, name, "a0")).await.unwrap();
    }
    let list = async |filters: &[RawFilter]| {
        let request = parse(Resource::Actions, 0, "", filters, &[sort("created_at", true)]).unwrap();
        let page = store.list_actions(&id, &request).await.unwrap();
        page.items.iter().map(|row| row.action.id.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(list(&[]).await, "a0 b c d");
    assert_eq!(list(&[filter(Function::Equal, "parent", &["a0"])]).await, "b c d");
    assert_eq!(list(&[filter(Function::Equal, "action_type", &["3"])]).await, "");
    assert_eq!(list(&[filter(Function::Equal, "action_type", &["1"])]).await, "a0 b c d");
    let request = parse(Resource::Actions, 0, "", &[], &[]).unwrap();
    assert_eq!(store.list_actions(&run_id("none"), &request).await.unwrap().items, []);
}
