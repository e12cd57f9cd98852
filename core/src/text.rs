//! Text that comes from outside is bounded before it is kept or sent (S13).

/// The most bytes of a message that is kept with an action and sent over the wire.
pub const MESSAGE_MAX_BYTES: usize = 4096;

/// The most bytes of a code, a reason or another short word.
pub const CODE_MAX_BYTES: usize = 128;

/// `text`, or its beginning when it is longer than `max_bytes`, with a note on what was left out. The result is never
/// longer than `max_bytes` plus 40 bytes and never splits a character.
pub fn bounded(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_string();
    }
    let mut end = max_bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}... ({} bytes left out)", &text[..end], text.len() - end)
}

/// A message, bounded to [`MESSAGE_MAX_BYTES`].
pub fn message(text: &str) -> String {
    bounded(text, MESSAGE_MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters_and_says_how_much_is_missing() {
        assert_eq!(bounded("short", 5), "short");
        assert_eq!(bounded("größe", 3), "gr... (5 bytes left out)");
        assert_eq!(bounded("abcdef", 3), "abc... (3 bytes left out)");
    }
}
