//! Reads an export line by line: sessions one after the other, each with its contents.

use std::io::{self, BufRead, Read};

/// The beginning of the last line of a session.
const END: &[u8] = b"{\"end\":";

/// The lines of an export.
pub(super) struct ExportFile {
    lines: Box<dyn BufRead>,
    next: Option<Vec<u8>>,
}

impl ExportFile {
    pub(super) fn new(lines: Box<dyn BufRead>) -> Self {
        Self { lines, next: None }
    }

    /// Returns the next line without consuming it; empty at the end.
    pub(super) fn peek(&mut self) -> io::Result<&[u8]> {
        if self.next.is_none() {
            let mut line = Vec::new();
            self.lines.read_until(b'\n', &mut line)?;
            self.next = Some(line);
        }
        Ok(self.next.as_deref().unwrap_or_default())
    }

    /// Consumes the next line; empty at the end.
    pub(super) fn take(&mut self) -> io::Result<Vec<u8>> {
        self.peek()?;
        Ok(self.next.take().unwrap_or_default())
    }

    pub(super) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.peek()?.is_empty())
    }
}

/// A reader of the lines of one session.
pub(super) struct OneSession<'a> {
    file: &'a mut ExportFile,
    line: Vec<u8>,
    given: usize,
    is_over: bool,
}

impl<'a> OneSession<'a> {
    pub(super) fn of(file: &'a mut ExportFile) -> Self {
        Self {
            file,
            line: Vec::new(),
            given: 0,
            is_over: false,
        }
    }
}

impl Read for OneSession<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.given == self.line.len() && !self.is_over {
            self.line = self.file.take()?;
            self.given = 0;
            self.is_over = self.line.is_empty() || self.line.starts_with(END);
        }
        let rest = self.line.get(self.given..).unwrap_or_default();
        let count = rest.len().min(room.len());
        for (to, from) in room.iter_mut().zip(rest) {
            *to = *from;
        }
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_in_one_file_are_separated() {
        let file = "{\"session\":1}\n{\"end\":{}}\n{\"session\":2}\n{\"end\":{}}\n";
        let mut file = ExportFile::new(Box::new(file.as_bytes()));
        let mut found = Vec::new();
        while !file.is_at_end().unwrap() {
            let mut text = String::new();
            OneSession::of(&mut file).read_to_string(&mut text).unwrap();
            found.push(text);
        }
        assert_eq!(
            found,
            ["{\"session\":1}\n{\"end\":{}}\n", "{\"session\":2}\n{\"end\":{}}\n"]
        );
    }
}
