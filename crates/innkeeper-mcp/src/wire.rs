//! Below the protocol: bytes of servers, as the messages that rmcp takes.
//!
//! Here every message has a bound, and results pass unread. The typed models of rmcp leave out
//! fields they do not know, and try a result against every kind of result there is. So the result of
//! a request that this crate sends travels through rmcp as one string, and is read where it is
//! wanted; only the handshakes, which rmcp makes itself, are left to its types. Notifications do not
//! pass through it at all.

mod asked;
mod client;
mod failure;
mod guarded;
mod http;
mod line;
mod outline;
mod process;
mod program;
mod sse;
mod stdio;
mod tail;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use innkeeper_std::sync::Mutex;
use reqwest::redirect::{Attempt, Policy};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomRequest, CustomResult, ErrorCode, ErrorData, RequestId,
    ServerJsonRpcMessage, ServerNotification, ServerRequest, ServerResult,
};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use url::Url;

pub(crate) use self::asked::Asked;
pub(crate) use self::client::HttpClient;
pub(crate) use self::failure::{Challenged, HttpFailure};
pub(crate) use self::guarded::{Discovery, Guarded};
pub(crate) use self::http::StreamableHttp;
use self::outline::Outline;
pub(crate) use self::process::Process;
pub(crate) use self::sse::SseTransport;
pub(crate) use self::stdio::StdioTransport;
use crate::auth::Credentials;
use crate::error::ConfigError;

/// The code of errors that are made here for answers that are too large.
pub(crate) const TOO_LARGE: i32 = -32099;
/// The code of errors that are made here for answers that cannot be read.
pub(crate) const NOT_UNDERSTOOD: i32 = -32098;

/// The most that is told of what is wrong with an answer.
const MOST_REASON_CHARS: usize = 300;

const CONNECT_TIME: Duration = Duration::from_secs(30);
const MOST_REDIRECTS: usize = 3;

/// The requests whose answers rmcp reads itself.
#[derive(Debug, Default)]
pub(crate) struct OwnRequests(Mutex<HashSet<RequestId>>);

impl OwnRequests {
    /// Remembers a message on its way out, if rmcp will read the answer.
    pub(crate) fn note(&self, message: &ClientJsonRpcMessage) {
        if let ClientJsonRpcMessage::Request(request) = message
            && !matches!(request.request, ClientRequest::CustomRequest(_))
        {
            self.add(request.id.clone());
        }
    }

    pub(crate) fn add(&self, id: RequestId) {
        self.0.lock().insert(id);
    }

    fn take(&self, id: &RequestId) -> bool {
        let mut ids = self.0.lock();
        ids.remove(id)
    }
}

/// Takes notifications past rmcp, which would write each of them to the log of the host: a server
/// must not fill that.
#[derive(Clone)]
pub(crate) struct Notices(Arc<dyn Fn(ServerNotification) + Send + Sync>);

impl Notices {
    pub(crate) fn new(take: impl Fn(ServerNotification) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

/// What one connection knows about its messages.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    pub(crate) own: Arc<OwnRequests>,
    pub(crate) asked: Arc<Asked>,
    notices: Notices,
    /// Whose token is in no message, whatever the server writes into it.
    credentials: Option<Arc<Credentials>>,
}

/// A message for rmcp, as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrapped {
    pub(crate) text: String,
    /// Its id, if it is a request.
    pub(crate) request: Option<RequestId>,
}

/// As much of a message as it takes to see what it is.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

/// As much of a cancellation as it takes to see what is cancelled.
#[derive(Deserialize)]
struct Cancelled {
    params: CancelledParams,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelledParams {
    #[serde(default)]
    request_id: Option<RequestId>,
}

/// The method under which a question of a server passes rmcp, whose types lose the order of fields and what they do not
/// know. Its parameters are the question as it was written.
pub(crate) const QUESTION: &str = "innkeeper/question";
/// The questions that pass so.
const QUESTIONS: [&str; 2] = ["elicitation/create", "sampling/createMessage"];

/// The arguments of a call, as whoever made it wrote them. They take the place of those in its parameters, which may
/// have lost digits.
#[derive(Clone, Debug)]
pub(crate) struct ExactArguments(pub(crate) Arc<RawValue>);

/// A message as it is sent.
pub(crate) fn encode(message: &ClientJsonRpcMessage) -> Result<String, serde_json::Error> {
    let exact = match message {
        ClientJsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::CustomRequest(custom) => custom.extensions.get::<ExactArguments>(),
            _ => None,
        },
        _ => None,
    };
    let Some(ExactArguments(exact)) = exact else {
        return serde_json::to_string(message);
    };
    let mut message = serde_json::to_value(message)?;
    let params = message.as_object_mut().and_then(|message| message.remove("params"));
    let params = params.as_ref().and_then(Value::as_object).into_iter().flatten();
    let members = params.map(|(name, value)| match name.as_str() {
        "arguments" => Ok((name, RawValue::from_string(exact.get().to_owned())?)),
        _ => Ok((name, to_raw_value(value)?)),
    });
    let params = Members(members.collect::<Result<Vec<_>, serde_json::Error>>()?);
    let params = to_raw_value(&params)?;
    let message = message.as_object().into_iter().flatten();
    let members = message.map(|(name, value)| Ok((name, to_raw_value(value)?)));
    let mut members = members.collect::<Result<Vec<_>, serde_json::Error>>()?;
    let params_name = "params".to_owned();
    members.push((&params_name, params));
    serde_json::to_string(&Members(members))
}

/// The members of an object, in order.
struct Members<'a>(Vec<(&'a String, Box<RawValue>)>);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// What becomes of a message.
enum Fate<'a> {
    /// Rmcp reads it.
    Read,
    /// It is the result of a request that was sent here.
    Pass(RequestId, &'a str),
    /// It is a question that rmcp must not read.
    Ask(RequestId),
    /// It was a notification, and is dealt with; or nobody wants it.
    Done,
}

impl Messages {
    pub(crate) fn new(notices: Notices, asked: Arc<Asked>, credentials: Option<Arc<Credentials>>) -> Self {
        Self {
            own: Arc::default(),
            asked,
            notices,
            credentials,
        }
    }

    /// A message without the token that the server was sent: what it says goes into state and onto disks (AUTH-12).
    fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.credentials {
            Some(credentials) => credentials.hide(text),
            None => Cow::Borrowed(text),
        }
    }

    fn sort<'a>(&self, text: &'a str) -> Result<Fate<'a>, serde_json::Error> {
        let envelope: Envelope<'a> = serde_json::from_str(text)?;
        match (envelope.id, envelope.method.as_deref(), envelope.result) {
            // An answer that nobody asked for: our requests have numbers. In the middle of the handshake rmcp
            // would take it for a refusal.
            (Some(RequestId::String(_)), None, _) => Ok(Fate::Done),
            (Some(id), None, Some(result)) if !self.own.take(&id) => Ok(Fate::Pass(id, result.get())),
            (None, Some("notifications/cancelled"), _) => {
                let cancelled: Cancelled = serde_json::from_str(text)?;
                // Rmcp would drop the answer on its way, and nobody would know that it has come.
                let is_asked = cancelled.params.request_id.is_some_and(|id| self.asked.cancel(&id));
                Ok(if is_asked { Fate::Done } else { Fate::Read })
            }
            (Some(id), Some(method), _) if QUESTIONS.contains(&method) => Ok(Fate::Ask(id)),
            // What this means, and what the other may mean, only rmcp knows.
            (None, Some("notifications/subscriptions/acknowledged"), _) => Ok(Fate::Read),
            (None, Some(_), _) => {
                if let ServerJsonRpcMessage::Notification(notification) = serde_json::from_str(text)? {
                    (self.notices.0)(notification.notification);
                }
                Ok(Fate::Done)
            }
            _ => Ok(Fate::Read),
        }
    }

    /// Reads a message of a server, or several in one (2025-03-26). Notifications are not among them, as they are
    /// dealt with. Those that are requests have to be [admitted](Self::admit).
    pub(crate) fn decode(&self, text: &str) -> Result<Vec<ServerJsonRpcMessage>, serde_json::Error> {
        let text = &*self.hide(text);
        let Some(parts) = batch(text)? else {
            return self.decode_one(text).map(|message| message.into_iter().collect());
        };
        // What cannot be read of a batch is nobody's.
        let decoded = parts.into_iter().filter_map(|part| self.decode_one(part.get()).ok());
        Ok(decoded.flatten().collect())
    }

    fn decode_one(&self, text: &str) -> Result<Option<ServerJsonRpcMessage>, serde_json::Error> {
        let decoded = match self.sort(text) {
            Ok(Fate::Read) => serde_json::from_str(text).map(Some),
            Ok(Fate::Pass(id, result)) => {
                let result = CustomResult::new(Value::String(result.to_owned()));
                let result = ServerResult::CustomResult(result);
                Ok(Some(ServerJsonRpcMessage::response(result, id)))
            }
            Ok(Fate::Ask(id)) => {
                let question = CustomRequest::new(QUESTION, Some(json!({ "text": text })));
                let question = ServerRequest::CustomRequest(question);
                Ok(Some(ServerJsonRpcMessage::request(question, id)))
            }
            Ok(Fate::Done) => Ok(None),
            Err(error) => Err(error),
        };
        decoded.or_else(|error| match not_understood(text, &error) {
            Some(answer) => Ok(Some(answer)),
            None => Err(error),
        })
    }

    /// The same for the events of HTTP, which rmcp reads itself: writes messages anew so that it
    /// leaves results alone.
    pub(crate) fn wrap(&self, text: String) -> Vec<Wrapped> {
        let text = match self.hide(&text) {
            Cow::Owned(hidden) => hidden,
            Cow::Borrowed(_) => text,
        };
        match batch(&text) {
            Ok(Some(parts)) => {
                let parts = parts.into_iter();
                parts.filter_map(|part| self.wrap_one(part.get().to_owned())).collect()
            }
            Ok(None) | Err(_) => self.wrap_one(text).into_iter().collect(),
        }
    }

    fn wrap_one(&self, text: String) -> Option<Wrapped> {
        let answer = |text: String| Wrapped { text, request: None };
        let error = match self.sort(&text) {
            Ok(Fate::Read) => match serde_json::from_str(&text) {
                Ok(ServerJsonRpcMessage::Request(request)) => {
                    let request = Some(request.id);
                    return Some(Wrapped { text, request });
                }
                Ok(_) => return Some(answer(text)),
                Err(error) => error,
            },
            Ok(Fate::Pass(id, result)) => {
                let wrapped = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                return Some(answer(wrapped.to_string()));
            }
            Ok(Fate::Ask(id)) => {
                let params = json!({ "text": text });
                let wrapped = json!({ "jsonrpc": "2.0", "id": id, "method": QUESTION, "params": params });
                return Some(Wrapped {
                    text: wrapped.to_string(),
                    request: Some(id),
                });
            }
            Ok(Fate::Done) => return None,
            Err(error) => error,
        };
        let message = not_understood(&text, &error);
        // What is no message, rmcp leaves alone.
        let message = message.and_then(|message| serde_json::to_string(&message).ok());
        Some(answer(message.unwrap_or(text)))
    }

    /// Waits until there is room for a message, if it takes any; `false` if it is to be left out.
    pub(crate) async fn admit(&self, message: &ServerJsonRpcMessage, bytes: usize) -> bool {
        self.asked.admit(message, bytes).await
    }
}

/// The parts of a batch; nothing if it is none.
fn batch(text: &str) -> Result<Option<Vec<&RawValue>>, serde_json::Error> {
    match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).map(Some),
        false => Ok(None),
    }
}

/// An answer that cannot be read fails its request, which would wait for it in vain.
fn not_understood(text: &str, why: &serde_json::Error) -> Option<ServerJsonRpcMessage> {
    let id = Outline::of(text.as_bytes()).answers()?;
    let why: String = why.to_string().chars().take(MOST_REASON_CHARS).collect();
    let error = ErrorData::new(ErrorCode(NOT_UNDERSTOOD), why, None);
    Some(ServerJsonRpcMessage::error(error, Some(id)))
}

/// The text of a result that came through rmcp.
pub(crate) fn unwrap(result: ServerResult) -> Result<String, serde_json::Error> {
    match result {
        ServerResult::CustomResult(CustomResult(Value::String(text))) => Ok(text),
        other => serde_json::to_string(&other),
    }
}

/// The HTTP client for all servers out there.
#[cfg(test)]
pub(crate) fn http_client() -> Result<reqwest::Client, ConfigError> {
    http_client_for(&Url::parse("https://example.test").expect("an address"))
}

/// A client that is made once: making one is slow.
type OneClient = OnceLock<Result<reqwest::Client, ConfigError>>;

/// The HTTP client for an address of a server. There are three.
pub(crate) fn http_client_for(address: &Url) -> Result<reqwest::Client, ConfigError> {
    static CLIENTS: [OneClient; 3] = [const { OnceLock::new() }; 3];
    client_of(&CLIENTS, address, || {
        Policy::custom(|attempt: Attempt<'_>| {
            // Tokens and requests stay with the server they are for (T16, T21).
            let first = attempt.previous().first().map(Url::origin);
            if attempt.previous().len() > MOST_REDIRECTS || first != Some(attempt.url().origin()) {
                attempt.stop()
            } else {
                attempt.follow()
            }
        })
    })
}

/// The HTTP client for an address that is sent secrets: it goes there and nowhere else.
///
/// # Errors
///
/// When this machine has nothing to make encrypted connections with.
pub fn http_client_without_redirects(address: &Url) -> Result<reqwest::Client, ConfigError> {
    static CLIENTS: [OneClient; 3] = [const { OnceLock::new() }; 3];
    client_of(&CLIENTS, address, Policy::none)
}

fn client_of(
    [out_there, here_with_tls, here_without_tls]: &[OneClient; 3],
    address: &Url,
    redirects: impl Fn() -> Policy,
) -> Result<reqwest::Client, ConfigError> {
    let is_here = match address.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    // What is meant for this machine does not go through a proxy. Without TLS there is no need for
    // the system's certificates, which some machines lack.
    let here = || reqwest::Client::builder().no_proxy();
    let client = match (is_here, address.scheme()) {
        (false, _) => out_there.get_or_init(|| build(reqwest::Client::builder(), redirects())),
        (true, "http") => here_without_tls.get_or_init(|| build(here().tls_certs_only([]), redirects())),
        (true, _) => here_with_tls.get_or_init(|| build(here(), redirects())),
    };
    client.clone()
}

fn build(builder: reqwest::ClientBuilder, redirects: Policy) -> Result<reqwest::Client, ConfigError> {
    choose_cryptography();
    builder
        .user_agent(concat!("innkeeper/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIME)
        .retry(reqwest::retry::never())
        .redirect(redirects)
        .build()
        .map_err(|error| ConfigError::Http(error.without_url().to_string()))
}

/// Reqwest comes without a cryptography: ring it is, unless the program chose one before.
fn choose_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{"content":[],"new":{"field":1.10}}"#;

    fn messages() -> (Messages, Arc<Mutex<Vec<ServerNotification>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let take = seen.clone();
        let notices = Notices::new(move |notification| take.lock().push(notification));
        (Messages::new(notices, Arc::default(), None), seen)
    }

    #[test]
    fn results_pass_as_they_were_written() {
        let (messages, _) = messages();
        let text = format!(r#"{{"result":{RESULT},"jsonrpc":"2.0","id":3}}"#);
        // On a pipe, and in the events of HTTP, which rmcp reads.
        let wrapped = messages.wrap(text.clone()).pop().unwrap();
        let decoded = messages.decode(&text).unwrap().pop().unwrap();
        for message in [decoded, serde_json::from_str(&wrapped.text).unwrap()] {
            let ServerJsonRpcMessage::Response(response) = message else {
                panic!()
            };
            assert_eq!(response.id, RequestId::Number(3));
            assert_eq!(unwrap(response.result).unwrap(), RESULT);
        }
    }

    #[test]
    fn questions_pass_as_they_were_written() {
        let (messages, _) = messages();
        let text = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":
            {"properties":{"z":{"type":"string","enum":["b"],"default":"b"},"a":{"type":"number"}}}}}"#;
        let wrapped = messages.wrap(text.to_owned()).pop().unwrap();
        assert_eq!(wrapped.request, Some(RequestId::String("q".into())));
        let decoded = messages.decode(text).unwrap().pop().unwrap();
        for message in [decoded, serde_json::from_str(&wrapped.text).unwrap()] {
            let ServerJsonRpcMessage::Request(request) = message else {
                panic!()
            };
            let ServerRequest::CustomRequest(question) = request.request else {
                panic!()
            };
            assert_eq!(question.method, QUESTION);
            assert_eq!(question.params.unwrap()["text"], text);
        }
    }

    #[test]
    fn arguments_are_sent_digit_by_digit() {
        let exact = r#"{"z":123456789012345678901234567890,"a":1.10}"#;
        let params = json!({ "name": "t", "arguments": serde_json::from_str::<Value>(exact).unwrap(), "b": 1 });
        let mut custom = CustomRequest::new("tools/call", Some(params));
        let raw = RawValue::from_string(exact.to_owned()).unwrap();
        custom.extensions.insert(ExactArguments(Arc::from(raw)));
        let request = ClientRequest::CustomRequest(custom);
        let message = ClientJsonRpcMessage::request(request, RequestId::Number(4));
        let sent = encode(&message).unwrap();
        assert!(
            sent.contains(&format!(r#""params":{{"name":"t","arguments":{exact},"b":1}}"#)),
            "{sent}"
        );
        let read: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!(
            (&read["id"], &read["method"], &read["jsonrpc"]),
            (&json!(4), &json!("tools/call"), &json!("2.0"))
        );
    }

    #[test]
    fn handshakes_are_left_to_rmcp() {
        let (messages, _) = messages();
        messages.own.add(RequestId::Number(0));
        let text = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}}"#;
        let Some(ServerJsonRpcMessage::Response(response)) = messages.decode(text).unwrap().pop() else {
            panic!()
        };
        assert!(matches!(response.result, ServerResult::InitializeResult(_)));
    }

    #[test]
    fn errors_and_questions_are_read_and_notifications_are_taken() {
        let (messages, seen) = messages();
        let read = [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        ];
        for text in read {
            assert_eq!(messages.decode(text).unwrap().len(), 1, "{text}");
            let request = text.contains("roots/list").then_some(RequestId::Number(1));
            let text = text.to_owned();
            assert_eq!(messages.wrap(text.clone()), [Wrapped { text, request }]);
        }
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        assert!(messages.decode(changed).unwrap().is_empty());
        assert!(messages.wrap(changed.to_owned()).is_empty());
        let seen = seen.lock();
        assert!(
            matches!(seen[..], [ServerNotification::ToolListChangedNotification(_), _]),
            "{seen:?}"
        );
        assert!(messages.decode("hello").is_err());
    }

    #[test]
    fn several_messages_in_one_are_told_apart() {
        let (messages, seen) = messages();
        let text = r#" [{"jsonrpc":"2.0","id":1,"result":{}}, {"jsonrpc":"2.0","method":"notifications/tools/list_changed"},
            7, {"jsonrpc":"2.0","id":"a","method":"ping"}]"#;
        let decoded = messages.decode(text).unwrap();
        assert!(
            matches!(
                decoded[..],
                [ServerJsonRpcMessage::Response(_), ServerJsonRpcMessage::Request(_)]
            ),
            "{decoded:?}"
        );
        let wrapped = messages.wrap(text.to_owned());
        let requests: Vec<_> = wrapped.iter().filter_map(|part| part.request.clone()).collect();
        assert_eq!(requests, [RequestId::String("a".into())]);
        assert_eq!(seen.lock().len(), 2);
        assert!(messages.decode("[]").unwrap().is_empty());
    }

    #[test]
    fn an_answer_that_cannot_be_read_fails_its_request() {
        let (messages, _) = messages();
        let is_failure = |message: &ServerJsonRpcMessage| {
            matches!(message, ServerJsonRpcMessage::Error(error)
                if error.id == Some(RequestId::Number(3)) && error.error.code.0 == NOT_UNDERSTOOD)
        };
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"error":"oops"}"#,
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":"a"}}"#,
        ] {
            let decoded = messages.decode(text).unwrap();
            assert!(matches!(&decoded[..], [failure] if is_failure(failure)), "{decoded:?}");
            let wrapped = messages.wrap(text.to_owned()).pop().unwrap();
            let wrapped = serde_json::from_str(&wrapped.text).unwrap();
            assert!(is_failure(&wrapped), "{wrapped:?}");
        }
        // A request of the server's own may have the same id, and a line of a log is no answer.
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"method":7}"#,
            r#"{"id":3,"level":"info","message":"listening"}"#,
        ] {
            assert!(messages.decode(text).is_err(), "{text}");
        }
    }
}
