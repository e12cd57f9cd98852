//! The README says what there is.

use flyte_manager::config::keys::KEYS;

#[test]
fn the_table_of_keys_is_the_one_of_the_program() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let rows: Vec<String> =
        KEYS.iter().map(|key| format!("| `{}` | {} | {} |", key.path, shown(key.default), key.doc)).collect();
    if std::env::var_os("UPDATE_README").is_some() {
        let head = "| key | default | meaning |\n|---|---|---|\n";
        let start = readme.find(head).unwrap() + head.len();
        let end = start + readme[start..].find("\n\n").unwrap();
        let text = format!("{}{}{}", &readme[..start], rows.join("\n"), &readme[end..]);
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md"), text).unwrap();
        return;
    }
    for row in rows {
        assert!(
            readme.contains(&row),
            "run UPDATE_README=1 cargo test -p flyte-manager --test readme; missing: {row}"
        );
    }
}

fn shown(default: &str) -> String {
    if default.is_empty() { String::new() } else { format!("`{default}`") }
}
