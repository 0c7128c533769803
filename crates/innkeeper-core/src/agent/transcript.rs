//! Past turns and attachments, as agents get them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Past turns of a chat, oldest first.
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
    /// End of the span.
    pub end: SpanEnd,
}

/// End of a span of turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanEnd {
    /// Before this position.
    Before(usize),
    /// With the turn of this id.
    Through(String),
}

/// A chat that a message has as an attachment, and whose turns have to be read first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadChat {
    /// The index of the attachment in the message. The agent gets the attachment as it is when the turns no longer
    /// exist.
    pub attachment: usize,
    /// The turns.
    pub span: TurnSpan,
}

/// A completed turn, as an agent gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastTurn {
    /// The turn's id.
    pub id: String,
    /// The user's text.
    pub text: String,
    /// The attachments: texts, references and names. Large content, such as an image, is only named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Steering messages, in the order the agent received them (PEND-04).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steered: Vec<String>,
    /// The agent's answer, in Markdown.
    pub reply: String,
    /// The tools it called.
    pub tools: Vec<PastTool>,
    /// Its outcome.
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

/// Outcome of a past turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PastOutcome {
    /// In order.
    Complete,
    /// Cancelled by a user.
    Cancelled,
    /// With an error.
    Failed,
    /// Still running when the snapshot was taken (CHT-07).
    Unfinished,
}

/// An attachment of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attachment {
    /// Text that stands for something in the client.
    Text {
        /// Its label in the message.
        label: String,
        /// Text for the model.
        text: String,
    },
    /// Something a completion of this host inserted; `meta` is what the host gave out then.
    Reference {
        /// Its label in the message.
        label: String,
        /// Metadata of the completion.
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
        /// The selected part of the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selection: Option<TextSpan>,
    },
    /// Something that can be read elsewhere.
    Resource {
        /// Its label in the message.
        label: String,
        /// Where.
        uri: String,
        /// Its media type.
        content_type: Option<String>,
        /// The selected part of the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selection: Option<TextSpan>,
    },
    /// Remarks on files.
    Annotations {
        /// Its label in the message.
        label: String,
        /// The channel that holds them.
        resource: String,
        /// Which of them; empty means all.
        ids: Vec<String>,
        /// The annotations, as they were when the message was accepted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remarks: Vec<Remark>,
    },
    /// Another conversation, up to a fixed turn (TURN-18). Chats attached inside it are not
    /// followed (TURN-19).
    Chat {
        /// Its label in the message.
        label: String,
        /// The chat's URI.
        uri: String,
        /// Its past turns.
        transcript: Vec<PastTurn>,
    },
}

/// An annotation that came with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The URI of the file.
    pub file: String,
    /// The part of the file; the whole file without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<TextSpan>,
    /// Whether it was marked as resolved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resolved: bool,
    /// Its entries, oldest first.
    pub texts: Vec<String>,
}

impl Remark {
    /// Names the lines of the remark, counted from 1 as editors show them; empty for the whole file.
    pub fn lines(&self) -> String {
        let Some(span) = self.span else {
            return String::new();
        };
        // A span that ends before the first character of a line has nothing of that line.
        let ends_with_line = span.end_character == 0 && span.end_line > span.start_line;
        let last = span.end_line.saturating_add(u64::from(!ends_with_line));
        match span.start_line.saturating_add(1) {
            first if first == last => format!("line {first}"),
            first => format!("lines {first} to {last}"),
        }
    }

    /// Describes the remark for a model, with the file as it is named in the argument.
    pub fn in_words(&self, file: &str) -> String {
        let lines = match self.lines() {
            lines if lines.is_empty() => lines,
            lines => format!(", {lines}"),
        };
        let resolved = if self.resolved { " (resolved)" } else { "" };
        format!("{file}{lines}{resolved}:\n{}\n", self.texts.join("\n---\n"))
    }
}

/// An annotation that an agent writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnnotation {
    /// The URI of the file.
    pub file: String,
    /// The part of the file; the whole file without one.
    pub span: Option<TextSpan>,
    /// The text, in Markdown.
    pub text: String,
}

/// A part of a text. Lines and characters are counted from 0, and the end is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSpan {
    /// The line it begins in.
    pub start_line: u64,
    /// The character it begins with.
    pub start_character: u64,
    /// The line it ends in.
    pub end_line: u64,
    /// The character it ends before.
    pub end_character: u64,
}

impl TextSpan {
    /// Describes the span, with lines and columns counted from 1 as editors show them.
    pub fn in_words(&self) -> String {
        let (line, column) = (
            self.start_line.saturating_add(1),
            self.start_character.saturating_add(1),
        );
        if (self.start_line, self.start_character) == (self.end_line, self.end_character) {
            return format!("the cursor is at line {line}, column {column}");
        }
        // A span that ends before the first character of a line has nothing of that line.
        let ends_with_line = self.end_character == 0 && self.end_line > self.start_line;
        if self.start_character == 0 && ends_with_line {
            return match self.end_line - self.start_line {
                1 => format!("line {line} is selected"),
                _ => format!("lines {line} to {} are selected", self.end_line),
            };
        }
        format!(
            "selected from line {line}, column {column} to line {}, column {}",
            self.end_line.saturating_add(1),
            self.end_character.saturating_add(1)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn17_a_selection_is_told_as_editors_count() {
        let span = |start_line, start_character, end_line, end_character| TextSpan {
            start_line,
            start_character,
            end_line,
            end_character,
        };
        assert_eq!(span(2, 0, 3, 0).in_words(), "line 3 is selected");
        assert_eq!(span(2, 0, 7, 0).in_words(), "lines 3 to 7 are selected");
        assert_eq!(
            span(2, 4, 6, 1).in_words(),
            "selected from line 3, column 5 to line 7, column 2"
        );
        assert_eq!(span(0, 0, 0, 0).in_words(), "the cursor is at line 1, column 1");
    }
}
