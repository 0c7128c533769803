//! Turns in which a model writes for an app (`sampling/createMessage`).
//!
//! Users decide whether the model writes for an app, and a question to them is part of a turn. While a turn of the
//! session runs, it is asked there. Otherwise the host starts a turn for the request, so that every subscriber sees
//! the request and its result. Such a turn is not part of the conversation that agents get.

use ahp_types::actions::{ChatTurnStartedAction, StateAction};
use ahp_types::state::{Message, MessageKind, MessageOrigin};
use serde_json::{Value, json};

use super::wire;
use crate::core::{Cx, Host};
use crate::effect::AgentCommand;
use crate::ids::{ChannelId, ClientId, TurnKey};

/// The key of `_meta` under which the message of such a turn names its request.
const REQUEST: &str = "innkeeper.appRequest";

/// The turn of a request of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppTurn {
    /// It is asked in a turn that runs already. A turn of its own arrives as
    /// [`AgentCommand::StartTurn`](crate::effect::AgentCommand::StartTurn).
    Joins {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
    },
    /// There is no turn for it, and why.
    Refused(String),
}

/// The request that a message stands for, if it is one of an app.
pub(crate) fn app_request(message: &Message) -> Option<&str> {
    let named = message.meta.as_ref()?.get(REQUEST)?;
    named.as_str().filter(|_| message.origin.kind == MessageKind::Tool)
}

impl Host {
    /// Finds or starts a turn for a request of an app of a server.
    pub(crate) fn app_turn(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        server: &str,
        request: String,
        author: Option<&ClientId>,
    ) {
        let outcome = match self.turn_for_app(session_id, server) {
            Ok(Turn::Runs { chat, turn }) => AppTurn::Joins { chat, turn },
            Ok(Turn::Starts { chat, name }) => {
                self.start_app_turn(cx, chat, &name, &request, author);
                if self.run_mut(chat).is_some() {
                    return;
                }
                AppTurn::Refused("the agent of the session cannot run a turn now; its chat says why".to_owned())
            }
            Err(why) => AppTurn::Refused(why.to_owned()),
        };
        cx.emit(AgentCommand::ResolveAppRequest { request, outcome });
    }

    fn turn_for_app(&self, session_id: ChannelId, server: &str) -> Result<Turn, &'static str> {
        let session = self.sessions.get(&session_id).ok_or("the session is gone")?;
        let name = wire::find(&session.state, server).map(|server| server.name.clone());
        let name = name.ok_or("the MCP server is gone")?;
        let default = session.state.default_chat.as_deref();
        let chat_id = default.and_then(|uri| self.channels.find(uri));
        let chat = chat_id.and_then(|id| Some((id, self.chats.get(&id)?)));
        let (chat_id, chat) = chat.ok_or("the session has no chat to ask users in")?;
        if let Some(run) = chat.run() {
            return match run.held {
                None => Ok(Turn::Runs {
                    chat: chat_id,
                    turn: run.key(),
                }),
                Some(_) => Err("a turn of the session is about to start; ask again when it runs"),
            };
        }
        let is_ready = session.not_ready().is_none() && !self.storage.mode().is_read_only() && !self.shutting_down;
        match is_ready && chat.model.head().active_turn.is_none() {
            true => Ok(Turn::Starts { chat: chat_id, name }),
            false => Err("the session cannot start a turn now; ask again later"),
        }
    }

    fn start_app_turn(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        server: &str,
        request: &str,
        author: Option<&ClientId>,
    ) {
        let meta = [(REQUEST.to_owned(), json!(request))];
        let started = ChatTurnStartedAction {
            turn_id: format!("app-{request}"),
            started_at: cx.now.rfc3339(),
            message: Message {
                text: format!("An app of the MCP server {server:?} asks the model to write something."),
                origin: MessageOrigin {
                    kind: MessageKind::Tool,
                },
                attachments: None,
                model: None,
                agent: None,
                meta: Some(meta.into_iter().collect::<serde_json::Map<String, Value>>()),
            },
            queued_message_id: None,
            meta: None,
        };
        self.commit(cx, chat_id, StateAction::ChatTurnStarted(started), None);
        self.start_run(cx, chat_id, false, author);
    }
}

/// The turn in which a request of an app is asked about.
enum Turn {
    Runs { chat: ChannelId, turn: TurnKey },
    Starts { chat: ChannelId, name: String },
}
