//! Contents of files in a change, read from the host: people who are asked see the lines that change.

use ahp_types::commands::{ContentEncoding, ResourceReadParams, ResourceReadResult};
use ahp_types::state::FileEditCollection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::connection::Connection;

/// How the URIs of contents begin that the host keeps.
const KEPT: &str = "innkeeper-content:/";

/// Puts the contents themselves in the place of their references. One that cannot be read stays a reference.
pub(crate) async fn fetch(connection: &Connection, edits: &mut FileEditCollection) {
    for edit in &mut edits.items {
        for side in [&mut edit.before, &mut edit.after].into_iter().flatten() {
            if !side.content.uri.starts_with(KEPT) {
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
