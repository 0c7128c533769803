//! Decodes the bytes of an answer into events, without IO.

use serde::de::IgnoredAny;

use super::endpoint::Api;
use super::proof::ProofOrigin;
use super::{Decoder, chat, messages, responses};
use crate::model::api::ModelEvent;
use crate::model::error::{ErrorKind, Provider, ProviderError};
use crate::model::sse::{MAX_BYTES, SseEvent, SseParser};

/// Maximum bytes of one answer. No real answer is that long, and an endless one must not exhaust memory.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Decodes one answer, independent of how its bytes are split.
#[derive(Debug)]
pub struct AnswerDecoder {
    provider: Provider,
    decoder: Box<dyn Decoder>,
    form: BodyFormat,
    /// Bytes received.
    read: usize,
    /// Whether the last event was emitted.
    ended: bool,
}

/// Format of the body.
#[derive(Debug)]
enum BodyFormat {
    /// Only whitespace so far.
    Unknown,
    /// Server-sent events.
    Stream(SseParser),
    /// One JSON document: the server does not stream.
    Whole(Vec<u8>),
}

impl AnswerDecoder {
    /// Creates a decoder for answers of `provider`. Calls without an id get one that starts with `id_prefix`.
    pub fn new(api: Api, provider: Provider, origin: ProofOrigin, id_prefix: &str) -> Self {
        let decoder: Box<dyn Decoder> = match api {
            Api::ChatCompletions => Box::new(chat::ChatDecoder::new(provider.clone(), origin, id_prefix)),
            Api::Responses => Box::new(responses::ResponsesDecoder::new(provider.clone(), origin, id_prefix)),
            Api::Messages => Box::new(messages::MessagesDecoder::new(provider.clone(), origin, id_prefix)),
        };
        Self {
            provider,
            decoder,
            form: BodyFormat::Unknown,
            read: 0,
            ended: false,
        }
    }

    /// Returns the provider of the answer.
    pub(super) fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Returns true after the last event. Further bytes are ignored.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Decodes more bytes. Events that precede an error are added to `out` too.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        self.read = self.read.saturating_add(bytes.len());
        if self.read > MAX_ANSWER_BYTES {
            return Err(self.provider.error(ErrorKind::Malformed, "it exceeds the size limit"));
        }
        if let BodyFormat::Unknown = self.form {
            match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'{') => self.form = BodyFormat::Whole(Vec::new()),
                Some(b'<') => return Err(self.provider.error(ErrorKind::Malformed, "it is an HTML page")),
                Some(_) => self.form = BodyFormat::Stream(SseParser::default()),
                // Whitespace does not determine the format.
                None => return Ok(()),
            }
        }
        match &mut self.form {
            BodyFormat::Unknown => Ok(()),
            BodyFormat::Whole(text) if text.len() + bytes.len() > MAX_BYTES => {
                Err(self.provider.error(ErrorKind::Malformed, "it exceeds the size limit"))
            }
            BodyFormat::Whole(text) => {
                text.extend_from_slice(bytes);
                Ok(())
            }
            BodyFormat::Stream(parser) => {
                let mut events = Vec::new();
                let read = parser.push(bytes, |event| events.push(event));
                for event in events {
                    self.push_event(event, out)?;
                }
                match read {
                    Err(error) if !self.ended => Err(self.provider.error(ErrorKind::Malformed, &error.to_string())),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Ends the input. Fails if the answer is incomplete.
    pub fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        match &mut self.form {
            BodyFormat::Unknown => return Err(self.provider.error(ErrorKind::Interrupted, "it is empty")),
            BodyFormat::Whole(text) => {
                let text = std::mem::take(text);
                match serde_json::from_slice(&text) {
                    Ok(answer) => {
                        self.decoder.whole(&answer, out)?;
                        self.ended = true;
                    }
                    Err(error) if error.is_eof() => {
                        return Err(self.provider.error(ErrorKind::Interrupted, "it is incomplete"));
                    }
                    Err(error) => return Err(self.provider.error(ErrorKind::Malformed, &error.to_string())),
                }
            }
            BodyFormat::Stream(parser) => {
                // Accept a last event without its empty line if its data is complete.
                let last = parser.finish();
                let is_whole = |event: &SseEvent| {
                    event.data == "[DONE]" || serde_json::from_str::<IgnoredAny>(&event.data).is_ok()
                };
                if let Some(event) = last.filter(is_whole) {
                    self.push_event(event, out)?;
                }
            }
        }
        if !self.ended {
            self.decoder.finish(out)?;
            self.ended = true;
        }
        Ok(())
    }

    fn push_event(&mut self, event: SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        self.decoder.push(event, out)?;
        self.ended = matches!(out.last(), Some(ModelEvent::End(_)));
        Ok(())
    }
}
