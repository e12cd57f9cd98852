//! The watches of RunService.

use crate::Fault;
use crate::call::Call;
use crate::convert::{from_proto, to_proto};
use crate::runs;
use crate::watch::{self, Item, Many, News};
use flyte_core::listing::{self, Resource};
use flyte_core::{ActionId, Phase};
use flyte_proto::{common, workflow as w};
use flyte_store::{ActionRow, RunScope, TaskId, Topic};
use futures::{Stream, StreamExt};
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn watch_run_details(
    call: Call,
    request: w::WatchRunDetailsRequest,
) -> impl Stream<Item = Result<w::WatchRunDetailsResponse, Fault>> + Send {
    async_stream::try_stream! {
        let id = from_proto::required_run_id(request.run_id.as_ref(), "run_id")?;
        let rows = watch::action(call.clone(), id.root());
        futures::pin_mut!(rows);
        while let Some(row) = rows.next().await {
            let details = runs::run_details(&call, &*row?).await?;
            yield w::WatchRunDetailsResponse { details: Some(details) };
        }
    }
}

pub fn watch_action_details(
    call: Call,
    request: w::WatchActionDetailsRequest,
) -> impl Stream<Item = Result<w::WatchActionDetailsResponse, Fault>> + Send {
    async_stream::try_stream! {
        let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
        let rows = watch::action(call.clone(), id);
        futures::pin_mut!(rows);
        while let Some(row) = rows.next().await {
            let details = runs::details(&call, &*row?).await?;
            yield w::WatchActionDetailsResponse { details: Some(details) };
        }
    }
}

pub fn watch_cluster_events(
    call: Call,
    request: w::WatchClusterEventsRequest,
) -> impl Stream<Item = Result<w::WatchClusterEventsResponse, Fault>> + Send {
    async_stream::try_stream! {
        let id = from_proto::required_action_id(request.id.as_ref(), "id")?;
        let rows = watch::action(call.clone(), id.clone());
        futures::pin_mut!(rows);
        let mut after = 0;
        while let Some(row) = rows.next().await {
            row?;
            let new = call.store.transitions(&id, after, call.limits.page).await?;
            after = new.last().map_or(after, |last| last.seq);
            let cluster_events: Vec<_> = new
                .iter()
                .filter(|transition| transition.attempt == request.attempt)
                .filter_map(to_proto::cluster_event)
                .collect();
            if !cluster_events.is_empty() {
                yield w::WatchClusterEventsResponse { cluster_events };
            }
        }
    }
}

/// The runs that a watch is about.
enum Target {
    Org(String),
    Project(common::ProjectIdentifier),
    Task(TaskId),
    All,
}

impl Target {
    fn topic(&self) -> Topic {
        match self {
            Self::Project(id) => Topic::Project {
                org: from_proto::org(&id.organization),
                project: id.name.clone(),
                domain: id.domain.clone(),
            },
            Self::Org(_) | Self::Task(_) | Self::All => Topic::All,
        }
    }

    fn scope(&self) -> RunScope {
        match self {
            Self::Org(org) => RunScope::Org(org.clone()),
            Self::Project(id) => RunScope::Project {
                org: from_proto::org(&id.organization),
                project: id.name.clone(),
                domain: id.domain.clone(),
            },
            Self::Task(id) => RunScope::Task(id.clone()),
            Self::All => RunScope::All,
        }
    }

    fn has(&self, root: &ActionRow) -> bool {
        match self {
            Self::Org(org) => root.action.id.run.org == *org,
            Self::Task(id) => root.meta.task.as_ref() == Some(id),
            Self::Project(_) | Self::All => true,
        }
    }
}

/// The newest runs of the target, then every run that changes.
pub fn watch_runs(
    call: Call,
    request: w::WatchRunsRequest,
) -> impl Stream<Item = Result<w::WatchRunsResponse, Fault>> + Send {
    use w::watch_runs_request::Target as Wire;
    async_stream::try_stream! {
        let target = match request.target {
            Some(Wire::Org(org)) => Target::Org(from_proto::org(&org)),
            Some(Wire::ProjectId(id)) => Target::Project(id),
            Some(Wire::TaskId(id)) => Target::Task(from_proto::task_id(&id)),
            // There is one cluster.
            Some(Wire::ClusterId(_)) => Target::All,
            None => Err(Fault::invalid("target", "one of org, cluster_id, project_id and task_id is required"))?,
        };
        let mut changes = call.store.subscribe(target.topic());
        let mut said: BTreeMap<ActionId, i64> = BTreeMap::new();
        loop {
            let mut request = listing::Request::first(Resource::Runs);
            request.limit = listing::LIMIT_MAX;
            let page = call.store.list_runs(&target.scope(), &request).await?;
            let now = call.store.clock().now();
            let mut runs = Vec::new();
            for (run, root) in page.items.iter().rev() {
                if said.get(&root.action.id).is_none_or(|seq| *seq < root.seq) {
                    said.insert(root.action.id.clone(), root.seq);
                    runs.push(to_proto::run(run, root, now));
                }
            }
            if !runs.is_empty() {
                yield w::WatchRunsResponse { runs };
            }
            while let News::Changed(row) = watch::next(&call, &mut changes).await? {
                let is_news = row.action.id.is_root()
                    && target.has(&row)
                    && said.get(&row.action.id).is_none_or(|seq| *seq < row.seq);
                if !is_news {
                    continue;
                }
                // A run that has ended says nothing more; forgetting it keeps the memory of a long watch small.
                if row.action.phase.is_terminal() && !row.action.in_cluster {
                    said.remove(&row.action.id);
                } else {
                    said.insert(row.action.id.clone(), row.seq);
                }
                if let Some(run) = call.store.run(&row.action.id.run).await? {
                    yield w::WatchRunsResponse { runs: vec![to_proto::run(&run, &row, call.store.clock().now())] };
                }
            }
        }
    }
}

/// All actions of a run, then every one that changes, and its parent when that makes its children's counts others.
pub fn watch_actions(
    call: Call,
    request: w::WatchActionsRequest,
) -> impl Stream<Item = Result<w::WatchActionsResponse, Fault>> + Send {
    async_stream::try_stream! {
        let id = from_proto::required_run_id(request.run_id.as_ref(), "run_id")?;
        let filters = filters(&request.filter)?;
        runs::required_action(&call, &id.root()).await?;
        let items = watch::many(call.clone(), Many::Run(id.clone()));
        futures::pin_mut!(items);
        let mut counts = Counts::default();
        let mut caught_up = false;
        while let Some(item) = items.next().await {
            let rows = match item? {
                Item::Rows(rows) => rows,
                Item::CaughtUp => {
                    caught_up = true;
                    continue;
                }
            };
            let mut parents: BTreeMap<String, ()> = BTreeMap::new();
            for row in &rows {
                if let Some(parent) = counts.note(row) {
                    parents.insert(parent, ());
                }
            }
            for row in &rows {
                parents.remove(&row.action.id.name);
            }
            let mut enriched_actions: Vec<_> =
                rows.iter().map(|row| counts.enriched(&call, row, &filters)).collect();
            if caught_up {
                for (parent, ()) in parents {
                    if let Some(row) = runs::action(&call, &id.action(parent)).await? {
                        enriched_actions.push(counts.enriched(&call, &row, &filters));
                    }
                }
            }
            yield w::WatchActionsResponse { enriched_actions };
        }
    }
}

/// How many children of each action are in each phase.
#[derive(Default)]
struct Counts {
    phases: BTreeMap<String, Phase>,
    children: BTreeMap<String, BTreeMap<i32, i32>>,
}

impl Counts {
    /// Takes an action's phase in; the parent whose counts have changed by it.
    fn note(&mut self, row: &ActionRow) -> Option<String> {
        let action = &row.action;
        let before = self.phases.insert(action.id.name.clone(), action.phase);
        if before == Some(action.phase) {
            return None;
        }
        let parent = action.parent.clone()?;
        let counts = self.children.entry(parent.clone()).or_default();
        if let Some(before) = before
            && let Some(count) = counts.get_mut(&before.number())
        {
            *count -= 1;
        }
        *counts.entry(action.phase.number()).or_default() += 1;
        counts.retain(|_, count| *count > 0);
        Some(parent)
    }

    fn enriched(&self, call: &Call, row: &Arc<ActionRow>, filters: &[ActionFilter]) -> w::EnrichedAction {
        w::EnrichedAction {
            action: Some(to_proto::action(row, None, call.store.clock().now())),
            meets_filter: filters.iter().all(|filter| filter.holds(row)),
            children_phase_counts: self.children.get(&row.action.id.name).cloned().unwrap_or_default(),
        }
    }
}

/// The filters that a watch of actions takes: the rows that don't meet them are sent all the same, marked.
enum ActionFilter {
    Phases(Vec<Phase>),
    NameContains(String),
}

impl ActionFilter {
    fn holds(&self, row: &ActionRow) -> bool {
        match self {
            Self::Phases(phases) => phases.contains(&row.action.phase),
            Self::NameContains(part) => {
                let task = row.meta.task.as_ref().map_or("", |task| task.name.as_str());
                [row.action.id.name.as_str(), row.meta.short_name.as_str(), task]
                    .iter()
                    .any(|name| name.to_lowercase().contains(part))
            }
        }
    }
}

fn filters(filters: &[common::Filter]) -> Result<Vec<ActionFilter>, Fault> {
    let raw = super::lists::raw_filters(filters, "filter")?;
    raw.into_iter()
        .enumerate()
        .map(|(index, filter)| {
            let at = |part: &str| format!("filter[{index}].{part}");
            match filter.field.to_ascii_lowercase().as_str() {
                "phase" => {
                    let phases = filter.values.iter().map(|value| {
                        value.parse().ok().and_then(Phase::from_number).or_else(|| Phase::parse(value))
                    });
                    phases
                        .collect::<Option<Vec<_>>>()
                        .map(ActionFilter::Phases)
                        .ok_or_else(|| Fault::invalid(at("values"), "expected names or numbers of phases"))
                }
                "name" => match filter.values.as_slice() {
                    [part] => Ok(ActionFilter::NameContains(part.to_lowercase())),
                    _ => Err(Fault::invalid(at("values"), "it takes exactly one value")),
                },
                _ => Err(Fault::invalid(at("field"), "a watch of actions is filtered by phase or name")),
            }
        })
        .collect()
}
