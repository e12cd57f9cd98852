//! What is done with objects.

use super::Target;
use super::answers::{gone, many, one};
use super::call::Call;
use super::{answer, log, watches};
use crate::api_server::Shared;
use crate::api_server::cluster::{How, Named, Page, Part, Query};
use crate::api_server::patch::Patch;
use crate::api_server::resource::{NAMESPACES, PODS, Resource};
use crate::api_server::status::Refused;
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// Does what the request asks of its target.
pub async fn serve(shared: &Arc<Shared>, target: Target, call: &Call) -> Result<Response, Refused> {
    let Target { resource, namespace, name, sub } = &target;
    let is_pods = resource.key() == PODS;
    let part = match (sub.as_deref(), name) {
        (None, _) => Part::Main,
        (Some("status"), _) if resource.has_status => Part::Status,
        (Some("log"), Some(name)) if is_pods && call.method == Method::GET => {
            return log::log(shared, resource, namespace, name, call).await;
        }
        (Some("binding"), Some(name)) if is_pods && call.method == Method::POST => {
            return bind(shared, Named { resource, namespace, name }, call);
        }
        _ => return Err(Refused::no_resource()),
    };
    let shown = |object: Arc<Value>, code| one(shared, resource, &object, code, call.form());
    match (&call.method, name) {
        (&Method::GET, None) if call.is_on("watch") => watches::watch(shared, resource, namespace, call),
        (&Method::GET, None) => list(shared, resource, namespace, call),
        (&Method::GET, Some(name)) => {
            let object = shared.cluster().get(resource, namespace, name)?;
            Ok(shown(object, StatusCode::OK))
        }
        (&Method::POST, None) => {
            let (object, how) = (call.value()?, call.how()?);
            let object = shared.change(|cluster| cluster.create(resource, namespace, object, how))?;
            Ok(shown(object, StatusCode::CREATED))
        }
        (&Method::PUT, Some(name)) => {
            let (object, how, of) = (call.value()?, call.how()?, Named { resource, namespace, name });
            let object = shared.change(|cluster| cluster.update(of, object, part, how))?;
            Ok(shown(object, StatusCode::OK))
        }
        (&Method::PATCH, Some(name)) => patch(shared, Named { resource, namespace, name }, part, call)
            .map(|(object, code)| shown(object, code)),
        (&Method::DELETE, Some(name)) if part == Part::Main => {
            let how = call.deletion()?;
            let (object, is_gone) =
                shared.change(|cluster| cluster.delete(resource, namespace, name, &how))?;
            // As in a real API server, some kinds answer with their last state.
            let answers_itself = matches!(resource.key().as_str(), PODS | NAMESPACES);
            Ok(if is_gone && !answers_itself {
                gone(resource, name, &object)
            } else {
                shown(object, StatusCode::OK)
            })
        }
        (&Method::DELETE, None) => delete_all(shared, resource, namespace, call),
        _ => Err(Refused::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )),
    }
}

fn list(shared: &Shared, resource: &Resource, namespace: &str, call: &Call) -> Result<Response, Refused> {
    let selector = call.selector(resource)?;
    let revision = match (call.text("resourceVersion"), call.text("resourceVersionMatch")) {
        ("" | "0", _) => None,
        (_, "Exact") => call.number("resourceVersion")?,
        _ => {
            let (at_least, newest) =
                (call.number("resourceVersion")?.unwrap_or(0), shared.cluster().revision());
            if at_least > newest {
                return Err(Refused::too_new(at_least, newest));
            }
            None
        }
    };
    let query = Query {
        namespace: namespace.to_string(),
        limit: call.number("limit")?.map_or(0, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        from: call.text("continue").to_string(),
        revision,
        selector,
    };
    let page = shared.cluster().list(resource, &query)?;
    Ok(many(shared, resource, &page, query.selector.is_everything(), call.form()))
}

fn patch(
    shared: &Shared,
    of: Named<'_>,
    part: Part,
    call: &Call,
) -> Result<(Arc<Value>, StatusCode), Refused> {
    let way = Patch::of(call.header(header::CONTENT_TYPE)).ok_or_else(|| {
        Refused::unsupported(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/strategic-merge-patch+json, application/apply-patch+yaml",
        )
    })?;
    if way == Patch::Apply && call.text("fieldManager").is_empty() {
        let fault = ("fieldManager".to_string(), "Required value: is required for apply patch".to_string());
        return Err(Refused::invalid("PatchOptions", "", &[fault]));
    }
    let (patch, how) = (call.value()?, call.how()?);
    shared.change(|cluster| {
        let is_new = cluster.get(of.resource, of.namespace, of.name).is_err();
        let object = cluster.patch(of, way, patch, part, how)?;
        Ok((object, if is_new { StatusCode::CREATED } else { StatusCode::OK }))
    })
}

fn delete_all(
    shared: &Shared,
    resource: &Resource,
    namespace: &str,
    call: &Call,
) -> Result<Response, Refused> {
    let how = call.deletion()?;
    let selector = call.selector(resource)?;
    let query = Query { namespace: namespace.to_string(), selector, ..Query::default() };
    let page = shared.change(|cluster| {
        let mut page = cluster.list(resource, &query)?;
        for object in &mut page.items {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_string();
            match cluster.delete(resource, &text("namespace"), &text("name"), &how) {
                Ok((after, _)) => *object = after,
                // It went with its owner, which was one of them too.
                Err(refused) if refused.code == 404 => {}
                Err(refused) => return Err(refused),
            }
        }
        Ok::<Page, Refused>(Page { revision: cluster.revision(), ..page })
    })?;
    Ok(many(shared, resource, &page, false, call.form()))
}

fn bind(shared: &Shared, of: Named<'_>, call: &Call) -> Result<Response, Refused> {
    let (binding, how): (Value, How) = (call.value()?, call.how()?);
    shared.change(|cluster| cluster.bind(of, &binding, how))?;
    let mut response = answer(
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    );
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}
