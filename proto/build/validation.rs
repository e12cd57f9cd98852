//! Writes an implementation of `Validate` for every message.
//!
//! The order of checks is: rules of the message, then its oneofs, then its fields by number; the first that fails is
//! reported. Messages without rules, of their own or further inside, get an implementation that accepts everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};

use crate::exceptions;
use crate::names;
use crate::raw;
use crate::rules::{Cel, Check, FieldRules, Rules};

/// The source text of all implementations.
pub fn generate(pool: &DescriptorPool) -> String {
    let messages: Vec<MessageDescriptor> =
        pool.all_messages().filter(|message| is_ours(message) && !message.is_map_entry()).collect();
    let rules = Rules::new(pool);
    let mut generator =
        Generator { looked_into: looked_into(&messages, &rules), rules, patterns: BTreeMap::new() };
    let mut text = String::new();
    for message in &messages {
        text += &generator.message(message);
    }
    for (pattern, name) in &generator.patterns {
        push(&mut text, &format!("static {name}: Pattern = Pattern::new(|| checks::compile({pattern:?}));"));
    }
    text
}

fn is_ours(message: &MessageDescriptor) -> bool {
    let package = message.package_name();
    package.starts_with("flyteidl2.") || package == "google.rpc"
}

/// The full names of the messages in which something may be wrong: those with rules, and those that hold such messages.
fn looked_into(messages: &[MessageDescriptor], rules: &Rules) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = messages
        .iter()
        .filter(|message| {
            !rules.of_message(message).is_empty()
                || message.oneofs().any(|oneof| rules.is_required(&oneof))
                || message.fields().any(|field| !rules.of_field(&field).is_empty() || is_raw(message, &field))
        })
        .map(|message| message.full_name().to_owned())
        .collect();
    loop {
        let before = names.len();
        for message in messages {
            if message.fields().any(|field| held_message(&field).is_some_and(|held| names.contains(&held))) {
                names.insert(message.full_name().to_owned());
            }
        }
        if names.len() == before {
            return names;
        }
    }
}

/// The full name of the message that a field holds: itself, in a list, or as the values of a map.
fn held_message(field: &FieldDescriptor) -> Option<String> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => match entry.map_entry_value_field().kind() {
            Kind::Message(message) => Some(message.full_name().to_owned()),
            _ => None,
        },
        Kind::Message(message) => Some(message.full_name().to_owned()),
        _ => None,
    }
}

fn is_raw(message: &MessageDescriptor, field: &FieldDescriptor) -> bool {
    match field.kind() {
        Kind::Message(held) if !field.is_map() => {
            raw::is_raw(&format!(".{}", message.full_name()), &format!(".{}", held.full_name()))
        }
        _ => false,
    }
}

struct Generator {
    rules: Rules,
    /// Full names of the messages worth descending into.
    looked_into: BTreeSet<String>,
    /// The static that holds each pattern.
    patterns: BTreeMap<String, String>,
}

impl Generator {
    fn message(&mut self, message: &MessageDescriptor) -> String {
        let mut body = String::new();
        for cel in self.rules.of_message(message) {
            push(&mut body, &expression(&cel, "self", "path"));
        }
        for oneof in message.oneofs().filter(|oneof| !is_synthetic(oneof)) {
            body += &self.oneof(message, &oneof);
        }
        for field in message.fields() {
            if field.containing_oneof().is_none_or(|oneof| is_synthetic(&oneof)) {
                body += &self.field(message, &field);
            }
        }
        let unused = if body.is_empty() { "_" } else { "" };
        let name = names::type_path(message.full_name());
        format!(
            "impl Validate for {name} {{\nfn validate_at(&self, {unused}path: &Path<'_>) -> Result<(), Violation> {{\n{body}Ok(())\n}}\n}}\n"
        )
    }

    fn oneof(&mut self, message: &MessageDescriptor, oneof: &OneofDescriptor) -> String {
        let mut arms = String::new();
        if self.rules.is_required(oneof) {
            push(
                &mut arms,
                &format!("None => return Err(checks::missing(&path.field({:?}))),", oneof.name()),
            );
        }
        for field in oneof.fields() {
            let rules = self.rules.of_field(&field);
            assert!(
                !rules.required && !rules.ignore_zero,
                "{}: required and ignore aren't supported on a member of a oneof",
                field.full_name()
            );
            let checks = self.value(&field, &rules, is_raw(message, &field));
            if !checks.is_empty() {
                push(
                    &mut arms,
                    &format!(
                        "Some({}::{}(value)) => {{ {}{checks} }}",
                        names::oneof_path(message.full_name(), oneof.name()),
                        names::variant(field.name()),
                        at_field(&field),
                    ),
                );
            }
        }
        if arms.is_empty() {
            return arms;
        }
        let member = names::ident(oneof.name());
        format!("match &self.{member} {{\n{arms}_ => {{}}\n}}\n")
    }

    fn field(&mut self, message: &MessageDescriptor, field: &FieldDescriptor) -> String {
        let rules = self.rules.of_field(field);
        let member = names::ident(field.name());
        let at = at_field(field);
        assert!(
            !rules.ignore_zero || !(field.is_list() || field.is_map() || field.supports_presence()),
            "{}: ignore is only supported on plain scalars",
            field.full_name()
        );
        if field.is_map() {
            let checks = self.map(field, &rules);
            return block(&checks, &format!("{at}let value = &self.{member};\n"));
        }
        if field.cardinality() == Cardinality::Repeated {
            let checks = self.list(message, field, &rules);
            return block(&checks, &format!("{at}let value = &self.{member};\n"));
        }
        let checks = self.value(field, &rules, is_raw(message, field));
        if field.supports_presence() {
            return match (checks.is_empty(), rules.required) {
                (true, false) => String::new(),
                (true, true) => format!(
                    "if self.{member}.is_none() {{ return Err(checks::missing(&path.field({:?}))); }}\n",
                    field.name()
                ),
                (false, false) => {
                    format!("if let Some(value) = &self.{member} {{ {at}{checks} }}\n")
                }
                (false, true) => format!(
                    "match &self.{member} {{ None => return Err(checks::missing(&path.field({:?}))), Some(value) => {{ {at}{checks} }} }}\n",
                    field.name()
                ),
            };
        }
        let mut all = String::new();
        if rules.required {
            push(&mut all, "checks::not_zero(at, value)?;");
        }
        all += &checks;
        if rules.ignore_zero {
            all = unless_zero(&all);
        }
        block(&all, &format!("{at}let value = &self.{member};\n"))
    }

    fn list(&mut self, message: &MessageDescriptor, field: &FieldDescriptor, rules: &FieldRules) -> String {
        let mut checks = String::new();
        if rules.required {
            push(&mut checks, "checks::min_items(at, value.len(), 1)?;");
        }
        checks += &self.checks(field, rules);
        let none = FieldRules::default();
        let items = self.inner(&rules.items, &none);
        let item = self.value(field, items, is_raw(message, field));
        if !item.is_empty() {
            push(
                &mut checks,
                &format!(
                    "for (index, value) in value.iter().enumerate() {{ let at = &at.index(index); {item} }}"
                ),
            );
        }
        checks
    }

    /// The rules of list items, map keys or map values.
    fn inner<'a>(&self, rules: &'a Option<Box<FieldRules>>, none: &'a FieldRules) -> &'a FieldRules {
        let rules = rules.as_deref().unwrap_or(none);
        assert!(
            !rules.required && !rules.ignore_zero,
            "required and ignore aren't supported inside of lists and maps"
        );
        rules
    }

    fn map(&mut self, field: &FieldDescriptor, rules: &FieldRules) -> String {
        let Kind::Message(entry) = field.kind() else {
            return String::new();
        };
        let mut checks = self.checks(field, rules);
        let none = FieldRules::default();
        let keys = self.inner(&rules.keys, &none);
        let values = self.inner(&rules.values, &none);
        let key = self.value(&entry.map_entry_key_field(), keys, false);
        let value = self.value(&entry.map_entry_value_field(), values, false);
        if !key.is_empty() || !value.is_empty() {
            let key = block(&key, "let value = key;\n");
            push(
                &mut checks,
                &format!("for (key, value) in value {{ let at = &at.key(key); {key}{value} }}"),
            );
        }
        checks
    }

    /// The checks of one value that is there: `value` is a reference to it, `at` the path to it.
    fn value(&mut self, field: &FieldDescriptor, rules: &FieldRules, is_raw: bool) -> String {
        let mut checks = self.checks(field, rules);
        if field.kind() == Kind::String && exceptions::may_be_empty(field.name()) {
            checks = unless_zero(&checks);
        }
        if let Kind::Message(message) = field.kind()
            && (is_raw || self.looked_into.contains(message.full_name()))
        {
            push(&mut checks, "value.validate_at(at)?;");
        }
        checks
    }

    fn checks(&mut self, field: &FieldDescriptor, rules: &FieldRules) -> String {
        let mut text = String::new();
        for cel in &rules.cel {
            push(&mut text, &expression(cel, "value", "at"));
        }
        for check in &rules.checks {
            let call = self.check(field, check);
            push(&mut text, &format!("checks::{call}?;"));
        }
        text
    }

    fn check(&mut self, field: &FieldDescriptor, check: &Check) -> String {
        match check {
            Check::MinLen(len) => format!("min_len(at, value, {len})"),
            Check::MaxLen(len) => format!("max_len(at, value, {len})"),
            Check::Pattern(pattern) => format!("pattern(at, value, &{})", self.pattern(pattern)),
            Check::Uri => "uri(at, value)".to_owned(),
            Check::BytesLen(len) => format!("bytes_len(at, value, {len})"),
            Check::Number { id, operator, bound } => {
                format!("number(at, {id:?}, *value {operator} {bound}, {operator:?}, {bound:?}, value)")
            }
            Check::DurationGte(seconds, nanos) => {
                format!("duration_gte(at, value, {seconds}, {nanos})")
            }
            Check::EnumIn(numbers) => format!("enum_in(at, *value, &{numbers:?})"),
            Check::EnumNotIn(numbers) => format!("enum_not_in(at, *value, &{numbers:?})"),
            Check::EnumDefinedOnly => {
                format!("enum_defined(at, *value, &{:?})", enum_numbers(field))
            }
            Check::MinItems(count) => format!("min_items(at, value.len(), {count})"),
            Check::MaxItems(count) => format!("max_items(at, value.len(), {count})"),
            Check::Unique => "unique(at, value)".to_owned(),
            Check::MaxPairs(count) => format!("max_pairs(at, value.len(), {count})"),
        }
    }

    fn pattern(&mut self, pattern: &str) -> String {
        let next = format!("PATTERN_{}", self.patterns.len());
        self.patterns.entry(pattern.to_owned()).or_insert(next).clone()
    }
}

/// A oneof that only stands for a field marked `optional`.
fn is_synthetic(oneof: &OneofDescriptor) -> bool {
    oneof.name().starts_with('_')
}

fn enum_numbers(field: &FieldDescriptor) -> Vec<i32> {
    match field.kind() {
        Kind::Enum(kind) => kind.values().map(|value| value.number()).collect(),
        _ => panic!("{}: defined_only on a field that isn't an enum", field.full_name()),
    }
}

/// A call of the hand-written function for an expression: missing ones don't compile.
fn expression(cel: &Cel, value: &str, at: &str) -> String {
    let function = cel.id.replace('.', "_");
    format!("checks::expression({at}, {:?}, cel::{function}({value}), {:?})?;", cel.id, cel.message)
}

fn at_field(field: &FieldDescriptor) -> String {
    format!("let at = &path.field({:?});\n", field.name())
}

/// Makes checks, if there are any, pass over a zero value.
fn unless_zero(checks: &str) -> String {
    if checks.is_empty() { String::new() } else { format!("if !checks::is_zero(value) {{ {checks} }}\n") }
}

/// Wraps checks, if there are any, with what they need.
fn block(checks: &str, before: &str) -> String {
    if checks.is_empty() { String::new() } else { format!("{{ {before}{checks} }}\n") }
}

fn push(text: &mut String, line: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{line}");
}
