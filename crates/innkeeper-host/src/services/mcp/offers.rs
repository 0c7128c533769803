//! Prompts and resources of MCP servers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::visible::defused;
use super::{McpError, bounds};
use crate::agent::Attachment;
use crate::services::resources::Content;

/// Maximum bytes of text that a prompt of a server puts into a conversation (F17).
const MAX_PROMPT_BYTES: usize = 256 << 10;
/// Maximum bytes of binary content in a prompt, in base64.
const MAX_ATTACHED_BYTES: usize = 16 << 20;
/// Maximum number of them.
const MAX_ATTACHED: usize = 16;
/// The most arguments of a prompt that are shown.
pub(crate) const MAX_ARGUMENTS: usize = 32;
/// The longest name of a server's that users see.
const MAX_SHOWN_CHARS: usize = 300;

/// A prompt of a server. Users call it with a `/` and its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPrompt {
    /// The name that users type after the `/`. Set by the host; unique among the prompts of the session.
    pub name: String,
    /// The server, by the id of its customization.
    pub server: String,
    /// The display name of the server.
    pub server_name: String,
    /// The server's own name of the prompt.
    pub prompt: String,
    /// A title for users.
    pub title: Option<String>,
    /// The server's description of the prompt.
    pub description: Option<String>,
    /// The arguments, in order.
    pub arguments: Vec<McpPromptArgument>,
}

impl McpPrompt {
    /// How it is typed, after its name: `<what must be said> [what may be said]`.
    pub fn usage(&self) -> String {
        let arguments = self.arguments.iter().take(MAX_ARGUMENTS).map(|argument| {
            let name = display_line(&argument.name);
            match argument.required {
                true => format!("<{name}>"),
                false => format!("[{name}]"),
            }
        });
        arguments.collect::<Vec<_>>().join(" ")
    }

    /// Returns the description, truncated to a line or two.
    pub fn shown_description(&self) -> Option<String> {
        match (&self.title, &self.description) {
            (Some(title), Some(description)) if title != description => {
                Some(format!("{}: {}", display_line(title), display_line(description)))
            }
            (title, description) => description.as_ref().or(title.as_ref()).map(|text| display_line(text)),
        }
    }
}

/// An argument of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPromptArgument {
    /// The name of the argument.
    pub name: String,
    /// The description of the argument.
    pub description: Option<String>,
    /// Whether it has to be given.
    pub required: bool,
}

/// The text of a prompt with its arguments filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptMessages {
    /// Its messages, in order.
    pub messages: Vec<PromptMessage>,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage {
    /// The author of the message: `user` or `assistant`.
    pub role: String,
    /// The content of the message.
    pub content: PromptContent,
}

/// The content of a message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptContent {
    /// Words.
    Text(String),
    /// An image, a sound, or other bytes, in base64.
    Embedded {
        /// The bytes.
        data: String,
        /// Their media type.
        content_type: String,
    },
    /// The words of a resource.
    Resource {
        /// Which.
        uri: String,
        /// The text of the resource.
        text: String,
    },
}

impl PromptMessages {
    /// Returns the text for a model, with the role of each message unless all are of the user, and the parts that
    /// are not text as attachments.
    pub fn into_model_input(self) -> (String, Vec<Attachment>) {
        let is_dialog = self.messages.iter().any(|message| message.role != "user");
        let mut text = String::new();
        let mut attached = Vec::new();
        let (mut left, mut omitted) = (MAX_ATTACHED_BYTES, 0);
        let mut speaker = None;
        for PromptMessage { role, content } in self.messages {
            if is_dialog && speaker.as_ref() != Some(&role) {
                let name = if role == "assistant" { "Assistant" } else { "User" };
                text.push_str(&format!("{name}:\n"));
                speaker = Some(role);
            }
            match content {
                PromptContent::Text(words) => text.push_str(words.trim_end()),
                PromptContent::Resource { uri, text: words } => {
                    let uri = display_line(&uri).replace('"', "%22");
                    text.push_str(&format!("<resource uri=\"{uri}\">\n{}\n</resource>", words.trim_end()));
                }
                PromptContent::Embedded { data, content_type }
                    if data.len() <= left && attached.len() < MAX_ATTACHED =>
                {
                    left -= data.len();
                    let label = format!("{} of the prompt", display_line(&content_type));
                    text.push_str(&format!("(Attached: {label})"));
                    attached.push(Attachment::Embedded {
                        label,
                        data,
                        content_type,
                        selection: None,
                    });
                }
                PromptContent::Embedded { .. } => omitted += 1,
            }
            text.push_str("\n\n");
            // Text beyond the limit need not be joined first.
            if text.len() > MAX_PROMPT_BYTES {
                break;
            }
        }
        let mut text = bounds::cut(text.trim_end().to_owned(), MAX_PROMPT_BYTES);
        if omitted > 0 {
            text.push_str(&format!(
                "\n\n[{omitted} attachments of the prompt were left out: they are too large]"
            ));
        }
        (text, attached)
    }
}

/// Something that a server lets read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpResource {
    /// The server, by the id of its customization.
    pub server: String,
    /// The display name of the server.
    pub server_name: String,
    /// The server's own URI. It has a meaning for the server only: it may look like a file of this machine, and is
    /// none.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// A title for users.
    pub title: Option<String>,
    /// The description of the resource.
    pub description: Option<String>,
    /// Its media type.
    pub content_type: Option<String>,
    /// The size in bytes, if the server reports it.
    pub size: Option<u64>,
}

impl McpResource {
    /// Returns the name that users see.
    pub fn shown_name(&self) -> String {
        display_line(self.title.as_ref().unwrap_or(&self.name))
    }

    /// Returns whether it matches the typed text, given in lower case.
    pub(crate) fn fits(&self, query: &str) -> bool {
        let names = [Some(&self.name), self.title.as_ref(), Some(&self.uri)];
        let mut names = names.into_iter().flatten();
        names.any(|name| name.to_lowercase().contains(query))
            || format!("{}:{}", self.server_name, self.name)
                .to_lowercase()
                .contains(query)
    }
}

/// A part of what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourcePart {
    /// Its media type.
    pub content_type: Option<String>,
    /// The data of the part.
    pub data: PartData,
}

/// The data of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartData {
    /// Words.
    Text(String),
    /// Bytes, in base64.
    Blob(String),
}

/// Joins the parts: all texts, or else the bytes of the first part.
pub(super) fn content(parts: Vec<ResourcePart>, most: usize) -> Result<Content, McpError> {
    let has_words = parts.iter().any(|part| matches!(part.data, PartData::Text(_)));
    let mut content: Option<Content> = None;
    for part in parts {
        match (part.data, &mut content) {
            (PartData::Text(text), None) => {
                content = Some(Content {
                    bytes: text.into_bytes(),
                    content_type: part.content_type,
                });
            }
            (PartData::Text(text), Some(content)) => {
                content.bytes.extend_from_slice(b"\n\n");
                content.bytes.extend_from_slice(text.as_bytes());
            }
            (PartData::Blob(data), None) if !has_words => {
                let bytes = STANDARD.decode(data.trim());
                content = Some(Content {
                    bytes: bytes.map_err(|_| McpError::new("the MCP server's content is not valid base64"))?,
                    content_type: part.content_type,
                });
            }
            (PartData::Blob(_), _) => {}
        }
    }
    let content = content.ok_or_else(|| McpError::new("the MCP server sent nothing"))?;
    match content.bytes.len() {
        long if long > most => Err(McpError::new(format!(
            "the MCP server's content has {long} bytes; the limit is {most}"
        ))),
        _ => Ok(content),
    }
}

/// Returns a text of a server as one bounded line without control or invisible characters.
pub fn display_line(text: &str) -> String {
    let start: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    let plain = defused(&start);
    let line = plain.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(MAX_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str, content: PromptContent) -> PromptMessage {
        PromptMessage {
            role: role.to_owned(),
            content,
        }
    }

    fn words(text: &str) -> PromptContent {
        PromptContent::Text(text.to_owned())
    }

    #[test]
    fn one_voice_needs_no_name_and_two_have_theirs() {
        let one = PromptMessages {
            messages: vec![said("user", words("Say hello.\n")), said("user", words("Twice."))],
        };
        assert_eq!(one.into_model_input().0, "Say hello.\n\nTwice.");
        let image = PromptContent::Embedded {
            data: "AAAA".to_owned(),
            content_type: "image/png".to_owned(),
        };
        let resource = PromptContent::Resource {
            uri: "inn://\"rooms".to_owned(),
            text: "two".to_owned(),
        };
        let two = PromptMessages {
            messages: vec![
                said("user", words("Look.")),
                said("user", image),
                said("assistant", words("A room.")),
                said("user", resource),
            ],
        };
        let (text, attached) = two.into_model_input();
        assert_eq!(
            text,
            "User:\nLook.\n\n(Attached: image/png of the prompt)\n\nAssistant:\nA room.\n\nUser:\n<resource \
             uri=\"inn://%22rooms\">\ntwo\n</resource>"
        );
        assert!(matches!(attached.as_slice(), [Attachment::Embedded { data, .. }] if data == "AAAA"));
    }

    #[test]
    fn f17_a_prompt_without_end_is_cut_and_says_so() {
        let long = PromptMessages {
            messages: (0..1000).map(|_| said("user", words(&"ä".repeat(64 << 10)))).collect(),
        };
        let (text, _) = long.into_model_input();
        assert!(text.len() < MAX_PROMPT_BYTES + 100, "{}", text.len());
        assert!(text.ends_with("more bytes]"));
        let image = |_| {
            let data = "A".repeat(4 << 20);
            let content_type = "image/png".to_owned();
            said("user", PromptContent::Embedded { data, content_type })
        };
        let (text, attached) = PromptMessages {
            messages: (0..6).map(image).collect(),
        }
        .into_model_input();
        assert_eq!(attached.len(), 4);
        assert!(text.contains("2 attachments of the prompt were left out"), "{text}");
    }

    #[test]
    fn a_read_resource_is_text_or_else_bytes_within_limits() {
        let text = |text: &str| ResourcePart {
            content_type: Some("text/plain".to_owned()),
            data: PartData::Text(text.to_owned()),
        };
        let blob = |data: &str| ResourcePart {
            content_type: Some("image/png".to_owned()),
            data: PartData::Blob(data.to_owned()),
        };
        let read = content(vec![blob("AAAA"), text("one"), text("two")], 100).expect("words");
        assert_eq!(read.bytes, b"one\n\ntwo");
        let read = content(vec![blob("AAAA"), blob("BBBB")], 100).expect("bytes");
        assert_eq!((read.bytes.len(), read.content_type.as_deref()), (3, Some("image/png")));
        for (parts, problem) in [
            (vec![], "nothing"),
            (vec![blob("not base64")], "not valid base64"),
            (vec![text("too long")], "8 bytes"),
        ] {
            let error = content(parts, 5).expect_err("no content");
            assert!(error.message.contains(problem), "{error}");
        }
    }
}
