//! The content of tool results, bounded.

use serde_json::Value;

use crate::engine::config::Limits;
use crate::engine::paging::text;

/// A part of a tool result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// The data in base64.
        data: String,
        /// The content type.
        mime_type: String,
    },
    /// A sound.
    Audio {
        /// The data in base64.
        data: String,
        /// The content type.
        mime_type: String,
    },
    /// An embedded resource.
    Resource {
        /// The URI.
        uri: String,
        /// The content type.
        mime_type: Option<String>,
        /// The text, if it is text.
        text: Option<String>,
        /// The bytes in base64, if it is not text.
        blob: Option<String>,
    },
    /// A link to a resource.
    ResourceLink {
        /// The URI.
        uri: String,
        /// The name.
        name: Option<String>,
        /// The content type.
        mime_type: Option<String>,
        /// The description.
        description: Option<String>,
    },
    /// Content of another kind, as the server wrote it.
    Other(Value),
}

impl Content {
    /// Returns the text, if there is any.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Resource { text: Some(text), .. } => Some(text),
            _ => None,
        }
    }
}

/// The remaining size of the content.
pub(super) struct ContentBudget {
    text: usize,
    structured: usize,
    blob: usize,
    /// True if something did not fit.
    pub(super) is_cut: bool,
}

impl ContentBudget {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            text: limits.shown_bytes,
            structured: limits.shown_bytes,
            blob: limits.blob_bytes,
            is_cut: false,
        }
    }

    /// Reads one part, and shortens it if needed.
    pub(super) fn content(&mut self, entry: Value) -> Content {
        let mime_type = text(&entry, "mimeType");
        match entry.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => Content::Text(self.words(text(&entry, "text").unwrap_or_default())),
            kind @ ("image" | "audio") => {
                let data = text(&entry, "data").unwrap_or_default();
                let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                match self.bytes(data) {
                    Ok(data) if kind == "image" => Content::Image { data, mime_type },
                    Ok(data) => Content::Audio { data, mime_type },
                    Err(note) => Content::Text(note),
                }
            }
            "resource" => self.resource(entry.get("resource").unwrap_or(&Value::Null)),
            "resource_link" => Content::ResourceLink {
                uri: text(&entry, "uri").unwrap_or_default(),
                name: text(&entry, "title").or_else(|| text(&entry, "name")),
                mime_type,
                description: text(&entry, "description"),
            },
            _ => {
                let written = entry.to_string();
                if written.len() <= self.text {
                    self.text -= written.len();
                    Content::Other(entry)
                } else {
                    Content::Text(self.words(written))
                }
            }
        }
    }

    /// Returns the structured content if it fits: half of it is useless.
    pub(super) fn structured(&mut self, structured: Value) -> Option<Value> {
        if structured.to_string().len() <= self.structured {
            return Some(structured);
        }
        self.is_cut = true;
        None
    }

    fn resource(&mut self, resource: &Value) -> Content {
        let uri = text(resource, "uri").unwrap_or_default();
        let blob = match text(resource, "blob").map(|blob| self.bytes(blob)) {
            Some(Err(note)) => return Content::Text(format!("{uri}: {note}")),
            Some(Ok(blob)) => Some(blob),
            None => None,
        };
        Content::Resource {
            uri,
            mime_type: text(resource, "mimeType"),
            text: text(resource, "text").map(|words| self.words(words)),
            blob,
        }
    }

    /// Keeps the beginning and the end, which say most.
    fn words(&mut self, words: String) -> String {
        if words.len() <= self.text {
            self.text -= words.len();
            return words;
        }
        self.is_cut = true;
        let room = std::mem::take(&mut self.text);
        let head = words.floor_char_boundary(room / 2);
        let tail = words.ceil_char_boundary(words.len() - (room - room / 2));
        let left_out = tail.saturating_sub(head);
        let (head, tail) = (
            words.get(..head).unwrap_or_default(),
            words.get(tail..).unwrap_or_default(),
        );
        format!("{head}\n[{left_out} bytes are left out here]\n{tail}")
    }

    fn bytes(&mut self, data: String) -> Result<String, String> {
        if data.len() <= self.blob {
            return Ok(data);
        }
        self.is_cut = true;
        Err(format!("[{} bytes of base64 are left out here]", data.len()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::CallOutcome;
    use super::*;

    fn read(result: &Value) -> CallOutcome {
        let limits = Limits {
            shown_bytes: 20,
            blob_bytes: 8,
            ..Limits::default()
        };
        CallOutcome::read(result.to_string(), &limits).unwrap()
    }

    #[test]
    fn content_that_fits_is_complete() {
        let result = json!({
            "content": [
                { "type": "text", "text": "hello" },
                { "type": "image", "data": "AAAA", "mimeType": "image/png" },
                { "type": "resource", "resource": { "uri": "a:b", "text": "hi" } },
                { "type": "resource_link", "uri": "c:d", "name": "n" },
            ],
            "structuredContent": { "a": 1 },
            "isError": true,
            "_meta": { "ui": {}, "x": 1 },
        });
        let outcome = read(&result);
        assert_eq!(outcome.text(), "hello\nhi");
        assert_eq!(outcome.content.len(), 4);
        assert_eq!(outcome.structured, Some(json!({ "a": 1 })));
        assert!(outcome.is_error);
        assert_eq!(outcome.meta.unwrap()["x"], 1);
        assert_eq!(outcome.whole, None);
    }

    #[test]
    fn content_that_does_not_fit_is_shortened_and_kept_aside() {
        let result = json!({
            "content": [
                { "type": "text", "text": format!("begin{}ende", "ü".repeat(100)) },
                { "type": "text", "text": "more" },
                { "type": "image", "data": "AAAAAAAAAAAA", "mimeType": "image/png" },
                { "type": "new", "x": "y" },
            ],
            "structuredContent": { "a": "x".repeat(100) },
        });
        let outcome = read(&result);
        let text = outcome.text();
        assert!(text.starts_with("begin") && text.contains("ende"), "{text}");
        assert!(text.contains("left out"), "{text}");
        assert_eq!(outcome.structured, None);
        let whole: Value = serde_json::from_slice(&outcome.whole.unwrap()).unwrap();
        assert_eq!(whole, result);
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_shortened(words in ".{0,300}", room in 0_usize..100) {
            let mut room = ContentBudget { text: room, structured: 0, blob: 0, is_cut: false };
            let _ = room.words(words);
        }
    }
}
