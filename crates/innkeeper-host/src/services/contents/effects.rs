//! What is kept beside sessions, when chats move and sessions go.

use std::sync::Arc;

use innkeeper_core::ChatsMoved;

use crate::main_loop::task::HostTask;
use crate::services::contents::names_in;

impl HostTask {
    /// What was kept beside a session goes with it.
    pub(crate) fn forget_contents(&self, session: Arc<str>) {
        let contents = Arc::clone(&self.contents);
        contents.close(&session);
        let (position, guard) = self.content_order.take(true);
        self.tasks.spawn(async move {
            let _guard = match guard {
                Some(guard) => guard,
                None => position.await,
            };
            contents.forget(&session).await;
        });
    }

    /// What chats refer to that moved is kept beside the session that has them now. The place in the order is taken
    /// now: should the session that they left go next, it waits.
    ///
    /// A process that is killed in the moment between the move and this leaves the contents where they were, for as
    /// long as that session is there.
    pub(crate) fn share_contents(&self, moved: ChatsMoved) {
        let contents = Arc::clone(&self.contents);
        contents.open(&moved.to);
        let turns = self.journal.turns();
        let (position, guard) = self.content_order.take(true);
        self.tasks.spawn(async move {
            let _guard = match guard {
                Some(guard) => guard,
                None => position.await,
            };
            let ChatsMoved { from, to, chats } = moved;
            let names = tokio::task::spawn_blocking(move || names_in(&chats, turns.as_ref())).await;
            let (names, unread) = names.unwrap_or_else(|_| {
                let problem = "looking for references failed; this is a bug".to_owned();
                (Vec::new(), Some(problem))
            });
            let shared = match names.is_empty() {
                true => Ok(()),
                false => contents.share(&from, names, &to).await,
            };
            if let Some(problem) = shared.err().or(unread) {
                tracing::warn!(%from, %to, problem, "a chat moved, and not all that it refers to could come along");
            }
        });
    }
}
