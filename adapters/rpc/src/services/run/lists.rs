//! ListRuns and ListActions.

use crate::Fault;
use crate::call::Call;
use crate::convert::{from_proto, to_proto};
use crate::runs;
use flyte_core::listing::{Function, RawFilter, RawSort, Request, Resource, parse};
use flyte_core::text;
use flyte_proto::{common, workflow as w};
use flyte_store::RunScope;

pub async fn list_runs(call: Call, request: w::ListRunsRequest) -> Result<w::ListRunsResponse, Fault> {
    use w::list_runs_request::ScopeBy;
    if request.paused_actions_only {
        // Nothing pauses yet, so no run has a paused action.
        return Ok(w::ListRunsResponse::default());
    }
    let scope = match request.scope_by {
        Some(ScopeBy::Org(org)) => RunScope::Org(from_proto::org(&org)),
        Some(ScopeBy::ProjectId(id)) => {
            RunScope::Project { org: from_proto::org(&id.organization), project: id.name, domain: id.domain }
        }
        Some(ScopeBy::TaskName(name)) => RunScope::TaskName {
            org: from_proto::org(&name.org),
            project: name.project,
            domain: name.domain,
            name: name.name,
        },
        Some(ScopeBy::TaskId(id)) => RunScope::Task(from_proto::task_id(&id)),
        // There are no triggers yet, so none has started a run.
        Some(ScopeBy::TriggerName(_)) => return Ok(w::ListRunsResponse::default()),
        None => {
            return Err(Fault::invalid(
                "scope_by",
                "one of org, project_id, task_name and task_id is required",
            ));
        }
    };
    let page = call.store.list_runs(&scope, &list_request(Resource::Runs, request.request.as_ref())?).await?;
    let now = call.store.clock().now();
    Ok(w::ListRunsResponse {
        runs: page.items.iter().map(|(run, root)| to_proto::run(run, root, now)).collect(),
        token: page.next_token,
    })
}

pub async fn list_actions(
    call: Call,
    request: w::ListActionsRequest,
) -> Result<w::ListActionsResponse, Fault> {
    let id = from_proto::required_run_id(request.run_id.as_ref(), "run_id")?;
    let list = list_request(Resource::Actions, request.request.as_ref())?;
    let page = call.store.list_actions(&id, &list).await?;
    if page.items.is_empty() {
        // An empty page is an answer only for a run that is there.
        runs::required_action(&call, &id.root()).await?;
    }
    let now = call.store.clock().now();
    Ok(w::ListActionsResponse {
        actions: page.items.iter().map(|row| to_proto::action(row, None, now)).collect(),
        token: page.next_token,
    })
}

fn list_request(resource: Resource, request: Option<&common::ListRequest>) -> Result<Request, Fault> {
    let default = common::ListRequest::default();
    let request = request.unwrap_or(&default);
    if !request.raw_filters.is_empty() {
        return Err(Fault::invalid("request.raw_filters", "they are not understood; use request.filters"));
    }
    let filters = raw_filters(&request.filters, "request.filters")?;
    // The older single field counts when the newer ones are absent.
    #[allow(deprecated, reason = "clients still send it")]
    let older = request.sort_by.iter();
    let sorts = if request.sort_by_fields.is_empty() {
        older.cloned().collect()
    } else {
        request.sort_by_fields.clone()
    };
    let sorts: Vec<RawSort> = sorts
        .into_iter()
        .map(|sort| RawSort {
            ascending: sort.direction == i32::from(common::sort::Direction::Ascending),
            key: sort.key,
        })
        .collect();
    parse(resource, request.limit, &request.token, &filters, &sorts)
        .map_err(|invalid| Fault::invalid(format!("request.{}", invalid.field), invalid.message))
}

/// Filters with their functions known.
pub fn raw_filters(filters: &[common::Filter], field: &str) -> Result<Vec<RawFilter>, Fault> {
    filters
        .iter()
        .enumerate()
        .map(|(index, filter)| {
            let function = Function::from_number(filter.function).ok_or_else(|| {
                Fault::invalid(
                    format!("{field}[{index}].function"),
                    format!("{} is not a function that is known", filter.function),
                )
            })?;
            Ok(RawFilter {
                function,
                field: text::bounded(&filter.field, 512),
                values: filter.values.clone(),
            })
        })
        .collect()
}
