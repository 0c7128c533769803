//! Follows the lists of a server as they change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::ServerShared;
use super::client_handler::ClientHandler;
use super::connection::{AttemptFailure, Connection};
use crate::engine::state::{Event, List};
use crate::engine::tools;

/// The pause after the end of a stream of changes. It doubles every time that a stream did not last as long as the pause
/// before it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Fetches changed lists until the connection ends. However often a server reports a change, a list is fetched at most once
/// per interval.
pub(super) async fn follow(shared: Arc<ServerShared>, connection: Arc<Connection>, mut changed: mpsc::Receiver<List>) {
    let following = async {
        while let Some(first) = changed.recv().await {
            sleep(shared.config.limits.change_rest).await;
            let mut lists = vec![first];
            while let Ok(list) = changed.try_recv() {
                lists.push(list);
            }
            // `List` has no order; this one only removes duplicates.
            let seen: BTreeSet<u8> = lists.iter().map(|list| *list as u8).collect();
            for list in [List::Tools, List::Resources, List::Prompts] {
                if seen.contains(&(list as u8)) && (list != List::Tools || fetch_tools(&shared, &connection).await) {
                    shared.offered.changed(list);
                    shared.events.send(Event::ListChanged(list));
                }
            }
        }
    };
    tokio::select! {
        () = following => {}
        () = connection.closed.cancelled() => {}
    }
}

/// Fetches the tools, and returns true if they changed.
async fn fetch_tools(shared: &ServerShared, connection: &Connection) -> bool {
    let limits = &shared.config.limits;
    match tools::list(connection, limits, limits.request_time).await {
        Ok(tools) => shared.tools.send_if_modified(|old| {
            let is_new = **old != *tools;
            if is_new {
                *old = tools.into();
            }
            is_new
        }),
        Err(error) => {
            // The message may repeat the token (OTL-07).
            let error = match error {
                AttemptFailure::Challenged(_) => "a sign-in is needed first".to_owned(),
                AttemptFailure::Final(error) => shared.scrub(&error.to_string()),
            };
            tracing::debug!(server = %connection.server, error, "the changed tools of an MCP server could not be fetched");
            false
        }
    }
}

/// Subscribes to changes: since 2026-07-28 servers report them only to subscribers.
pub(super) async fn listen(connection: Arc<Connection>, handler: ClientHandler) {
    let lists = ["tools", "resources", "prompts"].into_iter();
    let told = lists.filter(|list| connection.info.tells_changes(list));
    let filter: Map<String, Value> = told.map(|list| (format!("{list}ListChanged"), true.into())).collect();
    if filter.is_empty() {
        return;
    }
    let params = Map::from_iter([("notifications".to_owned(), Value::Object(filter))]);
    let listening = async {
        let mut pause = FIRST_PAUSE;
        let mut heard = false;
        loop {
            let mut acknowledged = handler.acknowledged.subscribe();
            let mut listening = connection.peer.request("subscriptions/listen", params.clone(), None);
            let id = listening.id();
            let is_heard = tokio::select! {
                _ = acknowledged.wait_for(|acknowledged| *acknowledged == Some(id)) => true,
                _ = listening.answer() => false,
            };
            match is_heard {
                true => {
                    if heard {
                        // The lists may have changed without a subscription.
                        handler.all_changed();
                    }
                    heard = true;
                    let since = Instant::now();
                    // The changes come as notifications. The answer ends the stream.
                    let _ = listening.answer().await;
                    if since.elapsed() > pause {
                        pause = FIRST_PAUSE;
                    }
                }
                // A server that announces changes and refuses the subscription is not asked again.
                false if !heard => return,
                false => {}
            }
            // Streams end for many reasons; one is that the server is gone (F3).
            connection.presence_doubts.notify_one();
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    tokio::select! {
        () = listening => {}
        () = connection.closed.cancelled() => {}
    }
}
