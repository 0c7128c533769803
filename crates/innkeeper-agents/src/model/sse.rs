//! Server-sent events: bytes, however cut, to events.
//!
//! Our own rather than a crate's: lines and events need a bound, and what a server says beyond the
//! standard (fields nobody knows, lines without a colon) is to be skipped, not to end an answer.

/// The longest line, and the longest event.
pub const MOST_BYTES: usize = 16 * 1024 * 1024;

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it carries.
    pub data: String,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line or an event is longer than anything sensible.
    #[error("an event is longer than {MOST_BYTES} bytes")]
    TooLong,
    /// A line is not UTF-8.
    #[error("an event is not UTF-8")]
    NotText,
}

/// Puts events together from bytes.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The event that has not ended yet.
    name: Option<String>,
    data: Option<String>,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    after_return: bool,
    /// Past the first line, which may begin with a byte order mark.
    begun: bool,
}

impl SseParser {
    /// Reads on; every event that ends in `bytes` is handed to `on_event`.
    pub fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(SseEvent)) -> Result<(), SseError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + piece.len() > MOST_BYTES {
                return Err(SseError::TooLong);
            }
            self.line.extend_from_slice(piece);
            let Some((delimiter, rest)) = rest.split_first() else {
                return Ok(());
            };
            self.after_return = *delimiter == b'\r';
            bytes = rest;
            if let Some(event) = self.end_line()? {
                on_event(event);
            }
        }
        Ok(())
    }

    /// The event that was under way when the stream ended. The standard drops it; servers that
    /// forget the empty line after their last event mean it, so whoever reads decides.
    pub fn finish(&mut self) -> Option<SseEvent> {
        self.end_line().ok()?.or_else(|| self.take_event())
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, SseError> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&bytes).map_err(|_| SseError::NotText)?;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        let event = if line.is_empty() {
            self.take_event()
        } else {
            self.read_field(line)?;
            None
        };
        // The buffer serves the next line too, unless one long line made it large.
        if bytes.capacity() <= 64 * 1024 {
            self.line = bytes;
            self.line.clear();
        }
        Ok(event)
    }

    fn read_field(&mut self, line: &str) -> Result<(), SseError> {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    if data.len() + value.len() >= MOST_BYTES {
                        return Err(SseError::TooLong);
                    }
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.name = Some(value.to_owned()),
            // Comments, ids, retry times, and whatever else.
            _ => {}
        }
        Ok(())
    }

    fn take_event(&mut self) -> Option<SseEvent> {
        let name = self.name.take();
        let data = self.data.take()?;
        Some(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece, |event| events.push(event)).unwrap();
        }
        events
    }

    fn event(name: Option<&str>, data: &str) -> SseEvent {
        SseEvent {
            name: name.map(Into::into),
            data: data.into(),
        }
    }

    #[test]
    fn names_data_comments_and_unknown_fields() {
        let text =
            b"\xef\xbb\xbf: hello\nevent: a\nid: 7\nretry: soon\nwhat is this\ndata: one\ndata:two\n\nevent: b\n\n";
        assert_eq!(events(&[text]), [event(Some("a"), "one\ntwo")]);
    }

    #[test]
    fn every_cut_and_every_line_ending_gives_the_same() {
        let expected = [event(Some("x"), "ä€😀"), event(None, "")];
        for text in [
            "event: x\ndata: ä€😀\n\ndata\n\n",
            "event: x\r\ndata: ä€😀\r\n\r\ndata\r\n\r\n",
            "event: x\rdata: ä€😀\r\rdata\r\r",
        ] {
            for cut in 0..=text.len() {
                let (left, right) = text.as_bytes().split_at(cut);
                assert_eq!(events(&[left, right]), expected, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_last_event_without_its_empty_line_is_kept_for_whoever_wants_it() {
        for text in ["data: a\n\ndata: b", "data: a\n\ndata: b\n"] {
            let mut parser = SseParser::default();
            parser.push(text.as_bytes(), |_| {}).unwrap();
            assert_eq!(parser.finish(), Some(event(None, "b")));
            assert_eq!(parser.finish(), None);
        }
    }

    #[test]
    fn lines_and_events_are_bounded() {
        let half = vec![b'a'; MOST_BYTES / 2 + 1];
        let mut parser = SseParser::default();
        parser.push(&half, |_| {}).unwrap();
        assert_eq!(parser.push(&half, |_| {}), Err(SseError::TooLong));

        let mut parser = SseParser::default();
        for part in [b"data: ".as_slice(), &half, b"\ndata: ", &half] {
            parser.push(part, |_| {}).unwrap();
        }
        assert_eq!(parser.push(b"\n", |_| {}), Err(SseError::TooLong));
    }

    #[test]
    fn what_is_not_text_is_an_error() {
        assert_eq!(
            SseParser::default().push(b"data: \xff\n", |_| {}),
            Err(SseError::NotText)
        );
    }
}
