//! One function for each kind of rule. Rule ids are those of the protovalidate standard.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::LazyLock;

use bytes::Bytes;
use prost::DecodeError;
use prost_types::Duration;
use regex::Regex;

use super::uri::is_uri;
use super::{Path, Violation};

/// A regular expression that is compiled when first needed.
pub type Pattern = LazyLock<Regex>;

/// Compiles an expression of the schema.
pub fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the build compiled every expression of the schema")
}

/// A message or oneof that must be set isn't.
pub fn missing(at: &Path<'_>) -> Violation {
    violation(at, "required", format!("{at} must be set."))
}

/// A pass-through message can't be read.
pub fn undecodable(at: &Path<'_>, error: &DecodeError) -> Violation {
    violation(at, "decode", format!("{at} can't be read: {error}."))
}

pub fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub fn not_zero<T: Default + PartialEq>(at: &Path<'_>, value: &T) -> Result<(), Violation> {
    ensure(!is_zero(value), at, "required", || format!("{at} must be set."))
}

/// A rule that the schema writes as an expression, already evaluated.
pub fn expression(at: &Path<'_>, id: &str, holds: bool, message: &str) -> Result<(), Violation> {
    ensure(holds, at, id, || {
        let place = at.to_string();
        if place.is_empty() { format!("{message}.") } else { format!("{place}: {message}.") }
    })
}

pub fn min_len(at: &Path<'_>, value: &str, min: usize) -> Result<(), Violation> {
    // A character is at least one byte, so the common minimum of 1 needs no counting.
    let holds = if min <= 1 { value.len() >= min } else { value.chars().count() >= min };
    ensure(holds, at, "string.min_len", || {
        let len = value.chars().count();
        format!("{at} must have at least {min} characters, but has {len}.")
    })
}

pub fn max_len(at: &Path<'_>, value: &str, max: usize) -> Result<(), Violation> {
    let holds = value.len() <= max || value.chars().count() <= max;
    ensure(holds, at, "string.max_len", || {
        let len = value.chars().count();
        format!("{at} must have at most {max} characters, but has {len}.")
    })
}

pub fn pattern(at: &Path<'_>, value: &str, pattern: &Pattern) -> Result<(), Violation> {
    ensure(pattern.is_match(value), at, "string.pattern", || {
        format!("{at} must match the expression {}.", pattern.as_str())
    })
}

pub fn uri(at: &Path<'_>, value: &str) -> Result<(), Violation> {
    ensure(is_uri(value), at, "string.uri", || format!("{at} must be a URI with a scheme."))
}

pub fn bytes_len(at: &Path<'_>, value: &Bytes, len: usize) -> Result<(), Violation> {
    ensure(value.len() == len, at, "bytes.len", || {
        format!("{at} must have {len} bytes, but has {}.", value.len())
    })
}

pub fn number(
    at: &Path<'_>,
    id: &str,
    holds: bool,
    operator: &str,
    bound: &str,
    value: impl Display,
) -> Result<(), Violation> {
    ensure(holds, at, id, || format!("{at} must be {operator} {bound}, but is {value}."))
}

pub fn duration_gte(at: &Path<'_>, value: &Duration, seconds: i64, nanos: i32) -> Result<(), Violation> {
    // Normalized, so that 1 s - 1 ns and 0 s + 999999999 ns compare as equal.
    let total = |seconds: i64, nanos: i32| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let holds = total(value.seconds, value.nanos) >= total(seconds, nanos);
    ensure(holds, at, "duration.gte", || {
        let bound = Duration { seconds, nanos };
        format!("{at} must be at least {bound}.")
    })
}

pub fn enum_in(at: &Path<'_>, value: i32, allowed: &[i32]) -> Result<(), Violation> {
    ensure(allowed.contains(&value), at, "enum.in", || {
        format!("{at} must be one of {allowed:?}, but is {value}.")
    })
}

pub fn enum_not_in(at: &Path<'_>, value: i32, forbidden: &[i32]) -> Result<(), Violation> {
    ensure(!forbidden.contains(&value), at, "enum.not_in", || {
        format!("{at} must not be one of {forbidden:?}, but is {value}.")
    })
}

pub fn enum_defined(at: &Path<'_>, value: i32, defined: &[i32]) -> Result<(), Violation> {
    ensure(defined.contains(&value), at, "enum.defined_only", || {
        format!("{at} must be a defined value, but is {value}.")
    })
}

pub fn min_items(at: &Path<'_>, count: usize, min: usize) -> Result<(), Violation> {
    ensure(count >= min, at, "repeated.min_items", || {
        format!("{at} must have at least {min} items, but has {count}.")
    })
}

pub fn max_items(at: &Path<'_>, count: usize, max: usize) -> Result<(), Violation> {
    ensure(count <= max, at, "repeated.max_items", || {
        format!("{at} must have at most {max} items, but has {count}.")
    })
}

pub fn unique<T: Ord>(at: &Path<'_>, values: &[T]) -> Result<(), Violation> {
    let distinct: BTreeSet<&T> = values.iter().collect();
    ensure(distinct.len() == values.len(), at, "repeated.unique", || {
        format!("{at} must not have the same item twice.")
    })
}

pub fn max_pairs(at: &Path<'_>, count: usize, max: usize) -> Result<(), Violation> {
    ensure(count <= max, at, "map.max_pairs", || {
        format!("{at} must have at most {max} entries, but has {count}.")
    })
}

fn ensure(holds: bool, at: &Path<'_>, rule: &str, message: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(violation(at, rule, message())) }
}

fn violation(at: &Path<'_>, rule: &str, message: String) -> Violation {
    Violation { field: at.to_string(), rule: rule.to_owned(), message }
}
