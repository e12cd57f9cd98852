//! Files as outputs.

use super::{CopilotError, file_name};
use bytes::Bytes;
use flyte_core::Timestamp;
use flyte_core::pod::COLLECTOR_CODE;
use flyte_objects::Objects;
use flyte_proto::{core as c, task};
use prost::Message;
use std::path::Path;

/// The largest file that becomes a primitive value.
const VALUE_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// What is uploaded.
pub struct Upload<'a> {
    /// The directory with one file for each output.
    pub dir: &'a Path,
    /// Where `outputs.pb` goes.
    pub outputs_prefix: &'a str,
    /// The task's interface.
    pub interface: &'a c::TypedInterface,
}

/// Makes `outputs.pb` of the files, or `error.pb` when one is missing or is not what its type says.
///
/// # Errors
/// A sentence when the storage fails; what is wrong with the files is the task's error and is written as one.
pub async fn upload(objects: &Objects, upload: &Upload<'_>) -> Result<(), CopilotError> {
    let mut outputs = task::Outputs::default();
    let variables =
        upload.interface.outputs.as_ref().map(|outputs| outputs.variables.as_slice()).unwrap_or_default();
    for variable in variables {
        let kind = variable.value.as_ref().and_then(|value| value.r#type.as_ref());
        match literal(objects, upload, &variable.key, kind).await? {
            Ok(value) => {
                outputs.literals.push(task::NamedLiteral { name: variable.key.clone(), value: Some(value) });
            }
            Err(message) => return fail(objects, upload.outputs_prefix, message).await,
        }
    }
    let uri = format!("{}/outputs.pb", upload.outputs_prefix);
    Ok(objects.put(&uri, outputs.encode_to_vec().into()).await?)
}

async fn fail(objects: &Objects, prefix: &str, message: String) -> Result<(), CopilotError> {
    let document = c::ErrorDocument {
        error: Some(c::ContainerError {
            code: COLLECTOR_CODE.into(),
            message,
            kind: c::container_error::Kind::Recoverable.into(),
            origin: c::execution_error::ErrorKind::User.into(),
        }),
    };
    Ok(objects.put(&format!("{prefix}/error.pb"), document.encode_to_vec().into()).await?)
}

/// The value of an output, or what is wrong with its file.
async fn literal(
    objects: &Objects,
    upload: &Upload<'_>,
    name: &str,
    kind: Option<&c::LiteralType>,
) -> Result<Result<c::Literal, String>, CopilotError> {
    let Some(file) = file_name(name).map(|name| upload.dir.join(name)) else {
        return Ok(Err(format!("the output '{name}' cannot be a file's name")));
    };
    let missing = || {
        format!(
            "the task left no file {name} in its output directory, although its interface declares output '{name}'"
        )
    };
    let Ok(metadata) = std::fs::metadata(&file) else { return Ok(Err(missing())) };
    if !metadata.is_file() {
        return Ok(Err(format!("what the task left for output '{name}' is not a file")));
    }
    let unreadable = |error: std::io::Error| CopilotError(format!("cannot read {}: {error}", file.display()));
    if let Some(c::literal_type::Type::Blob(blob)) = kind.and_then(|kind| kind.r#type.as_ref()) {
        let bytes = std::fs::read(&file).map_err(unreadable)?;
        let uri = format!("{}/{name}", upload.outputs_prefix);
        objects.put(&uri, Bytes::from(bytes)).await?;
        let blob = c::Blob { metadata: Some(c::BlobMetadata { r#type: Some(blob.clone()) }), uri };
        return Ok(Ok(scalar(c::scalar::Value::Blob(blob))));
    }
    if metadata.len() > VALUE_MAX_BYTES {
        return Ok(Err(format!(
            "the file of output '{name}' has {} bytes; a value has at most {VALUE_MAX_BYTES}",
            metadata.len()
        )));
    }
    let bytes = std::fs::read(&file).map_err(unreadable)?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(Err(format!("the file of output '{name}' is not UTF-8 text")));
    };
    Ok(primitive(kind, &text)
        .map(|value| scalar(c::scalar::Value::Primitive(c::Primitive { value: Some(value) })))
        .map_err(|wanted| {
            let shown = flyte_core::text::bounded(text.trim_end(), 128);
            format!("the file of output '{name}' holds '{shown}', which is not {wanted}")
        }))
}

fn scalar(value: c::scalar::Value) -> c::Literal {
    c::Literal {
        value: Some(c::literal::Value::Scalar(Box::new(c::Scalar { value: Some(value) }))),
        ..c::Literal::default()
    }
}

/// The text as a value of the type; what was wanted when it is none.
fn primitive(kind: Option<&c::LiteralType>, text: &str) -> Result<c::primitive::Value, &'static str> {
    use c::primitive::Value as P;
    let simple = match kind.and_then(|kind| kind.r#type.as_ref()) {
        Some(c::literal_type::Type::Simple(simple)) => {
            c::SimpleType::try_from(*simple).unwrap_or(c::SimpleType::String)
        }
        _ => c::SimpleType::String,
    };
    let trimmed = text.trim();
    match simple {
        c::SimpleType::Integer => trimmed.parse().map(P::Integer).map_err(|_| "a whole number"),
        c::SimpleType::Float => trimmed.parse().map(P::FloatValue).map_err(|_| "a number"),
        c::SimpleType::Boolean => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(P::Boolean(true)),
            "false" | "0" => Ok(P::Boolean(false)),
            _ => Err("true or false"),
        },
        c::SimpleType::Datetime => Timestamp::parse(trimmed)
            .map(|time| {
                let ms = time.as_ms();
                let nanos = i32::try_from(ms.rem_euclid(1_000)).unwrap_or(0) * 1_000_000;
                P::Datetime(prost_types::Timestamp { seconds: ms.div_euclid(1_000), nanos })
            })
            .ok_or("a time in RFC 3339"),
        c::SimpleType::Duration => {
            let seconds = trimmed.strip_suffix('s').unwrap_or(trimmed).parse::<f64>();
            match seconds {
                Ok(seconds) if seconds.is_finite() => Ok(P::Duration(prost_types::Duration {
                    seconds: seconds.trunc() as i64,
                    nanos: (seconds.fract() * 1e9) as i32,
                })),
                _ => Err("a duration in seconds"),
            }
        }
        // A line's end that a shell adds is no part of a text.
        _ => Ok(P::StringValue(text.strip_suffix('\n').unwrap_or(text).to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copilot::download;

    fn interface(outputs: &[(&str, c::SimpleType)]) -> c::TypedInterface {
        let variables = outputs.iter().map(|(name, kind)| c::VariableEntry {
            key: (*name).into(),
            value: Some(c::Variable {
                r#type: Some(c::LiteralType {
                    r#type: Some(c::literal_type::Type::Simple((*kind).into())),
                    ..c::LiteralType::default()
                }),
                ..c::Variable::default()
            }),
        });
        c::TypedInterface {
            outputs: Some(c::VariableMap { variables: variables.collect() }),
            ..Default::default()
        }
    }

    async fn uploaded(files: &[(&str, &str)], interface: &c::TypedInterface) -> (Objects, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let objects = Objects::in_memory("mem://x");
        upload(&objects, &Upload { dir: dir.path(), outputs_prefix: "mem://x/o", interface }).await.unwrap();
        (objects, dir)
    }

    #[tokio::test]
    async fn files_become_outputs_of_their_types_and_inputs_become_files_again() {
        let types = [
            ("i", c::SimpleType::Integer),
            ("f", c::SimpleType::Float),
            ("s", c::SimpleType::String),
            ("b", c::SimpleType::Boolean),
            ("t", c::SimpleType::Datetime),
            ("d", c::SimpleType::Duration),
        ];
        let files = [
            ("i", "42\n"),
            ("f", "1.5"),
            ("s", "two\nlines\n"),
            ("b", "True"),
            ("t", "2026-03-01T12:00:00Z\n"),
            ("d", "1.5s"),
        ];
        let (objects, _dir) = uploaded(&files, &interface(&types)).await;
        let outputs = objects.get("mem://x/o/outputs.pb", 10_000).await.unwrap().unwrap();
        assert_eq!(objects.get("mem://x/o/error.pb", 10_000).await.unwrap(), None);
        // Outputs and inputs are lists of named literals alike.
        objects.put("mem://x/i/inputs.pb", outputs).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        download(&objects, "mem://x/i/inputs.pb", dir.path(), "JSON").await.unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let texts: Vec<String> = ["i", "f", "s", "b", "t", "d"].map(read).to_vec();
        assert_eq!(texts, ["42", "1.5", "two\nlines", "true", "2026-03-01T12:00:00.000Z", "1.5s"]);
        assert_eq!(
            read("inputs.json"),
            r#"{"b":true,"d":"1.5s","f":1.5,"i":42,"s":"two\nlines","t":"2026-03-01T12:00:00.000Z"}"#
        );
    }

    #[tokio::test]
    async fn a_missing_or_wrong_file_is_the_tasks_error() {
        for (files, message) in [
            (
                &[][..],
                "the task left no file i in its output directory, although its interface declares output 'i'",
            ),
            (&[("i", "many")][..], "the file of output 'i' holds 'many', which is not a whole number"),
        ] {
            let (objects, _dir) = uploaded(files, &interface(&[("i", c::SimpleType::Integer)])).await;
            let bytes = objects.get("mem://x/o/error.pb", 10_000).await.unwrap().unwrap();
            assert_eq!(c::ErrorDocument::decode(bytes.as_ref()).unwrap().error.unwrap().message, message);
            assert_eq!(objects.get("mem://x/o/outputs.pb", 10_000).await.unwrap(), None);
        }
    }
}
