//! `createTerminal`, `disposeTerminal`, and the terminals of agents.

use std::sync::Arc;

use ahp_types::actions::{StateAction, TerminalClaimedAction, TerminalExitedAction};
use ahp_types::state::{
    TerminalClaim, TerminalLifecycleState, TerminalRunningLifecycleState, TerminalSessionClaim, TerminalState,
};
use serde_json::Value;

use super::MAX_TERMINALS;
use super::terminals::{AskedBy, Opening, Terminal};
use super::uri;
use super::vocabulary::{AgentCommandStart, CreateTerminal, PtyCommand, PtyId, PtyProgram, PtySpec, StartedTerminal};
use crate::clients::access::Scope;
use crate::core::{Cx, Host, never};
use crate::ids::{ChannelId, ConnId};
use crate::protocol::action_table::ChannelKind;
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::RequestId;
use crate::session::create::directories_of;

impl Host {
    /// `createTerminal`: started outside; [`Self::terminal_opened`] answers.
    pub(super) fn create_terminal(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        mut create: CreateTerminal,
    ) {
        self.name_claimed_chat(conn, &mut create.claim);
        if !self.config.serves_terminals {
            return cx.answer(conn, id, Err(RpcError::method_not_found("createTerminal")));
        }
        if let Err(error) = self.check_new_terminal(conn, &create) {
            return cx.answer(conn, id, Err(error));
        }
        if !self.make_room_for_terminal(cx) {
            let message = format!("this host runs {MAX_TERMINALS} terminals; dispose of some");
            return cx.answer(conn, id, Err(RpcError::new(code::CONFLICT, message)));
        }
        let size = create.size.unwrap_or_default();
        let directory = create.cwd.or_else(|| self.claimed_directory(&create.claim));
        let opening = Opening {
            uri: create.channel,
            claim: create.claim,
            name: create.name,
            size,
            asked_by: AskedBy::Client(conn, id.clone()),
        };
        let spec = PtySpec {
            program: PtyProgram::Shell,
            directory,
            size,
        };
        self.open_pty(cx, opening, spec);
    }

    fn open_pty(&mut self, cx: &mut Cx<'_>, opening: Opening, spec: PtySpec) {
        let request = match &opening.asked_by {
            AskedBy::Client(conn, id) => Some((*conn, id.clone())),
            AskedBy::Agent(_) => None,
        };
        let pty = self.parts.terminals.begin_opening(opening);
        let spec = Box::new(spec);
        cx.emit(PtyCommand::Open { pty, spec, request });
    }

    /// Checks whether a client may create a terminal.
    fn check_new_terminal(&self, conn: ConnId, create: &CreateTerminal) -> Result<(), RpcError> {
        uri::check_new_terminal(&create.channel).map_err(|problem| RpcError::invalid_params("channel", problem))?;
        if self.parts.terminals.is_opening(&create.channel) || self.channels.find(&create.channel).is_some() {
            let message = format!("there is a terminal {:?} already; choose another URI", create.channel);
            return Err(RpcError::new(code::ALREADY_EXISTS, message));
        }
        let Some(client) = self.conns.client(conn) else {
            never!("a connection that is ready has a client");
            return Ok(());
        };
        if let TerminalClaim::Client(claim) = &create.claim
            && claim.client_id != client.as_str()
        {
            // TRM-04
            let problem = "a client claims a terminal for itself, or for a session";
            return Err(RpcError::invalid_params("claim.clientId", problem));
        }
        self.check_claim(&create.claim)
            .map_err(|(field, problem)| RpcError::invalid_params(&field, problem))?;
        Ok(())
    }

    /// Returns true if another terminal may be listed. At the limit, the oldest one that has ended and has no subscribers
    /// makes room.
    fn make_room_for_terminal(&mut self, cx: &mut Cx<'_>) -> bool {
        let terminals = &self.parts.terminals;
        if terminals.count() < MAX_TERMINALS {
            return true;
        }
        if let Some(oldest) = terminals.oldest_earlier() {
            self.parts.terminals.forget_earlier(&oldest);
            cx.emit(PtyCommand::Forget { uri: oldest });
            return true;
        }
        let is_unused = |channel| self.channels.get(channel).is_none_or(|entry| !entry.has_subscribers());
        let Some(oldest) = terminals.oldest_ended(is_unused) else {
            return false;
        };
        self.dispose_of_terminal(cx, oldest);
        true
    }

    /// Returns the first working directory of the chat that claims a terminal.
    fn claimed_directory(&self, claim: &TerminalClaim) -> Option<String> {
        let TerminalClaim::Session(claim) = claim else {
            return None;
        };
        let chat = self.chats.get(&self.channels.find(&claim.chat)?)?;
        let session = self.sessions.get(&chat.session)?;
        directories_of(session, chat).into_iter().next()
    }

    /// An agent runs a command for a tool call.
    pub(super) fn open_agent_terminal(&mut self, cx: &mut Cx<'_>, start: AgentCommandStart) {
        let refuse = |cx: &mut Cx<'_>| cx.emit(PtyCommand::Refuse { number: start.number });
        // The chat may have been disposed of meanwhile.
        let Some(chat) = self.chats.get(&start.chat) else {
            return refuse(cx);
        };
        let (Some(session), Some(chat_uri)) = (self.sessions.get(&chat.session), self.chat_uri(start.chat)) else {
            return never!("the session of a chat is in memory");
        };
        let turn = chat.model.head().active_turn.as_ref().map(|turn| turn.id.clone());
        let claim = TerminalSessionClaim {
            session: session.uri.to_string(),
            chat: chat_uri.to_owned(),
            turn_id: turn,
            tool_call_id: Some(start.call),
        };
        if !self.config.serves_terminals || !self.make_room_for_terminal(cx) {
            return refuse(cx);
        }
        let opening = Opening {
            // Numbers never repeat, also not after a restart of the host.
            uri: format!("ahp-terminal:/{}-{}", self.log.seq().0, start.number),
            claim: TerminalClaim::Session(claim),
            name: Some(start.line),
            size: start.size,
            asked_by: AskedBy::Agent(start.number),
        };
        let spec = PtySpec {
            program: PtyProgram::AgentCommand(start.number),
            directory: None,
            size: start.size,
        };
        self.open_pty(cx, opening, spec);
    }

    /// A program was started, or could not be.
    pub(super) fn terminal_opened(&mut self, cx: &mut Cx<'_>, pty: PtyId, outcome: Result<StartedTerminal, RpcError>) {
        // The answer to a core before this one, in the same process.
        let Some(opening) = self.parts.terminals.end_opening(pty) else {
            return;
        };
        let started = match (outcome, &opening.asked_by) {
            (Ok(started), _) => started,
            (Err(error), AskedBy::Client(conn, id)) => return cx.answer(*conn, id, Err(error)),
            // The service knows that already.
            (Err(_), AskedBy::Agent(_)) => return,
        };
        // The session may have been disposed of while the program was started.
        if let TerminalClaim::Session(_) = &opening.claim
            && let Err((field, problem)) = self.check_claim(&opening.claim)
        {
            cx.emit(PtyCommand::Close { pty });
            return match opening.asked_by {
                AskedBy::Client(conn, id) => cx.answer(conn, &id, Err(RpcError::invalid_params(&field, problem))),
                AskedBy::Agent(number) => cx.emit(PtyCommand::Refuse { number }),
            };
        }
        let channel = self.add_channel(&opening.uri, ChannelKind::Terminal);
        let state = TerminalState {
            title: opening.name.unwrap_or(started.title),
            cwd: started.directory,
            cols: Some(opening.size.cols.into()),
            rows: Some(opening.size.rows.into()),
            content: Vec::new(),
            lifecycle: TerminalLifecycleState::Running(TerminalRunningLifecycleState {}),
            claim: opening.claim,
            supports_command_detection: None,
            is_pty: Some(started.is_pty),
        };
        let call = match &opening.asked_by {
            AskedBy::Agent(number) => Some(*number),
            AskedBy::Client(..) => None,
        };
        let uri: Arc<str> = opening.uri.into();
        let mut terminal = Terminal::started(Arc::clone(&uri), state, pty, call, cx.now.mono_ms);
        terminal.set_session(self.claiming_session(terminal.claim()));
        self.parts.terminals.insert(channel, terminal);
        self.retain_terminal(cx, channel);
        match opening.asked_by {
            AskedBy::Client(conn, id) => cx.answer(conn, &id, Ok(Value::Null)),
            AskedBy::Agent(number) => {
                let is_pty = started.is_pty;
                cx.emit(PtyCommand::Show { number, uri, is_pty });
            }
        }
    }

    /// Returns the session that a claim names.
    pub(super) fn claiming_session(&self, claim: &TerminalClaim) -> Option<ChannelId> {
        match claim {
            TerminalClaim::Session(claim) => self.channels.find(&claim.session),
            TerminalClaim::Client(_) => None,
        }
    }

    /// `disposeTerminal`: ends the process and removes the terminal (TRM-02).
    pub(super) fn dispose_terminal(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, uri: &str) {
        let terminals = &self.parts.terminals;
        let channel = self.channels.find(uri);
        let claim = channel.and_then(|channel| Some(terminals.get(channel)?.claim()));
        // One whose record is lost is still listed.
        let Some(claim) = claim.or_else(|| Some(&terminals.earlier(uri)?.claim)) else {
            let message = format!("there is no terminal {uri:?} on this host");
            return cx.answer(conn, id, Err(RpcError::new(code::NOT_FOUND, message)));
        };
        let Some(connection) = self.conns.get(&conn) else {
            return never!("the connection is open");
        };
        let is_admin = connection.principal.scope >= Scope::Admin;
        let client = self.conns.client(conn);
        let may_dispose = client.is_some_and(|client| self.check_holder(claim, client).is_ok());
        if !may_dispose && !is_admin {
            let message = "another client holds this terminal; only that client or an admin disposes of it";
            return cx.answer(conn, id, Err(RpcError::new(code::PERMISSION_DENIED, message)));
        }
        cx.answer(conn, id, Ok(Value::Null));
        match channel {
            Some(channel) => self.dispose_of_terminal(cx, channel),
            None => {
                self.parts.terminals.forget_earlier(uri);
            }
        }
    }

    /// Removes a terminal and its last state.
    fn dispose_of_terminal(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let terminal = self.parts.terminals.get(channel);
        let uri = terminal.map(|terminal| Arc::clone(terminal.uri()));
        self.close_terminal(cx, channel);
        if let Some(uri) = uri {
            cx.emit(PtyCommand::Forget { uri });
        }
    }

    /// Ends the process of a terminal and removes its channel.
    fn close_terminal(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        if let Some(pty) = self.parts.terminals.end_process(channel) {
            cx.emit(PtyCommand::Close { pty });
            let exited = TerminalExitedAction { exit_code: None };
            self.commit(cx, channel, StateAction::TerminalExited(exited), None);
        }
        if self.parts.terminals.remove(channel).is_none() {
            return never!("the channel is a terminal");
        }
        self.remove_channel(channel);
    }

    /// A session was deleted: its terminals end (SES-29). Their last states stay until the session is gone for good.
    pub(super) fn close_terminals_of(&mut self, cx: &mut Cx<'_>, session: ChannelId) {
        for channel in self.parts.terminals.claimed_by(session) {
            self.retain_terminal(cx, channel);
            self.close_terminal(cx, channel);
        }
    }

    /// The tool call of a command has ended: its claim narrows to the chat (TRM-15).
    pub(super) fn terminal_call_ended(&mut self, cx: &mut Cx<'_>, number: u64) {
        // It may have been disposed of meanwhile.
        let Some(channel) = self.parts.terminals.end_call(number) else {
            return;
        };
        if let Some(terminal) = self.parts.terminals.get(channel)
            && let TerminalClaim::Session(claim) = terminal.claim()
            && claim.tool_call_id.is_some()
        {
            let claim = TerminalClaim::Session(TerminalSessionClaim {
                turn_id: None,
                tool_call_id: None,
                ..claim.clone()
            });
            let claimed = TerminalClaimedAction { claim };
            self.commit(cx, channel, StateAction::TerminalClaimed(claimed), None);
        }
        self.retain_terminal(cx, channel);
        self.release_terminal(cx, channel);
    }

    /// Lets a terminal of an agent leave memory when its command has ended and no client watches it.
    pub(super) fn release_terminal(&mut self, _: &mut Cx<'_>, channel: ChannelId) {
        let has_subscribers = self.channels.get(channel).is_some_and(|entry| entry.has_subscribers());
        // Most channels are no terminals.
        let Some(terminal) = self.parts.terminals.get(channel) else {
            return;
        };
        if terminal.may_leave_memory() && !has_subscribers && self.storage.mode().persists() {
            self.parts.terminals.remove(channel);
            self.remove_channel(channel);
        }
    }
}
