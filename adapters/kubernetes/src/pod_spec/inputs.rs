//! Inputs as text, for templates that name them.

use flyte_core::{Timestamp, template};
use flyte_proto::core as c;
use flyte_proto::task;
use prost_types::value::Kind;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Whether the template uses inputs by their names, so that they have to be read before a Pod is made.
pub fn needs_inputs(spec: &task::TaskSpec) -> bool {
    let uses = |words: &[String]| words.iter().any(|word| template::uses_inputs(word));
    match spec.task_template.as_ref().and_then(|template| template.target.as_ref()) {
        Some(c::task_template::Target::Container(container)) => {
            uses(&container.command)
                || uses(&container.args)
                || container.env.iter().any(|pair| template::uses_inputs(&pair.value))
        }
        Some(c::task_template::Target::K8sPod(pod)) => {
            pod.pod_spec.as_ref().is_some_and(|spec| template::uses_inputs(&struct_json(spec).to_string()))
        }
        _ => false,
    }
}

/// Every input as text, by name.
pub fn texts(inputs: &task::Inputs) -> BTreeMap<String, String> {
    inputs
        .literals
        .iter()
        .filter_map(|literal| Some((literal.name.clone(), text(literal.value.as_ref()?))))
        .collect()
}

/// A literal as the text that stands for it in a command line: a primitive as it is, an object by its URI, anything else
/// as JSON.
pub fn text(literal: &c::Literal) -> String {
    match json_of(literal) {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A literal as JSON.
pub fn json_of(literal: &c::Literal) -> Value {
    use c::literal::Value as Of;
    match &literal.value {
        Some(Of::Scalar(scalar)) => scalar_json(scalar),
        Some(Of::Collection(list)) => list.literals.iter().map(json_of).collect(),
        Some(Of::Map(map)) => map
            .literals
            .iter()
            .map(|(name, literal)| (name.clone(), json_of(literal)))
            .collect::<Map<_, _>>()
            .into(),
        Some(Of::OffloadedMetadata(offloaded)) => json!(offloaded.uri),
        None => Value::Null,
    }
}

fn scalar_json(scalar: &c::Scalar) -> Value {
    use c::primitive::Value as P;
    use c::scalar::Value as S;
    match &scalar.value {
        Some(S::Primitive(primitive)) => match &primitive.value {
            Some(P::Integer(number)) => json!(number),
            Some(P::FloatValue(number)) => json!(number),
            Some(P::StringValue(text)) => json!(text),
            Some(P::Boolean(on)) => json!(on),
            Some(P::Datetime(time)) => {
                let ms = time.seconds.saturating_mul(1_000).saturating_add(i64::from(time.nanos) / 1_000_000);
                json!(Timestamp::from_ms(ms))
            }
            Some(P::Duration(span)) => {
                json!(format!("{}s", span.seconds as f64 + f64::from(span.nanos) / 1e9))
            }
            None => Value::Null,
        },
        Some(S::Blob(blob)) => json!(blob.uri),
        Some(S::Schema(schema)) => json!(schema.uri),
        Some(S::StructuredDataset(dataset)) => json!(dataset.uri),
        Some(S::Generic(object)) => struct_json(object),
        Some(S::Union(union)) => union.value.as_deref().map(json_of).unwrap_or_default(),
        Some(S::Binary(_) | S::NoneType(_) | S::Error(_)) | None => Value::Null,
    }
}

/// `google.protobuf.Struct` as JSON. Whole numbers are written without a point, since Kubernetes' fields want integers.
pub fn struct_json(object: &prost_types::Struct) -> Value {
    object.fields.iter().map(|(name, value)| (name.clone(), value_json(value))).collect::<Map<_, _>>().into()
}

fn value_json(value: &prost_types::Value) -> Value {
    match &value.kind {
        Some(Kind::NumberValue(number)) if number.fract() == 0.0 && number.abs() < 9e15 => {
            json!(*number as i64)
        }
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => json!(text),
        Some(Kind::BoolValue(on)) => json!(on),
        Some(Kind::StructValue(object)) => struct_json(object),
        Some(Kind::ListValue(list)) => list.values.iter().map(value_json).collect(),
        Some(Kind::NullValue(_)) | None => Value::Null,
    }
}
