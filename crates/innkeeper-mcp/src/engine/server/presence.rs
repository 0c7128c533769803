//! Notices when a server behind an address is gone (F3).
//!
//! Of a process that is known at once; of an address, somebody has to look. A request or a stream that did
//! not get through is a doubt and no more: connections break for many reasons, and a server that answers
//! somebody is there. So it is asked something small, twice, and only when nothing answers at all, not even
//! to refuse, is it taken for gone: calls that wait for it fail with the reason, and it is looked for with
//! the delays of a server that crashed.

use std::sync::Arc;
use std::time::Duration;

use super::connect::not_reached;
use super::connection::Connection;
use super::peer::OurEnd;
use super::{Far, Shared};
use crate::engine::wire::HttpFailure;

/// Between the two looks; also what a server has that is started anew by whoever runs it.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks after a server until its connection ends, and ends it when the server is gone.
pub(super) async fn look_after(shared: Arc<Shared>, connection: Arc<Connection>, our_end: OurEnd) {
    let Some(far) = &shared.remote else {
        return;
    };
    let watching = async {
        loop {
            tokio::select! {
                () = connection.doubts.notified() => {}
                // One that nobody uses, and that keeps no stream open, would be taken for ready for ever.
                () = tokio::time::sleep(shared.config.limits.look_after) => {}
            }
            match look(far).await {
                Look::There => {}
                // It may be another life of it, which offers something else.
                Look::Back => our_end.all_changed(),
                Look::Gone(failure) => return shared.scrub(&not_reached(far, &failure)),
            }
        }
    };
    tokio::select! {
        why = watching => {
            tracing::info!(server = %connection.server, why, "an MCP server is gone");
            // Before the connection is closed: those who wait for it tell why.
            let _ = connection.gone.set(why);
            connection.closed.cancel();
        }
        () = connection.closed.cancelled() => {}
    }
}

enum Look {
    There,
    /// It was away for a moment.
    Back,
    Gone(HttpFailure),
}

async fn look(far: &Far) -> Look {
    if far.client.is_there(&far.url).await.is_ok() {
        return Look::There;
    }
    tokio::time::sleep(PAUSE).await;
    match far.client.is_there(&far.url).await {
        Ok(()) => Look::Back,
        Err(failure) => Look::Gone(failure),
    }
}
