//! The canonical JSON mapping.

use std::collections::BTreeMap;

use flyte_proto::common::{ActionIdentifier, RunIdentifier};
use flyte_proto::core::{Literal, LiteralOffloadedMetadata, Primitive, primitive};
use flyte_proto::json::{self, JsonError};
use flyte_proto::task::{Inputs, Labels, RunSpec};
use flyte_proto::workflow::{CreateRunRequest, EnrichedAction, RunDetails, RunSource, create_run_request};
use flyte_proto::{Raw, google};
use prost::{Message, Name};
use prost_types::{Duration, Timestamp};

fn text<M: Message + Name>(message: &M) -> String {
    String::from_utf8(json::encode(message).unwrap()).unwrap()
}

fn read<M: Message + Name + Default>(text: &str) -> Result<M, JsonError> {
    json::decode(text.as_bytes())
}

fn integer(value: i64) -> Primitive {
    Primitive { value: Some(primitive::Value::Integer(value)) }
}

fn size(size_bytes: u64) -> LiteralOffloadedMetadata {
    LiteralOffloadedMetadata { size_bytes, ..Default::default() }
}

#[test]
fn sixty_four_bit_integers_are_written_as_strings_and_read_as_either() {
    for value in [0, -1, 9_007_199_254_740_993, i64::MIN, i64::MAX] {
        let message = integer(value);
        assert_eq!(text(&message), format!(r#"{{"integer":"{value}"}}"#));
        assert_eq!(read::<Primitive>(&format!(r#"{{"integer":"{value}"}}"#)).unwrap(), message);
        assert_eq!(read::<Primitive>(&format!(r#"{{"integer":{value}}}"#)).unwrap(), message);
    }
    for value in [1, 9_007_199_254_740_993, u64::MAX] {
        let message = size(value);
        assert_eq!(text(&message), format!(r#"{{"sizeBytes":"{value}"}}"#));
        for json in [format!(r#"{{"sizeBytes":"{value}"}}"#), format!(r#"{{"size_bytes":{value}}}"#)] {
            assert_eq!(read::<LiteralOffloadedMetadata>(&json).unwrap(), message);
        }
    }
}

#[test]
fn a_whole_number_may_be_written_with_a_fraction_or_exponent() {
    assert_eq!(read::<Primitive>(r#"{"integer":1.0}"#).unwrap(), integer(1));
    assert_eq!(read::<Primitive>(r#"{"integer":1e3}"#).unwrap(), integer(1000));
    assert_eq!(
        read::<Primitive>(r#"{"integer":-9007199254740992.0}"#).unwrap(),
        integer(-9_007_199_254_740_992)
    );
}

#[test]
fn what_is_not_a_sixty_four_bit_integer_is_refused() {
    for value in [
        "1.5",
        r#""1.5""#,
        r#""abc""#,
        r#""""#,
        "9223372036854775808",
        r#""9223372036854775808""#,
        "9223372036854775808.0",
        "9.223372036854775808e18",
        "-9223372036854775809",
        r#""-9223372036854775809""#,
        "9007199254740993.0",
        "1e400",
        "true",
        "[]",
        "{}",
    ] {
        let json = format!(r#"{{"integer":{value}}}"#);
        assert!(read::<Primitive>(&json).is_err(), "{value}");
    }
    for value in ["-1", r#""-1""#, "18446744073709551616", r#""18446744073709551616""#, "1e20"] {
        let json = format!(r#"{{"sizeBytes":{value}}}"#);
        assert!(read::<LiteralOffloadedMetadata>(&json).is_err(), "{value}");
    }
}

#[test]
fn an_inexact_integer_is_found_deep_inside_and_other_numbers_are_let_be() {
    // In a map of messages, in a list of messages, behind an escaped quote.
    for json in [
        r#"{"map":{"literals":{"a\"":{"scalar":{"primitive":{"integer":1e20}}}}}}"#,
        r#"{"collection":{"literals":[{"scalar":{"primitive":{"integer":18446744073709551616}}}]}}"#,
    ] {
        let error = read::<Literal>(json).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "the JSON isn't a valid flyteidl2.core.Literal: flyteidl2.core.Primitive.integer can't be {}: \
                 it is out of range or would lose digits",
                if json.contains("1e20") { "1e+20" } else { "1.8446744073709552e+19" }
            )
        );
    }
    assert_eq!(
        read::<Primitive>(r#"{"floatValue":1e300}"#).unwrap(),
        Primitive { value: Some(primitive::Value::FloatValue(1e300)) }
    );
    assert_eq!(
        read::<RunIdentifier>(r#"{"name":"1e300","unknown":1e300}"#).unwrap(),
        RunIdentifier { name: "1e300".to_owned(), ..Default::default() }
    );
}

#[test]
fn names_are_written_in_lower_camel_case_and_read_in_both_spellings() {
    let message = CreateRunRequest {
        id: Some(create_run_request::Id::RunId(RunIdentifier {
            org: "o".to_owned(),
            project: "p".to_owned(),
            domain: "d".to_owned(),
            name: "r".to_owned(),
        })),
        source: RunSource::Cli as i32,
        ..Default::default()
    };
    assert_eq!(
        text(&message),
        r#"{"runId":{"domain":"d","name":"r","org":"o","project":"p"},"source":"RUN_SOURCE_CLI"}"#
    );
    for name in ["runId", "run_id"] {
        let json = format!(
            r#"{{"{name}":{{"org":"o","project":"p","domain":"d","name":"r"}},"source":"RUN_SOURCE_CLI"}}"#
        );
        assert_eq!(read::<CreateRunRequest>(&json).unwrap(), message);
    }
}

#[test]
fn enums_are_read_by_name_or_number_and_unknown_numbers_are_kept() {
    let source = |source| CreateRunRequest { source, ..Default::default() };
    assert_eq!(read::<CreateRunRequest>(r#"{"source":"RUN_SOURCE_WEB"}"#).unwrap(), source(1));
    assert_eq!(read::<CreateRunRequest>(r#"{"source":2}"#).unwrap(), source(2));
    assert_eq!(read::<CreateRunRequest>(r#"{"source":77}"#).unwrap(), source(77));
    assert_eq!(text(&source(77)), r#"{"source":77}"#);
    // A name of a newer schema is an unknown value, and ignored as an unknown field is.
    assert_eq!(read::<CreateRunRequest>(r#"{"source":"RUN_SOURCE_MARS"}"#).unwrap(), source(0));
}

#[test]
fn times_are_rfc_3339_in_utc() {
    let at =
        |seconds, nanos| RunSpec { run_start_time: Some(Timestamp { seconds, nanos }), ..Default::default() };
    for (message, time) in [
        (at(0, 0), "1970-01-01T00:00:00Z"),
        (at(1_700_000_000, 0), "2023-11-14T22:13:20Z"),
        (at(1_700_000_000, 500_000_000), "2023-11-14T22:13:20.500Z"),
        (at(1_700_000_000, 1_000), "2023-11-14T22:13:20.000001Z"),
        (at(1_700_000_000, 1), "2023-11-14T22:13:20.000000001Z"),
        (at(-62_135_596_800, 0), "0001-01-01T00:00:00Z"),
        (at(253_402_300_799, 999_999_999), "9999-12-31T23:59:59.999999999Z"),
    ] {
        assert_eq!(text(&message), format!(r#"{{"runStartTime":"{time}"}}"#));
        assert_eq!(read::<RunSpec>(&format!(r#"{{"runStartTime":"{time}"}}"#)).unwrap(), message);
    }
    assert_eq!(
        read::<RunSpec>(r#"{"runStartTime":"2023-11-15T00:13:20+02:00"}"#).unwrap(),
        at(1_700_000_000, 0)
    );
    for bad in ["2023-11-14", "2023-11-14T22:13:20", "now", "10000-01-01T00:00:00Z"] {
        assert!(read::<RunSpec>(&format!(r#"{{"runStartTime":"{bad}"}}"#)).is_err(), "{bad}");
    }
}

#[test]
fn a_time_out_of_range_can_not_be_written() {
    let message =
        RunSpec { run_start_time: Some(Timestamp { seconds: i64::MAX, nanos: 0 }), ..Default::default() };
    assert!(matches!(
        json::encode(&message),
        Err(JsonError::NotRepresentable { message, .. }) if message == "flyteidl2.task.RunSpec"
    ));
}

#[test]
fn durations_are_seconds() {
    let message =
        Primitive { value: Some(primitive::Value::Duration(Duration { seconds: 1, nanos: 500_000_000 })) };
    assert_eq!(text(&message), r#"{"duration":"1.500s"}"#);
    assert_eq!(read::<Primitive>(r#"{"duration":"1.5s"}"#).unwrap(), message);
}

#[test]
fn unknown_fields_and_nulls_are_ignored() {
    assert_eq!(
        read::<ActionIdentifier>(r#"{"name":"a0","run":null,"later":{"deep":[1,{"x":null}]},"other":"x"}"#)
            .unwrap(),
        ActionIdentifier { run: None, name: "a0".to_owned() }
    );
}

#[test]
fn what_is_not_json_of_the_message_is_refused() {
    for bad in ["", "{", "[]", "1", r#"{"name":1}"#, "{} {}", "{}x", r#"{"run":"x"}"#] {
        assert!(read::<ActionIdentifier>(bad).is_err(), "{bad}");
    }
    let deep = r#"{"collection":{"literals":["#.repeat(10_000);
    assert!(read::<Literal>(&deep).is_err());
}

#[test]
fn both_members_of_a_oneof_are_refused() {
    let json = r#"{"runId":{},"projectId":{}}"#;
    assert_eq!(
        read::<CreateRunRequest>(json).unwrap_err().to_string(),
        "the JSON isn't a valid flyteidl2.workflow.CreateRunRequest: multiple fields provided for oneof 'id' \
         at line 1 column 27"
    );
}

#[test]
fn maps_make_the_same_text_and_bytes_every_time() {
    let labels: BTreeMap<String, String> =
        (0..50).map(|index| (format!("key-{index:02}"), index.to_string())).collect();
    let spec = RunSpec { labels: Some(Labels { values: labels.clone() }), ..Default::default() };
    let details = RunDetails { run_spec: Some(Raw::from(&spec)), action: None };
    let entries: Vec<String> = labels.iter().map(|(key, value)| format!(r#""{key}":"{value}""#)).collect();
    let json = format!(r#"{{"runSpec":{{"labels":{{"values":{{{}}}}}}}}}"#, entries.join(","));
    for _ in 0..3 {
        assert_eq!(text(&details), json);
        // The bytes of the inner message are the ones that prost writes.
        assert_eq!(read::<RunDetails>(&json).unwrap(), details);
    }
    let action = EnrichedAction {
        children_phase_counts: BTreeMap::from([(10, 1), (-1, 2), (2, 3)]),
        ..Default::default()
    };
    assert_eq!(text(&action), r#"{"childrenPhaseCounts":{"-1":2,"10":1,"2":3}}"#);
    assert_eq!(read::<EnrichedAction>(&text(&action)).unwrap(), action);
}

#[test]
fn a_pass_through_message_is_json_like_any_other() {
    let json = r#"{"inputs":{"literals":[{"name":"x","value":{"scalar":{"primitive":{"integer":"5"}}}}]}}"#;
    let request = read::<CreateRunRequest>(json).unwrap();
    let Some(create_run_request::InputWrapper::Inputs(inputs)) = &request.input_wrapper else {
        panic!("no inputs: {request:?}");
    };
    let inputs: Inputs = inputs.decode().unwrap();
    assert_eq!(inputs.literals[0].name, "x");
    assert_eq!(text(&request), json);
}

#[test]
fn a_pass_through_message_that_can_not_be_read_can_not_be_written_as_json() {
    let details = RunDetails { run_spec: Some(Raw::from_bytes([0x30, 0x01])), action: None };
    assert!(matches!(json::encode(&details), Err(JsonError::NotRepresentable { .. })));
}

#[test]
fn a_status_has_details_of_known_types() {
    let detail = RunIdentifier { name: "r".to_owned(), ..Default::default() };
    let status = google::rpc::Status {
        code: 5,
        message: "gone".to_owned(),
        details: vec![prost_types::Any::from_msg(&detail).unwrap()],
    };
    let json = text(&status);
    assert_eq!(read::<google::rpc::Status>(&json).unwrap(), status);
}
