//! The life of one action and its attempts, as it is stored.

use crate::failure::{Failure, Origin};
use crate::pod::PodRef;
use crate::{ActionId, Phase, Timestamp};
use serde::{Deserialize, Serialize};

/// What an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Kind {
    /// A task that the executor runs as Pods.
    Task,
    /// A step that a task has already run inside itself and only records.
    Trace,
    /// A wait for a person's signal.
    Condition,
}

/// What the action's author and the configuration allow it. Fixed when the action is enqueued.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Further attempts after failures of the user's (`retries = N` allows N + 1 attempts).
    pub user_retries: u32,
    /// Further attempts after failures of the cluster's.
    pub system_retries: u32,
    /// How long one attempt may run, from RUNNING on.
    pub attempt_timeout_ms: Option<u64>,
    /// How long one attempt may wait before RUNNING.
    pub queued_timeout_ms: Option<u64>,
    /// How long the whole action may take, from its creation on; it never starts anew.
    pub deadline_ms: Option<u64>,
    /// The wait before the second attempt; it doubles from attempt to attempt.
    pub backoff_base_ms: u64,
    /// The longest wait between two attempts.
    pub backoff_cap_ms: u64,
    /// Whether the task's interface declares outputs, so that success needs a readable `outputs.pb`.
    pub outputs_needed: bool,
}

/// An action that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAction {
    /// Its identity.
    pub id: ActionId,
    /// The name of its parent in the same run; `None` for the root.
    pub parent: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// The group that it is shown in; empty for none.
    pub group: String,
    /// Where its inputs are.
    pub input_uri: String,
    /// Where the run's outputs go: those of an attempt to `{run_output_base}/{action}/{attempt}`.
    pub run_output_base: String,
    /// What it is allowed.
    pub policy: Policy,
    /// For a trace: how the step ended. A task and a condition have none.
    pub recorded: Option<Recorded>,
    /// A digest of everything that the client asked for; equal digests are the same request (S5).
    pub request_digest: String,
}

/// The end of a step that was recorded after the fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// `Succeeded` or `Failed`.
    pub phase: Phase,
    /// When the step began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Where its outputs are; echoed to the parent unchanged.
    pub output_uri: String,
    /// Why it failed.
    pub failure: Option<Failure>,
}

/// One try of an action: one Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// Where the attempt is.
    pub phase: Phase,
    /// When it was decided on.
    pub created_at: Timestamp,
    /// No Pod is created for it before this time.
    pub not_before: Timestamp,
    /// Its Pod, once the cluster is known to have it.
    pub pod: Option<PodRef>,
    /// When its primary container started.
    pub running_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What it waits for, for people; empty when nothing is remarkable.
    pub message: String,
    /// Since when its Pod has not been starting, for a reason that may pass; ends with the grace.
    pub stuck_since: Option<Timestamp>,
    /// How often in a row the cluster has refused to create its Pod.
    pub creates_refused: u32,
    /// How many of the last refusals in a row were for a reason that does not pass by itself.
    #[serde(default)]
    pub creates_denied: u32,
    /// Why it failed.
    pub failure: Option<Failure>,
}

impl Attempt {
    /// A fresh attempt.
    pub fn new(number: u32, now: Timestamp, not_before: Timestamp) -> Self {
        Self {
            number,
            phase: Phase::Queued,
            created_at: now,
            not_before,
            pod: None,
            running_at: None,
            ended_at: None,
            message: String::new(),
            stuck_since: None,
            creates_refused: 0,
            creates_denied: 0,
            failure: None,
        }
    }
}

/// Everything that is known of one action. Changed by [`crate::step`] alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its identity.
    pub id: ActionId,
    /// The name of its parent in the same run; `None` for the root.
    pub parent: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// The group that it is shown in; empty for none.
    pub group: String,
    /// Where its inputs are.
    pub input_uri: String,
    /// Where the run's outputs go.
    pub run_output_base: String,
    /// What it is allowed.
    pub policy: Policy,
    /// The digest of the request that made it.
    pub request_digest: String,
    /// Where it is.
    pub phase: Phase,
    /// Its attempts, oldest first; the last is the current one. Traces and conditions have one without a Pod.
    pub attempts: Vec<Attempt>,
    /// Attempts that the user's failures have used up.
    pub user_failures: u32,
    /// Attempts that the cluster's failures have used up.
    pub system_failures: u32,
    /// Why it failed or timed out.
    pub failure: Option<Failure>,
    /// Why and by whom it was aborted.
    pub abort: Option<Abort>,
    /// Where its outputs are, once it has succeeded: the prefix for a task, the recorded URI for a trace.
    pub output_uri: String,
    /// The state document that was last put for it, by the executor or by a client.
    pub state: String,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its first attempt began to run.
    pub started_at: Option<Timestamp>,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Whether objects of it may still be in the cluster; the executor removes them and then clears this.
    pub in_cluster: bool,
    /// How many changes it has seen; the first is 1.
    pub version: u64,
}

/// Why an action was aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    /// The reason, as given.
    pub reason: String,
    /// Who asked for it; empty when unknown.
    pub by: String,
}

impl Action {
    /// The action that `new` asks for, as it is stored first.
    pub fn admit(new: NewAction, now: Timestamp) -> Self {
        let mut attempt = Attempt::new(1, now, now);
        let mut action = Self {
            id: new.id,
            parent: new.parent,
            kind: new.kind,
            group: new.group,
            input_uri: new.input_uri,
            run_output_base: new.run_output_base,
            policy: new.policy,
            request_digest: new.request_digest,
            phase: match new.kind {
                Kind::Condition => Phase::Paused,
                Kind::Task | Kind::Trace => Phase::Queued,
            },
            attempts: Vec::new(),
            user_failures: 0,
            system_failures: 0,
            failure: None,
            abort: None,
            output_uri: String::new(),
            state: String::new(),
            created_at: now,
            started_at: None,
            updated_at: now,
            ended_at: None,
            in_cluster: new.kind == Kind::Task,
            version: 1,
        };
        attempt.phase = action.phase;
        if let Some(recorded) = new.recorded {
            let ended_at = recorded
                .ended_at
                .unwrap_or(now)
                .max(recorded.started_at.unwrap_or(Timestamp::from_ms(i64::MIN)));
            action.phase = recorded.phase;
            action.started_at = recorded.started_at.or(Some(ended_at));
            action.created_at = action.started_at.unwrap_or(now).min(now);
            action.ended_at = Some(ended_at);
            action.output_uri = recorded.output_uri;
            action.failure = recorded.failure.or_else(|| {
                (recorded.phase == Phase::Failed).then(|| Failure::permanent(Origin::User, "", ""))
            });
            attempt.phase = recorded.phase;
            attempt.created_at = action.created_at;
            attempt.running_at = action.started_at;
            attempt.ended_at = action.ended_at;
            attempt.failure = action.failure.clone();
        }
        action.attempts.push(attempt);
        action.state = crate::state_document::render(&action);
        action
    }

    /// The current attempt.
    ///
    /// # Panics
    /// Never for an action that this crate made or that was checked after loading: A2 in `INVARIANTS.md`.
    pub fn attempt(&self) -> &Attempt {
        self.attempts.last().expect("an action has at least one attempt (A2)")
    }

    /// The current attempt, to change it.
    pub(crate) fn attempt_mut(&mut self) -> &mut Attempt {
        self.attempts.last_mut().expect("an action has at least one attempt (A2)")
    }

    /// The prefix that the outputs of attempt `number` go under. The SDK depends on its form.
    pub fn output_prefix(&self, number: u32) -> String {
        format!("{}/{}/{number}", self.run_output_base.trim_end_matches('/'), self.id.name)
    }

    /// The identity of the parent; `None` for the root.
    pub fn parent_id(&self) -> Option<ActionId> {
        self.parent.as_ref().map(|name| self.id.run.action(name.clone()))
    }

    /// How long it took, or has taken until `now`, in milliseconds.
    pub fn duration_ms(&self, now: Timestamp) -> u64 {
        self.ended_at.unwrap_or(now).since_ms(self.started_at.unwrap_or(self.created_at))
    }
}
