//! The replies of a model, and how its server sends them.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::request::ReceivedRequest;

/// The replies of the server.
pub enum Script {
    /// These, in the order of requests. When they are used up, requests fail.
    InOrder(Vec<Reply>),
    /// The reply that this function returns for a request.
    By(Box<dyn Fn(&ReceivedRequest) -> Reply + Send + Sync>),
}

impl Script {
    /// Answers in order.
    pub fn in_order(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::InOrder(replies.into_iter().collect())
    }

    /// Answers each request by what it asks.
    pub fn by(answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self::By(Box::new(answer))
    }
}

impl From<Reply> for Script {
    fn from(reply: Reply) -> Self {
        Self::in_order([reply])
    }
}

impl<const N: usize> From<[Reply; N]> for Script {
    fn from(replies: [Reply; N]) -> Self {
        Self::in_order(replies)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InOrder(replies) => f.debug_tuple("InOrder").field(replies).finish(),
            Self::By(_) => f.write_str("By"),
        }
    }
}

/// One reply. Its content is the same for every API.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub(super) steps: Vec<Step>,
    pub(super) ending: Ending,
    pub(super) usage: Usage,
    pub(super) refusal: Option<HttpRefusal>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) delivery: Delivery,
}

/// The content, step by step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Reasoning(String),
    Text(String),
    Call {
        id: Option<String>,
        name: String,
        input: String,
    },
    /// Silence until the server is told to go on.
    Stall,
    /// An error in the middle of the stream, which ends it.
    Fail {
        code: String,
        message: String,
    },
}

/// How an answer ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ending {
    /// As what was said has it: waiting for results if there were calls, done otherwise.
    #[default]
    Natural,
    /// At the most that may be said.
    Length,
    /// With a refusal, and what it says if it says anything.
    Refused(Option<String>),
    /// With a pause, which only Messages has; elsewhere it is natural.
    Paused,
}

/// Token usage of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, those from a cache included.
    pub input: u32,
    /// Tokens written.
    pub output: u32,
    /// Tokens read from a cache.
    pub cache_read: u32,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input: 100,
            output: 42,
            cache_read: 20,
        }
    }
}

/// A refusal instead of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpRefusal {
    pub(super) status: u16,
    pub(super) body: RefusalBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RefusalBody {
    /// As it is.
    Raw(String),
    /// In the shape of the API that asks.
    Shaped { code: String, message: String },
}

/// How a reply is sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Delivery {
    pub(super) delta_lengths: Vec<usize>,
    pub(super) interleaved: bool,
    pub(super) chunking: Chunking,
    pub(super) drip: Option<(usize, Duration)>,
    pub(super) cut_after: Option<usize>,
    pub(super) crlf: bool,
    pub(super) plain: bool,
    pub(super) silent_first: bool,
}

/// Where the bytes of a stream are cut into writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Chunking {
    /// One write for all of it.
    Whole,
    /// One write per event, as servers do.
    #[default]
    EveryEvent,
    /// One write per byte.
    EveryByte,
    /// At these bytes of the stream.
    At(Vec<usize>),
}

impl Reply {
    /// An answer that says nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An answer of words.
    pub fn words(text: impl Into<String>) -> Self {
        Self::new().text(text)
    }

    /// It thinks.
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        self.step(Step::Reasoning(text.into()))
    }

    /// It speaks.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.step(Step::Text(text.into()))
    }

    /// It calls a tool.
    pub fn call(self, name: impl Into<String>, input: Value) -> Self {
        self.call_with_text(name, input.to_string())
    }

    /// It calls a tool with an input that need not be JSON.
    pub fn call_with_text(self, name: impl Into<String>, input: impl Into<String>) -> Self {
        self.step(Step::Call {
            id: None,
            name: name.into(),
            input: input.into(),
        })
    }

    /// It calls a tool under an id of ours.
    pub fn call_with_id(self, id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        self.step(Step::Call {
            id: Some(id.into()),
            name: name.into(),
            input: input.to_string(),
        })
    }

    /// It goes silent until [`super::ModelServer::go_on`].
    pub fn stall(self) -> Self {
        self.step(Step::Stall)
    }

    /// It does not even begin to answer until [`super::ModelServer::go_on`].
    pub fn stall_first(mut self) -> Self {
        self.delivery.silent_first = true;
        self
    }

    /// It fails in the middle of the stream, in the shape of the API.
    pub fn fail(self, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.step(Step::Fail {
            code: code.into(),
            message: message.into(),
        })
    }

    /// Its token usage.
    pub fn usage(mut self, input: u32, output: u32, cache_read: u32) -> Self {
        self.usage = Usage {
            input,
            output,
            cache_read,
        };
        self
    }

    /// How it ends.
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// A status and a body instead of an answer.
    pub fn error(mut self, status: u16, body: impl Into<String>) -> Self {
        self.refusal = Some(HttpRefusal {
            status,
            body: RefusalBody::Raw(body.into()),
        });
        self
    }

    /// A status and an error in the shape of the API instead of an answer.
    pub fn refuse(mut self, status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.refusal = Some(HttpRefusal {
            status,
            body: RefusalBody::Shaped {
                code: code.into(),
                message: message.into(),
            },
        });
        self
    }

    /// With a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// With a word on when to come back: seconds, or a date.
    pub fn retry_after(self, when: impl ToString) -> Self {
        self.header("retry-after", when.to_string())
    }

    /// Disconnects after this many events.
    pub fn cut_after(mut self, events: usize) -> Self {
        self.delivery.cut_after = Some(events);
        self
    }

    /// Sends so many bytes per write, with a pause after each.
    pub fn drip(mut self, bytes: usize, pause: Duration) -> Self {
        self.delivery.drip = Some((bytes, pause));
        self
    }

    /// Cuts the bytes there.
    pub fn chunked(mut self, chunking: Chunking) -> Self {
        self.delivery.chunking = chunking;
        self
    }

    /// Cuts words, thinking and inputs into deltas of these many characters, over and over.
    pub fn deltas(mut self, lengths: impl Into<Vec<usize>>) -> Self {
        self.delivery.delta_lengths = lengths.into();
        self
    }

    /// Sends calls that follow one another all at once, a piece of each in turn.
    pub fn interleaved(mut self) -> Self {
        self.delivery.interleaved = true;
        self
    }

    /// Ends lines as old systems did.
    pub fn crlf(mut self) -> Self {
        self.delivery.crlf = true;
        self
    }

    /// Ignores that a stream was asked for and answers in one piece.
    pub fn in_one_piece(mut self) -> Self {
        self.delivery.plain = true;
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// A text in the pieces that it is sent in.
    pub(super) fn pieces(&self, text: &str) -> Vec<String> {
        let mut lengths = self
            .delivery
            .delta_lengths
            .iter()
            .map(|length| (*length).max(1))
            .cycle();
        let mut rest = text.chars().peekable();
        let mut pieces = Vec::new();
        while rest.peek().is_some() {
            let length = lengths.next().unwrap_or(12);
            pieces.push(rest.by_ref().take(length).collect());
        }
        pieces
    }
}
