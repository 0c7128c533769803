//! Text files with their format: byte-order mark and line endings.

use std::borrow::Cow;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The text of a file and its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// The text, with `\n` line endings unless the file mixes them.
    pub(super) content: String,
    format: TextFormat,
}

/// Byte-order mark and line endings of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TextFormat {
    has_bom: bool,
    has_crlf: bool,
}

impl Text {
    /// Decodes a file; `None` if it is not UTF-8 text.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let has_bom = bytes.starts_with(BOM);
        let text = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let text = std::str::from_utf8(text).ok()?;
        if text.contains('\0') {
            return None;
        }
        let crlf = text.matches("\r\n").count();
        let lf = text.matches('\n').count();
        // Mixed line endings are preserved as they are.
        let has_crlf = crlf > 0 && crlf == lf;
        let text = if has_crlf {
            text.replace("\r\n", "\n")
        } else {
            text.to_owned()
        };
        Some(Self {
            content: text,
            format: TextFormat { has_bom, has_crlf },
        })
    }

    pub(super) fn format(&self) -> TextFormat {
        self.format
    }
}

impl TextFormat {
    /// Encodes a text in the file's format.
    pub(super) fn write(self, text: &str) -> Vec<u8> {
        let text = if self.has_crlf {
            Cow::Owned(text.replace('\n', "\r\n"))
        } else {
            Cow::Borrowed(text)
        };
        let mut bytes = Vec::with_capacity(text.len() + BOM.len());
        if self.has_bom {
            bytes.extend_from_slice(BOM);
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// Converts text from a model to the form of [`Text::content`]: `\n` line endings, and no byte-order mark if the
    /// file has one.
    pub(super) fn normalize<'a>(self, text: &'a str) -> Cow<'a, str> {
        let mark = text.strip_prefix('\u{FEFF}').filter(|_| self.has_bom);
        let text = mark.unwrap_or(text);
        if self.has_crlf && text.contains('\r') {
            Cow::Owned(text.replace("\r\n", "\n"))
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// Returns true if bytes do not look like text.
pub(super) fn is_binary(start: &[u8]) -> bool {
    start.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_byte_order_mark_and_line_endings() {
        let text = Text::of(b"\xEF\xBB\xBFone\r\ntwo\r\n").expect("text");
        assert_eq!(text.content, "one\ntwo\n");
        assert_eq!(text.format().write("one\n2\n"), b"\xEF\xBB\xBFone\r\n2\r\n");
        assert_eq!(text.format().normalize("\u{FEFF}one\r\ntwo\n"), "one\ntwo\n");
    }

    #[test]
    fn mixed_line_endings_are_preserved() {
        let text = Text::of(b"one\r\ntwo\n").expect("text");
        assert_eq!(text.content, "one\r\ntwo\n");
        assert_eq!(text.format().write(&text.content), b"one\r\ntwo\n");
    }

    proptest::proptest! {
        #[test]
        fn unchanged_text_is_encoded_unchanged(source in "[\u{FEFF}a\r\n]{0,12}") {
            let text = Text::of(source.as_bytes()).expect("text");
            proptest::prop_assert_eq!(text.format().write(&text.content), source.as_bytes());
        }
    }

    #[test]
    fn binary_content_is_not_text() {
        assert_eq!(Text::of(b"\xFF\xFEa\0"), None);
        assert_eq!(Text::of(b"a\0b"), None);
    }
}
