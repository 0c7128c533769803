//! A conversation with a model, in words that fit every provider.

use serde_json::Value;

/// What a model is asked to go on with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelRequest {
    /// The model, by the provider's name for it.
    pub model: String,
    /// The system prompt, in pieces. What seldom changes comes first, so that a provider's cache
    /// of it stays good.
    pub system: Vec<String>,
    /// What was said so far; the last message is a person's or the results of tools.
    pub messages: Vec<ModelMessage>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
    /// Most tokens of the answer; otherwise what the provider thinks fit.
    pub max_output_tokens: Option<u32>,
    /// How much is left to chance; otherwise what the provider thinks fit.
    pub temperature: Option<f64>,
    /// How hard the model should think, if it can.
    pub effort: Option<Effort>,
}

/// How hard a model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Effort {
    Low,
    Medium,
    High,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelMessage {
    /// What a person said, or what the host says on their behalf.
    User(Vec<UserPart>),
    /// What the model said.
    Assistant(Vec<AssistantPart>),
    /// What came of the calls in the message before, in their order.
    ToolResults(Vec<ToolOutcome>),
}

/// A part of what a person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserPart {
    /// Words.
    Text(String),
    /// A picture.
    Image(Image),
    /// A document.
    Document(Document),
}

/// A PDF document for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its name.
    pub name: String,
    /// Its bytes in base64.
    pub base64: String,
}

/// A picture for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Its bytes in base64.
    pub base64: String,
}

/// A part of what a model said.
#[derive(Debug, Clone, PartialEq)]
pub enum AssistantPart {
    /// Words for the reader.
    Text(String),
    /// Its thinking.
    Reasoning(Reasoning),
    /// A call of a tool.
    Call(ToolUse),
}

/// A model's thinking, as its provider wants it back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reasoning {
    /// What can be read of it.
    pub text: String,
    /// What the provider needs to recognise it (a signature, an item with encrypted content). Only
    /// the provider that sent it can read it.
    pub proof: Option<Value>,
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// The provider's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its input: JSON text, as the model wrote it, which may be malformed.
    pub input: String,
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The id of the [`ToolUse`].
    pub call: String,
    /// What the model reads.
    pub text: String,
    /// What it looks at.
    pub images: Vec<Image>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its input, an object.
    pub input_schema: Value,
}

/// What a model says next.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More words for the reader.
    Text(String),
    /// More of its thinking.
    Reasoning(String),
    /// A stretch of thinking is complete; its text is all that was streamed of it.
    ReasoningDone(Reasoning),
    /// It begins a call. `index` tells calls of one answer apart, counted from 0.
    CallStart {
        /// Which call.
        index: usize,
        /// The provider's id of it.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's input.
    CallInput {
        /// Which call.
        index: usize,
        /// JSON text, cut anywhere between two characters.
        text: String,
    },
    /// What the answer has cost so far; replaces what was said of it before.
    Usage(TokenUsage),
    /// The answer is complete. The last event, always.
    End(StopReason),
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It is done.
    Done,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It reached the most that it may say.
    Length,
    /// It, or its provider, will not answer this.
    Refused(Option<String>),
    /// Its provider paused it: it goes on when what it said is sent back as it is.
    Paused,
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens read, those from a cache included.
    pub input: Option<u32>,
    /// Tokens written.
    pub output: Option<u32>,
    /// Tokens of the input that came from a cache.
    pub cache_read: Option<u32>,
}

/// A model that a provider has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// The provider's name for it.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The most tokens that a request and its answer may have together, if the provider says.
    pub context_window: Option<u32>,
}
