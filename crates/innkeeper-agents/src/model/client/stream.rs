//! An answer on its way.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use reqwest::Response;
use tokio::time::timeout;

use super::connection::cause;
use super::decoder::AnswerDecoder;
use crate::model::api::ModelEvent;
use crate::model::error::{ErrorKind, ProviderError};

/// How long the end of the body is waited for once the answer is complete. It mostly came along
/// already; having read it, the connection serves the next request as well.
const LINGER: Duration = Duration::from_millis(20);

/// The answer of a model, event by event. Dropping it ends the HTTP request at once.
pub struct ModelStream {
    /// `None` once the answer has ended.
    response: Option<Response>,
    decoder: AnswerDecoder,
    idle_time: Duration,
    ready: VecDeque<ModelEvent>,
    /// An error that comes after what is ready.
    failed: Option<ProviderError>,
    /// Whether the model has said anything.
    has_output: bool,
}

impl ModelStream {
    pub(super) fn new(response: Response, decoder: AnswerDecoder, idle_time: Duration) -> Self {
        Self {
            response: Some(response),
            decoder,
            idle_time,
            ready: VecDeque::new(),
            failed: None,
            has_output: false,
        }
    }

    /// The next event. The last one is [`ModelEvent::End`], or an error; after it, `None`.
    ///
    /// Nothing is lost when the future is dropped before it is done.
    pub async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.failed.take() {
                self.response = None;
                return Some(Err(error));
            }
            self.response.as_ref()?;
            self.read_chunk().await;
        }
    }

    /// Waits until the model says something, or fails before it does. What it costs is not yet
    /// something it says.
    pub(super) async fn wait_for_output(&mut self) -> Result<(), ProviderError> {
        while !self.has_output && self.response.is_some() {
            if let Some(error) = self.failed.take() {
                self.response = None;
                return Err(error);
            }
            self.read_chunk().await;
        }
        Ok(())
    }

    async fn read_chunk(&mut self) {
        let Some(response) = &mut self.response else {
            return;
        };
        let mut events = Vec::new();
        let mut was_silent = false;
        let result = match timeout(self.idle_time, response.chunk()).await {
            Ok(Ok(Some(bytes))) => self.decoder.push(&bytes, &mut events),
            Ok(Ok(None)) => self.decoder.finish(&mut events),
            Ok(Err(error)) => Err(self.interrupted(&cause(&error.without_url()))),
            Err(_) => {
                was_silent = true;
                Err(self.interrupted(&format!("nothing came for {} seconds", self.idle_time.as_secs_f64())))
            }
        };
        let result = result.or_else(|error| match error.kind {
            // Some servers say how the answer ended and then do not hang up, or do so rudely: it is
            // whole all the same.
            ErrorKind::Interrupted if self.decoder.finish(&mut events).is_ok() => Ok(()),
            _ => Err(error),
        });
        self.has_output |= events.iter().any(|event| !matches!(event, ModelEvent::Usage(_)));
        self.ready.extend(events);
        match result {
            Ok(()) if self.decoder.has_ended() => self.drain_body().await,
            Ok(()) => {}
            // An answer that breaks off before its first word was never begun: it is as if the
            // connection had failed, and can be asked for again. Not so after a long silence:
            // people have waited long enough to be told.
            Err(error) if error.kind == ErrorKind::Interrupted && !self.has_output && !was_silent => {
                let said = "the connection ended before an answer began";
                self.failed = Some(self.decoder.provider().error(ErrorKind::Network, said));
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Reads what is left of the body, so that the connection can be used again.
    async fn drain_body(&mut self) {
        if let Some(response) = &mut self.response {
            let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
            let _ = timeout(LINGER, rest).await;
        }
        self.response = None;
    }

    fn interrupted(&self, said: &str) -> ProviderError {
        self.decoder.provider().error(ErrorKind::Interrupted, said)
    }
}

impl fmt::Debug for ModelStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStream")
            .field("ready", &self.ready.len())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
