//! JSON-RPC messages: what a server wrote, decoded as far as routing needs it, and what is sent to it.
//!
//! Results stay text. They are read by the code that knows which kind of result it asked for, and what it does not know
//! passes unchanged.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::json_rpc_peek::JsonRpcPeek;

/// The code of errors that are made here for answers that are too large.
pub(crate) const TOO_LARGE: i64 = -32099;
/// The code of errors that are made here for answers that cannot be read.
pub(crate) const NOT_UNDERSTOOD: i64 = -32098;

/// The longest reason why an answer cannot be read.
const MAX_REASON_CHARS: usize = 300;

/// The id of a request, or the token of its progress reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestId {
    Number(i64),
    Text(Box<str>),
}

impl RequestId {
    /// Returns the id as one of ours, which are numbers. Some servers answer with the number as text.
    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;

        impl Visitor<'_> for IdVisitor {
            type Value = RequestId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a string")
            }

            fn visit_i64<E>(self, number: i64) -> Result<RequestId, E> {
                Ok(RequestId::Number(number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<RequestId, E> {
                i64::try_from(number).map(RequestId::Number).map_err(E::custom)
            }

            fn visit_str<E>(self, text: &str) -> Result<RequestId, E> {
                Ok(RequestId::Text(text.into()))
            }
        }

        deserializer.deserialize_any(IdVisitor)
    }
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn too_large() -> Self {
        Self::new(TOO_LARGE, "too large")
    }
}

/// A message of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// The answer to a request of ours; a result is the text that the server wrote.
    Answer {
        id: Option<RequestId>,
        answer: Result<String, RpcError>,
    },
    /// A request of the server's own.
    Request {
        id: RequestId,
        method: String,
        params: Value,
    },
    /// A notification.
    Notification { method: String, params: Value },
}

/// The members of a message that tell which kind it is.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(default)]
    params: Option<Value>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// Reads a member that is there, also if it is `null`.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Decodes a message, or several in one (2025-03-26).
pub(crate) fn decode(text: &str) -> Result<Vec<Message>, serde_json::Error> {
    if !text.trim_start().starts_with('[') {
        return decode_one(text).map(|message| vec![message]);
    }
    let parts: Vec<&RawValue> = serde_json::from_str(text)?;
    // Parts that cannot be read belong to no request.
    Ok(parts
        .into_iter()
        .filter_map(|part| decode_one(part.get()).ok())
        .collect())
}

fn decode_one(text: &str) -> Result<Message, serde_json::Error> {
    let error = match read_envelope(text) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    // An answer that cannot be read fails its request, which would wait for it until its time is over.
    let Some(id) = JsonRpcPeek::of(text.as_bytes()).answered() else {
        return Err(error);
    };
    let reason: String = error.to_string().chars().take(MAX_REASON_CHARS).collect();
    Ok(Message::Answer {
        id: Some(RequestId::Number(id)),
        answer: Err(RpcError::new(NOT_UNDERSTOOD, reason)),
    })
}

fn read_envelope(text: &str) -> Result<Message, serde_json::Error> {
    let envelope: Envelope<'_> = serde_json::from_str(text)?;
    // Servers print lines of JSON that are no messages: a method alone proves nothing.
    let is_rpc = envelope.jsonrpc.as_deref() == Some("2.0");
    let params = envelope.params.unwrap_or_default();
    match (envelope.method, envelope.id, envelope.result, envelope.error) {
        (Some(method), Some(id), ..) if is_rpc => Ok(Message::Request {
            id,
            method: method.into_owned(),
            params,
        }),
        (Some(method), None, ..) if is_rpc => Ok(Message::Notification {
            method: method.into_owned(),
            params,
        }),
        (None, Some(id), Some(result), None) => Ok(Message::Answer {
            id: Some(id),
            answer: Ok(result.get().to_owned()),
        }),
        (None, id, _, Some(error)) => Ok(Message::Answer { id, answer: Err(error) }),
        _ => Err(serde_json::Error::custom("not a JSON-RPC message")),
    }
}

/// A message to a server.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) body: Arc<str>,
    pub(crate) kind: OutgoingKind,
    /// The protocol revision that requests over HTTP name in a header, once it is known.
    pub(crate) version: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
pub(crate) enum OutgoingKind {
    Request {
        id: i64,
        method: Arc<str>,
        params: Arc<Map<String, Value>>,
    },
    Notification {
        method: Arc<str>,
    },
    /// The answer to a request of the server.
    Answer,
}

impl Outgoing {
    /// Encodes a request. `exact_arguments` takes the place of `arguments`, whose numbers may have lost digits.
    pub(crate) fn request(
        id: i64,
        method: &str,
        params: Map<String, Value>,
        exact_arguments: Option<&RawValue>,
        version: Option<Arc<str>>,
    ) -> Self {
        let body = Body {
            id: Some(&RequestId::Number(id)),
            method: Some(method),
            params: Some(Params {
                members: &params,
                exact_arguments,
            }),
            ..Body::default()
        };
        Self {
            body: body.encode(),
            kind: OutgoingKind::Request {
                id,
                method: method.into(),
                params: Arc::new(params),
            },
            version,
        }
    }

    pub(crate) fn notification(method: &str, params: Option<&Map<String, Value>>, version: Option<Arc<str>>) -> Self {
        let params = params.map(|members| Params {
            members,
            exact_arguments: None,
        });
        let body = Body {
            method: Some(method),
            params,
            ..Body::default()
        };
        Self {
            body: body.encode(),
            kind: OutgoingKind::Notification { method: method.into() },
            version,
        }
    }

    pub(crate) fn answer(id: &RequestId, answer: &Result<Value, RpcError>, version: Option<Arc<str>>) -> Self {
        let body = Body {
            id: Some(id),
            result: answer.as_ref().ok(),
            error: answer.as_ref().err(),
            ..Body::default()
        };
        Self {
            body: body.encode(),
            kind: OutgoingKind::Answer,
            version,
        }
    }
}

#[derive(Default)]
struct Body<'a> {
    id: Option<&'a RequestId>,
    method: Option<&'a str>,
    params: Option<Params<'a>>,
    result: Option<&'a Value>,
    error: Option<&'a RpcError>,
}

impl Body<'_> {
    fn encode(&self) -> Arc<str> {
        let text = serde_json::to_string(self);
        text.expect("maps with string keys can be written as JSON").into()
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("jsonrpc", "2.0")?;
        if let Some(id) = self.id {
            body.serialize_entry("id", id)?;
        }
        if let Some(method) = self.method {
            body.serialize_entry("method", method)?;
        }
        if let Some(params) = &self.params {
            body.serialize_entry("params", params)?;
        }
        if let Some(result) = self.result {
            body.serialize_entry("result", result)?;
        }
        if let Some(error) = self.error {
            body.serialize_entry("error", error)?;
        }
        body.end()
    }
}

struct Params<'a> {
    members: &'a Map<String, Value>,
    exact_arguments: Option<&'a RawValue>,
}

impl Serialize for Params<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut params = serializer.serialize_map(Some(self.members.len()))?;
        for (name, value) in self.members {
            match self.exact_arguments {
                Some(exact) if name == "arguments" => params.serialize_entry(name, exact)?,
                _ => params.serialize_entry(name, value)?,
            }
        }
        params.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(id: i64, answer: Result<&str, RpcError>) -> Message {
        Message::Answer {
            id: Some(RequestId::Number(id)),
            answer: answer.map(str::to_owned),
        }
    }

    #[test]
    fn results_are_kept_as_they_were_written() {
        for result in [r#"{"content":[],"new":{"field":1.10}}"#, "null"] {
            let text = format!(r#"{{"result":{result},"jsonrpc":"2.0","id":3}}"#);
            assert_eq!(decode(&text).unwrap(), [answer(3, Ok(result))]);
        }
    }

    #[test]
    fn requests_keep_the_order_of_their_members() {
        let text = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"z":1.10,"a":{"y":2,"b":3}}}"#;
        let found = decode(text).unwrap().pop();
        let Some(Message::Request { id, method, params }) = found else {
            panic!("{found:?}")
        };
        assert_eq!(
            (id, method.as_str()),
            (RequestId::Text("q".into()), "elicitation/create")
        );
        assert_eq!(params.to_string(), r#"{"z":1.1,"a":{"y":2,"b":3}}"#);
    }

    #[test]
    fn arguments_are_sent_digit_by_digit() {
        let exact = r#"{"z":123456789012345678901234567890,"a":1.10}"#;
        let params = json!({ "name": "t", "arguments": serde_json::from_str::<Value>(exact).unwrap(), "b": 1 });
        let raw = RawValue::from_string(exact.to_owned()).unwrap();
        let params = params.as_object().cloned().unwrap();
        let sent = Outgoing::request(4, "tools/call", params, Some(&raw), None);
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"t","arguments":{exact},"b":1}}}}"#
        );
        assert_eq!(&*sent.body, expected);
    }

    #[test]
    fn notifications_and_answers_are_encoded() {
        let sent = Outgoing::notification("notifications/initialized", None, None);
        assert_eq!(&*sent.body, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let id = RequestId::Text("a".into());
        let sent = Outgoing::answer(&id, &Ok(json!({})), None);
        assert_eq!(&*sent.body, r#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
        let sent = Outgoing::answer(&id, &Err(RpcError::new(-1, "no")), None);
        assert_eq!(
            &*sent.body,
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"no"}}"#
        );
    }

    #[test]
    fn errors_requests_and_notifications_are_decoded() {
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;
        assert_eq!(decode(error).unwrap(), [answer(1, Err(RpcError::new(-32602, "no")))]);
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
        assert!(matches!(decode(request).unwrap()[..], [Message::Request { .. }]));
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert!(matches!(
            decode(notification).unwrap()[..],
            [Message::Notification { .. }]
        ));
        assert!(decode("hello").is_err());
    }

    #[test]
    fn a_batch_is_split_and_its_unreadable_parts_are_skipped() {
        let text = r#" [{"jsonrpc":"2.0","id":1,"result":{}}, {"jsonrpc":"2.0","method":"notifications/tools/list_changed"},
            7, {"jsonrpc":"2.0","id":"a","method":"ping"}]"#;
        let found = decode(text).unwrap();
        assert!(
            matches!(
                found[..],
                [
                    Message::Answer { .. },
                    Message::Notification { .. },
                    Message::Request { .. }
                ]
            ),
            "{found:?}"
        );
        assert!(decode("[]").unwrap().is_empty());
    }

    #[test]
    fn an_answer_that_cannot_be_read_fails_its_request() {
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"error":"oops"}"#,
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":"a"}}"#,
        ] {
            let found = decode(text).unwrap();
            assert!(
                matches!(&found[..], [Message::Answer { id: Some(RequestId::Number(3)), answer: Err(error) }]
                    if error.code == NOT_UNDERSTOOD),
                "{found:?}"
            );
        }
        // A request of the server's own may have the same id, and a line of a log is no answer.
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"method":7}"#,
            r#"{"id":3,"level":"info","message":"listening"}"#,
            r#"{"method":"GET","path":"/"}"#,
        ] {
            assert!(decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ids_that_are_numbers_as_text_are_ours() {
        assert_eq!(RequestId::Text("7".into()).number(), Some(7));
        assert_eq!(RequestId::Text("unknown".into()).number(), None);
    }
}
