//! What the executor does next in the cluster for one action. One command at a time: it is performed, its answer is
//! fed back, and the plan is made anew from what is then known.

use crate::failure::Origin;
use crate::pod::{Finish, Graces, Observation, PodRef, Proof, Verdict, classify};
use crate::{Action, Attempt, Failure, Input, Kind, Phase, Timestamp};

/// How the executor is set, as far as plans depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long the TaskAction of an ended action stays.
    pub ttl_ms: u64,
    /// Patience while a Pod does not start.
    pub graces: Graces,
    /// How long a Pod may wait for a node before its attempt is given up; `None` is for ever.
    pub pending_timeout_ms: Option<u64>,
    /// How long beyond its grace a Pod under deletion is waited for, before the next attempt goes on without it: a
    /// dead node's Pods never leave by themselves.
    pub terminating_patience_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl_ms: 3_600_000,
            graces: Graces::default(),
            pending_timeout_ms: None,
            terminating_patience_ms: 60_000,
        }
    }
}

/// What is seen of one action in the cluster. Only objects that are ours by label and owner are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// The TaskAction of that name.
    pub task_action: Option<TaskActionView>,
    /// All Pods of the action, of any attempt.
    pub pods: Vec<PodView>,
}

/// What is seen of a TaskAction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskActionView {
    /// Its uid.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The projection that its status shows; `None` when it has none yet.
    pub shown: Option<Projection>,
}

/// What is seen of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Its name and uid.
    pub pod: PodRef,
    /// The attempt that its label names.
    pub attempt: u32,
    /// Its status.
    pub observation: Observation,
}

/// What a TaskAction's status shows of its action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    /// The phase.
    pub phase: Phase,
    /// The current attempt.
    pub attempt: u32,
    /// The message for people; empty when nothing is remarkable.
    pub message: String,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Create the TaskAction.
    CreateTaskAction,
    /// Create the Pod of the current attempt, owned by the TaskAction of this uid.
    CreatePod {
        /// The attempt.
        attempt: u32,
        /// The owner's uid.
        owner_uid: String,
    },
    /// Delete a Pod that is no longer needed, by uid.
    DeletePod(PodRef),
    /// Look for the Pod at the API server itself, since the watch does not show it. When it is really gone, find out
    /// from its outputs how the attempt ended.
    ConfirmGone {
        /// The attempt.
        attempt: u32,
        /// The Pod that is missing.
        pod: PodRef,
    },
    /// Read the attempt's outputs and conclude how it ended.
    Conclude {
        /// The attempt.
        attempt: u32,
        /// What the Pod proves.
        finish: Finish,
    },
    /// Apply an input to the action.
    Apply(Input),
    /// Show the action in its TaskAction's status.
    Show(Projection),
    /// Delete the TaskAction, by uid.
    DeleteTaskAction {
        /// Its uid.
        uid: String,
    },
}

/// What to do, and when to look again though nothing was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The next thing to do; `None` when there is nothing to do now.
    pub command: Option<Command>,
    /// When to plan again at the latest; `None` when only news can change the plan.
    pub wake_at: Option<Timestamp>,
    /// Why there is nothing to do now, for people and for the simulator's `pending()`.
    pub waits_for: &'static str,
}

impl Plan {
    fn act(command: Command) -> Self {
        Self { command: Some(command), wake_at: None, waits_for: "" }
    }

    fn wait(waits_for: &'static str, wake_at: Option<Timestamp>) -> Self {
        Self { command: None, wake_at, waits_for }
    }
}

/// What the TaskAction's status should show of an action.
pub fn projection(action: &Action) -> Projection {
    let attempt = action.attempt();
    let message = match (&action.failure, &action.abort) {
        (Some(failure), _) => format!("{}: {}", failure.code, failure.message),
        (None, Some(abort)) => abort.reason.clone(),
        (None, None) => match (&attempt.message, action.attempts.iter().rev().nth(1)) {
            (message, _) if !message.is_empty() => message.clone(),
            (_, Some(Attempt { number, failure: Some(failure), .. })) if attempt.phase == Phase::Queued => {
                format!("attempt {number} failed, {}: {}", failure.code, failure.message)
            }
            _ => String::new(),
        },
    };
    Projection { phase: action.phase, attempt: attempt.number, message: crate::text::bounded(&message, 1024) }
}

/// Decides what to do next for an action.
pub fn plan(action: &Action, view: &ClusterView, settings: &Settings, now: Timestamp) -> Plan {
    if action.kind != Kind::Task || !action.in_cluster {
        return Plan::wait("nothing: it has no part in the cluster", None);
    }
    if action.phase.is_terminal() {
        plan_ended(action, view, settings, now)
    } else {
        plan_live(action, view, settings, now)
    }
}

fn plan_ended(action: &Action, view: &ClusterView, settings: &Settings, now: Timestamp) -> Plan {
    if let Some(pod) = view.pods.iter().find(|pod| pod.observation.deletion_at.is_none()) {
        return Plan::act(Command::DeletePod(pod.pod.clone()));
    }
    let Some(task_action) = &view.task_action else {
        if view.pods.is_empty() {
            return Plan::act(Command::Apply(Input::Collected));
        }
        return Plan::wait("its Pods to be gone", None);
    };
    if task_action.deleting {
        return Plan::wait("its TaskAction to be gone", None);
    }
    let expires_at = action.ended_at.unwrap_or(action.updated_at).plus_ms(settings.ttl_ms);
    if expires_at <= now && view.pods.is_empty() {
        return Plan::act(Command::DeleteTaskAction { uid: task_action.uid.clone() });
    }
    let wanted = projection(action);
    if task_action.shown.as_ref() != Some(&wanted) {
        return Plan::act(Command::Show(wanted));
    }
    if !view.pods.is_empty() {
        return Plan::wait("its Pods to be gone", None);
    }
    Plan::wait("its TaskAction to expire", Some(expires_at))
}

fn plan_live(action: &Action, view: &ClusterView, settings: &Settings, now: Timestamp) -> Plan {
    let attempt = action.attempt();
    let clocks = match clocks(action, attempt, settings, now) {
        Ok(wake_at) => wake_at,
        Err(input) => return Plan::act(Command::Apply(*input)),
    };
    let Some(task_action) = &view.task_action else {
        if attempt.pod.is_none() && attempt.not_before > now {
            // Either its creation was refused a moment ago, or nothing is to be started yet.
            return Plan::wait("the time of its next try", earliest(Some(attempt.not_before), clocks));
        }
        return Plan::act(Command::CreateTaskAction);
    };
    if task_action.deleting {
        // Deleted by somebody else: the database is the truth, so it is created again once the old one is gone.
        return Plan::wait("its old TaskAction to be gone", clocks);
    }
    if let Some(stale) = view.pods.iter().find(|pod| {
        pod.observation.deletion_at.is_none()
            && (pod.attempt != attempt.number || attempt.pod.as_ref().is_some_and(|known| *known != pod.pod))
    }) {
        return Plan::act(Command::DeletePod(stale.pod.clone()));
    }
    let mut plan = match (&attempt.pod, view.pods.iter().find(|pod| pod.attempt == attempt.number)) {
        (None, Some(seen)) if seen.observation.deletion_at.is_none() => {
            Plan::act(Command::Apply(Input::PodCreated { attempt: attempt.number, pod: seen.pod.clone() }))
        }
        (None, _) => start(attempt, view, task_action, settings, now),
        (Some(known), Some(seen)) if seen.pod == *known => follow(attempt, seen, settings, now),
        (Some(known), _) => Plan::act(Command::ConfirmGone { attempt: attempt.number, pod: known.clone() }),
    };
    if plan.command.is_none() {
        let wanted = projection(action);
        let nothing_to_show =
            task_action.shown.is_none() && wanted.phase == Phase::Queued && wanted.message.is_empty();
        if task_action.shown.as_ref() != Some(&wanted) && !nothing_to_show {
            plan.command = Some(Command::Show(wanted));
        }
    }
    plan.wake_at = earliest(plan.wake_at, clocks);
    plan
}

/// The first clock that has run out, as an input, or when the next one does.
fn clocks(
    action: &Action,
    attempt: &Attempt,
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<Timestamp>, Box<Input>> {
    let mut next = None;
    if let Some(deadline_ms) = action.policy.deadline_ms {
        let at = action.created_at.plus_ms(deadline_ms);
        if at <= now {
            return Err(Box::new(Input::DeadlineExceeded));
        }
        next = earliest(next, Some(at));
    }
    if let (Some(running_at), Some(timeout_ms)) = (attempt.running_at, action.policy.attempt_timeout_ms) {
        let at = running_at.plus_ms(timeout_ms);
        if at <= now {
            return Err(Box::new(Input::AttemptTimedOut {
                attempt: attempt.number,
                message: format!(
                    "Attempt {} ran longer than its timeout of {} s",
                    attempt.number,
                    timeout_ms / 1000
                ),
            }));
        }
        next = earliest(next, Some(at));
    }
    if attempt.running_at.is_none()
        && let Some(timeout_ms) = action.policy.queued_timeout_ms.or(settings.pending_timeout_ms)
    {
        let at = attempt.created_at.plus_ms(timeout_ms);
        if at <= now {
            let mut message = format!(
                "Attempt {} did not start within its queued timeout of {} s",
                attempt.number,
                timeout_ms / 1000
            );
            if !attempt.message.is_empty() {
                message.push_str(": ");
                message.push_str(&attempt.message);
            }
            return Err(Box::new(Input::AttemptTimedOut { attempt: attempt.number, message }));
        }
        next = earliest(next, Some(at));
    }
    Ok(next)
}

/// The current attempt has no Pod yet.
fn start(
    attempt: &Attempt,
    view: &ClusterView,
    task_action: &TaskActionView,
    settings: &Settings,
    now: Timestamp,
) -> Plan {
    if attempt.not_before > now {
        return Plan::wait("the time of its next try", Some(attempt.not_before));
    }
    // A Pod under deletion may still run: the next one waits for it, though not for ever (case 5).
    let patience = view
        .pods
        .iter()
        .filter_map(|pod| {
            pod.observation.deletion_at.map(|at| (pod, at.plus_ms(settings.terminating_patience_ms)))
        })
        .filter(|(pod, until)| pod.attempt == attempt.number || *until > now)
        .map(|(_, until)| until)
        .max();
    if let Some(until) = patience {
        return Plan::wait("an earlier Pod to be gone", (until > now).then_some(until));
    }
    Plan::act(Command::CreatePod { attempt: attempt.number, owner_uid: task_action.uid.clone() })
}

/// The current attempt's Pod is there.
fn follow(attempt: &Attempt, seen: &PodView, settings: &Settings, now: Timestamp) -> Plan {
    let pod_uid = seen.pod.uid.clone();
    let number = attempt.number;
    let verdict = classify(&seen.observation, &settings.graces);
    if let (false, Some(deletion_at)) = (matches!(verdict, Verdict::Ended(_)), seen.observation.deletion_at) {
        // Somebody deletes the Pod. What it still manages to do counts; it is given up when it lingers.
        let until = deletion_at.plus_ms(settings.terminating_patience_ms);
        if until > now {
            return Plan::wait("its deleted Pod to end", Some(until));
        }
        return Plan::act(Command::Conclude { attempt: number, finish: vanished("was deleted and lingers") });
    }
    match verdict {
        Verdict::Ended(finish) => Plan::act(Command::Conclude { attempt: number, finish }),
        Verdict::Progress(progress) => {
            let news = progress.phase.rank() > attempt.phase.rank()
                || (progress.phase == attempt.phase
                    && attempt.message != crate::text::message(&progress.message))
                || (progress.phase == Phase::Running && attempt.running_at.is_none());
            if news {
                return Plan::act(Command::Apply(Input::Progressed { attempt: number, pod_uid, progress }));
            }
            Plan::wait("its Pod", None)
        }
        Verdict::Stuck { phase, grace_ms, failure } => {
            let Some(since) = attempt.stuck_since else {
                return Plan::act(Command::Apply(Input::Stuck {
                    attempt: number,
                    pod_uid,
                    phase,
                    message: failure.message,
                }));
            };
            let until = since.plus_ms(grace_ms);
            if until <= now {
                let finish = Finish { proof: Proof::Failed(failure), started_at: None, finished_at: None };
                return Plan::act(Command::Conclude { attempt: number, finish });
            }
            if attempt.message != crate::text::message(&failure.message) {
                return Plan::act(Command::Apply(Input::Stuck {
                    attempt: number,
                    pod_uid,
                    phase,
                    message: failure.message,
                }));
            }
            Plan::wait("its Pod to start after all", Some(until))
        }
    }
}

/// The end of a Pod that nobody saw.
pub fn vanished(what: &str) -> Finish {
    Finish {
        proof: Proof::Vanished(Failure::retryable(
            Origin::System,
            "PodLost",
            format!("The Pod {what} before its end was seen, and it left no outputs"),
        )),
        started_at: None,
        finished_at: None,
    }
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
