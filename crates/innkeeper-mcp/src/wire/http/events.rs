//! The events of an HTTP answer, with a bound on each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use reqwest::Response;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::SseError;
use serde_json::json;
use sse_stream::{Sse, SseStream};

use crate::wire::failure::HttpFailure;
use crate::wire::{Messages, TOO_LARGE, Wrapped};

/// The events of an answer to `request`, with results wrapped so that rmcp leaves them alone. An
/// event that is too large ends the stream with an error for the request.
pub(super) fn events(
    response: Response,
    request: Option<RequestId>,
    messages: Messages,
    most: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let bounded = Bounded::new(most);
    let is_too_large = bounded.is_too_large.clone();
    let asked = messages.asked.clone();
    let events = SseStream::from_bytes_stream(bounded.over(response));
    let events = events.flat_map(move |event| {
        let parts = match event {
            Ok(event) => split(event, &messages).into_iter().map(Ok).collect(),
            Err(error) => match &request {
                Some(id) if is_too_large.load(Ordering::Relaxed) => vec![Ok((too_large(id), None))],
                _ => vec![Err(error)],
            },
        };
        stream::iter(parts)
    });
    let admitted = events.filter_map(move |part| {
        let asked = asked.clone();
        async move {
            match part {
                Ok((event, None)) => Some(Ok(event)),
                Ok((event, Some(id))) => {
                    let bytes = event.data.as_ref().map(String::len).unwrap_or_default();
                    asked.admit_request(&id, bytes).await.then_some(Ok(event))
                }
                Err(error) => Some(Err(error)),
            }
        }
    });
    admitted.boxed()
}

/// One event for each message in it, with its id, if it is a request. One without a message still says how far the
/// stream has come.
fn split(mut event: Sse, messages: &Messages) -> Vec<(Sse, Option<RequestId>)> {
    let wrapped = event.data.take().map(|data| messages.wrap(data)).unwrap_or_default();
    if wrapped.is_empty() {
        return vec![(event, None)];
    }
    let of = |Wrapped { text, request }| {
        let part = Sse {
            event: event.event.clone(),
            data: Some(text),
            id: event.id.take(),
            retry: event.retry.take(),
        };
        (part, request)
    };
    wrapped.into_iter().map(of).collect()
}

fn too_large(request: &RequestId) -> Sse {
    let error = json!({ "code": TOO_LARGE, "message": "too large" });
    let message = json!({ "jsonrpc": "2.0", "id": request, "error": error });
    Sse {
        event: None,
        data: Some(message.to_string()),
        id: None,
        retry: None,
    }
}

/// Counts the bytes of each event.
struct Bounded {
    most: usize,
    size: usize,
    /// How many line ends there were without anything between them.
    ends: u8,
    is_too_large: Arc<AtomicBool>,
}

impl Bounded {
    fn new(most: usize) -> Self {
        Self {
            most,
            size: 0,
            ends: 0,
            is_too_large: Arc::default(),
        }
    }

    /// The bytes of an answer, until an event is too large.
    fn over(mut self, response: Response) -> BoxStream<'static, Result<Bytes, HttpFailure>> {
        let pieces = response.bytes_stream().map(move |piece| {
            let piece = piece?;
            if self.fits(&piece) {
                Ok(piece)
            } else {
                Err(HttpFailure::TooLarge)
            }
        });
        pieces.boxed()
    }

    fn fits(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            match byte {
                b'\n' => {
                    self.ends += 1;
                    if self.ends >= 2 {
                        (self.size, self.ends) = (0, 0);
                    }
                }
                b'\r' => {}
                _ => {
                    self.size += 1;
                    self.ends = 0;
                }
            }
        }
        let fits = self.size <= self.most && !self.is_too_large.load(Ordering::Relaxed);
        if !fits {
            self.is_too_large.store(true, Ordering::Relaxed);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t26_events_are_bounded_one_by_one() {
        let mut bounded = Bounded::new(10);
        for piece in ["data: 1234", "\n\ndata: 5", "678\r\n\r\n", ": ping\n\n"] {
            assert!(bounded.fits(piece.as_bytes()), "{piece}");
        }
        assert!(bounded.fits(b"data: 1234"));
        assert!(!bounded.fits(b"5"));
        assert!(!bounded.fits(b"\n\n"), "there is no way back");
    }
}
