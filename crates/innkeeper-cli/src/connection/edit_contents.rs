//! Fetches the file contents of a change, so that users who decide see the changed lines.

use ahp_types::commands::{ContentEncoding, ResourceReadParams, ResourceReadResult};
use ahp_types::state::FileEditCollection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::connection::Connection;

/// The scheme of contents that the host stores.
const STORED_CONTENT: &str = "innkeeper-content:/";

/// Replaces references by the contents. A content that cannot be read stays a reference.
pub(crate) async fn fetch(connection: &Connection, edits: &mut FileEditCollection) {
    for edit in &mut edits.items {
        for side in [&mut edit.before, &mut edit.after].into_iter().flatten() {
            if !side.content.uri.starts_with(STORED_CONTENT) {
                continue;
            }
            let params = ResourceReadParams {
                channel: ahp_types::ROOT_RESOURCE_URI.to_owned(),
                meta: None,
                uri: side.content.uri.clone(),
                encoding: None,
            };
            let read: Result<ResourceReadResult, _> = connection.request("resourceRead", params).await;
            if let Ok(read) = read {
                let data = match read.encoding {
                    ContentEncoding::Base64 => read.data,
                    _ => STANDARD.encode(read.data),
                };
                side.content.uri = format!("data:;base64,{data}");
            }
        }
    }
}
