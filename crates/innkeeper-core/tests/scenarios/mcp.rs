//! MCP servers of sessions (MCP); the test plays the MCP service.

use innkeeper_core::mcp::{AppCapabilities, ServerReport, ServerStatus, ServersToRun};
use innkeeper_core::request::Initialize;
use innkeeper_core::{
    AgentCommand, ChannelId, ClientId, Command, ConnId, CoreConfig, Effect, Failure, Input, McpCommand,
};
use serde_json::{Value, json};

use crate::customizations::{plugin, server};
use crate::harness::*;

mod app_turns;
mod apps;
mod lifecycle;
mod persisted_tokens;
mod side_channel;
mod signing_in;
mod waiting;

/// A host that runs MCP servers.
pub fn config() -> CoreConfig {
    CoreConfig {
        serves_customizations: true,
        serves_mcp: true,
        ..CoreConfig::default()
    }
}

/// One of the host's own, and one of a plugin.
pub fn two_servers() -> Value {
    json!([server("top"), plugin("p", &[server("inner")])])
}

pub fn ready() -> ServerStatus {
    ServerStatus::Ready { apps: None }
}

pub fn failed(message: &str) -> ServerStatus {
    ServerStatus::Failed(Failure::new("crashed", message))
}

/// Everything that an app may want.
pub fn all_apps() -> AppCapabilities {
    AppCapabilities {
        tools: Some(true),
        resources: Some(false),
        logging: true,
        sampling: Some(false),
    }
}

pub fn start(id: &str) -> Value {
    json!({ "type": "session/mcpServerStartRequested", "id": id })
}

pub fn stop(id: &str) -> Value {
    json!({ "type": "session/mcpServerStopRequested", "id": id })
}

pub fn background(id: &str) -> Value {
    json!({ "type": "session/mcpServerBackgroundRequested", "id": id })
}

impl Stage {
    /// A session with these customizations, and a client that listens to it and to its chat.
    pub fn serving(list: Value) -> (Self, ConnId, String) {
        Self::serving_with(config(), list)
    }

    pub fn serving_with(config: CoreConfig, list: Value) -> (Self, ConnId, String) {
        let mut stage = Self::able(config);
        let conn = stage.client("c", &[]);
        let chat = stage.session_in_workspace(conn, SESSION);
        stage.subscribe(conn, SESSION);
        stage.subscribe(conn, &chat);
        stage.found(SESSION, list);
        stage.inbox(conn);
        (stage, conn, chat)
    }

    /// The latest desired servers of a session, if any.
    pub fn wanted_servers(&self) -> Option<(ChannelId, ServersToRun)> {
        self.agent.iter().rev().find_map(|effect| match effect {
            Effect::Mcp(McpCommand::SetDesiredServers { session, wanted }) => Some((*session, (**wanted).clone())),
            _ => None,
        })
    }

    /// The ids of the servers that are to run.
    pub fn running(&self) -> Vec<String> {
        let wanted = self.wanted_servers().map(|(_, wanted)| wanted.servers);
        wanted.into_iter().flatten().map(|server| server.id).collect()
    }

    /// Which start of a server is the present one.
    pub fn attempt(&self, id: &str) -> u64 {
        let (_, wanted) = self.wanted_servers().expect("something is wanted");
        let server = wanted.servers.iter().find(|server| server.id == id);
        server.expect("it is to run").attempt
    }

    /// Reports what a server does.
    pub fn does(&mut self, id: &str, status: ServerStatus) {
        let attempt = self.attempt(id);
        self.reports(id, attempt, ServerReport::Status(status));
    }

    pub fn reports(&mut self, id: &str, attempt: u64, report: ServerReport) {
        let session = self.wanted_servers().expect("something is wanted").0;
        let id = id.to_owned();
        self.handle(Input::McpServer {
            session,
            id,
            attempt,
            report,
        });
    }

    /// A published server, at any position of the list.
    pub fn server(&self, id: &str) -> Value {
        let list = self.shown(SESSION);
        let entries = list.as_array().expect("customizations").iter();
        let all = entries.flat_map(|entry| {
            let children = entry["children"].as_array().map(Vec::as_slice).unwrap_or_default();
            std::iter::once(entry).chain(children)
        });
        let mut found = all.filter(|entry| entry["id"] == id);
        found.next().expect("the server is shown").clone()
    }

    /// The published state of a server.
    pub fn state_of(&self, id: &str) -> Value {
        self.server(id)["state"].clone()
    }

    /// A client that shows MCP Apps.
    pub fn app_client(&mut self, name: &str, channels: &[&str]) -> ConnId {
        let conn = self.connect();
        let answer = self.request(conn, app_client(name, channels));
        assert!(answer.get("error").is_none(), "{answer}");
        conn
    }

    /// How many turns were handed to an agent.
    pub fn handed_over(&self) -> usize {
        let started = |effect: &&Effect| matches!(effect, Effect::Agent(AgentCommand::StartTurn { .. }));
        self.agent.iter().filter(started).count()
    }
}

pub fn app_client(name: &str, channels: &[&str]) -> Command {
    Command::Initialize(Box::new(Initialize {
        offer: innkeeper_core::request::Offer::List(vec!["1.0.0".to_owned()]),
        client_id: ClientId::new(name),
        initial_subscriptions: channels.iter().map(|channel| (*channel).to_owned()).collect(),
        client_name: None,
        mcp_apps: true,
        locale: None,
    }))
}
