//! The history of a chat for its agent, read from the journal.

use std::sync::Arc;

use ahp_types::state::Turn;
use innkeeper_core::agent::{PastTurns, SpanEnd, TurnSpan, UnreadChat};
use innkeeper_core::records::TurnSource;
use innkeeper_core::{past_turn, was_heard};

use crate::agent::{Attachment, PastTurn};

/// How much is read at once, as far as the size of a turn can be guessed from those read before.
const READ_BYTES: usize = 1 << 20;
/// Maximum turns that are read at once.
const READ_TURNS: usize = 64;

/// Reads the history that agents get.
#[derive(Debug, Clone)]
pub(crate) struct TurnHistory {
    turns: Option<Arc<dyn TurnSource>>,
    /// Maximum bytes of one chat's past.
    budget: usize,
}

/// The latest turns of a chat, oldest first.
#[derive(Debug, Default)]
pub(crate) struct AgentHistory {
    pub(crate) turns: Vec<PastTurn>,
    /// How many came before them.
    pub(crate) omitted: usize,
}

impl TurnHistory {
    pub(crate) fn new(turns: Option<Arc<dyn TurnSource>>, budget: usize) -> Self {
        Self { turns, budget }
    }

    /// Returns a chat's history, read from the newest turn until it is enough. Fails with a sentence for users.
    pub(crate) async fn tell(&self, past: PastTurns) -> Result<AgentHistory, String> {
        let PastTurns { earlier, mut recent } = past;
        let mut left = self.budget;
        let kept = recent.iter().rev().take_while(|turn| {
            let fits = size(turn) <= left;
            left = left.saturating_sub(size(turn));
            fits
        });
        // The latest turn is included however long it is.
        let dropped = recent.len() - kept.count().max(1).min(recent.len());
        recent.drain(..dropped);
        let Some(span) = earlier else {
            return Ok(AgentHistory {
                turns: recent,
                omitted: dropped,
            });
        };
        let budget = if dropped > 0 { 0 } else { left };
        let read = self.read(span, budget, recent.is_empty()).await?;
        let Some(mut told) = read else {
            return Err("the beginning of this conversation could not be read; see the host's log".to_owned());
        };
        told.omitted += dropped;
        told.turns.append(&mut recent);
        Ok(told)
    }

    /// Replaces references to attached chats by their turns. A chat that is gone or cannot be read stays a sentence
    /// that says so.
    pub(crate) async fn fill(&self, attachments: &mut [Attachment], unread: Vec<UnreadChat>) {
        for UnreadChat { attachment, span } in unread {
            let uri = span.chat.to_string();
            let told = match self.read(span, self.budget, true).await {
                Ok(Some(told)) => told,
                Ok(None) => continue,
                Err(problem) => {
                    tracing::error!(chat = uri, problem, "an attached chat could not be read");
                    continue;
                }
            };
            if let Some(place) = attachments.get_mut(attachment)
                && let Attachment::Text { label, .. } = place
            {
                let label = std::mem::take(label);
                let transcript = told.turns;
                *place = Attachment::Chat { label, uri, transcript };
            }
        }
    }

    /// Reads the latest turns of a span that fit into a budget; `None` when they are gone.
    async fn read(&self, span: TurnSpan, budget: usize, at_least_one: bool) -> Result<Option<AgentHistory>, String> {
        let Some(turns) = self.turns.clone() else {
            return Ok(None);
        };
        let reading = tokio::task::spawn_blocking(move || read_latest(&*turns, &span, budget, at_least_one));
        reading
            .await
            .unwrap_or_else(|_| Err("reading an earlier part of a conversation failed; this is a bug".to_owned()))
    }
}

fn read_latest(
    turns: &dyn TurnSource,
    span: &TurnSpan,
    budget: usize,
    at_least_one: bool,
) -> Result<Option<AgentHistory>, String> {
    let chat = &*span.chat;
    let end = match &span.end {
        SpanEnd::Before(end) => *end,
        SpanEnd::Through(turn) => match turns.position(chat, turn)? {
            Some(last) => last + 1,
            None => return Ok(None),
        },
    };
    let mut newest_first = Vec::new();
    let mut left = budget;
    let mut first = end;
    let mut at_once = 1;
    'reading: while first > 0 && (left > 0 || at_least_one && newest_first.is_empty()) {
        let rows = turns.read(chat, first.saturating_sub(at_once)..first)?;
        let largest = rows.iter().map(|row| row.len()).max().unwrap_or_default();
        at_once = (READ_BYTES / largest.max(1)).clamp(1, READ_TURNS);
        for row in rows.iter().rev() {
            if row.len() > left && !(at_least_one && newest_first.is_empty()) {
                break 'reading;
            }
            left = left.saturating_sub(row.len());
            let turn: Turn =
                serde_json::from_slice(row).map_err(|problem| format!("a turn of {chat} is damaged: {problem}"))?;
            if was_heard(&turn) {
                newest_first.push(past_turn(&turn));
            }
            first -= 1;
        }
    }
    newest_first.reverse();
    Ok(Some(AgentHistory {
        turns: newest_first,
        omitted: first,
    }))
}

/// Roughly how many bytes a turn takes as JSON.
fn size(turn: &PastTurn) -> usize {
    let tools = turn.tools.iter().map(|tool| {
        let output = tool.output.as_ref().map_or(0, String::len);
        256 + tool.input.len() + output
    });
    let attached = turn.attachments.iter().map(|attachment| match attachment {
        Attachment::Text { text, .. } => 256 + text.len(),
        Attachment::Embedded { data, .. } => 256 + data.len(),
        Attachment::Chat { transcript, .. } => 256 + transcript.iter().map(size).sum::<usize>(),
        Attachment::Reference { .. } | Attachment::Resource { .. } | Attachment::Annotations { .. } => 256,
    });
    let steered = turn.steered.iter().map(|words| 256 + words.len());
    let said = turn.text.len() + turn.reply.len();
    256 + said + tools.sum::<usize>() + attached.sum::<usize>() + steered.sum::<usize>()
}

#[cfg(test)]
mod tests;
