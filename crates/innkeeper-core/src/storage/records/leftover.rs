//! Empty sessions of earlier versions, which listed every session from its creation (ADR 0006).

use std::ops::Range;
use std::sync::Arc;

use ahp_types::state::SessionStatus;
use bytes::Bytes;
use serde_json::Value;

use super::{RestoredSession, StoredSession, TurnSource, restore};
use crate::session::TitleSource;

/// Returns the document of a stored session as a draft, if the session is listed although no user has written in it.
/// Returns `None` for every other session, and for one that cannot be read.
pub fn leftover_as_draft(stored: StoredSession) -> Option<Bytes> {
    let document = stored.document.clone();
    let turns: Arc<dyn TurnSource> = Arc::new(NoTurns);
    let session = restore(stored, &turns).ok()?;
    if !is_leftover(&session) {
        return None;
    }
    let mut document: Value = serde_json::from_slice(&document).ok()?;
    document
        .as_object_mut()?
        .insert("isDraft".to_owned(), Value::Bool(true));
    serde_json::to_vec(&document).ok().map(Bytes::from)
}

/// Compares a session with what ends a draft: a turn, a pending message, a title, archiving or a further chat. A
/// session whose turns were all truncated has the title of its first message. Unsent text also counts here, because
/// this session was listed while the user typed it.
fn is_leftover(session: &RestoredSession) -> bool {
    let [chat] = session.chats.as_slice() else {
        return false;
    };
    let head = chat.model.head();
    let has_pending =
        head.steering_message.is_some() || head.queued_messages.as_ref().is_some_and(|queue| !queue.is_empty());
    let is_archived = session.document.state.status & SessionStatus::IsArchived.bits() != 0;
    !session.document.is_draft
        && !session.document.imported
        && !is_archived
        && session.document.titled_by == TitleSource::None
        && chat.titled_by == TitleSource::None
        && chat.model.turn_count() == 0
        && head.active_turn.is_none()
        && !has_pending
        && head.draft.is_none()
}

/// The history of a chat without turns.
#[derive(Debug)]
struct NoTurns;

impl TurnSource for NoTurns {
    fn read(&self, _: &str, _: Range<usize>) -> Result<Vec<Bytes>, String> {
        Ok(Vec::new())
    }

    fn position(&self, _: &str, _: &str) -> Result<Option<usize>, String> {
        Ok(None)
    }
}
