//! JSON patches (RFC 6902), bounded: a few operations that copy or move can make a value that no memory and no stack can
//! hold.

use crate::api_server::limits::{self, BYTES_MAX, DEPTH_MAX};
use crate::api_server::status::Refused;
use json_patch::{Patch, PatchOperation};
use serde_json::Value;

/// How many operations a patch may have, as in a real API server.
const OPERATIONS_MAX: usize = 10_000;

/// Applies a patch. The object is of no use when it fails.
///
/// # Errors
/// When the patch is none, a test in it fails, it names what is not there, or it asks for too much.
pub fn apply(object: &mut Value, patch: Value) -> Result<(), Refused> {
    let patch: Patch = serde_json::from_value(patch)
        .map_err(|error| Refused::bad_request(format!("the JSON patch cannot be read: {error}")))?;
    if patch.0.len() > OPERATIONS_MAX {
        return Err(Refused::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                patch.0.len()
            ),
        ));
    }
    let mut handled_bytes = 0;
    for operation in patch.0 {
        let new = match &operation {
            PatchOperation::Copy(copy) => object.pointer(copy.from.as_str()),
            PatchOperation::Move(from) => object.pointer(from.from.as_str()),
            PatchOperation::Add(add) => Some(&add.value),
            PatchOperation::Replace(replace) => Some(&replace.value),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
        };
        if let Some(new) = new {
            let levels = operation.path().as_str().matches('/').count();
            if levels > DEPTH_MAX || levels + limits::depth(new) > DEPTH_MAX {
                let message =
                    format!("the patch makes the object deeper than {DEPTH_MAX} levels; make it flatter");
                return Err(Refused::bad_request(message));
            }
            handled_bytes += limits::bytes(new);
            // The values of a patch are in its body, which is no larger; more than that is copied.
            if handled_bytes > 2 * BYTES_MAX {
                return Err(Refused::too_large());
            }
        }
        json_patch::patch(object, &[operation]).map_err(|error| {
            let message = format!("the server rejected our request due to an error in our request: {error}");
            Refused::new(422, "Invalid", message)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_cannot_blow_an_object_up() {
        let copies = |op: &str, n: usize| {
            Value::Array((0..n).map(|i| json!({"op": op, "from": "/a", "path": format!("/b{i}")})).collect())
        };
        let mut object = json!({"a": "x".repeat(1_000_000)});
        assert_eq!(apply(&mut object, copies("copy", 10)).unwrap_err().code, 413);
        let doubling: Vec<Value> =
            (0..200).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/a"})).collect();
        assert_eq!(apply(&mut json!({"a": {}}), json!(doubling)).unwrap_err().code, 400);
        assert_eq!(apply(&mut json!({"a": 1}), copies("copy", OPERATIONS_MAX + 1)).unwrap_err().code, 413);
        assert_eq!(apply(&mut json!({"a": 1}), copies("move", 2)).unwrap_err().code, 422);
        let mut object = json!({"a": 1});
        apply(&mut object, copies("copy", 2)).unwrap();
        assert_eq!(object, json!({"a": 1, "b0": 1, "b1": 1}));
    }
}
