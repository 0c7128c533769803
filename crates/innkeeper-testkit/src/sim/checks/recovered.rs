//! A restart may close running turns, with all their output, and change nothing else (P1, P4).

use std::sync::Arc;

use ahp::reducers::apply_action_to_chat;
use ahp_types::actions::{ChatErrorAction, StateAction};
use ahp_types::state::{
    ChatOrigin, ChatState, ChatSummary, ChildCustomization, Customization, McpServerCustomization, McpServerState,
    McpServerStoppedState, ResponsePart, SessionState, SessionStatus,
};
use innkeeper_core::snapshot::{Snapshot, State};
use serde_json::{Value, json};

use crate::comparable::ACTIVITY_BITS;
use crate::sim::Violation;
use crate::sim::store::HostState;

/// Compares what there was with what came back.
pub fn check(before: &HostState, after: &HostState) -> Result<(), Violation> {
    if let Some(lost) = before.keys().find(|uri| !after.contains_key(*uri)) {
        return Err(Violation::new(format!("{lost} is lost (P1)")));
    }
    for (uri, found) in after {
        let Some(known) = before.get(uri) else {
            return Err(Violation::new(format!("{uri} comes from nowhere")));
        };
        let in_memory = known.in_memory;
        let (expected, found) = match (&known.snapshot.state, &found.snapshot.state) {
            (State::Chat(..), State::Chat(..)) => chats(&known.snapshot, &found.snapshot)?,
            (State::Session(known), State::Session(found)) => sessions(known.shared(), found.shared(), in_memory)?,
            _ => return Err(Violation::new(format!("{uri} comes back as something else"))),
        };
        same_opt_ins(&before[uri].snapshot, &after[uri].snapshot)?;
        if expected != found {
            return Err(Violation::new(format!(
                "{uri} comes back different\n  before: {expected}\n  after:  {found}"
            )));
        }
    }
    Ok(())
}

/// An active client that stays has the same opt-in for prompt transforms as before (SMT-17).
fn same_opt_ins(before: &Snapshot, after: &Snapshot) -> Result<(), Violation> {
    let members = |snapshot: &Snapshot| {
        let mut state = serde_json::to_value(&snapshot.state).unwrap_or_default();
        let members = state
            .get_mut("activeClients")
            .and_then(|members| members.as_array_mut());
        members.map(std::mem::take).unwrap_or_default()
    };
    let before = members(before);
    for member in members(after) {
        let was = before.iter().find(|was| was["clientId"] == member["clientId"]);
        if was.is_some_and(|was| was["systemMessageTransform"] != member["systemMessageTransform"]) {
            return Err(Violation::new(format!(
                "a client comes back with another opt-in\n  before: {was:?}\n  after:  {member}"
            )));
        }
    }
    Ok(())
}

/// A chat, as it should be and as it is.
fn chats(before: &Snapshot, after: &Snapshot) -> Result<(Value, Value), Violation> {
    let (Some(mut before), Some(mut after)) = (whole(before), whole(after)) else {
        return Err(Violation::new("a chat without its turns"));
    };
    if let Some(turn) = &before.active_turn {
        let closed = after.turns.last();
        let end = closed.and_then(|closed| match closed.response_parts.last() {
            Some(ResponsePart::Error(part)) => Some((closed, part)),
            _ => None,
        });
        let Some((closed, part)) = end.filter(|(closed, _)| closed.id == turn.id) else {
            return Err(Violation::new(format!(
                "{} ran when the host ended and was not closed with an error: {closed:?} (P4)",
                turn.id
            )));
        };
        if part.error.error_type != "hostRestarted" || part.error.message.is_empty() {
            return Err(Violation::new(format!("{} was closed with {part:?} (P4)", turn.id)));
        }
        let action = ChatErrorAction {
            turn_id: turn.id.clone(),
            duration: closed.duration.unwrap_or_default(),
            part: part.clone(),
            meta: None,
        };
        apply_action_to_chat(&mut before, &StateAction::ChatError(action));
        // The end of a turn makes its chat unread, unless it is a subagent's (SES-15).
        if !matches!(before.origin, Some(ChatOrigin::Tool { .. })) {
            before.status &= !SessionStatus::IsRead.bits();
        }
    }
    for chat in [&mut before, &mut after] {
        chat.activity = None;
        chat.background_work = None;
        chat.modified_at.clear();
    }
    Ok((json!(before), json!(after)))
}

/// A chat with its turns, as a client without a window has it.
fn whole(snapshot: &Snapshot) -> Option<ChatState> {
    let mut state = serde_json::to_value(&snapshot.state).ok()?;
    state.as_object_mut()?.remove("turnsNextCursor");
    let State::Chat(head, ..) = &snapshot.state else {
        return None;
    };
    // Not everything that a host may have can be read back (E-41): what runs is taken as it is.
    let read: ChatState = serde_json::from_value(state).ok()?;
    Some(ChatState {
        turns: read.turns,
        turns_next_cursor: None,
        ..(**head).clone()
    })
}

/// A session, as it should be and as it is.
fn sessions(before: Arc<SessionState>, after: Arc<SessionState>, in_memory: bool) -> Result<(Value, Value), Violation> {
    for member in &after.active_clients {
        if !before.active_clients.contains(member) {
            return Err(Violation::new(format!("{member:?} became a member by itself")));
        }
    }
    let mut expected = SessionState::clone(&before);
    let is_interrupted = |chat: &ChatSummary| {
        let is_subagent = matches!(chat.origin, Some(ChatOrigin::Tool { .. }));
        !is_subagent && chat.status & SessionStatus::InProgress.bits() != 0
    };
    if before.chats.iter().any(is_interrupted) {
        expected.status &= !SessionStatus::IsRead.bits();
    }
    Ok((unchanging(&expected, in_memory), unchanging(&after, in_memory)))
}

/// The fields of a session that no restart changes.
fn unchanging(session: &SessionState, in_memory: bool) -> Value {
    let chats = session.chats.iter().map(|chat| json!([chat.resource, chat.title]));
    let chats: Vec<Value> = chats.collect();
    let mut state = session.clone();
    state.chats.clear();
    state.active_clients.clear();
    state.activity = None;
    state.input_needed = None;
    state.status &= !ACTIVITY_BITS;
    // No server outlives its process.
    state.customizations.iter_mut().flatten().for_each(stop_servers);
    match in_memory {
        // Customizations of clients go with them.
        true => state.customizations.iter_mut().for_each(|list| list.retain(is_of_host)),
        // A session that was away learns when it comes back what was decided about them.
        false => state.customizations = None,
    }
    if let Some(config) = state.config.as_mut().filter(|_| !in_memory) {
        // A session that was away learns when it comes back what was allowed in its workspace.
        config.values.remove("workspaceApprovedTools");
        config.values.remove("everywhereApprovedTools");
    }
    json!([state, chats])
}

fn is_of_host(entry: &Customization) -> bool {
    !matches!(entry, Customization::Plugin(plugin) if plugin.client_id.is_some())
}

fn stop_servers(entry: &mut Customization) {
    let stop = |server: &mut McpServerCustomization| {
        server.state = McpServerState::Stopped(McpServerStoppedState {});
        server.channel = None;
        server.mcp_app = None;
    };
    let children = match entry {
        Customization::McpServer(server) => return stop(server),
        Customization::Plugin(plugin) => plugin.children.as_mut(),
        Customization::Directory(directory) => directory.children.as_mut(),
        Customization::Unknown(_) => None,
    };
    for child in children.into_iter().flatten() {
        if let ChildCustomization::McpServer(server) = child {
            stop(server);
        }
    }
}
