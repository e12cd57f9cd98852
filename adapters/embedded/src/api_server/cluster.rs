//! The memory of the API server and the rules by which it changes. Nothing here waits.

use super::names;
use super::patch::Patch;
use super::resource::{Resource, built_in};
use super::schema;
use super::selector::Selector;
use super::status::Refused;
use flyte_core::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What time it is.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// Fills a buffer with random bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

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
    /// The resource that the object is of, as [`Resource::key`] has it.
    pub resource: String,
    /// The object's namespace; empty for none.
    pub namespace: String,
    /// What happened.
    pub happened: Happened,
    /// The object afterwards.
    pub object: Arc<Value>,
    /// The object before.
    pub before: Option<Arc<Value>>,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// The objects.
    pub items: Vec<Arc<Value>>,
    /// The number of the last change that is in it.
    pub revision: u64,
    /// Where the next page begins; empty when there is none.
    pub next: String,
    /// How many objects are on later pages.
    pub remaining: usize,
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
    /// Whether dependents are left behind.
    pub orphan: bool,
}

/// What is changed by an update or a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object; its status stays when it has a path of its own.
    Main,
    /// The status alone.
    Status,
}

type Key = (String, String, String);

/// All objects and what happened to them.
pub struct Cluster {
    now: Now,
    random: Random,
    auto_bind: Option<String>,
    log_max: usize,
    resources: BTreeMap<String, Resource>,
    objects: BTreeMap<Key, Arc<Value>>,
    uids: BTreeSet<String>,
    log: VecDeque<Event>,
    revision: u64,
    /// Changes up to this one are no longer in the log.
    compacted: u64,
}

impl Cluster {
    /// An empty cluster with the namespaces that every cluster has.
    pub fn new(now: Now, random: Random, auto_bind: Option<String>, log_max: usize) -> Self {
        let mut cluster = Self {
            now,
            random,
            auto_bind,
            log_max: log_max.max(16),
            resources: built_in().into_iter().map(|resource| (resource.key(), resource)).collect(),
            objects: BTreeMap::new(),
            uids: BTreeSet::new(),
            log: VecDeque::new(),
            revision: 1,
            compacted: 1,
        };
        if let Some(namespaces) = cluster.find("", "v1", "namespaces") {
            for name in ["default", "kube-system"] {
                // Cannot be refused: the names are good and new.
                let _ = cluster.create(&namespaces, "", json!({"metadata": {"name": name}}), false);
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
            .get(&key(resource, namespace, name))
            .cloned()
            .ok_or_else(|| Refused::not_found(&resource.group, &resource.plural, name))
    }

    /// A page of objects in the order of their names; of all namespaces when `namespace` is empty.
    ///
    /// # Errors
    /// When the place to go on from makes no sense.
    pub fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &Selector,
        limit: usize,
        from: &str,
    ) -> Result<Page, Refused> {
        let start = match from {
            "" => (resource.key(), namespace.to_string(), String::new()),
            from => {
                let (namespace, name) = from.split_once('/').ok_or_else(|| {
                    Refused::gone("The provided continue parameter is too old or makes no sense")
                })?;
                (resource.key(), namespace.to_string(), name.to_string())
            }
        };
        let mut matching = self
            .objects
            .range(start.clone()..)
            .take_while(|((kind, _, _), _)| *kind == start.0)
            .filter(|((_, found, _), _)| namespace.is_empty() || found == namespace)
            .filter(|(key, _)| from.is_empty() || **key != start)
            .filter(|(_, object)| selector.matches(object));
        let limit = if limit == 0 { usize::MAX } else { limit };
        let page: Vec<_> = matching.by_ref().take(limit).collect();
        let remaining = matching.count();
        let next = match page.last() {
            Some(((_, namespace, name), _)) if remaining > 0 => format!("{namespace}/{name}"),
            _ => String::new(),
        };
        Ok(Page {
            items: page.into_iter().map(|(_, object)| object.clone()).collect(),
            revision: self.revision,
            next,
            remaining,
        })
    }

    /// The changes after `revision`, oldest first.
    ///
    /// # Errors
    /// 410 when some of them are no longer known.
    pub fn events_after(&self, revision: u64) -> Result<impl Iterator<Item = &Event>, Refused> {
        if revision < self.compacted {
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

    /// Stores a new object.
    ///
    /// # Errors
    /// When there is one of its name, its namespace is missing, or it breaks rules.
    pub fn create(
        &mut self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
        dry_run: bool,
    ) -> Result<Arc<Value>, Refused> {
        self.admit(resource, namespace, &mut object)?;
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return Err(Refused::bad_request("metadata must be an object"));
        };
        if metadata.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
            let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default().to_string();
            if prefix.is_empty() {
                let fault = (
                    "metadata.name".to_string(),
                    "Required value: name or generateName is required".to_string(),
                );
                return Err(Refused::invalid(&resource.kind, "", &[fault]));
            }
            metadata.insert("name".into(), json!(format!("{prefix}{}", suffix(&self.random))));
        }
        let name = metadata["name"].as_str().unwrap_or_default().to_string();
        let faults = names::metadata_faults(&object);
        if !faults.is_empty() {
            return Err(Refused::invalid(&resource.kind, &name, &faults));
        }
        let key = key(resource, namespace, &name);
        if self.objects.contains_key(&key) {
            return Err(Refused::already_exists(&resource.group, &resource.plural, &name));
        }
        self.check_namespace(resource, namespace)?;
        let uid = uid(&self.random);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.insert("uid".into(), json!(uid));
            metadata.insert("creationTimestamp".into(), json!(seconds((self.now)())));
            metadata.insert("generation".into(), json!(1));
            for server_side in [
                "resourceVersion",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "managedFields",
            ] {
                metadata.remove(server_side);
            }
        }
        if resource.has_status && resource.schema.is_some() {
            object.as_object_mut().map(|fields| fields.remove("status"));
        }
        self.default(resource, &mut object);
        self.check(resource, &object)?;
        if dry_run {
            return Ok(Arc::new(object));
        }
        self.uids.insert(uid);
        let stored = self.store(resource, key, object, Happened::Added);
        // An owner that is gone takes its dependents with it, those that come late too.
        if self.owners_are_gone(&stored) {
            let _ = self.delete(resource, namespace, &name, &Deletion::default());
        }
        Ok(stored)
    }

    /// Replaces an object or its status.
    ///
    /// # Errors
    /// When it is not there, somebody else has changed it since, or it breaks rules.
    pub fn update(
        &mut self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        mut object: Value,
        part: Part,
        dry_run: bool,
    ) -> Result<Arc<Value>, Refused> {
        let before = self.get(resource, namespace, name)?;
        if part == Part::Status && !resource.has_status {
            return Err(Refused::no_resource());
        }
        self.admit(resource, namespace, &mut object)?;
        let conflict = |why: &str| Refused::conflict(&resource.group, &resource.plural, name, why);
        let metadata = &object["metadata"];
        if metadata["name"].as_str().is_some_and(|given| given != name) {
            return Err(Refused::bad_request("the name of the object does not match the name on the URL"));
        }
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() && before["metadata"]["resourceVersion"] != version {
            return Err(conflict(
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        if metadata["uid"].as_str().is_some_and(|uid| !uid.is_empty() && before["metadata"]["uid"] != uid) {
            return Err(conflict("the uid in the precondition is not the uid of the object"));
        }
        let mut after = match part {
            Part::Status => {
                let mut after = before.as_ref().clone();
                after["status"] = object["status"].take();
                if after["status"].is_null() {
                    after.as_object_mut().map(|fields| fields.remove("status"));
                }
                after
            }
            Part::Main => {
                if resource.has_status
                    && let Some(fields) = object.as_object_mut()
                {
                    fields.remove("status");
                    if let Some(status) = before.get("status") {
                        fields.insert("status".into(), status.clone());
                    }
                }
                object
            }
        };
        keep_server_side(&before, &mut after, name);
        self.default(resource, &mut after);
        let faults = names::metadata_faults(&after);
        if !faults.is_empty() {
            return Err(Refused::invalid(&resource.kind, name, &faults));
        }
        self.check(resource, &after)?;
        if after.get("spec") != before.get("spec") {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
            after["metadata"]["generation"] = json!(generation + 1);
        }
        if after == *before || dry_run {
            return Ok(if dry_run { Arc::new(after) } else { before });
        }
        let key = key(resource, namespace, name);
        // The last finalizer of an object under deletion takes it away.
        let deleting = after["metadata"]["deletionTimestamp"].is_string();
        if deleting
            && !has_finalizers(&after)
            && before["metadata"]["finalizers"].is_array()
            && !is_graceful(resource, &after)
        {
            self.objects.insert(key.clone(), Arc::new(after));
            return Ok(self.remove(resource, &key, false));
        }
        Ok(self.store(resource, key, after, Happened::Modified))
    }

    /// Changes a part of an object; server-side apply creates it when it is missing.
    ///
    /// # Errors
    /// As [`Self::update`], and when the patch makes no sense.
    #[allow(clippy::too_many_arguments, reason = "they are the parts of the request")]
    pub fn patch(
        &mut self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        way: Patch,
        mut patch: Value,
        part: Part,
        dry_run: bool,
    ) -> Result<Arc<Value>, Refused> {
        let before = match self.get(resource, namespace, name) {
            Ok(before) => before,
            Err(_) if way == Patch::Apply && part == Part::Main => {
                if let Some(metadata) = patch["metadata"].as_object_mut() {
                    metadata.insert("name".into(), json!(name));
                }
                return self.create(resource, namespace, patch, dry_run);
            }
            Err(refused) => return Err(refused),
        };
        let result = way.apply(&before, patch)?;
        if !result.is_object() {
            return Err(Refused::bad_request("the patch makes something of the object that is no object"));
        }
        self.update(resource, namespace, name, result, part, dry_run)
    }

    /// Deletes an object: a Pod on a node after its grace, one with finalizers when they are gone, others at once.
    /// Answers the object as it is afterwards and whether it is gone.
    ///
    /// # Errors
    /// When it is not there or the preconditions do not hold.
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
            return Err(conflict("Precondition failed: the resource version is another".into()));
        }
        let key = key(resource, namespace, name);
        if how.orphan {
            self.orphan(metadata["uid"].as_str().unwrap_or_default());
        }
        let grace_s = grace_s(resource, &before, how.grace_s);
        if grace_s == 0 && !has_finalizers(&before) {
            return Ok((self.remove(resource, &key, how.orphan), true));
        }
        let mut after = before.as_ref().clone();
        let at = (self.now)().plus_ms(u64::try_from(grace_s).unwrap_or(0) * 1_000);
        let earlier = metadata["deletionTimestamp"].as_str().and_then(Timestamp::parse);
        if earlier.is_none_or(|earlier| at < earlier) {
            after["metadata"]["deletionTimestamp"] = json!(seconds(at));
            after["metadata"]["deletionGracePeriodSeconds"] = json!(grace_s);
        }
        if after == *before {
            return Ok((before, false));
        }
        Ok((self.store(resource, key, after, Happened::Modified), false))
    }

    fn admit(&self, resource: &Resource, namespace: &str, object: &mut Value) -> Result<(), Refused> {
        let Some(fields) = object.as_object_mut() else {
            return Err(Refused::bad_request("the body must be an object"));
        };
        for (field, wanted) in [("apiVersion", resource.api_version()), ("kind", resource.kind.clone())] {
            match fields.get(field).and_then(Value::as_str) {
                Some(given) if given != wanted && !given.is_empty() => {
                    return Err(Refused::bad_request(format!(
                        "the {field} in the data ({given}) does not match the expected {field} ({wanted})"
                    )));
                }
                _ => {
                    fields.insert(field.into(), json!(wanted));
                }
            }
        }
        let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(Refused::bad_request("metadata must be an object"));
        };
        if resource.namespaced {
            match metadata.get("namespace").and_then(Value::as_str) {
                Some(given) if given != namespace && !given.is_empty() => {
                    return Err(Refused::bad_request(
                        "the namespace of the provided object does not match the namespace sent on the request",
                    ));
                }
                _ => {
                    metadata.insert("namespace".into(), json!(namespace));
                }
            }
        } else {
            metadata.remove("namespace");
        }
        if let Some(schema) = &resource.schema {
            schema::prune(schema, object, true);
        }
        Ok(())
    }

    fn check_namespace(&self, resource: &Resource, namespace: &str) -> Result<(), Refused> {
        if !resource.namespaced {
            return Ok(());
        }
        match self.objects.get(&("/namespaces".to_string(), String::new(), namespace.to_string())) {
            None => Err(Refused::not_found("", "namespaces", namespace)),
            Some(found) if found["metadata"]["deletionTimestamp"].is_string() => Err(Refused::new(
                403,
                "Forbidden",
                format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                ),
            )),
            Some(_) => Ok(()),
        }
    }

    fn check(&self, resource: &Resource, object: &Value) -> Result<(), Refused> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let faults = match (&resource.schema, resource.key().as_str()) {
            (Some(schema), _) => schema::faults(schema, object),
            (None, "/pods") => names::pod_faults(object),
            (None, "apiextensions.k8s.io/customresourcedefinitions") => match Resource::of_definition(object)
            {
                Some(defined) if format!("{}.{}", defined.plural, defined.group) == name => Vec::new(),
                Some(defined) => vec![(
                    "metadata.name".to_string(),
                    format!(
                        "Invalid value: \"{name}\": must be spec.names.plural+\".\"+spec.group ({}.{})",
                        defined.plural, defined.group
                    ),
                )],
                None => vec![(
                    "spec".to_string(),
                    "Required value: group, names, scope and a served version".to_string(),
                )],
            },
            _ => Vec::new(),
        };
        if faults.is_empty() { Ok(()) } else { Err(Refused::invalid(&resource.kind, name, &faults)) }
    }

    /// Fills in what the server decides.
    fn default(&self, resource: &Resource, object: &mut Value) {
        let now = seconds((self.now)());
        match resource.key().as_str() {
            "/namespaces" if object["status"]["phase"].is_null() => {
                object["status"] = json!({"phase": "Active"})
            }
            "/pods" => {
                let Some(spec) = object["spec"].as_object_mut() else { return };
                spec.entry("restartPolicy").or_insert(json!("Always"));
                spec.entry("terminationGracePeriodSeconds").or_insert(json!(30));
                spec.entry("serviceAccountName").or_insert(json!("default"));
                let bound = match (spec.get("nodeName").and_then(Value::as_str), &self.auto_bind) {
                    (Some(_), _) => true,
                    (None, Some(node)) => {
                        spec.insert("nodeName".into(), json!(node));
                        true
                    }
                    (None, None) => false,
                };
                let status = &mut object["status"];
                if status["phase"].is_null() {
                    status["phase"] = json!("Pending");
                    status["qosClass"] = json!("BestEffort");
                    if bound {
                        status["conditions"] =
                            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": now}]);
                    }
                }
            }
            "apiextensions.k8s.io/customresourcedefinitions" if object["status"]["conditions"].is_null() => {
                object["status"] = json!({
                    "acceptedNames": object["spec"]["names"],
                    "storedVersions": object["spec"]["versions"].as_array().into_iter().flatten()
                        .filter(|version| version["storage"] == true).map(|version| version["name"].clone())
                        .collect::<Vec<_>>(),
                    "conditions": [
                        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": now},
                        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": now},
                    ],
                });
            }
            _ => {}
        }
    }

    fn store(&mut self, resource: &Resource, key: Key, mut object: Value, happened: Happened) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), object.clone());
        if resource.key() == "apiextensions.k8s.io/customresourcedefinitions"
            && let Some(defined) = Resource::of_definition(&object)
        {
            self.resources.insert(defined.key(), defined);
        }
        self.note(Event {
            revision: self.revision,
            resource: key.0,
            namespace: key.1,
            happened,
            object: object.clone(),
            before,
        });
        object
    }

    fn remove(&mut self, resource: &Resource, key: &Key, orphan: bool) -> Arc<Value> {
        let Some(before) = self.objects.remove(key) else { return Arc::new(Value::Null) };
        self.revision += 1;
        let mut last = before.as_ref().clone();
        last["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let last = Arc::new(last);
        self.note(Event {
            revision: self.revision,
            resource: key.0.clone(),
            namespace: key.1.clone(),
            happened: Happened::Deleted,
            object: last.clone(),
            before: Some(before.clone()),
        });
        let uid = before["metadata"]["uid"].as_str().unwrap_or_default().to_string();
        self.uids.remove(&uid);
        match resource.key().as_str() {
            "/namespaces" => self.delete_all(|(_, namespace, _), _| *namespace == key.2),
            "apiextensions.k8s.io/customresourcedefinitions" => {
                if let Some(defined) = Resource::of_definition(&before) {
                    let kind = defined.key();
                    self.delete_all(|(found, _, _), _| *found == kind);
                    self.resources.remove(&kind);
                }
            }
            _ => {}
        }
        if !orphan {
            self.collect(&uid);
        }
        last
    }

    /// Deletes what belonged to an owner that is gone.
    fn collect(&mut self, uid: &str) {
        let dependents: Vec<Key> = self
            .objects
            .iter()
            .filter(|(_, object)| owners(object).any(|owner| owner == uid) && self.owners_are_gone(object))
            .map(|(key, _)| key.clone())
            .collect();
        for (kind, namespace, name) in dependents {
            if let Some(resource) = self.resources.get(&kind).cloned() {
                let _ = self.delete(&resource, &namespace, &name, &Deletion::default());
            }
        }
    }

    fn delete_all(&mut self, chosen: impl Fn(&Key, &Value) -> bool) {
        let keys: Vec<Key> = self
            .objects
            .iter()
            .filter(|(key, object)| chosen(key, object))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            if let Some(resource) = self.resources.get(&key.0).cloned() {
                self.remove(&resource, &key, false);
            }
        }
    }

    fn orphan(&mut self, uid: &str) {
        let dependents: Vec<(Key, Arc<Value>)> = self
            .objects
            .iter()
            .filter(|(_, object)| owners(object).any(|owner| owner == uid))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in dependents {
            let mut object = object.as_ref().clone();
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|owner| owner["uid"] != uid);
            }
            if let Some(resource) = self.resources.get(&key.0).cloned() {
                self.store(&resource, key, object, Happened::Modified);
            }
        }
    }

    fn owners_are_gone(&self, object: &Value) -> bool {
        let mut owners = owners(object).peekable();
        owners.peek().is_some() && owners.all(|owner| !self.uids.contains(owner))
    }

    fn note(&mut self, event: Event) {
        self.log.push_back(event);
        while self.log.len() > self.log_max {
            if let Some(forgotten) = self.log.pop_front() {
                self.compacted = forgotten.revision;
            }
        }
    }
}

fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
    let namespace = if resource.namespaced { namespace } else { "" };
    (resource.key(), namespace.to_string(), name.to_string())
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Whether the object is a Pod that a node still has to end.
fn is_graceful(resource: &Resource, object: &Value) -> bool {
    grace_s(resource, object, object["metadata"]["deletionGracePeriodSeconds"].as_i64()) > 0
}

fn grace_s(resource: &Resource, object: &Value, wish: Option<i64>) -> i64 {
    let on_a_node = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if resource.key() != "/pods" || !on_a_node || ended {
        return 0;
    }
    wish.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30).clamp(0, 86_400)
}

/// What a client cannot change.
fn keep_server_side(before: &Value, after: &mut Value, name: &str) {
    let Some(metadata) = after["metadata"].as_object_mut() else { return };
    metadata.insert("name".into(), json!(name));
    for field in [
        "uid",
        "creationTimestamp",
        "generation",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        match before["metadata"].get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    metadata.remove("managedFields");
    metadata.remove("selfLink");
    if let Some(metadata) = after["metadata"].as_object_mut()
        && metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().is_empty()
    {
        metadata.remove("namespace");
    }
}

/// A time as Kubernetes writes it.
pub fn seconds(time: Timestamp) -> String {
    let text = time.to_string();
    text.split_once('.').map_or(text.clone(), |(seconds, _)| format!("{seconds}Z"))
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
