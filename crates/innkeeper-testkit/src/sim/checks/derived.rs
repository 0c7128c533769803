//! The derived state of a session, computed again from its chats alone.

use std::sync::Arc;

use ahp_types::state::{ChatOrigin, ChatState, ResponsePart, SessionState, SessionStatus, Turn, TurnState};
use serde_json::{Value, json};

use crate::sim::Violation;

/// Bits 0 to 4 of a status are one activity (E-26).
const ACTIVITY_BITS: u32 = 0b1_1111;

/// One chat: everything but the completed turns, and those.
pub type Parts<'a> = (&'a ChatState, &'a [Arc<Turn>]);

/// Checks a session against its chats: the catalogue (SES-14), what it waits for (SES-18, SES-19)
/// and its status (SES-15, SES-16, SES-20).
pub fn check(uri: &str, session: &SessionState, chats: &[Parts<'_>]) -> Result<(), Violation> {
    let waits: Vec<Vec<Value>> = chats.iter().map(|(chat, _)| waits_of(chat)).collect();
    check_catalogue(session, chats, &waits)
        .and_then(|()| check_waits(session, waits.concat()))
        .and_then(|()| check_status(session, chats))
        .map_err(|problem| Violation::new(format!("{uri}: {problem}")))
}

fn check_catalogue(session: &SessionState, chats: &[Parts<'_>], waits: &[Vec<Value>]) -> Result<(), String> {
    for ((chat, history), waits) in chats.iter().zip(waits) {
        let bits = chat.status & ACTIVITY_BITS;
        let wanted = chat_bits(chat, waits);
        let failed = history.last().is_some_and(|turn| turn.state == TurnState::Error);
        let shows_error = chat.active_turn.is_none() && failed && bits == SessionStatus::Error.bits();
        if bits != wanted && !shows_error {
            return Err(format!("{} has the status {bits} and not {wanted}", chat.resource));
        }
        let entry = session.chats.iter().find(|entry| entry.resource == chat.resource);
        let Some(entry) = entry else {
            return Err(format!("{} is not in the catalogue (SES-14)", chat.resource));
        };
        let shown = (&entry.title, entry.status, &entry.activity, &entry.modified_at);
        let true_ones = (&chat.title, chat.status, &chat.activity, &chat.modified_at);
        if shown != true_ones {
            return Err(format!(
                "the catalogue shows {shown:?} of a chat with {true_ones:?} (SES-14)"
            ));
        }
    }
    if chats.len() != session.chats.len() {
        return Err(format!(
            "the catalogue has {} chats, not {}",
            session.chats.len(),
            chats.len()
        ));
    }
    Ok(())
}

fn check_waits(session: &SessionState, mut wanted: Vec<Value>) -> Result<(), String> {
    let shown = session.input_needed.as_deref().unwrap_or_default();
    let mut ids: Vec<String> = Vec::new();
    for entry in shown {
        let mut entry = serde_json::to_value(entry).unwrap_or_default();
        let id = entry.as_object_mut().and_then(|fields| fields.remove("id"));
        match id.as_ref().and_then(Value::as_str) {
            Some(id) if !id.is_empty() && !ids.iter().any(|known| known == id) => ids.push(id.to_owned()),
            _ => return Err(format!("{entry} needs an id of its own (SES-18)")),
        }
        match wanted.iter().position(|wait| *wait == entry) {
            Some(index) => {
                wanted.swap_remove(index);
            }
            None => return Err(format!("inputNeeded has {entry}, and no chat waits for that (SES-18)")),
        }
    }
    match wanted.first() {
        None => Ok(()),
        Some(missing) => Err(format!("inputNeeded lacks {missing} (SES-18)")),
    }
}

/// Computes `inputNeeded` of a chat from its parts, without the ids.
fn waits_of(chat: &ChatState) -> Vec<Value> {
    let Some(turn) = &chat.active_turn else {
        return Vec::new();
    };
    let may_wait = |part: &&ResponsePart| matches!(part, ResponsePart::ToolCall(_) | ResponsePart::InputRequest(_));
    let parts = turn
        .response_parts
        .iter()
        .filter(may_wait)
        .map(|part| serde_json::to_value(part).unwrap_or_default());
    let wait = |mut part: Value| {
        if part["kind"] == "inputRequest" {
            let is_open = part.get("response").is_none();
            return is_open.then(|| json!({ "kind": "chatInput", "chat": chat.resource, "request": part["request"] }));
        }
        let mut call = part["toolCall"].take();
        let kind = match (call["status"].as_str()?, call["contributor"]["kind"].as_str()) {
            ("pending-confirmation" | "pending-result-confirmation", _) => "toolConfirmation",
            ("auth-required", _) => "toolAuthentication",
            ("running", Some("client")) => "toolClientExecution",
            _ => return None,
        };
        let mut wait = json!({ "kind": kind, "chat": chat.resource, "turnId": turn.id });
        if kind == "toolClientExecution" {
            wait["clientId"] = call["contributor"]["clientId"].clone();
            // Output that the owner streams stays in the chat.
            if let Some(fields) = call.as_object_mut() {
                fields.remove("content");
            }
        }
        wait["toolCall"] = call;
        Some(wait)
    };
    parts.filter_map(wait).collect()
}

/// The activity of a chat, as its parts say it.
fn chat_bits(chat: &ChatState, waits: &[Value]) -> u32 {
    if waits.iter().any(|wait| wait["kind"] != "toolClientExecution") {
        SessionStatus::InputNeeded.bits()
    } else if chat.active_turn.is_some() {
        SessionStatus::InProgress.bits()
    } else {
        SessionStatus::Idle.bits()
    }
}

fn check_status(session: &SessionState, chats: &[Parts<'_>]) -> Result<(), String> {
    // The parent reports a failed subagent; users cannot resume its chat.
    let counts = |chat: &ChatState| {
        let is_subagent = matches!(chat.origin, Some(ChatOrigin::Tool { .. }));
        !is_subagent || chat.status & ACTIVITY_BITS != SessionStatus::Error.bits()
    };
    let has = |status: SessionStatus| {
        let counted = chats.iter().filter(|(chat, _)| counts(chat));
        let mut all = counted.map(|(chat, _)| chat.status & ACTIVITY_BITS);
        all.any(|bits| bits == status.bits())
    };
    let precedence = [
        SessionStatus::InputNeeded,
        SessionStatus::Error,
        SessionStatus::InProgress,
    ];
    let wanted = precedence
        .into_iter()
        .find(|status| has(*status))
        .unwrap_or(SessionStatus::Idle);
    let bits = session.status & ACTIVITY_BITS;
    if bits != wanted.bits() {
        return Err(format!(
            "the status is {bits} and not {} (SES-15, SES-16)",
            wanted.bits()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
