//! Resources of MCP servers that are attached to a message.

use innkeeper_core::agent::Attachment;
use innkeeper_core::resources::is_of_mcp_server;

use super::client_files::{ReadLimits, labelled, told};
use crate::services::mcp::Mcp;

/// Replaces attachments that an MCP server of the session has with their content, or with words that say
/// why there is none: a turn never fails or waits without end because of an attachment.
pub(crate) async fn fill(mcp: &Mcp, limits: ReadLimits, attachments: &mut [Attachment]) {
    let deadline = tokio::time::Instant::now() + limits.time;
    for attachment in attachments {
        let Attachment::Resource {
            label,
            uri,
            content_type,
            selection,
        } = attachment
        else {
            continue;
        };
        if !is_of_mcp_server(uri) {
            continue;
        }
        let read = tokio::time::timeout_at(deadline, mcp.read_uri(uri, limits.bytes)).await;
        let read = match read {
            Ok(read) => read.map_err(|error| error.message),
            Err(_) => Err(format!(
                "its MCP server did not answer within {} s",
                limits.time.as_secs()
            )),
        };
        let label = labelled(std::mem::take(label), *selection);
        *attachment = match read {
            Ok(content) => told(label, content, content_type.take()),
            Err(problem) => {
                tracing::info!(problem, "cannot read a resource of an MCP server");
                let text = format!(
                    "(This attachment could not be read: {}.)",
                    problem.trim_end_matches('.')
                );
                Attachment::Text { label, text }
            }
        };
    }
}
