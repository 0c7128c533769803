//! Content blocks, and the content of tool calls.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imara_diff::{Algorithm, Diff, InternedInput};
use innkeeper_host::agent::{FileChange, FileSide, ToolContent};
use innkeeper_std::text::truncate_chars;
use serde_json::Value;

/// Characters of one text in the content of a call.
const MAX_TEXT: usize = 100_000;

/// A content block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    Text(String),
    /// Bytes in base64: an image, audio, or an embedded file.
    Bytes {
        data: String,
        content_type: String,
        name: String,
    },
    /// Something that can be read elsewhere.
    Link {
        uri: String,
        content_type: Option<String>,
    },
}

/// Reads a content block; `None` for one of an unknown kind.
pub(crate) fn block(block: &Value) -> Option<Block> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let bytes = |data: &Value, content_type: Option<String>, name: &str| {
        let data = data.as_str()?;
        // Nonsense is not passed on to clients.
        STANDARD.decode(data).ok()?;
        Some(Block::Bytes {
            data: data.to_owned(),
            content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
            name: name.to_owned(),
        })
    };
    match block["type"].as_str()? {
        "text" => text(&block["text"]).map(Block::Text),
        "image" => bytes(&block["data"], text(&block["mimeType"]), "image"),
        "audio" => bytes(&block["data"], text(&block["mimeType"]), "audio"),
        "resource_link" => Some(Block::Link {
            uri: text(&block["uri"])?,
            content_type: text(&block["mimeType"]),
        }),
        "resource" => {
            let resource = &block["resource"];
            match resource["text"].as_str() {
                Some(text) => Some(Block::Text(text.to_owned())),
                None => bytes(&resource["blob"], text(&resource["mimeType"]), "file"),
            }
        }
        _ => None,
    }
}

/// Returns one entry of a call's content. A terminal is shown by the one who runs it, so it is left out here.
pub(crate) fn tool_content(entry: &Value) -> Option<ToolContent> {
    match entry["type"].as_str()? {
        "content" => Some(match block(&entry["content"])? {
            Block::Text(text) if text.is_empty() => return None,
            Block::Text(text) => ToolContent::Text(truncate_chars(&text, MAX_TEXT).into_owned()),
            Block::Bytes { data, content_type, .. } => ToolContent::Embedded { data, content_type },
            Block::Link { uri, content_type } => ToolContent::Resource {
                uri,
                content_type,
                size: None,
                mention: None,
            },
        }),
        "diff" => file_change(entry).map(ToolContent::FileEdit),
        _ => None,
    }
}

/// Returns a change of a file. The host stores both sides.
pub(crate) fn file_change(entry: &Value) -> Option<FileChange> {
    if entry["type"] != "diff" {
        return None;
    }
    let path = entry["path"].as_str()?;
    let uri = url::Url::from_file_path(Path::new(path)).ok()?.to_string();
    let before = entry["oldText"].as_str();
    let after = entry["newText"].as_str().unwrap_or_default();
    let side = |text: &str| {
        let content = format!("data:text/plain;base64,{}", STANDARD.encode(text));
        FileSide::new(&uri, content)
    };
    let input = InternedInput::new(before.unwrap_or_default(), after);
    let diff = Diff::compute(Algorithm::Histogram, &input);
    Some(FileChange {
        before: before.map(side),
        after: Some(side(after)),
        added: diff.count_additions(),
        removed: diff.count_removals(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_of_every_kind_are_read() {
        assert_eq!(
            block(&json!({ "type": "image", "data": "AAEC", "mimeType": "image/png" })),
            Some(Block::Bytes {
                data: "AAEC".to_owned(),
                content_type: "image/png".to_owned(),
                name: "image".to_owned()
            })
        );
        assert_eq!(block(&json!({ "type": "image", "data": "no base64!" })), None);
        assert_eq!(
            block(&json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "t" } })),
            Some(Block::Text("t".to_owned()))
        );
        let link = json!({ "type": "resource_link", "uri": "file:///a", "name": "a" });
        assert!(matches!(block(&link), Some(Block::Link { .. })));
        assert_eq!(block(&json!({ "type": "hologram" })), None);
    }

    #[test]
    fn a_diff_has_both_sides_and_its_counts() {
        let entry = json!({ "type": "diff", "path": "/w/a.txt", "oldText": "a\nb\n", "newText": "a\nc\nd\n" });
        let change = file_change(&entry).expect("a change");
        assert_eq!((change.added, change.removed), (2, 1));
        assert_eq!(change.after.expect("a side").uri, "file:///w/a.txt");
        let created = json!({ "type": "diff", "path": "/w/a.txt", "oldText": null, "newText": "a\n" });
        let created = file_change(&created).expect("a change");
        assert!(created.before.is_none());
        assert_eq!(created.added, 1);
        let relative = json!({ "type": "diff", "path": "a.txt", "newText": "" });
        assert_eq!(file_change(&relative), None);
    }
}
