//! The part of JSONPath that printer columns use: `.a.b`, `['a']`, `[0]`, `[*]` and `[?(@.a=="b")]`
//! (<https://kubernetes.io/docs/reference/kubectl/jsonpath/>).

use serde_json::Value;

/// The first value at a path; `None` when there is none or the path makes no sense.
pub fn first<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path);
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut found = vec![object];
    while !rest.is_empty() {
        let (step, after) = step(rest)?;
        found = found.into_iter().flat_map(|value| step.of(value)).collect();
        rest = after;
    }
    found.into_iter().next()
}

enum Step {
    Field(String),
    Index(i64),
    All,
    Where(Vec<String>, String, bool),
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let length = i64::try_from(items().len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length.saturating_add(*index) } else { *index };
                usize::try_from(index).ok().and_then(|index| items().get(index)).into_iter().collect()
            }
            Self::All => match value {
                Value::Object(fields) => fields.values().collect(),
                _ => items().iter().collect(),
            },
            Self::Where(path, wanted, equal) => {
                let meets = |item: &&Value| {
                    let found = path.iter().try_fold(*item, |value, name| value.get(name));
                    let text = found.map(|value| value.as_str().map_or(value.to_string(), str::to_string));
                    (text.as_deref() == Some(wanted)) == *equal
                };
                items().iter().filter(meets).collect()
            }
        }
    }
}

/// The first step of a path and what is left of the path.
fn step(path: &str) -> Option<(Step, &str)> {
    if let Some(rest) = path.strip_prefix('[') {
        return bracket(rest);
    }
    let (name, rest) = name(path.strip_prefix('.').unwrap_or(path));
    match name.as_str() {
        "" if rest.starts_with('[') => step(rest),
        "" => None,
        "*" => Some((Step::All, rest)),
        _ => Some((Step::Field(name), rest)),
    }
}

/// A name up to the next step; a backslash takes the meaning from what follows.
fn name(path: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = path.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (name, &path[at..]),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (name, "")
}

fn bracket(rest: &str) -> Option<(Step, &str)> {
    if let Some(filter) = rest.strip_prefix("?(") {
        let (filter, rest) = filter.split_once(")]")?;
        let (left, wanted, equal) = match filter.split_once("==") {
            Some((left, wanted)) => (left, wanted, true),
            None => filter.split_once("!=").map(|(left, wanted)| (left, wanted, false))?,
        };
        let path = left.trim().strip_prefix("@.")?.split('.').map(str::to_string).collect();
        return Some((Step::Where(path, unquoted(wanted).to_string(), equal), rest));
    }
    let (inside, rest) = rest.split_once(']')?;
    let step = match inside.trim() {
        "*" => Step::All,
        quoted if quoted.starts_with(['\'', '"']) => Step::Field(unquoted(quoted).replace('\\', "")),
        index => Step::Index(index.parse().ok()?),
    };
    Some((step, rest))
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['\'', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_of_printer_columns_find_their_values_and_odd_ones_nothing() {
        let object = json!({"a": {"b.c": 1}, "list": [{"type": "X", "n": 2}, {"type": "Y", "n": 3}]});
        for (path, found) in [
            (".a", Some(json!({"b.c": 1}))),
            ("{.a['b\\.c']}", Some(json!(1))),
            (".a.b\\.c", Some(json!(1))),
            (".list[1].n", Some(json!(3))),
            (".list[-1].n", Some(json!(3))),
            (".list[*].n", Some(json!(2))),
            (r#".list[?(@.type=="Y")].n"#, Some(json!(3))),
            (r#".list[?(@.type!='X')].n"#, Some(json!(3))),
            (".list[9].n", None),
            (".none", None),
            ("..", None),
            ("[", None),
            (".list[?(", None),
            (".list[x]", None),
            (".größe", None),
        ] {
            assert_eq!(first(&object, path).cloned(), found, "{path}");
        }
    }
}
