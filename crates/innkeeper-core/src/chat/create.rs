//! `createChat`: check everything, list the chat, then answer (CHT-01, E-03).

use std::ops::Range;

use ahp_types::actions::{ChatPendingMessageSetAction, ChatTurnStartedAction, StateAction};
use ahp_types::commands::{ChatSource, ForkChatSource, SideChatSource};
use ahp_types::state::{ChatOrigin, Message, PendingMessageKind, SessionLifecycle};
use serde_json::Value;

use super::UNTITLED_CHAT;
use crate::agent::AgentProfile;
use crate::chat::chats::{Chat, SideChatContext};
use crate::chat::history::{context_range, past_turns_in, unfinished_turn};
use crate::chat::model::ChatModel;
use crate::core::{Cx, Host, never};
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::{CreateChat, RequestId};
use crate::protocol::uri;
use crate::session::create::new_chat;
use crate::session::{Session, choice};

/// The id of a first message that waits for its session.
const INITIAL: &str = "initial";

/// A chat that may be created.
struct NewChat {
    chat: Chat,
    first: Option<Message>,
}

impl Host {
    pub(crate) fn create_chat(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, create: CreateChat) {
        let author = self.conns.client(conn).cloned();
        let result = match self.plan_chat(cx, conn, create) {
            Ok(Some(new)) => {
                let chat_id = self.join_session(cx, new.chat);
                // Without a token, the first turn fails with an instruction, and the chat is opened once there is a
                // token.
                if !self.asks_to_sign_in(cx, chat_id, author.as_ref()) {
                    self.open_chat(cx, chat_id, author.as_ref());
                }
                if let Some(message) = new.first {
                    self.send_first(cx, chat_id, message, author.as_ref());
                }
                Ok(Value::Null)
            }
            Ok(None) => Ok(Value::Null),
            Err(error) => Err(error),
        };
        cx.answer(conn, id, result);
    }

    /// Checks all of a request; `None` when the chat is there already and nothing else was asked.
    fn plan_chat(&self, cx: &Cx<'_>, conn: ConnId, create: CreateChat) -> Result<Option<NewChat>, RpcError> {
        let session_id = self.channels.find(&create.channel);
        let Some((session_id, session)) = session_id.and_then(|id| Some((id, self.sessions.get(&id)?))) else {
            return Err(RpcError::session_not_found(&create.channel));
        };
        uri::check(&create.chat).map_err(|problem| RpcError::invalid_params("chat", problem))?;
        let asks_for_more = create.initial_message.is_some() || create.source.is_some() || !create.choices.is_empty();
        if session.is_default(&create.chat) && !asks_for_more {
            return Ok(None); // CHT-02
        }
        if self.channels.find(&create.chat).is_some() {
            let message = format!(
                "{:?} exists already; choose another URI, or subscribe to it",
                create.chat
            );
            return Err(RpcError::new(code::ALREADY_EXISTS, message));
        }
        uri::check_new_chat(&create.chat).map_err(|problem| RpcError::invalid_params("chat", problem))?;
        let agent = self.check_session(session)?;
        for choice in &create.choices {
            choice::check(agent, choice).map_err(|problem| RpcError::new(code::INVALID_PARAMS, problem))?;
        }
        let now = cx.now.rfc3339();
        let mut state = new_chat(&create.chat, UNTITLED_CHAT, &now, ChatOrigin::User);
        // Every chat but the default chat can be moved (SES-11).
        state.movable = Some(true);
        state.meta = choice::meta_of(&create.choices);
        let mut side_context = SideChatContext::default();
        let mut forked = None;
        match create.source {
            Some(ChatSource::Fork(fork)) => {
                let source = self.source(session_id, &fork.chat)?;
                forked = Some((source, turns_of_fork(agent, source, &fork)?));
                let head = source.model.head();
                state.title.clone_from(&head.title);
                // CHT-05: a fork ignores the directories of the request.
                state.working_directories.clone_from(&head.working_directories);
                state.origin = Some(ChatOrigin::Fork {
                    chat: fork.chat,
                    turn_id: fork.turn_id,
                });
            }
            Some(ChatSource::SideChat(side)) => {
                let source = self.source(session_id, &side.chat)?;
                side_context = self.side_context(agent, source, &side)?;
                state.working_directories = check_subset(session, create.working_directories)?;
                state.origin = Some(ChatOrigin::SideChat {
                    chat: side.chat,
                    turn_id: side.turn_id,
                    selection: side.selection,
                });
            }
            // The published type decodes unknown sources as this (E-42).
            Some(ChatSource::Unknown(_)) => {
                let problem = "must be fork or sideChat, with the chat and the turnId it starts from";
                return Err(RpcError::invalid_params("source.kind", problem));
            }
            None => state.working_directories = check_subset(session, create.working_directories)?,
        }
        let model = match forked {
            Some((source, count)) => ChatModel::forked(state, &source.model, count),
            None => ChatModel::new(state),
        };
        let mut chat = Chat::new(session_id, model);
        chat.side_context = side_context;
        let mut first = create.initial_message;
        if let Some(message) = &mut first {
            self.add_choice(conn, &chat, message);
            self.check_message(&chat, message)
                .and_then(|()| self.pin_attachments(message))
                .map_err(|problem| {
                    let problem = problem.strip_prefix("message.").unwrap_or(&problem);
                    RpcError::invalid_params("initialMessage", problem)
                })?;
        }
        Ok(Some(NewChat { chat, first }))
    }

    /// Whether a session takes one more chat (CHT-03, CHT-13).
    fn check_session(&self, session: &Session) -> Result<&AgentProfile, RpcError> {
        let refuse = |message: String| Err(RpcError::new(code::CONFLICT, message));
        if self.shutting_down {
            return refuse("the host is shutting down; try again when it is back".to_owned());
        }
        if session.state.lifecycle == SessionLifecycle::Failed {
            return refuse("the session failed to start, so it takes no chats; create a new session".to_owned());
        }
        let Some(agent) = self.agent_of(session) else {
            return refuse(format!(
                "the agent {:?} is no longer on this host, so its sessions take no chats",
                session.state.provider
            ));
        };
        if capability(agent).is_none() {
            return refuse(format!(
                "{} keeps one chat per session; create another session instead",
                agent.info.display_name
            ));
        }
        if session.chats.len() >= self.config.max_chats {
            return refuse(format!(
                "a session has at most {} chats, subagents included; dispose of some",
                self.config.max_chats
            ));
        }
        Ok(agent)
    }

    /// The chat that a fork or side chat starts from: one of the same session (CHT-04).
    fn source(&self, session_id: ChannelId, uri: &str) -> Result<&Chat, RpcError> {
        self.chat_at(uri)
            .filter(|chat| chat.session == session_id)
            .ok_or_else(|| RpcError::invalid_params("source.chat", format!("this session has no chat {uri:?}")))
    }

    /// Returns the context of a side chat: the present turns of the source through the named turn (CHT-06, CHT-07).
    fn side_context(
        &self,
        agent: &AgentProfile,
        source: &Chat,
        side: &SideChatSource,
    ) -> Result<SideChatContext, RpcError> {
        if capability(agent).and_then(|chats| chats.side_chat) != Some(true) {
            let problem = format!("{} has no side chats", agent.info.display_name);
            return Err(RpcError::invalid_params("source.kind", problem));
        }
        let selection = side.selection.as_ref().map(|selection| selection.text.clone());
        if selection.as_ref().is_some_and(String::is_empty) {
            let problem = "is empty; omit the selection, or send the selected text";
            return Err(RpcError::invalid_params("source.selection.text", problem));
        }
        if selection
            .as_ref()
            .is_some_and(|text| text.len() > self.config.max_message_bytes)
        {
            let problem = format!("has at most {} bytes", self.config.max_message_bytes);
            return Err(RpcError::invalid_params("source.selection.text", problem));
        }
        let model = &source.model;
        let range = side_chat_range(model, &side.turn_id).ok_or_else(|| unknown_turn(&side.turn_id))?;
        let mut context = past_turns_in(model, range);
        let active = model.head().active_turn.as_ref();
        context.extend(active.filter(|turn| turn.id == side.turn_id).map(unfinished_turn));
        Ok(SideChatContext {
            context: context.into(),
            selection,
        })
    }

    /// Starts a new chat's first turn, or queues its message until the session is ready (CHT-10).
    fn send_first(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, message: Message, author: Option<&ClientId>) {
        let is_ready = self
            .session_of(chat_id)
            .is_some_and(|session| session.not_ready().is_none());
        if !is_ready {
            let waits = ChatPendingMessageSetAction {
                kind: PendingMessageKind::Queued,
                id: INITIAL.to_owned(),
                message,
            };
            self.commit(cx, chat_id, StateAction::ChatPendingMessageSet(waits), None);
            return;
        }
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        // A fork has turns whose ids clients chose.
        let turn_id = (0..)
            .map(|n| format!("{INITIAL}-{n}"))
            .find(|id| !chat.model.knows_turn(id))
            .unwrap_or_default();
        let text = message.text.clone();
        let started = ChatTurnStartedAction {
            turn_id,
            started_at: self.start_of_turn(cx, chat_id),
            message,
            queued_message_id: None,
            meta: None,
        };
        self.commit(cx, chat_id, StateAction::ChatTurnStarted(started), None);
        self.title_from(cx, chat_id, &text);
        self.start_run(cx, chat_id, false, author);
    }
}

fn capability(agent: &AgentProfile) -> Option<&ahp_types::state::MultipleChatsCapability> {
    agent.info.capabilities.as_ref()?.multiple_chats.as_ref()
}

fn unknown_turn(turn_id: &str) -> RpcError {
    RpcError::invalid_params("source.turnId", format!("the source chat has no turn {turn_id:?}"))
}

/// Returns how many turns a fork starts with (CHT-05). Its agent must be able to continue from them.
fn turns_of_fork(agent: &AgentProfile, source: &Chat, fork: &ForkChatSource) -> Result<usize, RpcError> {
    if capability(agent).and_then(|chats| chats.fork) != Some(true) || !agent.restores_history {
        let problem = format!("{} cannot fork chats", agent.info.display_name);
        return Err(RpcError::invalid_params("source.kind", problem));
    }
    match source.model.position(&fork.turn_id) {
        Some(last) => Ok(last + 1),
        None if source.model.knows_turn(&fork.turn_id) => {
            let problem = "is still running; a fork starts from a completed turn";
            Err(RpcError::invalid_params("source.turnId", problem))
        }
        None => Err(unknown_turn(&fork.turn_id)),
    }
}

/// Returns the completed turns in the context of a side chat about a turn, if the turn exists (CHT-07).
pub(crate) fn side_chat_range(source: &ChatModel, turn_id: &str) -> Option<Range<usize>> {
    let active = source.head().active_turn.as_ref();
    let end = match active.filter(|turn| turn.id == turn_id) {
        Some(_) => source.turn_count(),
        None => source.position(turn_id)? + 1,
    };
    Some(context_range(source, end))
}

/// A chat's own directories: some of its session's, none at all, or whatever the session has
/// (CHT-09).
fn check_subset(session: &Session, wanted: Option<Vec<String>>) -> Result<Option<Vec<String>>, RpcError> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    let known = session.state.working_directories.as_deref().unwrap_or_default();
    let mut subset: Vec<String> = Vec::with_capacity(wanted.len());
    for (index, directory) in wanted.into_iter().enumerate() {
        if !known.contains(&directory) {
            let problem = format!("{directory:?} is not a directory of the session; add it there first");
            return Err(RpcError::invalid_params(
                &format!("workingDirectories[{index}]"),
                problem,
            ));
        }
        if !subset.contains(&directory) {
            subset.push(directory);
        }
    }
    Ok(Some(subset))
}
