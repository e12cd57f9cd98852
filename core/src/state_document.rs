//! The JSON document that describes an action's state: what the executor puts through the state service, what
//! `SELECT state FROM actions` shows, and what outside reporters send.

use crate::{Action, Failure, Origin, Phase, Timestamp};
use serde_json::{Map, Value, json};

/// The longest document that is accepted, in bytes.
pub const STATE_MAX_BYTES: usize = 256 * 1024;

/// The document for an action: at least `phase`, `actionId` (`run/action`) and `timestamp`, as readers of the older
/// manager expect, then what else is known.
pub fn render(action: &Action) -> String {
    let attempt = action.attempt();
    let mut document = json!({
        "phase": action.phase.name(),
        "actionId": format!("{}/{}", action.id.run.name, action.id.name),
        "timestamp": action.updated_at,
        "attempt": attempt.number,
    });
    if let Value::Object(fields) = &mut document {
        if !attempt.message.is_empty() {
            fields.insert("message".into(), json!(attempt.message));
        }
        if !action.output_uri.is_empty() {
            fields.insert("outputUri".into(), json!(action.output_uri));
        }
        if let Some(failure) = action.failure.as_ref().or(attempt.failure.as_ref()) {
            fields.insert(
                "error".into(),
                json!({"kind": failure.origin, "code": failure.code, "message": failure.message}),
            );
        }
        if let Some(abort) = &action.abort {
            fields.insert("reason".into(), json!(abort.reason));
        }
    }
    document.to_string()
}

/// A state that somebody reports for an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The reported phase; `None` when the document says nothing of it.
    pub phase: Option<Phase>,
    /// The attempt that it speaks of; `None` means the current one.
    pub attempt: Option<u32>,
    /// `message`; empty when absent.
    pub message: String,
    /// `outputUri`; empty when absent.
    pub output_uri: String,
    /// `error`, made of `{code, message, kind}`.
    pub failure: Option<Failure>,
    /// The document as it was given, kept verbatim.
    pub document: String,
}

/// Why a document was refused; the text is a sentence that names what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is larger than [`STATE_MAX_BYTES`].
    #[error("state: the document has {bytes} bytes, the limit is {STATE_MAX_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is not JSON, or not a JSON object.
    #[error("state: the document must be a JSON object: {0}")]
    NotAnObject(String),
    /// `phase` is there but is no phase's name.
    #[error(
        "state.phase: {0} is not the name of a phase; expected one such as RUNNING or ACTION_PHASE_RUNNING"
    )]
    UnknownPhase(String),
    /// Another field has the wrong type.
    #[error("state.{0}: expected {1}")]
    WrongType(&'static str, &'static str),
}

/// Reads a document that somebody reports.
///
/// # Errors
/// What is wrong with it, by field.
pub fn parse(document: &str) -> Result<Report, DocumentError> {
    if document.len() > STATE_MAX_BYTES {
        return Err(DocumentError::TooLarge { bytes: document.len() });
    }
    let fields = match serde_json::from_str::<Value>(document) {
        Ok(Value::Object(fields)) => fields,
        Ok(other) => return Err(DocumentError::NotAnObject(format!("it is {}", kind(&other)))),
        Err(error) => return Err(DocumentError::NotAnObject(error.to_string())),
    };
    let phase =
        match fields.get("phase") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(Phase::parse(text).ok_or_else(|| {
                DocumentError::UnknownPhase(format!("'{}'", crate::text::bounded(text, 64)))
            })?),
            Some(other) => return Err(DocumentError::UnknownPhase(kind(other).to_string())),
        };
    let attempt = match fields.get("attempt") {
        None | Some(Value::Null) => None,
        Some(value) => Some(
            value
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| *number > 0)
                .ok_or(DocumentError::WrongType("attempt", "a whole number from 1"))?,
        ),
    };
    let failure = match fields.get("error") {
        None | Some(Value::Null) => None,
        Some(Value::Object(error)) => Some(Failure::permanent(
            match error.get("kind").and_then(Value::as_str) {
                Some(kind) if kind.to_ascii_uppercase().contains("SYSTEM") => Origin::System,
                _ => Origin::User,
            },
            text_of(error, "code"),
            text_of(error, "message"),
        )),
        Some(Value::String(message)) => Some(Failure::permanent(Origin::User, "", message)),
        Some(_) => return Err(DocumentError::WrongType("error", "an object with code, message and kind")),
    };
    Ok(Report {
        phase,
        attempt,
        message: crate::text::message(text_of(&fields, "message")),
        output_uri: text_of(&fields, "outputUri").to_string(),
        failure,
        document: document.to_string(),
    })
}

fn text_of<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or("")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The time that a document carries, for readers that show it.
pub fn timestamp(document: &str) -> Option<Timestamp> {
    let value: Value = serde_json::from_str(document).ok()?;
    Timestamp::parse(value.get("timestamp")?.as_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_the_older_executor_is_read() {
        let document =
            r#"{"phase":"PHASE_RUNNING","actionId":"r/a0","timestamp":"2026-03-01T12:00:00+01:00"}"#;
        assert_eq!(
            parse(document),
            Ok(Report {
                phase: Some(Phase::Running),
                attempt: None,
                message: String::new(),
                output_uri: String::new(),
                failure: None,
                document: document.to_string(),
            })
        );
        assert_eq!(timestamp(document), Timestamp::parse("2026-03-01T11:00:00Z"));
    }

    #[test]
    fn what_is_wrong_with_a_document_is_said_by_field() {
        for (document, error) in [
            ("", "state: the document must be a JSON object: EOF while parsing a value at line 1 column 0"),
            ("[]", "state: the document must be a JSON object: it is a list"),
            ("7", "state: the document must be a JSON object: it is a number"),
            (
                r#"{"phase":"GREAT"}"#,
                "state.phase: 'GREAT' is not the name of a phase; expected one such as RUNNING or ACTION_PHASE_RUNNING",
            ),
            (
                r#"{"phase":4}"#,
                "state.phase: a number is not the name of a phase; expected one such as RUNNING or ACTION_PHASE_RUNNING",
            ),
            (r#"{"attempt":0}"#, "state.attempt: expected a whole number from 1"),
            (r#"{"error":1}"#, "state.error: expected an object with code, message and kind"),
        ] {
            assert_eq!(
                parse(document).map_err(|error| error.to_string()),
                Err(error.to_string()),
                "{document}"
            );
        }
    }
}
