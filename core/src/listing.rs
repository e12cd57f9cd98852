//! Filters, sorts and page tokens of the list requests (`flyteidl2.common.ListRequest`).
//!
//! Pages go by key, not by offset, so that rows that come or go between two pages neither repeat nor hide others. A
//! token is opaque to clients and carries a fingerprint of the filters and the sort that it belongs to.

use crate::{Phase, Timestamp};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// How many entries a page has when the request does not say.
pub const LIMIT_DEFAULT: u32 = 50;
/// The most entries of a page.
pub const LIMIT_MAX: u32 = 200;
/// The most filters of a request.
pub const FILTERS_MAX: usize = 32;
/// The most values of one filter.
pub const VALUES_MAX: usize = 200;
/// The most sort keys of a request.
pub const SORTS_MAX: usize = 4;
const TOKEN_MAX_BYTES: usize = 4096;

/// What is listed; it decides which fields there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Runs, with the fields of their root actions.
    Runs,
    /// Actions of one run.
    Actions,
}

/// `flyteidl2.common.Filter.Function`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The field is the value.
    Equal,
    /// The field is not the value.
    NotEqual,
    /// The field is larger.
    GreaterThan,
    /// The field is larger or equal.
    GreaterThanOrEqual,
    /// The field is smaller.
    LessThan,
    /// The field is smaller or equal.
    LessThanOrEqual,
    /// The text contains the value.
    Contains,
    /// The field is one of the values.
    ValueIn,
    /// The field is none of the values.
    ValueNotIn,
    /// The text ends with the value.
    EndsWith,
    /// The text does not end with the value.
    NotEndsWith,
    /// The text contains the value, ASCII letters in any case.
    ContainsCaseInsensitive,
    /// The field has a value.
    Exists,
    /// The field has no value.
    NotExists,
}

impl Function {
    /// The function with this wire number.
    pub fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::Equal,
            1 => Self::NotEqual,
            2 => Self::GreaterThan,
            3 => Self::GreaterThanOrEqual,
            4 => Self::LessThan,
            5 => Self::LessThanOrEqual,
            6 => Self::Contains,
            7 => Self::ValueIn,
            9 => Self::ValueNotIn,
            12 => Self::EndsWith,
            13 => Self::NotEndsWith,
            14 => Self::ContainsCaseInsensitive,
            15 => Self::Exists,
            16 => Self::NotExists,
            _ => return None,
        })
    }

    fn is_for_text_alone(self) -> bool {
        matches!(self, Self::Contains | Self::EndsWith | Self::NotEndsWith | Self::ContainsCaseInsensitive)
    }
}

/// A field that lists can be filtered and sorted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A column of that name; the names are those of the database, and none comes from a client.
    Column(&'static str),
    /// The value of a label.
    Label(String),
}

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Text,
    Phase,
    Time,
    Number,
    Kind,
    Source,
}

/// The fields by the names that clients use, with their columns. `runs`, `actions`: where the field is known.
const FIELDS: [(&str, &str, Type, bool, bool); 25] = [
    ("project", "project", Type::Text, true, false),
    ("domain", "domain", Type::Text, true, false),
    ("name", "name", Type::Text, true, true),
    ("run_name", "name", Type::Text, true, false),
    ("action_name", "name", Type::Text, false, true),
    ("parent", "parent", Type::Text, false, true),
    ("group", "group_name", Type::Text, false, true),
    ("phase", "phase", Type::Phase, true, true),
    ("action_type", "kind", Type::Kind, false, true),
    ("run_source", "source", Type::Source, true, false),
    ("source", "source", Type::Source, true, false),
    ("created_by", "created_by", Type::Text, true, true),
    ("created_by_subject", "created_by", Type::Text, true, true),
    ("task_project", "task_project", Type::Text, true, true),
    ("task_domain", "task_domain", Type::Text, true, true),
    ("task_name", "task_name", Type::Text, true, true),
    ("task_version", "task_version", Type::Text, true, true),
    ("short_name", "short_name", Type::Text, true, true),
    ("function_name", "function_name", Type::Text, true, true),
    ("environment_name", "environment_name", Type::Text, true, true),
    ("created_at", "created_at", Type::Time, true, true),
    ("start_time", "started_at", Type::Time, true, true),
    ("updated_at", "updated_at", Type::Time, true, true),
    ("ended_at", "ended_at", Type::Time, true, true),
    ("duration_ms", "duration_ms", Type::Number, true, true),
];

/// One value to compare with, in the form that it is stored in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text, phase names, and times in RFC 3339 with milliseconds.
    Text(String),
    /// Whole numbers.
    Integer(i64),
}

/// A filter as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFilter {
    /// How to compare.
    pub function: Function,
    /// The field's name.
    pub field: String,
    /// The values.
    pub values: Vec<String>,
}

/// A sort as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSort {
    /// The field's name.
    pub key: String,
    /// Smallest first.
    pub ascending: bool,
}

/// A filter that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The field.
    pub field: Field,
    /// How to compare.
    pub function: Function,
    /// One value, several for `ValueIn` and `ValueNotIn`, none for `Exists` and `NotExists`.
    pub values: Vec<Value>,
}

/// A sort key that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub column: &'static str,
    /// Whether it holds numbers.
    pub is_number: bool,
    /// Smallest first.
    pub ascending: bool,
}

/// Where the page before ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The values of the sort keys of its last entry.
    pub keys: Vec<Value>,
    /// The row id of its last entry.
    pub row_id: i64,
}

/// A list request that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The most entries.
    pub limit: u32,
    /// All of them have to hold.
    pub filters: Vec<Filter>,
    /// In order; ties are broken by the row id. Empty: newest first.
    pub sort: Vec<SortKey>,
    /// Where to go on.
    pub after: Option<Position>,
    fingerprint: String,
}

/// What is wrong with a list request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// The field of `ListRequest`, such as `filters[0].field`.
    pub field: String,
    /// Why.
    pub message: String,
}

fn invalid<T>(field: impl Into<String>, message: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid { field: field.into(), message: message.into() })
}

/// Checks a list request.
///
/// # Errors
/// The field that is wrong, and why.
pub fn parse(
    resource: Resource,
    limit: u32,
    token: &str,
    filters: &[RawFilter],
    sort: &[RawSort],
) -> Result<Request, Invalid> {
    if limit > LIMIT_MAX {
        return invalid("limit", format!("{limit} is more than the largest page, {LIMIT_MAX}"));
    }
    if filters.len() > FILTERS_MAX {
        return invalid("filters", format!("there are {}, at most {FILTERS_MAX} are taken", filters.len()));
    }
    if sort.len() > SORTS_MAX {
        return invalid("sort_by_fields", format!("there are {}, at most {SORTS_MAX} are taken", sort.len()));
    }
    let checked = filters
        .iter()
        .enumerate()
        .map(|(index, filter)| filter_of(resource, index, filter))
        .collect::<Result<Vec<_>, _>>()?;
    let mut keys = Vec::new();
    for sort in sort.iter().filter(|sort| !sort.key.is_empty()) {
        let Some((column, kind)) = field(resource, &sort.key) else {
            return invalid("sort_by.key", unknown(resource, &sort.key));
        };
        keys.push(SortKey { column, is_number: is_number(kind), ascending: sort.ascending });
    }
    let fingerprint = fingerprint(resource, &checked, &keys);
    let after = match token {
        "" => None,
        token => Some(position(token, &fingerprint, &keys)?),
    };
    let limit = if limit == 0 { LIMIT_DEFAULT } else { limit };
    Ok(Request { limit, filters: checked, sort: keys, after, fingerprint })
}

impl Request {
    /// The request for the first page with nothing said.
    pub fn first(resource: Resource) -> Self {
        Self {
            limit: LIMIT_DEFAULT,
            filters: Vec::new(),
            sort: Vec::new(),
            after: None,
            fingerprint: fingerprint(resource, &[], &[]),
        }
    }

    /// Whether ties, and everything when no sort is given, go from the oldest to the newest row.
    pub fn ties_ascend(&self) -> bool {
        self.sort.last().is_some_and(|key| key.ascending)
    }

    /// The token of the page after an entry.
    pub fn token(&self, last: &Position) -> String {
        let mut token = format!("{}.{}", self.fingerprint, last.row_id);
        for key in &last.keys {
            match key {
                Value::Integer(number) => write!(token, ".i{number}"),
                Value::Text(text) => write!(token, ".t{}", hex(text.as_bytes())),
            }
            .unwrap_or_default();
        }
        token
    }
}

fn is_number(kind: Type) -> bool {
    matches!(kind, Type::Number | Type::Source)
}

fn field(resource: Resource, name: &str) -> Option<(&'static str, Type)> {
    // The generated clients write either spelling.
    let squeezed = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let wanted = squeezed(name);
    FIELDS
        .iter()
        .find(|(known, _, _, runs, actions)| {
            squeezed(known) == wanted
                && match resource {
                    Resource::Runs => *runs,
                    Resource::Actions => *actions,
                }
        })
        .map(|(_, column, kind, _, _)| (*column, *kind))
}

fn unknown(resource: Resource, name: &str) -> String {
    let known: Vec<&str> = FIELDS
        .iter()
        .filter(|(_, _, _, runs, actions)| if resource == Resource::Runs { *runs } else { *actions })
        .map(|(name, ..)| *name)
        .collect();
    format!("'{}' is not a field of the list; there are {}", crate::text::bounded(name, 64), known.join(", "))
}

fn filter_of(resource: Resource, index: usize, raw: &RawFilter) -> Result<Filter, Invalid> {
    let at = |part: &str| format!("filters[{index}].{part}");
    let (field, kind) = match raw.field.strip_prefix("labels.") {
        Some("") => return invalid(at("field"), "'labels.' needs the name of a label"),
        Some(label) if resource == Resource::Runs => (Field::Label(label.to_string()), Type::Text),
        _ => match field(resource, &raw.field) {
            Some((column, kind)) => (Field::Column(column), kind),
            None => return invalid(at("field"), unknown(resource, &raw.field)),
        },
    };
    if raw.function.is_for_text_alone() && kind != Type::Text {
        return invalid(
            at("function"),
            format!("'{}' is no text, so it contains and ends with nothing", raw.field),
        );
    }
    let range = match raw.function {
        Function::Exists | Function::NotExists => 0..=0,
        Function::ValueIn | Function::ValueNotIn => 1..=VALUES_MAX,
        _ => 1..=1,
    };
    if !range.contains(&raw.values.len()) {
        let wanted = match (range.start(), range.end()) {
            (0, _) => "it takes no value".to_string(),
            (_, 1) => "it takes exactly one value".to_string(),
            (from, to) => format!("it takes {from} to {to} values"),
        };
        return invalid(at("values"), format!("there are {}; {wanted}", raw.values.len()));
    }
    let values = raw
        .values
        .iter()
        .enumerate()
        .map(|(place, text)| value(kind, text).map_err(|message| (place, message)))
        .collect::<Result<Vec<_>, _>>();
    match values {
        Ok(values) => Ok(Filter { field, function: raw.function, values }),
        Err((place, message)) => invalid(format!("filters[{index}].values[{place}]"), message),
    }
}

fn value(kind: Type, text: &str) -> Result<Value, String> {
    let shown = crate::text::bounded(text, 64);
    let number = text.parse::<i64>().ok();
    match kind {
        Type::Text => Ok(Value::Text(text.to_string())),
        Type::Phase => number
            .map_or_else(
                || Phase::parse(text),
                |number| i32::try_from(number).ok().and_then(Phase::from_number),
            )
            .map(|phase| Value::Text(phase.name().to_string()))
            .ok_or_else(|| {
                format!("'{shown}' is not a phase; expected a name such as RUNNING or its number")
            }),
        Type::Time => Timestamp::parse(text)
            .map(|time| Value::Text(time.to_string()))
            .ok_or_else(|| format!("'{shown}' is not a time in RFC 3339, such as 2026-03-01T12:00:00Z")),
        Type::Number => number.map(Value::Integer).ok_or_else(|| format!("'{shown}' is not a whole number")),
        Type::Kind => {
            let name = text.trim_start_matches("ACTION_TYPE_").to_ascii_uppercase();
            match (number, name.as_str()) {
                (Some(1), _) | (None, "TASK") => Ok("TASK"),
                (Some(2), _) | (None, "TRACE") => Ok("TRACE"),
                (Some(3), _) | (None, "CONDITION") => Ok("CONDITION"),
                _ => Err(format!(
                    "'{shown}' is not a type of action; expected TASK, TRACE, CONDITION or its number"
                )),
            }
            .map(|name| Value::Text(name.to_string()))
        }
        Type::Source => number.or_else(|| source_number(text)).map(Value::Integer).ok_or_else(|| {
            format!("'{shown}' is not a run's source; expected a name such as RUN_SOURCE_CLI or its number")
        }),
    }
}

fn source_number(text: &str) -> Option<i64> {
    Some(match text.to_ascii_uppercase().trim_start_matches("RUN_SOURCE_") {
        "UNSPECIFIED" => 0,
        "WEB" => 1,
        "CLI" => 2,
        "SCHEDULE_TRIGGER" => 3,
        _ => return None,
    })
}

fn fingerprint(resource: Resource, filters: &[Filter], sort: &[SortKey]) -> String {
    let digest = Sha256::digest(format!("{resource:?} {filters:?} {sort:?}"));
    hex(&digest[..8])
}

fn position(token: &str, fingerprint: &str, sort: &[SortKey]) -> Result<Position, Invalid> {
    let no_token =
        || invalid("token", "it is not a token of this list; take it from the page before, unchanged");
    if token.len() > TOKEN_MAX_BYTES {
        return no_token();
    }
    let mut parts = token.split('.');
    let given = parts.next().unwrap_or_default();
    let is_fingerprint = given.len() == fingerprint.len() && given.bytes().all(|b| b.is_ascii_hexdigit());
    if is_fingerprint && given != fingerprint {
        return invalid(
            "token",
            "it belongs to a list with other filters or another sort; repeat those of the page before or begin anew",
        );
    }
    let row_id = parts.next().and_then(|text| text.parse::<i64>().ok());
    let (true, Some(row_id)) = (is_fingerprint, row_id) else { return no_token() };
    let keys: Option<Vec<Value>> = parts
        .map(|part| match part.split_at_checked(1)? {
            ("i", number) => number.parse().ok().map(Value::Integer),
            ("t", text) => unhex(text).and_then(|bytes| String::from_utf8(bytes).ok()).map(Value::Text),
            _ => None,
        })
        .collect();
    match keys {
        Some(keys)
            if keys.len() == sort.len()
                && keys
                    .iter()
                    .zip(sort)
                    .all(|(key, sort)| matches!(key, Value::Integer(_)) == sort.is_number) =>
        {
            Ok(Position { keys, row_id })
        }
        _ => no_token(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(function: Function, field: &str, values: &[&str]) -> RawFilter {
        RawFilter { function, field: field.into(), values: values.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn values_are_read_in_every_form_that_clients_send() {
        for (field, text, stored) in [
            ("phase", "6", Value::Text("FAILED".into())),
            ("phase", "ACTION_PHASE_TIMED_OUT", Value::Text("TIMED_OUT".into())),
            ("created_at", "2026-03-01T13:00:00+01:00", Value::Text("2026-03-01T12:00:00.000Z".into())),
            ("createdAt", "2026-03-01T12:00:00Z", Value::Text("2026-03-01T12:00:00.000Z".into())),
            ("duration_ms", "-7", Value::Integer(-7)),
            ("run_source", "RUN_SOURCE_CLI", Value::Integer(2)),
            ("task_name", "hello.main", Value::Text("hello.main".into())),
        ] {
            let request =
                parse(Resource::Runs, 0, "", &[filter(Function::Equal, field, &[text])], &[]).unwrap();
            assert_eq!(request.filters[0].values, vec![stored], "{field} {text}");
        }
        let request =
            parse(Resource::Actions, 0, "", &[filter(Function::ValueIn, "action_type", &["3", "TASK"])], &[]);
        assert_eq!(
            request.unwrap().filters,
            vec![Filter {
                field: Field::Column("kind"),
                function: Function::ValueIn,
                values: vec![Value::Text("CONDITION".into()), Value::Text("TASK".into())],
            }]
        );
    }

    #[test]
    fn what_is_wrong_is_said_by_field() {
        let sorts = [RawSort { key: "colour".into(), ascending: true }];
        for (limit, token, filters, sort, field) in [
            (201, "", vec![], &[][..], "limit"),
            (0, "7", vec![], &[], "token"),
            (0, "zz.1", vec![], &[], "token"),
            (0, "", vec![filter(Function::Equal, "colour", &["x"])], &[], "filters[0].field"),
            (0, "", vec![filter(Function::Equal, "name); DROP TABLE runs", &["x"])], &[], "filters[0].field"),
            (0, "", vec![filter(Function::Equal, "labels.", &["x"])], &[], "filters[0].field"),
            (0, "", vec![filter(Function::Equal, "name", &[])], &[], "filters[0].values"),
            (0, "", vec![filter(Function::Equal, "name", &["a", "b"])], &[], "filters[0].values"),
            (0, "", vec![filter(Function::ValueIn, "name", &[])], &[], "filters[0].values"),
            (0, "", vec![filter(Function::Exists, "name", &["a"])], &[], "filters[0].values"),
            (0, "", vec![filter(Function::Contains, "phase", &["RUN"])], &[], "filters[0].function"),
            (0, "", vec![filter(Function::Equal, "phase", &["GREAT"])], &[], "filters[0].values[0]"),
            (0, "", vec![filter(Function::Equal, "phase", &["99"])], &[], "filters[0].values[0]"),
            (0, "", vec![filter(Function::LessThan, "created_at", &["now"])], &[], "filters[0].values[0]"),
            (0, "", vec![], &sorts, "sort_by.key"),
        ] {
            let found = parse(Resource::Runs, limit, token, &filters, sort).unwrap_err();
            assert_eq!(found.field, field, "{found}");
        }
    }

    #[test]
    fn a_token_is_taken_back_and_refused_under_another_filter_or_sort() {
        let sort = [RawSort { key: "task_name".into(), ascending: true }];
        let request = parse(Resource::Runs, 10, "", &[], &sort).unwrap();
        let last = Position { keys: vec![Value::Text("größe.1".into())], row_id: 42 };
        let token = request.token(&last);
        assert_eq!(parse(Resource::Runs, 20, &token, &[], &sort).unwrap().after, Some(last));
        let other = [RawSort { key: "task_name".into(), ascending: false }];
        for found in [
            parse(Resource::Runs, 10, &token, &[], &other),
            parse(Resource::Runs, 10, &token, &[filter(Function::Equal, "phase", &["6"])], &sort),
            parse(Resource::Actions, 10, &token, &[], &sort),
        ] {
            assert_eq!(
                found.unwrap_err().message,
                "it belongs to a list with other filters or another sort; repeat those of the page before or begin anew"
            );
        }
    }

    proptest! {
        #[test]
        fn any_token_is_taken_or_refused_and_never_misread(token in ".{0,60}", row_id in any::<i64>(), key in any::<String>()) {
            let sort = [RawSort { key: "name".into(), ascending: true }];
            let request = parse(Resource::Runs, 0, "", &[], &sort).unwrap();
            let _ = parse(Resource::Runs, 0, &token, &[], &sort);
            let last = Position { keys: vec![Value::Text(key)], row_id };
            let token = request.token(&last);
            if token.len() <= TOKEN_MAX_BYTES {
                prop_assert_eq!(parse(Resource::Runs, 0, &token, &[], &sort).unwrap().after, Some(last));
            }
        }
    }
}
