//! Answers other than success, in Kubernetes' own form
//! (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/>).

use serde_json::{Value, json};

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The HTTP status.
    pub code: u16,
    /// `status.reason`, such as `NotFound`.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// `status.details`.
    pub details: Value,
}

impl Refused {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: json!({}) }
    }

    /// There is no such object.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        Self {
            details: json!({"name": name, "group": group, "kind": plural}),
            ..Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(group, plural)))
        }
    }

    /// The server has no such resource.
    pub fn no_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// There is one of this name already.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        Self {
            details: json!({"name": name, "group": group, "kind": plural}),
            ..Self::new(
                409,
                "AlreadyExists",
                format!("{} \"{name}\" already exists", qualified(group, plural)),
            )
        }
    }

    /// Somebody else has changed it since.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        Self {
            details: json!({"name": name, "group": group, "kind": plural}),
            ..Self::new(
                409,
                "Conflict",
                format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, plural)),
            )
        }
    }

    /// The object breaks rules of its type; each cause is a field and what is wrong with it.
    pub fn invalid(kind: &str, name: &str, causes: &[(String, String)]) -> Self {
        let text: Vec<String> = causes.iter().map(|(field, why)| format!("{field}: {why}")).collect();
        let causes: Vec<Value> = causes
            .iter()
            .map(|(field, why)| json!({"reason": "FieldValueInvalid", "message": why, "field": field}))
            .collect();
        Self {
            details: json!({"name": name, "kind": kind, "causes": causes}),
            ..Self::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {}", text.join(", ")))
        }
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The version is too old to watch or to go on listing from.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The version is newer than anything that has happened.
    pub fn too_new(asked: u64, now: u64) -> Self {
        Self {
            details: json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            }),
            ..Self::new(504, "Timeout", format!("Too large resource version: {asked}, current: {now}"))
        }
    }

    /// The body or the object has too many bytes.
    pub fn too_large() -> Self {
        let message = format!("Request entity too large: limit is {}", super::limits::BYTES_MAX);
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The format of the body is not one that is taken here.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        })
    }
}

fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
}
