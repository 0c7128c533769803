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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::SettingKind;

    fn root() -> Root {
        let setting = Setting {
            id: "limit".to_owned(),
            title: "Limit".to_owned(),
            description: None,
            kind: SettingKind::Boolean,
            default: Some(json!(true)),
            mutable: true,
            read_only: false,
            required: false,
        };
        Root::new(Vec::new(), Arc::new([setting]))
    }

    #[test]
    fn a_new_root_has_the_defaults_of_its_settings() {
        let root = root();
        assert_eq!(root.value("limit"), Some(&json!(true)));
        assert_eq!(root.value("other"), None);
        assert_eq!(root.state().active_sessions, Some(0));
    }

    #[test]
    fn a_state_that_was_handed_out_does_not_change() {
        let mut root = root();
        let before = Arc::clone(root.state());
        root.state_mut().active_sessions = Some(3);
        assert_eq!(before.active_sessions, Some(0));
        assert_eq!(root.state().active_sessions, Some(3));
    }
}
