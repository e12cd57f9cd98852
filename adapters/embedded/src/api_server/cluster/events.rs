//! Events as objects: they are many and of use for a short time, so that they go by themselves.

use super::{Cluster, Key};
use flyte_core::Timestamp;
use serde_json::Value;

/// How long an event is kept, as in a real API server.
const TTL_MS: u64 = 60 * 60 * 1_000;
/// How many are kept at most.
const KEPT_MAX: usize = 5_000;

/// An event that will go.
pub(super) struct Kept {
    since: Timestamp,
    uid: String,
    key: Key,
}

impl Cluster {
    /// Notes an event that is new, and takes old ones away.
    pub(super) fn keep_event(&mut self, key: &Key, event: &Value) {
        let now = (self.now)();
        let uid = event["metadata"]["uid"].as_str().unwrap_or_default().to_string();
        self.kept_events.push_back(Kept { since: now, uid, key: key.clone() });
        while let Some(oldest) = self.kept_events.front() {
            if self.kept_events.len() <= KEPT_MAX && now.since_ms(oldest.since) < TTL_MS {
                break;
            }
            if let Some(oldest) = self.kept_events.pop_front()
                && self.uids.get(&oldest.uid) == Some(&oldest.key)
            {
                self.remove(&oldest.key, None);
            }
        }
    }
}
