//! Calls of tools.

mod content;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use innkeeper_host::mcp::{compact, numbers_fit};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use self::content::Content;
use self::content::Room;
use crate::engine::ask::AskSink;
use crate::engine::config::Limits;
use crate::engine::error::Error;
use crate::engine::server::{CallContext, ProgressSink, Request, Server};
use crate::engine::state::CallId;

/// A call of a tool. Dropping the future of [`Server::call`] cancels it as well.
#[derive(Clone, Debug)]
pub struct Call {
    /// What events and questions name it by.
    pub id: CallId,
    /// The tool, as its server calls it.
    pub tool: String,
    /// What it is given.
    pub arguments: Map<String, Value>,
    /// The same as JSON with all digits of its numbers, if the object may have lost some. It is what is sent.
    pub exact_arguments: Option<String>,
    /// `_meta` of the request.
    pub meta: Option<Map<String, Value>>,
    /// Cancels it; the server is told.
    pub cancel: CancellationToken,
    /// Takes reports of progress.
    pub progress: Option<ProgressSink>,
    /// Takes the questions that the server asks for it.
    pub asks: Option<AskSink>,
    /// On whose behalf it is made, where several share a server: what the server asks without saying for
    /// which call goes to nobody while calls of several are under way.
    pub session: Option<Arc<str>>,
    /// How long it may take without a sign of life; as the server's limits say, if it is not said.
    pub time: Option<Duration>,
}

impl Call {
    /// A call with arguments.
    pub fn new(tool: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self {
            id: CallId::new(),
            tool: tool.into(),
            arguments,
            exact_arguments: None,
            meta: None,
            cancel: CancellationToken::new(),
            progress: None,
            asks: None,
            session: None,
            time: None,
        }
    }

    fn into_request(self, limits: &Limits) -> Request {
        // What is no JSON is not sent.
        let exact = self.exact_arguments.and_then(|text| RawValue::from_string(text).ok());
        let mut params = Map::new();
        params.insert("name".to_owned(), Value::String(self.tool));
        params.insert("arguments".to_owned(), Value::Object(self.arguments));
        if let Some(meta) = self.meta {
            params.insert("_meta".to_owned(), Value::Object(meta));
        }
        Request {
            method: "tools/call".to_owned(),
            params,
            exact_arguments: exact.map(Arc::from),
            time: self.time.unwrap_or(limits.call_time),
            time_max: limits.call_time_max,
            cancel: self.cancel,
            call: Some(CallContext {
                id: self.id,
                asks: self.asks,
                session: self.session,
                progress: self.progress,
            }),
            is_of_app: false,
        }
    }
}

/// What a tool gave back. That it failed is a result as well; that it could not be asked is an
/// [`Error`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallOutcome {
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// What it gave back, within bounds.
    pub content: Vec<Content>,
    /// The same for programs, unless it is larger than what is shown.
    pub structured: Option<Value>,
    /// The same as it was written, if it has numbers that the value above does not hold exactly.
    pub exact_structured: Option<String>,
    /// `_meta` of the result, as it was written.
    pub meta: Option<Map<String, Value>>,
    /// The whole result as JSON, if something had to be left out of the above.
    pub whole: Option<Bytes>,
}

impl CallOutcome {
    /// All its text, for models that take nothing else.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Content::as_text).collect();
        texts.join("\n")
    }

    fn read(text: String, limits: &Limits) -> Result<Self, serde_json::Error> {
        let mut result: Value = serde_json::from_str(&text)?;
        let mut take = |field: &str| result.get_mut(field).map(Value::take).filter(|value| !value.is_null());
        let mut room = Room::new(limits);
        let content = match take("content") {
            Some(Value::Array(content)) => content.into_iter().map(|entry| room.content(entry)).collect(),
            _ => Vec::new(),
        };
        let structured = take("structuredContent").and_then(|structured| room.structured(structured));
        let exact_structured = match &structured {
            Some(_) => serde_json::from_str::<Written<'_>>(&text)?.exact(),
            None => None,
        };
        let meta = match take("_meta") {
            Some(Value::Object(meta)) => Some(meta),
            _ => None,
        };
        Ok(Self {
            is_error: take("isError").and_then(|flag| flag.as_bool()).unwrap_or_default(),
            content,
            structured,
            exact_structured,
            meta,
            whole: room.is_cut.then(|| Bytes::from(text)),
        })
    }
}

/// As much of a result as it takes to see how it was written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
}

impl Written<'_> {
    /// The text of the result for programs, if it has numbers that lose digits when they are read.
    fn exact(&self) -> Option<String> {
        let text = self.structured?.get();
        (!numbers_fit(text)).then(|| compact(text))
    }
}

impl Server {
    /// Calls a tool. It waits for a server that starts, and for somebody to sign in where that is
    /// needed ([`crate::Event::SignInNeeded`]).
    pub async fn call(&self, call: Call) -> Result<CallOutcome, Error> {
        let limits = &self.config().limits;
        let text = self.shared().request(call.into_request(limits)).await?;
        CallOutcome::read(text, limits).map_err(|error| Error::NotUnderstood {
            server: self.config().name.clone(),
            why: error.to_string(),
        })
    }
}
