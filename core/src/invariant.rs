//! What is always true of an action. Checked before it is persisted and after it is loaded, in release builds too;
//! the ids are those of `INVARIANTS.md`.

use crate::{Action, Kind, Phase};

/// An invariant that does not hold: its id and what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invariant {id} is broken for action {action}: {found}")]
pub struct Broken {
    /// The id in `INVARIANTS.md`.
    pub id: &'static str,
    /// The action.
    pub action: String,
    /// What was found.
    pub found: String,
}

/// Checks one action by itself.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check(action: &Action) -> Result<(), Broken> {
    let broken = |id, found: String| Err(Broken { id, action: action.id.to_string(), found });
    let Some(current) = action.attempts.last() else {
        return broken("A2", "it has no attempt".into());
    };
    for (index, attempt) in action.attempts.iter().enumerate() {
        if attempt.number as usize != index + 1 {
            return broken("A2", format!("attempt {} stands at place {}", attempt.number, index + 1));
        }
        let last = index + 1 == action.attempts.len();
        if !last && (!attempt.phase.is_terminal() || attempt.failure.is_none()) {
            return broken("A3", format!("attempt {} is over but has no failure", attempt.number));
        }
        if attempt.phase.is_terminal() != attempt.ended_at.is_some() {
            return broken(
                "A4",
                format!("attempt {} is {} with end {:?}", attempt.number, attempt.phase, attempt.ended_at),
            );
        }
        if let Some(failure) = &attempt.failure
            && (failure.code.is_empty() || failure.message.is_empty())
        {
            return broken("S11", format!("attempt {} failed without a reason", attempt.number));
        }
    }
    if action.phase != current.phase {
        return broken("A5", format!("it is {} but its current attempt is {}", action.phase, current.phase));
    }
    if action.phase.is_terminal() != action.ended_at.is_some() {
        return broken("A4", format!("it is {} with end {:?}", action.phase, action.ended_at));
    }
    if let (Some(started), Some(ended)) = (action.started_at, action.ended_at)
        && ended < started
        && action.kind != Kind::Task
    {
        return broken("S10", format!("it ended at {ended}, before it started at {started}"));
    }
    if action.user_failures > action.policy.user_retries.saturating_add(1)
        || action.system_failures > action.policy.system_retries.saturating_add(1)
    {
        return broken(
            "S11",
            format!(
                "{} user and {} system failures with budgets {} and {}",
                action.user_failures,
                action.system_failures,
                action.policy.user_retries,
                action.policy.system_retries
            ),
        );
    }
    if action.kind == Kind::Task && action.phase == Phase::Succeeded && action.output_uri.is_empty() {
        return broken("S11", "it succeeded without an output location".into());
    }
    if matches!(action.phase, Phase::Failed | Phase::TimedOut) && action.failure.is_none() {
        return broken("S11", format!("it is {} without a failure", action.phase));
    }
    if (action.phase == Phase::Aborted) != action.abort.is_some() {
        return broken("S11", format!("it is {} with abort {:?}", action.phase, action.abort));
    }
    if !action.phase.is_terminal() && action.kind == Kind::Task && !action.in_cluster {
        return broken("L2", "it goes on but is not the executor's to run".into());
    }
    Ok(())
}

/// Checks one change of an action.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_change(before: &Action, after: &Action) -> Result<(), Broken> {
    let broken = |id, found: String| Err(Broken { id, action: after.id.to_string(), found });
    if before.phase.is_terminal() {
        let same = Action {
            in_cluster: after.in_cluster,
            version: after.version,
            updated_at: after.updated_at,
            ..before.clone()
        };
        if same != *after {
            return broken("S1", format!("it had ended as {} and changed to {after:?}", before.phase));
        }
    }
    let rank = |action: &Action| (action.attempts.len(), action.phase.rank());
    if rank(after) < rank(before) {
        return broken("S8", format!("it went from {:?} back to {:?}", rank(before), rank(after)));
    }
    if after.updated_at < before.updated_at || after.version <= before.version {
        return broken(
            "S8",
            format!(
                "version {} at {} follows {} at {}",
                after.version, after.updated_at, before.version, before.updated_at
            ),
        );
    }
    Ok(())
}
