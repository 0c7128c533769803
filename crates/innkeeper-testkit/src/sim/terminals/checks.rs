//! Invariants of terminals.

use std::collections::BTreeMap;

use ahp_types::state::TerminalInfo;
use innkeeper_core::snapshot::State;
use innkeeper_core::uri;

use super::{TERMINALS, runs, text_of};
use crate::sim::{Sim, Violation};

impl Sim {
    /// A process gets the input of clients that may drive its terminal, and no other (TRM-06, TRM-18).
    pub(super) fn check_typed(&mut self, uri: &str, due: Option<&str>) -> Result<(), Violation> {
        let Some(terminals) = &mut self.terminals else {
            return Ok(());
        };
        let typed = std::mem::take(&mut terminals.typed);
        let of_uri = |pty| terminals.processes.get(pty).map(|process| process.uri.as_str());
        let is_right = match (typed.as_slice(), due) {
            ([], None) => true,
            ([(pty, data)], Some(due)) => of_uri(pty) == Some(uri) && data == due,
            _ => false,
        };
        match is_right {
            true => Ok(()),
            false => Err(Violation::new(format!(
                "{due:?} is to be typed into {uri}, and this was: {typed:?} (TRM-18)"
            ))),
        }
    }

    /// Compares terminals with their processes and with the list, once everything is reported.
    pub(in crate::sim) fn check_terminals(&self) -> Result<(), Violation> {
        let Some(terminals) = &self.terminals else {
            return Ok(());
        };
        for (pty, process) in &terminals.processes {
            let uri = &process.uri;
            let Some(state) = self
                .host_terminal(uri)
                .filter(|_| self.core.terminal_channel(*pty).is_some())
            else {
                return Err(Violation::new(format!(
                    "{pty:?} goes on without {uri} (TRM-02, SES-29)"
                )));
            };
            if text_of(&state) != process.text {
                return Err(Violation::new(format!(
                    "{uri} does not have what {pty:?} printed\n  host: {:?}\n  printed: {:?}",
                    text_of(&state),
                    process.text
                )));
            }
        }
        let listed = self.listed_terminals();
        for uri in TERMINALS {
            let Some(state) = self.host_terminal(uri) else {
                continue;
            };
            let runs_here = terminals.processes.values().any(|process| process.uri == uri);
            if runs(&state) != runs_here {
                return Err(Violation::new(format!("{uri} is {:?} (TRM-10)", state.lifecycle)));
            }
            let expected = TerminalInfo {
                resource: uri.to_owned(),
                title: state.title.clone(),
                claim: state.claim.clone(),
                lifecycle: state.lifecycle.clone(),
            };
            // The list that a host restores after a crash may be older than the states of the terminals.
            let is_restored = self.store.is_some() && !runs_here && !listed.contains_key(uri);
            if !is_restored && listed.get(uri) != Some(&expected) {
                return Err(Violation::new(format!(
                    "{uri} is listed as {:?} and is {expected:?} (TRM-10)",
                    listed.get(uri)
                )));
            }
        }
        Ok(())
    }

    fn listed_terminals(&self) -> BTreeMap<String, TerminalInfo> {
        let Some(State::Root(root)) = self.core.snapshot(uri::ROOT).map(|snapshot| snapshot.state) else {
            return BTreeMap::new();
        };
        let listed = root.terminals.clone().unwrap_or_default();
        listed.into_iter().map(|info| (info.resource.clone(), info)).collect()
    }
}
