//! The canonical JSON mapping of protobuf, for any message of the schema.
//!
//! Written: names in lowerCamelCase, enums by name, 64-bit integers as strings, times as RFC 3339 with `Z`, defaults
//! left out. Read: both spellings of a name, enums by name or number, integers as numbers or strings; fields that the
//! schema doesn't know are ignored. The same message always makes the same text and the same bytes: keys of objects are
//! in alphabetical order.

use prost::{Message, Name};
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde::de::Error as _;

use crate::DESCRIPTOR_POOL;

mod exact;
mod ordered;

/// Why a message couldn't be turned into JSON or read from it.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The schema doesn't declare the message.
    #[error("the schema has no message {0}, so there is no JSON for it")]
    UnknownMessage(String),
    /// The text isn't JSON, or not of this message.
    #[error("the JSON isn't a valid {message}: {cause}")]
    Invalid {
        /// The full name of the message.
        message: String,
        /// What is wrong, with line and column.
        cause: serde_json::Error,
    },
    /// The message holds something that has no JSON: an unknown type in an `Any`, a time out of range.
    #[error("this {message} can't be written as JSON: {cause}")]
    NotRepresentable {
        /// The full name of the message.
        message: String,
        /// What is in the way.
        cause: String,
    },
}

/// Writes a message as JSON.
pub fn encode<M: Message + Name>(message: &M) -> Result<Vec<u8>, JsonError> {
    let descriptor = descriptor::<M>()?;
    let not_representable = |cause: String| JsonError::NotRepresentable { message: M::full_name(), cause };
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .map_err(|error| not_representable(error.to_string()))?;
    // Reflected maps are in an order of chance; a JSON value sorts them.
    dynamic
        .serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())
        .and_then(|value| serde_json::to_vec(&value))
        .map_err(|error| not_representable(error.to_string()))
}

/// Reads a message from JSON.
pub fn decode<M: Message + Name + Default>(json: &[u8]) -> Result<M, JsonError> {
    let descriptor = descriptor::<M>()?;
    let invalid = |cause: serde_json::Error| JsonError::Invalid { message: M::full_name(), cause };
    exact::check(json, &descriptor).map_err(invalid)?;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let read = DynamicMessage::deserialize_with_options(descriptor, tracked, &options);
    let dynamic = read.map_err(|cause| match track.path().to_string() {
        path if path == "." => invalid(cause),
        path => invalid(serde_json::Error::custom(format!("{path}: {cause}"))),
    })?;
    deserializer.end().map_err(invalid)?;
    M::decode(ordered::encode(&dynamic).as_slice()).map_err(|error| invalid(serde_json::Error::custom(error)))
}

fn descriptor<M: Name>() -> Result<MessageDescriptor, JsonError> {
    let name = M::full_name();
    DESCRIPTOR_POOL.get_message_by_name(&name).ok_or(JsonError::UnknownMessage(name))
}
