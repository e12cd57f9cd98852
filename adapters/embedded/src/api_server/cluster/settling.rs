//! What follows from a removal: dependents go with their owners, owners that wait for dependents and namespaces that wait
//! to be empty go last. It is done in steps from a queue, since chains of owners can be long.

use super::deletion::{Deletion, FOREGROUND, Policy, is_held};
use super::{Cluster, Key, owners};
use crate::api_server::resource::{DEFINITIONS, NAMESPACES, Resource};
use serde_json::Value;
use std::ops::Bound;

/// A thing that follows.
pub(super) enum Task {
    /// An owner with this uid is gone.
    OwnerGone(String),
    /// Something that this object waited for may be gone.
    Reconsider(Key),
}

impl Cluster {
    /// Notes what follows from the removal of an object.
    pub(super) fn follow_removal(&mut self, key: &Key, removed: &Value) {
        let uid = removed["metadata"]["uid"].as_str().unwrap_or_default();
        if self.dependents.contains_key(uid) {
            self.tasks.push_back(Task::OwnerGone(uid.to_string()));
        }
        let waiting: Vec<Key> = owners(removed).filter_map(|owner| self.uids.get(owner).cloned()).collect();
        self.tasks.extend(waiting.into_iter().map(Task::Reconsider));
        if !key.namespace.is_empty() {
            let namespace =
                Key { resource: NAMESPACES.into(), namespace: String::new(), name: key.namespace.clone() };
            self.tasks.push_back(Task::Reconsider(namespace));
        }
        if let Some(resource) = self.resources.get(&key.resource).filter(|resource| resource.is_custom()) {
            let name = format!("{}.{}", resource.plural, resource.group);
            self.tasks.push_back(Task::Reconsider(Key {
                resource: DEFINITIONS.into(),
                namespace: String::new(),
                name,
            }));
        }
    }

    /// Does what follows from what was done.
    pub(super) fn settle(&mut self) {
        while let Some(task) = self.tasks.pop_front() {
            match task {
                Task::OwnerGone(uid) => {
                    let keys: Vec<Key> = self.dependents.get(&uid).into_iter().flatten().cloned().collect();
                    for key in keys {
                        let alone = self.objects.get(&key).is_some_and(|object| self.owners_are_gone(object));
                        if alone {
                            self.begin_deletion(&key, &Deletion::default());
                        }
                    }
                }
                Task::Reconsider(key) => self.reconsider(&key),
            }
        }
    }

    fn reconsider(&mut self, key: &Key) {
        let Some(object) = self.objects.get(key).cloned() else { return };
        if !object["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let mut after = object.as_ref().clone();
        if !self.has_blocking_dependents(uid)
            && let Some(finalizers) = after["metadata"]["finalizers"].as_array_mut()
        {
            finalizers.retain(|finalizer| finalizer != FOREGROUND);
        }
        if !is_held(&after) && !self.has_contents(key, &object) {
            self.remove(key, Some(after));
        } else if after != *object
            && let Some(resource) = self.resources.get(&key.resource).cloned()
        {
            self.store(&resource, key.clone(), after);
        }
    }

    /// Whether objects are left that a namespace or a definition holds.
    pub(super) fn has_contents(&self, key: &Key, object: &Value) -> bool {
        match key.resource.as_str() {
            NAMESPACES => self.contents_of_namespace(&key.name).next().is_some(),
            DEFINITIONS => self.instances_of(object).next().is_some(),
            _ => false,
        }
    }

    /// What is in a namespace.
    pub(super) fn contents_of_namespace<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Key> {
        self.resources.keys().flat_map(move |kind| {
            let first = Key { resource: kind.clone(), namespace: name.to_string(), name: String::new() };
            let of_kind = self.objects.range((Bound::Included(first), Bound::Unbounded));
            of_kind.map(|(key, _)| key).take_while(move |key| key.resource == *kind && key.namespace == name)
        })
    }

    /// The objects of the kind that a definition defines.
    pub(super) fn instances_of<'a>(&'a self, definition: &Value) -> impl Iterator<Item = &'a Key> {
        let kind = Resource::of_definition(definition).map(|resource| resource.key()).unwrap_or_default();
        let first = Key { resource: kind.clone(), namespace: String::new(), name: String::new() };
        let of_kind = self.objects.range((Bound::Included(first), Bound::Unbounded));
        of_kind.map(|(key, _)| key).take_while(move |key| key.resource == kind)
    }

    /// Whether an owner still has dependents that its deletion in the foreground waits for.
    pub(super) fn has_blocking_dependents(&self, uid: &str) -> bool {
        self.dependents.get(uid).into_iter().flatten().filter_map(|key| self.objects.get(key)).any(|object| {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.filter(|owner| owner["uid"] == uid).any(|owner| owner["blockOwnerDeletion"] == true)
        })
    }

    /// Whether the object has owners and none of them exists.
    pub(super) fn owners_are_gone(&self, object: &Value) -> bool {
        let mut owners = owners(object).peekable();
        owners.peek().is_some() && owners.all(|owner| !self.uids.contains_key(owner))
    }

    /// Begins the deletion of all that belongs to an object which is being deleted.
    pub(super) fn delete_belongings(&mut self, key: &Key, object: &Value, policy: Policy) {
        let mut keys: Vec<Key> = match key.resource.as_str() {
            NAMESPACES => self.contents_of_namespace(&key.name).cloned().collect(),
            DEFINITIONS => self.instances_of(object).cloned().collect(),
            _ => Vec::new(),
        };
        if policy == Policy::Foreground {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            keys.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        }
        for key in keys {
            self.begin_deletion(&key, &Deletion::default());
        }
    }
}
