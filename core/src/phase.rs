//! The phases of an action (`flyteidl2.common.ActionPhase`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where an action, or one attempt of it, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Phase {
    /// It is stored and no Pod of its current attempt is known to the cluster; the executor creates one.
    Queued,
    /// The cluster has no room (quota, no fitting node); it starts when the cluster finds some.
    WaitingForResources,
    /// A node has the Pod and prepares it (image, volumes, init containers); the kubelet moves it on.
    Initializing,
    /// The primary container runs; it ends by itself, by a timeout or by an abort.
    Running,
    /// A condition waits for a person's signal, its timeout or an abort.
    Paused,
    /// It ended well and its outputs are readable. Final.
    Succeeded,
    /// It ended badly with no attempt left. Final.
    Failed,
    /// A person, or the end of its parent, stopped it. Final.
    Aborted,
    /// Its last attempt or its whole deadline ran out of time. Final.
    TimedOut,
    /// It was taken over from an earlier run without running. Final.
    Recovered,
}

impl Phase {
    /// Every phase, in the order of their wire numbers.
    pub const ALL: [Phase; 10] = [
        Phase::Queued,
        Phase::WaitingForResources,
        Phase::Initializing,
        Phase::Running,
        Phase::Succeeded,
        Phase::Failed,
        Phase::Aborted,
        Phase::TimedOut,
        Phase::Paused,
        Phase::Recovered,
    ];

    /// Whether the phase is final: a terminal action never changes (S1).
    pub fn is_terminal(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed | Phase::Aborted | Phase::TimedOut | Phase::Recovered)
    }

    /// The place of the phase within one attempt. It never decreases while the attempt lasts (S8).
    pub fn rank(self) -> u8 {
        match self {
            Phase::Queued => 0,
            Phase::WaitingForResources => 1,
            Phase::Initializing => 2,
            Phase::Running | Phase::Paused => 3,
            Phase::Succeeded | Phase::Failed | Phase::Aborted | Phase::TimedOut | Phase::Recovered => 4,
        }
    }

    /// The number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Phase::Queued => 1,
            Phase::WaitingForResources => 2,
            Phase::Initializing => 3,
            Phase::Running => 4,
            Phase::Succeeded => 5,
            Phase::Failed => 6,
            Phase::Aborted => 7,
            Phase::TimedOut => 8,
            Phase::Paused => 9,
            Phase::Recovered => 10,
        }
    }

    /// The phase with this wire number; `None` for 0 (unspecified) and for numbers that are not known.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.number() == number)
    }

    /// The name in the database, in state documents and to people, such as `WAITING_FOR_RESOURCES`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Queued => "QUEUED",
            Phase::WaitingForResources => "WAITING_FOR_RESOURCES",
            Phase::Initializing => "INITIALIZING",
            Phase::Running => "RUNNING",
            Phase::Paused => "PAUSED",
            Phase::Succeeded => "SUCCEEDED",
            Phase::Failed => "FAILED",
            Phase::Aborted => "ABORTED",
            Phase::TimedOut => "TIMED_OUT",
            Phase::Recovered => "RECOVERED",
        }
    }

    /// Reads a name in any of the spellings that clients of the older manager use: `ACTION_PHASE_RUNNING`,
    /// `PHASE_RUNNING`, `RUNNING`, `Running`, `TimedOut`, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let squeezed: String =
            text.chars().filter(|c| *c != '_').map(|c| c.to_ascii_uppercase()).take(64).collect();
        let name =
            squeezed.strip_prefix("ACTIONPHASE").or(squeezed.strip_prefix("PHASE")).unwrap_or(&squeezed);
        Self::ALL.into_iter().find(|phase| phase.name().chars().filter(|c| *c != '_').eq(name.chars()))
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_every_phase_is_read() {
        for phase in Phase::ALL {
            let camel: String = phase
                .name()
                .split('_')
                .map(|word| word[..1].to_string() + &word[1..].to_lowercase())
                .collect();
            for text in [
                phase.name().to_string(),
                phase.name().to_lowercase(),
                format!("PHASE_{phase}"),
                format!("ACTION_PHASE_{phase}"),
                camel,
            ] {
                assert_eq!(Phase::parse(&text), Some(phase), "{text}");
            }
            assert_eq!(Phase::from_number(phase.number()), Some(phase));
        }
        for text in ["", "PHASE_", "UNSPECIFIED", "ACTION_PHASE_UNSPECIFIED", "RUNNINGS", "größe"] {
            assert_eq!(Phase::parse(text), None, "{text}");
        }
        assert_eq!(Phase::from_number(0), None);
        assert_eq!(Phase::from_number(11), None);
    }
}
