//! A client announces itself in a session, or leaves it (ACT).

use std::collections::HashSet;
use std::sync::Arc;

use ahp_types::actions::{SessionActiveClientRemovedAction, SessionActiveClientSetAction, StateAction};
use ahp_types::state::SessionActiveClient;

use super::{Dispatched, Verdict};
use crate::core::{Cx, Host, json_bytes};
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
        match (unchanged, session.acknowledged.contains(&by.author.client)) {
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
        self.commit_dispatched(cx, by, StateAction::SessionActiveClientSet(set));
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

    /// A client is an active client of a session now, or announced other tools and plugins.
    pub(crate) fn after_active_client_set(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        set: &SessionActiveClientSetAction,
    ) {
        let client = ClientId::new(&set.active_client.client_id);
        if let Some(client) = self.clients.get_mut(&client) {
            client.memberships.insert(session_id);
        }
        self.client_customizes(cx, session_id, &set.active_client.client_id);
    }

    /// A client has left a session: its calls fail, and its plugins go.
    pub(crate) fn after_active_client_removed(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        removed: &SessionActiveClientRemovedAction,
    ) {
        if let Some(session) = self.sessions.get_mut(&session_id)
            && session.opt_ins.get(&removed.client_id).is_some()
        {
            Arc::make_mut(&mut session.opt_ins).set(&removed.client_id, None);
        }
        let id = ClientId::new(&removed.client_id);
        if let Some(client) = self.clients.get_mut(&id) {
            client.memberships.remove(&session_id);
        }
        self.parts.watches.recheck();
        self.fail_calls_of(cx, session_id, &id);
        self.drop_customizations_of(cx, session_id, &removed.client_id);
    }

    /// Follows up on a client that announced itself in a session as it did before.
    pub(super) fn announced_again(&mut self, cx: &mut Cx<'_>, channel: ChannelId, author: &Author) {
        if self.sessions.contains_key(&channel) {
            self.client_published_again(cx, channel, author.client.as_str());
        }
    }

    /// Notes that a client's unchanged announcement was acknowledged.
    pub(super) fn note_acknowledged(&mut self, channel: ChannelId, author: &Author) {
        if let Some(session) = self.sessions.get_mut(&channel) {
            session.acknowledged.insert(author.client.clone());
        }
    }

    /// What a client may say about itself: tools with names that tell them apart, within bounds.
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
        check_client_plugins(client, self.config.max_client_plugins)?;
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

    /// Notes what a client wants to rewrite, before the action that announces the client.
    pub(crate) fn set_opt_in(&mut self, session: ChannelId, client: &str, opt_in: Option<OptIn>) {
        if let Some(session) = self.sessions.get_mut(&session)
            && session.opt_ins.get(client) != opt_in.as_ref()
        {
            Arc::make_mut(&mut session.opt_ins).set(client, opt_in);
        }
    }
}
