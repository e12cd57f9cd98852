//! Creation and change of objects.

use super::deletion::is_held;
use super::{Cluster, Key, Random, seconds, set_metadata};
use crate::api_server::patch::Patch;
use crate::api_server::pods;
use crate::api_server::resource::Resource;
use crate::api_server::status::Refused;
use serde_json::{Value, json};
use std::sync::Arc;

/// How often a generated name is drawn anew when it is taken.
const NAME_TRIES: usize = 8;
/// How much of `generateName` is used; five random characters follow, and a label has 63 at most.
const NAME_PREFIX_MAX: usize = 58;
/// What the server alone decides.
const SERVER_SIDE: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// How a write is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Check everything and keep nothing.
    pub dry_run: bool,
    /// Refuse fields that nobody knows, which are dropped otherwise.
    pub strict: bool,
}

/// What is changed by an update or a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object; its status stays when it has a path of its own.
    Main,
    /// The status alone.
    Status,
}

/// An object that is named in a request.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its kind.
    pub resource: &'a Resource,
    /// Its namespace; empty for none.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl Named<'_> {
    fn key(&self) -> Key {
        Key::new(self.resource, self.namespace, self.name)
    }

    fn conflict(&self, why: &str) -> Refused {
        Refused::conflict(&self.resource.group, &self.resource.plural, self.name, why)
    }
}

impl Cluster {
    /// Stores a new object.
    ///
    /// # Errors
    /// When there is one of its name, its namespace is missing, or it breaks rules.
    pub fn create(
        &mut self,
        resource: &Resource,
        namespace: &str,
        object: Value,
        how: How,
    ) -> Result<Arc<Value>, Refused> {
        let mut object = self.admit(resource, namespace, object, how.strict)?;
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() && version != "0" {
            return Err(Refused::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let name = self.choose_name(resource, namespace, &mut object)?;
        self.check_home(resource, namespace, &name)?;
        let key = Key::new(resource, namespace, &name);
        if let Some(existing) = self.objects.get(&key) {
            let mut refused = Refused::already_exists(&resource.group, &resource.plural, &name);
            if existing["metadata"]["deletionTimestamp"].is_string() {
                refused.message = format!("object is being deleted: {}", refused.message);
            }
            return Err(refused);
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            SERVER_SIDE.iter().for_each(|field| drop(metadata.remove(*field)));
            metadata.insert("uid".into(), json!(uid(&self.random)));
            metadata.insert("creationTimestamp".into(), json!(seconds((self.now)())));
            metadata.insert("generation".into(), json!(1));
        }
        self.begin_status(resource, &mut object);
        self.check(resource, &object, None)?;
        if how.dry_run {
            return Ok(Arc::new(object));
        }
        let stored = self.store(resource, key.clone(), object);
        // An owner that is gone takes its dependents with it, those that come late too.
        if self.owners_are_gone(&stored) {
            self.begin_deletion(&key, &super::Deletion::default());
        }
        self.settle();
        Ok(stored)
    }

    /// Replaces an object or its status.
    ///
    /// # Errors
    /// When it is not there, somebody else has changed it since, or it breaks rules.
    pub fn update(
        &mut self,
        of: Named<'_>,
        object: Value,
        part: Part,
        how: How,
    ) -> Result<Arc<Value>, Refused> {
        let Named { resource, namespace, name } = of;
        let before = self.get(resource, namespace, name)?;
        if part == Part::Status && !resource.has_status {
            return Err(Refused::no_resource());
        }
        let mut object = self.admit(resource, namespace, object, how.strict)?;
        check_preconditions(&of, &before, &object)?;
        let mut after = match part {
            Part::Status => {
                let mut after = before.as_ref().clone();
                move_field("status", &mut object, &mut after);
                after
            }
            Part::Main => {
                if resource.has_status {
                    let mut before = before.as_ref().clone();
                    move_field("status", &mut before, &mut object);
                }
                object
            }
        };
        keep_server_side(&before, &mut after, name);
        self.check(resource, &after, Some(&before))?;
        if is_other_generation(&before, &after) {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0).saturating_add(1);
            set_metadata(&mut after, "generation", json!(generation));
        }
        if how.dry_run {
            return Ok(Arc::new(after));
        }
        if after == *before {
            return Ok(before);
        }
        let key = of.key();
        // The last finalizer of an object under deletion takes it away.
        let deleting = after["metadata"]["deletionTimestamp"].is_string();
        if deleting && !is_held(&after) && is_held(&before) && !self.has_contents(&key, &before) {
            let last = self.remove(&key, Some(after));
            self.settle();
            return Ok(last);
        }
        let stored = self.store(resource, key, after);
        self.settle();
        Ok(stored)
    }

    /// Changes a part of an object; server-side apply creates it when it is missing.
    ///
    /// # Errors
    /// As [`Self::update`], and when the patch makes no sense.
    pub fn patch(
        &mut self,
        of: Named<'_>,
        way: Patch,
        mut patch: Value,
        part: Part,
        how: How,
    ) -> Result<Arc<Value>, Refused> {
        if way == Patch::Strategic && of.resource.is_custom() {
            return Err(Refused::unsupported(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        let before = match self.get(of.resource, of.namespace, of.name) {
            Ok(before) => before,
            Err(_) if way == Patch::Apply && part == Part::Main => {
                if let Some(fields) = patch.as_object_mut()
                    && let Some(metadata) =
                        fields.entry("metadata").or_insert_with(|| json!({})).as_object_mut()
                {
                    let named = metadata.get("name").and_then(Value::as_str).unwrap_or(of.name);
                    if named != of.name {
                        return Err(Refused::bad_request(
                            "the name of the object does not match the name on the URL",
                        ));
                    }
                    metadata.insert("name".into(), json!(of.name));
                }
                return self.create(of.resource, of.namespace, patch, how);
            }
            Err(refused) => return Err(refused),
        };
        let result = way.apply(of.resource, &before, patch)?;
        if !result.is_object() {
            return Err(Refused::bad_request("the patch makes something of the object that is no object"));
        }
        self.update(of, result, part, how)
    }

    /// Puts a Pod on a node.
    ///
    /// # Errors
    /// When the Pod is not there or on a node already, or the binding names none.
    pub fn bind(&mut self, of: Named<'_>, binding: &Value, how: How) -> Result<(), Refused> {
        let before = self.get(of.resource, of.namespace, of.name)?;
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            let fault = ("target.name".to_string(), "Required value".to_string());
            return Err(Refused::invalid("Binding", of.name, &[fault]));
        }
        if let Some(uid) = binding["metadata"]["uid"].as_str()
            && before["metadata"]["uid"] != uid
        {
            return Err(of.conflict("the uid of the binding is not the uid of the pod"));
        }
        if before["metadata"]["deletionTimestamp"].is_string() {
            return Err(of.conflict("the pod is being deleted, cannot be assigned to a host"));
        }
        if let Some(other) = before["spec"]["nodeName"].as_str().filter(|other| !other.is_empty()) {
            return Err(of.conflict(&format!("pod {} is already assigned to node \"{other}\"", of.name)));
        }
        let mut after = before.as_ref().clone();
        pods::bind(&mut after, node, &seconds((self.now)()));
        if !how.dry_run {
            self.store(of.resource, of.key(), after);
        }
        Ok(())
    }

    /// The name that a new object asks for, or one that begins as it asks for.
    fn choose_name(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &mut Value,
    ) -> Result<String, Refused> {
        let given = object["metadata"]["name"].as_str().unwrap_or_default().to_string();
        if !given.is_empty() {
            return Ok(given);
        }
        let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
        if prefix.is_empty() {
            let fault = ("metadata.name", "Required value: name or generateName is required");
            return Err(Refused::invalid(&resource.kind, "", &[(fault.0.into(), fault.1.into())]));
        }
        let prefix: String = prefix.chars().take(NAME_PREFIX_MAX).collect();
        let mut name = String::new();
        for _ in 0..NAME_TRIES {
            name = format!("{prefix}{}", suffix(&self.random));
            if !self.objects.contains_key(&Key::new(resource, namespace, &name)) {
                break;
            }
        }
        set_metadata(object, "name", json!(name));
        Ok(name)
    }
}

/// Whether the change is one that the writer may make.
fn check_preconditions(of: &Named<'_>, before: &Value, object: &Value) -> Result<(), Refused> {
    let metadata = &object["metadata"];
    if metadata["name"].as_str().is_some_and(|given| !given.is_empty() && given != of.name) {
        return Err(Refused::bad_request("the name of the object does not match the name on the URL"));
    }
    let version = metadata["resourceVersion"].as_str().unwrap_or_default();
    if matches!(version, "" | "0") {
        if !of.resource.takes_blind_updates {
            let fault = ("metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update");
            return Err(Refused::invalid(&of.resource.kind, of.name, &[(fault.0.into(), fault.1.into())]));
        }
    } else if before["metadata"]["resourceVersion"] != version {
        return Err(of.conflict(
            "the object has been modified; please apply your changes to the latest version and try again",
        ));
    }
    if let Some(uid) = metadata["uid"].as_str()
        && !uid.is_empty()
        && before["metadata"]["uid"] != uid
    {
        return Err(of.conflict(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            before["metadata"]["uid"].as_str().unwrap_or_default()
        )));
    }
    Ok(())
}

fn move_field(field: &str, from: &mut Value, to: &mut Value) {
    let value = from.as_object_mut().and_then(|fields| fields.remove(field));
    if let Some(fields) = to.as_object_mut() {
        match value {
            Some(value) if !value.is_null() => drop(fields.insert(field.into(), value)),
            _ => drop(fields.remove(field)),
        }
    }
}

/// What a client cannot change.
fn keep_server_side(before: &Value, after: &mut Value, name: &str) {
    let Some(metadata) = after["metadata"].as_object_mut() else { return };
    metadata.insert("name".into(), json!(name));
    for field in SERVER_SIDE.into_iter().chain(["generateName"]) {
        match before["metadata"].get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// Whether more than metadata and status has changed.
fn is_other_generation(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else { return true };
    before.keys().chain(after.keys()).any(|field| {
        !matches!(field.as_str(), "metadata" | "status") && before.get(field) != after.get(field)
    })
}

fn uid(random: &Random) -> String {
    let mut bytes = [0; 16];
    random(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Five characters that make no words, as Kubernetes chooses them.
fn suffix(random: &Random) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = [0; 5];
    random(&mut bytes);
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}
