//! Tells subscribers of changes, after they are durable.

use crate::row::ActionRow;
use flyte_core::{ActionId, RunId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What a subscriber hears of. Topics carry whole identities, since every root action has the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// One action.
    Action(ActionId),
    /// The direct children of an action.
    Children(ActionId),
    /// All actions of a run.
    Run(RunId),
    /// All actions of a project's domain.
    Project {
        /// The organisation.
        org: String,
        /// The project.
        project: String,
        /// The domain.
        domain: String,
    },
    /// Everything.
    All,
}

/// Why a subscriber got no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvError {
    /// It was too slow and has missed changes: it has to read what it needs again, and then goes on receiving.
    #[error("changes were missed")]
    Lagged,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

#[derive(Default)]
struct Queue {
    rows: VecDeque<Arc<ActionRow>>,
    lagged: bool,
    closed: bool,
}

struct Mailbox {
    queue: Mutex<Queue>,
    woken: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Subscribers {
    by_topic: BTreeMap<Topic, BTreeMap<u64, Arc<Mailbox>>>,
    next: u64,
    closed: bool,
}

#[derive(Clone)]
pub(crate) struct Hub {
    subscribers: Arc<Mutex<Subscribers>>,
    buffer: usize,
}

impl Hub {
    pub(crate) fn new(buffer: usize) -> Self {
        Self { subscribers: Arc::default(), buffer: buffer.max(1) }
    }

    pub(crate) fn subscribe(&self, topic: Topic) -> Subscription {
        let mut subscribers = lock(&self.subscribers);
        let mailbox = Arc::new(Mailbox {
            queue: Mutex::new(Queue { closed: subscribers.closed, ..Queue::default() }),
            woken: Notify::new(),
        });
        let id = subscribers.next;
        subscribers.next += 1;
        subscribers.by_topic.entry(topic.clone()).or_default().insert(id, mailbox.clone());
        Subscription { hub: self.clone(), topic, id, mailbox }
    }

    /// Hands a committed change to everybody who asked for it.
    pub(crate) fn publish(&self, row: &Arc<ActionRow>) {
        let subscribers = lock(&self.subscribers);
        let id = &row.action.id;
        let run = &id.run;
        let mut topics = vec![
            Topic::Action(id.clone()),
            Topic::Run(run.clone()),
            Topic::Project { org: run.org.clone(), project: run.project.clone(), domain: run.domain.clone() },
            Topic::All,
        ];
        topics.extend(row.action.parent_id().map(Topic::Children));
        for mailbox in
            topics.iter().filter_map(|topic| subscribers.by_topic.get(topic)).flat_map(BTreeMap::values)
        {
            let mut queue = lock(&mailbox.queue);
            if queue.lagged {
                continue;
            }
            if queue.rows.len() >= self.buffer {
                queue.rows.clear();
                queue.lagged = true;
            } else {
                queue.rows.push_back(row.clone());
            }
            drop(queue);
            mailbox.woken.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        let mut subscribers = lock(&self.subscribers);
        subscribers.closed = true;
        for mailbox in subscribers.by_topic.values().flat_map(BTreeMap::values) {
            lock(&mailbox.queue).closed = true;
            mailbox.woken.notify_one();
        }
    }
}

/// Changes of one topic, in the order of their sequence numbers, from the moment of the subscription on.
pub struct Subscription {
    hub: Hub,
    topic: Topic,
    id: u64,
    mailbox: Arc<Mailbox>,
}

impl Subscription {
    /// The next change. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// `Lagged` once after changes were missed; `Closed` when the store is closed and everything was received.
    pub async fn recv(&mut self) -> Result<Arc<ActionRow>, RecvError> {
        loop {
            {
                let mut queue = lock(&self.mailbox.queue);
                if queue.lagged {
                    queue.lagged = false;
                    return Err(RecvError::Lagged);
                }
                if let Some(row) = queue.rows.pop_front() {
                    return Ok(row);
                }
                if queue.closed {
                    return Err(RecvError::Closed);
                }
            }
            self.mailbox.woken.notified().await;
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({:?})", self.topic)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut subscribers = lock(&self.hub.subscribers);
        if let Some(mailboxes) = subscribers.by_topic.get_mut(&self.topic) {
            mailboxes.remove(&self.id);
            if mailboxes.is_empty() {
                subscribers.by_topic.remove(&self.topic);
            }
        }
    }
}
