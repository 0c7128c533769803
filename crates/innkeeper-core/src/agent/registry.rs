//! The agents of a host: lookup, the tools they offer in sessions, and the effects of a changed description.

use std::sync::Arc;

use ahp_types::actions::{RootAgentsChangedAction, SessionServerToolsChangedAction, StateAction};
use ahp_types::state::{AgentInfo, ToolDefinition};

use crate::agent::{AgentProfile, Failure, ToolInfo};
use crate::chat::tool_call::wire::definition;
use crate::core::{Cx, Host, ROOT, Timer, never};
use crate::effect::AgentCommand;
use crate::ids::ChannelId;
use crate::protocol::dialect::extension::Catalogue;
use crate::protocol::error::{RpcError, code};
use crate::session::Session;

/// Changes of offered tools are collected for this long before the agent is asked.
const LIST_DELAY_MS: u64 = 100;

/// The agents of a host, and the sections of their system prompts as clients see them.
///
/// Invariant: the catalogue is the one of these agents.
#[derive(Debug)]
pub(crate) struct AgentRegistry {
    /// In the order clients see them.
    profiles: Vec<AgentProfile>,
    catalogue: Arc<Catalogue>,
}

impl AgentRegistry {
    /// These agents; `restricted` names the sections that no client may rewrite.
    pub(crate) fn new(profiles: Vec<AgentProfile>, restricted: Option<&[String]>) -> Self {
        let catalogue = Arc::new(Catalogue::new(&profiles, restricted));
        Self { profiles, catalogue }
    }

    /// The agents, in the order clients see them.
    pub(crate) fn profiles(&self) -> &[AgentProfile] {
        &self.profiles
    }

    /// The sections of their system prompts.
    pub(crate) fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// The agent of a provider.
    fn find(&self, provider: &str) -> Option<&AgentProfile> {
        self.profiles.iter().find(|agent| agent.info.provider == provider)
    }
}

/// Returns true for an action after which an agent may offer other tools: a customization was found, enabled or
/// disabled, or an MCP server started or stopped.
pub(crate) fn may_change_tools(action: &StateAction) -> bool {
    matches!(
        action,
        StateAction::SessionCustomizationsChanged(_)
            | StateAction::SessionCustomizationToggled(_)
            | StateAction::SessionCustomizationUpdated(_)
            | StateAction::SessionCustomizationRemoved(_)
            | StateAction::SessionMcpServerStateChanged(_)
            | StateAction::SessionMcpServerStartRequested(_)
            | StateAction::SessionMcpServerStopRequested(_)
    )
}

impl Host {
    /// Takes the current profiles of the agents, and publishes them if they differ.
    pub(crate) fn agents_changed(&mut self, cx: &mut Cx<'_>, profiles: Vec<AgentProfile>) {
        let agents = self.shown_agents(&profiles);
        let registry = AgentRegistry::new(profiles, self.config.restricted_sections.as_deref());
        let before = std::mem::replace(&mut self.agents, registry);
        let has_changed = self.root.state().agents != agents || before.catalogue != self.agents.catalogue;
        if self.storage.mode().is_read_only() {
            return; // The core that can write again starts with them.
        }
        if has_changed {
            let action = RootAgentsChangedAction { agents };
            self.commit(cx, ROOT, StateAction::RootAgentsChanged(action), None);
        }
        self.forget_unadvertised();
        let mut sessions: Vec<ChannelId> = self.sessions.keys().copied().collect();
        sessions.sort_unstable();
        for session in sessions {
            self.refresh_server_tools(cx, session);
        }
    }

    /// Publishes the agents again if the enablement of a host-wide customization changed.
    pub(crate) fn publish_agents(&mut self, cx: &mut Cx<'_>) {
        let agents = self.shown_agents(&self.agents.profiles);
        if self.root.state().agents != agents {
            let action = RootAgentsChangedAction { agents };
            self.commit(cx, ROOT, StateAction::RootAgentsChanged(action), None);
        }
    }

    /// The published agents, with global enablement applied to host-wide customizations (CUS-10).
    pub(crate) fn shown_agents(&self, profiles: &[AgentProfile]) -> Vec<AgentInfo> {
        let agents = profiles.iter().map(|agent| {
            let mut info = agent.info.clone();
            for entry in info.customizations.iter_mut().flatten() {
                self.apply_host_enablement(entry);
            }
            info
        });
        agents.collect()
    }

    /// The agent a client named, or the default one (SES-04).
    pub(crate) fn agent_named(&self, provider: Option<&str>) -> Result<&AgentProfile, RpcError> {
        let found = match provider {
            Some(wanted) => self.agents.find(wanted),
            None => self.agents.profiles.first(),
        };
        found.ok_or_else(|| match provider {
            Some(wanted) => {
                let known: Vec<&str> = self
                    .agents
                    .profiles
                    .iter()
                    .map(|agent| agent.info.provider.as_str())
                    .collect();
                let message = format!(
                    "there is no agent {wanted:?} on this host; it has: {}",
                    known.join(", ")
                );
                RpcError::new(code::PROVIDER_NOT_FOUND, message)
            }
            None => RpcError::new(code::PROVIDER_NOT_FOUND, "this host has no agents"),
        })
    }

    /// The profile of a session's agent.
    pub(crate) fn agent_of(&self, session: &Session) -> Option<&AgentProfile> {
        self.agents.find(&session.state.provider)
    }

    /// Why no agent can run the turns of a chat: its agent was removed since the session was created.
    pub(crate) fn missing_agent(&self, chat_id: ChannelId) -> Option<Failure> {
        let session = self.session_of(chat_id)?;
        if self.agent_of(session).is_some() {
            return None;
        }
        let message = format!(
            "the agent {:?} is no longer on this host; the history can be read; configure the agent again to \
             continue",
            session.state.provider
        );
        Some(Failure::new("agentMissing", message))
    }

    /// Brings the tools that the session's agent offers up to date. Clients show them and do not execute them.
    pub(crate) fn refresh_server_tools(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        // A restored session may be of an agent that this host no longer has: its list of tools stays as it is.
        let Some(agent) = self.agent_of(session) else { return };
        if self.config.lists_tools {
            let provider = agent.info.provider.clone();
            if !self.storage.mode().is_read_only() {
                cx.emit(AgentCommand::ListTools {
                    session: session_id,
                    provider,
                });
            }
            return;
        }
        let tools: Vec<_> = agent.tools.iter().map(definition).collect();
        self.publish_tools(cx, session_id, tools);
    }

    /// Schedules lists of the tools that may have changed. The delay collects changes: servers often start together,
    /// and each list is sent as a whole.
    pub(crate) fn schedule_tool_lists(&mut self, cx: &Cx<'_>) {
        let at_ms = cx.now.mono_ms.saturating_add(LIST_DELAY_MS);
        let lists_tools = self.config.lists_tools;
        for id in self.touched.take_tools() {
            // A session that the same input removed offers no tools.
            if let Some(session) = self.sessions.get_mut(&id).filter(|_| lists_tools)
                && session.schedule_tools()
            {
                self.timers.set(at_ms, Timer::ListTools(id));
            }
        }
    }

    pub(crate) fn list_noted_tools(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.take_scheduled_tools();
            self.refresh_server_tools(cx, session_id);
        }
    }

    /// An agent says which tools it offers in a session.
    pub(crate) fn tools_listed(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, provider: &str, tools: &[ToolInfo]) {
        let session = self.sessions.get(&session_id);
        let is_its_agent = session.is_some_and(|session| session.state.provider == provider);
        if is_its_agent && !self.storage.mode().is_read_only() {
            self.publish_tools(cx, session_id, tools.iter().map(definition).collect());
        }
    }

    /// Publishes tools, unless they are what the session shows.
    fn publish_tools(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, tools: Vec<ToolDefinition>) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        if session.state.server_tools.as_deref().unwrap_or_default() != tools {
            let action = StateAction::SessionServerToolsChanged(SessionServerToolsChangedAction { tools });
            self.commit(cx, session_id, action, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::Section;

    fn agent(provider: &str, section: &str) -> AgentProfile {
        let info = json!({ "provider": provider, "displayName": "", "description": "", "models": [] });
        let info: AgentInfo = serde_json::from_value(info).expect("an agent");
        let section = Section {
            id: section.to_owned(),
            label: section.to_owned(),
            description: None,
            restricted: true,
        };
        AgentProfile {
            sections: vec![section],
            ..AgentProfile::from(info)
        }
    }

    #[test]
    fn the_catalogue_is_the_one_of_the_agents() {
        let registry = AgentRegistry::new(vec![agent("a", "tone"), agent("b", "rules")], None);
        assert!(registry.catalogue().is_restricted("a", "tone", None));
        assert!(registry.catalogue().is_restricted("b", "rules", None));
        assert!(
            !registry.catalogue().is_restricted("a", "rules", None),
            "a section of another agent"
        );

        let registry = AgentRegistry::new(vec![agent("b", "rules")], Some(&["tone".to_owned()]));
        assert!(
            !registry.catalogue().is_restricted("b", "rules", None),
            "the host's own list replaces the agent's"
        );
        assert!(
            !registry.catalogue().is_restricted("a", "tone", None),
            "the agent is gone"
        );
    }

    #[test]
    fn agents_are_found_by_provider_and_keep_their_order() {
        let registry = AgentRegistry::new(vec![agent("b", "x"), agent("a", "x")], None);
        let providers = registry.profiles().iter().map(|agent| agent.info.provider.as_str());
        assert_eq!(providers.collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(registry.find("a").map(|agent| agent.info.provider.as_str()), Some("a"));
        assert!(registry.find("c").is_none());
    }
}
