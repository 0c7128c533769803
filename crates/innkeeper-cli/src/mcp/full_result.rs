//! Fetches the stored contents of a tool result. They are deleted with the temporary session of the call, so the user
//! could not read a reference later.

use ahp_types::commands::{ContentEncoding, ResourceReadParams, ResourceReadResult};
use ahp_types::state::{ToolCallResult, ToolResultContent, ToolResultEmbeddedResourceContent, ToolResultTextContent};

use crate::connection::Connection;
use crate::terminal::{note, one_line};

/// The scheme of stored contents.
const STORED_CONTENT: &str = "innkeeper-content:/";

/// Replaces references by the stored contents.
pub(super) async fn fetch(connection: &Connection, result: &mut ToolCallResult) {
    let Some(pieces) = result.content.take() else { return };
    let mut whole = Vec::with_capacity(pieces.len());
    let mut is_part = false;
    for piece in pieces {
        let Some(uri) = blob_uri(&piece) else {
            is_part = false;
            whole.push(piece);
            continue;
        };
        let params = ResourceReadParams {
            channel: ahp_types::ROOT_RESOURCE_URI.to_owned(),
            meta: None,
            uri: uri.to_owned(),
            encoding: None,
        };
        match connection.request("resourceRead", params).await {
            Ok(read) => add(&mut whole, read, std::mem::replace(&mut is_part, true)),
            Err(failure) => {
                is_part = false;
                note(&one_line(
                    &format!("[a part of the result could not be read: {failure}]"),
                    1000,
                ));
                whole.push(piece);
            }
        }
    }
    result.content = Some(whole);
}

fn blob_uri(piece: &ToolResultContent) -> Option<&str> {
    match piece {
        ToolResultContent::Resource(reference) if reference.uri.starts_with(STORED_CONTENT) => Some(&reference.uri),
        _ => None,
    }
}

/// Adds a stored content. It replaces the text before it, which is an excerpt; a long text is stored in several parts.
fn add(whole: &mut Vec<ToolResultContent>, read: ResourceReadResult, is_part: bool) {
    let is_text = read.encoding == ContentEncoding::Utf8;
    match whole.last_mut() {
        Some(ToolResultContent::Text(before)) if is_part && is_text => return before.text.push_str(&read.data),
        Some(ToolResultContent::Text(_)) if !is_part => drop(whole.pop()),
        _ => {}
    }
    whole.push(match is_text {
        true => ToolResultContent::Text(ToolResultTextContent { text: read.data }),
        false => ToolResultContent::EmbeddedResource(ToolResultEmbeddedResourceContent {
            data: read.data,
            content_type: read
                .content_type
                .unwrap_or_else(|| "application/octet-stream".to_owned()),
        }),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ToolResultContent {
        ToolResultContent::Text(ToolResultTextContent { text: text.to_owned() })
    }

    fn read(data: &str, encoding: ContentEncoding) -> ResourceReadResult {
        ResourceReadResult {
            data: data.to_owned(),
            encoding,
            content_type: None,
        }
    }

    #[test]
    fn stored_contents_replace_their_excerpts() {
        let mut whole = vec![text("other"), text("[shortened]")];
        add(&mut whole, read("one, ", ContentEncoding::Utf8), false);
        add(&mut whole, read("two", ContentEncoding::Utf8), true);
        assert_eq!(whole, [text("other"), text("one, two")]);
        whole.push(text("[an image]"));
        add(&mut whole, read("AAAA", ContentEncoding::Base64), false);
        assert!(matches!(whole.last(), Some(ToolResultContent::EmbeddedResource(_))));
        assert_eq!(whole.len(), 3);
    }
}
