//! Messages to the core's types and back.

pub mod from_proto;
pub mod to_proto;
