//! Messages that pass through keep every byte.

use flyte_proto::core::{Literal, TaskTemplate, literal};
use flyte_proto::task::{Inputs, NamedLiteral, RunSpec, TaskSpec};
use flyte_proto::workflow::{ActionUpdate, CreateRunRequest, RunDetails, create_run_request};
use flyte_proto::{Raw, Validate, Violation};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

/// A run spec with a queue and with fields of all wire types that no schema knows.
fn run_spec_of_a_newer_client() -> Vec<u8> {
    let mut bytes = RunSpec { queue: "gpu".to_owned(), ..Default::default() }.encode_to_vec();
    encode_key(1001, WireType::Varint, &mut bytes);
    encode_varint(u64::MAX, &mut bytes);
    encode_key(1002, WireType::ThirtyTwoBit, &mut bytes);
    bytes.extend([1, 2, 3, 4]);
    encode_key(1003, WireType::SixtyFourBit, &mut bytes);
    bytes.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    encode_key(1004, WireType::LengthDelimited, &mut bytes);
    bytes.extend([3, b'a', b'b', b'c']);
    // A varint that is longer than need be.
    encode_key(1005, WireType::Varint, &mut bytes);
    bytes.extend([0x81, 0x80, 0x00]);
    // A group with a group inside.
    encode_key(1006, WireType::StartGroup, &mut bytes);
    encode_key(1, WireType::Varint, &mut bytes);
    bytes.push(7);
    encode_key(2, WireType::StartGroup, &mut bytes);
    encode_key(2, WireType::EndGroup, &mut bytes);
    encode_key(1006, WireType::EndGroup, &mut bytes);
    // A known field after the unknown ones.
    encode_key(16, WireType::LengthDelimited, &mut bytes);
    bytes.extend([1, b'p']);
    bytes
}

/// The bytes of a message whose field `tag` is a message of these bytes.
fn field(tag: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(tag, WireType::LengthDelimited, &mut bytes);
    encode_varint(content.len() as u64, &mut bytes);
    bytes.extend(content);
    bytes
}

#[test]
fn a_field_that_the_schema_does_not_know_survives() {
    let spec = run_spec_of_a_newer_client();
    let wire = field(1, &spec);
    let details = RunDetails::decode(wire.as_slice()).unwrap();
    assert_eq!(details, RunDetails { run_spec: Some(Raw::from_bytes(spec.clone())), action: None });
    assert_eq!(details.encode_to_vec(), wire);
    let raw = details.run_spec.unwrap();
    assert_eq!(raw.as_bytes(), spec);
    assert_eq!(
        raw.decode().unwrap(),
        RunSpec { queue: "gpu".to_owned(), cluster_pool: "p".to_owned(), ..Default::default() }
    );
}

#[test]
fn a_stored_message_goes_from_a_request_to_a_response_unread() {
    let spec = run_spec_of_a_newer_client();
    let request = CreateRunRequest::decode(field(5, &spec).as_slice()).unwrap();
    let response = RunDetails { run_spec: request.run_spec, action: None };
    assert_eq!(response.encode_to_vec(), field(1, &spec));
}

#[test]
fn a_member_of_a_oneof_passes_through_too() {
    let mut spec =
        TaskSpec { task_template: Some(TaskTemplate::default()), ..Default::default() }.encode_to_vec();
    encode_key(99, WireType::Varint, &mut spec);
    spec.push(1);
    let wire = field(3, &spec);
    let request = CreateRunRequest::decode(wire.as_slice()).unwrap();
    assert_eq!(request.task, Some(create_run_request::Task::TaskSpec(Raw::from_bytes(spec))));
    assert_eq!(request.encode_to_vec(), wire);
}

#[test]
fn an_empty_message_is_kept_apart_from_none() {
    let wire = field(1, &[]);
    let details = RunDetails::decode(wire.as_slice()).unwrap();
    assert_eq!(details.run_spec, Some(Raw::from(RunSpec::default())));
    assert_eq!(details.encode_to_vec(), wire);
}

#[test]
fn a_message_in_two_pieces_is_their_merge() {
    let one = RunSpec { queue: "a".to_owned(), run_base_dir: "dir".to_owned(), ..Default::default() };
    let two = RunSpec { queue: "b".to_owned(), ..Default::default() };
    let mut wire = field(1, &one.encode_to_vec());
    wire.extend(field(1, &two.encode_to_vec()));
    let details = RunDetails::decode(wire.as_slice()).unwrap();
    assert_eq!(
        details.run_spec.unwrap().decode().unwrap(),
        RunSpec { queue: "b".to_owned(), run_base_dir: "dir".to_owned(), ..Default::default() }
    );
}

#[test]
fn malformed_bytes_are_refused() {
    let mut deep = Vec::new();
    for _ in 0..101 {
        encode_key(1, WireType::StartGroup, &mut deep);
    }
    for _ in 0..101 {
        encode_key(1, WireType::EndGroup, &mut deep);
    }
    let cases: [(&str, &[u8]); 8] = [
        ("a field longer than the message", &[0x0a, 0x05, b'a']),
        ("no length", &[0x0a]),
        ("half a varint", &[0x08, 0x80]),
        (
            "a varint of eleven bytes",
            &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
        ),
        ("a varint of 65 bits", &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02]),
        ("an end without a start", &[0x0c]),
        ("a start without an end", &[0x0b]),
        ("an end of another group", &[0x0b, 0x14]),
    ];
    for (name, content) in cases {
        assert!(RunDetails::decode(field(1, content).as_slice()).is_err(), "{name}");
    }
    assert!(RunDetails::decode(field(1, &deep).as_slice()).is_err());
}

#[test]
fn bytes_that_are_not_the_message_are_a_violation() {
    // Field 6 is a string, here it is a number.
    let request = CreateRunRequest {
        run_spec: Some(Raw::from_bytes([0x30, 0x01])),
        id: Some(create_run_request::Id::ProjectId(flyte_proto::common::ProjectIdentifier {
            organization: String::new(),
            domain: "d".to_owned(),
            name: "p".to_owned(),
        })),
        task: Some(create_run_request::Task::TaskSpec(Raw::from(TaskSpec {
            task_template: Some(TaskTemplate::default()),
            ..Default::default()
        }))),
        ..Default::default()
    };
    assert_eq!(
        request.validate(),
        Err(Violation {
            field: "run_spec".to_owned(),
            rule: "decode".to_owned(),
            message: "run_spec can't be read: failed to decode Protobuf message: RunSpec.queue: invalid wire type: Varint (expected LengthDelimited).".to_owned(),
        })
    );
}

#[test]
fn a_literal_inside_of_inputs_is_plain_and_one_in_an_update_is_raw() {
    let literal = Literal { value: Some(literal::Value::Scalar(Box::default())), ..Default::default() };
    let inputs = Raw::from(Inputs {
        literals: vec![NamedLiteral { name: "x".to_owned(), value: Some(literal.clone()) }],
        context: vec![],
    });
    let update = ActionUpdate { value: Some(Raw::from(&literal)), ..Default::default() };
    assert_eq!(inputs.decode().unwrap().literals[0].value, update.value.map(|value| value.decode().unwrap()));
}
