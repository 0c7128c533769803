//! The state of the root channel: agents, number of sessions, and the host's own settings.

use std::sync::Arc;

use ahp_types::state::{AgentInfo, RootState};
use serde_json::Value;

use crate::agent::Setting;
use crate::session::configure;

/// The root channel's state.
#[derive(Debug)]
pub(crate) struct Root {
    state: Arc<RootState>,
    /// The host's own settings, in the order clients see them.
    settings: Arc<[Setting]>,
}

impl Root {
    /// The root of a host with these agents, without sessions.
    pub(crate) fn new(agents: Vec<AgentInfo>, settings: Arc<[Setting]>) -> Self {
        let state = RootState {
            agents,
            active_sessions: Some(0),
            terminals: None,
            config: Some(configure::root_config(&settings)),
            meta: None,
        };
        Self {
            state: Arc::new(state),
            settings,
        }
    }

    pub(crate) fn state(&self) -> &Arc<RootState> {
        &self.state
    }

    pub(crate) fn state_mut(&mut self) -> &mut RootState {
        Arc::make_mut(&mut self.state)
    }

    /// The host's own settings, in the order clients see them.
    pub(crate) fn settings(&self) -> &Arc<[Setting]> {
        &self.settings
    }

    /// The value of one of the host's own settings.
    pub(crate) fn value(&self, setting: &str) -> Option<&Value> {
        self.state.config.as_ref()?.values.get(setting)
    }
}
