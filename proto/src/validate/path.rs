//! The place of a value in a message.

use std::fmt;

/// The way from the outermost message to a value.
///
/// It is a chain on the stack and becomes text only when something is wrong, so checking a valid message allocates
/// nothing for it.
#[derive(Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug)]
enum Step<'a> {
    /// The outermost message.
    Root,
    /// A field or oneof, by its name in the schema.
    Field(&'static str),
    /// An item of a list.
    Index(usize),
    /// An entry of a map.
    Key(&'a str),
}

impl Path<'_> {
    /// The outermost message.
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// The field or oneof `name` of the message here.
    pub fn field(&self, name: &'static str) -> Path<'_> {
        self.step(Step::Field(name))
    }

    /// The item `index` of the list here.
    pub fn index(&self, index: usize) -> Path<'_> {
        self.step(Step::Index(index))
    }

    /// The entry `key` of the map here.
    pub fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        self.step(Step::Key(key))
    }

    fn step<'b>(&'b self, step: Step<'b>) -> Path<'b> {
        Path { parent: Some(self), step }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) => {
                let is_first = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
                write!(f, "{}{name}", if is_first { "" } else { "." })
            }
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key:?}]"),
        }
    }
}
