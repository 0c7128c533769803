//! A server behind streamable HTTP: each message of ours is a POST, whose answer is one message or a stream of events.

mod session;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use innkeeper_std::event_stream::{Event, Parsed};
use innkeeper_std::sync::{Mutex, MutexGuard};
use innkeeper_std::text::truncate_chars;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::session::{Session, Sessions};
use super::client::HttpClient;
use super::events::EventReader;
use super::failure::HttpFailure;
use super::inbox::{Inbox, NotDelivered};
use super::message::{Message, Outgoing, OutgoingKind, decode};
use super::param_headers;
use super::peer::{RequestFailure, STATELESS_REVISION};
use crate::engine::tools::Tool;

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";

/// The number of requests that wait for the beginning of their answer at once.
const REQUESTS_AT_ONCE: usize = 64;
/// The time that a notification, or an answer to a request of the server, has to be taken.
const CONTROL_TIME: Duration = Duration::from_secs(30);
/// The time that the end of a session may take.
const END_TIME: Duration = Duration::from_secs(5);
/// The time that a stream may go on after the answer, so that its connection can be used again.
const DRAIN_TIME: Duration = Duration::from_millis(50);
/// The pause before a broken stream is asked for again, unless the server names another one. It doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The most that is read of a refusal.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
/// The most of it that users are shown.
const SHOWN_REFUSAL_CHARS: usize = 300;

/// A connection. Cloning gives another handle to the same one.
#[derive(Clone, Debug)]
pub(crate) struct StreamableHttp {
    shared: Arc<HttpConnection>,
}

#[derive(Debug)]
struct HttpConnection {
    client: HttpClient,
    url: Url,
    inbox: Inbox,
    room: Semaphore,
    sessions: Sessions,
    /// Input schemas of tools whose arguments are sent as headers as well, by name.
    schemas: Mutex<HashMap<String, Value>>,
}

impl StreamableHttp {
    pub(crate) fn new(client: HttpClient, url: Url, inbox: Inbox, closed: &CancellationToken) -> Self {
        Self {
            shared: Arc::new(HttpConnection {
                client,
                url,
                inbox,
                sessions: Sessions::new(closed),
                room: Semaphore::new(REQUESTS_AT_ONCE),
                schemas: Mutex::default(),
            }),
        }
    }

    /// Sends a message. For a request it also reads the answer, and delivers everything that comes with it.
    pub(crate) async fn send(self, message: Outgoing) -> Result<(), RequestFailure> {
        match &message.kind {
            OutgoingKind::Request { id, .. } => self.shared.request(*id, &message).await,
            OutgoingKind::Notification { .. } | OutgoingKind::Answer => {
                let posting = self.shared.post(&message);
                match tokio::time::timeout(CONTROL_TIME, posting).await {
                    Ok(posted) => posted.map(drop),
                    Err(_) => Err(RequestFailure::Http(HttpFailure::Connection(
                        "it took too long".to_owned(),
                    ))),
                }
            }
        }
    }

    /// Opens the stream of messages that belong to no request, if the server has given the client a session.
    pub(crate) fn listen(&self, version: Option<Arc<str>>) {
        self.shared.spawn_listener(self.shared.sessions.current(), version);
    }

    /// Remembers the input schemas of tools that want arguments as headers, and removes tools that want impossible ones.
    pub(crate) fn note_tools(&self, tools: &mut Vec<Tool>) {
        tools.retain(|tool| match param_headers::check(&tool.input_schema) {
            Ok(()) => true,
            Err(why) => {
                tracing::warn!(
                    tool = tool.name,
                    why,
                    "a tool of an MCP server wants headers that cannot be sent"
                );
                false
            }
        });
        let with_headers = tools.iter().filter(|tool| param_headers::has_any(&tool.input_schema));
        let schemas = with_headers.map(|tool| (tool.name.clone(), tool.input_schema.clone()));
        *self.shared.lock_schemas() = schemas.collect();
    }

    /// Tells the server that its session is not used any more. Its answer does not matter.
    pub(crate) async fn end_session(&self) {
        let session = self.shared.sessions.current();
        if let Some(id) = &session.id {
            let client = &self.shared.client;
            let request = client
                .http()
                .delete(self.shared.url.clone())
                .header(SESSION_HEADER, &**id);
            let _ = tokio::time::timeout(END_TIME, client.send(request)).await;
        }
    }
}

/// Why a POST failed.
enum PostFailure {
    /// The server does not know the session any more.
    SessionExpired(HttpFailure),
    Other(RequestFailure),
}

impl HttpConnection {
    fn spawn_listener(self: &Arc<Self>, session: Session, version: Option<Arc<str>>) {
        if session.id.is_none() {
            return;
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = shared.listen(&session, version) => {}
                () = session.ended.cancelled() => {}
            }
        });
    }

    async fn request(self: &Arc<Self>, id: i64, message: &Outgoing) -> Result<(), RequestFailure> {
        let response = {
            // It is never closed.
            let _room = self.room.acquire().await;
            self.post(message).await?
        };
        if is_initialize(message) {
            self.sessions.begun(message, session_of(&response), None);
        }
        if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            // The answer may come on the stream that belongs to no request.
            return Ok(());
        }
        match content_type(&response) {
            kind if kind.starts_with(EVENT_STREAM) => self.read_answer(id, response, message).await,
            kind if kind.starts_with(JSON) => {
                let body = read_up_to(response, self.client.most()).await;
                let body = body.map_err(RequestFailure::Http)?;
                match self.inbox.deliver(&String::from_utf8_lossy(&body), Some(id)).await {
                    Ok(_) => Ok(()),
                    Err(NotDelivered::Closed) => Err(RequestFailure::Closed),
                    Err(NotDelivered::NoMessage(error)) => {
                        Err(RequestFailure::Http(HttpFailure::NotMcp(error.to_string())))
                    }
                }
            }
            kind => Err(RequestFailure::Http(HttpFailure::NotMcp(kind))),
        }
    }

    /// Reads events until the answer to a request has come. A stream that breaks off is asked for again if its events
    /// have ids.
    async fn read_answer(&self, id: i64, response: Response, message: &Outgoing) -> Result<(), RequestFailure> {
        let mut events = EventReader::new(response, self.client.most());
        let session = self.sessions.current();
        loop {
            while let Some(parsed) = events.next_or_overflow().await {
                let event = match parsed {
                    Parsed::Event(event) => event,
                    Parsed::TooLarge(_) => return Err(RequestFailure::Http(HttpFailure::TooLarge)),
                };
                if !is_message(&event) {
                    continue;
                }
                match self.inbox.deliver(&event.data, Some(id)).await {
                    Ok(answered) if answered.contains(&id) => {
                        tokio::spawn(async move {
                            let rest = async { while events.next_or_overflow().await.is_some() {} };
                            let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
                        });
                        return Ok(());
                    }
                    Ok(_) | Err(NotDelivered::NoMessage(_)) => {}
                    Err(NotDelivered::Closed) => return Err(RequestFailure::Closed),
                }
            }
            if events.last_event_id().is_none() {
                return Err(RequestFailure::BrokenOff);
            }
            let version = message.version.clone();
            let resumed = self
                .resume(&mut events, session.id.as_deref(), version.as_deref())
                .await;
            resumed.map_err(|()| RequestFailure::BrokenOff)?;
        }
    }

    /// Asks for the rest of a stream until the server gives it, or says that it does not.
    async fn resume(&self, events: &mut EventReader, session: Option<&str>, version: Option<&str>) -> Result<(), ()> {
        let mut pause = events.retry().unwrap_or(FIRST_PAUSE);
        loop {
            sleep(pause).await;
            match self.get(session, version, events.last_event_id()).await {
                Ok(response) => {
                    events.resume(response);
                    return Ok(());
                }
                Err(HttpFailure::Connection(_)) => pause = (pause * 2).min(LONGEST_PAUSE),
                Err(_) => return Err(()),
            }
        }
    }

    /// Reads the messages that belong to no request, until the session ends.
    async fn listen(&self, session: &Session, version: Option<Arc<str>>) {
        let (id, version) = (session.id.as_deref(), session.version.clone().or(version));
        let Ok(response) = self.get(id, version.as_deref(), None).await else {
            // Servers need not offer such a stream.
            return;
        };
        let mut events = EventReader::new(response, self.client.most());
        loop {
            while let Some(parsed) = events.next().await {
                let delivered = match parsed {
                    Parsed::Event(event) if !is_message(&event) => Ok(()),
                    Parsed::Event(event) => self.inbox.deliver(&event.data, None).await.map(drop),
                    Parsed::TooLarge(peek) => self.inbox.too_large(peek.answered()).await,
                };
                if matches!(delivered, Err(NotDelivered::Closed)) {
                    return;
                }
            }
            if self.resume(&mut events, id, version.as_deref()).await.is_err() {
                return;
            }
        }
    }

    /// Opens a stream of events. Waits for another token where the one that there is was refused.
    async fn get(
        &self,
        session: Option<&str>,
        version: Option<&str>,
        last_event_id: Option<&str>,
    ) -> Result<Response, HttpFailure> {
        let response = loop {
            let mut request = self.client.http().get(self.url.clone()).header(ACCEPT, EVENT_STREAM);
            let headers = [
                (SESSION_HEADER, session),
                (VERSION_HEADER, version),
                ("last-event-id", last_event_id),
            ];
            for (name, value) in headers {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            match self.client.send(request).await {
                // The same token would be refused again. The end of the connection ends this.
                Err(HttpFailure::Challenged(challenged)) => self.client.newer_token(challenged.generation).await,
                sent => break sent?,
            }
        };
        if !response.status().is_success() {
            return Err(HttpFailure::Status {
                status: response.status().as_u16(),
                said: None,
            });
        }
        match content_type(&response) {
            kind if kind.starts_with(EVENT_STREAM) => Ok(response),
            kind => Err(HttpFailure::NotMcp(kind)),
        }
    }

    /// Posts a message, in a new session if the server has forgotten the present one.
    async fn post(self: &Arc<Self>, message: &Outgoing) -> Result<Response, RequestFailure> {
        let session = self.sessions.current();
        let expired = match self.post_in(message, &session).await {
            Ok(response) => return Ok(response),
            Err(PostFailure::Other(failure)) => return Err(failure),
            Err(PostFailure::SessionExpired(failure)) => RequestFailure::Http(failure),
        };
        // The answer to a request of the old session means nothing in another one.
        if matches!(message.kind, OutgoingKind::Answer) {
            return Err(expired);
        }
        self.renew_session(&session, message.version.as_ref()).await?;
        match self.post_in(message, &self.sessions.current()).await {
            Ok(response) => Ok(response),
            Err(PostFailure::Other(failure)) => Err(failure),
            Err(PostFailure::SessionExpired(failure)) => Err(RequestFailure::Http(failure)),
        }
    }

    async fn post_in(&self, message: &Outgoing, session: &Session) -> Result<Response, PostFailure> {
        let id = session.id.as_ref().filter(|_| !is_initialize(message));
        let version = session.version.as_deref().or(message.version.as_deref());
        let mut request = self.client.http().post(self.url.clone());
        request = request.header(ACCEPT, [EVENT_STREAM, JSON].join(", "));
        if let Some(id) = id {
            request = request.header(SESSION_HEADER, &**id);
        }
        if let Some(version) = version.filter(|_| !is_initialize(message)) {
            request = request.header(VERSION_HEADER, version);
            if version >= STATELESS_REVISION {
                request = request.headers(param_headers::headers(&message.kind, &self.lock_schemas()));
            }
        }
        let sent = self.client.send(with_body(request, message)).await;
        let response = sent.map_err(|failure| PostFailure::Other(RequestFailure::Http(failure)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.read_refusal(response, message, id.is_some()).await)
    }

    /// Reads a refusal. It may come with an error of the protocol, which says more.
    async fn read_refusal(&self, response: Response, message: &Outgoing, has_session: bool) -> PostFailure {
        let status = response.status();
        let body = read_up_to(response, MAX_REFUSAL_BYTES).await.unwrap_or_default();
        let said = self.client.scrub(&String::from_utf8_lossy(&body));
        let failure = HttpFailure::Status {
            status: status.as_u16(),
            said: readable(&said),
        };
        // MCP says 404 for a session that the server has forgotten. Servers that follow the examples of the
        // official SDK, the reference server among them, say 400 and "No valid session ID provided".
        let is_expired = status == StatusCode::NOT_FOUND
            || (status == StatusCode::BAD_REQUEST && said.to_ascii_lowercase().contains("session id"));
        if has_session && is_expired {
            return PostFailure::SessionExpired(failure);
        }
        let is_allowed = !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_allowed
            && matches!(message.kind, OutgoingKind::Request { .. })
            && let Ok([Message::Answer { answer: Err(error), .. }]) = decode(&said).as_deref()
        {
            return PostFailure::Other(RequestFailure::Refused(error.clone()));
        }
        PostFailure::Other(RequestFailure::Http(failure))
    }

    /// Introduces the client again, unless another request has done so meanwhile.
    async fn renew_session(
        self: &Arc<Self>,
        expired: &Session,
        version: Option<&Arc<str>>,
    ) -> Result<(), RequestFailure> {
        let _turn = self.sessions.turn().await;
        if self.sessions.current().number != expired.number {
            return Ok(());
        }
        let Some(initialize) = self.sessions.initialize() else {
            return Err(RequestFailure::BrokenOff);
        };
        let posted = self.post_in(&initialize, expired).await;
        let response = posted.map_err(|failure| match failure {
            PostFailure::SessionExpired(failure) => RequestFailure::Http(failure),
            PostFailure::Other(failure) => failure,
        })?;
        let id = session_of(&response);
        let result = self.read_initialized(response).await?;
        let version = result
            .get("protocolVersion")
            .and_then(Value::as_str)
            .map(Arc::from)
            .or_else(|| version.cloned());
        let session = self.sessions.begun(&initialize, id, version.clone());
        let initialized = Outgoing::notification("notifications/initialized", None, version.clone());
        match self.post_in(&initialized, &session).await {
            Ok(_) => {}
            Err(PostFailure::SessionExpired(failure)) => return Err(RequestFailure::Http(failure)),
            Err(PostFailure::Other(failure)) => return Err(failure),
        }
        self.spawn_listener(session, version);
        Ok(())
    }

    /// Reads the answer to `initialize` of a renewed session, which no other caller waits for.
    async fn read_initialized(&self, response: Response) -> Result<Value, RequestFailure> {
        let texts = if content_type(&response).starts_with(EVENT_STREAM) {
            let mut events = EventReader::new(response, self.client.most());
            let mut texts = Vec::new();
            while let Some(Parsed::Event(event)) = events.next_or_overflow().await {
                let is_answer = event.data.contains("\"result\"") || event.data.contains("\"error\"");
                texts.push(event.data);
                if is_answer {
                    break;
                }
            }
            texts
        } else {
            let body = read_up_to(response, self.client.most()).await;
            vec![String::from_utf8_lossy(&body.map_err(RequestFailure::Http)?).into_owned()]
        };
        let messages = texts.iter().filter_map(|text| decode(text).ok()).flatten();
        for message in messages {
            match message {
                Message::Answer { answer: Ok(result), .. } => {
                    return Ok(serde_json::from_str(&result).unwrap_or_default());
                }
                Message::Answer { answer: Err(error), .. } => return Err(RequestFailure::Refused(error)),
                _ => {}
            }
        }
        Err(RequestFailure::BrokenOff)
    }

    fn lock_schemas(&self) -> MutexGuard<'_, HashMap<String, Value>> {
        self.schemas.lock()
    }
}

fn is_initialize(message: &Outgoing) -> bool {
    matches!(&message.kind, OutgoingKind::Request { method, .. } if &**method == "initialize")
}

/// Events with other names are for other readers.
fn is_message(event: &Event) -> bool {
    matches!(event.name.as_deref(), None | Some("" | "message"))
}

fn session_of(response: &Response) -> Option<Arc<str>> {
    let id = response.headers().get(SESSION_HEADER)?;
    id.to_str().ok().map(Arc::from)
}

/// Adds a message to a request.
pub(super) fn with_body(request: RequestBuilder, message: &Outgoing) -> RequestBuilder {
    request.header(CONTENT_TYPE, JSON).body(message.body.to_string())
}

/// Reads a body of at most so many bytes.
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

/// The beginning of a refusal, if users can read it. HTML pages they cannot.
fn readable(said: &str) -> Option<String> {
    let said = said.trim();
    if said.is_empty() || said.starts_with('<') {
        return None;
    }
    let shown = truncate_chars(said, SHOWN_REFUSAL_CHARS);
    Some(shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}
