//! The Rust names that the message generator gives to protobuf names.

use heck::{ToSnakeCase, ToUpperCamelCase};

/// Keywords that need `r#` in front where a field has such a name.
const KEYWORDS: [&str; 11] =
    ["abstract", "enum", "for", "gen", "in", "loop", "match", "ref", "static", "type", "use"];

/// The path of a message or enum in this crate; `full_name` has no leading dot.
///
/// Packages are lower case and messages upper case, which tells where the package ends.
pub fn type_path(full_name: &str) -> String {
    let mut path = String::from("crate::generated");
    let parts: Vec<&str> = full_name.split('.').collect();
    let (last, outer) = parts.split_last().expect("splitting a string yields at least one part");
    for part in outer {
        path.push_str("::");
        path.push_str(&ident(part));
    }
    path.push_str("::");
    path.push_str(&last.to_upper_camel_case());
    path
}

/// The path of a oneof's enum, which lives in a module named like its message.
pub fn oneof_path(message: &str, oneof: &str) -> String {
    type_path(&format!("{message}.{oneof}"))
}

/// The name of a field or module.
pub fn ident(name: &str) -> String {
    let name = name.to_snake_case();
    if KEYWORDS.contains(&name.as_str()) { format!("r#{name}") } else { name }
}

/// The name of a oneof's variant.
pub fn variant(field: &str) -> String {
    field.to_upper_camel_case()
}
