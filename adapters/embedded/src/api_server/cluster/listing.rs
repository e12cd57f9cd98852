//! Lists, whole or in pages. All pages of a list show one version of the cluster, so that a watch from there misses
//! nothing.

use super::{Cluster, Key};
use crate::api_server::resource::Resource;
use crate::api_server::selector::Selector;
use crate::api_server::status::Refused;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a list is asked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// All namespaces when it is empty.
    pub namespace: String,
    /// Which objects.
    pub selector: Selector,
    /// How many at most; 0 is all.
    pub limit: usize,
    /// Where to go on, as the page before said.
    pub from: String,
    /// The version to show; the newest when there is none.
    pub revision: Option<u64>,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// The objects, in the order of their namespaces and names.
    pub items: Vec<Arc<Value>>,
    /// The version that it shows.
    pub revision: u64,
    /// Where the next page begins; empty when there is none.
    pub next: String,
    /// How many objects are on later pages.
    pub remaining: usize,
}

impl Cluster {
    /// A page of objects.
    ///
    /// # Errors
    /// 410 when the version to show is no longer known or the place to go on from makes no sense, 504 when the version is
    /// in the future.
    pub fn list(&self, resource: &Resource, query: &Query) -> Result<Page, Refused> {
        let mut start = Key::new(resource, &query.namespace, "");
        let mut revision = query.revision.unwrap_or(self.revision);
        if !query.from.is_empty() {
            let (at, namespace, name) = read_token(&query.from).ok_or_else(|| {
                Refused::gone("The provided continue parameter makes no sense; list again without it")
            })?;
            revision = at;
            start = Key::new(resource, &namespace, &name);
        }
        if revision > self.revision {
            return Err(Refused::too_new(revision, self.revision));
        }
        let past = self.changed_since(resource, revision)?;
        let matching = |key: &Key, object: &Value| {
            key.resource == start.resource
                && (query.namespace.is_empty() || key.namespace == query.namespace)
                && (query.from.is_empty() || *key != start)
                && query.selector.matches(object)
        };
        let mut found: Vec<(&Key, &Arc<Value>)> = self
            .objects
            .range(&start..)
            .take_while(|(key, _)| key.resource == start.resource)
            .filter(|(key, _)| !past.contains_key(*key))
            .filter(|(key, object)| matching(key, object))
            .collect();
        if !past.is_empty() {
            let old = past.range::<Key, _>(&start..).filter_map(|(key, object)| Some((*key, (*object)?)));
            found.extend(old.filter(|(key, object)| matching(key, object)));
            found.sort_by_key(|(key, _)| *key);
        }
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let remaining = found.len().saturating_sub(limit);
        found.truncate(limit);
        let next = match found.last() {
            Some((key, _)) if remaining > 0 => token(revision, key),
            _ => String::new(),
        };
        let items = found.into_iter().map(|(_, object)| object.clone()).collect();
        Ok(Page { items, revision, next, remaining })
    }

    /// The objects of a kind that were others, or not there, at a version.
    #[allow(clippy::type_complexity, reason = "a map from keys to what was there")]
    fn changed_since(
        &self,
        resource: &Resource,
        revision: u64,
    ) -> Result<BTreeMap<&Key, Option<&Arc<Value>>>, Refused> {
        let mut past = BTreeMap::new();
        if revision == self.revision {
            return Ok(past);
        }
        let kind = resource.key();
        for event in self.events_after(revision)? {
            if event.key.resource == kind {
                past.entry(&event.key).or_insert(event.before.as_ref());
            }
        }
        Ok(past)
    }
}

fn token(revision: u64, key: &Key) -> String {
    URL_SAFE_NO_PAD.encode(format!("{revision}/{}/{}", key.namespace, key.name))
}

fn read_token(token: &str) -> Option<(u64, String, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let mut parts = text.splitn(3, '/');
    Some((parts.next()?.parse().ok()?, parts.next()?.to_string(), parts.next()?.to_string()))
}
