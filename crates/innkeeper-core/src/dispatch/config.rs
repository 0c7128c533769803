//! Clients change the host's own settings, or those of a session (ROOT-07, SES-23).

use ahp_types::actions::{RootConfigChangedAction, SessionConfigChangedAction, StateAction};

use super::{Dispatched, Verdict};
use crate::core::{Cx, Host};
use crate::session::Session;

impl Host {
    pub(super) fn check_root_config_changed(&self, changed: RootConfigChangedAction) -> Verdict {
        let check = self.check_root_config(&changed);
        Verdict::from_change(check, StateAction::RootConfigChanged)
    }

    pub(super) fn apply_root_config_changed(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        changed: RootConfigChangedAction,
    ) {
        self.commit_dispatched(cx, by, StateAction::RootConfigChanged(changed));
        self.root_config_changed(cx);
    }

    pub(super) fn check_session_config_changed(
        &self,
        by: &Dispatched,
        session: &Session,
        changed: SessionConfigChangedAction,
    ) -> Verdict {
        let check = self.check_session_config(session, &changed, by.scope);
        Verdict::from_change(check, StateAction::SessionConfigChanged)
    }

    pub(super) fn apply_session_config_changed(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        changed: SessionConfigChangedAction,
    ) {
        self.commit_dispatched(cx, by, StateAction::SessionConfigChanged(changed));
        self.approvals_changed(cx, by.channel);
    }
}
