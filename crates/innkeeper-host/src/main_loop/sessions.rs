//! Messages about sessions: what services and agents found out about them, and those that are gone.

use std::sync::Arc;

use ahp_types::state::Customization;
use innkeeper_core::repository::RepositoryState;
use innkeeper_core::{ChannelId, Effect, Input, Now};

use super::message::SessionMessage;
use super::task::HostTask;
use crate::services::customizations::CustomizationSet;

impl HostTask {
    pub(super) fn handle_session(&mut self, now: Now, message: SessionMessage, effects: &mut Vec<Effect>) {
        match message {
            SessionMessage::ListTools { session, provider } => self.list_tools(now, session, provider, effects),
            SessionMessage::CustomizationsReported { session, number, set } => {
                self.customizations_reported(now, session, number, set, effects);
            }
            SessionMessage::RepositorySeen {
                directory,
                number,
                state,
            } => self.repository_seen(now, &directory, number, state, effects),
        }
    }

    /// Asks the agent of a session for the tools that it offers there, and tells the core.
    fn list_tools(&mut self, now: Now, session: ChannelId, provider: String, effects: &mut Vec<Effect>) {
        let services = &self.services;
        let off = self.core.disabled_ids(session);
        let customizations = services.customizations.now(session, off, services.mcp.of(session));
        if let Some(tools) = self.agents.session_tools(&provider, &customizations) {
            let listed = Input::ToolsListed {
                session,
                provider,
                tools,
            };
            self.handle_input(now, listed, effects);
        }
    }

    /// Tells the core what was found for a session, and stores it for agents.
    fn customizations_reported(
        &mut self,
        now: Now,
        session: ChannelId,
        number: u64,
        set: Arc<CustomizationSet>,
        effects: &mut Vec<Effect>,
    ) {
        if !self.services.customizations.is_current(session, number) {
            return;
        }
        let entries = set.entries.iter().map(|entry| Customization::clone(entry)).collect();
        if set.is_preview {
            let announced = Input::CustomizationsAnnounced { session, entries };
            return self.handle_input(now, announced, effects);
        }
        let found = Input::CustomizationsFound {
            session,
            entries,
            shadows: set.shadows.clone(),
        };
        self.handle_input(now, found, effects);
        // After the core, which knows now which of them are disabled.
        let off = self.core.disabled_ids(session);
        let services = &mut self.services;
        services.customizations.store(session, Arc::clone(&set), off);
        services.mcp.redeclared(&self.handles, &set, session);
    }

    /// Tells the core about a repository, for every session in its directory.
    fn repository_seen(
        &mut self,
        now: Now,
        directory: &str,
        number: u64,
        state: Option<Box<RepositoryState>>,
        effects: &mut Vec<Effect>,
    ) {
        for session in self.services.repositories.sessions_in(directory, number) {
            let seen = Input::RepositorySeen {
                session,
                directory: directory.to_owned(),
                state: state.clone(),
            };
            self.handle_input(now, seen, effects);
        }
    }

    /// Erases sessions whose deletion can no longer be undone.
    pub(super) fn purged(&mut self, sessions: Vec<String>) {
        for session in sessions {
            self.services.erase_session(&self.handles, session.into());
        }
    }
}
