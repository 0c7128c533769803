//! Notices when a server behind an address is gone (F3).
//!
//! The end of a process is known at once; an address has to be checked. A failed request or stream is only a reason for a
//! check: connections break for many reasons. The check is a ping. Only if two pings get no answer at all, not even a
//! refusal, the server is gone: waiting calls fail with the reason, and it is reconnected with the delays of a crash.

use std::sync::Arc;
use std::time::Duration;

use super::client_handler::ClientHandler;
use super::connect::not_reached;
use super::connection::Connection;
use super::{RemoteServer, ServerShared};
use crate::engine::wire::HttpFailure;

/// The pause between the two pings, in which a server can be restarted.
const PAUSE: Duration = Duration::from_secs(1);

/// Checks a server until its connection ends, and ends the connection when the server is gone.
pub(super) async fn watch_presence(shared: Arc<ServerShared>, connection: Arc<Connection>, handler: ClientHandler) {
    let Some(remote) = &shared.remote else {
        // A local server is gone when its process ends.
        return;
    };
    let watching = async {
        loop {
            tokio::select! {
                () = connection.presence_doubts.notified() => {}
                // An idle server without a stream would stay ready for ever.
                () = tokio::time::sleep(shared.config.limits.presence_interval) => {}
            }
            match check(remote).await {
                Presence::Present => {}
                // It may have been restarted, and offer something else.
                Presence::Returned => handler.all_changed(),
                Presence::Gone(failure) => return shared.scrub(&not_reached(remote, &failure)),
            }
        }
    };
    tokio::select! {
        why = watching => {
            tracing::info!(server = %connection.server, why, "an MCP server is gone");
            // Before the connection is closed, so that waiting calls report why.
            let _ = connection.gone.set(why);
            connection.closed.cancel();
        }
        () = connection.closed.cancelled() => {}
    }
}

enum Presence {
    Present,
    /// It was gone for a moment.
    Returned,
    Gone(HttpFailure),
}

async fn check(remote: &RemoteServer) -> Presence {
    if remote.client.is_there(&remote.url).await.is_ok() {
        return Presence::Present;
    }
    tokio::time::sleep(PAUSE).await;
    match remote.client.is_there(&remote.url).await {
        Ok(()) => Presence::Returned,
        Err(failure) => Presence::Gone(failure),
    }
}
