//! The loop: news of the database and of the cluster come in, one command at a time for each action goes out.
//!
//! `view` is what is known of each action; `perform` does commands. One task owns the view; commands run beside it and
//! bring back what they have learnt.

mod perform;
mod view;

use crate::settings::Settings;
use crate::{TaskAction, labels};
use flyte_core::plan::{Command, plan};
use flyte_core::{Timestamp, backoff};
use flyte_objects::Objects;
use flyte_store::{RecvError, Store, Topic};
use futures::stream::{BoxStream, FuturesUnordered, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use perform::{Done, News, Performer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use view::View;

/// The first and the longest wait after a command that could not be performed.
const RETRY_MS: (u64, u64) = (250, 30_000);
/// How many actions are read from the database at a time.
const PAGE: usize = 500;
/// How long to wait for the database when it does not answer.
const DATABASE_WAIT: Duration = Duration::from_secs(1);

/// What an executor works with.
pub struct Options {
    /// A client of the cluster.
    pub client: Client,
    /// Where TaskActions and Pods go.
    pub namespace: String,
    /// Runs and actions.
    pub store: Store,
    /// Inputs, outputs and logs.
    pub objects: Objects,
    /// How it works.
    pub settings: Settings,
}

/// Makes the cluster do what the database says.
pub struct Executor {
    performer: Performer,
    synced: watch::Sender<bool>,
}

/// Which watch has been heard of in full.
#[derive(Default)]
struct Synced {
    task_actions: bool,
    pods: bool,
}

impl Executor {
    /// An executor that does nothing yet.
    pub fn new(options: Options) -> Self {
        Self { performer: Performer::new(options), synced: watch::Sender::new(false) }
    }

    /// Whether the watches have shown the whole cluster.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Works until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        Loop::new(&self.performer, &self.synced).run(shutdown).await;
    }
}

type Running = FuturesUnordered<futures::future::BoxFuture<'static, Done>>;

struct Loop<'a> {
    performer: &'a Performer,
    settings: &'a Settings,
    store: &'a Store,
    ready: &'a watch::Sender<bool>,
    view: View,
    synced: Synced,
    /// Actions to plan anew, by hash.
    dirty: BTreeSet<String>,
    /// Actions that a command is being performed for.
    busy: BTreeSet<String>,
    timers: BTreeSet<(Timestamp, String)>,
    /// When each action is planned again though nothing was heard.
    timer_of: BTreeMap<String, Timestamp>,
    running: Running,
}

impl<'a> Loop<'a> {
    fn new(performer: &'a Performer, ready: &'a watch::Sender<bool>) -> Self {
        Self {
            performer,
            settings: performer.settings(),
            store: performer.store(),
            ready,
            view: View::default(),
            synced: Synced::default(),
            dirty: BTreeSet::new(),
            busy: BTreeSet::new(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            running: FuturesUnordered::new(),
        }
    }

    async fn run(mut self, shutdown: CancellationToken) {
        // Subscribe first, then read: nothing falls between.
        let mut changes = self.store.subscribe(Topic::All);
        let mut task_actions = self.watch::<TaskAction>();
        let mut pods = self.watch::<Pod>();
        let mut resync = tokio::time::interval(Duration::from_millis(self.settings.resync_ms));
        resync.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.plan_all();
            let wake = self.until_next_timer();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                change = changes.recv() => match change {
                    Ok(row) => {
                        let hash = self.view.row(row);
                        self.dirty.insert(hash);
                    }
                    Err(RecvError::Lagged) => self.load().await,
                    Err(RecvError::Closed) => break,
                },
                Some(event) = task_actions.next() => self.task_action_event(event),
                Some(event) = pods.next() => self.pod_event(event),
                Some(done) = self.running.next() => self.done(done),
                () = wake => self.timers_due(),
                _ = resync.tick() => self.load().await,
            }
        }
        // What is under way is left: every command can be done again.
    }

    fn watch<K>(&self) -> BoxStream<'static, Result<watcher::Event<K>, watcher::Error>>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + Send
            + 'static,
        K::DynamicType: Default,
    {
        let api: Api<K> = Api::namespaced(self.performer.client().clone(), self.performer.namespace());
        let config =
            watcher::Config::default().labels(&format!("{}={}", labels::MANAGED_BY, labels::MANAGER));
        watcher(api, config).default_backoff().boxed()
    }

    /// Reads the work list from the database.
    async fn load(&mut self) {
        let mut after = 0;
        loop {
            let page = match self.store.in_cluster(after, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "the executor cannot read its work list; it tries again");
                    tokio::time::sleep(DATABASE_WAIT).await;
                    return;
                }
            };
            let Some(last) = page.last() else { break };
            after = last.row_id;
            for row in page {
                let hash = self.view.row(row);
                self.dirty.insert(hash);
            }
        }
        // Objects of ours that belong to nothing that is worked on: their actions have to be looked up.
        for (hash, id) in self.view.strangers() {
            match self.store.action(&id).await {
                Ok(Some(row)) => {
                    self.view.row(row);
                    self.dirty.insert(hash);
                }
                Ok(None) => {
                    tracing::debug!(action = %id, "the cluster has objects of an action that the database does not know; they are left alone")
                }
                Err(error) => tracing::warn!(%error, "an action cannot be read; it is tried again"),
            }
        }
    }

    fn task_action_event(&mut self, event: Result<watcher::Event<TaskAction>, watcher::Error>) {
        match event {
            Ok(watcher::Event::Init) => self.view.begin_task_actions(),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                self.dirty.extend(self.view.task_action(&object));
            }
            Ok(watcher::Event::InitDone) => {
                self.dirty.extend(self.view.end_task_actions());
                self.synced.task_actions = true;
                self.tell_ready();
            }
            Ok(watcher::Event::Delete(object)) => self.dirty.extend(self.view.task_action_gone(&object)),
            Err(error) => tracing::debug!(%error, "the watch of TaskActions is interrupted"),
        }
    }

    fn pod_event(&mut self, event: Result<watcher::Event<Pod>, watcher::Error>) {
        match event {
            Ok(watcher::Event::Init) => self.view.begin_pods(),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                self.dirty.extend(self.view.pod(&object));
            }
            Ok(watcher::Event::InitDone) => {
                self.dirty.extend(self.view.end_pods());
                self.synced.pods = true;
                self.tell_ready();
            }
            Ok(watcher::Event::Delete(object)) => self.dirty.extend(self.view.pod_gone(&object)),
            Err(error) => tracing::debug!(%error, "the watch of Pods is interrupted"),
        }
    }

    fn tell_ready(&mut self) {
        if self.synced.task_actions && self.synced.pods && !*self.ready.borrow() {
            self.ready.send_replace(true);
            self.dirty.extend(self.view.hashes());
        }
    }

    /// Plans every action that something was heard of, as far as there is room to work on it.
    fn plan_all(&mut self) {
        if !(self.synced.task_actions && self.synced.pods) {
            return;
        }
        let now = self.store.clock().now();
        // At most `max_concurrent` are busy, so the first that is not is found at once, however many wait.
        while self.running.len() < self.settings.max_concurrent
            && let Some(hash) = self.dirty.iter().find(|hash| !self.busy.contains(*hash)).cloned()
        {
            self.dirty.remove(&hash);
            self.plan_one(&hash, now);
        }
    }

    fn plan_one(&mut self, hash: &str, now: Timestamp) {
        self.clear_timer(hash);
        let Some(entry) = self.view.get(hash) else { return };
        let Some(row) = entry.row.clone() else { return };
        if entry.hold_until.is_some_and(|until| until > now) {
            let until = entry.hold_until.unwrap_or(now);
            self.set_timer(hash, until);
            return;
        }
        if !row.action.in_cluster {
            // Collected, but objects may have turned up since.
            if let Some(cleanup) = entry.leftover() {
                self.start(hash, row, cleanup);
            } else {
                self.view.forget(hash);
            }
            return;
        }
        let plan = plan(&row.action, &entry.cluster_view(), &self.settings.plan, now);
        match plan.command {
            Some(command) => self.start(hash, row, command),
            None => {
                if let Some(at) = plan.wake_at {
                    // The wall clock has milliseconds: a timer a moment early would spin.
                    self.set_timer(hash, at.plus_ms(1));
                }
            }
        }
    }

    fn start(&mut self, hash: &str, row: Arc<flyte_store::ActionRow>, command: Command) {
        tracing::trace!(action = %row.action.id, ?command, "performing");
        self.busy.insert(hash.to_string());
        let archived = self.view.get(hash).map(|entry| entry.archived.clone()).unwrap_or_default();
        self.running.push(Box::pin(self.performer.perform(hash.to_string(), row, command, archived)));
    }

    fn done(&mut self, done: Done) {
        let hash = done.hash;
        self.busy.remove(&hash);
        self.dirty.insert(hash.clone());
        for news in done.news {
            match news {
                News::Row(row) => drop(self.view.row(row)),
                News::TaskAction(object) => drop(self.view.task_action(&object)),
                News::TaskActionGone(uid) => self.view.forget_task_action(&hash, &uid),
                News::TaskActionDeleting => self.view.mark_task_action_deleting(&hash),
                News::Pod(object) => drop(self.view.pod(&object)),
                News::PodGone(pod) => self.view.forget_pod(&hash, &pod),
                News::PodDeleting(pod, at) => self.view.mark_pod_deleting(&hash, &pod, at),
                News::Archived(attempt) => self.view.archived(&hash, attempt),
            }
        }
        let now = self.store.clock().now();
        if let Some(entry) = self.view.get_mut(&hash) {
            match done.result {
                Ok(()) => {
                    entry.failures = 0;
                    entry.hold_until = None;
                }
                Err(reason) => {
                    let wait_ms = backoff::delay_ms(&hash, entry.failures, RETRY_MS.0, RETRY_MS.1);
                    entry.failures = entry.failures.saturating_add(1);
                    entry.hold_until = Some(now.plus_ms(wait_ms));
                    tracing::debug!(%reason, wait_ms, tries = entry.failures, "a command is tried again");
                }
            }
        }
    }

    fn set_timer(&mut self, hash: &str, at: Timestamp) {
        self.timers.insert((at, hash.to_string()));
        self.timer_of.insert(hash.to_string(), at);
    }

    fn clear_timer(&mut self, hash: &str) {
        if let Some(at) = self.timer_of.remove(hash) {
            self.timers.remove(&(at, hash.to_string()));
        }
    }

    fn timers_due(&mut self) {
        let now = self.store.clock().now();
        while let Some((at, hash)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.clear_timer(&hash);
            self.dirty.insert(hash);
        }
    }

    /// Sleeps until the next timer. The wall clock may jump, so it is asked again at least every few seconds.
    fn until_next_timer(&self) -> impl Future<Output = ()> + use<> {
        const LOOK_AGAIN_MS: u64 = 5_000;
        let now = self.store.clock().now();
        let wait_ms =
            self.timers.first().map_or(LOOK_AGAIN_MS, |(at, _)| at.since_ms(now).min(LOOK_AGAIN_MS));
        tokio::time::sleep(Duration::from_millis(wait_ms.max(1)))
    }
}
