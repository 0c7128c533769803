//! Server-sent events of model providers. An event that is too long, or not UTF-8, fails the answer.

use innkeeper_std::event_stream::{EventParser, Parsed};

/// The longest line, and the longest event.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The event name, if it has one.
    pub name: Option<String>,
    /// The data.
    pub data: String,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line or an event is longer than anything sensible.
    #[error("an event is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// An event is not UTF-8.
    #[error("an event is not UTF-8")]
    NotText,
}

/// Builds events from bytes.
#[derive(Debug)]
pub struct SseParser(EventParser);

impl Default for SseParser {
    fn default() -> Self {
        Self(EventParser::new(MAX_BYTES))
    }
}

impl SseParser {
    /// Reads on; `on_event` gets every event that ends in `bytes`, up to one that fails the answer.
    pub fn push(&mut self, bytes: &[u8], mut on_event: impl FnMut(SseEvent)) -> Result<(), SseError> {
        let mut read = Ok(());
        self.0.push(bytes, |parsed| {
            if read.is_ok() {
                read = event(parsed).map(&mut on_event);
            }
        });
        if read.is_ok() && self.0.is_overflowing() {
            return Err(SseError::TooLong);
        }
        read
    }

    /// Returns the event that was under way when the stream ended: servers that forget the empty line after their last
    /// event mean it.
    pub fn finish(&mut self) -> Option<SseEvent> {
        self.0.finish().and_then(|parsed| event(parsed).ok())
    }
}

fn event(parsed: Parsed<()>) -> Result<SseEvent, SseError> {
    match parsed {
        Parsed::Event(event) if event.is_valid_utf8 => Ok(SseEvent {
            name: event.name,
            data: event.data,
        }),
        Parsed::Event(_) => Err(SseError::NotText),
        Parsed::TooLarge(()) => Err(SseError::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: &str) -> SseEvent {
        SseEvent {
            name: None,
            data: data.into(),
        }
    }

    #[test]
    fn a_last_event_without_its_empty_line_is_kept() {
        for text in ["data: a\n\ndata: b", "data: a\n\ndata: b\n"] {
            let mut parser = SseParser::default();
            parser.push(text.as_bytes(), |_| {}).unwrap();
            assert_eq!(parser.finish(), Some(event("b")));
            assert_eq!(parser.finish(), None);
        }
    }

    #[test]
    fn lines_and_events_are_bounded() {
        let half = vec![b'a'; MAX_BYTES / 2 + 1];
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
    fn events_before_an_invalid_one_are_returned_and_later_ones_not() {
        let mut events = Vec::new();
        let text = b"data: a\n\ndata: \xff\n\ndata: b\n\n";
        let read = SseParser::default().push(text, |event| events.push(event));
        assert_eq!((read, events), (Err(SseError::NotText), vec![event("a")]));
    }
}
