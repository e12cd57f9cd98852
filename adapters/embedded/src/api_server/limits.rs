//! How large objects may be. Deeper ones could not be read by clients, and would exhaust the stack here.

use super::status::Refused;
use serde_json::Value;

/// The largest request body and the largest object, as in a real API server.
pub const BYTES_MAX: usize = 3 * 1024 * 1024;
/// How deep objects and arrays may be nested; JSON readers give up at 128, and lists and watches add some levels.
pub const DEPTH_MAX: usize = 100;

/// How deep a value is nested: 0 for a number. Nothing here recurses.
pub fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut left = vec![(value, 0)];
    while let Some((value, depth)) = left.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => left.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    deepest
}

/// How many bytes a value has as JSON.
pub fn bytes(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
            self.0 += buffer.len();
            Ok(buffer.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Counting cannot fail, and a value that is no JSON cannot be made.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Refuses what is too deep or too large to be kept.
///
/// # Errors
/// When it is.
pub fn check(value: &Value) -> Result<(), Refused> {
    if depth(value) > DEPTH_MAX {
        return Err(Refused::bad_request(format!(
            "the object is nested deeper than {DEPTH_MAX} levels; make it flatter"
        )));
    }
    if bytes(value) > BYTES_MAX {
        return Err(Refused::too_large());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn depth_and_size_are_measured_and_bounded() {
        assert_eq!(depth(&json!(1)), 0);
        assert_eq!(depth(&json!({"a": [], "b": [{"c": 1}]})), 3);
        assert_eq!(bytes(&json!({"a": [1, "ö"]})), r#"{"a":[1,"ö"]}"#.len());
        let mut deep = json!(0);
        for _ in 0..DEPTH_MAX {
            deep = json!([deep]);
        }
        assert_eq!(check(&deep), Ok(()));
        assert_eq!(check(&json!([deep])).unwrap_err().code, 400);
        assert_eq!(check(&json!("x".repeat(BYTES_MAX))).unwrap_err().code, 413);
    }
}
