//! A YAML file as dotted paths with the lines they stand on.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::fmt;

/// A scalar of the file, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The dotted path, such as `manager.runsService.port`.
    pub path: String,
    /// The value; `None` for null and for a key without one.
    pub value: Option<String>,
    /// The line of the key, from 1.
    pub line: u64,
}

/// Reads a file's text.
///
/// # Errors
/// A sentence that says what is no YAML, and where.
pub fn read(text: &str) -> Result<Vec<Entry>, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let root: Node = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    match root {
        Node::Map(map) => flatten("", map, &mut entries)?,
        Node::Scalar(None) => {}
        _ => return Err("the file must hold keys and values, such as 'logger: {level: 4}'".into()),
    }
    Ok(entries)
}

fn flatten(prefix: &str, map: Vec<(Spanned<String>, Node)>, entries: &mut Vec<Entry>) -> Result<(), String> {
    for (key, node) in map {
        let line = key.referenced.line();
        let path = if prefix.is_empty() { key.value } else { format!("{prefix}.{}", key.value) };
        match node {
            Node::Scalar(value) => entries.push(Entry { path, value, line }),
            Node::Map(map) if map.is_empty() => entries.push(Entry { path, value: None, line }),
            Node::Map(map) => flatten(&path, map, entries)?,
            Node::List => return Err(format!("{path} (line {line}): a list is not expected here")),
        }
    }
    Ok(())
}

enum Node {
    Scalar(Option<String>),
    Map(Vec<(Spanned<String>, Node)>),
    List,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or keys with values")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(None))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(None))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Some(value.to_string())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(Some(value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(Some(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(Some(value.to_string())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(Some(value.to_string())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        while items.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(Node::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(pair) = access.next_entry()? {
            map.push(pair);
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_have_their_paths_and_lines() {
        let text = "# a comment\nmanager:\n  runsService:\n    port: 8090\n    host: \"::1\"\n\nlogger: {level: 4}\nempty:\n";
        let entry = |path: &str, value: Option<&str>, line| Entry {
            path: path.into(),
            value: value.map(str::to_string),
            line,
        };
        assert_eq!(
            read(text),
            Ok(vec![
                entry("manager.runsService.port", Some("8090"), 4),
                entry("manager.runsService.host", Some("::1"), 5),
                entry("logger.level", Some("4"), 7),
                entry("empty", None, 8),
            ])
        );
        assert_eq!(read("# nothing\n\n"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_mapping_is_refused() {
        for text in ["- a\n- b\n", "7", "a: [1, 2]\n", "a: {b: [1]}\n", "a: 1\na: 2\n", "a: 'x\n"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
