//! Names of Kubernetes objects. User names and object names are different things: one function makes the latter of the
//! full identifier, the same on create, look-up and abort and after every restart.

use crate::{ActionId, RunId};
use sha2::{Digest, Sha256};

/// The longest object name: a DNS label (RFC 1123), so that it is also a valid label value and host name.
pub const OBJECT_NAME_MAX_BYTES: usize = 63;

const HASH_CHARS: usize = 16;
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The name of an action's TaskAction: a readable part, then a hash of the full identifier, which makes it injective
/// where joining the parts is not (case 74).
pub fn task_action_name(id: &ActionId) -> String {
    // The longest suffix is a Pod's: `-` and ten digits of an attempt.
    compose(&[&id.run.name, &id.name], &identity_hash(id), OBJECT_NAME_MAX_BYTES - 11)
}

/// The name of the Pod of one attempt.
pub fn pod_name(id: &ActionId, attempt: u32) -> String {
    format!("{}-{attempt}", task_action_name(id))
}

/// A hash of the full identifier of an action, for labels.
pub fn identity_hash(id: &ActionId) -> String {
    hash(&[&id.run.org, &id.run.project, &id.run.domain, &id.run.name, &id.name])
}

/// A hash of the full identifier of a run, for labels.
pub fn run_hash(id: &RunId) -> String {
    hash(&[&id.org, &id.project, &id.domain, &id.name])
}

/// A value for a Kubernetes label made of any text: the text itself when it is a valid value, otherwise its valid
/// characters with a hash of all of it.
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set>
pub fn label_value(text: &str) -> String {
    let valid = text.len() <= OBJECT_NAME_MAX_BYTES
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text.bytes().next().is_none_or(|b| b.is_ascii_alphanumeric())
        && text.bytes().last().is_none_or(|b| b.is_ascii_alphanumeric());
    if valid { text.to_string() } else { compose(&[text], &hash(&[text]), OBJECT_NAME_MAX_BYTES) }
}

/// `r` and 19 letters and digits made of 19 handed-in random bytes: a run name that the server chooses.
pub fn generated_run_name(random: [u8; 19]) -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    std::iter::once('r')
        .chain(random.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % 36])))
        .collect()
}

/// Why a text cannot be a run's name; `None` when it can. RFC 1035 label, at most 30 characters: it becomes part of
/// object names and host names (case 70).
pub fn run_name_fault(name: &str) -> Option<&'static str> {
    let mut bytes = name.bytes();
    match bytes.next() {
        None => return Some("it must not be empty"),
        Some(first) if !first.is_ascii_lowercase() => {
            return Some("it must begin with a lower-case letter (RFC 1035 label)");
        }
        Some(_) => {}
    }
    if name.chars().count() > crate::id::NAME_MAX_CHARS {
        return Some("it must have at most 30 characters");
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Some("it may hold lower-case letters, digits and '-' only (RFC 1035 label)");
    }
    if name.ends_with('-') {
        return Some("it must end with a letter or a digit (RFC 1035 label)");
    }
    None
}

fn compose(parts: &[&str], hash: &str, max: usize) -> String {
    let room = max - HASH_CHARS - 1;
    let mut readable = String::new();
    for part in parts {
        let mut dash = true;
        for c in part.chars().map(|c| c.to_ascii_lowercase()) {
            if c.is_ascii_alphanumeric() {
                readable.push(c);
                dash = false;
            } else if !dash {
                readable.push('-');
                dash = true;
            }
        }
        if !dash {
            readable.push('-');
        }
    }
    // A DNS-1035 label must begin with a letter; Pod host names and Services rely on it.
    if !readable.starts_with(|c: char| c.is_ascii_lowercase()) {
        readable.insert(0, 'x');
    }
    readable.truncate(room);
    let readable = readable.trim_end_matches('-');
    format!("{readable}-{hash}")
}

/// 80 bits of SHA-256 over the parts, each preceded by its length, in lower-case base 32.
fn hash(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let digest = digest.finalize();
    let mut bits = 0u128;
    for byte in &digest[..10] {
        bits = bits << 8 | u128::from(*byte);
    }
    (0..HASH_CHARS).rev().map(|i| char::from(ALPHABET[(bits >> (5 * i)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(org: &str, project: &str, run: &str, action: &str) -> ActionId {
        RunId::new(org, project, "development", run).action(action)
    }

    fn is_dns_label(name: &str) -> bool {
        name.len() <= 63
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && !name.ends_with('-')
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }

    #[test]
    fn names_are_readable_and_stable() {
        assert_eq!(task_action_name(&id("", "flytesnacks", "nightly", "a0")), "nightly-a0-hkrss3k3wn5m7aig");
        assert_eq!(pod_name(&id("", "flytesnacks", "nightly", "a0"), 2), "nightly-a0-hkrss3k3wn5m7aig-2");
    }

    #[test]
    fn case_74_joined_names_that_look_alike_are_different_objects() {
        let alike = [
            id("o", "p1", "nightly", "a0"),
            id("o", "p2", "nightly", "a0"),
            id("", "p1", "nightly", "a0"),
            id("o", "p", "a-b", "c"),
            id("o", "p", "a", "b-c"),
            id("o", "p", "a", "B-c"),
        ];
        let names: std::collections::BTreeSet<_> = alike.iter().map(task_action_name).collect();
        assert_eq!(names.len(), alike.len());
    }

    #[test]
    fn case_72_any_user_name_becomes_a_valid_object_name() {
        for name in [
            "Whalesay",
            "my_task",
            "org.Flyte.Task",
            "größe",
            "-x-",
            "a..b",
            "",
            "9",
            "日本語",
            &"z".repeat(300),
        ] {
            let name = pod_name(&id("o", "p", name, name), u32::MAX);
            assert!(is_dns_label(&name), "{name}");
        }
    }

    #[test]
    fn run_names_are_checked_before_anything_is_stored() {
        for name in ["r", "nightly", "a-b-9", &"a".repeat(30)] {
            assert_eq!(run_name_fault(name), None, "{name}");
        }
        for name in ["", "my.run", "1run", "Run_A", "a-", "-a", "größe", "a b", &"a".repeat(31)] {
            assert!(run_name_fault(name).is_some(), "{name}");
        }
        assert_eq!(run_name_fault(&generated_run_name([255; 19])), None);
    }

    #[test]
    fn label_values_keep_what_is_valid() {
        assert_eq!(label_value("my_task.v1"), "my_task.v1");
        assert_eq!(label_value(""), "");
        assert!(label_value("größe").starts_with("gr-e-"));
        assert!(label_value(&"x".repeat(64)).len() <= 63);
    }

    proptest! {
        #[test]
        fn names_are_valid_and_injective_over_arbitrary_text(a in any::<(String, String, String, String)>(), b in any::<(String, String, String, String)>()) {
            let x = id(&a.0, &a.1, &a.2, &a.3);
            let y = id(&b.0, &b.1, &b.2, &b.3);
            prop_assert!(is_dns_label(&task_action_name(&x)));
            prop_assert!(is_dns_label(&pod_name(&x, u32::MAX)));
            prop_assert_eq!(x == y, task_action_name(&x) == task_action_name(&y));
        }
    }
}
