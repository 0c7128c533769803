//! JSON-RPC messages, read without trust in their shape.

use serde_json::{Value, json};

/// Error codes of JSON-RPC and of ACP.
pub mod code {
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// A parameter is missing or wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Something failed.
    pub const INTERNAL: i64 = -32603;
    /// The user has to sign in first.
    pub const AUTH_REQUIRED: i64 = -32000;
    /// The request was cancelled.
    pub const CANCELLED: i64 = -32800;
    /// The file or session does not exist.
    pub const NOT_FOUND: i64 = -32002;
}

/// A message of the other end.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// A message that wants no answer.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Value,
    },
    /// A request, with the id that its answer has to name.
    Request {
        /// The id.
        id: Value,
        /// The method.
        method: String,
        /// The parameters.
        params: Value,
    },
    /// The answer to a request of ours.
    Answer {
        /// The id of the request.
        id: i64,
        /// The result.
        outcome: Result<Value, RpcError>,
    },
    /// The other end broke the protocol, and why.
    Broken(String),
}

/// An error of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The number, of JSON-RPC, ACP or the other end's own.
    pub code: i64,
    /// The sentence for users.
    pub message: String,
    /// Details.
    pub data: Option<Value>,
}

impl RpcError {
    /// Creates an error without details.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }

    /// Returns the message with the details that some programs put beside it.
    pub fn in_words(&self) -> String {
        let details = self.data.as_ref().and_then(|data| {
            let text = data.as_str();
            let field = |name: &str| data.get(name).and_then(Value::as_str);
            text.or_else(|| field("details"))
                .or_else(|| field("message"))
                .or_else(|| field("reason"))
        });
        match details {
            Some(details) if !self.message.contains(details) => format!("{}: {details}", self.message),
            _ => self.message.clone(),
        }
    }
}

/// Reads a line. Lines that are no messages are left out: programs print to their output by mistake.
pub(crate) fn parse(line: &[u8]) -> Vec<Incoming> {
    match serde_json::from_slice::<Value>(line) {
        Ok(Value::Array(batch)) => batch.into_iter().filter_map(message).collect(),
        Ok(value) => message(value).into_iter().collect(),
        Err(_) if line.iter().all(u8::is_ascii_whitespace) => Vec::new(),
        Err(error) => {
            tracing::debug!(%error, bytes = line.len(), "the other end printed a line that is no message");
            Vec::new()
        }
    }
}

fn message(mut value: Value) -> Option<Incoming> {
    let message = value.as_object_mut()?;
    let id = message.remove("id").filter(|id| !id.is_null());
    let method = message.remove("method");
    let params = message.remove("params").unwrap_or(Value::Null);
    match (method, id) {
        (Some(Value::String(method)), Some(id)) => Some(Incoming::Request { id, method, params }),
        (Some(Value::String(method)), None) => Some(Incoming::Notification { method, params }),
        (_, Some(id)) => {
            // Some agents send the id back as text.
            let id = id.as_i64().or_else(|| id.as_str()?.parse().ok())?;
            let outcome = match message.remove("error").filter(|error| !error.is_null()) {
                Some(error) => Err(read_error(error)),
                None => Ok(message.remove("result").unwrap_or(Value::Null)),
            };
            Some(Incoming::Answer { id, outcome })
        }
        (_, None) => None,
    }
}

fn read_error(mut error: Value) -> RpcError {
    let data = error.as_object_mut().and_then(|error| error.remove("data"));
    let message = error.get("message").and_then(Value::as_str);
    RpcError {
        code: error.get("code").and_then(Value::as_i64).unwrap_or(code::INTERNAL),
        message: message.unwrap_or("unknown error").to_owned(),
        data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_messages_are_read() {
        assert_eq!(parse(b"not JSON"), []);
        assert_eq!(parse(b"42"), []);
        assert_eq!(parse(b"{\"jsonrpc\":\"2.0\",\"error\":{}}"), []);
        let answer = parse(br#"{"id":"7","result":1,"error":null}"#);
        assert_eq!(
            answer,
            [Incoming::Answer {
                id: 7,
                outcome: Ok(json!(1))
            }]
        );
        let refused = parse(br#"{"id":7,"error":{"code":400,"message":"no","data":{"details":"bad key"}}}"#);
        let [
            Incoming::Answer {
                outcome: Err(error), ..
            },
        ] = &refused[..]
        else {
            panic!("{refused:?}");
        };
        assert_eq!((error.code, error.in_words().as_str()), (400, "no: bad key"));
        let expected = json!({ "code": 400, "message": "no", "data": { "details": "bad key" } });
        assert_eq!(error.to_json(), expected);
    }
}
