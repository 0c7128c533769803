//! The output that late subscribers get, bounded.
//!
//! The core retains the same text. When it has grown, the oldest part is replaced by a text that draws the same screen,
//! and the core is told to do so, too.

use innkeeper_host::terminals::{TerminalEvent, TerminalSize};

use memchr::memrchr_iter;

use crate::screen::{SCROLLBACK, compact};

/// Output that is added before the oldest part is replaced.
const MAX_ADDED: usize = 1 << 20;
/// Commands and texts between them that are added before the oldest are replaced.
const MAX_BOUNDARIES: usize = 1000;

/// The retained output of one terminal.
#[derive(Debug, Default)]
pub(crate) struct History {
    text: String,
    size: TerminalSize,
    /// Bytes since the last compaction.
    added: usize,
    /// The positions at which commands begin and end.
    boundaries: Vec<usize>,
    clears: u64,
    /// The text is not for a terminal and has no size.
    is_plain: bool,
}

impl History {
    pub(crate) fn new(size: TerminalSize) -> Self {
        Self {
            size,
            ..Self::default()
        }
    }

    /// Creates the history of output that has no escape sequences.
    pub(crate) fn of_plain_text() -> Self {
        Self {
            is_plain: true,
            ..Self::default()
        }
    }

    pub(crate) fn resize(&mut self, size: TerminalSize) {
        self.size = size;
    }

    /// Forgets everything so far.
    pub(crate) fn clear(&mut self) {
        self.clears += 1;
        self.text = String::new();
        self.boundaries = Vec::new();
        self.added = 0;
    }

    /// Takes an event that the core retains.
    pub(crate) fn add(&mut self, event: &TerminalEvent) {
        match event {
            TerminalEvent::Data(data) => {
                self.text.push_str(data);
                self.added += data.len();
            }
            TerminalEvent::CommandStarted { .. } | TerminalEvent::CommandEnded { .. } => {
                self.boundaries.push(self.text.len());
            }
            TerminalEvent::Compacted { .. }
            | TerminalEvent::Title(_)
            | TerminalEvent::Directory(_)
            | TerminalEvent::CommandsDetected
            | TerminalEvent::Exited { .. } => {}
        }
    }

    /// Returns true if the oldest output has to be replaced.
    pub(crate) fn is_full(&self) -> bool {
        self.added > MAX_ADDED || self.boundaries.len() > MAX_BOUNDARIES
    }

    /// Replaces the oldest output. Recent commands stay as they are, up to half of the limits.
    pub(crate) fn compact(&mut self) -> TerminalEvent {
        let from_bytes = self.text.len().saturating_sub(MAX_ADDED / 2);
        let newest = self.boundaries.len().saturating_sub(MAX_BOUNDARIES / 2);
        let recent = self.boundaries.get(newest..).unwrap_or_default();
        let first = recent.iter().position(|boundary| *boundary >= from_bytes);
        let first = first.map_or(self.boundaries.len(), |first| newest + first);
        self.boundaries.drain(..first);
        let replaced = self.boundaries.first().copied().unwrap_or(self.text.len());
        let screen = match self.is_plain {
            true => last_lines(&self.text[..replaced]).to_owned(),
            false => compact(&self.text[..replaced], self.size),
        };
        let kept = self.text.len() - replaced;
        for boundary in &mut self.boundaries {
            *boundary = *boundary - replaced + screen.len();
        }
        // A text of its own, so that the memory of a flood is given back.
        self.text = [&screen, &self.text[replaced..]].concat();
        self.added = kept;
        TerminalEvent::Compacted {
            kept,
            screen,
            clears: self.clears,
        }
    }

    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Returns as many lines of a text as a terminal has above its screen, within the limit of bytes.
fn last_lines(text: &str) -> &str {
    let first = text.ceil_char_boundary(text.len().saturating_sub(MAX_ADDED / 2));
    let lines = &text[first..];
    let mut line_ends = memrchr_iter(b'\n', lines.as_bytes());
    line_ends.nth(SCROLLBACK).map_or(lines, |end| &lines[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TerminalSize = TerminalSize { cols: 40, rows: 10 };

    fn data(text: &str) -> TerminalEvent {
        TerminalEvent::Data(text.to_owned())
    }

    fn command_started(id: usize) -> TerminalEvent {
        TerminalEvent::CommandStarted {
            id: id.to_string(),
            line: String::new(),
        }
    }

    #[test]
    fn trm14_a_flood_of_output_is_bounded() {
        let mut history = History::new(SIZE);
        let mut most = 0;
        for number in 0..2_000_000 {
            history.add(&data(&format!("line {number}\r\n")));
            if history.is_full() {
                history.compact();
            }
            most = most.max(history.text.len());
        }
        assert!(most < 2 * MAX_ADDED, "{most}");
        let TerminalEvent::Compacted { screen, kept, .. } = history.compact() else {
            panic!("a compaction");
        };
        assert_eq!(kept, 0);
        assert!(screen.contains("line 1999999") && screen.contains("line 1999000\r\n"));
        assert!(!screen.contains("line 1998000\r\n"));
    }

    #[test]
    fn trm16_of_plain_text_the_last_lines_are_left() {
        let mut history = History::of_plain_text();
        for number in 0..200_000 {
            history.add(&data(&format!("line {number}\n")));
            if history.is_full() {
                history.compact();
            }
        }
        history.compact();
        assert!(history.text().starts_with("line 199000\n") && history.text().ends_with("line 199999\n"));
        let mut history = History::of_plain_text();
        history.add(&data(&"ü".repeat(MAX_ADDED)));
        history.compact();
        assert_eq!(history.text().len(), MAX_ADDED / 2);
    }

    #[test]
    fn recent_commands_keep_their_output() {
        let mut history = History::new(SIZE);
        history.add(&data(&"x".repeat(MAX_ADDED)));
        history.add(&command_started(1));
        history.add(&data("recent output"));
        assert!(history.is_full());
        let TerminalEvent::Compacted { kept, .. } = history.compact() else {
            panic!("a compaction");
        };
        assert_eq!(kept, "recent output".len());
        assert!(history.text().ends_with("recent output"));
        assert!(!history.is_full());
    }

    #[test]
    fn many_commands_without_output_are_bounded() {
        let mut history = History::new(SIZE);
        for id in 0..10 * MAX_BOUNDARIES {
            history.add(&command_started(id));
            if history.is_full() {
                history.compact();
            }
            assert!(history.boundaries.len() <= MAX_BOUNDARIES + 1);
        }
    }

    #[test]
    fn cleared_output_is_gone() {
        let mut history = History::new(SIZE);
        history.add(&data("secret"));
        history.clear();
        history.add(&data("after"));
        let TerminalEvent::Compacted { screen, clears, .. } = history.compact() else {
            panic!("a compaction");
        };
        assert!(screen.contains("after") && !screen.contains("secret"));
        assert_eq!(clears, 1);
    }
}
