//! Server-sent events: bytes, however they are cut, to events, with a bound on each.
//!
//! An own parser and not a crate's: lines and events need a bound, fields that the standard does not know are skipped,
//! and an event that is too large must not end a stream that other requests share.

use std::time::Duration;

/// The longest event id that is kept. It is sent back as a header.
const MAX_ID_BYTES: usize = 1 << 10;
/// The beginning of a line with data.
const DATA: &[u8] = b"data:";
/// The largest line buffer that is kept for the next line.
const KEPT_BUFFER_BYTES: usize = 64 << 10;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The event name, if it has one.
    pub name: Option<String>,
    /// The data lines, joined with line feeds. Invalid UTF-8 is replaced.
    pub data: String,
    /// False if bytes were replaced in the lines of this event.
    pub is_valid_utf8: bool,
}

/// The result of reading one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed<O> {
    /// A complete event.
    Event(Event),
    /// An event larger than the bound, with what the observer learned from its data.
    TooLarge(O),
}

/// Observes the data of an event that is too large to keep.
pub trait Oversized: Default {
    /// Reads the next piece of the data.
    fn read(&mut self, data: &[u8]);
}

impl Oversized for () {
    fn read(&mut self, _: &[u8]) {}
}

/// Builds events from bytes.
#[derive(Debug)]
pub struct EventParser<O = ()> {
    max_bytes: usize,
    line: Vec<u8>,
    /// The line under way is longer than the bound; the value tells whether it is data.
    long_line: Option<LongLine>,
    name: Option<String>,
    data: Option<String>,
    is_valid_utf8: bool,
    oversized: Option<O>,
    id: Option<String>,
    last_event_id: Option<String>,
    retry: Option<Duration>,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    is_after_return: bool,
    /// The first line, which may begin with a byte order mark, has ended.
    has_begun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LongLine {
    Data,
    Other,
}

impl<O: Oversized> EventParser<O> {
    /// Returns a parser whose lines and events have at most so many bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            long_line: None,
            name: None,
            data: None,
            is_valid_utf8: true,
            oversized: None,
            id: None,
            last_event_id: None,
            retry: None,
            is_after_return: false,
            has_begun: false,
        }
    }

    /// Reads on; `on_event` gets every event that ends in `bytes`.
    pub fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(Parsed<O>)) {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.is_after_return)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.extend_line(piece);
            let Some((delimiter, rest)) = rest.split_first() else {
                return;
            };
            self.is_after_return = *delimiter == b'\r';
            bytes = rest;
            if let Some(event) = self.end_line() {
                on_event(event);
            }
        }
    }

    /// Returns true if the event under way is larger than the bound. Readers that have no use for later events stop here.
    pub fn is_overflowing(&self) -> bool {
        self.oversized.is_some()
    }

    /// Returns the event that was under way when the stream ended. The standard drops it. Servers that forget the empty
    /// line after their last event mean it, so the reader decides.
    pub fn finish(&mut self) -> Option<Parsed<O>> {
        self.end_line().or_else(|| self.end_event())
    }

    /// Forgets the event under way: the stream goes on in another response.
    pub fn restart(&mut self) {
        *self = Self {
            last_event_id: self.last_event_id.take(),
            retry: self.retry,
            ..Self::new(self.max_bytes)
        };
    }

    /// Returns the id of the last event that had one, for `Last-Event-ID`.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// Returns the time that the server asks clients to wait before they reconnect.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn extend_line(&mut self, piece: &[u8]) {
        if let Some(line) = self.long_line {
            if let (LongLine::Data, Some(oversized)) = (line, &mut self.oversized) {
                oversized.read(piece);
            }
            return;
        }
        if self.line.len() + piece.len() <= self.max_bytes {
            self.line.extend_from_slice(piece);
            return;
        }
        let is_data = self.line.iter().chain(piece).take(DATA.len()).eq(DATA);
        let line = std::mem::take(&mut self.line);
        let oversized = self.overflow();
        if is_data {
            oversized.read(line.get(DATA.len()..).unwrap_or_default());
            let rest = DATA.len().saturating_sub(line.len());
            oversized.read(piece.get(rest..).unwrap_or_default());
        }
        self.long_line = Some(if is_data { LongLine::Data } else { LongLine::Other });
    }

    /// Drops the data of the event, except what the observer learns from it.
    fn overflow(&mut self) -> &mut O {
        let data = self.data.take();
        self.oversized.get_or_insert_with(|| {
            let mut oversized = O::default();
            oversized.read(data.unwrap_or_default().as_bytes());
            oversized
        })
    }

    fn end_line(&mut self) -> Option<Parsed<O>> {
        if self.long_line.take().is_some() {
            return None;
        }
        let mut bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        self.is_valid_utf8 &= matches!(text, std::borrow::Cow::Borrowed(_));
        let mut line = &*text;
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        let event = if line.is_empty() {
            self.end_event()
        } else {
            self.read_field(line);
            None
        };
        drop(text);
        if bytes.capacity() <= KEPT_BUFFER_BYTES {
            bytes.clear();
            self.line = bytes;
        }
        event
    }

    fn read_field(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.read_data(value),
            "event" => self.name = Some(value.to_owned()),
            "id" if value.len() <= MAX_ID_BYTES && !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" => self.retry = value.parse().ok().map(Duration::from_millis).or(self.retry),
            // Comments and unknown fields.
            _ => {}
        }
    }

    fn read_data(&mut self, value: &str) {
        let max_bytes = self.max_bytes;
        match (&mut self.oversized, &mut self.data) {
            (Some(oversized), _) => oversized.read(value.as_bytes()),
            (None, Some(data)) if data.len() + value.len() >= max_bytes => self.overflow().read(value.as_bytes()),
            (None, Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            (None, None) => self.data = Some(value.to_owned()),
        }
    }

    fn end_event(&mut self) -> Option<Parsed<O>> {
        if let Some(id) = self.id.take() {
            self.last_event_id = Some(id);
        }
        let name = self.name.take();
        let data = self.data.take();
        let is_valid_utf8 = std::mem::replace(&mut self.is_valid_utf8, true);
        match self.oversized.take() {
            Some(oversized) => Some(Parsed::TooLarge(oversized)),
            None => data.map(|data| {
                Parsed::Event(Event {
                    name,
                    data,
                    is_valid_utf8,
                })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the beginning of data that is too large.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Beginning(String);

    impl Oversized for Beginning {
        fn read(&mut self, data: &[u8]) {
            let room = 12_usize.saturating_sub(self.0.len());
            let data = String::from_utf8_lossy(data);
            self.0.extend(data.chars().take(room));
        }
    }

    fn parsed(pieces: &[&[u8]], max_bytes: usize) -> Vec<Parsed<Beginning>> {
        let mut parser = EventParser::new(max_bytes);
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece, |event| events.push(event));
        }
        events
    }

    fn event(name: Option<&str>, data: &str) -> Parsed<Beginning> {
        Parsed::Event(Event {
            name: name.map(Into::into),
            data: data.into(),
            is_valid_utf8: true,
        })
    }

    fn too_large(beginning: &str) -> Parsed<Beginning> {
        Parsed::TooLarge(Beginning(beginning.to_owned()))
    }

    #[test]
    fn names_and_data_are_kept_and_comments_and_unknown_fields_skipped() {
        let text =
            b"\xef\xbb\xbf: hello\nevent: a\nid: 7\nretry: soon\nwhat is this\ndata: one\ndata:two\n\nevent: b\n\n";
        assert_eq!(parsed(&[text], 100), [event(Some("a"), "one\ntwo")]);
        let text = b"event: endpoint\ndata: /old\n\n: ping\n\n\nid: 7\r\ndata:one\r\ndata: two\r\n\r\nevent: message\ndata: three\n\ndata: half";
        let expected = [
            event(Some("endpoint"), "/old"),
            event(None, "one\ntwo"),
            event(Some("message"), "three"),
        ];
        assert_eq!(parsed(&[text], 100), expected);
    }

    #[test]
    fn every_cut_and_every_line_ending_gives_the_same_events() {
        let expected = [event(Some("x"), "ä€😀"), event(None, "")];
        for text in [
            "event: x\ndata: ä€😀\n\ndata\n\n",
            "event: x\r\ndata: ä€😀\r\n\r\ndata\r\n\r\n",
            "event: x\rdata: ä€😀\r\rdata\r\r",
        ] {
            for cut in 0..=text.len() {
                let (left, right) = text.as_bytes().split_at(cut);
                assert_eq!(parsed(&[left, right], 100), expected, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_last_event_without_its_empty_line_is_returned_by_finish() {
        for text in ["data: a\n\ndata: b", "data: a\n\ndata: b\n"] {
            let mut parser = EventParser::new(100);
            parser.push(text.as_bytes(), |_| {});
            assert_eq!(parser.finish(), Some(event(None, "b")));
            assert_eq!(parser.finish(), None);
        }
    }

    #[test]
    fn t26_events_are_bounded_one_by_one() {
        let mut parser = EventParser::<()>::new(10);
        for piece in ["data: 1234", "\n\ndata: 5", "678\r\n\r\n", ": ping\n\n", "data: 1234"] {
            parser.push(piece.as_bytes(), |_| {});
            assert!(!parser.is_overflowing(), "{piece}");
        }
        parser.push(b"5", |_| {});
        assert!(parser.is_overflowing());
        parser.push(b"\n\n", |parsed| assert_eq!(parsed, Parsed::TooLarge(())));
        assert!(!parser.is_overflowing(), "the next event has the whole bound again");
    }

    #[test]
    fn t26_an_event_that_is_too_large_is_left_out_and_observed() {
        let long = "x".repeat(300);
        let lines = "\ndata: 1234567890".repeat(30);
        for (text, beginning) in [
            (format!("data: {long}"), " xxxxxxxxxxx"),
            (format!("data: ab\ndata: {long}\ndata: c"), "ab xxxxxxxxx"),
            (format!("data: ab{lines}"), "ab\n123456789"),
            (format!(": {long}"), ""),
            (format!(": {long}\ndata: ab"), "ab"),
        ] {
            let text = format!("{text}\n\ndata: next\n\n");
            for size in [7, 1000] {
                let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                let expected = [too_large(beginning), event(None, "next")];
                assert_eq!(parsed(&pieces, 200), expected, "{text}");
            }
        }
    }

    #[test]
    fn invalid_utf8_is_replaced_and_reported() {
        let found = parsed(&[b"data: \xff\n\ndata: a\n\n"], 100);
        let replaced = Parsed::Event(Event {
            name: None,
            data: "\u{fffd}".to_owned(),
            is_valid_utf8: false,
        });
        assert_eq!(found, [replaced, event(None, "a")]);
    }

    #[test]
    fn ids_and_retry_times_are_remembered_when_their_event_ends() {
        let mut parser = EventParser::<()>::new(2000);
        parser.push(b"id: 1\nretry: 250\n", |_| {});
        assert_eq!(parser.last_event_id(), None);
        parser.push(b"\n", |_| {});
        assert_eq!(parser.last_event_id(), Some("1"));
        assert_eq!(parser.retry(), Some(Duration::from_millis(250)));
        let long = format!("id: {}\nretry: x\n\n", "2".repeat(1100));
        parser.push(long.as_bytes(), |_| {});
        assert_eq!(parser.last_event_id(), Some("1"), "a longer id is ignored");
        parser.push(b"data: half", |_| {});
        parser.restart();
        parser.push(b"\n\n", |parsed| panic!("{parsed:?}"));
        assert_eq!(parser.last_event_id(), Some("1"));
        assert_eq!(parser.retry(), Some(Duration::from_millis(250)));
    }
}
