//! HTTP clients for model providers: send a request, receive a stream of [`ModelEvent`]s.
//!
//! Each API has one file that encodes requests (`chat`, `responses`, `messages`) and one beside it that decodes
//! answers without IO ([`AnswerDecoder`]). The rest is shared: address, key, connection, and the quirks learned of a
//! server.

mod chat;
mod connection;
mod decoder;
mod decoding;
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

use innkeeper_host::agent::Secret;
use serde_json::Value;

use self::connection::Connection;
pub use self::decoder::{AnswerDecoder, MAX_ANSWER_BYTES};
pub use self::endpoint::{Api, Endpoint, KeyPlacement, TokenField};
pub use self::proof::ProofOrigin;
use self::quirks::{Quirks, QuirksByModel};
use self::reasoning::has_text;
pub use self::stream::ModelStream;
use super::api::{ModelEntry, ModelEvent, ModelRequest};
use super::error::{ErrorKind, Provider, ProviderError};
use super::retry::{Retry, RetryPolicy, with_retries};

/// Maximum number of times a request is changed because the server rejects a part of it.
const MAX_ADJUSTMENTS: usize = 4;

/// Client for one model provider.
pub struct ModelClient {
    endpoint: Endpoint,
    connection: Connection,
    quirks: QuirksByModel,
}

impl ModelClient {
    /// Creates a client without sending a request.
    pub fn new(endpoint: Endpoint) -> Result<Self, ProviderError> {
        let connection = Connection::new(&endpoint)?;
        Ok(Self {
            endpoint,
            connection,
            quirks: QuirksByModel::default(),
        })
    }

    /// Returns the provider's endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request. Dropping the stream, or this future, cancels the HTTP request.
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
            // Servers differ in details that cannot be configured for every model. If the server names the part it
            // rejects, change that part and try again.
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

    /// Does the same as [`ModelClient::stream`], and retries transient failures that occur before the first output.
    /// Calls `announce` before every retry.
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

    /// Returns the models that the provider lists.
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
        // Configured headers can contain a key too. Short values are not keys.
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

/// Decodes the answers of one API without IO.
pub(crate) trait Decoder: Send + fmt::Debug {
    /// Decodes one event of the stream.
    fn push(&mut self, event: super::sse::SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;

    /// Decodes an answer that was sent as one JSON document instead of a stream.
    fn whole(&mut self, answer: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;

    /// Called at the end of the stream. Fails if the answer is incomplete.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;
}

/// Joins the sections of the system prompt; `None` if all are blank.
fn system_text(request: &ModelRequest) -> Option<String> {
    let sections = request.system.iter().map(String::as_str);
    let sections: Vec<&str> = sections.filter(|text| has_text(text)).collect();
    (!sections.is_empty()).then(|| sections.join("\n\n"))
}

/// Returns a random prefix for the ids of calls that the server sends without one. Ids must be unique within a
/// conversation, not only within an answer.
fn random_id_prefix() -> String {
    use std::hash::{BuildHasher as _, Hasher as _};
    format!("call_{:016x}", std::hash::RandomState::new().build_hasher().finish())
}
