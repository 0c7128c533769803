//! Follows the lists of a server as they change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::Shared;
use super::connection::{Connection, Failed};
use super::peer::OurEnd;
use crate::engine::state::{Event, List};
use crate::engine::tools;

/// How long after the end of a stream of changes the next one is asked for; twice as long every time that a
/// stream did not last as long as the pause before it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Fetches what changed until the connection ends. However often a server says that something
/// changed, it is fetched at most once per rest.
pub(super) async fn follow(shared: Arc<Shared>, connection: Arc<Connection>, mut changed: mpsc::Receiver<List>) {
    let following = async {
        while let Some(first) = changed.recv().await {
            sleep(shared.config.limits.change_rest).await;
            let mut lists = vec![first];
            while let Ok(list) = changed.try_recv() {
                lists.push(list);
            }
            // `List` has no order of its own; this one only tells apart.
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

/// Fetches the tools, and says whether they are different.
async fn fetch_tools(shared: &Shared, connection: &Connection) -> bool {
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
            // A careless server says the token again (OTL-07).
            let error = match error {
                Failed::Challenged(_) => "somebody has to sign in first".to_owned(),
                Failed::Final(error) => shared.scrub(&error.to_string()),
            };
            tracing::debug!(server = %connection.server, error, "the changed tools of an MCP server could not be fetched");
            false
        }
    }
}

/// Since 2026-07-28 servers tell changes only to those who listen.
pub(super) async fn listen(connection: Arc<Connection>, our_end: OurEnd) {
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
            let mut acknowledged = our_end.acknowledged.subscribe();
            let mut listening = connection.peer.request("subscriptions/listen", params.clone(), None);
            let id = listening.id();
            let is_heard = tokio::select! {
                _ = acknowledged.wait_for(|acknowledged| *acknowledged == Some(id)) => true,
                _ = listening.answer() => false,
            };
            match is_heard {
                true => {
                    if heard {
                        // What changed while nobody listened.
                        our_end.all_changed();
                    }
                    heard = true;
                    let since = Instant::now();
                    // The changes come as notifications. The answer ends the stream.
                    let _ = listening.answer().await;
                    if since.elapsed() > pause {
                        pause = FIRST_PAUSE;
                    }
                }
                // A server that says that it tells changes, and then does not, is not asked again.
                false if !heard => return,
                false => {}
            }
            // Streams end for many reasons; one is that the server is gone (F3).
            connection.doubts.notify_one();
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    tokio::select! {
        () = listening => {}
        () = connection.closed.cancelled() => {}
    }
}
