//! Markdown with the styles of a terminal, piece by piece as it streams in.
//!
//! It styles what can be decided from a few characters: headings, emphasis, code and lists. Everything else, such as a
//! table, stays as it was written. A marker that is not complete waits for the next piece.

const BOLD: &str = "\x1b[1m";
const CODE: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Longest marker at the start of a line: three spaces, six hashes and a space.
const MAX_MARKER: usize = 10;

/// The renderer. Without styles, text passes through unchanged.
#[derive(Debug)]
pub(crate) struct MarkdownStream {
    has_styles: bool,
    /// Characters that cannot be decided yet.
    waiting: String,
    line: Line,
    is_fenced: bool,
    is_bold: bool,
    is_code: bool,
}

/// The position in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// At its start.
    Start,
    /// Inside of it.
    Inside,
    /// In a line that opens or closes a block of code.
    Fence,
}

impl MarkdownStream {
    pub(crate) fn new(has_styles: bool) -> Self {
        Self {
            has_styles,
            waiting: String::new(),
            line: Line::Start,
            is_fenced: false,
            is_bold: false,
            is_code: false,
        }
    }

    /// Adds a piece and returns what can be shown of it.
    pub(crate) fn push(&mut self, text: &str) -> String {
        if !self.has_styles {
            return text.to_owned();
        }
        self.waiting.push_str(text);
        let mut shown = String::new();
        self.take_decided(&mut shown, false);
        shown
    }

    /// Ends the text: returns what was still waiting, and switches all styles off.
    pub(crate) fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.take_decided(&mut shown, true);
        if self.is_bold || self.is_code || self.is_fenced || self.line == Line::Fence {
            shown.push_str(RESET);
        }
        *self = Self::new(self.has_styles);
        shown
    }

    /// Shows everything that can be decided; all of it if nothing follows.
    fn take_decided(&mut self, shown: &mut String, is_last: bool) {
        while !self.waiting.is_empty() {
            let taken = match self.line {
                Line::Start => self.start_line(shown, is_last),
                Line::Inside | Line::Fence => self.take_next(shown, is_last),
            };
            match taken {
                Some(bytes) => drop(self.waiting.drain(..bytes)),
                None => return,
            }
        }
    }

    /// Handles the marker at the start of a line. Returns how many bytes it took, or nothing if it has to wait.
    fn start_line(&mut self, shown: &mut String, is_last: bool) -> Option<usize> {
        let indent = self.waiting.len() - self.waiting.trim_start_matches(' ').len();
        let rest = &self.waiting[indent..];
        let is_undecided = rest.chars().all(|c| "#`*-+".contains(c)) && self.waiting.len() < MAX_MARKER;
        if is_undecided && !is_last {
            return None;
        }
        self.line = Line::Inside;
        if rest.starts_with("```") {
            self.line = Line::Fence;
            shown.push_str(DIM);
            return self.put(shown, indent + 3);
        }
        if self.is_fenced {
            shown.push_str(CODE);
            return self.put(shown, indent);
        }
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        if (1..=6).contains(&hashes) && rest[hashes..].starts_with(' ') {
            shown.push_str(BOLD);
            self.is_bold = true;
            return Some(indent + hashes + 1);
        }
        if ["- ", "* ", "+ "].iter().any(|bullet| rest.starts_with(bullet)) {
            shown.push_str(&self.waiting[..indent]);
            shown.push_str("• ");
            return Some(indent + 2);
        }
        self.put(shown, indent)
    }

    /// Handles the next character inside of a line. Returns how many bytes it took, or nothing if it has to wait.
    fn take_next(&mut self, shown: &mut String, is_last: bool) -> Option<usize> {
        let mut chars = self.waiting.chars();
        let (first, second) = (chars.next()?, chars.next());
        if first == '\n' {
            if self.line == Line::Fence {
                self.is_fenced = !self.is_fenced;
            }
            if self.is_bold || self.is_code || self.is_fenced || self.line == Line::Fence {
                shown.push_str(RESET);
            }
            (self.is_bold, self.is_code) = (false, false);
            self.line = Line::Start;
            shown.push('\n');
            return Some(1);
        }
        if self.is_fenced || self.line == Line::Fence {
            let end = self.waiting.find('\n').unwrap_or(self.waiting.len());
            return self.put(shown, end);
        }
        let taken = match first {
            '*' | '\\' if second.is_none() && !is_last => return None,
            '*' if second == Some('*') && !self.is_code => {
                self.is_bold = !self.is_bold;
                shown.push_str(if self.is_bold { BOLD } else { RESET });
                2
            }
            '`' => {
                self.is_code = !self.is_code;
                shown.push_str(if self.is_code { CODE } else { RESET });
                if !self.is_code && self.is_bold {
                    shown.push_str(BOLD);
                }
                1
            }
            '\\' if !self.is_code && second.is_some_and(|c| c.is_ascii_punctuation()) => {
                shown.extend(second);
                2
            }
            c => {
                shown.push(c);
                c.len_utf8()
            }
        };
        Some(taken)
    }

    /// Shows the first bytes as they are.
    fn put(&self, shown: &mut String, bytes: usize) -> Option<usize> {
        shown.push_str(&self.waiting[..bytes]);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, piece: usize) -> String {
        let mut stream = MarkdownStream::new(true);
        let chars: Vec<char> = text.chars().collect();
        let mut shown: String = chars
            .chunks(piece)
            .map(|piece| stream.push(&piece.iter().collect::<String>()))
            .collect();
        shown.push_str(&stream.finish());
        shown
    }

    #[test]
    fn pieces_of_any_size_give_the_same_text() {
        let text = "# Title\nA **bold** word, `code`, 2 * 3 \\* 4.\n- one\n  * two\n\n```rust\nlet a = \"**\";\n# not a title\n```\nü end **";
        let whole = render(text, usize::MAX);
        for piece in 1..12 {
            assert_eq!(render(text, piece), whole, "pieces of {piece}");
        }
        assert!(
            whole.starts_with(
                "\x1b[1mTitle\x1b[0m\nA \x1b[1mbold\x1b[0m word, \x1b[36mcode\x1b[0m, 2 * 3 * 4.\n• one\n  • two\n"
            ),
            "{whole:?}"
        );
        assert!(
            whole.contains("\x1b[36mlet a = \"**\";\x1b[0m\n\x1b[36m# not a title\x1b[0m\n"),
            "{whole:?}"
        );
        assert!(whole.ends_with(RESET), "{whole:?}");
    }

    #[test]
    fn text_for_a_pipe_stays_as_it_is() {
        let mut stream = MarkdownStream::new(false);
        assert_eq!(stream.push("**a** `b`\n# c"), "**a** `b`\n# c");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn a_word_is_shown_before_its_line_ends() {
        let mut stream = MarkdownStream::new(true);
        assert_eq!(stream.push("Hello"), "Hello");
        assert_eq!(stream.push(" wor"), " wor");
    }
}
