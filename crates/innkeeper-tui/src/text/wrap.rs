//! Breaks styled text into lines of a given number of columns.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Breaks one logical line. The first line begins with `first`, the others with `rest`.
pub(crate) fn wrap(
    spans: &[Span<'_>],
    width: usize,
    first: &[Span<'static>],
    rest: &[Span<'static>],
) -> Vec<Line<'static>> {
    let mut wrapper = Wrapper::new(width, first, rest);
    for span in spans {
        for word in span.content.split_word_bounds() {
            wrapper.push(word, span.style);
        }
    }
    wrapper.finish()
}

/// Breaks plain text, whose line breaks are kept, with one style.
pub(crate) fn wrap_text(text: &str, style: Style, width: usize, indent: &str) -> Vec<Line<'static>> {
    let indent = [Span::raw(indent.to_owned())];
    let lines = text.split('\n');
    lines
        .flat_map(|line| wrap(&[Span::styled(line, style)], width, &indent, &indent))
        .collect()
}

/// Breaks text anywhere, as code and terminal output want it: spaces count.
pub(crate) fn chop(spans: &[Span<'_>], width: usize, before: &[Span<'static>]) -> Vec<Line<'static>> {
    let used: usize = before.iter().map(Span::width).sum();
    let room = width.saturating_sub(used).max(1);
    let mut lines = Vec::new();
    let mut line: Vec<Span<'static>> = before.to_vec();
    let mut column = 0;
    for span in spans {
        let mut piece = String::new();
        for part in span.content.graphemes(true) {
            if column + part.width() > room {
                line.push(Span::styled(std::mem::take(&mut piece), span.style));
                lines.push(Line::from(std::mem::replace(&mut line, before.to_vec())));
                column = 0;
            }
            piece.push_str(part);
            column += part.width();
        }
        if !piece.is_empty() {
            line.push(Span::styled(piece, span.style));
        }
    }
    lines.push(Line::from(line));
    lines
}

struct Wrapper<'a> {
    width: usize,
    rest: &'a [Span<'static>],
    lines: Vec<Line<'static>>,
    line: Vec<Span<'static>>,
    column: usize,
    /// Column in which the text of a line begins.
    start: usize,
    /// A space that is written only if a word follows on the same line.
    space: Option<(String, Style)>,
}

impl<'a> Wrapper<'a> {
    fn new(width: usize, first: &[Span<'static>], rest: &'a [Span<'static>]) -> Self {
        let column = first.iter().map(Span::width).sum();
        Self {
            width: width.max(1),
            rest,
            lines: Vec::new(),
            line: first.to_vec(),
            column,
            start: column,
            space: None,
        }
    }

    fn push(&mut self, word: &str, style: Style) {
        if word.chars().all(char::is_whitespace) {
            // Leading spaces of a logical line are an indent, and stay.
            match (self.column == self.start && self.lines.is_empty(), &mut self.space) {
                (true, _) => self.write(word, style),
                (false, Some((space, _))) => space.push_str(word),
                (false, space) => *space = Some((word.to_owned(), style)),
            }
            return;
        }
        let space = self.space.take();
        let gap = space.as_ref().map_or(0, |(space, _)| space.width());
        if self.column + gap + word.width() <= self.width {
            if let Some((space, style)) = space {
                self.write(&space, style);
            }
            return self.write(word, style);
        }
        if self.column > self.start {
            self.end_line();
        }
        if self.column + word.width() <= self.width {
            return self.write(word, style);
        }
        for part in word.graphemes(true) {
            if self.column + part.width() > self.width && self.column > self.start {
                self.end_line();
            }
            self.write(part, style);
        }
    }

    fn write(&mut self, text: &str, style: Style) {
        self.column += text.width();
        match self.line.last_mut() {
            Some(last) if last.style == style && self.column > self.start + text.width() => {
                last.content.to_mut().push_str(text);
            }
            _ => self.line.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::replace(&mut self.line, self.rest.to_vec());
        self.lines.push(Line::from(line));
        self.column = self.rest.iter().map(Span::width).sum();
        self.start = self.column;
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.lines.push(Line::from(self.line));
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_break_at_spaces_and_long_ones_anywhere() {
        let lines = wrap_text("the inn keeps a quiet room", Style::new(), 10, "");
        assert_eq!(shown(&lines), ["the inn", "keeps a", "quiet room"]);
        let lines = wrap_text("a verylongword", Style::new(), 5, "");
        assert_eq!(shown(&lines), ["a", "veryl", "ongwo", "rd"]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let lines = wrap_text("日本語日本語", Style::new(), 5, "");
        assert_eq!(shown(&lines), ["日本", "語日", "本語"]);
        let lines = chop(&[Span::raw("日本語")], 5, &[]);
        assert_eq!(shown(&lines), ["日本", "語"]);
    }

    #[test]
    fn hanging_indents_are_part_of_the_width() {
        let lines = wrap(&[Span::raw("one two three")], 9, &[Span::raw("- ")], &[Span::raw("  ")]);
        assert_eq!(shown(&lines), ["- one two", "  three"]);
    }
}
