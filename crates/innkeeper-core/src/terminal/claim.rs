//! Claims: which client may type, resize, rename and hand a terminal over (TRM-03, TRM-05, TRM-18).
//!
//! A terminal that a client claims is that client's until it hands the terminal over or stays away longer than its grace
//! period. A terminal that a session claims is shared by all clients that may drive the session, and each of them may
//! claim it; the first wins.

use ahp_types::actions::{StateAction, TerminalResizedAction};
use ahp_types::state::{TerminalClaim, TerminalSessionClaim};

use super::SIZES;
use super::terminals::Terminal;
use super::vocabulary::{PtyCommand, PtyId, TerminalSize};
use crate::clients::client::Presence;
use crate::core::{Cx, Host, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::{ClientId, ConnId};

/// Longest input in one action; a client splits what a user pastes.
const MAX_INPUT: usize = 1 << 20;
/// Longest id of a turn or tool call in a claim.
const MAX_ID: usize = 512;

impl Host {
    /// Checks an action that a client sent to a terminal.
    pub(super) fn check_on_terminal(&self, by: &Dispatched, mut action: StateAction) -> Verdict {
        let Some(terminal) = self.parts.terminals.get(by.channel) else {
            return Verdict::Reject("the terminal is gone".to_owned());
        };
        if let Err(reason) = self.check_holder(terminal.claim(), &by.author.client) {
            return Verdict::Reject(reason);
        }
        if let StateAction::TerminalClaimed(claimed) = &mut action {
            self.name_claimed_chat(by.author.conn, &mut claimed.claim);
        }
        let check = match &action {
            StateAction::TerminalInput(input) if input.data.len() > MAX_INPUT => Err(format!(
                "data: has {} bytes, and one action has at most {MAX_INPUT}; send several",
                input.data.len()
            )),
            StateAction::TerminalInput(_) => check_running(terminal).and_then(|()| check_has_input(terminal)),
            StateAction::TerminalResized(resized) => {
                let is_known =
                    terminal.state().cols == Some(resized.cols) && terminal.state().rows == Some(resized.rows);
                if is_known {
                    return Verdict::Echo(action);
                }
                // Also after the end of the process: VS Code fits the terminal of a finished command to its view.
                check_size(resized)
            }
            StateAction::TerminalClaimed(claimed) => self.check_new_claim(terminal, by, &claimed.claim),
            StateAction::TerminalTitleChanged(titled) => self.check_terminal_title(&titled.title),
            StateAction::TerminalCleared(_) => Ok(()),
            _ => Err("clients may not send this to a terminal".to_owned()),
        };
        Verdict::from_check(action, check)
    }

    /// Applies an action that a client sent to a terminal.
    pub(super) fn apply_on_terminal(&mut self, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
        let channel = by.channel;
        let Some(terminal) = self.parts.terminals.get(channel) else {
            return never!("the terminal was there when the action was checked");
        };
        let command = terminal.process().and_then(|pty| command_of(pty, &action));
        let session = match &action {
            StateAction::TerminalClaimed(claimed) => self.claiming_session(&claimed.claim),
            _ => terminal.session(),
        };
        let is_input = matches!(action, StateAction::TerminalInput(_));
        self.commit_dispatched(cx, by, action);
        if let Some(command) = command {
            cx.emit(command);
        }
        if let Some(terminal) = self.parts.terminals.get_mut(channel) {
            terminal.set_session(session);
        }
        if !is_input {
            self.schedule_retention(cx, channel);
        }
    }

    /// Checks whether a client holds or shares the claim of a terminal.
    pub(super) fn check_holder(&self, claim: &TerminalClaim, client: &ClientId) -> Result<(), String> {
        match claim {
            TerminalClaim::Session(_) => Ok(()),
            TerminalClaim::Client(claim) if claim.client_id == client.as_str() => Ok(()),
            TerminalClaim::Client(claim) if self.has_left(&claim.client_id) => Ok(()),
            TerminalClaim::Client(claim) => Err(format!(
                "the client {:?} holds this terminal; it can hand the terminal over with terminal/claimed",
                claim.client_id
            )),
        }
    }

    /// Returns true if a client is not connected and its grace period is over.
    fn has_left(&self, client: &str) -> bool {
        match self.clients.get(&ClientId::new(client)).map(|client| &client.presence) {
            Some(Presence::Active(_) | Presence::Grace(_)) => false,
            Some(Presence::Absent(_)) | None => true,
        }
    }

    /// Checks the claim that a client which holds or shares the present one wants to make.
    fn check_new_claim(&self, terminal: &Terminal, by: &Dispatched, claim: &TerminalClaim) -> Result<(), String> {
        if let TerminalClaim::Client(new) = claim {
            let is_own = new.client_id == by.author.client.as_str();
            let is_holder = match terminal.claim() {
                TerminalClaim::Client(held) => held.client_id == by.author.client.as_str(),
                TerminalClaim::Session(_) => false,
            };
            if !is_own && !is_holder {
                return Err("only the client that holds a terminal hands it over to another client".to_owned());
            }
        }
        self.check_claim(claim)
            .map_err(|(field, problem)| format!("{field}: {problem}"))
    }

    /// Names the default chat in a claim for a session, if the version of its author names none there.
    pub(super) fn name_claimed_chat(&self, conn: ConnId, claim: &mut TerminalClaim) {
        let TerminalClaim::Session(claim) = claim else {
            // The claim of a client names no chat in any version.
            return;
        };
        if self.conns.dialect(conn).version.names_chats() {
            return;
        }
        let session = self.channels.find(&claim.session).and_then(|id| self.sessions.get(&id));
        if let Some(chat) = session.and_then(|session| session.state.default_chat.clone()) {
            claim.chat = chat;
        }
    }

    /// Checks that the claimant of a terminal exists.
    pub(super) fn check_claim(&self, claim: &TerminalClaim) -> Result<(), (String, String)> {
        let problem = |field: &str, problem: String| Err((format!("claim.{field}"), problem));
        match claim {
            TerminalClaim::Client(claim) => match self.has_left(&claim.client_id) {
                false => Ok(()),
                true => problem("clientId", format!("there is no client {:?}", claim.client_id)),
            },
            TerminalClaim::Session(claim) => {
                let TerminalSessionClaim {
                    session,
                    chat,
                    turn_id,
                    tool_call_id,
                } = claim;
                let Some(session_id) = self.channels.find(session).filter(|id| self.sessions.contains_key(id)) else {
                    return problem("session", format!("there is no session {session:?}"));
                };
                let chat_id = self.channels.find(chat);
                let chat_found = chat_id.and_then(|id| self.chats.get(&id));
                if chat_found.is_none_or(|chat| chat.session != session_id) {
                    return problem("chat", format!("the session has no chat {chat:?}"));
                }
                for (field, id) in [("turnId", turn_id), ("toolCallId", tool_call_id)] {
                    if id.as_ref().is_some_and(|id| id.len() > MAX_ID) {
                        return problem(field, format!("has more than {MAX_ID} bytes"));
                    }
                }
                Ok(())
            }
        }
    }

    fn check_terminal_title(&self, title: &str) -> Result<(), String> {
        let most = self.config.max_title_bytes;
        match title.len() > most {
            true => Err(format!(
                "title: has {} bytes, and a title has at most {most}",
                title.len()
            )),
            false => Ok(()),
        }
    }
}

fn check_running(terminal: &Terminal) -> Result<(), String> {
    match terminal.is_running() {
        true => Ok(()),
        false => Err("the process of this terminal has ended".to_owned()),
    }
}

fn check_has_input(terminal: &Terminal) -> Result<(), String> {
    match terminal.state().is_pty {
        Some(false) => Err("this terminal takes no input: it shows the output of a command as plain text".to_owned()),
        Some(true) | None => Ok(()),
    }
}

fn check_size(resized: &TerminalResizedAction) -> Result<(), String> {
    for (field, value) in [("cols", resized.cols), ("rows", resized.rows)] {
        if !SIZES.contains(&value) {
            return Err(format!(
                "{field}: {value} is not between {} and {}",
                SIZES.start(),
                SIZES.end()
            ));
        }
    }
    Ok(())
}

/// Returns what the process of a terminal has to do for a checked action.
fn command_of(pty: PtyId, action: &StateAction) -> Option<PtyCommand> {
    match action {
        StateAction::TerminalInput(input) => {
            let data = input.data.clone();
            Some(PtyCommand::Input { pty, data })
        }
        StateAction::TerminalResized(resized) => {
            let size = size_of(resized);
            Some(PtyCommand::Resize { pty, size })
        }
        StateAction::TerminalCleared(_) => Some(PtyCommand::Clear { pty }),
        _ => None,
    }
}

/// Returns the size of a checked action.
fn size_of(resized: &TerminalResizedAction) -> TerminalSize {
    let clamped = |value: i64| u16::try_from(value).unwrap_or(u16::MAX);
    TerminalSize {
        cols: clamped(resized.cols),
        rows: clamped(resized.rows),
    }
}
