//! Bounded output of a command. Its head and tail are part of the turn; as much as the limit allows is stored beside
//! it.

use std::collections::VecDeque;

use innkeeper_std::PlainText;

use crate::tools::ToolLimits;

/// The output of a command in a terminal, as plain text.
#[derive(Debug)]
pub(super) struct CommandOutput {
    output: Output,
    text: PlainText,
}

impl CommandOutput {
    pub(super) fn new(limits: &ToolLimits) -> Self {
        Self::of(Output::new(limits.output_head, limits.output_tail, limits.output_kept))
    }

    /// Creates output of which only the head and the tail are retained.
    pub(super) fn unkept(limits: &ToolLimits) -> Self {
        Self::of(Output::new(limits.output_head, limits.output_tail, 0))
    }

    fn of(output: Output) -> Self {
        Self {
            output,
            text: PlainText::default(),
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.text.push(text, &mut |line| self.output.push(line.as_bytes()));
    }

    /// Returns the output with the line that is not complete yet.
    pub(super) fn flushed(&mut self) -> &Output {
        self.text.flush(&mut |line| self.output.push(line.as_bytes()));
        &self.output
    }
}

/// The output of a command.
#[derive(Debug)]
pub(super) struct Output {
    head: Vec<u8>,
    max_head: usize,
    tail: VecDeque<u8>,
    max_tail: usize,
    /// The complete output, up to a limit.
    all: Vec<u8>,
    max_all: usize,
    total: u64,
}

impl Output {
    pub(super) fn new(max_head: usize, max_tail: usize, max_all: usize) -> Self {
        Self {
            head: Vec::new(),
            max_head,
            tail: VecDeque::new(),
            max_tail,
            all: Vec::new(),
            max_all,
            total: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let remaining = self.max_all.saturating_sub(self.all.len()).min(bytes.len());
        self.all.extend_from_slice(bytes.get(..remaining).unwrap_or_default());
        let remaining = self.max_head.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(remaining);
        self.head.extend_from_slice(first);
        let skipped = rest.len().saturating_sub(self.max_tail);
        let rest = rest.get(skipped..).unwrap_or_default();
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.max_tail);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// Total bytes received.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the output from its start, up to the limit, if it does not fit into the turn.
    pub(super) fn full_output(&self) -> Option<&[u8]> {
        let shown = self.head.len() + self.tail.len();
        ((shown as u64) < self.total && self.all.len() > shown).then_some(&self.all)
    }

    /// Returns head and tail, with a note about omitted bytes.
    pub(super) fn excerpt(&self) -> String {
        let (a, b) = self.tail.as_slices();
        let retained = self.head.len() + self.tail.len();
        let left_out = self.total.saturating_sub(retained as u64);
        if left_out == 0 {
            return String::from_utf8_lossy(&[&self.head, a, b].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), [a, b].concat());
        let tail = String::from_utf8_lossy(&tail);
        format!("{head}\n[… {left_out} bytes of the output left out …]\n{tail}")
    }

    /// Returns at most `most` bytes of the end.
    pub(super) fn tail_text(&self, limit: usize) -> String {
        let (a, b) = self.tail.as_slices();
        let retained = if self.total as usize == self.head.len() + self.tail.len() {
            [&self.head, a, b].concat()
        } else {
            [a, b].concat()
        };
        let start = retained.len().saturating_sub(limit);
        let latest = String::from_utf8_lossy(retained.get(start..).unwrap_or_default());
        if (latest.len() as u64) < self.total {
            format!("[…]\n{latest}")
        } else {
            latest.into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_complete() {
        let mut output = Output::new(4, 4, 100);
        for piece in ["ab", "cü", "d"] {
            output.push(piece.as_bytes());
        }
        assert_eq!(output.excerpt(), "abcüd");
        assert_eq!(output.tail_text(2), "[…]\n\u{FFFD}d");
        assert_eq!(output.tail_text(100), "abcüd");
        assert_eq!(output.full_output(), None);
    }

    #[test]
    fn long_output_keeps_its_head_and_tail() {
        let mut output = Output::new(3, 3, 100);
        for piece in ["ab", "cdefgh", "i", "j"] {
            output.push(piece.as_bytes());
        }
        assert_eq!(output.excerpt(), "abc\n[… 4 bytes of the output left out …]\nhij");
        assert_eq!(output.tail_text(2), "[…]\nij");
        assert_eq!(output.total(), 10);
        assert_eq!(output.full_output(), Some(b"abcdefghij".as_slice()));
    }

    #[test]
    fn a_single_huge_chunk_is_bounded() {
        let mut output = Output::new(2, 2, 10);
        output.push(&[b'x'; 1000]);
        assert_eq!(output.full_output(), Some([b'x'; 10].as_slice()), "as much as is kept");
        assert_eq!(output.excerpt(), "xx\n[… 996 bytes of the output left out …]\nxx");
    }

    proptest::proptest! {
        #[test]
        fn output_does_not_depend_on_chunk_boundaries(
            pieces in proptest::collection::vec("[a-zü]{0,9}", 0..9),
            head in 0_usize..9,
            tail in 0_usize..9,
        ) {
            let mut cut = Output::new(head, tail, 30);
            for piece in &pieces {
                cut.push(piece.as_bytes());
            }
            let mut whole = Output::new(head, tail, 30);
            whole.push(pieces.concat().as_bytes());
            proptest::prop_assert_eq!(cut.excerpt(), whole.excerpt());
            proptest::prop_assert_eq!(cut.tail_text(5), whole.tail_text(5));
            proptest::prop_assert_eq!(cut.full_output(), whole.full_output());
        }
    }
}
