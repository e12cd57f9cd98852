//! Chooses the fields that keep their bytes as they came.
//!
//! The types below are written by clients and read by other clients; the manager stores them and hands them out.
//! A newer client may put fields into them that this schema doesn't know, and those must survive. Where such a type
//! stands in a message that passes through, its Rust type is `Raw<T>` instead of `T`.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use crate::names;

/// Types that pass through unread, by full name.
const PASS_THROUGH: [&str; 7] = [
    ".flyteidl2.core.Literal",
    ".flyteidl2.task.Inputs",
    ".flyteidl2.task.Outputs",
    ".flyteidl2.task.RunSpec",
    ".flyteidl2.task.TaskSpec",
    ".flyteidl2.task.TraceSpec",
    ".flyteidl2.workflow.ConditionAction",
];

/// Messages, by full name or package, whose own fields stay plain: they are always inside of a type that is kept whole.
const PLAIN_INSIDE: [&str; 2] = [".flyteidl2.core.", ".flyteidl2.task.NamedLiteral."];

/// The package of the stand-ins, which exists only between here and the code generator.
const STAND_IN: &str = "flyteidl2.raw";

/// Whether `field_type` is kept whole where it is the type of a field of `message` (both full names with a leading dot).
pub fn is_raw(message: &str, field_type: &str) -> bool {
    let inside = format!("{message}.");
    PASS_THROUGH.contains(&field_type) && !PLAIN_INSIDE.iter().any(|plain| inside.starts_with(plain))
}

/// Points each field to be kept whole at a stand-in type, and returns (proto path, Rust path) of each stand-in.
pub fn redirect(set: &mut FileDescriptorSet) -> Vec<(String, String)> {
    for file in &mut set.file {
        let scope = format!(".{}", file.package());
        for message in &mut file.message_type {
            redirect_message(&scope, message);
        }
    }
    set.file.push(stand_ins());
    PASS_THROUGH
        .iter()
        .map(|name| (stand_in_path(name), format!("crate::Raw<{}>", names::type_path(&name[1..]))))
        .collect()
}

fn redirect_message(scope: &str, message: &mut DescriptorProto) {
    let is_map_entry = message.options.as_ref().is_some_and(|options| options.map_entry());
    if is_map_entry {
        return;
    }
    let name = format!("{scope}.{}", message.name());
    for field in &mut message.field {
        if is_raw(&name, field.type_name()) {
            field.type_name = Some(stand_in_path(field.type_name()));
        }
    }
    for nested in &mut message.nested_type {
        redirect_message(&name, nested);
    }
}

fn stand_in_path(name: &str) -> String {
    format!(".{STAND_IN}.{}", last(name))
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Declares the stand-ins with one string each, so that the generator takes them for clonable but not copyable.
fn stand_ins() -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some("flyteidl2/raw.proto".to_owned()),
        package: Some(STAND_IN.to_owned()),
        syntax: Some("proto3".to_owned()),
        message_type: PASS_THROUGH
            .iter()
            .map(|name| DescriptorProto {
                name: Some(last(name).to_owned()),
                field: vec![FieldDescriptorProto {
                    name: Some("bytes".to_owned()),
                    number: Some(1),
                    label: Some(Label::Optional as i32),
                    r#type: Some(Type::String as i32),
                    ..Default::default()
                }],
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}
