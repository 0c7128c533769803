//! HTTP requests to one server, with its headers and its token.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{RequestBuilder, Response};
use serde_json::json;
use tokio::sync::Notify;
use url::Url;

use super::failure::{Challenged, HttpFailure};
use crate::engine::auth::{Bearer, Challenge, Credentials};
use crate::engine::config::Remote;
use crate::engine::error::ConfigError;
use crate::engine::secret::Scrubber;

/// The timeout of a presence check; longer than it takes to find out that no connection can be made.
const PING_TIME: Duration = Duration::from_secs(40);

/// Sends requests to one server, with its headers and its token.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    http: reqwest::Client,
    headers: HeaderMap,
    credentials: Arc<Credentials>,
    most: usize,
    /// Notified when a request could not be sent.
    presence_doubts: Arc<Notify>,
}

impl HttpClient {
    pub(crate) fn new(
        http: reqwest::Client,
        remote: &Remote,
        credentials: Arc<Credentials>,
        most: usize,
    ) -> Result<Self, ConfigError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &remote.headers {
            let parsed = HeaderName::try_from(name.as_str()).ok();
            let Some((parsed, mut value)) = parsed.zip(HeaderValue::try_from(value.as_str()).ok()) else {
                return Err(ConfigError::Header(name.clone()));
            };
            value.set_sensitive(true);
            headers.insert(parsed, value);
        }
        Ok(Self {
            http,
            headers,
            credentials,
            most,
            presence_doubts: Arc::default(),
        })
    }

    /// Sends a request with the headers of this server. Challenges are returned as failures.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, HttpFailure> {
        let bearer = self.credentials.bearer();
        let headers = self.headers_with(&bearer)?;
        let sending = request.headers(headers).send().await;
        let response = sending.inspect_err(|_| self.presence_doubts.notify_one())?;
        let status = response.status();
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            if status.is_success() {
                self.credentials.was_accepted(&bearer);
            }
            return Ok(response);
        }
        let said: Vec<&str> = response
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        // Errors are logged by their readers, so no token may be in them.
        let said = self.scrub(&said.join(", "));
        let challenge = Challenge::parse(&said, status == StatusCode::FORBIDDEN);
        if !challenge.can_be_met() {
            return Ok(response);
        }
        Err(HttpFailure::Challenged(Box::new(Challenged {
            challenge,
            token: bearer.history,
            generation: bearer.generation,
        })))
    }

    /// Checks whether a server answers at this address, whatever it answers (F3). A slow server counts as present; the caller
    /// decides how long to wait.
    pub(crate) async fn is_there(&self, address: &Url) -> Result<(), HttpFailure> {
        let ping = json!({ "jsonrpc": "2.0", "id": "ping", "method": "ping" });
        let request = self.http.post(address.clone()).json(&ping);
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        // A token that cannot be sent says nothing about the server.
        let headers = self.headers_with(&self.credentials.bearer());
        let headers = headers.unwrap_or_else(|_| self.headers.clone());
        match tokio::time::timeout(PING_TIME, request.headers(headers).send()).await {
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(_)) | Err(_) => Ok(()),
        }
    }

    /// Notified when a request could not be sent, so that the presence of the server is checked.
    pub(crate) fn presence_doubts(&self) -> &Arc<Notify> {
        &self.presence_doubts
    }

    /// Waits for a token that is newer than the refused one.
    pub(super) async fn newer_token(&self, refused: u64) {
        self.credentials.newer_than(refused).await;
    }

    fn headers_with(&self, bearer: &Bearer) -> Result<HeaderMap, HttpFailure> {
        let mut headers = self.headers.clone();
        if let Some(token) = &bearer.value {
            // The token of a sign-in takes precedence over one of the configuration.
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| HttpFailure::Connection("the token has characters that cannot be sent".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    /// Removes the token from text of the server.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.credentials.scrub(&Scrubber::default(), text)
    }

    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }
}
