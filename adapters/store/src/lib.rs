//! Runs, actions and everything about them in one SQLite file.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod clock;
pub mod row;

pub use clock::Clock;
