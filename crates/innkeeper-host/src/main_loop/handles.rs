//! The handles that every part of the main loop needs: the inbox, the tasks and the limits.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::Message;
use crate::limits::Limits;

/// The inbox, the tasks and the limits of a host.
#[derive(Debug, Clone)]
pub(crate) struct LoopHandles {
    /// Weak, so that the loop ends when every handle of the host is gone.
    inbox: mpsc::WeakSender<Message>,
    tasks: TaskTracker,
    limits: Arc<Limits>,
}

impl LoopHandles {
    pub(crate) fn new(inbox: mpsc::WeakSender<Message>, tasks: TaskTracker, limits: Arc<Limits>) -> Self {
        Self { inbox, tasks, limits }
    }

    /// Returns the inbox, unless the host is going away.
    pub(crate) fn inbox(&self) -> Option<mpsc::Sender<Message>> {
        self.inbox.upgrade()
    }

    /// Returns the inbox for holders that must not keep the host alive.
    pub(crate) fn weak_inbox(&self) -> mpsc::WeakSender<Message> {
        self.inbox.clone()
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sends a message to the main loop from the main loop itself. A task sends it: the inbox may be full, and only the
    /// main loop empties it.
    pub(crate) fn send(&self, message: Message) {
        if let Some(inbox) = self.inbox() {
            self.tasks.spawn(async move {
                let _ = inbox.send(message).await;
            });
        }
    }
}
