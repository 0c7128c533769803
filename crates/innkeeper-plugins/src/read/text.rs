//! Text: decoding, positions, and sanitising for display.

use std::borrow::Cow;

use innkeeper_std::text::{ELLIPSIS, truncate_chars};

/// A position in a text, zero-based, in UTF-16 code units as in the rest of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextPosition {
    /// The line.
    pub line: u32,
    /// The column.
    pub character: u32,
}

/// A span of a text; its end is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextRange {
    /// Where it begins.
    pub start: TextPosition,
    /// Where it ends.
    pub end: TextPosition,
}

impl TextRange {
    /// Where these bytes are in a text.
    pub fn of(text: &str, bytes: std::ops::Range<usize>) -> Self {
        LineIndex::new(text).range(bytes.start, bytes.end)
    }
}

/// How the bytes of a file became text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    /// Bytes that are not UTF-8 were replaced.
    Replaced,
    /// UTF-16, which is not read at all.
    Utf16,
}

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

/// Decodes a file without its byte order mark. `cut_off` means that the file is longer than these bytes, so that an
/// incomplete character at the end is no error of the file.
pub(crate) fn decode(bytes: &[u8], cut_off: bool) -> (Cow<'_, str>, Encoding) {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return (Cow::Borrowed(""), Encoding::Utf16);
    }
    let bytes = bytes.strip_prefix(UTF8_BOM).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), Encoding::Utf8),
        Err(error) if cut_off && error.error_len().is_none() => {
            let (whole, _) = bytes.split_at(error.valid_up_to());
            (String::from_utf8_lossy(whole), Encoding::Utf8)
        }
        Err(_) => (String::from_utf8_lossy(bytes), Encoding::Replaced),
    }
}

/// Finds lines and columns of byte offsets. Offsets count from after the byte order mark.
#[derive(Debug)]
pub(crate) struct LineIndex {
    starts: Vec<usize>,
    /// The end of each non-ASCII character, and by how much the text up to there is longer in bytes than in UTF-16. So
    /// a position in one long line is found quickly.
    wide: Vec<(usize, usize)>,
}

impl LineIndex {
    pub(crate) fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            let lone_return = *byte == b'\r' && bytes.get(at + 1) != Some(&b'\n');
            if *byte == b'\n' || lone_return {
                starts.push(at + 1);
            }
        }
        let mut wide = Vec::new();
        let mut longer = 0;
        for (at, c) in text.char_indices().filter(|(_, c)| !c.is_ascii()) {
            longer += c.len_utf8() - c.len_utf16();
            wide.push((at + c.len_utf8(), longer));
        }
        Self { starts, wide }
    }

    pub(crate) fn range(&self, start: usize, end: usize) -> TextRange {
        TextRange {
            start: self.position(start),
            end: self.position(end),
        }
    }

    fn position(&self, offset: usize) -> TextPosition {
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let character = self.units(offset).saturating_sub(self.units(start));
        TextPosition {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            character: u32::try_from(character).unwrap_or(u32::MAX),
        }
    }

    /// How many UTF-16 units come before an offset.
    fn units(&self, offset: usize) -> usize {
        let before = self.wide.partition_point(|(end, _)| *end <= offset);
        let longer = before.checked_sub(1).and_then(|last| self.wide.get(last));
        offset.saturating_sub(longer.map_or(0, |(_, longer)| *longer))
    }
}

/// A text for one line of a list: without control characters and marks that turn the direction of
/// writing, blanks collapsed, and not too long.
pub(crate) fn printable(text: &str, most: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(most * 4));
    let mut count = 0;
    let mut blank = false;
    for c in text.trim().chars() {
        if c.is_whitespace() || c.is_control() {
            blank = true;
            continue;
        }
        if turns_direction(c) {
            continue;
        }
        if count + usize::from(blank) >= most {
            clean.push(ELLIPSIS);
            break;
        }
        if blank {
            clean.push(' ');
            count += 1;
            blank = false;
        }
        clean.push(c);
        count += 1;
    }
    clean
}

/// A text of several lines: as it is, but without control characters, and not too long.
pub(crate) fn readable(text: &str, most: usize) -> String {
    let clean = |c: &char| (*c == '\n' || *c == '\t' || !c.is_control()) && !turns_direction(*c);
    // One more than is shown, so that the cut is visible.
    let kept: String = text.trim().chars().filter(clean).take(most + 1).collect();
    truncate_chars(&kept, most).into_owned()
}

fn turns_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_utf16_units() {
        let text = "a\r\n  \u{e9}😀x\rlast";
        let index = LineIndex::new(text);
        let x = text.find('x').unwrap();
        let range = index.range(x, text.len());
        assert_eq!((range.start.line, range.start.character), (1, 5));
        assert_eq!((range.end.line, range.end.character), (2, 4));
    }

    #[test]
    fn half_a_character_at_the_cut_is_no_fault() {
        let bytes = "abc é".as_bytes();
        let (text, encoding) = decode(&bytes[..bytes.len() - 1], true);
        assert_eq!((text.as_ref(), encoding), ("abc ", Encoding::Utf8));
        assert_eq!(decode(&bytes[..bytes.len() - 1], false).1, Encoding::Replaced);
    }

    #[test]
    fn names_cannot_break_a_list() {
        assert_eq!(printable(" a\u{0}\n\u{202e}b  c ", 10), "a b c");
        assert_eq!(printable("abcdef", 3), "abc…");
        assert_eq!(readable("a\nb\u{7}", 10), "a\nb");
    }
}
