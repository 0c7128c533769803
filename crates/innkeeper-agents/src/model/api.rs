//! Provider-independent types of requests to a model and of its answers.

use serde_json::Value;

/// A request to a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelRequest {
    /// The provider's id of the model.
    pub model: String,
    /// The system prompt, in sections. Sections that rarely change come first, so that the provider's prompt cache
    /// stays valid.
    pub system: Vec<String>,
    /// The conversation. The last message is from the user or holds tool results.
    pub messages: Vec<ModelMessage>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// Maximum tokens of the answer; `None` uses the provider's default.
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature; `None` uses the provider's default.
    pub temperature: Option<f64>,
    /// Reasoning effort, for models that accept one.
    pub effort: Option<Effort>,
}

/// Reasoning effort.
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
    /// A message of the user, or of the host on the user's behalf.
    User(Vec<UserPart>),
    /// A message of the model.
    Assistant(Vec<AssistantPart>),
    /// The results of the calls in the message before, in the order of the calls.
    ToolResults(Vec<ToolOutcome>),
}

/// A part of a user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserPart {
    /// Text.
    Text(String),
    /// An image.
    Image(Image),
    /// A document.
    Document(Document),
}

/// A PDF document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// File name.
    pub name: String,
    /// Content in base64.
    pub base64: String,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Content in base64.
    pub base64: String,
}

/// A part of a model's message.
#[derive(Debug, Clone, PartialEq)]
pub enum AssistantPart {
    /// Text for the user.
    Text(String),
    /// Reasoning.
    Reasoning(Reasoning),
    /// A tool call.
    Call(ToolUse),
}

/// Reasoning of a model, in the form in which its provider expects it back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reasoning {
    /// The readable part.
    pub text: String,
    /// Opaque data that the provider needs to recognise its own reasoning (a signature, an item with encrypted
    /// content). No other provider can read it.
    pub proof: Option<Value>,
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// The provider's id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Input as JSON text, exactly as the model wrote it. It may be malformed.
    pub input: String,
}

/// Result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The id of the [`ToolUse`].
    pub call: String,
    /// Text for the model.
    pub text: String,
    /// Images for the model.
    pub images: Vec<Image>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// Definition of a tool for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Name: letters, digits, `_` and `-`, at most 64 characters.
    pub name: String,
    /// Purpose of the tool and when to use it.
    pub description: String,
    /// JSON Schema of the input, which is an object.
    pub input_schema: Value,
}

/// One event of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More text for the user.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A reasoning block is complete. Its text is everything that was streamed of it.
    ReasoningDone(Reasoning),
    /// A tool call starts. `index` identifies the call within the answer, counted from 0.
    CallStart {
        /// Index of the call.
        index: usize,
        /// The provider's id of the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// More input of a call.
    CallInput {
        /// Index of the call.
        index: usize,
        /// A fragment of JSON text, cut between any two characters.
        text: String,
    },
    /// Token usage so far. It replaces earlier values.
    Usage(TokenUsage),
    /// The answer is complete. Always the last event.
    End(StopReason),
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The model is done.
    Done,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The answer reached the token limit.
    Length,
    /// The model or its provider refuses to answer, with an optional explanation.
    Refused(Option<String>),
    /// The provider paused the answer. The model continues when its message is sent back unchanged.
    Paused,
}

/// Token usage of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Input tokens, cached ones included.
    pub input: Option<u32>,
    /// Output tokens.
    pub output: Option<u32>,
    /// Input tokens that came from a cache.
    pub cache_read: Option<u32>,
}

/// A model that a provider lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// The provider's id of the model.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Context window in tokens, if the provider reports it.
    pub context_window: Option<u32>,
}
