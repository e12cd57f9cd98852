//! The schema's validation rules.
//!
//! The build turns every rule into code. The rules written as expressions are functions of this crate, found by their
//! id. The first broken rule is reported. Where validation is laxer than the schema on purpose is listed in
//! `build/exceptions.rs`.

use prost::Message;

use crate::Raw;

mod checks;
mod path;
mod uri;

pub use path::Path;

/// A message whose content can be checked against the rules of the schema.
pub trait Validate {
    /// Checks the message as it stands at `path` in a larger one.
    fn validate_at(&self, path: &Path<'_>) -> Result<(), Violation>;

    /// Checks the message; reports the first broken rule.
    fn validate(&self) -> Result<(), Violation> {
        self.validate_at(&Path::ROOT)
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    /// The path of the offending field, such as `action_id.run.name` or `items[2].name`; empty for the message itself.
    pub field: String,
    /// The id of the rule, such as `required` or `string.min_len`, as other validators of the same schema name it.
    pub rule: String,
    /// A sentence that names the field and says what is wrong.
    pub message: String,
}

/// A pass-through message is read and checked like any other; bytes that can't be read break the rule `decode`.
impl<M: Message + Default + Validate> Validate for Raw<M> {
    fn validate_at(&self, path: &Path<'_>) -> Result<(), Violation> {
        match self.decode() {
            Ok(message) => message.validate_at(path),
            Err(error) => Err(checks::undecodable(path, &error)),
        }
    }
}

#[allow(clippy::all, unreachable_patterns)]
mod generated {
    use super::checks::{self, Pattern};
    use super::{Path, Validate, Violation};
    use crate::cel;

    include!(concat!(env!("OUT_DIR"), "/validation.rs"));
}
