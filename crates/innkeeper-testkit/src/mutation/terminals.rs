//! Bugs about terminals: who types, and what happens to their processes.

use std::collections::BTreeMap;

use ahp_types::actions::StateAction;
use ahp_types::state::TerminalClaim;
use innkeeper_core::terminal::{PtyCommand, PtyId, TerminalEvent, TerminalInput};
use innkeeper_core::{ConnId, Effect, Input, PartInput};

use super::{Mutation, Mutator};
use crate::sim::Connections;

/// The buggy host's knowledge of terminals: how often each was cleared.
#[derive(Debug, Default)]
pub struct TerminalClears(BTreeMap<PtyId, u64>);

impl Mutator {
    /// Bends input about terminals.
    pub(super) fn bend_terminal_input(&mut self, input: &mut Input, conns: &Connections) {
        match input {
            Input::Dispatch { conn, dispatch } if matches!(dispatch.action, Ok(StateAction::TerminalInput(_))) => {
                if let Some(holder) = other_holder(&dispatch.channel, *conn, conns)
                    && self.strikes(Mutation::TypeWithoutClaim)
                {
                    *conn = holder;
                }
            }
            Input::Part(PartInput::Terminal(TerminalInput::Output { pty, events })) => {
                let now = self.clears.0.get(pty).copied().unwrap_or_default();
                for event in events {
                    if let TerminalEvent::Compacted { clears, .. } = event
                        && *clears != now
                        && self.strikes(Mutation::DrawClearedOutput)
                    {
                        *clears = now;
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a command to a terminal is dropped.
    pub(super) fn loses_terminal_command(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::Terminals(PtyCommand::Input { .. }) => self.strikes(Mutation::LoseTyped),
            Effect::Terminals(PtyCommand::Close { .. }) => self.strikes(Mutation::LeaveProcess),
            Effect::Terminals(PtyCommand::Clear { pty }) => {
                *self.clears.0.entry(*pty).or_default() += 1;
                false
            }
            _ => false,
        }
    }
}

/// Returns a connection of the client that holds a terminal, if that is another client.
fn other_holder(terminal: &str, conn: ConnId, conns: &Connections) -> Option<ConnId> {
    let author = conns.get(&conn)?;
    let mut claims = conns.values().filter_map(|connection| connection.claim(terminal));
    let holder = claims.find_map(|claim| match claim {
        TerminalClaim::Client(claim) => Some(claim.client_id.clone()),
        TerminalClaim::Session(_) => None,
    })?;
    if author.client_id == holder {
        return None;
    }
    let mut theirs = conns.values().filter(|other| other.client_id == holder && other.ready);
    theirs.next().map(|other| other.id)
}
