//! Turns that the core wants back in memory.

use std::ops::Range;
use std::sync::Arc;

use ahp_types::state::Turn;
use innkeeper_core::stored::TurnSource;
use innkeeper_core::{ChannelId, Input};

use super::message::Message;
use super::task::HostTask;

impl HostTask {
    /// Reads turns beside the main loop. They come back as a message, and so does a failure: what
    /// waits for them must not wait for ever.
    pub(super) fn load_turns(&mut self, chat: ChannelId, uri: Arc<str>, range: Range<usize>) {
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let turns = self.journal.turns();
        let first = range.start;
        self.tasks.spawn(async move {
            let reading = tokio::task::spawn_blocking(move || read(turns.as_deref(), &uri, range));
            let outcome = match reading.await {
                Ok(outcome) => outcome,
                Err(_) => Err("reading them failed; this is a bug".to_owned()),
            };
            if let Err(problem) = &outcome {
                tracing::error!(problem, "turns of a chat could not be read");
            }
            let loaded = Input::TurnsLoaded { chat, first, outcome };
            let _ = inbox.send(Message::Core(loaded)).await;
        });
    }
}

fn read(turns: Option<&dyn TurnSource>, chat: &str, range: Range<usize>) -> Result<Vec<Turn>, String> {
    let turns = turns.ok_or_else(|| "this host keeps no turns".to_owned())?;
    let rows = turns.read(chat, range)?;
    let decode = |row: &bytes::Bytes| {
        serde_json::from_slice(row).map_err(|problem| format!("a turn of {chat} is damaged: {problem}"))
    };
    rows.iter().map(decode).collect()
}
