//! What an object has to be like, and what the server fills in.

use super::{Cluster, seconds};
use crate::api_server::resource::{DEFINITIONS, NAMESPACES, PODS, Resource};
use crate::api_server::status::Refused;
use crate::api_server::{definitions, limits, names, pods, schema, typed};
use serde_json::{Map, Value, json};

impl Cluster {
    /// The object in the form in which it is kept: with its kind and namespace, with defaults, without what nobody knows.
    pub(super) fn admit(
        &self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
        strict: bool,
    ) -> Result<Value, Refused> {
        limits::check(&object)?;
        let metadata = identify(resource, namespace, &mut object)?;
        let given = if strict { object.clone() } else { Value::Null };
        let name = metadata["name"].as_str().unwrap_or_default().to_string();
        let refuse = |fault: (String, String)| Refused::invalid(&resource.kind, &name, &[fault]);
        let metadata = typed::metadata(metadata).map_err(refuse)?;
        if let Some(fields) = object.as_object_mut() {
            fields.insert("metadata".into(), metadata);
        }
        match &resource.schema {
            Some(schema) => schema::prune(schema, &mut object, true),
            None => object = typed::object(&resource.key(), object).map_err(refuse)?,
        }
        if strict {
            let mut unknown = Vec::new();
            typed::dropped(&given, &object, "", &mut unknown);
            if !unknown.is_empty() {
                let unknown: Vec<String> =
                    unknown.iter().take(16).map(|field| format!("unknown field \"{field}\"")).collect();
                return Err(Refused::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                    resource.kind,
                    resource.version,
                    resource.kind,
                    unknown.join(", ")
                )));
            }
        }
        if let Some(fields) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            fields.remove("managedFields");
            fields.remove("selfLink");
        }
        match &resource.schema {
            Some(schema) => schema::fill_in(schema, &mut object),
            None if resource.key() == PODS => pods::fill_in(&mut object),
            None => {}
        }
        Ok(object)
    }

    /// The namespace has to be there, and the kind to stay.
    pub(super) fn check_home(&self, resource: &Resource, namespace: &str, name: &str) -> Result<(), Refused> {
        let forbidden = |why: String| {
            let what = format!("{} \"{name}\" is forbidden: {why}", resource.plural);
            Refused::new(403, "Forbidden", what)
        };
        if resource.is_custom() {
            let definitions = self.resources.get(DEFINITIONS);
            let name = format!("{}.{}", resource.plural, resource.group);
            let definition = definitions.and_then(|definitions| self.get(definitions, "", &name).ok());
            if definition.is_some_and(|found| found["metadata"]["deletionTimestamp"].is_string()) {
                return Err(forbidden(
                    "create not allowed while custom resource definition is terminating".into(),
                ));
            }
        }
        if !resource.namespaced {
            return Ok(());
        }
        match self.namespace(namespace) {
            None => Err(Refused::not_found("", "namespaces", namespace)),
            Some(found) if found["metadata"]["deletionTimestamp"].is_string() => Err(forbidden(format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            ))),
            Some(_) => Ok(()),
        }
    }

    /// Refuses an object that breaks rules; `before` is what it was, if it was.
    pub(super) fn check(
        &self,
        resource: &Resource,
        object: &Value,
        before: Option<&Value>,
    ) -> Result<(), Refused> {
        let mut faults = names::metadata_faults(resource, object);
        match (&resource.schema, resource.key().as_str()) {
            (Some(schema), _) => faults.extend(schema::faults(schema, object)),
            (None, PODS) => {
                faults.extend(pods::faults(object));
                faults.extend(before.and_then(|before| pods::change_fault(before, object)));
            }
            (None, DEFINITIONS) => {
                let is_taken = |key: &str| self.resources.get(key).is_some_and(|found| !found.is_custom());
                faults.extend(definitions::faults(object, before, is_taken));
            }
            _ => {}
        }
        if let Some(before) = before
            && before["metadata"]["deletionTimestamp"].is_string()
        {
            faults.extend(names::new_finalizer_fault(before, object));
        }
        if !faults.is_empty() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Refused::invalid(&resource.kind, name, &faults));
        }
        // It may have grown by patches and defaults.
        limits::check(object)
    }

    /// The status that a new object begins with.
    pub(super) fn begin_status(&self, resource: &Resource, object: &mut Value) {
        let now = seconds((self.now)());
        let Some(fields) = object.as_object_mut() else { return };
        match resource.key().as_str() {
            NAMESPACES => drop(fields.insert("status".into(), json!({"phase": "Active"}))),
            PODS => {
                fields.insert(
                    "status".into(),
                    json!({"phase": "Pending", "qosClass": pods::qos_class(&fields["spec"])}),
                );
                let given = fields["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
                let node = given.map(str::to_string).or_else(|| self.auto_bind.clone());
                if let Some(node) = node {
                    pods::bind(object, &node, &now);
                }
            }
            DEFINITIONS => {
                let status = definitions::status(&fields["spec"], &now);
                fields.insert("status".into(), status);
            }
            "/services" => drop(fields.insert("status".into(), json!({"loadBalancer": {}}))),
            "/persistentvolumeclaims" => drop(fields.insert("status".into(), json!({"phase": "Pending"}))),
            // A custom resource has no status until somebody says it by its own path.
            _ if resource.is_custom() && resource.has_status => drop(fields.remove("status")),
            _ => {}
        }
    }
}

/// Fills in what the path says of an object, takes its metadata out, and refuses what the path contradicts.
fn identify(resource: &Resource, namespace: &str, object: &mut Value) -> Result<Value, Refused> {
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
            _ => drop(fields.insert(field.into(), json!(wanted))),
        }
    }
    if fields.get("metadata").is_none_or(Value::is_null) {
        fields.insert("metadata".into(), Value::Object(Map::new()));
    }
    let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Err(Refused::bad_request("metadata must be an object"));
    };
    if !resource.namespaced {
        metadata.remove("namespace");
        return Ok(Value::Object(metadata.clone()));
    }
    match metadata.get("namespace").and_then(Value::as_str) {
        Some(given) if given != namespace && !given.is_empty() => Err(Refused::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => {
            metadata.insert("namespace".into(), json!(namespace));
            Ok(Value::Object(metadata.clone()))
        }
    }
}
