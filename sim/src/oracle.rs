//! What has to hold, watched from outside while a world runs, and checked at its end.

use flyte_core::{Action, Phase};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Seen {
    violations: Vec<String>,
    /// Runs that the manager has acknowledged.
    acknowledged: BTreeSet<String>,
    /// Runs whose abort the manager has acknowledged.
    aborted: BTreeSet<String>,
    /// How runs had ended when a watcher was first told so.
    ends: BTreeMap<String, Action>,
    /// The furthest that watchers were told of each action, by stream: attempt and rank.
    furthest: BTreeMap<(u64, String), (u32, u8)>,
    /// The uid of each Pod by name, and whether it has been seen to have ended.
    pods: BTreeMap<String, (String, bool)>,
    pods_seen: u64,
    streamed: u64,
}

/// Remembers and compares.
#[derive(Default)]
pub struct Oracle(Mutex<Seen>);

impl Oracle {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that must not be.
    pub fn violation(&self, id: &str, what: impl std::fmt::Display) {
        let mut seen = self.seen();
        if seen.violations.len() < 20 {
            seen.violations.push(format!("{id}: {what}"));
        }
    }

    /// A run was acknowledged.
    pub fn acknowledged(&self, name: &str) {
        self.seen().acknowledged.insert(name.to_string());
    }

    /// An abort was acknowledged.
    pub fn aborted(&self, name: &str) {
        self.seen().aborted.insert(name.to_string());
    }

    /// All runs that were acknowledged.
    pub fn runs(&self) -> Vec<String> {
        self.seen().acknowledged.iter().cloned().collect()
    }

    /// What a stream tells of an action (S8, S9).
    pub fn streamed(&self, stream: u64, name: &str, attempt: u32, phase: Phase) {
        let mut seen = self.seen();
        seen.streamed += 1;
        let told = (attempt, phase.rank());
        let key = (stream, name.to_string());
        let before = seen.furthest.get(&key).copied();
        if before.is_some_and(|before| before > told) {
            seen.violations
                .push(format!("S8: stream {stream} went back from {before:?} to {told:?} of {name}"));
        }
        seen.furthest.insert(key, told);
    }

    /// The Pods that there are (S3): one live Pod for an action, and never two of one name.
    pub fn pods(&self, pods: &[Value]) {
        let mut seen = self.seen();
        let mut live: BTreeMap<String, u32> = BTreeMap::new();
        for pod in pods {
            let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default().to_string();
            let (name, uid) = (text("/metadata/name"), text("/metadata/uid"));
            let ended = matches!(text("/status/phase").as_str(), "Succeeded" | "Failed");
            match seen.pods.get(&name).cloned() {
                // A Pod that was lost before the database knew of it may be made again; one that had ended may not.
                Some((known, true)) if known != uid => {
                    seen.violations
                        .push(format!("S3: Pod {name} had ended as {known} and was made again as {uid}"));
                }
                Some((known, _)) if known == uid => {}
                _ => seen.pods_seen += 1,
            }
            seen.pods.insert(name, (uid, ended));
            if pod["metadata"]["deletionTimestamp"].is_null() && !ended {
                *live.entry(text("/metadata/labels/flyte.org~1action-hash")).or_default() += 1;
            }
        }
        for (hash, count) in live {
            if count > 1 {
                seen.violations.push(format!("S3: action {hash} has {count} live Pods"));
            }
        }
    }

    /// An action as the database has it at some moment: an end never changes (S1).
    pub fn stored(&self, action: &Action) {
        let mut seen = self.seen();
        if !action.phase.is_terminal() {
            if seen.ends.contains_key(&action.id.to_string()) {
                seen.violations.push(format!("S1: {} had ended and goes on", action.id));
            }
            return;
        }
        let comparable = Action {
            in_cluster: false,
            version: 0,
            updated_at: action.ended_at.unwrap_or(action.created_at),
            ..action.clone()
        };
        match seen.ends.get(&action.id.to_string()) {
            Some(first) if *first != comparable => {
                let text = format!("S1: {} had ended as {} and is {}", action.id, first.phase, action.phase);
                seen.violations.push(text);
            }
            Some(_) => {}
            None => {
                seen.ends.insert(action.id.to_string(), comparable);
            }
        }
    }

    /// Checks at the end: every run that was acknowledged is there and has ended as it should (S2, L1, L4).
    pub fn finished(&self, actions: &BTreeMap<String, Vec<Action>>) {
        for name in self.runs() {
            let Some(all) = actions.get(&name).filter(|all| !all.is_empty()) else {
                self.violation("S2", format!("run {name} was acknowledged and is not there"));
                continue;
            };
            for action in all {
                if !action.phase.is_terminal() {
                    self.violation(
                        "L1",
                        format!("{} is still {}: {:?}", action.id, action.phase, action.attempt()),
                    );
                }
                if action.in_cluster {
                    self.violation("L4", format!("{} was not collected", action.id));
                }
                let allowed = action.policy.user_retries + action.policy.system_retries + 1;
                if action.attempts.len() as u32 > allowed {
                    self.violation(
                        "S11",
                        format!("{} had {} attempts of {allowed}", action.id, action.attempts.len()),
                    );
                }
            }
            let aborted = self.seen().aborted.contains(&name);
            if aborted && all.iter().any(|action| !action.phase.is_terminal()) {
                self.violation("L4", format!("run {name} was aborted and goes on"));
            }
        }
    }

    /// What was found, and how much was looked at.
    pub fn report(&self) -> (Vec<String>, u64, u64) {
        let seen = self.seen();
        (seen.violations.clone(), seen.pods_seen, seen.streamed)
    }
}
