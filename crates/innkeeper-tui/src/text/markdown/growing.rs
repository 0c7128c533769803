//! Markdown that grows at its end, because it is streamed.
//!
//! Text that follows a complete block does not change it, so only the last blocks are rendered again. A definition of a
//! link is the exception: it reaches back to every block before it, so that a text with one is rendered as a whole.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use ratatui::text::Line;

use super::{Mark, Renderer, trim_end};
use crate::text::clean;
use crate::theme::Theme;

/// Bytes of the known end of a text that tell whether it has grown or was replaced.
const KNOWN_END: usize = 64;

/// A rendered text.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    width: usize,
    /// Bytes of the text, and a hash of the last of them.
    bytes: usize,
    end: u64,
    /// Bytes of the blocks that are complete.
    complete_bytes: usize,
    complete: Rc<Vec<Line<'static>>>,
    /// Whether the last line of the complete blocks is empty; `None` without one.
    is_last_empty: Option<bool>,
    rest: Rc<Vec<Line<'static>>>,
    has_definition: bool,
}

impl Growing {
    /// Renders what is new of a text. Every line goes through `finish`.
    pub(crate) fn update(
        &mut self,
        source: &str,
        width: usize,
        theme: Theme,
        finish: fn(Line<'static>) -> Line<'static>,
    ) {
        let has_grown = source.len() >= self.bytes && self.width == width && end_of(source, self.bytes) == self.end;
        if has_grown && source.len() == self.bytes && self.bytes > 0 {
            return;
        }
        if !has_grown {
            *self = Self::default();
        }
        (self.width, self.bytes, self.end) = (width, source.len(), end_of(source, source.len()));
        if !self.has_definition && has_definition(source.get(self.complete_bytes..).unwrap_or_default()) {
            self.has_definition = true;
            self.complete_bytes = 0;
            self.complete = Rc::default();
            self.is_last_empty = None;
        }
        let rest = source.get(self.complete_bytes..).unwrap_or_default();
        let text = clean(rest);
        let mut renderer = Renderer::new(width, theme);
        let before = self.is_last_empty.map(|is_empty| match is_empty {
            true => Line::default(),
            false => Line::raw("-"),
        });
        let first = usize::from(before.is_some());
        renderer.lines.extend(before);
        let marks = renderer.parse(&text);
        let mut lines = renderer.finish();
        let complete = match self.has_definition {
            true => None,
            false => marks.into_iter().rfind(|mark| is_complete(mark, &text)),
        };
        if let Some(Mark { offset, lines: count }) = complete {
            let blocks = lines.drain(first..count.max(first));
            let blocks: Vec<_> = blocks.collect();
            if let Some(last) = blocks.last() {
                self.is_last_empty = Some(last.width() == 0);
            }
            Rc::make_mut(&mut self.complete).extend(blocks.into_iter().map(finish));
            self.complete_bytes += source_offset(rest, &text, offset);
        }
        lines.drain(..first.min(lines.len()));
        trim_end(&mut lines);
        self.rest = Rc::new(lines.into_iter().map(finish).collect());
    }

    /// The lines of the complete blocks, and those of the last blocks.
    pub(crate) fn lines(&self) -> [Rc<Vec<Line<'static>>>; 2] {
        [Rc::clone(&self.complete), Rc::clone(&self.rest)]
    }
}

/// Returns true if everything before a block is complete: the first line of the block is, so that it cannot turn into
/// more of the block before.
fn is_complete(mark: &Mark, text: &str) -> bool {
    mark.offset > 0 && text.get(mark.offset..).is_some_and(|block| block.contains('\n'))
}

/// Returns the position in a source of a line of its clean text. Both have the same lines.
fn source_offset(source: &str, text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or_default();
    let Some(last) = before.matches('\n').count().checked_sub(1) else {
        return 0;
    };
    source.match_indices('\n').nth(last).map_or(0, |(end, _)| end + 1)
}

fn end_of(source: &str, bytes: usize) -> u64 {
    let known = source.as_bytes().get(..bytes).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    known.get(known.len().saturating_sub(KNOWN_END)..).hash(&mut hasher);
    hasher.finish()
}

/// Returns true if a line looks like the definition of a link, as in `[name]: address`, also within quotes and lists.
fn has_definition(text: &str) -> bool {
    let is_marker = |c: char| c.is_whitespace() || c.is_ascii_digit() || matches!(c, '>' | '-' | '+' | '*' | '.' | ')');
    text.lines().any(|line| {
        let line = line.trim_start_matches(is_marker);
        line.starts_with('[') && line.contains("]:")
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::super::render;
    use super::*;

    fn same(line: Line<'static>) -> Line<'static> {
        line
    }

    fn all(growing: &Growing) -> Vec<Line<'static>> {
        let mut lines: Vec<_> = growing.lines().iter().flat_map(|lines| lines.iter().cloned()).collect();
        trim_end(&mut lines);
        lines
    }

    /// Pieces that begin, continue and end blocks of all kinds.
    const PIECES: &[&str] = &[
        "# Title",
        "#",
        "Some words",
        " and more of them",
        "\n",
        "\n\n",
        "\r\n",
        "- item",
        "  - deep",
        "1. one",
        "2. two",
        "> quote",
        "```rust\n",
        "```",
        "~~~",
        "    indented",
        "| a | b |",
        "|---|--:|",
        "| 1 | 2 |",
        "---",
        "===",
        "***",
        "**bold**",
        "`code`",
        "*",
        "<div>",
        "</div>",
        "<!-- note -->",
        "<b>x</b>",
        "[link](https://a.example)",
        "[name]",
        "[name]: https://b.example",
        "\t",
        "- [x] done",
        "\u{1b}[31m",
        "  ",
        "日本語",
        "let x = 1;",
        "\\",
        "+ plus",
        "1) a",
    ];

    proptest! {
        #[test]
        fn growing_text_looks_as_if_rendered_as_a_whole(
            pieces in proptest::collection::vec((proptest::sample::select(PIECES), any::<bool>()), 0..40),
            width in 8_usize..40,
        ) {
            let mut growing = Growing::default();
            let mut source = String::new();
            for (piece, is_cut) in pieces {
                source.push_str(piece);
                if is_cut {
                    growing.update(&source, width, Theme::plain(), same);
                    prop_assert_eq!(all(&growing), render(&source, width, Theme::plain()), "{:?}", source);
                }
            }
            growing.update(&source, width, Theme::plain(), same);
            prop_assert_eq!(all(&growing), render(&source, width, Theme::plain()), "{:?}", source);
        }
    }

    #[test]
    fn replaced_text_and_another_width_are_rendered_anew() {
        let mut growing = Growing::default();
        for (source, width) in [
            ("a\n\nb\n\nc\n", 20),
            ("x\n\ny\n\nz\n", 20),
            ("x\n\ny\n", 20),
            ("x\n\ny\n", 9),
            ("", 9),
        ] {
            growing.update(source, width, Theme::plain(), same);
            assert_eq!(all(&growing), render(source, width, Theme::plain()), "{source:?}");
        }
    }

    #[test]
    fn a_definition_of_a_link_reaches_back() {
        let mut growing = Growing::default();
        let mut source = "See [the book].\n\nMore words.\n\nEven more.\n".to_owned();
        growing.update(&source, 60, Theme::plain(), same);
        source.push_str("\n[the book]: https://book.example\n");
        growing.update(&source, 60, Theme::plain(), same);
        assert!(all(&growing)[0].to_string().contains("https://book.example"));
    }

    #[test]
    fn a_long_text_is_not_rendered_again_with_every_piece() {
        let mut source = String::new();
        while source.len() < 1 << 20 {
            source.push_str(
                "A paragraph of **some** words, with `code` and more words to fill two lines of a screen.\n\n",
            );
        }
        let mut growing = Growing::default();
        growing.update(&source, 80, Theme::plain(), same);
        let started = Instant::now();
        for _ in 0..200 {
            source.push_str("More words.\n\n");
            growing.update(&source, 80, Theme::plain(), same);
        }
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
}
