//! Model providers over the wire: a request out, a stream of [`ModelEvent`]s back.
//!
//! One file per API says how a request is written ([`chat`], [`responses`], [`messages`]), and one
//! beside it how the answer is read: pure, from bytes to events ([`AnswerDecoder`]). What they
//! share is here: the address, the key, the connection, what is learned of a server's ways.

mod chat;
mod connection;
mod decoder;
mod endpoint;
mod messages;
mod models;
mod proof;
mod quirks;
mod reasoning;
mod responses;
mod stream;
mod tool_calls;

use std::fmt;

use innkeeper_host::Secret;
use serde_json::Value;

use self::connection::Connection;
pub use self::decoder::{AnswerDecoder, MAX_ANSWER_BYTES};
pub use self::endpoint::{Api, Endpoint, KeyPlacement, TokenField};
pub use self::proof::ProofOrigin;
use self::quirks::{Quirks, QuirksByModel};
pub use self::stream::ModelStream;
use super::api::{ModelEntry, ModelEvent, ModelRequest};
use super::error::{ErrorKind, Provider, ProviderError};
use super::retry::{Retry, RetryPolicy, with_retries};

/// How often a request is put differently because the server does not know a part of it.
const MAX_ADJUSTMENTS: usize = 4;

/// A model provider that can be asked.
pub struct ModelClient {
    endpoint: Endpoint,
    connection: Connection,
    quirks: QuirksByModel,
}

impl ModelClient {
    /// Prepares a client; nothing is sent yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, ProviderError> {
        let connection = Connection::new(&endpoint)?;
        Ok(Self {
            endpoint,
            connection,
            quirks: QuirksByModel::default(),
        })
    }

    /// Where this client asks.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Asks a model to go on. Dropping the stream, or this future, ends the HTTP request at once.
    pub async fn stream(&self, request: &ModelRequest, key: Option<&Secret>) -> Result<ModelStream, ProviderError> {
        let provider = self.provider(&request.model, key);
        let mut quirks = self.quirks.of(&request.model);
        let origin = ProofOrigin::new(&self.endpoint, &request.model).with_key(&self.endpoint, key);
        let mut adjustments = 0;
        loop {
            let body = self.body(request, &origin, &quirks);
            let refusal = match self.connection.post(&self.endpoint, &provider, key, &body).await? {
                Ok(response) => {
                    self.quirks.remember(&request.model, quirks);
                    let decoder = AnswerDecoder::new(self.endpoint.api, provider, origin, &random_id_prefix());
                    return Ok(ModelStream::new(response, decoder, self.endpoint.idle_time));
                }
                Err(refusal) => refusal,
            };
            // Servers differ in small ways that nobody can configure for every model: when one
            // names the part it does not take, that part is put differently, once.
            adjustments += 1;
            if refusal.error.kind != ErrorKind::BadRequest
                || adjustments > MAX_ADJUSTMENTS
                || !(request.temperature.is_some() && quirks.learn_temperature(&refusal.failure)
                    || quirks.learn(self.endpoint.api, &refusal.failure))
            {
                return Err(refusal.error);
            }
        }
    }

    /// Asks as [`ModelClient::stream`] does, and again if it fails in a way that passes before the
    /// model has said anything. Every further try is announced first.
    pub async fn stream_with_retries(
        &self,
        request: &ModelRequest,
        key: Option<&Secret>,
        policy: &RetryPolicy,
        random: impl FnMut() -> f64,
        announce: impl FnMut(Retry<'_>),
    ) -> Result<ModelStream, ProviderError> {
        with_retries(policy, random, announce, || async {
            let mut stream = self.stream(request, key).await?;
            stream.wait_for_output().await?;
            Ok(stream)
        })
        .await
    }

    /// The models of the provider, as far as it tells.
    pub async fn models(&self, key: Option<&Secret>) -> Result<Vec<ModelEntry>, ProviderError> {
        let provider = self.provider("", key);
        match self.connection.get_models(&self.endpoint, &provider, key).await? {
            Some(body) => models::read(&provider, &body),
            None => Ok(Vec::new()),
        }
    }

    fn body(&self, request: &ModelRequest, origin: &ProofOrigin, quirks: &Quirks) -> Value {
        match self.endpoint.api {
            Api::ChatCompletions => chat::encode(request, origin, self.endpoint.token_field(), quirks),
            Api::Responses => responses::encode(request, origin, quirks),
            Api::Messages => messages::encode(request, origin, quirks),
        }
    }

    fn provider(&self, model: &str, key: Option<&Secret>) -> Provider {
        let headers = self.endpoint.headers.iter();
        // Headers of the settings can hold a key as well. A short value is no key.
        let of_headers = headers
            .filter(|(_, value)| value.len() >= 8)
            .map(|(_, value)| Secret::new(value.as_str()));
        Provider {
            host: self.endpoint.host(),
            model: model.to_owned(),
            secrets: key.cloned().into_iter().chain(of_headers).collect(),
            has_key: key.is_some() || self.endpoint.has_key_header(),
        }
    }
}

impl fmt::Debug for ModelClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelClient")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Reads an answer of one API, event by event, without any IO.
pub(crate) trait Decoder: Send + fmt::Debug {
    /// Reads one event of the stream.
    fn push(&mut self, event: super::sse::SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;

    /// Reads an answer that came in one piece although a stream was asked for.
    fn whole(&mut self, answer: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;

    /// The stream has ended: either it is clear how the answer ended, or it broke off.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;
}

/// For calls that a server gives no id: ids must differ within a conversation, not only within an
/// answer.
fn random_id_prefix() -> String {
    use std::hash::{BuildHasher as _, Hasher as _};
    format!("call_{:016x}", std::hash::RandomState::new().build_hasher().finish())
}
