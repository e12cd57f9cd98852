//! What an attempt left under its output prefix.

use flyte_core::Origin;
use flyte_core::pod::{ErrorDocument, OutputsFound};
use flyte_objects::{ObjectError, Objects};
use flyte_proto::core as c;
use prost::Message;

/// The largest error document that is read.
const ERROR_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Looks for `outputs.pb` and `error.pb`.
///
/// # Errors
/// When the storage does not answer; that says nothing about the attempt.
pub async fn find(objects: &Objects, prefix: &str) -> Result<OutputsFound, ObjectError> {
    let error = match objects.get(&format!("{prefix}/error.pb"), ERROR_MAX_BYTES).await {
        Ok(Some(bytes)) => Some(error_document(&bytes)),
        Ok(None) => None,
        Err(ObjectError::TooLarge { .. }) => Some(ErrorDocument {
            code: "ErrorTooLarge".into(),
            message: "The task left an error document that is too large to be read".into(),
            recoverable: true,
            origin: Origin::User,
        }),
        // Outputs elsewhere cannot be looked at from here; the Pod alone decides.
        Err(ObjectError::Elsewhere { .. }) => return Ok(OutputsFound { outputs: true, error: None }),
        Err(error) => return Err(error),
    };
    let outputs = objects.size(&format!("{prefix}/outputs.pb")).await?.is_some();
    Ok(OutputsFound { outputs, error })
}

fn error_document(bytes: &[u8]) -> ErrorDocument {
    let Some(error) = c::ErrorDocument::decode(bytes).ok().and_then(|document| document.error) else {
        return ErrorDocument {
            code: "ErrorUnreadable".into(),
            message: "The task left an error document that cannot be read".into(),
            recoverable: true,
            origin: Origin::User,
        };
    };
    ErrorDocument {
        recoverable: error.kind() == c::container_error::Kind::Recoverable,
        origin: match error.origin() {
            c::execution_error::ErrorKind::System => Origin::System,
            c::execution_error::ErrorKind::User | c::execution_error::ErrorKind::Unknown => Origin::User,
        },
        code: error.code,
        message: error.message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn outputs_and_errors_are_found_and_strange_bytes_are_no_success() {
        let objects = Objects::in_memory("mem://x");
        assert_eq!(find(&objects, "mem://x/a/1").await.unwrap(), OutputsFound::default());
        objects.put("mem://x/a/1/outputs.pb", bytes::Bytes::new()).await.unwrap();
        let found = find(&objects, "mem://x/a/1").await.unwrap();
        assert_eq!(found, OutputsFound { outputs: true, error: None });
        let document = c::ErrorDocument {
            error: Some(c::ContainerError {
                code: "ValueError".into(),
                message: "boom".into(),
                kind: c::container_error::Kind::Recoverable.into(),
                origin: c::execution_error::ErrorKind::User.into(),
            }),
        };
        objects.put("mem://x/a/1/error.pb", document.encode_to_vec().into()).await.unwrap();
        let error = ErrorDocument {
            code: "ValueError".into(),
            message: "boom".into(),
            recoverable: true,
            origin: Origin::User,
        };
        assert_eq!(find(&objects, "mem://x/a/1").await.unwrap().error, Some(error));
        objects.put("mem://x/a/1/error.pb", bytes::Bytes::from_static(b"\xff\xff")).await.unwrap();
        assert_eq!(find(&objects, "mem://x/a/1").await.unwrap().error.unwrap().code, "ErrorUnreadable");
        assert_eq!(
            find(&objects, "s3://elsewhere/1").await.unwrap(),
            OutputsFound { outputs: true, error: None }
        );
    }
}
