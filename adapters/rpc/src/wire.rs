//! The protocols: bytes and codecs on one side, messages and faults on the other.

pub mod codec;
pub mod dispatcher;
pub mod front;
pub mod health;
pub mod registry;
