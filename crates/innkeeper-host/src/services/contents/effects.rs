//! Performs the effects on contents: contents move with their chats and are deleted with their session.

use std::sync::Arc;

use innkeeper_core::records::TurnSource;
use innkeeper_core::{BlobCommand, ChatsMoved};

use crate::main_loop::handles::LoopHandles;
use crate::services::contents::{Contents, SessionContents, names_in};
use crate::services::journal::effects::JournalRequests;
use crate::services::resources::effects::{OperationOrder, QueueGuard, QueuePosition};

/// The contents that are stored beside sessions.
pub(crate) struct ContentStore {
    contents: Arc<dyn Contents>,
    /// Contents are moved and deleted in the order in which the core decided so.
    order: OperationOrder,
}

impl ContentStore {
    pub(crate) fn new(contents: Arc<dyn Contents>) -> Self {
        Self {
            contents,
            order: OperationOrder::default(),
        }
    }

    pub(crate) fn contents(&self) -> Arc<dyn Contents> {
        Arc::clone(&self.contents)
    }

    /// Returns the contents of one session, each of at most `max_bytes`.
    pub(crate) fn of_session(&self, session: &Arc<str>, max_bytes: usize) -> SessionContents {
        SessionContents::new(self.contents(), Arc::clone(session), max_bytes, self.order.lock())
    }

    /// Opens a session for an import. A deleted session of the same name is removed before the position is reached.
    pub(crate) fn begin_import(&self, session: &str) -> (QueuePosition, Option<QueueGuard>) {
        self.contents.open(session);
        self.order.take(false)
    }

    pub(crate) fn perform(&self, handles: &LoopHandles, journal: &JournalRequests, command: BlobCommand) {
        match command {
            BlobCommand::CopyForMovedChats(moved) => self.share(handles, journal.stored_turns(), *moved),
        }
    }

    /// Deletes the contents of a session.
    pub(crate) fn forget_session(&self, handles: &LoopHandles, session: Arc<str>) {
        let contents = self.contents();
        contents.close(&session);
        let (position, guard) = self.order.take(true);
        handles.tasks().spawn(async move {
            let _guard = match guard {
                Some(guard) => guard,
                None => position.await,
            };
            contents.forget(&session).await;
        });
    }

    /// Copies the contents that moved chats refer to into the session that has the chats now. The position in the order
    /// is taken now: if the old session is deleted next, the deletion waits.
    ///
    /// A process that is killed between the move and this leaves the contents with the old session, until that session
    /// is deleted.
    fn share(&self, handles: &LoopHandles, turns: Option<Arc<dyn TurnSource>>, moved: ChatsMoved) {
        let contents = self.contents();
        contents.open(&moved.to);
        let (position, guard) = self.order.take(true);
        handles.tasks().spawn(async move {
            let _guard = match guard {
                Some(guard) => guard,
                None => position.await,
            };
            let ChatsMoved { from, to, chats } = moved;
            let names = tokio::task::spawn_blocking(move || names_in(&chats, turns.as_ref())).await;
            let (names, unread) = names.unwrap_or_else(|_| {
                let problem = "the search for references failed; this is a bug".to_owned();
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
