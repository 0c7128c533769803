//! The end of the standard error of a process.

use std::collections::VecDeque;

/// Keeps the last bytes.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    most: usize,
    is_cut: bool,
}

impl Tail {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            most,
            is_cut: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = match bytes.len().checked_sub(self.most) {
            Some(more) => {
                self.is_cut |= more > 0;
                bytes.get(more..).unwrap_or_default()
            }
            None => bytes,
        };
        let over = (self.bytes.len() + bytes.len()).saturating_sub(self.most);
        self.is_cut |= over > 0;
        self.bytes.drain(..over.min(self.bytes.len()));
        self.bytes.extend(bytes);
    }

    /// Returns the last whole lines. A first line that was cut is left out: a part of a secret is not recognised.
    pub(crate) fn lines(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let whole = match text.split_once('\n') {
            Some((_, whole)) if self.is_cut => whole,
            None if self.is_cut => "",
            _ => &text,
        };
        whole.trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_lines_are_kept() {
        let mut tail = Tail::new(12);
        assert_eq!(tail.lines(), "");
        tail.push(b"one\n");
        assert_eq!(tail.lines(), "one");
        tail.push(b"s3cr3t-value two\nthree\n");
        assert_eq!(tail.lines(), "three");
        tail.push(&[b'x'; 100]);
        assert_eq!(tail.lines(), "");
    }
}
