//! A server behind streamable HTTP: the requests below rmcp's transport.

mod events;

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use innkeeper_std::text::truncate_chars;
use reqwest::Response;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ProtocolVersion, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use self::events::events;
use super::client::HttpClient;
use super::failure::HttpFailure;
use super::{Discovery, Messages, encode};

/// The most that is read of what a server says when it refuses.
const MOST_REFUSAL_BYTES: usize = 64 << 10;
/// The most of it that people are shown.
const SHOWN_REFUSAL_CHARS: usize = 300;

type Failure = StreamableHttpError<HttpFailure>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Sends the messages of one connection, and bounds what comes back.
#[derive(Clone, Debug)]
pub(crate) struct StreamableHttp {
    client: HttpClient,
    messages: Messages,
    discovery: Arc<Discovery>,
}

impl StreamableHttp {
    pub(crate) fn new(client: HttpClient, messages: Messages, discovery: Arc<Discovery>) -> Self {
        Self {
            client,
            messages,
            discovery,
        }
    }

    fn get_events(&self, response: Response, request: Option<RequestId>) -> Events {
        events(response, request, self.messages.clone(), self.client.most())
    }

    /// Answers to these are read by rmcp.
    fn note(&self, message: &ClientJsonRpcMessage, headers: &HashMap<HeaderName, HeaderValue>) {
        self.messages.own.note(message);
        // Since 2026-07-28 tools can have arguments sent as headers as well; rmcp does that, once it
        // has seen the list of tools.
        let version = headers.get(&HeaderName::from_static("mcp-protocol-version"));
        let has_headers =
            version.and_then(|version| version.to_str().ok()) >= Some(ProtocolVersion::STANDARD_HEADERS.as_str());
        if let ClientJsonRpcMessage::Request(request) = message
            && let ClientRequest::CustomRequest(custom) = &request.request
            && custom.method == "tools/list"
            && has_headers
        {
            self.messages.own.add(request.id.clone());
        }
    }

    /// Reads an answer that came in one piece.
    async fn read_message(
        &self,
        response: Response,
        session: Option<String>,
        is_request: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = read_up_to(response, self.client.most())
            .await
            .map_err(Failure::Client)?;
        let text = String::from_utf8_lossy(&body);
        match self.messages.decode(&text) {
            Ok(found) if found.is_empty() => Ok(StreamableHttpPostResponse::Accepted),
            Ok(found) => Ok(self.hand_over(found, session, body.len()).await),
            // Nobody waits for an answer to a notification.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => Err(Failure::Client(HttpFailure::NotMcp(error.to_string()))),
        }
    }

    /// Messages that came in one piece, for rmcp, which takes one like that, or events.
    async fn hand_over(
        &self,
        mut found: Vec<ServerJsonRpcMessage>,
        session: Option<String>,
        bytes: usize,
    ) -> StreamableHttpPostResponse {
        if found.len() == 1
            && let Some(message) = found.pop()
        {
            return match self.messages.admit(&message, bytes).await {
                true => StreamableHttpPostResponse::Json(message, session),
                false => StreamableHttpPostResponse::Accepted,
            };
        }
        let messages = self.messages.clone();
        let events = futures_util::stream::iter(found).filter_map(move |message| {
            let messages = messages.clone();
            async move {
                let data = serde_json::to_string(&message).ok()?;
                let is_wanted = messages.admit(&message, bytes).await;
                is_wanted.then(|| Ok(Sse::default().data(data)))
            }
        });
        StreamableHttpPostResponse::Sse(events.boxed(), session)
    }

    /// A status that says no. It may come with an error of the protocol, which says more.
    async fn read_refusal(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        has_session: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        let body = read_up_to(response, MOST_REFUSAL_BYTES).await.unwrap_or_default();
        let said = self.client.scrub(&String::from_utf8_lossy(&body));
        // MCP says 404 for a session that the server has forgotten. Servers that follow the examples of the
        // official SDK, the reference server among them, say 400 and "No valid session ID provided".
        if has_session && status == StatusCode::BAD_REQUEST && said.to_ascii_lowercase().contains("session id") {
            return Err(StreamableHttpError::SessionExpired);
        }
        let refused = match serde_json::from_str::<ServerJsonRpcMessage>(&said) {
            Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
            _ => None,
        };
        let is_allowed = !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let asked = match message {
            ClientJsonRpcMessage::Request(request) => Some(request),
            _ => None,
        };
        // Servers from before 2026-07-28 refuse to be discovered in many ways; each means "I am old".
        if let Some(asked) = asked
            && matches!(asked.request, ClientRequest::DiscoverRequest(_))
            && status.is_client_error()
            && is_allowed
            && !has_session
        {
            let error = refused.map_or_else(
                || ErrorData::invalid_request(format!("discovery was refused with HTTP status {status}"), None),
                |refused| refused.error,
            );
            let error = ServerJsonRpcMessage::error(error, Some(asked.id.clone()));
            return Ok(StreamableHttpPostResponse::Json(error, None));
        }
        if let (Some(refused), Some(asked), true) = (refused, asked, is_allowed) {
            let id = refused.id.unwrap_or_else(|| asked.id.clone());
            let error = ServerJsonRpcMessage::error(refused.error, Some(id));
            return Ok(StreamableHttpPostResponse::Json(error, None));
        }
        Err(Failure::Client(HttpFailure::Status {
            status: status.as_u16(),
            said: short(&said),
        }))
    }
}

impl StreamableHttpClient for StreamableHttp {
    type Error = HttpFailure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.note(&message, &custom_headers);
        let accept = [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", ");
        let mut request = self.client.http().post(uri.as_ref()).header(ACCEPT, accept);
        request = request.headers(custom_headers.into_iter().collect());
        let has_session = session_id.is_some();
        if let Some(session) = session_id {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let sending = self.client.send(with_body(request, &message).map_err(Failure::Client)?);
        let sent = match &message {
            // One that does not answer is taken for an older one, as one that refuses.
            ClientJsonRpcMessage::Request(asked) if matches!(asked.request, ClientRequest::DiscoverRequest(_)) => {
                match tokio::time::timeout(self.discovery.time(), sending).await {
                    Ok(sent) => sent,
                    Err(_) => {
                        let given_up = self.discovery.give_up(asked.id.clone());
                        return Ok(StreamableHttpPostResponse::Json(given_up, None));
                    }
                }
            }
            _ => sending.await,
        };
        let response = sent.map_err(Failure::Client)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return self.read_refusal(response, &message, has_session).await;
        }
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let session = response
            .headers()
            .get(HEADER_SESSION_ID)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        match content_type(&response) {
            kind if kind.starts_with(EVENT_STREAM_MIME_TYPE) => Ok(StreamableHttpPostResponse::Sse(
                self.get_events(response, request),
                session,
            )),
            kind if kind.starts_with(JSON_MIME_TYPE) => self.read_message(response, session, request.is_some()).await,
            _ if request.is_none() => Ok(StreamableHttpPostResponse::Accepted),
            kind => Err(Failure::Client(HttpFailure::NotMcp(kind))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let request = self
            .client
            .http()
            .delete(uri.as_ref())
            .header(HEADER_SESSION_ID, session_id.as_ref());
        let request = request.headers(custom_headers.into_iter().collect());
        // Whatever it answers: the session is not used any more.
        self.client.send(request).await.map_err(Failure::Client)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failure> {
        let headers: HeaderMap = custom_headers.into_iter().collect();
        let response = loop {
            let mut request = self.client.http().get(uri.as_ref());
            request = request.header(ACCEPT, EVENT_STREAM_MIME_TYPE).headers(headers.clone());
            if let Some(session) = &session_id {
                request = request.header(HEADER_SESSION_ID, session.as_ref());
            }
            if let Some(last) = &last_event_id {
                request = request.header(HEADER_LAST_EVENT_ID, last);
            }
            match self.client.send(request).await {
                Ok(response) => break response,
                // It is not tried again with the same token, and rmcp would not try again at all. Whoever ends
                // the connection ends this.
                Err(HttpFailure::Challenged(challenged)) => self.client.newer_token(challenged.generation).await,
                Err(failure) => return Err(Failure::Client(failure)),
            }
        };
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED || status == StatusCode::NOT_FOUND {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(Failure::Client(HttpFailure::Status {
                status: status.as_u16(),
                said: None,
            }));
        }
        match content_type(&response) {
            kind if kind.starts_with(EVENT_STREAM_MIME_TYPE) => Ok(self.get_events(response, None)),
            kind => Err(Failure::Client(HttpFailure::NotMcp(kind))),
        }
    }
}

/// A request that takes a message along.
pub(super) fn with_body(
    request: reqwest::RequestBuilder,
    message: &ClientJsonRpcMessage,
) -> Result<reqwest::RequestBuilder, HttpFailure> {
    let body = encode(message);
    let body = body.map_err(|error| HttpFailure::Connection(format!("the message cannot be written ({error})")))?;
    Ok(request.header(CONTENT_TYPE, JSON_MIME_TYPE).body(body))
}

/// The body, if it is not larger than that.
async fn read_up_to(response: Response, most: usize) -> Result<Vec<u8>, HttpFailure> {
    let told = response.content_length().unwrap_or_default();
    if usize::try_from(told).map_or(true, |told| told > most) {
        return Err(HttpFailure::TooLarge);
    }
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        if body.len() + piece.len() > most {
            return Err(HttpFailure::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

pub(super) fn content_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE);
    let kind = value.map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    kind.unwrap_or_else(|| "nothing".to_owned())
}

/// What a server says, if people can read it: pages of HTML they cannot.
fn short(said: &str) -> Option<String> {
    let said = said.trim();
    if said.is_empty() || said.starts_with('<') {
        return None;
    }
    let shown = truncate_chars(said, SHOWN_REFUSAL_CHARS);
    Some(shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}
