//! Tool calls.

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
use self::content::ContentBudget;
use crate::engine::ask::AskSink;
use crate::engine::config::Limits;
use crate::engine::error::Error;
use crate::engine::server::{CallContext, ProgressSink, Request, Server};
use crate::engine::state::CallId;

/// A tool call. Dropping the future of [`Server::call`] cancels it as well.
#[derive(Clone, Debug)]
pub struct Call {
    /// The id in events and questions.
    pub id: CallId,
    /// The tool, as its server names it.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The arguments as JSON with all digits of their numbers, if the object may have lost some. This is what is sent.
    pub exact_arguments: Option<String>,
    /// `_meta` of the request.
    pub meta: Option<Map<String, Value>>,
    /// Cancels the call; the server is told.
    pub cancel: CancellationToken,
    /// Takes progress reports.
    pub progress: Option<ProgressSink>,
    /// Takes the questions of the server during this call.
    pub asks: Option<AskSink>,
    /// The session of the call, where sessions share a server. A question without a call is declined while calls of several
    /// sessions are under way.
    pub session: Option<Arc<str>>,
    /// The timeout without progress; by default the one of the limits.
    pub time: Option<Duration>,
}

impl Call {
    /// Returns a call with arguments.
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
        // Text that is no JSON is not sent.
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

/// The result of a tool. A tool that failed has a result; a call that could not be made has an [`Error`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallOutcome {
    /// True if the tool reports a failure.
    pub is_error: bool,
    /// The content, bounded.
    pub content: Vec<Content>,
    /// The structured content, unless it exceeds the bound.
    pub structured: Option<Value>,
    /// The structured content as the server wrote it, if it has numbers that the value does not hold exactly.
    pub exact_structured: Option<String>,
    /// `_meta` of the result, as the server wrote it.
    pub meta: Option<Map<String, Value>>,
    /// The whole result as JSON, if something was left out of the above.
    pub whole: Option<Bytes>,
}

impl CallOutcome {
    /// Returns all text of the result, for models that take nothing else.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Content::as_text).collect();
        texts.join("\n")
    }

    fn read(text: String, limits: &Limits) -> Result<Self, serde_json::Error> {
        let mut result: Value = serde_json::from_str(&text)?;
        let mut take = |field: &str| result.get_mut(field).map(Value::take).filter(|value| !value.is_null());
        let mut room = ContentBudget::new(limits);
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

/// The members of a result that show how it was written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
}

impl Written<'_> {
    /// Returns the structured content as text, if it has numbers that lose digits when they are read.
    fn exact(&self) -> Option<String> {
        let text = self.structured?.get();
        (!numbers_fit(text)).then(|| compact(text))
    }
}

impl Server {
    /// Calls a tool. It waits for a server that starts, and for a sign-in if one is needed
    /// ([`crate::Event::SignInNeeded`]).
    pub async fn call(&self, call: Call) -> Result<CallOutcome, Error> {
        let limits = &self.config().limits;
        let text = self.shared().request(call.into_request(limits)).await?;
        CallOutcome::read(text, limits).map_err(|error| Error::NotUnderstood {
            server: self.config().name.clone(),
            why: error.to_string(),
        })
    }
}
