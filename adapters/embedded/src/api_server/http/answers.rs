//! Answers in the form that was asked for.

use super::call::Form;
use crate::api_server::resource::Resource;
use crate::api_server::status::Refused;
use crate::api_server::table::table;
use crate::api_server::{Shared, cluster::Page};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// JSON with 200.
pub fn answer(body: &Value) -> Response {
    json_text(body.to_string())
}

fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A refusal.
pub fn refused(refused: &Refused) -> Response {
    let mut response = answer(&refused.body());
    *response.status_mut() = StatusCode::from_u16(refused.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) = refused.details["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// One object.
pub fn one(
    shared: &Shared,
    resource: &Resource,
    object: &Arc<Value>,
    code: StatusCode,
    form: Form,
) -> Response {
    let mut response = match shown(shared, resource, object, form) {
        Some(body) => answer(&body),
        None => answer(object),
    };
    *response.status_mut() = code;
    response
}

/// An object in another form, when one is asked for.
pub fn shown(shared: &Shared, resource: &Resource, object: &Arc<Value>, form: Form) -> Option<Value> {
    match form {
        Form::Whole => None,
        Form::Metadata => Some(partial(object)),
        Form::Table(include) => {
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            Some(table(resource, std::slice::from_ref(object), metadata, include, (shared.now)()))
        }
    }
}

/// A page of a list.
pub fn many(
    shared: &Shared,
    resource: &Resource,
    page: &Page,
    knows_remaining: bool,
    form: Form,
) -> Response {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if !page.next.is_empty() {
        metadata["continue"] = json!(page.next);
        if knows_remaining {
            metadata["remainingItemCount"] = json!(page.remaining);
        }
    }
    if let Form::Table(include) = form {
        return answer(&table(resource, &page.items, metadata, include, (shared.now)()));
    }
    if form == Form::Metadata {
        let items: Vec<Value> = page.items.iter().map(|object| partial(object)).collect();
        return answer(&json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": items,
        }));
    }
    // Written piece by piece: lists are long, and their objects need not be copied.
    let mut text = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(format!("{}List", resource.kind)),
        json!(resource.api_version()),
    );
    for (index, object) in page.items.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{object}");
    }
    text.push_str("]}");
    json_text(text)
}

/// What says that an object is gone.
pub fn gone(resource: &Resource, name: &str, object: &Value) -> Response {
    answer(&json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": name,
            "group": resource.group,
            "kind": resource.plural,
            "uid": object["metadata"]["uid"],
        },
    }))
}

fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
