//! Loads the list of sessions.

use ahp::Client;
use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::commands::{ListSessionsParams, ListSessionsResult};
use ahp_types::state::SessionSummary;

use crate::connection::request_failure;

/// Sessions per page, and pages. A client lists the latest ones; a search finds older ones.
const PAGE: i64 = 200;
const MAX_PAGES: usize = 5;

/// Requests the latest sessions.
pub(super) async fn load(client: &Client) -> Result<Vec<SessionSummary>, String> {
    let mut sessions = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = ListSessionsParams {
            channel: ROOT_RESOURCE_URI.to_owned(),
            meta: None,
            limit: Some(PAGE),
            cursor,
        };
        let page: ListSessionsResult = client
            .request("listSessions", params)
            .await
            .map_err(|error| request_failure("listSessions", error).to_string())?;
        sessions.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(sessions)
}
