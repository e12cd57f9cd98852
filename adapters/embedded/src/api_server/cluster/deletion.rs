//! Deletion: at once, after a Pod's grace, when finalizers are gone, or when nothing is left inside.

use super::{Cluster, Key, NAMESPACES_ALWAYS, owners, seconds, set_metadata};
use crate::api_server::resource::{NAMESPACES, PODS, Resource};
use crate::api_server::status::Refused;
use serde_json::{Value, json};
use std::sync::Arc;

/// The finalizer of an owner that waits for its dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// They are deleted when their owner is gone.
    #[default]
    Background,
    /// They are deleted first, and their owner goes when those are gone that block it.
    Foreground,
    /// They stay, without this owner.
    Orphan,
}

/// How a deletion is to be done.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// Seconds that a Pod has for its end; `None` is its own wish.
    pub grace_s: Option<i64>,
    /// Only if the object has this uid.
    pub uid: Option<String>,
    /// Only if the object has this version.
    pub resource_version: Option<String>,
    /// What becomes of dependents.
    pub policy: Policy,
    /// Say what would happen, and do nothing.
    pub dry_run: bool,
}

impl Cluster {
    /// Deletes an object: a Pod on a node after its grace, one with finalizers when they are gone, a namespace when it is
    /// empty, others at once. Answers the object as it is afterwards and whether it is gone.
    ///
    /// # Errors
    /// When it is not there, the preconditions do not hold, or the cluster cannot be without it.
    pub fn delete(
        &mut self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        how: &Deletion,
    ) -> Result<(Arc<Value>, bool), Refused> {
        let before = self.get(resource, namespace, name)?;
        let conflict = |why: String| Refused::conflict(&resource.group, &resource.plural, name, &why);
        let metadata = &before["metadata"];
        if let Some(uid) = &how.uid
            && metadata["uid"] != uid.as_str()
        {
            return Err(conflict(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                metadata["uid"].as_str().unwrap_or_default()
            )));
        }
        if let Some(version) = &how.resource_version
            && metadata["resourceVersion"] != version.as_str()
        {
            return Err(conflict(format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                metadata["resourceVersion"].as_str().unwrap_or_default()
            )));
        }
        if resource.key() == NAMESPACES && NAMESPACES_ALWAYS.contains(&name) {
            let message = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
            return Err(Refused::new(403, "Forbidden", message));
        }
        if how.dry_run {
            return Ok((before, false));
        }
        let key = Key::new(resource, namespace, name);
        let after = self.begin_deletion(&key, how).unwrap_or(before);
        self.settle();
        Ok(match self.objects.get(&key) {
            Some(object) => (object.clone(), false),
            None => (after, true),
        })
    }

    /// Removes an object, or marks it as being deleted when something holds it. The rest is for [`Self::settle`].
    pub(super) fn begin_deletion(&mut self, key: &Key, how: &Deletion) -> Option<Arc<Value>> {
        let resource = self.resources.get(&key.resource)?.clone();
        let before = self.objects.get(key)?.clone();
        let uid = before["metadata"]["uid"].as_str().unwrap_or_default();
        if how.policy == Policy::Orphan {
            self.orphan(uid);
        }
        let mut after = before.as_ref().clone();
        if how.policy == Policy::Foreground && self.has_blocking_dependents(uid) {
            let mut finalizers = before["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            if !finalizers.iter().any(|finalizer| finalizer == FOREGROUND) {
                finalizers.push(json!(FOREGROUND));
            }
            set_metadata(&mut after, "finalizers", json!(finalizers));
        }
        let grace_s = grace_s(&resource, &before, how.grace_s);
        let holds_contents = self.has_contents(key, &before);
        if grace_s == 0 && !has_finalizers(&after) && !holds_contents {
            return Some(self.remove(key, None));
        }
        let metadata = &before["metadata"];
        let earlier = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if !metadata["deletionTimestamp"].is_string() || grace_s < earlier {
            let at = (self.now)().plus_ms(u64::try_from(grace_s).unwrap_or(0).saturating_mul(1_000));
            set_metadata(&mut after, "deletionTimestamp", json!(seconds(at)));
            set_metadata(&mut after, "deletionGracePeriodSeconds", json!(grace_s));
            let generation = metadata["generation"].as_i64().unwrap_or(0).saturating_add(1);
            set_metadata(&mut after, "generation", json!(generation));
        }
        if key.resource == NAMESPACES
            && let Some(fields) = after.as_object_mut()
        {
            fields.insert("status".into(), json!({"phase": "Terminating"}));
        }
        if after == *before {
            return Some(before);
        }
        let stored = self.store(&resource, key.clone(), after);
        self.delete_belongings(key, &stored, how.policy);
        Some(stored)
    }

    /// Leaves the dependents of an owner without it.
    fn orphan(&mut self, uid: &str) {
        let keys: Vec<Key> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        for key in keys {
            let (Some(object), Some(resource)) =
                (self.objects.get(&key).cloned(), self.resources.get(&key.resource).cloned())
            else {
                continue;
            };
            let mut object = object.as_ref().clone();
            let left: Vec<Value> = object["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|owner| owner["uid"] != uid)
                .cloned()
                .collect();
            set_metadata(&mut object, "ownerReferences", json!(left));
            debug_assert!(owners(&object).all(|owner| owner != uid));
            self.store(&resource, key, object);
        }
    }
}

/// Whether finalizers or a Pod's grace keep an object that is being deleted.
pub(super) fn is_held(object: &Value) -> bool {
    has_finalizers(object) || object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// How long a node has to end a Pod; 0 for one that has ended or is on no node, and for everything else.
fn grace_s(resource: &Resource, object: &Value, wish: Option<i64>) -> i64 {
    let on_a_node = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if resource.key() != PODS || !on_a_node || ended {
        return 0;
    }
    match wish.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30) {
        // As in a real API server, what is below zero is a second.
        ..0 => 1,
        grace_s => grace_s.min(86_400),
    }
}
