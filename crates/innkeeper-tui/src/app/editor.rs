//! A text that the user edits, in one line or several.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};
use unicode_width::UnicodeWidthStr as _;

/// A text and a cursor in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Editor {
    text: String,
    /// Byte position, always between two user-perceived characters.
    cursor: usize,
    /// The column that vertical moves aim for.
    aim: Option<usize>,
}

/// Where a line of an editor begins and ends, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextRow {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Editor {
    /// Creates an editor with the cursor at the end.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            cursor: text.len(),
            text,
            aim: None,
        }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the cursor as a byte position.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Returns true if there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes the text out.
    pub(crate) fn take(&mut self) -> String {
        self.cursor = 0;
        self.aim = None;
        std::mem::take(&mut self.text)
    }

    /// Inserts text at the cursor. Tabs become spaces and other control characters are dropped: a cell holds neither.
    pub(crate) fn insert(&mut self, text: &str) {
        let text = text.replace('\t', "    ");
        let text: String = text.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
        self.aim = None;
    }

    /// Replaces a range of bytes, and puts the cursor behind the new text. A range inside a character is widened.
    pub(crate) fn replace(&mut self, start: usize, end: usize, text: &str) {
        let start = self.boundary(start.min(self.text.len()));
        let end = self.boundary(end.clamp(start, self.text.len()));
        self.text.replace_range(start..end, text);
        self.cursor = start + text.len();
        self.aim = None;
    }

    fn boundary(&self, mut position: usize) -> usize {
        while !self.text.is_char_boundary(position) {
            position -= 1;
        }
        position
    }

    /// Handles a key that edits or moves. Returns false if it has no meaning here.
    pub(crate) fn handle(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('a') if control => self.cursor = self.line_start(),
            KeyCode::Char('e') if control => self.cursor = self.line_end(),
            KeyCode::Char('u') if control => self.delete(self.line_start(), self.cursor),
            KeyCode::Char('k') if control => self.delete(self.cursor, self.line_end()),
            KeyCode::Char('w') if control => self.delete(self.word_left(), self.cursor),
            KeyCode::Char('b') if alt => self.cursor = self.word_left(),
            KeyCode::Char('f') if alt => self.cursor = self.word_right(),
            KeyCode::Char(_) if control || alt => return false,
            KeyCode::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace if control || alt => self.delete(self.word_left(), self.cursor),
            KeyCode::Backspace => self.delete(self.left(), self.cursor),
            KeyCode::Delete => self.delete(self.cursor, self.right()),
            KeyCode::Left if control || alt => self.cursor = self.word_left(),
            KeyCode::Right if control || alt => self.cursor = self.word_right(),
            KeyCode::Left => self.cursor = self.left(),
            KeyCode::Right => self.cursor = self.right(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::End => self.cursor = self.line_end(),
            _ => return false,
        }
        self.aim = None;
        true
    }

    fn delete(&mut self, start: usize, end: usize) {
        self.text.replace_range(start..end, "");
        self.cursor = start;
    }

    fn left(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        cursor.prev_boundary(&self.text, 0).ok().flatten().unwrap_or(0)
    }

    fn right(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        let next = cursor.next_boundary(&self.text, 0).ok().flatten();
        next.unwrap_or(self.text.len())
    }

    fn word_left(&self) -> usize {
        let before = self.text.get(..self.cursor).unwrap_or_default();
        let words = before.split_word_bound_indices().rev();
        let word = words.into_iter().find(|(_, word)| !word.trim().is_empty());
        word.map_or(0, |(start, _)| start)
    }

    fn word_right(&self) -> usize {
        let after = self.text.get(self.cursor..).unwrap_or_default();
        let mut words = after.split_word_bound_indices();
        let word = words.find(|(_, word)| !word.trim().is_empty());
        word.map_or(self.text.len(), |(start, word)| self.cursor + start + word.len())
    }

    fn line_start(&self) -> usize {
        let before = self.text.get(..self.cursor).unwrap_or_default();
        before.rfind('\n').map_or(0, |position| position + 1)
    }

    fn line_end(&self) -> usize {
        let after = self.text.get(self.cursor..).unwrap_or_default();
        after
            .find('\n')
            .map_or(self.text.len(), |position| self.cursor + position)
    }

    /// Returns the lines as they are shown in so many columns.
    pub(crate) fn rows(&self, width: usize) -> Vec<TextRow> {
        let width = width.max(2);
        let mut rows = Vec::new();
        let mut start = 0;
        for line in self.text.split('\n') {
            let mut row = start;
            let mut column = 0;
            let mut end = start;
            for part in line.graphemes(true) {
                if column + part.width() > width - 1 {
                    rows.push(TextRow { start: row, end });
                    row = end;
                    column = 0;
                }
                column += part.width();
                end += part.len();
            }
            rows.push(TextRow { start: row, end });
            start = end + 1;
        }
        rows
    }

    /// Returns the row and column of the cursor in so many columns.
    pub(crate) fn position(&self, width: usize) -> (usize, usize) {
        let rows = self.rows(width);
        let row = rows.iter().rposition(|row| row.start <= self.cursor).unwrap_or(0);
        let start = rows.get(row).map_or(0, |row| row.start);
        let column = self.text.get(start..self.cursor).unwrap_or_default().width();
        (row, column)
    }

    /// Moves up or down by rows. Returns false at the first or last row.
    pub(crate) fn move_vertically(&mut self, rows_down: isize, width: usize) -> bool {
        let rows = self.rows(width);
        let (row, column) = self.position(width);
        let aim = self.aim.unwrap_or(column);
        let Some(target) = row.checked_add_signed(rows_down).and_then(|row| rows.get(row)) else {
            return false;
        };
        let line = self.text.get(target.start..target.end).unwrap_or_default();
        let mut used = 0;
        let mut cursor = target.start;
        for part in line.graphemes(true) {
            if used + part.width() > aim {
                break;
            }
            used += part.width();
            cursor += part.len();
        }
        self.cursor = cursor;
        self.aim = Some(aim);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn control(c: char) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)
    }

    #[test]
    fn user_perceived_characters_are_deleted_as_a_whole() {
        let mut editor = Editor::new("ae\u{301}👩\u{200d}🚀");
        editor.handle(key(KeyCode::Backspace));
        assert_eq!(editor.text(), "ae\u{301}");
        editor.handle(key(KeyCode::Backspace));
        assert_eq!(editor.text(), "a");
    }

    #[test]
    fn words_and_lines_are_moved_over_and_deleted() {
        let mut editor = Editor::new("one two\nthree four");
        editor.handle(control('w'));
        assert_eq!(editor.text(), "one two\nthree ");
        editor.handle(control('a'));
        assert_eq!(editor.cursor(), 8);
        editor.handle(control('k'));
        assert_eq!(editor.text(), "one two\n");
        editor.handle(KeyEvent::new(KeyCode::Left, KeyModifiers::CONTROL));
        assert_eq!(editor.cursor(), 4);
    }

    #[test]
    fn rows_wrap_and_the_cursor_moves_between_them() {
        let mut editor = Editor::new("abcdef\n日本語");
        assert_eq!(editor.rows(5).len(), 4);
        assert_eq!(editor.position(5), (3, 2));
        assert!(editor.move_vertically(-1, 5));
        assert!(editor.move_vertically(-1, 5));
        assert_eq!(editor.position(5), (1, 2));
        assert!(editor.move_vertically(-1, 5));
        assert!(!editor.move_vertically(-1, 5));
        editor.insert("X");
        assert_eq!(editor.text(), "abXcdef\n日本語");
    }
}
