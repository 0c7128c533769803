//! The questions of servers: for a model, or for a user.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot, watch};

use crate::engine::state::CallId;

/// The number of questions of one server that can be open at once.
const MAX_OPEN: usize = 16;

/// A question of a server. Dropping it declines it.
#[derive(Debug)]
pub struct Ask {
    /// The server.
    pub server: String,
    /// The call that it belongs to, if that is known.
    pub call: Option<CallId>,
    /// The question.
    pub question: Question,
    answer: oneshot::Sender<AskOutcome>,
}

/// A question of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Question {
    /// `sampling/createMessage`: a request for a model, with these parameters.
    Sampling(Value),
    /// `elicitation/create`: a form for a user.
    Form {
        /// The message of the server.
        message: String,
        /// The fields, as a JSON schema.
        schema: Value,
    },
    /// `elicitation/create`: an address for a user to visit. Nothing is opened without asking.
    Url {
        /// The message of the server.
        message: String,
        /// The address.
        url: String,
        /// The id of the server for it.
        id: Option<String>,
    },
}

/// An answer to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum AskOutcome {
    /// The result of `sampling/createMessage`.
    Sampled(Value),
    /// A user accepted, with the fields of the form.
    Accepted(Option<Value>),
    /// A user, or the host, declined.
    Declined,
    /// A user dismissed the question.
    Cancelled,
    /// It cannot be answered.
    Refused {
        /// The JSON-RPC code.
        code: i32,
        /// The reason, for the server.
        message: String,
    },
}

impl Ask {
    /// Answers. The server may not wait any more; that is no error.
    pub fn answer(self, answer: AskOutcome) {
        let _ = self.answer.send(answer);
    }

    /// Returns true if the server does not wait for the answer any more.
    pub fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }

    /// Waits until the server does not wait for the answer any more.
    pub async fn gone(&mut self) {
        self.answer.closed().await;
    }
}

/// Takes questions. It must not block: it hands them on.
#[derive(Clone)]
pub struct AskSink(Arc<dyn Fn(Ask) + Send + Sync>);

impl AskSink {
    /// Wraps a function that takes questions.
    pub fn new(take: impl Fn(Ask) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    fn take(&self, ask: Ask) {
        (self.0)(ask);
    }
}

impl fmt::Debug for AskSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskSink")
    }
}

/// A directory that a server may work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its `file:` URI.
    pub uri: String,
    /// Its name for users.
    pub name: Option<String>,
}

/// Why a question got no answer, as the server is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// Questions of this kind are not answered.
    UnknownMethod,
    /// Too many questions are open.
    TooMany,
    /// A user declined.
    Declined,
    /// It is invalid, or failed.
    Refused { code: i32, message: String },
}

/// Answers the questions of one server.
#[derive(Debug)]
pub(crate) struct QuestionHandler {
    server: String,
    sink: Option<AskSink>,
    roots: watch::Receiver<Vec<Root>>,
    time: Duration,
    room: Semaphore,
}

impl QuestionHandler {
    pub(crate) fn new(
        server: String,
        sink: Option<AskSink>,
        roots: watch::Receiver<Vec<Root>>,
        time: Duration,
    ) -> Self {
        Self {
            server,
            sink,
            roots,
            time,
            room: Semaphore::new(MAX_OPEN),
        }
    }

    /// Answers a question, or asks the sink. The sink of the call comes first.
    pub(crate) async fn answer(
        &self,
        method: &str,
        params: &Value,
        call: Option<(CallId, Option<AskSink>)>,
    ) -> Result<Value, NoAnswer> {
        let question = match method {
            "roots/list" => return Ok(self.roots()),
            "sampling/createMessage" => Question::Sampling(params.clone()),
            "elicitation/create" => elicitation(params),
            _ => return Err(NoAnswer::UnknownMethod),
        };
        let Ok(_room) = self.room.try_acquire() else {
            return Err(NoAnswer::TooMany);
        };
        let is_sampling = matches!(question, Question::Sampling(_));
        let (call, sink) = call.map_or((None, None), |(call, sink)| (Some(call), sink));
        let answer = match sink.as_ref().or(self.sink.as_ref()) {
            Some(sink) => self.ask(sink, call, question).await,
            None => AskOutcome::Declined,
        };
        match answer {
            AskOutcome::Sampled(result) if is_sampling => Ok(result),
            AskOutcome::Accepted(content) if !is_sampling => Ok(match content {
                Some(content) => json!({ "action": "accept", "content": content }),
                None => json!({ "action": "accept" }),
            }),
            AskOutcome::Refused { code, message } => Err(NoAnswer::Refused { code, message }),
            _ if is_sampling => Err(NoAnswer::Declined),
            AskOutcome::Cancelled => Ok(json!({ "action": "cancel" })),
            AskOutcome::Declined | AskOutcome::Sampled(_) | AskOutcome::Accepted(_) => {
                Ok(json!({ "action": "decline" }))
            }
        }
    }

    async fn ask(&self, sink: &AskSink, call: Option<CallId>, question: Question) -> AskOutcome {
        let (answer, answered) = oneshot::channel();
        sink.take(Ask {
            server: self.server.clone(),
            call,
            question,
            answer,
        });
        match tokio::time::timeout(self.time, answered).await {
            Ok(answer) => answer.unwrap_or(AskOutcome::Declined),
            Err(_) => AskOutcome::Cancelled,
        }
    }

    fn roots(&self) -> Value {
        let roots = self.roots.borrow();
        let roots: Vec<Value> = roots
            .iter()
            .map(|root| match &root.name {
                Some(name) => json!({ "uri": root.uri, "name": name }),
                None => json!({ "uri": root.uri }),
            })
            .collect();
        json!({ "roots": roots })
    }
}

fn elicitation(params: &Value) -> Question {
    let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").unwrap_or_default();
    match text("url") {
        Some(url) => Question::Url {
            message,
            url,
            id: text("elicitationId"),
        },
        None => Question::Form {
            message,
            schema: params.get("requestedSchema").cloned().unwrap_or_else(|| json!({})),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(sink: impl Fn(Ask) + Send + Sync + 'static) -> QuestionHandler {
        let roots = vec![Root {
            uri: "file:///w".into(),
            name: Some("w".into()),
        }];
        let (_, roots) = watch::channel(roots);
        QuestionHandler::new("s".into(), Some(AskSink::new(sink)), roots, Duration::from_secs(5))
    }

    #[tokio::test]
    async fn dropping_a_question_declines_it() {
        let asker = asker(drop);
        let form = json!({ "message": "m", "requestedSchema": {} });
        let answer = asker.answer("elicitation/create", &form, None).await;
        assert_eq!(answer, Ok(json!({ "action": "decline" })));
        let sampled = asker.answer("sampling/createMessage", &json!({}), None).await;
        assert_eq!(sampled, Err(NoAnswer::Declined));
    }

    #[tokio::test]
    async fn answers_have_the_form_that_the_protocol_says() {
        let asker = asker(|ask| match &ask.question {
            Question::Sampling(_) => ask.answer(AskOutcome::Sampled(json!({ "role": "assistant" }))),
            Question::Form { .. } => ask.answer(AskOutcome::Accepted(Some(json!({ "a": 1 })))),
            Question::Url { .. } => ask.answer(AskOutcome::Cancelled),
        });
        let cases = [
            ("sampling/createMessage", json!({}), json!({ "role": "assistant" })),
            (
                "elicitation/create",
                json!({ "message": "m" }),
                json!({ "action": "accept", "content": { "a": 1 } }),
            ),
            (
                "elicitation/create",
                json!({ "mode": "url", "url": "https://a.test" }),
                json!({ "action": "cancel" }),
            ),
            (
                "roots/list",
                json!({}),
                json!({ "roots": [{ "uri": "file:///w", "name": "w" }] }),
            ),
        ];
        for (method, params, expected) in cases {
            assert_eq!(asker.answer(method, &params, None).await, Ok(expected));
        }
        assert_eq!(
            asker.answer("x/y", &json!({}), None).await,
            Err(NoAnswer::UnknownMethod)
        );
    }

    #[tokio::test]
    async fn the_sink_of_a_call_gets_its_questions() {
        let asker = asker(|_| panic!("the call is asked"));
        let own = AskSink::new(|ask| {
            assert!(ask.call.is_some());
            ask.answer(AskOutcome::Accepted(None));
        });
        let call = Some((CallId::new(), Some(own)));
        let answer = asker.answer("elicitation/create", &json!({}), call).await;
        assert_eq!(answer, Ok(json!({ "action": "accept" })));
    }

    #[tokio::test]
    async fn the_number_of_open_questions_is_bounded() {
        let open = Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = open.clone();
        let asker = Arc::new(asker(move |ask| keep.lock().unwrap().push(ask)));
        let asking: Vec<_> = (0..MAX_OPEN)
            .map(|_| {
                let asker = asker.clone();
                tokio::spawn(async move { asker.answer("elicitation/create", &json!({}), None).await })
            })
            .collect();
        while open.lock().unwrap().len() < MAX_OPEN {
            tokio::task::yield_now().await;
        }
        let one_more = asker.answer("elicitation/create", &json!({}), None).await;
        assert_eq!(one_more, Err(NoAnswer::TooMany));
        open.lock().unwrap().clear();
        for asked in asking {
            assert!(asked.await.unwrap().is_ok());
        }
    }
}
