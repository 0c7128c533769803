//! A session that starts with the turns of another one: `createSession.fork` of clients of 0.8 and older.
//!
//! Later versions fork chats within a session. A fork of a session is a new session whose default chat is a fork of the
//! chat with the named turn. Contents that the turns refer to stay with the source session.

use ahp_types::state::ChatState;

use crate::chat::model::ChatModel;
use crate::core::Host;
use crate::ids::ChannelId;
use crate::protocol::error::RpcError;
use crate::protocol::request::SessionFork;

impl Host {
    /// The chat that a session is forked from, and how many of its turns the fork has.
    pub(crate) fn source_of_fork(&self, fork: &SessionFork) -> Result<(ChannelId, usize), RpcError> {
        let source = self.channels.find(&fork.session);
        let Some((source_id, source)) = source.and_then(|id| Some((id, self.sessions.get(&id)?))) else {
            return Err(RpcError::session_not_found(&fork.session));
        };
        let default = self.default_chat(source_id);
        let others = source.chats.iter().copied().filter(|chat| Some(*chat) != default);
        let mut is_running = false;
        for chat_id in default.into_iter().chain(others) {
            let Some(model) = self.chats.get(&chat_id).map(|chat| &chat.model) else {
                continue;
            };
            if let Some(last) = model.position(&fork.turn_id) {
                return Ok((chat_id, last + 1));
            }
            is_running |= model.knows_turn(&fork.turn_id);
        }
        let problem = match is_running {
            true => "is still running; a fork starts from a completed turn".to_owned(),
            false => format!("the session has no turn {:?}", fork.turn_id),
        };
        Err(RpcError::invalid_params("fork.turnId", problem))
    }

    /// Checks the source of a new session, and returns its provider.
    pub(crate) fn check_fork(&self, fork: &SessionFork, provider: Option<&str>) -> Result<String, RpcError> {
        let (chat_id, _) = self.source_of_fork(fork)?;
        let source = self
            .chats
            .get(&chat_id)
            .and_then(|chat| self.sessions.get(&chat.session));
        let Some(source) = source else {
            return Err(RpcError::session_not_found(&fork.session));
        };
        let agent = self.agent_named(Some(&source.state.provider))?;
        if provider.is_some_and(|provider| provider != source.state.provider) {
            let problem = format!(
                "a fork has the agent of its source, which is {:?}",
                source.state.provider
            );
            return Err(RpcError::invalid_params("provider", problem));
        }
        if !agent.restores_history {
            let problem = format!(
                "{} cannot continue from the turns of another session",
                agent.info.display_name
            );
            return Err(RpcError::invalid_params("fork", problem));
        }
        Ok(agent.info.provider.clone())
    }

    /// The default chat of a new session: with the turns of another chat if it is a fork, and without a past otherwise.
    pub(crate) fn first_chat(&self, state: ChatState, fork: Option<&SessionFork>) -> ChatModel {
        let source = fork.and_then(|fork| self.source_of_fork(fork).ok());
        let source = source.and_then(|(chat, count)| Some((self.chats.get(&chat)?, count)));
        match source {
            Some((source, count)) => ChatModel::forked(state, &source.model, count),
            None => ChatModel::new(state),
        }
    }
}
