//! The memory of the API server: objects, what happened to them, and how they are read. Nothing here waits.

mod admission;
mod deletion;
mod events;
mod listing;
mod settling;
mod writing;

use super::resource::{DEFINITIONS, NAMESPACES, Resource, built_in};
use super::status::Refused;
use events::Kept;
use flyte_core::Timestamp;
use serde_json::{Value, json};
use settling::Task;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub use deletion::{Deletion, Policy};
pub use listing::{Page, Query};
pub use writing::{How, Named, Part};

/// What time it is.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// Fills a buffer with random bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// The namespaces that every cluster has, and that nobody can delete.
const NAMESPACES_ALWAYS: [&str; 2] = ["default", "kube-system"];

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It is new.
    Added,
    /// It is another than before.
    Modified,
    /// It is gone; the object is its last state.
    Deleted,
}

/// One change.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its number over all changes.
    pub revision: u64,
    /// The object's key.
    pub key: Key,
    /// What happened.
    pub happened: Happened,
    /// The object afterwards.
    pub object: Arc<Value>,
    /// The object before.
    pub before: Option<Arc<Value>>,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The resource, as [`Resource::key`] has it.
    pub resource: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of an object of a kind; kinds without namespaces ignore it.
    pub fn new(resource: &Resource, namespace: &str, name: &str) -> Self {
        let namespace = if resource.namespaced { namespace } else { "" };
        Self { resource: resource.key(), namespace: namespace.to_string(), name: name.to_string() }
    }
}

/// All objects and what happened to them.
pub struct Cluster {
    now: Now,
    random: Random,
    auto_bind: Option<String>,
    log_max: usize,
    resources: BTreeMap<String, Resource>,
    objects: BTreeMap<Key, Arc<Value>>,
    /// Where the object with a uid is.
    uids: BTreeMap<String, Key>,
    /// The objects that name a uid as their owner.
    dependents: BTreeMap<String, BTreeSet<Key>>,
    log: VecDeque<Event>,
    revision: u64,
    /// Changes up to this one are no longer in the log.
    compacted: u64,
    /// What follows from changes and is still to be done.
    tasks: VecDeque<Task>,
    kept_events: VecDeque<Kept>,
}

impl Cluster {
    /// An empty cluster with the namespaces that every cluster has.
    pub fn new(now: Now, random: Random, auto_bind: Option<String>, log_max: usize) -> Self {
        // Versions of an earlier cluster must not be taken for versions of this one: clients outlive it.
        let start = u64::try_from(now().as_ms()).unwrap_or(0).max(1);
        let mut cluster = Self {
            now,
            random,
            auto_bind,
            log_max: log_max.max(16),
            resources: built_in().into_iter().map(|resource| (resource.key(), resource)).collect(),
            objects: BTreeMap::new(),
            uids: BTreeMap::new(),
            dependents: BTreeMap::new(),
            log: VecDeque::new(),
            revision: start,
            compacted: start,
            tasks: VecDeque::new(),
            kept_events: VecDeque::new(),
        };
        if let Some(namespaces) = cluster.find("", "v1", "namespaces") {
            for name in NAMESPACES_ALWAYS {
                // Cannot be refused: the names are good and new.
                let _ = cluster.create(&namespaces, "", json!({"metadata": {"name": name}}), How::default());
            }
        }
        cluster
    }

    /// The number of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// All kinds of objects.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values()
    }

    /// The kind at a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Resource> {
        self.resources
            .get(&format!("{group}/{plural}"))
            .filter(|resource| resource.version == version)
            .cloned()
    }

    /// An object.
    ///
    /// # Errors
    /// When it is not there.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Arc<Value>, Refused> {
        self.objects
            .get(&Key::new(resource, namespace, name))
            .cloned()
            .ok_or_else(|| Refused::not_found(&resource.group, &resource.plural, name))
    }

    /// The changes after `revision`, oldest first.
    ///
    /// # Errors
    /// 410 when some of them are no longer known, and when `revision` is from another cluster's future.
    pub fn events_after(&self, revision: u64) -> Result<impl Iterator<Item = &Event>, Refused> {
        if revision < self.compacted || revision > self.revision {
            return Err(Refused::gone(format!("too old resource version: {revision} ({})", self.compacted)));
        }
        let start = self.log.partition_point(|event| event.revision <= revision);
        Ok(self.log.range(start..))
    }

    /// Forgets all changes, so that watches from the past have to begin anew.
    pub fn compact(&mut self) {
        self.log.clear();
        self.compacted = self.revision;
    }

    /// Keeps an object under a new version and says so to watches.
    fn store(&mut self, resource: &Resource, key: Key, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        set_metadata(&mut object, "resourceVersion", json!(self.revision.to_string()));
        let object = Arc::new(object);
        let before = self.put(&key, Some(object.clone()));
        if key.resource == DEFINITIONS
            && let Some(defined) = Resource::of_definition(&object)
        {
            self.resources.insert(defined.key(), defined);
        }
        if resource.key() == super::resource::EVENTS && before.is_none() {
            self.keep_event(&key, &object);
        }
        let happened = if before.is_some() { Happened::Modified } else { Happened::Added };
        self.note(Event { revision: self.revision, key, happened, object: object.clone(), before });
        object
    }

    /// Takes an object away, says so to watches and notes what follows. `last` is its state at the end; without it, the
    /// state it has.
    fn remove(&mut self, key: &Key, last: Option<Value>) -> Arc<Value> {
        let Some(before) = self.put(key, None) else { return Arc::new(last.unwrap_or_default()) };
        self.revision += 1;
        let mut last = last.unwrap_or_else(|| before.as_ref().clone());
        set_metadata(&mut last, "resourceVersion", json!(self.revision.to_string()));
        let last = Arc::new(last);
        if key.resource == DEFINITIONS
            && let Some(defined) = Resource::of_definition(&before)
        {
            self.resources.remove(&defined.key());
        }
        self.note(Event {
            revision: self.revision,
            key: key.clone(),
            happened: Happened::Deleted,
            object: last.clone(),
            before: Some(before.clone()),
        });
        self.follow_removal(key, &before);
        last
    }

    /// The only place where objects come and go, so that the indexes agree with them.
    fn put(&mut self, key: &Key, object: Option<Arc<Value>>) -> Option<Arc<Value>> {
        let before = match &object {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(key),
        };
        if let Some(before) = &before {
            for owner in owners(before) {
                if let Some(keys) = self.dependents.get_mut(owner) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
            }
            if let Some(uid) = before["metadata"]["uid"].as_str() {
                self.uids.remove(uid);
            }
        }
        if let Some(object) = &object {
            for owner in owners(object) {
                self.dependents.entry(owner.to_string()).or_default().insert(key.clone());
            }
            if let Some(uid) = object["metadata"]["uid"].as_str() {
                self.uids.insert(uid.to_string(), key.clone());
            }
        }
        before
    }

    fn note(&mut self, event: Event) {
        self.log.push_back(event);
        while self.log.len() > self.log_max {
            if let Some(forgotten) = self.log.pop_front() {
                self.compacted = forgotten.revision;
            }
        }
    }

    fn namespace(&self, name: &str) -> Option<&Arc<Value>> {
        let key = Key { resource: NAMESPACES.to_string(), namespace: String::new(), name: name.to_string() };
        self.objects.get(&key)
    }
}

/// Sets a field of the metadata, which every object has.
fn set_metadata(object: &mut Value, field: &str, value: Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert(field.to_string(), value);
    }
}

/// The uids of an object's owners.
fn owners(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
}

/// A time as Kubernetes writes it.
pub fn seconds(time: Timestamp) -> String {
    let text = time.to_string();
    text.split_once('.').map_or(text.clone(), |(seconds, _)| format!("{seconds}Z"))
}
