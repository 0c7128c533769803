//! What was said before, and what comes with a message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What was said in a chat, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PastTurns {
    /// The older turns, which are still in the store.
    pub earlier: Option<TurnSpan>,
    /// Those that follow them.
    pub recent: Vec<PastTurn>,
}

/// Turns of a chat that are in the store, from the oldest on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSpan {
    /// The chat's URI.
    pub chat: Arc<str>,
    /// Where they end.
    pub end: SpanEnd,
}

/// Where a span of turns ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanEnd {
    /// Before this position.
    Before(usize),
    /// With the turn of this id.
    Through(String),
}

/// A chat that came with a message, and whose turns have to be read first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadChat {
    /// Which of the message's attachments it is. What stands there is what the agent is told when the
    /// turns are gone.
    pub attachment: usize,
    /// The turns.
    pub span: TurnSpan,
}

/// A turn of the past, as an agent is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastTurn {
    /// The turn's id.
    pub id: String,
    /// What the person wrote.
    pub text: String,
    /// What came with it: texts, references and names. What is large, such as a picture, is only
    /// named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// What people said while the turn was running, in the order the agent heard it (PEND-04).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steered: Vec<String>,
    /// What the agent answered, in markdown.
    pub reply: String,
    /// The tools it called.
    pub tools: Vec<PastTool>,
    /// How it ended.
    pub outcome: PastOutcome,
}

/// A tool call of the past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastTool {
    /// The call's id.
    pub call: String,
    /// The tool.
    pub name: String,
    /// Its input.
    pub input: String,
    /// Its text output; `None` if it did not run or its result was withheld.
    pub output: Option<String>,
    /// Whether it worked.
    pub success: bool,
}

/// How a turn of the past ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PastOutcome {
    /// In order.
    Complete,
    /// Cancelled by somebody.
    Cancelled,
    /// With an error.
    Failed,
    /// Not at all: it was still running when the picture was taken (CHT-07).
    Unfinished,
}

/// Something that came with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attachment {
    /// Text that stands for something in the client.
    Text {
        /// Its label in the message.
        label: String,
        /// What the model reads.
        text: String,
    },
    /// Something a completion of this host inserted; `meta` is what the host gave out then.
    Reference {
        /// Its label in the message.
        label: String,
        /// What the completion carried.
        meta: serde_json::Map<String, serde_json::Value>,
    },
    /// Bytes, in base64.
    Embedded {
        /// Its label in the message.
        label: String,
        /// The bytes.
        data: String,
        /// Their media type.
        content_type: String,
    },
    /// Something that can be read elsewhere.
    Resource {
        /// Its label in the message.
        label: String,
        /// Where.
        uri: String,
        /// Its media type.
        content_type: Option<String>,
    },
    /// Remarks on files.
    Annotations {
        /// Its label in the message.
        label: String,
        /// The channel that holds them.
        resource: String,
        /// Which of them; empty means all.
        ids: Vec<String>,
    },
    /// Another conversation, up to a fixed turn (TURN-18). Chats attached inside it are not
    /// followed (TURN-19).
    Chat {
        /// Its label in the message.
        label: String,
        /// The chat's URI.
        uri: String,
        /// What was said in it.
        transcript: Vec<PastTurn>,
    },
}
