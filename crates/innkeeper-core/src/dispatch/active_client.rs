//! A client announces itself in a session, or leaves it (ACT).

use std::collections::HashSet;
use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::{SessionActiveClientRemovedAction, SessionActiveClientSetAction, StateAction};
use ahp_types::state::SessionActiveClient;

use super::{Dispatched, Verdict};
use crate::core::{Cx, Host, json_bytes, never};
use crate::customization::check_client_plugins;
use crate::ids::{ChannelId, ClientId};
use crate::log::commit::Author;
use crate::protocol::dialect::extension::OptIn;
use crate::session::Session;

impl Host {
    pub(super) fn check_active_client_set(
        &self,
        by: &Dispatched,
        session: &Session,
        set: SessionActiveClientSetAction,
    ) -> Verdict {
        let opt_in = by.opt_in.as_ref();
        if set.active_client.client_id != by.author.client.as_str() {
            return Verdict::Reject(
                "a client may only announce itself: activeClient.clientId is not the dispatcher's".to_owned(),
            );
        }
        if let Err(problem) = self.check_active_client(&set.active_client, opt_in) {
            return Verdict::Reject(format!("activeClient.{problem}"));
        }
        let unchanged = session.state.active_clients.contains(&set.active_client)
            && session.opt_ins.get(&set.active_client.client_id) == opt_in;
        let action = StateAction::SessionActiveClientSet(set);
        match (unchanged, self.is_acknowledged(by, session)) {
            (false, _) => Verdict::Accept(action),
            (true, false) => Verdict::Acknowledge(action),
            (true, true) => Verdict::Silence,
        }
    }

    pub(super) fn apply_active_client_set(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        set: SessionActiveClientSetAction,
    ) {
        self.set_opt_in(by.channel, &set.active_client.client_id, by.opt_in.clone());
        self.set_active_client(cx, by.channel, set.active_client, Some(&by.author));
    }

    pub(super) fn check_active_client_removed(
        &self,
        by: &Dispatched,
        _session: &Session,
        removed: SessionActiveClientRemovedAction,
    ) -> Verdict {
        if removed.client_id != by.author.client.as_str() {
            return Verdict::Reject("a client may only remove itself: clientId is not the dispatcher's".to_owned());
        }
        Verdict::Accept(StateAction::SessionActiveClientRemoved(removed))
    }

    pub(super) fn apply_active_client_removed(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        removed: SessionActiveClientRemovedAction,
    ) {
        self.remove_active_client(cx, by.channel, removed.client_id, Some(&by.author));
    }

    /// Makes a client an active client of a session, or replaces its tools and plugins.
    pub(crate) fn set_active_client(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        active_client: SessionActiveClient,
        author: Option<&Author>,
    ) {
        let client_id = active_client.client_id.clone();
        let action = StateAction::SessionActiveClientSet(SessionActiveClientSetAction { active_client });
        if self.commit(cx, session_id, action, author) == ReduceOutcome::Applied {
            match self.clients.get_mut(&ClientId::new(&client_id)) {
                Some(client) => {
                    client.memberships.insert(session_id);
                }
                None => never!("a client announces itself on a connection of its own"),
            }
            self.client_customizes(cx, session_id, &client_id);
        }
    }

    /// Removes an active client from a session: its calls fail, and its plugins are removed.
    pub(crate) fn remove_active_client(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        client_id: String,
        author: Option<&Author>,
    ) {
        let id = ClientId::new(&client_id);
        let action = SessionActiveClientRemovedAction {
            client_id: client_id.clone(),
        };
        let action = StateAction::SessionActiveClientRemoved(action);
        if self.commit(cx, session_id, action, author) == ReduceOutcome::Applied {
            self.set_opt_in(session_id, &client_id, None);
            // The host may have forgotten a client that was absent for long.
            if let Some(client) = self.clients.get_mut(&id) {
                client.memberships.remove(&session_id);
            }
            self.parts.watches.recheck();
            self.fail_calls_of(cx, session_id, &id);
            self.drop_customizations_of(cx, session_id, &client_id);
        }
    }

    /// Returns true if the author's unchanged announcement was acknowledged and the session has not changed since.
    fn is_acknowledged(&self, by: &Dispatched, session: &Session) -> bool {
        let changed = self.channels.get(by.channel).map(|entry| entry.last);
        let acknowledged = session.acknowledged(&by.author.client);
        acknowledged.is_some_and(|acknowledged| changed.is_some_and(|changed| changed <= acknowledged))
    }

    /// Handles a repeated announcement of a client.
    pub(super) fn announced_again(&mut self, cx: &mut Cx<'_>, channel: ChannelId, author: &Author) {
        if self.sessions.contains_key(&channel) {
            self.client_published_again(cx, channel, author.client.as_str());
        }
    }

    /// Notes that a client's unchanged announcement was acknowledged.
    pub(super) fn note_acknowledged(&mut self, channel: ChannelId, author: &Author) {
        let changed = self.channels.get(channel).map(|entry| entry.last);
        if let (Some(session), Some(changed)) = (self.sessions.get_mut(&channel), changed) {
            session.acknowledge(author.client.clone(), self.log.seq(), changed);
        }
    }

    /// Checks the entry of an active client: its tools have distinct names, and everything is within bounds.
    pub(crate) fn check_active_client(
        &self,
        client: &SessionActiveClient,
        opt_in: Option<&OptIn>,
    ) -> Result<(), String> {
        if let Some(opt_in) = opt_in {
            opt_in.check(self.config.max_transform_sections)?;
        }
        if client.tools.len() > self.config.max_client_tools {
            return Err(format!(
                "tools: a client offers at most {} tools",
                self.config.max_client_tools
            ));
        }
        let mut names = HashSet::new();
        for (index, tool) in client.tools.iter().enumerate() {
            if tool.name.is_empty() || tool.name.len() > 256 {
                return Err(format!("tools[{index}].name: has between 1 and 256 bytes"));
            }
            if !names.insert(&tool.name) {
                return Err(format!("tools[{index}].name: {:?} is offered twice", tool.name));
            }
            if tool.input_schema.as_ref().is_some_and(|schema| !schema.is_object()) {
                return Err(format!("tools[{index}].inputSchema: must be a JSON Schema object"));
            }
        }
        check_client_plugins(client)?;
        if json_bytes(client) > self.config.max_active_client_bytes {
            let is_tools = json_bytes(&client.tools) >= json_bytes(&client.customizations);
            let field = if is_tools { "tools" } else { "customizations" };
            return Err(format!(
                "{field}: the whole entry has at most {} bytes",
                self.config.max_active_client_bytes
            ));
        }
        Ok(())
    }

    /// Stores which prompt sections a client wants to rewrite, before the action that announces the client.
    pub(crate) fn set_opt_in(&mut self, session: ChannelId, client: &str, opt_in: Option<OptIn>) {
        if let Some(session) = self.sessions.get_mut(&session)
            && session.opt_ins.get(client) != opt_in.as_ref()
        {
            Arc::make_mut(&mut session.opt_ins).set(client, opt_in);
        }
    }
}
