//! Approvals as the simulator remembers them: no other call may run without a confirmation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahp_types::actions::StateAction;
use ahp_types::state::SessionState;
use innkeeper_core::Input;
use innkeeper_core::agent::Decision;
use serde_json::Value;

use crate::sim::{Sim, Violation};

/// Everything that was allowed for more than one call.
#[derive(Debug, Default)]
pub struct Approvals {
    sessions: BTreeMap<String, Allowed>,
    /// By working directory.
    workspaces: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct Allowed {
    rules: BTreeSet<String>,
    everything: bool,
}

impl Approvals {
    /// Takes note of a call that may run, or objects to it. It is known by the rule for it, and by
    /// the one for its whole tool.
    pub fn allowed(
        &mut self,
        session: &str,
        directory: Option<&str>,
        [call, whole_tool]: &[String; 2],
        decision: &Decision,
        own_offer: bool,
    ) -> Result<(), Violation> {
        if decision.by.is_none() {
            let covers = |rules: &BTreeSet<String>| rules.contains(call) || rules.contains(whole_tool);
            let allowed = self.sessions.get(session);
            let everything = allowed.is_some_and(|allowed| allowed.everything);
            let in_session = allowed.is_some_and(|allowed| covers(&allowed.rules));
            let in_workspace = directory
                .and_then(|directory| self.workspaces.get(directory))
                .is_some_and(covers);
            if everything || !own_offer && (in_session || in_workspace) {
                return Ok(());
            }
            return Err(Violation::new(format!(
                "{call} runs in {session} although no user allowed it there"
            )));
        }
        // The host remembers neither the choices of an agent nor an edited input.
        let is_once = own_offer || decision.edited_input.is_some();
        let rule = match decision.choice.as_deref().filter(|_| !is_once) {
            Some("allow-session-every") => whole_tool,
            Some("allow-session" | "allow-workspace") => call,
            _ => return Ok(()),
        };
        match (decision.choice.as_deref(), directory) {
            (Some("allow-workspace"), Some(directory)) => {
                let rules = self.workspaces.entry(directory.to_owned()).or_default();
                rules.insert(rule.clone());
            }
            (Some("allow-workspace"), None) => {}
            _ => {
                let allowed = self.sessions.entry(session.to_owned()).or_default();
                allowed.rules.insert(rule.clone());
            }
        }
        Ok(())
    }

    /// A session starts with what the host is set up with.
    pub fn created(&mut self, session: &str, everything: bool) {
        let allowed = Allowed {
            everything,
            ..Allowed::default()
        };
        self.sessions.insert(session.to_owned(), allowed);
    }

    /// Takes over the settings of a session after a change.
    pub fn configured(&mut self, session: &str, state: &SessionState) {
        let values = state.config.as_ref().map(|config| &config.values);
        let value = |setting: &str| values.and_then(|values| values.get(setting));
        let list = |setting: &str| -> BTreeSet<String> {
            let list = value(setting).and_then(Value::as_array);
            let names = list.into_iter().flatten().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        };
        let allowed = Allowed {
            rules: list("approvedTools"),
            everything: value("autoApprove").and_then(Value::as_str) == Some("autoApprove"),
        };
        self.sessions.insert(session.to_owned(), allowed);
        if let Some(directory) = state.working_directories.as_ref().and_then(|all| all.first()) {
            self.workspaces
                .insert(directory.clone(), list("workspaceApprovedTools"));
        }
    }

    /// A session is gone, and what was allowed in it.
    pub fn forget(&mut self, session: &str) {
        self.sessions.remove(session);
    }
}

impl Sim {
    /// The session whose settings an input is about to change, as it is before.
    pub(super) fn configured_session(&self, input: &Input) -> Option<(String, Arc<SessionState>)> {
        match input {
            Input::Dispatch { dispatch, .. } => match &dispatch.action {
                Ok(StateAction::SessionConfigChanged(_)) => {
                    let state = self.host_session(&dispatch.channel)?;
                    Some((dispatch.channel.clone(), state))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Takes note of changed settings, if the host has accepted the change.
    pub(super) fn note_configured(&mut self, before: Option<(String, Arc<SessionState>)>) {
        let Some((uri, before)) = before else {
            return;
        };
        if let Some(state) = self.host_session(&uri).filter(|state| state.config != before.config) {
            self.count("changed settings");
            self.approvals.configured(&uri, &state);
        }
    }

    /// Whether sessions start without asking, as the host is set up now.
    pub(super) fn allows_everything(&self) -> bool {
        let Some(innkeeper_core::snapshot::State::Root(root)) = self
            .core
            .snapshot(innkeeper_core::uri::ROOT)
            .map(|snapshot| snapshot.state)
        else {
            return false;
        };
        let mode = root.config.as_ref().and_then(|config| config.values.get("autoApprove"));
        mode.and_then(Value::as_str) == Some("autoApprove")
    }

    /// The directory whose approvals a session shares.
    pub(super) fn directory_of(&self, session: &str) -> Option<String> {
        let state = self.host_session(session)?;
        state.working_directories.as_ref()?.first().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(by: Option<&str>, choice: Option<&str>) -> Decision {
        Decision {
            choice: choice.map(str::to_owned),
            by: by.map(innkeeper_core::ClientId::new),
            ..Decision::by_host(true)
        }
    }

    fn rules(tool: &str) -> [String; 2] {
        [format!("{tool}({{}})"), format!("{tool}(*)")]
    }

    #[test]
    fn an_approval_holds_in_its_session_and_in_no_other() {
        let mut approvals = Approvals::default();
        let by_policy = decided(None, None);
        assert!(
            approvals
                .allowed("one", None, &rules("run"), &by_policy, false)
                .is_err()
        );
        let by_user = decided(Some("c"), Some("allow-session"));
        approvals
            .allowed("one", None, &rules("run"), &by_user, false)
            .expect("users may");
        assert!(approvals.allowed("one", None, &rules("run"), &by_policy, false).is_ok());
        assert!(
            approvals
                .allowed("one", None, &rules("read"), &by_policy, false)
                .is_err()
        );
        assert!(
            approvals
                .allowed("two", None, &rules("run"), &by_policy, false)
                .is_err()
        );
        assert!(
            approvals.allowed("one", None, &rules("run"), &by_policy, true).is_err(),
            "the agent's own choices are asked about every time"
        );
    }

    #[test]
    fn an_approval_for_a_workspace_holds_in_every_session_of_it() {
        let mut approvals = Approvals::default();
        let by_user = decided(Some("c"), Some("allow-workspace"));
        approvals
            .allowed("one", Some("file:///w"), &rules("run"), &by_user, false)
            .expect("users may");
        let by_policy = decided(None, None);
        assert!(
            approvals
                .allowed("two", Some("file:///w"), &rules("run"), &by_policy, false)
                .is_ok()
        );
        assert!(
            approvals
                .allowed("two", Some("file:///v"), &rules("run"), &by_policy, false)
                .is_err()
        );
        assert!(
            approvals
                .allowed("two", None, &rules("run"), &by_policy, false)
                .is_err()
        );
    }
}
