//! From the bytes of an answer to its events, without any IO.

use serde::de::IgnoredAny;

use super::endpoint::Api;
use super::proof::ProofOrigin;
use super::{Decoder, chat, messages, responses};
use crate::model::api::ModelEvent;
use crate::model::error::{ErrorKind, Provider, ProviderError};
use crate::model::sse::{MOST_BYTES, SseEvent, SseParser};

/// Most bytes of one answer, whatever it consists of: no model says as much, and a server that never
/// stops must not fill the memory.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Reads one answer of a provider, however its bytes are cut.
#[derive(Debug)]
pub struct AnswerDecoder {
    provider: Provider,
    decoder: Box<dyn Decoder>,
    form: BodyFormat,
    /// Bytes so far.
    read: usize,
    /// Whether the last event is out.
    ended: bool,
}

/// What the bytes are.
#[derive(Debug)]
enum BodyFormat {
    /// Nothing but space so far.
    Unknown,
    /// A stream of events.
    Stream(SseParser),
    /// One JSON text: the server does not stream.
    Whole(Vec<u8>),
}

impl AnswerDecoder {
    /// Reads the answer of `provider` to a request that it gets over `api`. Calls that come without
    /// an id get one that begins with `made_ids`.
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

    /// Whose answer it is.
    pub(super) fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Whether the last event is out: nothing that follows matters.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Reads on. Events that came before an error are in `out` all the same.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        self.read = self.read.saturating_add(bytes.len());
        if self.read > MAX_ANSWER_BYTES {
            return Err(self.provider.error(ErrorKind::Malformed, "it does not come to an end"));
        }
        if let BodyFormat::Unknown = self.form {
            match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'{') => self.form = BodyFormat::Whole(Vec::new()),
                Some(b'<') => return Err(self.provider.error(ErrorKind::Malformed, "it is a web page")),
                Some(_) => self.form = BodyFormat::Stream(SseParser::default()),
                // Only space, which means nothing to either form.
                None => return Ok(()),
            }
        }
        match &mut self.form {
            BodyFormat::Unknown => Ok(()),
            BodyFormat::Whole(text) if text.len() + bytes.len() > MOST_BYTES => {
                Err(self.provider.error(ErrorKind::Malformed, "it is too long"))
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

    /// The last byte has come: afterwards the answer has ended, or this is an error.
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
                        return Err(self.provider.error(ErrorKind::Interrupted, "it ends in the middle"));
                    }
                    Err(error) => return Err(self.provider.error(ErrorKind::Malformed, &error.to_string())),
                }
            }
            BodyFormat::Stream(parser) => {
                // An event that lacks its empty line counts if it is whole.
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
