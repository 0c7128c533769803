//! Follows the lists of a server as they change.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::SubscriptionFilter;
use tokio::sync::mpsc;

use super::Shared;
use super::connection::Connection;
use crate::state::{Event, List};
use crate::tools;

/// Fetches what changed until the connection ends. However often a server says that something
/// changed, it is fetched at most once per rest.
pub(super) async fn follow(shared: Arc<Shared>, connection: Arc<Connection>, mut changed: mpsc::Receiver<List>) {
    let following = async {
        while let Some(first) = changed.recv().await {
            tokio::time::sleep(shared.config.limits.change_rest).await;
            let mut lists = vec![first];
            while let Ok(list) = changed.try_recv() {
                lists.push(list);
            }
            // `List` has no order of its own; this one only tells apart.
            let seen: BTreeSet<u8> = lists.iter().map(|list| *list as u8).collect();
            for list in [List::Tools, List::Resources, List::Prompts] {
                if seen.contains(&(list as u8)) && (list != List::Tools || fetch_tools(&shared, &connection).await) {
                    shared.offered.changed(list);
                    let _ = shared.events.send(Event::ListChanged(list));
                }
            }
        }
    };
    tokio::select! {
        () = following => {}
        () = connection.closed.cancelled() => {}
    }
}

/// Fetches the tools, and says whether they are different.
async fn fetch_tools(shared: &Shared, connection: &Connection) -> bool {
    match tools::list(connection, &shared.config.limits).await {
        Ok(tools) => shared.tools.send_if_modified(|old| {
            let is_new = **old != *tools;
            if is_new {
                *old = tools.into();
            }
            is_new
        }),
        Err(error) => {
            tracing::debug!(server = %connection.server, ?error, "the changed tools of an MCP server could not be fetched");
            false
        }
    }
}

/// Since 2026-07-28 servers tell changes only to those who listen.
pub(super) async fn listen(connection: Arc<Connection>) {
    let info = &connection.info;
    let mut filter = SubscriptionFilter::builder();
    if info.tells_changes("tools") {
        filter = filter.tools_list_changed();
    }
    if info.tells_changes("resources") {
        filter = filter.resources_list_changed();
    }
    if info.tells_changes("prompts") {
        filter = filter.prompts_list_changed();
    }
    let filter = filter.build();
    if filter == SubscriptionFilter::default() {
        return;
    }
    let listening = async {
        let Ok(mut subscription) = connection.peer.listen(filter).await else {
            return;
        };
        // What it tells is taken before rmcp sees it; it ends with this.
        while let Ok(Some(_)) = subscription.next().await {}
    };
    tokio::select! {
        () = listening => {}
        () = connection.closed.cancelled() => {}
    }
}
