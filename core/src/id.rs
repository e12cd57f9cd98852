//! Identifiers of runs and actions, as users know them. Object names in the cluster are made by [`crate::naming`].

use serde::{Deserialize, Serialize};
use std::fmt;

/// The name that every root action has. The SDK and the console rely on it.
pub const ROOT_ACTION_NAME: &str = "a0";

/// The organisation of clients that name none. A task's process always names one, so the empty name cannot be kept.
pub const DEFAULT_ORG: &str = "local";

/// The longest name of a run or an action in characters (`flyteidl2.common.RunIdentifier.name`, `max_len: 30`).
pub const NAME_MAX_CHARS: usize = 30;

/// The full identity of a run. Two runs of different projects may have equal names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    /// The organisation; [`DEFAULT_ORG`] for clients that know of none.
    pub org: String,
    /// The project.
    pub project: String,
    /// The domain, such as `development`.
    pub domain: String,
    /// The run's own name, unique in organisation, project and domain.
    pub name: String,
}

impl RunId {
    /// Makes an identifier of its four parts.
    pub fn new(
        org: impl Into<String>,
        project: impl Into<String>,
        domain: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self { org: org.into(), project: project.into(), domain: domain.into(), name: name.into() }
    }

    /// The root action of this run.
    pub fn root(&self) -> ActionId {
        self.action(ROOT_ACTION_NAME)
    }

    /// The action called `name` in this run.
    pub fn action(&self, name: impl Into<String>) -> ActionId {
        ActionId { run: self.clone(), name: name.into() }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.org == DEFAULT_ORG {
            write!(f, "{}/{}/{}", self.project, self.domain, self.name)
        } else {
            write!(f, "{}/{}/{}/{}", self.org, self.project, self.domain, self.name)
        }
    }
}

/// The full identity of an action. Every root action is called `a0`, so the name alone identifies nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActionId {
    /// The run that the action belongs to.
    pub run: RunId,
    /// The action's own name, unique in its run.
    pub name: String,
}

impl ActionId {
    /// Whether this is the run's root action.
    pub fn is_root(&self) -> bool {
        self.name == ROOT_ACTION_NAME
    }
}

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.name)
    }
}
