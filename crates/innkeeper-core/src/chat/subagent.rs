//! Subagents: chats that a tool call starts, read-only to users, driven by the agent of the call.

use ahp_types::actions::{ChatToolCallContentChangedAction, ChatTurnStartedAction, StateAction};
use ahp_types::state::{
    ChatInteractivity, ChatOrigin, Message, MessageKind, MessageOrigin, ToolCallState, ToolResultContent,
    ToolResultSubagentContent,
};

use crate::agent::{Reply, Spawn, Subagent};
use crate::chat::chats::Chat;
use crate::chat::model::ChatModel;
use crate::chat::tool_call::meta;
use crate::core::{Cx, Host, never};
use crate::effect::AgentCommand;
use crate::ids::{ChannelId, TurnKey};
use crate::protocol::uri;
use crate::session::create::new_chat;

/// The id of a subagent's only turn.
const TURN: &str = "subagent";

impl Host {
    /// Starts a subagent for a tool call (CHT-12), or replies to the agent with the error.
    pub(crate) fn spawn_subagent(&mut self, cx: &mut Cx<'_>, parent: ChannelId, turn: TurnKey, spawn: Spawn) {
        match self.check_spawn(parent, &spawn) {
            Ok(()) => {
                self.add_subagent(cx, (parent, turn), spawn);
            }
            Err(reason) => {
                let call = spawn.call;
                self.reply(cx, parent, turn, Reply::NotSpawned { call, reason });
            }
        }
    }

    /// The bounds on subagents are the host's own: agents have been seen to start them without end
    /// (CHT-13).
    fn check_spawn(&self, parent: ChannelId, spawn: &Spawn) -> Result<(), String> {
        if !matches!(self.tool_call(parent, &spawn.call), Some(ToolCallState::Running(_))) {
            return Err(format!("the tool call {:?} is not running", spawn.call));
        }
        if self.shutting_down {
            return Err("the host is shutting down".to_owned());
        }
        if spawn.prompt.len() > self.config.max_message_bytes {
            let most = self.config.max_message_bytes;
            return Err(format!("the message to a subagent has at most {most} bytes"));
        }
        let most = self.config.max_subagent_depth;
        if self.depth(parent) >= most {
            return Err(format!("subagents start subagents at most {most} deep on this host"));
        }
        let most = self.config.max_chats;
        if self
            .session_of(parent)
            .is_none_or(|session| session.chats.len() >= most)
        {
            return Err(format!(
                "a session has at most {most} chats on this host, subagents included"
            ));
        }
        Ok(())
    }

    /// Number of chats above a chat.
    fn depth(&self, chat_id: ChannelId) -> usize {
        let parent = |id: &ChannelId| self.chats.get(id).and_then(|chat| chat.parent);
        std::iter::successors(parent(&chat_id), parent).count()
    }

    fn add_subagent(&mut self, cx: &mut Cx<'_>, parent: (ChannelId, TurnKey), spawn: Spawn) -> Option<()> {
        let (parent_id, _) = parent;
        let above = self.chats.get(&parent_id)?;
        let session_id = above.session;
        let session_uri = &self.sessions.get(&session_id)?.uri;
        let author = above.run().and_then(|run| run.author.clone());
        // Agents choose the ids of calls and may repeat them, also in another chat of the session.
        let subagent_uri = uri::subagent_chat(session_uri, &spawn.call, |uri| self.channels.find(uri).is_none());
        let title = subagent_title(&spawn, self.config.max_title_bytes);
        let origin = ChatOrigin::Tool {
            chat: above.model.head().resource.clone(),
            tool_call_id: spawn.call.clone(),
        };
        let mut state = new_chat(&subagent_uri, &title, &cx.now.rfc3339(), origin);
        state.interactivity = Some(ChatInteractivity::ReadOnly);
        state
            .working_directories
            .clone_from(&above.model.head().working_directories);
        let mut chat = Chat::new(session_id, ChatModel::new(state));
        chat.parent = Some(parent_id);
        let chat_id = self.join_session(cx, chat);
        let started = ChatTurnStartedAction {
            turn_id: TURN.to_owned(),
            started_at: self.start_of_turn(cx, chat_id),
            message: Message {
                text: spawn.prompt,
                origin: MessageOrigin {
                    kind: MessageKind::Agent,
                },
                attachments: None,
                model: None,
                agent: None,
                meta: None,
            },
            queued_message_id: None,
            meta: None,
        };
        self.commit(cx, chat_id, StateAction::ChatTurnStarted(started), None);
        let key = self.add_run(cx, chat_id, author.as_ref())?;
        let run = self.run_mut(chat_id)?;
        run.parent = Some(parent);
        run.detached = spawn.detached;
        let content = ToolResultSubagentContent {
            resource: subagent_uri.clone(),
            title: title.clone(),
            agent_name: spawn.agent_name,
            description: spawn.description,
        };
        self.show_subagent(cx, parent_id, &spawn.call, content);
        if spawn.detached {
            self.list_subagent(cx, parent_id, &spawn.call, &title, &subagent_uri);
        }
        cx.emit(AgentCommand::StartSubagent(Box::new(Subagent {
            parent,
            call: spawn.call,
            chat: chat_id,
            chat_uri: subagent_uri.into(),
            turn: key,
            detached: spawn.detached,
        })));
        Some(())
    }

    /// The call's content and its `_meta` name the subagent's chat, as the chat's origin names the call (CHT-12).
    fn show_subagent(&mut self, cx: &mut Cx<'_>, parent: ChannelId, call: &str, subagent: ToolResultSubagentContent) {
        let (Some(turn_id), Some(ToolCallState::Running(running))) =
            (self.active_turn_id(parent), self.tool_call(parent, call))
        else {
            // An agent may start a subagent for a call that waits or has ended. The chat's origin names the call.
            return;
        };
        let meta = meta::with_subagent(running.meta.as_ref(), &subagent);
        let mut content = running.content.clone().unwrap_or_default();
        content.push(ToolResultContent::Subagent(subagent));
        let action = ChatToolCallContentChangedAction {
            turn_id,
            tool_call_id: call.to_owned(),
            meta: Some(meta),
            content,
        };
        self.commit(cx, parent, StateAction::ChatToolCallContentChanged(action), None);
    }

    /// Content of a call is replaced as a whole, and dropped when it asks again (E-15); the subagents
    /// it started stay part of it, whether its agent repeats them or not (CHT-12).
    pub(crate) fn keep_subagents(&self, chat_id: ChannelId, call: &str, content: &mut Vec<ToolResultContent>) {
        let Some(session) = self.session_of(chat_id) else {
            return never!("the session of a chat is in memory");
        };
        let shown = match self.tool_call(chat_id, call) {
            Some(ToolCallState::Running(running)) => running.content.as_deref().unwrap_or_default(),
            _ => &[],
        };
        for subagent in &session.chats {
            let Some(subagent) = self
                .chats
                .get(subagent)
                .filter(|subagent| subagent.parent == Some(chat_id))
            else {
                continue;
            };
            let head = subagent.model.head();
            let is_ours = matches!(&head.origin, Some(ChatOrigin::Tool { tool_call_id, .. }) if tool_call_id == call);
            let names = |content: &ToolResultContent| matches!(content, ToolResultContent::Subagent(named) if named.resource == head.resource);
            if !is_ours || content.iter().any(names) {
                continue;
            }
            let known = shown.iter().find(|content| names(content)).cloned();
            content.push(known.unwrap_or_else(|| {
                ToolResultContent::Subagent(ToolResultSubagentContent {
                    resource: head.resource.clone(),
                    title: head.title.clone(),
                    agent_name: None,
                    description: None,
                })
            }));
        }
    }

    /// Ends the subagents of a run that is over, but for the detached ones.
    pub(crate) fn end_subagents(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, key: TurnKey) {
        let siblings = self.session_of(chat_id).map(|session| session.chats.clone());
        for sibling in siblings.unwrap_or_default() {
            let run = self.chats.get(&sibling).and_then(|chat| chat.run());
            if run.is_some_and(|run| run.parent == Some((chat_id, key)) && !run.detached) {
                self.cancel_run(cx, sibling);
            }
        }
    }
}

fn subagent_title(spawn: &Spawn, most: usize) -> String {
    let title = match spawn.title.trim() {
        "" => spawn.agent_name.as_deref().unwrap_or("Subagent"),
        title => title,
    };
    let mut end = title.len().min(most);
    while !title.is_char_boundary(end) {
        end -= 1;
    }
    title[..end].to_owned()
}
