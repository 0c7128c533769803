//! Turns that wait for servers (MCP-03): a model that is asked before its tools are there answers without
//! them.
//!
//! A turn that starts meanwhile is accepted and shown like any other, can be cancelled, and is handed
//! to its agent when no server is in the way any more, or when it has waited long enough.

use ahp_types::actions::{ChatActivityChangedAction, StateAction};

use super::wire;
use crate::core::{Cx, Host, never};
use crate::effect::AgentCommand;
use crate::ids::{ChannelId, ClientId};
use crate::session::Session;

/// A turn that is not handed to its agent yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnWait {
    /// Whether it resumes after an interruption.
    pub(crate) resume: bool,
    /// When it is handed over in any case, on the monotonic clock.
    pub(crate) until_ms: u64,
}

impl Host {
    /// Keeps the turn that was just started back, if servers are in its way. Returns whether they are.
    pub(crate) fn hold_for_servers(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, resume: bool) -> bool {
        let Some(chat) = self.chats.get(&chat_id) else {
            return false;
        };
        let session_id = chat.session;
        let Some(session) = self.sessions.get(&session_id).filter(|_| self.runs_servers()) else {
            return false;
        };
        let names = awaited(session);
        if names.is_empty() || self.config.mcp_blocking_ms == 0 {
            return false;
        }
        let activity = Some(format!("Waiting for {}", names.join(", ")));
        let until_ms = self.schedule_wait_end(cx, session_id);
        if let Some(run) = self.run_mut(chat_id) {
            run.held = Some(TurnWait { resume, until_ms });
        }
        let action = StateAction::ChatActivityChanged(ChatActivityChangedAction { activity });
        self.commit(cx, chat_id, action, None);
        true
    }

    /// Hands over the turns of a session that nothing is in the way of any more.
    pub(super) fn start_held_turns(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let is_free = awaited(session).is_empty() || !self.runs_servers();
        let now = cx.now.mono_ms;
        let due = |chat: &&ChannelId| {
            let run = self.chats.get(chat).and_then(|chat| chat.run());
            run.and_then(|run| run.held)
                .is_some_and(|held| is_free || held.until_ms <= now)
        };
        let due: Vec<ChannelId> = session.chats.iter().filter(due).copied().collect();
        for chat_id in due {
            self.start_held_turn(cx, chat_id);
        }
    }

    fn start_held_turn(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        self.clear_activity(cx, chat_id);
        let Some(run) = self.run_mut(chat_id) else {
            return never!("a held turn has a run");
        };
        let Some(held) = run.held.take() else {
            return never!("the turn is held");
        };
        // Its agent's time starts here.
        run.last_event_ms = cx.now.mono_ms;
        let turn = run.key();
        let author: Option<ClientId> = run.author.clone();
        if let Some(start) = self.turn_start(cx, chat_id, held.resume, author.as_ref()) {
            cx.emit(AgentCommand::StartTurn {
                chat: chat_id,
                turn,
                start: Box::new(start),
            });
        }
    }

    /// A turn ended before its agent got it.
    pub(crate) fn note_missed_turn(&mut self, chat_id: ChannelId, held: TurnWait) {
        if let Some(chat) = self.chats.get_mut(&chat_id) {
            chat.undelivered |= !held.resume;
        }
    }

    /// The wait for servers is over: those that are still starting continue to start, and turns no longer wait for
    /// them.
    pub(crate) fn stop_waiting(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        // The timer outlives a session that is disposed or evicted meanwhile.
        let Some(session) = self.sessions.get(&session_id) else {
            return;
        };
        let is_over = session.mcp.blocks_until_ms <= cx.now.mono_ms;
        let servers = wire::servers(&session.state).map(|(_, server)| server);
        let blocking = servers.filter(|server| is_over && wire::is_blocking(server));
        let blocking: Vec<String> = blocking.map(|server| server.id.clone()).collect();
        for id in blocking {
            self.commit(cx, session_id, wire::changed(&id, wire::starting(false), None), None);
        }
        self.start_held_turns(cx, session_id);
    }
}

/// The names of what the turns of a session wait for: servers that start, and before that the report of which ones
/// there are.
fn awaited(session: &Session) -> Vec<&str> {
    if session.customization.is_awaited() {
        return vec!["the session's customizations"];
    }
    let servers = wire::servers(&session.state).map(|(_, server)| server);
    servers
        .filter(|server| wire::is_blocking(server))
        .map(|server| server.name.as_str())
        .collect()
}
