//! The only way to change an action: `step(action, input, now)`.
//!
//! An input that makes no sense in the action's state is refused by name and changes nothing. Applying the same input
//! twice equals applying it once.

use crate::action::{Abort, Attempt};
use crate::failure::Origin;
use crate::pod::{PodRef, Progress};
use crate::state_document::{self, Report};
use crate::{Action, Failure, Kind, Phase, Timestamp, backoff, invariant, text};
use serde::{Deserialize, Serialize};

/// How often in a row the cluster may refuse a Pod for a reason that does not pass by itself (rights, a missing
/// namespace) before the action fails. With the wait capped at a minute this is about six minutes.
pub const CREATES_REFUSED_MAX: u32 = 12;
/// The first and the longest wait between two tries to create a Pod.
const CREATE_BACKOFF_MS: (u64, u64) = (1_000, 60_000);
/// The longest wait while a quota is exhausted: it may last for hours, and every try costs the cluster something.
const QUOTA_BACKOFF_CAP_MS: u64 = 90_000;

/// Something that happened to an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The cluster has the Pod of this attempt.
    PodCreated {
        /// The attempt.
        attempt: u32,
        /// Its Pod.
        pod: PodRef,
    },
    /// The cluster refused to create the Pod of this attempt.
    CreateRefused {
        /// The attempt.
        attempt: u32,
        /// Why, and what that means.
        refusal: CreateRefusal,
    },
    /// The Pod of this attempt goes on.
    Progressed {
        /// The attempt.
        attempt: u32,
        /// Its Pod's uid.
        pod_uid: String,
        /// What was seen.
        progress: Progress,
    },
    /// The Pod of this attempt does not start, for a reason that may pass.
    Stuck {
        /// The attempt.
        attempt: u32,
        /// Its Pod's uid.
        pod_uid: String,
        /// The phase to show.
        phase: Phase,
        /// What people are told.
        message: String,
    },
    /// The attempt has ended.
    AttemptEnded {
        /// The attempt.
        attempt: u32,
        /// When its primary container started, where the Pod proves it.
        started_at: Option<Timestamp>,
        /// When it ended, where the Pod proves it.
        finished_at: Option<Timestamp>,
        /// `None` for success.
        failure: Option<Failure>,
    },
    /// The attempt ran out of its own time: queued too long or running too long.
    AttemptTimedOut {
        /// The attempt.
        attempt: u32,
        /// What people are told.
        message: String,
    },
    /// The whole action ran out of time; no attempt follows.
    DeadlineExceeded,
    /// Somebody, or the end of its parent, stops it.
    Abort {
        /// The reason, for people.
        reason: String,
        /// Who asked for it; empty when unknown.
        by: String,
    },
    /// Somebody outside reports a state for it.
    Reported(Report),
    /// Nothing of the ended action is left in the cluster.
    Collected,
}

/// Why the cluster did not create a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CreateRefusal {
    /// A quota is exhausted: the action waits in a queue, which is no failure (case 17).
    Quota(String),
    /// Trouble that passes by itself: overload, a webhook or server that is down. The wait is what the server asked
    /// for, if it did.
    Transient {
        /// What people are told.
        message: String,
        /// `Retry-After`, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// Missing rights or a missing namespace: may be mended by a person, so it is tried for some minutes (case 19).
    Denied(String),
    /// The object is not acceptable, now or ever; the failure says why.
    Impossible(Failure),
}

/// What one input did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The action afterwards.
    pub action: Action,
    /// Every phase that it went through, in order; empty when only details changed.
    pub transitions: Vec<Transition>,
    /// What has to follow.
    pub effects: Vec<Effect>,
}

/// One phase that an action reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The attempt.
    pub attempt: u32,
    /// The phase.
    pub phase: Phase,
    /// When.
    pub at: Timestamp,
    /// What people are told about it; often empty.
    pub message: String,
}

/// Something that has to follow a change in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Every non-terminal descendant is aborted for this reason (S14).
    AbortDescendants {
        /// The reason, for people.
        reason: String,
    },
}

/// Why an input changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The action says this already, to the letter.
    #[error("nothing new")]
    NoChange,
    /// The action has ended, and a terminal action never changes (S1).
    #[error("action {name} has already ended as {phase} and never changes again")]
    Terminal {
        /// The action's name.
        name: String,
        /// Its phase.
        phase: Phase,
    },
    /// The input speaks of an attempt that is over, or not yet there.
    #[error("attempt {given} is not the current attempt {current}")]
    OtherAttempt {
        /// The attempt that the input speaks of.
        given: u32,
        /// The current attempt.
        current: u32,
    },
    /// The input speaks of another Pod than the attempt's.
    #[error("the Pod is not the one of attempt {attempt}")]
    OtherPod {
        /// The current attempt.
        attempt: u32,
    },
    /// The phase would go backwards (S8).
    #[error("phase {given} would go backwards from {current}")]
    Backwards {
        /// The phase of the input.
        given: Phase,
        /// The attempt's phase.
        current: Phase,
    },
    /// The input is not for this kind of action, or not for one that goes on.
    #[error("{0}")]
    NotApplicable(&'static str),
}

/// Applies one input.
///
/// # Errors
/// Why nothing changed.
pub fn step(action: &Action, input: &Input, now: Timestamp) -> Result<Step, Refusal> {
    let mut work = Work { next: action.clone(), transitions: Vec::new(), now };
    match input {
        Input::Collected => work.collected()?,
        _ if action.phase.is_terminal() => {
            if let Input::Reported(report) = input
                && report.document == action.state
            {
                return Err(Refusal::NoChange);
            }
            return Err(Refusal::Terminal { name: action.id.name.clone(), phase: action.phase });
        }
        Input::Abort { reason, by } => work.abort(reason, by),
        Input::Reported(report) => work.reported(report)?,
        Input::DeadlineExceeded => work.deadline_exceeded()?,
        Input::PodCreated { attempt, pod } => work.pod_created(*attempt, pod)?,
        Input::CreateRefused { attempt, refusal } => work.create_refused(*attempt, refusal)?,
        Input::Progressed { attempt, pod_uid, progress } => work.progressed(*attempt, pod_uid, progress)?,
        Input::Stuck { attempt, pod_uid, phase, message } => {
            work.stuck(*attempt, pod_uid, *phase, message)?
        }
        Input::AttemptEnded { attempt, started_at, finished_at, failure } => {
            work.attempt_ended(*attempt, *started_at, *finished_at, failure.as_ref())?
        }
        Input::AttemptTimedOut { attempt, message } => work.attempt_timed_out(*attempt, message)?,
    }
    work.finish(action, matches!(input, Input::Reported(_)))
}

struct Work {
    next: Action,
    transitions: Vec<Transition>,
    now: Timestamp,
}

impl Work {
    fn finish(mut self, before: &Action, keep_state: bool) -> Result<Step, Refusal> {
        if self.next == *before {
            return Err(Refusal::NoChange);
        }
        self.next.version += 1;
        // The wall clock may step back between two changes; what is stored does not (S10).
        self.next.updated_at = self.now.max(before.updated_at);
        if !keep_state && self.next.in_cluster == before.in_cluster {
            self.next.state = state_document::render(&self.next);
        }
        let mut effects = Vec::new();
        if self.next.phase.is_terminal() && !before.phase.is_terminal() && self.next.kind == Kind::Task {
            effects.push(Effect::AbortDescendants {
                reason: match &self.next.abort {
                    Some(abort) => abort.reason.clone(),
                    None => format!("its parent {} ended as {}", self.next.id.name, self.next.phase),
                },
            });
        }
        invariant::check(&self.next).unwrap_or_else(|broken| panic!("after {before:?}: {broken}"));
        invariant::check_change(before, &self.next)
            .unwrap_or_else(|broken| panic!("after {before:?}: {broken}"));
        Ok(Step { action: self.next, transitions: self.transitions, effects })
    }

    /// The current attempt, when the input speaks of it.
    fn current(&mut self, number: u32) -> Result<&mut Attempt, Refusal> {
        if self.next.kind != Kind::Task {
            return Err(Refusal::NotApplicable("only a task has attempts that run in the cluster"));
        }
        let attempt = self.next.attempt_mut();
        if attempt.number == number {
            Ok(attempt)
        } else {
            Err(Refusal::OtherAttempt { given: number, current: attempt.number })
        }
    }

    fn current_pod(&mut self, number: u32, uid: &str) -> Result<&mut Attempt, Refusal> {
        let attempt = self.current(number)?;
        match &attempt.pod {
            Some(pod) if pod.uid == uid => Ok(attempt),
            _ => Err(Refusal::OtherPod { attempt: number }),
        }
    }

    /// Moves the current attempt, and the action with it, to a phase that is not final, through the phases between
    /// that were not seen.
    fn advance(&mut self, phase: Phase, at: Timestamp, message: &str) {
        let attempt = self.next.attempt_mut();
        let number = attempt.number;
        let passed = [Phase::Initializing, Phase::Running]
            .into_iter()
            .filter(|between| between.rank() > attempt.phase.rank() && between.rank() < phase.rank())
            .collect::<Vec<_>>();
        if attempt.phase != phase {
            for between in passed {
                self.transitions.push(Transition {
                    attempt: number,
                    phase: between,
                    at,
                    message: String::new(),
                });
            }
            self.transitions.push(Transition { attempt: number, phase, at, message: message.to_string() });
            attempt.phase = phase;
        }
        self.next.phase = phase;
    }

    fn pod_created(&mut self, number: u32, pod: &PodRef) -> Result<(), Refusal> {
        let attempt = self.current(number)?;
        match &attempt.pod {
            None => {
                attempt.pod = Some(pod.clone());
                attempt.creates_refused = 0;
                attempt.creates_denied = 0;
                attempt.message.clear();
                Ok(())
            }
            Some(known) if known == pod => Err(Refusal::NoChange),
            Some(_) => Err(Refusal::OtherPod { attempt: number }),
        }
    }

    fn create_refused(&mut self, number: u32, refusal: &CreateRefusal) -> Result<(), Refusal> {
        let now = self.now;
        let key = self.next.id.to_string();
        let attempt = self.current(number)?;
        if attempt.pod.is_some() {
            return Err(Refusal::NotApplicable("the attempt has its Pod already"));
        }
        let wait = |tries| backoff::delay_ms(&key, tries, CREATE_BACKOFF_MS.0, CREATE_BACKOFF_MS.1);
        // Only denials in a row count against the action: quota and overload say nothing about rights.
        attempt.creates_denied = match refusal {
            CreateRefusal::Denied(_) => attempt.creates_denied.saturating_add(1),
            _ => 0,
        };
        attempt.creates_refused = attempt.creates_refused.saturating_add(1);
        let tries = attempt.creates_refused;
        match refusal {
            CreateRefusal::Quota(message) => {
                let delay_ms = backoff::delay_ms(&key, tries - 1, CREATE_BACKOFF_MS.0, QUOTA_BACKOFF_CAP_MS);
                attempt.not_before = now.plus_ms(delay_ms);
                attempt.message = text::message(message);
                if attempt.phase.rank() < Phase::WaitingForResources.rank() {
                    let message = attempt.message.clone();
                    self.advance(Phase::WaitingForResources, now, &message);
                }
            }
            CreateRefusal::Transient { message, retry_after_ms } => {
                attempt.not_before =
                    now.plus_ms(wait(tries - 1).max(retry_after_ms.unwrap_or(0).min(3_600_000)));
                attempt.message = text::message(message);
            }
            CreateRefusal::Denied(message) if attempt.creates_denied < CREATES_REFUSED_MAX => {
                attempt.not_before = now.plus_ms(wait(tries - 1));
                attempt.message = text::message(message);
            }
            CreateRefusal::Denied(message) => {
                let failure = Failure::permanent(Origin::System, "PodNotCreated", message);
                self.close_attempt(now, Some(&failure), Phase::Failed);
            }
            CreateRefusal::Impossible(failure) => {
                self.close_attempt(now, Some(failure), Phase::Failed);
            }
        }
        Ok(())
    }

    fn progressed(&mut self, number: u32, uid: &str, progress: &Progress) -> Result<(), Refusal> {
        let now = self.now;
        if progress.phase.is_terminal() || progress.phase == Phase::Paused {
            return Err(Refusal::NotApplicable("a Pod that goes on is in no final phase"));
        }
        let attempt = self.current_pod(number, uid)?;
        if progress.phase.rank() < attempt.phase.rank() {
            return Err(Refusal::Backwards { given: progress.phase, current: attempt.phase });
        }
        // Only a start ends the patience with a Pod that does not start: kubelets show harmless reasons in between
        // (case 7).
        if progress.phase == Phase::Running {
            attempt.stuck_since = None;
        }
        attempt.message = text::message(&progress.message);
        let mut at = now;
        if progress.phase == Phase::Running && attempt.running_at.is_none() {
            at = believable(progress.running_at, attempt.created_at, now);
            attempt.running_at = Some(at);
            self.next.started_at.get_or_insert(at);
        }
        self.advance(progress.phase, at, &progress.message);
        Ok(())
    }

    fn stuck(&mut self, number: u32, uid: &str, phase: Phase, message: &str) -> Result<(), Refusal> {
        let now = self.now;
        let attempt = self.current_pod(number, uid)?;
        if phase.is_terminal() || phase.rank() > Phase::Initializing.rank() {
            return Err(Refusal::NotApplicable("a Pod that does not start is not running"));
        }
        // Flipping between two bad reasons does not restart the clock (case 7).
        attempt.stuck_since.get_or_insert(now);
        attempt.message = text::message(message);
        if phase.rank() > attempt.phase.rank() {
            let message = attempt.message.clone();
            self.advance(phase, now, &message);
        }
        Ok(())
    }

    fn attempt_ended(
        &mut self,
        number: u32,
        started_at: Option<Timestamp>,
        finished_at: Option<Timestamp>,
        failure: Option<&Failure>,
    ) -> Result<(), Refusal> {
        let now = self.now;
        let attempt = self.current(number)?;
        let ended_at = believable(finished_at, attempt.running_at.unwrap_or(attempt.created_at), now);
        if attempt.running_at.is_none() && (started_at.is_some() || failure.is_none()) {
            let at = believable(started_at, attempt.created_at, ended_at);
            attempt.running_at = Some(at);
            attempt.stuck_since = None;
            attempt.message.clear();
            self.next.started_at.get_or_insert(at);
            self.advance(Phase::Running, at, "");
        }
        self.close_attempt(ended_at, failure, Phase::Failed);
        Ok(())
    }

    fn attempt_timed_out(&mut self, number: u32, message: &str) -> Result<(), Refusal> {
        let now = self.now;
        self.current(number)?;
        let failure = Failure::retryable(Origin::User, "TimedOut", message);
        self.close_attempt(now, Some(&failure), Phase::TimedOut);
        Ok(())
    }

    fn deadline_exceeded(&mut self) -> Result<(), Refusal> {
        let Some(deadline_ms) = self.next.policy.deadline_ms else {
            return Err(Refusal::NotApplicable("the action has no deadline"));
        };
        let failure = Failure::permanent(
            Origin::User,
            "DeadlineExceeded",
            format!("The action was not done within its deadline of {} s", deadline_ms / 1000),
        );
        self.close_attempt(self.now, Some(&failure), Phase::TimedOut);
        Ok(())
    }

    /// Ends the current attempt. A failure that may be retried begins the next one while its budget lasts; otherwise
    /// the action ends, in `last_phase` when it failed.
    fn close_attempt(&mut self, at: Timestamp, failure: Option<&Failure>, last_phase: Phase) {
        let now = self.now;
        let attempt = self.next.attempt_mut();
        let number = attempt.number;
        let at = at.max(attempt.running_at.unwrap_or(attempt.created_at));
        attempt.ended_at = Some(at);
        attempt.failure = failure.cloned();
        attempt.stuck_since = None;
        attempt.message.clear();
        let attempt_phase = if failure.is_some() { last_phase } else { Phase::Succeeded };
        let text = failure.map(|failure| failure.message.clone()).unwrap_or_default();
        attempt.phase = attempt_phase;
        self.transitions.push(Transition { attempt: number, phase: attempt_phase, at, message: text });
        let Some(failure) = failure else {
            self.next.phase = Phase::Succeeded;
            self.next.ended_at = Some(at);
            self.next.output_uri = self.next.output_prefix(number);
            return;
        };
        let (used, allowed) = match failure.origin {
            Origin::User => (&mut self.next.user_failures, self.next.policy.user_retries),
            Origin::System => (&mut self.next.system_failures, self.next.policy.system_retries),
        };
        let failures = *used + 1;
        *used = failures;
        if failure.retryable && failures <= allowed {
            let wait = backoff::delay_ms(
                &self.next.id.to_string(),
                number - 1,
                self.next.policy.backoff_base_ms,
                self.next.policy.backoff_cap_ms,
            );
            self.next.attempts.push(Attempt::new(number + 1, now, now.plus_ms(wait)));
            self.next.phase = Phase::Queued;
            self.transitions.push(Transition {
                attempt: number + 1,
                phase: Phase::Queued,
                at: now,
                message: String::new(),
            });
            return;
        }
        self.next.phase = last_phase;
        self.next.ended_at = Some(at);
        self.next.failure = Some(failure.clone());
    }

    fn abort(&mut self, reason: &str, by: &str) {
        let now = self.now;
        let reason = if reason.is_empty() { "User requested abort" } else { reason };
        self.next.abort = Some(Abort { reason: text::message(reason), by: text::bounded(by, 256) });
        self.end_without_attempt(Phase::Aborted, now, reason);
    }

    /// Ends the action and its current attempt in a final phase that no budget has a say in.
    fn end_without_attempt(&mut self, phase: Phase, at: Timestamp, message: &str) {
        let attempt = self.next.attempt_mut();
        let at = at.max(attempt.running_at.unwrap_or(attempt.created_at));
        attempt.phase = phase;
        attempt.ended_at = Some(at);
        attempt.stuck_since = None;
        attempt.message.clear();
        let number = attempt.number;
        self.transitions.push(Transition { attempt: number, phase, at, message: text::message(message) });
        self.next.phase = phase;
        self.next.ended_at = Some(at);
    }

    fn reported(&mut self, report: &Report) -> Result<(), Refusal> {
        let now = self.now;
        if report.document == self.next.state {
            return Err(Refusal::NoChange);
        }
        let current = self.next.attempt();
        let (number, phase_now) = (current.number, current.phase);
        if let Some(given) = report.attempt.filter(|given| *given != number) {
            return Err(Refusal::OtherAttempt { given, current: number });
        }
        if let Some(phase) = report.phase.filter(|phase| phase.rank() < phase_now.rank()) {
            return Err(Refusal::Backwards { given: phase, current: phase_now });
        }
        let for_condition = self.next.kind == Kind::Condition;
        if report.phase.is_some_and(|phase| !phase.is_terminal() && for_condition != (phase == Phase::Paused))
        {
            return Err(Refusal::NotApplicable(
                "a condition is PAUSED until it ends, and nothing else ever is",
            ));
        }
        self.next.state.clone_from(&report.document);
        self.next.attempt_mut().message.clone_from(&report.message);
        match report.phase {
            None => {}
            Some(phase) if !phase.is_terminal() => {
                if phase == Phase::Running {
                    self.next.attempt_mut().running_at.get_or_insert(now);
                    self.next.started_at.get_or_insert(now);
                }
                self.advance(phase, now, &report.message);
            }
            Some(phase) => {
                match phase {
                    Phase::Succeeded | Phase::Recovered => {
                        self.next.output_uri = if report.output_uri.is_empty() {
                            self.next.output_prefix(number)
                        } else {
                            report.output_uri.clone()
                        };
                    }
                    Phase::Aborted => {
                        let reason =
                            if report.message.is_empty() { "reported as aborted" } else { &report.message };
                        self.next.abort = Some(Abort { reason: reason.to_string(), by: String::new() });
                    }
                    _ => {
                        let failure = report
                            .failure
                            .clone()
                            .unwrap_or_else(|| Failure::permanent(Origin::User, "Reported", &report.message));
                        self.next.failure = Some(failure.clone());
                        self.next.attempt_mut().failure = Some(failure);
                    }
                }
                self.end_without_attempt(phase, now, &report.message);
            }
        }
        Ok(())
    }

    fn collected(&mut self) -> Result<(), Refusal> {
        if !self.next.phase.is_terminal() {
            return Err(Refusal::NotApplicable("the action goes on, its objects are still needed"));
        }
        self.next.in_cluster = false;
        Ok(())
    }
}

/// A time that the cluster proves, when it lies between what we know for sure; clocks of nodes differ from ours.
fn believable(given: Option<Timestamp>, earliest: Timestamp, latest: Timestamp) -> Timestamp {
    given.unwrap_or(latest).clamp(earliest.min(latest), latest.max(earliest))
}

#[cfg(test)]
mod tests;
