//! Bugs about MCP servers: who is shown what of them, and whose word about them counts.

use std::collections::BTreeMap;

use innkeeper_core::{ActionFrame, ChannelId, Effect, Input, McpCommand};

use super::{Mutation, Mutator};

/// The buggy host's knowledge of MCP servers: the current start of each.
#[derive(Debug, Default)]
pub struct ServerStarts(BTreeMap<(ChannelId, String), u64>);

impl Mutator {
    /// Whether clients that do not show MCP Apps get an action as if they did (MCP-14, E-58).
    pub fn shows_apps(&mut self, frame: &ActionFrame) -> bool {
        frame.is_shown_differently() && self.strikes(Mutation::ShowAppsToAll)
    }

    /// Takes the report of an earlier start of a server for one of the current start.
    pub(super) fn believe_old_servers(&mut self, input: &mut Input) {
        let Input::McpServer {
            session, id, attempt, ..
        } = input
        else {
            return;
        };
        let present = self.starts.0.get(&(*session, id.clone())).copied();
        if let Some(present) = present.filter(|present| present != attempt)
            && self.strikes(Mutation::HearOldServers)
        {
            *attempt = present;
        }
    }

    /// Whether the desired servers of a session are dropped.
    pub(super) fn loses_servers(&mut self, effect: &Effect) -> bool {
        let Effect::Mcp(McpCommand::SetDesiredServers { session, wanted }) = effect else {
            return false;
        };
        self.starts.0.retain(|(known, _), _| known != session);
        let servers = wanted.servers.iter();
        let starts = servers.map(|server| ((*session, server.id.clone()), server.attempt));
        self.starts.0.extend(starts);
        self.strikes(Mutation::LoseServers)
    }
}
