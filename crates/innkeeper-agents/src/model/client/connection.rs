//! HTTP connection to a provider.

use std::error::Error;
use std::sync::Once;
use std::time::Duration;

use innkeeper_host::agent::Secret;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;
use tokio::time::timeout;

use super::endpoint::{Api, Endpoint, KeyPlacement};
use crate::model::error::{ErrorKind, Failure, Provider, ProviderError, classify, retry_after};
use crate::model::sse::MAX_BYTES;

/// Maximum bytes that are read of an error body.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Connect timeout.
const CONNECT_TIME: Duration = Duration::from_secs(30);
/// Timeout for the list of models.
const LIST_TIME: Duration = Duration::from_secs(30);
/// Version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// HTTP client for one provider.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
}

/// A request that the provider rejected.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The error for the user.
    pub(super) error: ProviderError,
    /// The provider's report, from which quirks are learned.
    pub(super) failure: Failure,
}

impl Connection {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, ProviderError> {
        install_crypto_provider();
        let mut builder = Client::builder()
            .user_agent(concat!("innkeeper/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIME)
            // Retries are up to our own policy.
            .retry(reqwest::retry::never())
            .redirect(redirects());
        if endpoint.is_loopback() {
            // Requests to this machine must not go through a proxy.
            builder = builder.no_proxy();
        }
        if endpoint.base_url.scheme() == "http" {
            // Without TLS the system's certificates are not needed, and some machines have none.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            let provider = Provider {
                host: endpoint.host(),
                ..Provider::default()
            };
            provider.error(ErrorKind::Network, &cause(&error.without_url()))
        })?;
        Ok(Self { client })
    }

    /// Sends a request. The outer error means that it could not be sent; the inner one that the provider rejected it.
    pub(super) async fn post(
        &self,
        endpoint: &Endpoint,
        provider: &Provider,
        key: Option<&Secret>,
        body: &Value,
    ) -> Result<Result<Response, Refusal>, ProviderError> {
        let request = self
            .client
            .post(endpoint.ask_url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body.to_string());
        let response = send(request, endpoint, provider, key, endpoint.idle_time).await?;
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        Ok(Err(refusal(response, provider).await))
    }

    /// Fetches the list of models; `None` if the server has no such endpoint.
    pub(super) async fn get_models(
        &self,
        endpoint: &Endpoint,
        provider: &Provider,
        key: Option<&Secret>,
    ) -> Result<Option<Vec<u8>>, ProviderError> {
        let request = self
            .client
            .get(endpoint.models_url())
            .header(ACCEPT, "application/json");
        let mut response = send(request, endpoint, provider, key, LIST_TIME).await?;
        if matches!(response.status().as_u16(), 404 | 405 | 501) {
            return Ok(None);
        }
        if !response.status().is_success() {
            return Err(refusal(response, provider).await.error);
        }
        match timeout(LIST_TIME, read_up_to(&mut response, MAX_BYTES)).await {
            Ok(Ok(body)) => Ok(Some(body)),
            Ok(Err(error)) => Err(provider.error(ErrorKind::Network, &cause(&error.without_url()))),
            Err(_) => Err(provider.error(ErrorKind::Network, "the list of models was not complete in time")),
        }
    }
}

/// Reqwest has no default crypto provider. Use ring unless the program has installed another.
fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Follows redirects only within the same origin and only if they preserve the request, so that the key is never sent
/// elsewhere.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let first = attempt.previous().first();
        let same_server = first.is_some_and(|first| first.origin() == attempt.url().origin());
        let keeps_the_request = matches!(attempt.status().as_u16(), 307 | 308);
        if same_server && keeps_the_request && attempt.previous().len() <= 3 {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

async fn send(
    request: RequestBuilder,
    endpoint: &Endpoint,
    provider: &Provider,
    key: Option<&Secret>,
    time_limit: Duration,
) -> Result<Response, ProviderError> {
    let request = request.headers(headers(endpoint, provider, key)?);
    match timeout(time_limit, request.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) if error.is_builder() => {
            Err(provider.error(ErrorKind::BadRequest, &cause(&error.without_url())))
        }
        Ok(Err(error)) => Err(provider.error(ErrorKind::Network, &cause(&error.without_url()))),
        Err(_) => {
            let detail = format!("no answer within {} seconds", time_limit.as_secs_f64());
            Err(provider.error(ErrorKind::Interrupted, &detail))
        }
    }
}

fn headers(endpoint: &Endpoint, provider: &Provider, key: Option<&Secret>) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    if endpoint.api == Api::Messages {
        headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
    }
    if let Some(key) = key {
        let (name, value) = key_header(endpoint, key.reveal().trim());
        let name =
            name.ok_or_else(|| provider.error(ErrorKind::BadRequest, "the configured key header has an invalid name"))?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            provider.error(
                ErrorKind::Auth,
                "the key contains characters that a header cannot carry",
            )
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &endpoint.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .zip(HeaderValue::from_str(value).ok());
        let Some((parsed_name, mut value)) = parsed else {
            let detail = format!("the configured header {name} is invalid");
            return Err(provider.error(ErrorKind::BadRequest, &detail));
        };
        value.set_sensitive(true);
        headers.insert(parsed_name, value);
    }
    Ok(headers)
}

fn key_header(endpoint: &Endpoint, key: &str) -> (Option<HeaderName>, String) {
    match (&endpoint.key_placement, endpoint.api) {
        (KeyPlacement::Header(name), _) => (HeaderName::from_bytes(name.as_bytes()).ok(), key.to_owned()),
        (KeyPlacement::Usual, Api::Messages) => (Some(HeaderName::from_static("x-api-key")), key.to_owned()),
        (KeyPlacement::Bearer | KeyPlacement::Usual, _) => (Some(AUTHORIZATION), format!("Bearer {key}")),
    }
}

async fn refusal(mut response: Response, provider: &Provider) -> Refusal {
    let status = response.status();
    if status.is_redirection() {
        return redirect_refusal(&response, provider);
    }
    let wait = retry_after(response.headers(), jiff::Timestamp::now());
    let body = timeout(LIST_TIME, read_up_to(&mut response, MAX_ERROR_BYTES)).await;
    // Classify the error even if its body is incomplete.
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    let failure = Failure::from_body(status.as_u16(), &body);
    let mut error = classify(provider, &failure);
    error.retry_after = wait;
    Refusal { error, failure }
}

fn redirect_refusal(response: &Response, provider: &Provider) -> Refusal {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| response.url().join(location).ok());
    let to = target
        .as_ref()
        .and_then(|url| url.host_str())
        .unwrap_or("another address");
    let detail = format!(
        "it redirects to {to}, and the key is not sent there; if that is the right server, configure its address"
    );
    Refusal {
        error: provider.error(ErrorKind::BadRequest, &detail),
        failure: Failure {
            status: Some(response.status().as_u16()),
            ..Failure::default()
        },
    }
}

async fn read_up_to(response: &mut Response, limit: usize) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let remaining = limit - body.len();
        body.extend(chunk.iter().take(remaining));
        if chunk.len() >= remaining {
            break;
        }
    }
    Ok(body)
}

/// Returns the innermost error message; the outer ones are generic.
pub(super) fn cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
