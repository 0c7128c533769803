//! A streamed answer.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use reqwest::Response;
use tokio::time::timeout;

use super::connection::cause;
use super::decoder::AnswerDecoder;
use crate::model::api::ModelEvent;
use crate::model::error::{ErrorKind, ProviderError};

/// How long to wait for the end of the body after the answer is complete. It has usually arrived, and reading it lets
/// the connection be reused.
const LINGER: Duration = Duration::from_millis(20);

/// A streamed answer. Dropping it cancels the HTTP request.
pub struct ModelStream {
    /// `None` once the answer has ended.
    response: Option<Response>,
    decoder: AnswerDecoder,
    idle_time: Duration,
    ready: VecDeque<ModelEvent>,
    /// An error to return after the ready events.
    failed: Option<ProviderError>,
    /// Whether any output was received.
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

    /// Returns the next event. The last one is [`ModelEvent::End`] or an error; then `None`.
    ///
    /// Dropping the future loses no event.
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

    /// Waits for the first output or an earlier failure. Usage does not count as output.
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
                Err(self.interrupted(&format!("no data for {} seconds", self.idle_time.as_secs_f64())))
            }
        };
        let result = result.or_else(|error| match error.kind {
            // Some servers send a complete answer and then keep the connection open or reset it.
            ErrorKind::Interrupted if self.decoder.finish(&mut events).is_ok() => Ok(()),
            _ => Err(error),
        });
        self.has_output |= events.iter().any(|event| !matches!(event, ModelEvent::Usage(_)));
        self.ready.extend(events);
        match result {
            Ok(()) if self.decoder.has_ended() => self.drain_body().await,
            Ok(()) => {}
            // A failure before the first output counts as a network error, so that it is retried. An idle timeout
            // does not: the user has waited long enough.
            Err(error) if error.kind == ErrorKind::Interrupted && !self.has_output && !was_silent => {
                let detail = "the connection closed before the answer started";
                self.failed = Some(self.decoder.provider().error(ErrorKind::Network, detail));
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Reads the rest of the body, so that the connection can be reused.
    async fn drain_body(&mut self) {
        if let Some(response) = &mut self.response {
            let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
            let _ = timeout(LINGER, rest).await;
        }
        self.response = None;
    }

    fn interrupted(&self, detail: &str) -> ProviderError {
        self.decoder.provider().error(ErrorKind::Interrupted, detail)
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
