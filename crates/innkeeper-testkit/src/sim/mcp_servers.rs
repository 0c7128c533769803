//! MCP servers as the simulator remembers them: the desired ones and their reports. A session shows the last
//! report of a server's current start, and "stopped" without one (MCP).

use std::collections::BTreeMap;

use innkeeper_core::agent::AuthRequirement;
use innkeeper_core::mcp::{AppCapabilities, ServerReport, ServerStatus, ServersToRun};
use innkeeper_core::snapshot::State;
use innkeeper_core::{ChannelId, ConnId, Failure, Input, McpCommand};
use serde_json::{Value, json};

use crate::sim::checks::agent_state::is_held;
use crate::sim::client::connection::Connection;
use crate::sim::operations::dispatches::Draft;
use crate::sim::{Choices, Sim, Violation};

/// The simulator's knowledge of MCP servers.
#[derive(Debug, Default)]
pub struct KnownServers {
    wanted: BTreeMap<ChannelId, ServersToRun>,
}

impl KnownServers {
    /// Forgets the desired servers: they ended with the host.
    pub fn restart(&mut self) {
        self.wanted.clear();
    }

    /// Follows what the core asks for.
    pub fn perform(&mut self, command: &McpCommand) -> Result<(), Violation> {
        match command {
            McpCommand::SetDesiredServers { session, wanted } => {
                match self.wanted.insert(*session, (**wanted).clone()) {
                    Some(before) if before == **wanted => Err(Violation::new(format!(
                        "servers of {} are asked for twice",
                        wanted.session_uri
                    ))),
                    _ => Ok(()),
                }
            }
            McpCommand::ReleaseServers { session } => match self.wanted.remove(session) {
                Some(_) => Ok(()),
                None => Err(Violation::new(format!("servers of {session:?} were never asked for"))),
            },
            McpCommand::SetToken { .. }
            | McpCommand::Request { .. }
            | McpCommand::Notify { .. }
            | McpCommand::ReadResource { .. } => Ok(()),
        }
    }
}

impl Sim {
    /// A server reports, or a user starts or stops one.
    pub(super) fn server_reports(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        (0..=choices.below(4)).try_for_each(|_| self.server_reports_once(choices))
    }

    fn server_reports_once(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let wanted = self.servers.wanted.iter();
        let servers: Vec<(ChannelId, String, String, u64)> = wanted
            .flat_map(|(session, wanted)| {
                let servers = wanted.servers.iter();
                servers.map(|server| {
                    let uri = wanted.session_uri.to_string();
                    (*session, uri, server.id.clone(), server.attempt)
                })
            })
            .collect();
        let Some((session, uri, id, attempt)) = choices.pick(&servers).cloned() else {
            return Ok(());
        };
        if choices.one_in(3) {
            return self.demand(&uri, &id, choices);
        }
        let status = status(choices);
        let is_late = choices.one_in(6);
        let attempt = if is_late { attempt.wrapping_sub(1) } else { attempt };
        self.note(|| format!("{id} of {uri} reports {status:?} of {attempt}"));
        self.count("servers");
        let before = self.last_published;
        let report = Input::McpServer {
            session,
            id: id.clone(),
            attempt,
            report: ServerReport::Status(status.clone()),
        };
        self.handle(report)?;
        if is_late {
            return match self.last_published == before {
                true => Ok(()),
                false => Err(Violation::new(format!("a late report of {id} is told"))),
            };
        }
        let shown = self.server(&uri, &id);
        let (kind, has_apps) = match status {
            ServerStatus::Starting => ("starting", false),
            ServerStatus::Ready { apps } => ("ready", apps.is_some()),
            ServerStatus::AuthRequired(_) => ("authRequired", false),
            ServerStatus::Failed(_) => ("error", false),
            ServerStatus::Stopped => ("stopped", false),
        };
        if shown["state"]["kind"] != kind || shown["channel"].is_string() != has_apps {
            return Err(Violation::new(format!("{id} of {uri} is {kind} and shown as {shown}")));
        }
        Ok(())
    }

    /// A user starts a server, stops it, or moves its start to the background.
    fn demand(&mut self, uri: &str, id: &str, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let hears = |conn: &&Connection| conn.ready && conn.host_subscriptions.contains(uri);
        let hearers: Vec<ConnId> = self.conns.values().filter(hears).map(|conn| conn.id).collect();
        let Some(conn) = choices.pick(&hearers).copied() else {
            return Ok(());
        };
        let kinds = ["Start", "Stop", "Background"];
        let kind = kinds[choices.below(kinds.len())];
        self.count("demands of servers");
        let action = json!({ "type": format!("session/mcpServer{kind}Requested"), "id": id });
        self.send_dispatch(conn, Draft::fair(uri, action))
    }

    /// A server that is not desired is shown as stopped, and has no channel.
    pub(super) fn check_servers(&self) -> Result<(), Violation> {
        if self.store.as_ref().is_some_and(|store| store.read_only) {
            return Ok(());
        }
        for uri in self.sessions() {
            let wanted = self.servers.wanted.values().find(|wanted| *wanted.session_uri == *uri);
            let runs = |id: &Value| {
                let mut servers = wanted.iter().flat_map(|wanted| &wanted.servers);
                servers.any(|server| *id == *server.id)
            };
            for shown in self.servers(uri) {
                let is_stopped = shown["state"]["kind"] == "stopped" && shown["channel"].is_null();
                if !runs(&shown["id"]) && !is_stopped {
                    return Err(Violation::new(format!("{shown} of {uri} is not desired")));
                }
            }
        }
        Ok(())
    }

    /// No turn waits for servers for long (MCP-03).
    pub(super) fn check_nothing_held(&self) -> Result<(), Violation> {
        for (_, uri) in self.agent.chats() {
            if self.host_chat(uri).is_some_and(|(head, _)| is_held(&head)) {
                return Err(Violation::new(format!("a turn of {uri} waits and waits")));
            }
        }
        Ok(())
    }

    fn server(&self, uri: &str, id: &str) -> Value {
        let mut servers = self.servers(uri).into_iter();
        servers.find(|server| server["id"] == id).unwrap_or_default()
    }

    /// The servers that a session in memory shows.
    fn servers(&self, uri: &str) -> Vec<Value> {
        let Some(State::Session(state)) = self.core.snapshot(uri).map(|snapshot| snapshot.state) else {
            return Vec::new();
        };
        let list = json!(state.shared().customizations);
        let mut servers = Vec::new();
        for entry in list.as_array().into_iter().flatten() {
            let children = entry["children"].as_array().into_iter().flatten();
            let all = children.chain([entry]);
            servers.extend(all.filter(|entry| entry["type"] == "mcpServer").cloned());
        }
        servers
    }
}

fn status(choices: &mut Choices<'_>) -> ServerStatus {
    match choices.below(7) {
        0 => ServerStatus::Starting,
        1 => ServerStatus::Stopped,
        2 => ServerStatus::Failed(Failure::new("crashed", "it crashed")),
        3 => ServerStatus::AuthRequired(Box::new(AuthRequirement {
            resource: "https://mcp.example".to_owned(),
            ..AuthRequirement::default()
        })),
        4 => ServerStatus::Ready { apps: None },
        listed => ServerStatus::Ready {
            apps: Some(AppCapabilities {
                tools: Some(listed == 5),
                ..AppCapabilities::default()
            }),
        },
    }
}
