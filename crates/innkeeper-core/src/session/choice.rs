//! The model and the agent of a session, for clients whose protocol version has them there and not on each message.
//!
//! The choice is in the session's `_meta`, because `session/metaChanged` is the one action that carries such facts: it is
//! persisted, part of every snapshot, and every subscriber sees it change. Messages of these clients that name no model
//! and no agent get the session's choice. A change waits while a turn runs, and counts from the next turn on.
//!
//! A chat can be created with a choice of its own (0.4), which is in the `_meta` of the chat and does not change.

use ahp_types::actions::{SessionMetaChangedAction, StateAction};
use ahp_types::common::JsonObject;
use ahp_types::state::{AgentSelection, Message, ModelSelection};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::AgentProfile;
use crate::chat::chats::Chat;
use crate::clients::access::Scope;
use crate::core::{Cx, Host, never};
use crate::dispatch::{Dispatched, check_model};
use crate::ids::{ChannelId, ConnId};
use crate::log::commit::Author;
use crate::protocol::uri;
use crate::session::Session;

/// In `_meta`: the chosen model.
pub(crate) const MODEL: &str = "innkeeper.model";
/// In `_meta`: the chosen agent.
pub(crate) const AGENT: &str = "innkeeper.agent";

/// Most changes of a session that wait for the end of a turn; the oldest are applied first.
const MAX_WAITING: usize = 64;

/// A client's choice for a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionChoice {
    /// Its model.
    Model(Option<ModelSelection>),
    /// Its agent.
    Agent(Option<AgentSelection>),
}

/// A choice that waits until no turn runs.
#[derive(Debug)]
pub struct WaitingChoice {
    author: Author,
    choice: SessionChoice,
}

impl SessionChoice {
    /// Writes the choice into a session's `_meta`.
    fn write(&self, meta: &mut JsonObject) {
        match self {
            Self::Model(model) => write(meta, MODEL, model.as_ref()),
            Self::Agent(agent) => write(meta, AGENT, agent.as_ref()),
        }
    }
}

fn write(meta: &mut JsonObject, key: &str, value: Option<&impl Serialize>) {
    match value.and_then(|value| serde_json::to_value(value).ok()) {
        Some(value) => {
            meta.insert(key.to_owned(), value);
        }
        None => {
            meta.shift_remove(key);
        }
    }
}

fn read<T: DeserializeOwned>(meta: &JsonObject, key: &str) -> Option<T> {
    serde_json::from_value(meta.get(key)?.clone()).ok()
}

/// Adds the choices in `_meta` to a message that has none.
fn add(meta: Option<&JsonObject>, message: &mut Message) {
    if let Some(meta) = meta {
        message.model = message.model.take().or_else(|| read(meta, MODEL));
        message.agent = message.agent.take().or_else(|| read(meta, AGENT));
    }
}

/// The entries of `_meta` of a new session or chat with these choices.
pub(crate) fn meta_of(choices: &[SessionChoice]) -> Option<JsonObject> {
    let mut meta = JsonObject::new();
    for choice in choices {
        choice.write(&mut meta);
    }
    (!meta.is_empty()).then_some(meta)
}

/// Whether a client may choose this for a session with this agent.
pub(crate) fn check(agent: &AgentProfile, choice: &SessionChoice) -> Result<(), String> {
    match choice {
        SessionChoice::Model(Some(model)) => {
            check_model(agent, &model.id).map_err(|problem| format!("model.id: {problem}"))
        }
        SessionChoice::Agent(Some(agent)) => {
            uri::check(&agent.uri).map_err(|_| "agent.uri: must be the URI of an agent".to_owned())
        }
        SessionChoice::Model(None) | SessionChoice::Agent(None) => Ok(()),
    }
}

/// Whether a choice was taken back. The partial form of a summary, in which older versions have the choices as members
/// of their own, cannot say so.
pub(crate) fn is_taken_back(known: Option<&JsonObject>, next: Option<&JsonObject>) -> bool {
    let has = |meta: Option<&JsonObject>, key: &str| meta.is_some_and(|meta| meta.contains_key(key));
    [MODEL, AGENT].iter().any(|key| has(known, key) && !has(next, key))
}

impl Host {
    /// Handles `session/modelChanged` and `session/agentChanged` of an older client. Returns why it is rejected, if so.
    pub(crate) fn choose(&mut self, cx: &mut Cx<'_>, by: &Dispatched, choice: SessionChoice) -> Result<(), String> {
        let (session_id, author) = (by.channel, &by.author);
        if self.storage.mode().is_read_only() {
            return Err(self.why_read_only());
        }
        if by.scope < Scope::Drive {
            return Err(format!(
                "this needs the scope {} and this connection has {}",
                Scope::Drive,
                by.scope
            ));
        }
        let Some(session) = self.sessions.get(&session_id) else {
            return Err("this belongs on the channel of a session".to_owned());
        };
        if let Some(agent) = self.agent_of(session) {
            check(agent, &choice)?;
        }
        if !self.has_active_turn(session) {
            self.apply_choice(cx, session_id, author, &choice);
            return Ok(());
        }
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return Err("the session is gone".to_owned());
        };
        if session.waiting_choices.len() >= MAX_WAITING {
            return Err("too many changes wait for the end of the turn".to_owned());
        }
        let author = author.clone();
        session.waiting_choices.push(WaitingChoice { author, choice });
        Ok(())
    }

    /// Applies the changes that waited for the end of a turn, once no turn runs any more.
    pub(crate) fn apply_waiting_choices(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(session_id) = self.chats.get(&chat_id).map(|chat| chat.session) else {
            return never!("the chat is in memory");
        };
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        if session.waiting_choices.is_empty() || self.has_active_turn(session) {
            return;
        }
        let waiting = self.sessions.get_mut(&session_id);
        let waiting = waiting.map(|session| std::mem::take(&mut session.waiting_choices));
        for WaitingChoice { author, choice } in waiting.unwrap_or_default() {
            self.apply_choice(cx, session_id, &author, &choice);
        }
    }

    fn apply_choice(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, author: &Author, choice: &SessionChoice) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let mut meta = session.state.meta.clone().unwrap_or_default();
        choice.write(&mut meta);
        let meta = (!meta.is_empty()).then_some(meta);
        let is_known = session.state.meta == meta;
        let action = StateAction::SessionMetaChanged(SessionMetaChangedAction { meta });
        match is_known {
            true => self.acknowledge(cx, session_id, &action, author),
            false => {
                self.commit(cx, session_id, action, Some(author));
            }
        }
    }

    fn has_active_turn(&self, session: &Session) -> bool {
        let mut chats = session.chats.iter().filter_map(|chat| self.chats.get(chat));
        chats.any(|chat| chat.model.head().active_turn.is_some())
    }

    /// Adds the choice of the chat, or else that of its session, to a message that names none, if its author's version
    /// has models and agents there only.
    pub(crate) fn add_choice(&self, conn: ConnId, chat: &Chat, message: &mut Message) {
        if !self.conns.dialect(conn).version.session_has_model() {
            return;
        }
        add(chat.model.head().meta.as_ref(), message);
        let session = self.sessions.get(&chat.session);
        add(session.and_then(|session| session.state.meta.as_ref()), message);
    }
}
