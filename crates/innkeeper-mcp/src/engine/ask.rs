//! What servers ask: a model's words, or a person's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot, watch};

use crate::engine::state::CallId;

/// How many questions of one server can be open at once.
const MOST_OPEN: usize = 16;

/// A question of a server. Dropped, it is declined.
#[derive(Debug)]
pub struct Ask {
    /// Who asks.
    pub server: String,
    /// The call that it asks for, as far as that can be told.
    pub call: Option<CallId>,
    /// What it asks.
    pub question: Question,
    answer: oneshot::Sender<Answer>,
}

/// What a server asks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Question {
    /// `sampling/createMessage`: a model should go on. These are its parameters.
    Sampling(Value),
    /// `elicitation/create`: a person should fill in a form.
    Form {
        /// What the server says.
        message: String,
        /// The fields, as a JSON schema.
        schema: Value,
    },
    /// `elicitation/create`: a person should visit an address. Nothing is opened without asking.
    Url {
        /// What the server says.
        message: String,
        /// The address.
        url: String,
        /// What the server calls it.
        id: Option<String>,
    },
}

/// An answer to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The result of `sampling/createMessage`.
    Sampled(Value),
    /// A person said yes, with the fields of the form.
    Accepted(Option<Value>),
    /// A person, or the host, said no.
    Declined,
    /// A person wanted nothing to do with it.
    Cancelled,
    /// It cannot be answered, for this reason.
    Refused {
        /// The code of JSON-RPC.
        code: i32,
        /// In words for the server.
        message: String,
    },
}

impl Ask {
    /// Answers. Whoever asked may have gone away meanwhile; that is no error.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }

    /// Waits until nobody waits for the answer any more.
    pub async fn gone(&mut self) {
        self.answer.closed().await;
    }
}

/// Takes questions. It must not wait: it hands them on.
#[derive(Clone)]
pub struct AskSink(Arc<dyn Fn(Ask) + Send + Sync>);

impl AskSink {
    /// Hands questions to a function.
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
    /// Its `file:` address.
    pub uri: String,
    /// What people call it.
    pub name: Option<String>,
}

/// Why a question got no answer, as the server is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// Nothing of this kind is answered here.
    UnknownMethod,
    /// Too many questions are open.
    TooMany,
    /// Somebody said no.
    Declined,
    /// It makes no sense, or went wrong.
    Refused { code: i32, message: String },
}

/// Answers the questions of one server.
#[derive(Debug)]
pub(crate) struct Asker {
    server: String,
    sink: Option<AskSink>,
    roots: watch::Receiver<Vec<Root>>,
    time: Duration,
    room: Semaphore,
}

impl Asker {
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
            room: Semaphore::new(MOST_OPEN),
        }
    }

    /// Answers, or has somebody answer. A call that brought a sink of its own is asked first.
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
            None => Answer::Declined,
        };
        match answer {
            Answer::Sampled(result) if is_sampling => Ok(result),
            Answer::Accepted(content) if !is_sampling => Ok(match content {
                Some(content) => json!({ "action": "accept", "content": content }),
                None => json!({ "action": "accept" }),
            }),
            Answer::Refused { code, message } => Err(NoAnswer::Refused { code, message }),
            _ if is_sampling => Err(NoAnswer::Declined),
            Answer::Cancelled => Ok(json!({ "action": "cancel" })),
            Answer::Declined | Answer::Sampled(_) | Answer::Accepted(_) => Ok(json!({ "action": "decline" })),
        }
    }

    async fn ask(&self, sink: &AskSink, call: Option<CallId>, question: Question) -> Answer {
        let (answer, answered) = oneshot::channel();
        sink.take(Ask {
            server: self.server.clone(),
            call,
            question,
            answer,
        });
        match tokio::time::timeout(self.time, answered).await {
            Ok(answer) => answer.unwrap_or(Answer::Declined),
            Err(_) => Answer::Cancelled,
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

    fn asker(sink: impl Fn(Ask) + Send + Sync + 'static) -> Asker {
        let roots = vec![Root {
            uri: "file:///w".into(),
            name: Some("w".into()),
        }];
        let (_, roots) = watch::channel(roots);
        Asker::new("s".into(), Some(AskSink::new(sink)), roots, Duration::from_secs(5))
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
    async fn answers_reach_the_server_in_its_words() {
        let asker = asker(|ask| match &ask.question {
            Question::Sampling(_) => ask.answer(Answer::Sampled(json!({ "role": "assistant" }))),
            Question::Form { .. } => ask.answer(Answer::Accepted(Some(json!({ "a": 1 })))),
            Question::Url { .. } => ask.answer(Answer::Cancelled),
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
    async fn a_call_with_a_sink_of_its_own_is_asked_itself() {
        let asker = asker(|_| panic!("the call is asked"));
        let own = AskSink::new(|ask| {
            assert!(ask.call.is_some());
            ask.answer(Answer::Accepted(None));
        });
        let call = Some((CallId::new(), Some(own)));
        let answer = asker.answer("elicitation/create", &json!({}), call).await;
        assert_eq!(answer, Ok(json!({ "action": "accept" })));
    }

    #[tokio::test]
    async fn a_server_cannot_pile_up_questions() {
        let open = Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = open.clone();
        let asker = Arc::new(asker(move |ask| keep.lock().unwrap().push(ask)));
        let asking: Vec<_> = (0..MOST_OPEN)
            .map(|_| {
                let asker = asker.clone();
                tokio::spawn(async move { asker.answer("elicitation/create", &json!({}), None).await })
            })
            .collect();
        while open.lock().unwrap().len() < MOST_OPEN {
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
