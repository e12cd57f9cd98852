//! Reads validation rules out of descriptor options.
//!
//! A rule that isn't understood stops the build: a rule is enforced or the schema doesn't compile.

use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, MessageDescriptor, OneofDescriptor,
    ReflectMessage, Value,
};

/// A rule written as an expression; its implementation is found by `id`.
pub struct Cel {
    pub id: String,
    pub message: String,
}

/// The rules of one field, list item, map key or map value.
#[derive(Default)]
pub struct FieldRules {
    /// The value must be set, or not zero where there is no telling.
    pub required: bool,
    /// A zero value is exempt from the other rules.
    pub ignore_zero: bool,
    pub cel: Vec<Cel>,
    pub checks: Vec<Check>,
    pub items: Option<Box<FieldRules>>,
    pub keys: Option<Box<FieldRules>>,
    pub values: Option<Box<FieldRules>>,
}

impl FieldRules {
    /// Whether a value has to be looked at, beyond being there.
    pub fn looks_at_value(&self) -> bool {
        !self.cel.is_empty() || !self.checks.is_empty()
    }

    /// Whether there is nothing to enforce.
    pub fn is_empty(&self) -> bool {
        !self.required
            && !self.looks_at_value()
            && [&self.items, &self.keys, &self.values].into_iter().flatten().all(|rules| rules.is_empty())
    }
}

/// One rule on a value. The id is the one that validators of other languages report, such as `string.min_len`.
pub enum Check {
    MinLen(u64),
    MaxLen(u64),
    Pattern(String),
    Uri,
    BytesLen(u64),
    /// A bound on a number: rule id, the comparison that must hold, and the bound as a literal.
    Number {
        id: String,
        operator: &'static str,
        bound: String,
    },
    /// A duration of at least (seconds, nanoseconds).
    DurationGte(i64, i32),
    EnumIn(Vec<i32>),
    EnumNotIn(Vec<i32>),
    EnumDefinedOnly,
    MinItems(u64),
    MaxItems(u64),
    Unique,
    MaxPairs(u64),
}

/// The validation options of a pool of descriptors.
pub struct Rules {
    field: ExtensionDescriptor,
    message: ExtensionDescriptor,
    oneof: ExtensionDescriptor,
}

impl Rules {
    pub fn new(pool: &DescriptorPool) -> Self {
        let extension = |name: &str| {
            pool.all_extensions()
                .find(|extension| extension.full_name() == name)
                .unwrap_or_else(|| panic!("the schema doesn't declare the option {name}"))
        };
        Self {
            field: extension("buf.validate.field"),
            message: extension("buf.validate.message"),
            oneof: extension("buf.validate.oneof"),
        }
    }

    pub fn of_message(&self, message: &MessageDescriptor) -> Vec<Cel> {
        let mut cel = Vec::new();
        for (name, value) in self.option(&message.options(), &self.message) {
            match name.as_str() {
                "cel" => cel.extend(expressions(&value)),
                other => panic!("{}: unknown message rule {other}", message.full_name()),
            }
        }
        cel
    }

    /// Whether one member of the oneof must be set.
    pub fn is_required(&self, oneof: &OneofDescriptor) -> bool {
        let mut required = false;
        for (name, value) in self.option(&oneof.options(), &self.oneof) {
            match name.as_str() {
                "required" => required = value.as_bool() == Some(true),
                other => panic!("{}: unknown oneof rule {other}", oneof.full_name()),
            }
        }
        required
    }

    pub fn of_field(&self, field: &FieldDescriptor) -> FieldRules {
        field_rules(field.full_name(), self.option(&field.options(), &self.field))
    }

    fn option(&self, options: &DynamicMessage, extension: &ExtensionDescriptor) -> Vec<(String, Value)> {
        if options.has_extension(extension) {
            set_fields(&options.get_extension(extension))
        } else {
            Vec::new()
        }
    }
}

/// The fields that are set in a message value, by name.
fn set_fields(value: &Value) -> Vec<(String, Value)> {
    let message = value.as_message().expect("validation options are declared as messages");
    let unknown = message.unknown_fields().next().is_some();
    assert!(!unknown, "{}: a rule isn't declared", message.descriptor().full_name());
    message.fields().map(|(field, value)| (field.name().to_owned(), value.clone())).collect()
}

fn expressions(value: &Value) -> Vec<Cel> {
    let list = value.as_list().expect("cel is declared as a list");
    list.iter()
        .map(|rule| {
            let mut cel = Cel { id: String::new(), message: String::new() };
            for (name, value) in set_fields(rule) {
                let text = value.as_str().unwrap_or_default().to_owned();
                match name.as_str() {
                    "id" => cel.id = text,
                    "message" => cel.message = text,
                    _ => {}
                }
            }
            cel
        })
        .collect()
}

fn field_rules(at: &str, options: Vec<(String, Value)>) -> FieldRules {
    let mut rules = FieldRules::default();
    for (name, value) in options {
        match name.as_str() {
            "required" => rules.required = value.as_bool() == Some(true),
            "ignore" => match value.as_enum_number() {
                Some(0) => {}
                Some(1) => rules.ignore_zero = true,
                other => panic!("{at}: unknown ignore mode {other:?}"),
            },
            "cel" => rules.cel = expressions(&value),
            kind => {
                for (rule, value) in set_fields(&value) {
                    typed_rule(at, kind, &rule, &value, &mut rules);
                }
            }
        }
    }
    rules
}

fn typed_rule(at: &str, kind: &str, rule: &str, value: &Value, rules: &mut FieldRules) {
    let nested = || Some(Box::new(field_rules(at, set_fields(value))));
    let check = match (kind, rule) {
        ("repeated", "items") => return rules.items = nested(),
        ("map", "keys") => return rules.keys = nested(),
        ("map", "values") => return rules.values = nested(),
        ("string", "min_len") => Check::MinLen(number(value)),
        ("string", "max_len") => Check::MaxLen(number(value)),
        ("string", "pattern") => Check::Pattern(value.as_str().unwrap_or_default().to_owned()),
        ("string", "uri") => Check::Uri,
        ("bytes", "len") => Check::BytesLen(number(value)),
        ("repeated", "min_items") => Check::MinItems(number(value)),
        ("repeated", "max_items") => Check::MaxItems(number(value)),
        ("repeated", "unique") => Check::Unique,
        ("map", "max_pairs") => Check::MaxPairs(number(value)),
        ("enum", "in") => Check::EnumIn(numbers(value)),
        ("enum", "not_in") => Check::EnumNotIn(numbers(value)),
        ("enum", "defined_only") => Check::EnumDefinedOnly,
        ("duration", "gte") => duration_gte(value),
        ("int32" | "uint32" | "uint64" | "double", "gt" | "gte" | "lte") => Check::Number {
            id: format!("{kind}.{rule}"),
            operator: match rule {
                "gt" => ">",
                "gte" => ">=",
                _ => "<=",
            },
            bound: literal(value),
        },
        _ => panic!("{at}: unknown rule {kind}.{rule}"),
    };
    rules.checks.push(check);
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("sizes are declared as uint64")
}

fn numbers(value: &Value) -> Vec<i32> {
    let list = value.as_list().expect("in and not_in are declared as lists");
    list.iter().filter_map(Value::as_i32).collect()
}

fn literal(value: &Value) -> String {
    match value {
        Value::I32(number) => number.to_string(),
        Value::U32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::F64(number) => format!("{number:?}"),
        other => panic!("unsupported bound {other:?}"),
    }
}

fn duration_gte(value: &Value) -> Check {
    let (mut seconds, mut nanos) = (0, 0);
    for (name, part) in set_fields(value) {
        match name.as_str() {
            "seconds" => seconds = part.as_i64().unwrap_or_default(),
            _ => nanos = part.as_i32().unwrap_or_default(),
        }
    }
    Check::DurationGte(seconds, nanos)
}
