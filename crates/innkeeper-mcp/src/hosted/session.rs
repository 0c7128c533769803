//! The servers of one session.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_host::mcp::{
    Arguments, CallHandler, CallOutcome, DesiredServer, DesiredServers, McpError, McpPrompt, McpResource, McpTool,
    PromptMessages, ResourcePart, ServerSink, SessionServers,
};
use innkeeper_std::sync::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::session_server::{ServerTask, SessionServer, StartReason};
use super::{RunnerShared, convert};
use crate::engine::auth::SignInReason;
use crate::engine::names::unique_names;
use crate::engine::state::ServerState;

pub(super) struct HostedSession {
    shared: Arc<RunnerShared>,
    sink: ServerSink,
    /// In the order of the declarations.
    servers: Mutex<Vec<ServerTask>>,
    /// The last start attempt of each server, also of servers that the session does not have any more.
    attempts: Mutex<HashMap<String, u64>>,
}

impl HostedSession {
    pub(super) fn new(shared: Arc<RunnerShared>, sink: ServerSink) -> Self {
        Self {
            shared,
            sink,
            servers: Mutex::default(),
            attempts: Mutex::default(),
        }
    }

    /// Returns why a server starts. A server that a session has from its beginning is taken as it is; another attempt means
    /// that a user asked for a start.
    fn start_reason(&self, wish: &DesiredServer) -> StartReason {
        let id = wish.declaration.about.id.clone();
        match self.attempts.lock().insert(id, wish.attempt) {
            Some(last) if last != wish.attempt => StartReason::Requested,
            _ => StartReason::SessionOpened,
        }
    }

    fn find(&self, id: &str) -> Option<Arc<SessionServer>> {
        let servers = self.servers.lock();
        let task = servers.iter().find(|task| task.server.id() == id);
        task.map(|task| Arc::clone(&task.server))
    }

    /// Returns a server that the session wants. Its id means nothing to users.
    fn desired_server(&self, id: &str) -> Result<Arc<SessionServer>, McpError> {
        self.find(id).ok_or_else(McpError::server_gone)
    }

    /// Returns a server if `attempt` is its present start.
    fn find_attempt(&self, id: &str, attempt: u64) -> Result<Arc<SessionServer>, McpError> {
        let server = self.desired_server(id)?;
        match server.wish.attempt == attempt {
            true => Ok(server),
            false => Err(McpError::no_server(server.name())),
        }
    }
}

/// Returns true if the tools of a server can be called. They can while it reports that an app wants more than it grants
/// without a sign-in (MCP-10).
fn can_be_called(state: &ServerState) -> bool {
    match state {
        ServerState::Ready => true,
        ServerState::AuthRequired(sign_in) => sign_in.reason == SignInReason::InsufficientScope,
        ServerState::Starting { .. } | ServerState::Error { .. } | ServerState::Stopped => false,
    }
}

#[async_trait]
impl SessionServers for HostedSession {
    fn want(&self, wanted: DesiredServers) {
        let mut servers = self.servers.lock();
        let mut before: Vec<ServerTask> = std::mem::take(&mut *servers);
        for wish in wanted.servers {
            let is_same =
                |task: &ServerTask| task.server.wish == wish && task.server.moves_to(&self.shared, &wanted.roots);
            let kept = before.iter().position(is_same).map(|index| before.swap_remove(index));
            servers.push(kept.unwrap_or_else(|| {
                // A replaced server gives its share back before the new one takes one.
                before.retain(|task| task.server.id() != wish.declaration.about.id);
                let reason = self.start_reason(&wish);
                let server = SessionServer::new(wish, reason, &wanted.session, wanted.roots.clone());
                self.shared.note(&server);
                ServerTask::begin(server, Arc::clone(&self.shared), self.sink.clone())
            }));
        }
    }

    fn tools(&self) -> Vec<McpTool> {
        let servers: Vec<Arc<SessionServer>> = self
            .servers
            .lock()
            .iter()
            .map(|task| Arc::clone(&task.server))
            .collect();
        let mut tools = Vec::new();
        for server in &servers {
            let Some(lease) = server.lease().filter(|lease| can_be_called(&lease.state())) else {
                continue;
            };
            tools.extend(
                lease
                    .tools()
                    .iter()
                    .map(|tool| convert::tool(tool, &server.wish.declaration)),
            );
        }
        let names = unique_names(tools.iter().map(|tool| (tool.server_name.as_str(), tool.tool.as_str())));
        for (tool, name) in tools.iter_mut().zip(names) {
            tool.name = name;
        }
        tools
    }

    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Arguments,
        during: &dyn CallHandler,
    ) -> Result<CallOutcome, McpError> {
        let server = self.desired_server(server)?;
        super::calls::call(&server, tool, arguments, during, &self.shared.tokens).await
    }

    async fn prompts(&self, server: &str) -> Vec<McpPrompt> {
        match self.find(server) {
            Some(server) => super::prompts_and_resources::prompts(&server).await,
            None => Vec::new(),
        }
    }

    async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Map<String, Value>,
    ) -> Result<PromptMessages, McpError> {
        let server = self.desired_server(server)?;
        super::prompts_and_resources::fill_in(&server, prompt, arguments).await
    }

    async fn resources(&self, server: &str) -> Vec<McpResource> {
        match self.find(server) {
            Some(server) => super::prompts_and_resources::resources(&server).await,
            None => Vec::new(),
        }
    }

    async fn read_resource(&self, server: &str, uri: &str) -> Result<Vec<ResourcePart>, McpError> {
        let server = self.desired_server(server)?;
        super::prompts_and_resources::read(&server, uri).await
    }

    async fn app_request(
        &self,
        server: &str,
        attempt: u64,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<Value, McpError> {
        let server = self.find_attempt(server, attempt)?;
        let lease = server.lease().ok_or_else(|| McpError::no_server(server.name()))?;
        let allowed = convert::allowed(convert::apps(&lease));
        let _room = server.apps.room_for(server.name(), &params)?;
        tokio::select! {
            () = lease.gone.cancelled() => Err(server.was_stopped()),
            passed = lease.pass(allowed, Some(server.session()), method, Some(params), CancellationToken::new()) => {
                passed.map_err(convert::error)
            }
        }
    }

    fn app_notification(&self, server: &str, attempt: u64, method: &str, params: Map<String, Value>) {
        if let Ok(server) = self.find_attempt(server, attempt) {
            server.apps.tell(server.name(), method, params);
        }
    }
}
