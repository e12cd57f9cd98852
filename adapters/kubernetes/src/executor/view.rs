//! What is known of each action: its row and what the cluster shows of it. Keyed by the hash of its identity, which every
//! object carries as a label.

use crate::TaskAction;
use crate::labels::{self, ACTION_HASH};
use crate::observe::pod_view;
use flyte_core::plan::{ClusterView, Command, PodView, TaskActionView};
use flyte_core::pod::PodRef;
use flyte_core::{ActionId, Timestamp, naming};
use flyte_store::ActionRow;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One action.
#[derive(Default)]
pub struct Entry {
    /// Its newest row; `None` when only objects of it are known.
    pub row: Option<Arc<ActionRow>>,
    /// Nothing is done before this time, since the last command failed.
    pub hold_until: Option<Timestamp>,
    /// How many commands have failed in a row.
    pub failures: u32,
    /// Attempts whose logs are archived.
    pub archived: BTreeSet<u32>,
    id: Option<ActionId>,
    task_action: Option<(TaskActionView, u64)>,
    pods: BTreeMap<String, (PodView, u64)>,
}

impl Entry {
    /// What the cluster shows.
    pub fn cluster_view(&self) -> ClusterView {
        ClusterView {
            task_action: self.task_action.as_ref().map(|(view, _)| view.clone()),
            pods: self.pods.values().map(|(view, _)| view.clone()).collect(),
        }
    }

    /// What is to be removed of an action that is over and done with.
    pub fn leftover(&self) -> Option<Command> {
        let pod = self.pods.values().find(|(pod, _)| pod.observation.deletion_at.is_none());
        if let Some((pod, _)) = pod {
            return Some(Command::DeletePod(pod.pod.clone()));
        }
        let (task_action, _) = self.task_action.as_ref()?;
        (!task_action.deleting).then(|| Command::DeleteTaskAction { uid: task_action.uid.clone() })
    }
}

/// All actions.
#[derive(Default)]
pub struct View {
    entries: BTreeMap<String, Entry>,
    /// Uids that a list under way has shown; `None` when none is under way.
    listed_task_actions: Option<BTreeSet<String>>,
    listed_pods: Option<BTreeSet<String>>,
}

impl View {
    pub fn get(&self, hash: &str) -> Option<&Entry> {
        self.entries.get(hash)
    }

    pub fn get_mut(&mut self, hash: &str) -> Option<&mut Entry> {
        self.entries.get_mut(hash)
    }

    pub fn hashes(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    /// Forgets an action that nothing is left of.
    pub fn forget(&mut self, hash: &str) {
        if self.entries.get(hash).is_some_and(|entry| entry.task_action.is_none() && entry.pods.is_empty()) {
            self.entries.remove(hash);
        }
    }

    /// Takes a row in, unless a newer one is known; answers its hash.
    pub fn row(&mut self, row: Arc<ActionRow>) -> String {
        let hash = naming::identity_hash(&row.action.id);
        if row.action.kind != flyte_core::Kind::Task {
            return hash;
        }
        let entry = self.entries.entry(hash.clone()).or_default();
        if entry.row.as_ref().is_none_or(|known| known.seq < row.seq) {
            entry.row = Some(row);
        }
        hash
    }

    /// Objects whose actions are not known, with the identities that they name.
    pub fn strangers(&self) -> Vec<(String, ActionId)> {
        let entries = self.entries.iter().filter(|(_, entry)| entry.row.is_none());
        entries.filter_map(|(hash, entry)| Some((hash.clone(), entry.id.clone()?))).collect()
    }

    pub fn begin_task_actions(&mut self) {
        self.listed_task_actions = Some(BTreeSet::new());
    }

    /// The list is complete: what it did not show is gone. Answers the actions that this changes.
    pub fn end_task_actions(&mut self) -> Vec<String> {
        let listed = self.listed_task_actions.take().unwrap_or_default();
        let mut changed = Vec::new();
        for (hash, entry) in &mut self.entries {
            if entry.task_action.as_ref().is_some_and(|(view, _)| !listed.contains(&view.uid)) {
                entry.task_action = None;
                changed.push(hash.clone());
            }
        }
        changed
    }

    pub fn begin_pods(&mut self) {
        self.listed_pods = Some(BTreeSet::new());
    }

    /// As [`Self::end_task_actions`].
    pub fn end_pods(&mut self) -> Vec<String> {
        let listed = self.listed_pods.take().unwrap_or_default();
        let mut changed = Vec::new();
        for (hash, entry) in &mut self.entries {
            let before = entry.pods.len();
            entry.pods.retain(|_, (view, _)| listed.contains(&view.pod.uid));
            if entry.pods.len() != before {
                changed.push(hash.clone());
            }
        }
        changed
    }

    /// Takes a TaskAction in, unless a newer version of it is known (S8).
    pub fn task_action(&mut self, object: &TaskAction) -> Option<String> {
        let hash = object.labels().get(ACTION_HASH)?.clone();
        let uid = object.uid()?;
        if let Some(listed) = &mut self.listed_task_actions {
            listed.insert(uid.clone());
        }
        let version = version(object.resource_version());
        let entry = self.entries.entry(hash.clone()).or_default();
        if entry.id.is_none() {
            entry.id = identity(object.annotations(), &hash);
        }
        if let Some((known, known_version)) = &entry.task_action
            && known.uid == uid
            && *known_version > version
        {
            return None;
        }
        let was_deleting =
            entry.task_action.as_ref().is_some_and(|(known, _)| known.uid == uid && known.deleting);
        let view = TaskActionView {
            deleting: was_deleting || object.metadata.deletion_timestamp.is_some(),
            shown: object.status.as_ref().and_then(|status| status.projection()),
            uid,
        };
        entry.task_action = Some((view, version));
        Some(hash)
    }

    pub fn task_action_gone(&mut self, object: &TaskAction) -> Option<String> {
        let hash = object.labels().get(ACTION_HASH)?.clone();
        self.forget_task_action(&hash, &object.uid()?);
        Some(hash)
    }

    pub fn forget_task_action(&mut self, hash: &str, uid: &str) {
        if let Some(entry) = self.entries.get_mut(hash)
            && entry.task_action.as_ref().is_some_and(|(view, _)| view.uid == uid)
        {
            entry.task_action = None;
        }
    }

    pub fn mark_task_action_deleting(&mut self, hash: &str) {
        if let Some((view, _)) = self.entries.get_mut(hash).and_then(|entry| entry.task_action.as_mut()) {
            view.deleting = true;
        }
    }

    /// Takes a Pod in, unless a newer version of it is known (S8).
    pub fn pod(&mut self, object: &Pod) -> Option<String> {
        let hash = object.labels().get(ACTION_HASH)?.clone();
        let mut seen = pod_view(object)?;
        if let Some(listed) = &mut self.listed_pods {
            listed.insert(seen.pod.uid.clone());
        }
        let version = version(object.resource_version());
        let entry = self.entries.entry(hash.clone()).or_default();
        if entry.id.is_none() {
            entry.id = identity(object.annotations(), &hash);
        }
        if let Some((known, known_version)) = entry.pods.get(&seen.pod.name)
            && known.pod.uid == seen.pod.uid
        {
            if *known_version > version {
                return None;
            }
            // A deletion that we have asked for is not taken back by an older view of the Pod.
            if seen.observation.deletion_at.is_none() {
                seen.observation.deletion_at = known.observation.deletion_at;
            }
        }
        entry.pods.insert(seen.pod.name.clone(), (seen, version));
        Some(hash)
    }

    pub fn pod_gone(&mut self, object: &Pod) -> Option<String> {
        let hash = object.labels().get(ACTION_HASH)?.clone();
        self.forget_pod(&hash, &PodRef { name: object.name_any(), uid: object.uid()? });
        Some(hash)
    }

    pub fn forget_pod(&mut self, hash: &str, pod: &PodRef) {
        if let Some(entry) = self.entries.get_mut(hash)
            && entry.pods.get(&pod.name).is_some_and(|(view, _)| view.pod.uid == pod.uid)
        {
            entry.pods.remove(&pod.name);
        }
    }

    pub fn mark_pod_deleting(&mut self, hash: &str, pod: &PodRef, at: Timestamp) {
        if let Some((view, _)) = self.entries.get_mut(hash).and_then(|entry| entry.pods.get_mut(&pod.name))
            && view.pod.uid == pod.uid
        {
            view.observation.deletion_at.get_or_insert(at);
        }
    }

    pub fn archived(&mut self, hash: &str, attempt: u32) {
        if let Some(entry) = self.entries.get_mut(hash) {
            entry.archived.insert(attempt);
        }
    }
}

/// The identity that an object names, when it is the one that its label was made of.
fn identity(annotations: &BTreeMap<String, String>, hash: &str) -> Option<ActionId> {
    labels::identity(annotations).filter(|id| naming::identity_hash(id) == hash)
}

/// The version as a number, which Kubernetes promises to grow for an object since 1.35, and etcd always did; 0 when it is
/// no number, so that nothing is ever taken for stale.
fn version(text: Option<String>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
