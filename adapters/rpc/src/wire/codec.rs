//! Messages from and to bytes, in the two codecs that every protocol has.

use crate::Fault;
use bytes::Bytes;
use connectrpc::{CodecFormat, ErrorCode};
use flyte_proto::{Validate, json};
use prost::{Message, Name};

/// Reads and validates a request.
///
/// # Errors
/// INVALID_ARGUMENT when the bytes are no such message or break one of the schema's rules.
pub fn decode<M: Message + Name + Default + Validate>(bytes: &[u8], format: CodecFormat) -> Result<M, Fault> {
    let message: M = match format {
        CodecFormat::Json => {
            json::decode(bytes).map_err(|error| Fault::new(ErrorCode::InvalidArgument, error.to_string()))?
        }
        _ => M::decode(bytes).map_err(|error| {
            Fault::new(
                ErrorCode::InvalidArgument,
                format!("the request's bytes are not a valid {}: {error}", M::full_name()),
            )
        })?,
    };
    message.validate()?;
    Ok(message)
}

/// Writes an answer.
///
/// # Errors
/// INTERNAL when the answer holds something that has no JSON.
pub fn encode<M: Message + Name>(message: &M, format: CodecFormat) -> Result<Bytes, Fault> {
    match format {
        CodecFormat::Json => {
            json::encode(message).map(Bytes::from).map_err(|error| Fault::internal(error.to_string()))
        }
        _ => Ok(message.encode_to_vec().into()),
    }
}
