//! Chooses the client that rewrites a system prompt: one for each render, or none.

use std::collections::HashSet;
use std::sync::Arc;

use crate::clients::client::Presence;
use crate::core::{Cx, Host};
use crate::effect::{AgentCommand, PromptPlan, Transformer};
use crate::ids::{ChannelId, ClientId, ConnId, TurnKey};
use crate::session::Session;

impl Host {
    /// Chooses the client that rewrites a prompt with these sections, and which of them it gets, all at one moment
    /// (SMT-05). Later changes count for the next render (SMT-10).
    pub(crate) fn choose_transformer(
        &self,
        cx: &mut Cx<'_>,
        chat: ChannelId,
        turn: Option<TurnKey>,
        id: u64,
        present: &[String],
    ) {
        let plan = Box::new(self.prompt_plan(chat, turn, present).unwrap_or_default());
        cx.emit(AgentCommand::TransformPrompt { id, plan });
    }

    fn prompt_plan(&self, chat_id: ChannelId, turn: Option<TurnKey>, present: &[String]) -> Option<PromptPlan> {
        let chat = self.chats.get(&chat_id)?;
        let author = match turn {
            // A subagent's run has the author of the run that started it.
            Some(turn) => {
                let run = chat.run().filter(|run| run.key() == turn)?;
                run.author.as_ref()
            }
            None => None,
        };
        let session = self.sessions.get(&chat.session)?;
        let policy = self.config.restricted_sections.as_deref();
        let is_restricted = |id: &&String| {
            self.agents
                .catalogue()
                .is_restricted(&session.state.provider, id, policy)
        };
        let (restricted, free): (Vec<_>, Vec<_>) = present.iter().partition(is_restricted);
        Some(PromptPlan {
            restricted: restricted.into_iter().cloned().collect(),
            transformer: self.transformer(session, author, &free),
        })
    }

    /// Assigns the existing, unrestricted sections to clients (SMT-03).
    fn transformer(&self, session: &Session, author: Option<&ClientId>, free: &[&String]) -> Option<Transformer> {
        let (client, conn) = self.opted_in(session, author)?;
        let opt_in = session.opt_ins.get(client.as_str())?;
        let named: HashSet<&String> = opt_in.sections.iter().collect();
        let asked = free.iter().filter(|id| named.contains(**id));
        let sections: Vec<String> = asked.map(|id| (*id).clone()).collect();
        // An opt-in from before the limit was lowered may be longer than it (SMT-15).
        if sections.is_empty() || sections.len() > self.config.max_transform_sections {
            return None;
        }
        Some(Transformer {
            client,
            conn,
            session_uri: Arc::clone(&session.uri),
            sections,
        })
    }

    /// The client that rewrites: the author of the turn, if it opted in; otherwise the last client that opted in, as
    /// with tools that several clients offer (ACT-05). A client in its grace period cannot answer requests, so it is
    /// skipped.
    fn opted_in(&self, session: &Session, author: Option<&ClientId>) -> Option<(ClientId, ConnId)> {
        let members = session.state.active_clients.iter().rev();
        let mut willing = members
            .filter(|member| {
                let opt_in = session.opt_ins.get(&member.client_id);
                opt_in.is_some_and(|opt_in| !opt_in.sections.is_empty())
            })
            .filter_map(|member| {
                let client = ClientId::new(&member.client_id);
                match &self.clients.get(&client)?.presence {
                    Presence::Active(transports) => Some((client, transports.primary())),
                    Presence::Grace(_) | Presence::Absent(_) => None,
                }
            })
            .peekable();
        let newest = willing.peek().cloned();
        willing.find(|(client, _)| Some(client) == author).or(newest)
    }
}
