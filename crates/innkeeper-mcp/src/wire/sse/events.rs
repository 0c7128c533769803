//! Events of a stream that never ends, with a bound on each. The stream is everybody's: one event that is too
//! large must cost its own request and nothing else (T26), so it is left out and not the end.

use rmcp::model::RequestId;
use tokio::io::AsyncBufRead;

use crate::wire::line::{Line, read_line};
use crate::wire::outline::Outline;

/// An event, as far as MCP has any.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Where messages for the server go.
    Endpoint(String),
    Message(String),
    /// A message that was too large, and the request that it answers, if that could be found.
    TooLarge(Option<RequestId>),
}

/// Reads the next event; nothing at the end. What has no empty line behind it is none.
pub(super) async fn next_event(reader: &mut (impl AsyncBufRead + Unpin), most: usize) -> Option<Event> {
    let mut gathered = Gathered::default();
    loop {
        match read_line(reader, most).await {
            Ok(Some(Line::Text(line))) if line.is_empty() => {
                if let Some(event) = std::mem::take(&mut gathered).finish() {
                    return Some(event);
                }
            }
            Ok(Some(Line::Text(line))) => gathered.add(&line, most),
            Ok(Some(Line::TooLong(id))) => gathered.lose(id),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// The lines of an event so far.
#[derive(Default)]
struct Gathered {
    name: String,
    data: Option<String>,
    lost: Option<Lost>,
}

/// Data that are too long, and whose they were.
enum Lost {
    /// One line was.
    Line(Option<RequestId>),
    /// All of them together were.
    Lines(Outline),
}

impl Gathered {
    fn add(&mut self, line: &[u8], most: usize) {
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => self.add_data(value, most),
            // Comments, ids and times to wait.
            _ => {}
        }
    }

    fn add_data(&mut self, value: &str, most: usize) {
        match (&mut self.lost, &mut self.data) {
            (Some(Lost::Line(_)), _) => {}
            (Some(Lost::Lines(outline)), _) => outline.read(value.as_bytes()),
            (None, Some(data)) if data.len() + value.len() >= most => {
                let mut outline = Outline::of(data.as_bytes());
                outline.read(value.as_bytes());
                self.lost = Some(Lost::Lines(outline));
                self.data = None;
            }
            (None, Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            (None, None) => self.data = Some(value.to_owned()),
        }
    }

    /// A line was too long on its own.
    fn lose(&mut self, id: Option<RequestId>) {
        // What stood in the lines before it may say more than the line itself.
        let before = self.data.take();
        let before = before.and_then(|data| Outline::of(data.as_bytes()).answers());
        if self.lost.is_none() {
            self.lost = Some(Lost::Line(before.or(id)));
        }
    }

    fn finish(self) -> Option<Event> {
        match (self.lost, self.data) {
            (Some(Lost::Line(id)), _) => Some(Event::TooLarge(id)),
            (Some(Lost::Lines(outline)), _) => Some(Event::TooLarge(outline.answers())),
            (None, Some(data)) if self.name == "endpoint" => Some(Event::Endpoint(data)),
            (None, Some(data)) => Some(Event::Message(data)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn events(text: &str, most: usize) -> Vec<Event> {
        // A small buffer, so that lines come in pieces.
        let mut reader = tokio::io::BufReader::with_capacity(7, text.as_bytes());
        let mut events = Vec::new();
        while let Some(event) = next_event(&mut reader, most).await {
            events.push(event);
        }
        events
    }

    fn message(text: &str) -> Event {
        Event::Message(text.to_owned())
    }

    #[tokio::test]
    async fn events_are_what_stands_between_empty_lines() {
        let text = "event: endpoint\ndata: /old\n\n: ping\n\n\nid: 7\r\ndata:one\r\ndata: two\r\n\r\nevent: message\ndata: three\n\ndata: half";
        let expected = [
            Event::Endpoint("/old".to_owned()),
            message("one\ntwo"),
            message("three"),
        ];
        assert_eq!(events(text, 100).await, expected);
    }

    #[tokio::test]
    async fn t26_an_event_that_is_too_large_is_left_out_and_answered() {
        let long = "x".repeat(300);
        let whole = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{long}"}}}}"#);
        let in_lines = r#"{"jsonrpc":"2.0","id":8,"result":{"a":"#.to_owned()
            + &format!("\ndata: \"{}\"", "y".repeat(80)).repeat(4);
        let unknown = format!("data: {long}\ndata: {long}");
        for (event, id) in [
            (format!("data: {whole}"), Some(7)),
            (format!("data: {in_lines}"), Some(8)),
            (unknown, None),
        ] {
            let found = events(&format!("{event}\n\ndata: next\n\n"), 200).await;
            assert_eq!(found, [Event::TooLarge(id.map(RequestId::Number)), message("next")]);
        }
    }
}
