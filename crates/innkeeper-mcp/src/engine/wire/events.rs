//! The events of an HTTP response.

use std::collections::VecDeque;
use std::time::Duration;

use innkeeper_std::event_stream::{EventParser, Parsed};
use reqwest::Response;

use super::json_rpc_peek::JsonRpcPeek;

/// Reads events one after the other. A response that breaks off ends like one that ends: the caller looks whether it
/// got what it waits for.
#[derive(Debug)]
pub(super) struct EventReader {
    response: Response,
    parser: EventParser<JsonRpcPeek>,
    ready: VecDeque<Parsed<JsonRpcPeek>>,
}

impl EventReader {
    pub(super) fn new(response: Response, most: usize) -> Self {
        Self {
            response,
            parser: EventParser::new(most),
            ready: VecDeque::new(),
        }
    }

    /// Returns the next event, or nothing at the end. It may be dropped and called again.
    pub(super) async fn next(&mut self) -> Option<Parsed<JsonRpcPeek>> {
        while self.ready.is_empty() {
            let bytes = self.response.chunk().await.ok().flatten()?;
            self.parser.push(&bytes, |parsed| self.ready.push_back(parsed));
        }
        self.ready.pop_front()
    }

    /// The same; `TooLarge` comes as soon as an event is, and not at its end.
    pub(super) async fn next_or_overflow(&mut self) -> Option<Parsed<JsonRpcPeek>> {
        while self.ready.is_empty() {
            if self.parser.is_overflowing() {
                return Some(Parsed::TooLarge(JsonRpcPeek::default()));
            }
            let bytes = self.response.chunk().await.ok().flatten()?;
            self.parser.push(&bytes, |parsed| self.ready.push_back(parsed));
        }
        self.ready.pop_front()
    }

    /// Goes on with another response for the same stream.
    pub(super) fn resume(&mut self, response: Response) {
        self.response = response;
        self.ready.clear();
        self.parser.restart();
    }

    pub(super) fn last_event_id(&self) -> Option<&str> {
        self.parser.last_event_id()
    }

    pub(super) fn retry(&self) -> Option<Duration> {
        self.parser.retry()
    }
}
