//! JSON-RPC framing: one message of text in, one classified message out.
//!
//! The published `JsonRpcMessage` reads a request with a string, null, negative or fractional id
//! as a notification, so its sender waits without end. Here the envelope is read first, over raw
//! values, and every request gets an answer (TRN-12, TRN-13).

use std::borrow::Cow;

use innkeeper_core::{RequestId, RpcError, error::code};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::json_shape::{self, Shape};

/// Longest method name worth looking up.
const MAX_METHOD_BYTES: usize = 128;
/// Longest string id that is echoed.
const MAX_ID_BYTES: usize = 256;

/// A well-formed message. Parameters are still raw: they are parsed once, into their type.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants an answer.
    Request {
        /// To be echoed exactly.
        id: RequestId,
        /// The name of the method.
        method: Cow<'a, str>,
        /// With what.
        params: Option<&'a RawValue>,
    },
    /// Never gets one (TRN-04).
    Notification {
        /// The name of the notification.
        method: Cow<'a, str>,
        /// To what.
        params: Option<&'a RawValue>,
    },
    /// Answers a request of ours.
    Response {
        /// The id we chose.
        id: u64,
        /// The result, or the error object.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
    /// Answers no request of ours, such as an error without an id. It is ignored: a response is
    /// never answered.
    Stray,
}

/// A message that cannot be processed, and the answer it gets.
#[derive(Debug)]
pub struct Rejected {
    /// The id, when it could be read.
    pub id: Option<RequestId>,
    /// The error to answer with.
    pub error: RpcError,
}

impl Rejected {
    fn new(id: Option<RequestId>, error: RpcError) -> Self {
        Self { id, error }
    }

    fn invalid(id: Option<RequestId>, problem: impl Into<String>) -> Self {
        Self::new(id, RpcError::invalid_request(problem))
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Keeps `null` apart from absent: an id of null is not a notification.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one message.
///
/// ```
/// use innkeeper_host::rpc::{self, Message, Shape};
/// let text = r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
/// assert!(matches!(rpc::parse(text, Shape::default()), Ok(Message::Request { .. })));
/// ```
pub fn parse(text: &str, shape: Shape) -> Result<Message<'_>, Rejected> {
    if text.trim_start().starts_with('[') {
        return Err(match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Rejected::invalid(None, "JSON-RPC batches are not part of AHP; send one message at a time"),
            Err(error) => not_json(&error),
        });
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            let problem = innkeeper_core::decode::plain(&error);
            Rejected::invalid(None, format!("not a JSON-RPC message: {problem}"))
        }
        serde_json::error::Category::Syntax | serde_json::error::Category::Eof | serde_json::error::Category::Io => {
            not_json(&error)
        }
    })?;
    let id = envelope.id.map(read_id);
    let readable_id = match &id {
        Some(Ok(id)) => Some(id.clone()),
        Some(Err(_)) | None => None,
    };
    json_shape::check(text, shape).map_err(|problem| Rejected::invalid(readable_id.clone(), problem))?;
    if envelope.jsonrpc.map(RawValue::get) != Some(r#""2.0""#) {
        return Err(Rejected::invalid(readable_id, r#"the member jsonrpc must be "2.0""#));
    }
    let Some(method) = envelope.method else {
        return response(&envelope, readable_id);
    };
    if envelope.result.is_some() || envelope.error.is_some() {
        return Err(Rejected::invalid(
            readable_id,
            "a message has either a method or a result or error, not both",
        ));
    }
    let method: Cow<'_, str> = match read_string(method) {
        Some(method) => method,
        None => return Err(Rejected::invalid(readable_id, "the member method must be a string")),
    };
    if method.len() > MAX_METHOD_BYTES {
        return Err(Rejected::new(readable_id, RpcError::method_not_found(&method)));
    }
    match id {
        Some(Ok(id)) => Ok(Message::Request {
            id,
            method,
            params: envelope.params,
        }),
        Some(Err((echo, problem))) => Err(Rejected::invalid(echo, problem)),
        None => Ok(Message::Notification {
            method,
            params: envelope.params,
        }),
    }
}

fn response<'a>(envelope: &Envelope<'a>, readable_id: Option<RequestId>) -> Result<Message<'a>, Rejected> {
    let outcome = match (envelope.result, envelope.error) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(error),
        (Some(_), Some(_)) => {
            return Err(Rejected::invalid(
                readable_id,
                "a response has a result or an error, not both",
            ));
        }
        (None, None) => return Err(Rejected::invalid(readable_id, "the member method is missing")),
    };
    // Our own ids are non-negative integers (TRN-11), so anything else answers nothing of ours.
    Ok(match envelope.id.and_then(|id| id.get().parse().ok()) {
        Some(id) => Message::Response { id, outcome },
        None => Message::Stray,
    })
}

/// An id that can be echoed and whose answer the sender will recognise; otherwise the problem,
/// with the id to echo if it is at least a number.
fn read_id(raw: &RawValue) -> Result<RequestId, (Option<RequestId>, &'static str)> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') if text.len() <= MAX_ID_BYTES => Ok(RequestId::from_raw(raw.to_owned())),
        Some(b'"') => Err((None, "a string id has at most 256 bytes")),
        Some(b'0'..=b'9') if text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 20 => {
            Ok(RequestId::from_raw(raw.to_owned()))
        }
        Some(b'0'..=b'9' | b'-') if text.len() <= 64 => Err((
            Some(RequestId::from_raw(raw.to_owned())),
            "an id is a non-negative integer or a string",
        )),
        _ => Err((None, "an id is a non-negative integer or a string")),
    }
}

fn read_string(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

fn not_json(error: &serde_json::Error) -> Rejected {
    Rejected::new(None, RpcError::new(code::PARSE_ERROR, format!("not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> String {
        match parse(text, Shape::default()) {
            Ok(Message::Request { id, method, .. }) => format!("request {} {method}", id.as_json()),
            Ok(Message::Notification { method, .. }) => format!("notification {method}"),
            Ok(Message::Response { id, outcome }) => {
                format!("response {id} {}", if outcome.is_ok() { "ok" } else { "error" })
            }
            Ok(Message::Stray) => "ignored".to_owned(),
            Err(rejected) => format!(
                "{} {}",
                rejected.error.code,
                rejected.id.as_ref().map_or("null", RequestId::as_json)
            ),
        }
    }

    #[test]
    fn every_kind_of_message_is_told_apart() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping"),
            (
                r#"{"jsonrpc":"2.0","id":"a\"b","method":"ping"}"#,
                r#"request "a\"b" ping"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#,
                "request 18446744073709551615 ping",
            ),
            (
                r#"{"jsonrpc":"2.0","method":"unsubscribe","params":{}}"#,
                "notification unsubscribe",
            ),
            (r#"{"jsonrpc":"2.0","method":"p\u0069ng","id":2}"#, "request 2 ping"),
            (r#"{"jsonrpc":"2.0","id":3,"result":null}"#, "response 3 ok"),
            (
                r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":""}}"#,
                "response 3 error",
            ),
            (
                r#" {"jsonrpc":"2.0","id":1,"method":"ping","extra":[{}]} "#,
                "request 1 ping",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }

    /// Two programs that answer each other's errors would never stop (TRN-04).
    #[test]
    fn trn13_a_response_that_answers_nothing_is_ignored() {
        for text in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}}"#,
            r#"{"jsonrpc":"2.0","id":"a","result":1}"#,
            r#"{"jsonrpc":"2.0","id":-1,"result":1}"#,
        ] {
            assert_eq!(outcome(text), "ignored", "{text}");
        }
    }

    /// (TRN-10, TRN-12)
    #[test]
    fn trap_1_a_request_with_an_odd_id_is_answered_and_never_a_notification() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 null"),
            (r#"{"jsonrpc":"2.0","id":-1,"method":"ping"}"#, "-32600 -1"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "-32600 1.5"),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "-32600 null"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, "-32600 null"),
            (
                r#"{"jsonrpc":"2.0","id":99999999999999999999999,"method":"ping"}"#,
                "-32600 99999999999999999999999",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "-32600 null"),
        ];
        for (text, expected) in cases {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }

    #[test]
    fn trn13_bad_messages_get_the_exact_code() {
        let cases = [
            ("", "-32700 null"),
            ("{", "-32700 null"),
            ("nonsense", "-32700 null"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} trailing"#, "-32700 null"),
            ("[]", "-32600 null"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "-32600 null"),
            ("[", "-32700 null"),
            ("5", "-32600 null"),
            ("null", "-32600 null"),
            (r#""text""#, "-32600 null"),
            ("{}", "-32600 null"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "-32600 1"),
            (r#"{"id":1,"method":"ping"}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, "-32600 1"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#,
                "-32600 null",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":1}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, "-32600 1"),
        ];
        for (text, expected) in cases {
            assert_eq!(outcome(text), expected, "{text}");
        }
        let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "m".repeat(200));
        assert_eq!(outcome(&long), "-32601 1");
    }

    #[test]
    fn deep_and_wide_json_is_refused_with_its_id() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{}{}}}"#,
            "[".repeat(100),
            "]".repeat(100)
        );
        assert_eq!(outcome(&deep), "-32600 7");
        let very_deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert_eq!(outcome(&very_deep), "-32600 7");
        let wide = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":[{}1]}}"#,
            "1,".repeat(100_001)
        );
        assert_eq!(outcome(&wide), "-32600 7");
    }
}
