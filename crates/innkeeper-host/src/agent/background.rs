//! Background work beside turns (CHT-24).

use std::sync::Arc;

use innkeeper_core::agent::BackgroundChange;

use super::{AgentError, EventSink};
use crate::agent::runtime::driver::ChatLink;

pub(super) async fn begin(events: &EventSink, label: String, command: String) -> Result<Background, AgentError> {
    if events.cancelled.is_cancelled() {
        return Err(AgentError::Cancelled);
    }
    let mut background = Background {
        link: Arc::clone(&events.link),
        id: events.mailbox.fresh_id("background"),
        label,
        command,
        terminal: None,
        is_shown: false,
    };
    background.show().await?;
    Ok(background)
}

/// Work that is shown beside turns for as long as this is held; it survives the turn that began
/// it. Made by [`EventSink::background`].
#[derive(Debug)]
#[must_use = "background work that is dropped is no longer shown"]
pub struct Background {
    link: Arc<ChatLink>,
    id: String,
    label: String,
    command: String,
    terminal: Option<String>,
    is_shown: bool,
}

impl Background {
    /// Changes the label.
    pub async fn relabel(&mut self, label: impl Into<String>) -> Result<(), AgentError> {
        self.label = label.into();
        self.show().await
    }

    /// Says which terminal shows its output, by URI.
    pub async fn in_terminal(&mut self, terminal: impl Into<String>) -> Result<(), AgentError> {
        self.terminal = Some(terminal.into());
        self.show().await
    }

    /// The work is done.
    pub fn finish(self) {}

    /// Completes when the chat is gone or starts afresh, so that the work has to end.
    pub async fn closed(&self) {
        self.link.closed.cancelled().await;
    }

    /// Shows it for as long as the given work takes, in a task of the host's. The work is dropped
    /// when its chat is gone or starts afresh.
    pub fn during(self, work: impl Future<Output = ()> + Send + 'static) {
        let link = Arc::clone(&self.link);
        link.run_apart(async move {
            work.await;
            self.finish();
        });
    }

    async fn show(&mut self) -> Result<(), AgentError> {
        let mut change = BackgroundChange::Set {
            id: self.id.clone(),
            label: self.label.clone(),
            command: self.command.clone(),
            terminal: self.terminal.clone(),
        };
        loop {
            match self.link.queue.offer_beside(change) {
                Ok(ring) => {
                    self.is_shown = true;
                    if ring {
                        self.link.wake().await?;
                    }
                    return Ok(());
                }
                Err(Some(back)) => change = back,
                Err(None) => return Err(AgentError::Cancelled),
            }
            self.link.queue.room_beside().await;
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.is_shown {
            let id = std::mem::take(&mut self.id);
            if self.link.queue.push_beside(BackgroundChange::Remove { id }) {
                self.link.wake_now();
            }
        }
    }
}
