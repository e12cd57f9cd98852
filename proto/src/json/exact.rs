//! Guards 64-bit integers against rounding.
//!
//! A JSON parser hands over a number with a fraction, an exponent or too many digits as a 64-bit float, and the reader
//! of messages saturates such a float into the integer: 2^64 would silently become 2^64 - 1. Here such numbers are
//! refused where an integer is expected.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::Error as _;
use serde_json::Value;

/// Up to here, 2^53, every integer has a float of its own.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Digits that fit a 64-bit integer for sure.
const SAFE_LEN: usize = 18;

/// Refuses numbers for 64-bit integers of a message that a float can't hold exactly.
///
/// JSON that isn't well-formed is let through, for the reader to report.
pub fn check(json: &[u8], message: &MessageDescriptor) -> Result<(), serde_json::Error> {
    if !has_long_number(json) {
        return Ok(());
    }
    match serde_json::from_slice(json) {
        Ok(value) => check_message(message, &value),
        Err(_) => Ok(()),
    }
}

/// Whether the text has a number that might become a float.
fn has_long_number(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            b'"' => skip_string(after),
            b'-' | b'0'..=b'9' => {
                let len = rest
                    .iter()
                    .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
                    .count();
                let (number, after) = rest.split_at(len);
                if len > SAFE_LEN || number.iter().any(|byte| b".eE".contains(byte)) {
                    return true;
                }
                after
            }
            _ => after,
        };
    }
    false
}

/// What follows the string whose opening quote was just read.
fn skip_string(mut rest: &[u8]) -> &[u8] {
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            b'"' => return after,
            b'\\' => after.get(1..).unwrap_or_default(),
            _ => after,
        };
    }
    rest
}

fn check_message(message: &MessageDescriptor, value: &Value) -> Result<(), serde_json::Error> {
    let Value::Object(entries) = value else {
        return Ok(());
    };
    // The well-known types have shapes of their own, and none that is used here holds a 64-bit integer.
    if message.package_name() == "google.protobuf" {
        return Ok(());
    }
    for (name, value) in entries {
        let field = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name));
        if let Some(field) = field {
            check_field(&field, value)?;
        }
    }
    Ok(())
}

fn check_field(field: &FieldDescriptor, value: &Value) -> Result<(), serde_json::Error> {
    match (field.kind(), value) {
        (Kind::Message(entry), Value::Object(entries)) if field.is_map() => {
            let value_field = entry.map_entry_value_field();
            entries.values().try_for_each(|value| check_field(&value_field, value))
        }
        (_, Value::Array(items)) => items.iter().try_for_each(|item| check_field(field, item)),
        (Kind::Message(message), _) => check_message(&message, value),
        (
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64,
            Value::Number(number),
        ) if number.is_f64() => match number.as_f64() {
            Some(float) if float.abs() <= EXACT_MAX => Ok(()),
            _ => Err(serde_json::Error::custom(format!(
                "{} can't be {number}: it is out of range or would lose digits",
                field.full_name()
            ))),
        },
        _ => Ok(()),
    }
}
