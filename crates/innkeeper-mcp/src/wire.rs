//! Below the protocol: bytes of servers, as the messages that rmcp takes.
//!
//! Here every message has a bound, and results pass unread. The typed models of rmcp leave out
//! fields they do not know, and try a result against every kind of result there is. So the result of
//! a request that this crate sends travels through rmcp as one string, and is read where it is
//! wanted; only the handshakes, which rmcp makes itself, are left to its types. Notifications do not
//! pass through it at all.

mod client;
mod failure;
mod http;
mod line;
mod process;
mod program;
mod sse;
mod stdio;
mod tail;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerResult,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

pub(crate) use self::client::HttpClient;
pub(crate) use self::failure::{Challenged, HttpFailure};
pub(crate) use self::http::StreamableHttp;
pub(crate) use self::process::Process;
pub(crate) use self::sse::SseTransport;
pub(crate) use self::stdio::StdioTransport;
use crate::auth::Credentials;
use crate::error::ConfigError;

/// The code of errors that are made here for answers that are too large.
pub(crate) const TOO_LARGE: i32 = -32099;

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    fn take(&self, id: &RequestId) -> bool {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    notices: Notices,
    /// Whose token is in no message, whatever the server writes into it.
    credentials: Option<Arc<Credentials>>,
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

/// What becomes of a message.
enum Fate<'a> {
    /// Rmcp reads it.
    Read,
    /// It is the result of a request that was sent here.
    Pass(RequestId, &'a str),
    /// It was a notification, and is dealt with; or nobody wants it.
    Done,
}

impl Messages {
    pub(crate) fn new(notices: Notices, credentials: Option<Arc<Credentials>>) -> Self {
        Self {
            own: Arc::default(),
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
            // What these two mean, only rmcp knows.
            (None, Some("notifications/cancelled" | "notifications/subscriptions/acknowledged"), _) => Ok(Fate::Read),
            (None, Some(_), _) => {
                if let ServerJsonRpcMessage::Notification(notification) = serde_json::from_str(text)? {
                    (self.notices.0)(notification.notification);
                }
                Ok(Fate::Done)
            }
            _ => Ok(Fate::Read),
        }
    }

    /// Reads a message of a server; nothing if it was a notification, which is dealt with.
    pub(crate) fn decode(&self, text: &str) -> Result<Option<ServerJsonRpcMessage>, serde_json::Error> {
        let text = &*self.hide(text);
        match self.sort(text)? {
            Fate::Read => serde_json::from_str(text).map(Some),
            Fate::Pass(id, result) => {
                let result = CustomResult::new(Value::String(result.to_owned()));
                let result = ServerResult::CustomResult(result);
                Ok(Some(ServerJsonRpcMessage::response(result, id)))
            }
            Fate::Done => Ok(None),
        }
    }

    /// The same for the events of HTTP, which rmcp reads itself: writes a message anew so that it
    /// leaves a result alone.
    pub(crate) fn wrap(&self, text: String) -> Option<String> {
        let text = match self.hide(&text) {
            Cow::Owned(hidden) => hidden,
            Cow::Borrowed(_) => text,
        };
        match self.sort(&text) {
            Ok(Fate::Read) | Err(_) => Some(text),
            Ok(Fate::Pass(id, result)) => {
                let wrapped = serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": result });
                Some(wrapped.to_string())
            }
            Ok(Fate::Done) => None,
        }
    }
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
        let notices = Notices::new(move |notification| take.lock().unwrap().push(notification));
        (Messages::new(notices, None), seen)
    }

    #[test]
    fn results_pass_as_they_were_written() {
        let (messages, _) = messages();
        let text = format!(r#"{{"result":{RESULT},"jsonrpc":"2.0","id":3}}"#);
        // On a pipe, and in the events of HTTP, which rmcp reads.
        let wrapped = messages.wrap(text.clone()).unwrap();
        let decoded = messages.decode(&text).unwrap().unwrap();
        for message in [decoded, serde_json::from_str(&wrapped).unwrap()] {
            let ServerJsonRpcMessage::Response(response) = message else {
                panic!()
            };
            assert_eq!(response.id, RequestId::Number(3));
            assert_eq!(unwrap(response.result).unwrap(), RESULT);
        }
    }

    #[test]
    fn handshakes_are_left_to_rmcp() {
        let (messages, _) = messages();
        messages.own.add(RequestId::Number(0));
        let text = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}}"#;
        let Some(ServerJsonRpcMessage::Response(response)) = messages.decode(text).unwrap() else {
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
            assert!(messages.decode(text).unwrap().is_some(), "{text}");
            assert_eq!(messages.wrap(text.to_owned()).as_deref(), Some(text));
        }
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        assert!(messages.decode(changed).unwrap().is_none());
        assert!(messages.wrap(changed.to_owned()).is_none());
        let seen = seen.lock().unwrap();
        assert!(
            matches!(seen[..], [ServerNotification::ToolListChangedNotification(_), _]),
            "{seen:?}"
        );
        assert!(messages.decode("hello").is_err());
    }
}
