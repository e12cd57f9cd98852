//! Where the objects of a run lie in the storage.

use crate::call::Call;
use flyte_core::RunId;
use flyte_core::id::DEFAULT_ORG;
use std::fmt::Write;

/// The directory of a run: its own wish, else one made of its identity.
pub fn run_base(call: &Call, id: &RunId, wish: &str) -> String {
    match wish.trim_end_matches('/') {
        "" => format!(
            "{}/{}/{}",
            project_dir(call, &id.org, &id.project),
            segment(&id.domain),
            segment(&id.name)
        ),
        wish => wish.to_string(),
    }
}

/// Where inputs with this digest go under a directory. The place depends on the content, so that two requests that want
/// the same name never write over each other's inputs.
pub fn inputs_place(dir: &str, digest: &str) -> String {
    let short = digest.get(..16).unwrap_or(digest);
    format!("{}/inputs/{short}/inputs.pb", dir.trim_end_matches('/'))
}

/// The directory of a project. An organisation cannot be taken for a project: `=` is in no segment.
pub fn project_dir(call: &Call, org: &str, project: &str) -> String {
    let base = call.objects.base_uri();
    match org {
        "" | DEFAULT_ORG => format!("{base}/{}", segment(project)),
        org => format!("{base}/org={}/{}", segment(org), segment(project)),
    }
}

/// A name as one segment of a path: whatever is not a letter, a digit, `-`, `_` or an inner dot is percent-encoded, so
/// that no name leaves its directory.
pub fn segment(name: &str) -> String {
    let dots = name.bytes().all(|byte| byte == b'.');
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && !dots) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_directory_and_different_names_stay_different() {
        for (name, text) in [
            ("flytesnacks", "flytesnacks"),
            ("a.b-c_9", "a.b-c_9"),
            ("..", "%2E%2E"),
            (".", "%2E"),
            ("a/b", "a%2Fb"),
            ("a%2Fb", "a%252Fb"),
            ("größe", "gr%C3%B6%C3%9Fe"),
            ("a=b", "a%3Db"),
        ] {
            assert_eq!(segment(name), text);
        }
        assert_eq!(
            inputs_place("mem://x/d/", "0123456789abcdefff"),
            "mem://x/d/inputs/0123456789abcdef/inputs.pb"
        );
    }
}
