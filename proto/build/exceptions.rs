//! Where validation is deliberately laxer than the schema's rules.
//!
//! | fields | rule of the schema | here | why |
//! |---|---|---|---|
//! | strings named `org` or `organization` | at least 1 character | may be empty | clients send no organization unless one is configured; the empty one is the default organization |
//!
//! All other rules of such a field hold as soon as it isn't empty.

/// Whether the string field `name` may be empty although it has a minimum length.
pub fn may_be_empty(name: &str) -> bool {
    matches!(name, "org" | "organization")
}
