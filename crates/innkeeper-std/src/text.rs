//! Shortening texts at a character boundary.

use std::borrow::Cow;

/// The mark at the end of a shortened text.
pub const ELLIPSIS: char = '…';

/// Returns the longest beginning of a text that has at most `max_bytes` bytes.
///
/// ```
/// assert_eq!(innkeeper_std::text::prefix("größer", 3), "gr");
/// ```
pub fn prefix(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

/// Shortens a text to at most `max_bytes` bytes, followed by an ellipsis if something is missing.
///
/// ```
/// use innkeeper_std::text::truncate;
///
/// assert_eq!(truncate("größer", 20), "größer");
/// assert_eq!(truncate("größer", 3), "gr…");
/// ```
pub fn truncate(text: &str, max_bytes: usize) -> Cow<'_, str> {
    marked(text, prefix(text, max_bytes))
}

/// Shortens a text to at most `max_chars` characters, followed by an ellipsis if something is missing.
///
/// ```
/// assert_eq!(innkeeper_std::text::truncate_chars("größer", 3), "grö…");
/// ```
pub fn truncate_chars(text: &str, max_chars: usize) -> Cow<'_, str> {
    let end = text.char_indices().nth(max_chars).map(|(end, _)| end);
    marked(text, end.and_then(|end| text.get(..end)).unwrap_or(text))
}

/// Shortens a text to at most `max_bytes` bytes, followed by the number of missing bytes: a model may ask for the rest.
///
/// ```
/// assert_eq!(innkeeper_std::text::truncate_counted("größer", 3), "gr… [6 more bytes]");
/// ```
pub fn truncate_counted(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let start = prefix(text, max_bytes);
    match text.len() - start.len() {
        0 => Cow::Borrowed(text),
        missing => Cow::Owned(format!("{start}{ELLIPSIS} [{missing} more bytes]")),
    }
}

/// Shortens a text to at most `max_chars` characters, followed by the number of missing characters.
///
/// ```
/// assert_eq!(innkeeper_std::text::truncate_chars_counted("größer", 3), "grö… [3 more characters]");
/// ```
pub fn truncate_chars_counted(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let (start, rest) = text.split_at(end);
            let missing = rest.chars().count();
            Cow::Owned(format!("{start}{ELLIPSIS} [{missing} more characters]"))
        }
    }
}

fn marked<'a>(text: &'a str, start: &'a str) -> Cow<'a, str> {
    match start.len() < text.len() {
        true => Cow::Owned(format!("{start}{ELLIPSIS}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_within_the_limit_stay_as_they_are() {
        for max in [4, 5, usize::MAX] {
            assert!(matches!(truncate("aaaa", max), Cow::Borrowed("aaaa")));
            assert!(matches!(truncate_chars("aaaa", max), Cow::Borrowed("aaaa")));
            assert!(matches!(truncate_counted("aaaa", max), Cow::Borrowed("aaaa")));
            assert!(matches!(truncate_chars_counted("aaaa", max), Cow::Borrowed("aaaa")));
        }
        assert_eq!((truncate("", 0).as_ref(), truncate_chars("", 0).as_ref()), ("", ""));
    }

    #[test]
    fn no_character_is_split() {
        for (max, expected) in [(0, "…"), (1, "a…"), (2, "a…"), (4, "a…"), (5, "a🙂…"), (6, "a🙂b")] {
            assert_eq!(truncate("a🙂b", max), expected, "{max}");
        }
        for (max, expected) in [(0, "…"), (1, "a…"), (2, "a🙂…"), (3, "a🙂b")] {
            assert_eq!(truncate_chars("a🙂b", max), expected, "{max}");
        }
    }
}
