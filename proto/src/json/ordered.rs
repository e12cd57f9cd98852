//! Encodes reflected messages with their maps in order.

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value};

/// The bytes of a message, fields by number and map entries by key.
///
/// A reflected message keeps a map in an order of chance. Bytes that pass through unread keep that order, so without
/// this the same JSON would be stored differently each time.
pub fn encode(message: &DynamicMessage) -> Vec<u8> {
    let mut out = Vec::new();
    for (field, value) in message.fields() {
        match value {
            Value::Message(inner) => put_message(&field, inner, &mut out),
            Value::List(items) if matches!(field.kind(), Kind::Message(_)) => {
                for item in items.iter().filter_map(Value::as_message) {
                    put_message(&field, item, &mut out);
                }
            }
            Value::Map(entries) => {
                if let Kind::Message(entry) = field.kind() {
                    let mut sorted: Vec<(&MapKey, &Value)> = entries.iter().collect();
                    sorted.sort_by_key(|(left, _)| *left);
                    for (key, value) in sorted {
                        let mut pair = DynamicMessage::new(entry.clone());
                        pair.set_field(&entry.map_entry_key_field(), key.clone().into());
                        pair.set_field(&entry.map_entry_value_field(), value.clone());
                        put_message(&field, &pair, &mut out);
                    }
                }
            }
            scalar => {
                let mut alone = DynamicMessage::new(field.parent_message().clone());
                alone.set_field(&field, scalar.clone());
                out.append(&mut alone.encode_to_vec());
            }
        }
    }
    out
}

fn put_message(field: &FieldDescriptor, message: &DynamicMessage, out: &mut Vec<u8>) {
    let bytes = encode(message);
    encode_key(field.number(), WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(&bytes);
}
