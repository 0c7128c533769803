//! What a client may change in a session.

use std::collections::HashSet;
use std::sync::Arc;

use ahp_types::actions::StateAction;
use ahp_types::state::SessionActiveClient;

use super::Verdict;
use crate::clients::access::Scope;
use crate::core::{Host, json_bytes};
use crate::customization::{check_client_plugins, resolve_published_id};
use crate::ids::ChannelId;
use crate::log::commit::Author;
use crate::protocol::dialect::extension::OptIn;

impl Host {
    pub(super) fn judge_session(
        &self,
        channel: ChannelId,
        action: StateAction,
        opt_in: Option<&OptIn>,
        author: &Author,
        scope: Scope,
    ) -> Verdict {
        let Some(session) = self.sessions.get(&channel) else {
            return Verdict::Reject("the session is gone".to_owned());
        };
        match &action {
            StateAction::SessionTitleChanged(changed) => {
                let check = self.check_title(&changed.title);
                Verdict::from_check(action, check)
            }
            StateAction::SessionIsReadChanged(_) | StateAction::SessionIsArchivedChanged(_) => Verdict::Accept(action),
            StateAction::SessionActiveClientSet(set) => {
                if set.active_client.client_id != author.client.as_str() {
                    return Verdict::Reject(
                        "a client may only announce itself: activeClient.clientId is not the dispatcher's".to_owned(),
                    );
                }
                if let Err(problem) = self.check_active_client(&set.active_client, opt_in) {
                    return Verdict::Reject(format!("activeClient.{problem}"));
                }
                let unchanged = session.state.active_clients.contains(&set.active_client)
                    && session.opt_ins.get(&set.active_client.client_id) == opt_in;
                match (unchanged, session.acknowledged.contains(&author.client)) {
                    (false, _) => Verdict::Accept(action),
                    (true, false) => Verdict::Acknowledge(action),
                    (true, true) => Verdict::Silence,
                }
            }
            StateAction::SessionActiveClientRemoved(removed) if removed.client_id != author.client.as_str() => {
                Verdict::Reject("a client may only remove itself: clientId is not the dispatcher's".to_owned())
            }
            StateAction::SessionActiveClientRemoved(_) => Verdict::Accept(action),
            StateAction::SessionCustomizationToggled(toggled) => {
                let toggled = resolve_published_id(session, toggled.clone(), author.client.as_str());
                let check = self.check_toggle(session, &toggled, scope);
                Verdict::from_check(StateAction::SessionCustomizationToggled(toggled), check)
            }
            StateAction::SessionConfigChanged(changed) => {
                let check = self.check_session_config(session, changed, scope);
                Verdict::from_change(check, StateAction::SessionConfigChanged)
            }
            StateAction::SessionMcpServerStartRequested(_)
            | StateAction::SessionMcpServerStopRequested(_)
            | StateAction::SessionMcpServerBackgroundRequested(_) => {
                let check = self.check_server_demand(session, &action);
                Verdict::from_check(action, check)
            }
            StateAction::SessionWorkingDirectorySet(_)
            | StateAction::SessionWorkingDirectoryRemoved(_)
            | StateAction::SessionWorkingDirectoryReplaced(_) => {
                let check = self.check_directories(channel, &action);
                Verdict::from_check(action, check)
            }
            _ => Verdict::Reject("clients may not send this to a session".to_owned()),
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
