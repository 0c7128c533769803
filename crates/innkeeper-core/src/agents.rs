//! The agents of a host: finding one, what it offers in sessions, and what follows when its
//! description changes.

use std::sync::Arc;

use ahp_types::actions::{RootAgentsChangedAction, SessionServerToolsChangedAction, StateAction};
use ahp_types::state::AgentInfo;

use crate::agent::{AgentProfile, Failure};
use crate::core::{Cx, HostCore, ROOT};
use crate::error::{RpcError, code};
use crate::extension::Catalogue;
use crate::ids::ChannelId;
use crate::session::Session;

impl HostCore {
    /// Takes note of how agents describe themselves now, and tells everybody if it differs.
    pub(crate) fn agents_changed(&mut self, cx: &mut Cx<'_>, profiles: Vec<AgentProfile>) {
        let agents = self.shown_agents(&profiles);
        let catalogue = Catalogue::new(&profiles, self.config.restricted_sections.as_deref());
        let has_changed = self.root.agents != agents || *self.catalogue != catalogue;
        self.catalogue = Arc::new(catalogue);
        self.agents = profiles;
        if self.read_only.is_some() {
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

    /// Publishes the agents again if what every session gets was switched on or off since.
    pub(crate) fn publish_agents(&mut self, cx: &mut Cx<'_>) {
        let agents = self.shown_agents(&self.agents);
        if self.root.agents != agents {
            let action = RootAgentsChangedAction { agents };
            self.commit(cx, ROOT, StateAction::RootAgentsChanged(action), None);
        }
    }

    /// The agents as clients see them, with what was decided for everywhere about what every session gets (CUS-10).
    pub(crate) fn shown_agents(&self, profiles: &[AgentProfile]) -> Vec<AgentInfo> {
        let agents = profiles.iter().map(|agent| {
            let mut info = agent.info.clone();
            for entry in info.customizations.iter_mut().flatten() {
                self.switch_for_all(entry);
            }
            info
        });
        agents.collect()
    }

    /// The agent a client named, or the default one (SES-04).
    pub(crate) fn agent_named(&self, provider: Option<&str>) -> Result<&AgentProfile, RpcError> {
        let found = match provider {
            Some(wanted) => self.agents.iter().find(|agent| agent.info.provider == wanted),
            None => self.agents.first(),
        };
        found.ok_or_else(|| match provider {
            Some(wanted) => {
                let known: Vec<&str> = self.agents.iter().map(|agent| agent.info.provider.as_str()).collect();
                let message = format!(
                    "there is no agent {wanted:?} on this host; it has: {}",
                    known.join(", ")
                );
                RpcError::new(code::PROVIDER_NOT_FOUND, message)
            }
            None => RpcError::new(code::PROVIDER_NOT_FOUND, "this host has no agents"),
        })
    }

    /// What the core knows about a session's agent.
    pub(crate) fn agent_of(&self, session: &Session) -> Option<&AgentProfile> {
        self.agents
            .iter()
            .find(|agent| agent.info.provider == session.state.provider)
    }

    /// Why nobody can run the turns of a chat: its agent was there when the session was created.
    pub(crate) fn missing_agent(&self, chat_id: ChannelId) -> Option<Failure> {
        let session = self.session_of(chat_id)?;
        if self.agent_of(session).is_some() {
            return None;
        }
        let message = format!(
            "the agent {:?} is no longer on this host; what was said can be read, and the agent has to be set up \
             again to go on",
            session.state.provider
        );
        Some(Failure::new("agentMissing", message))
    }

    /// Publishes the agent's own tools, which clients show and do not execute, unless they are what
    /// the session has.
    pub(crate) fn refresh_server_tools(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return;
        };
        let Some(agent) = self.agent_of(session) else {
            return;
        };
        let tools: Vec<_> = agent.tools.iter().map(crate::tool::wire::definition).collect();
        if session.state.server_tools.as_deref().unwrap_or_default() != tools {
            let action = StateAction::SessionServerToolsChanged(SessionServerToolsChangedAction { tools });
            self.commit(cx, session_id, action, None);
        }
    }
}
