//! The servers of one session.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_host::mcp::{
    Arguments, CallOutcome, During, McpError, McpPrompt, McpResource, McpTool, PromptMessages, ResourcePart,
    ServerSink, ServerWish, SessionServers, SessionWants,
};
use innkeeper_std::sync::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::running::{Life, Running, Wanted};
use super::{Shared, words};
use crate::engine::auth::SignInReason;
use crate::engine::names::unique_names;
use crate::engine::state::ServerState;

pub(super) struct OneSession {
    shared: Arc<Shared>,
    sink: ServerSink,
    /// In the order in which they are wanted.
    servers: Mutex<Vec<Life>>,
    /// The start of each that the session had last, also of those that it does not have any more.
    attempts: Mutex<HashMap<String, u64>>,
}

impl OneSession {
    pub(super) fn new(shared: Arc<Shared>, sink: ServerSink) -> Self {
        Self {
            shared,
            sink,
            servers: Mutex::default(),
            attempts: Mutex::default(),
        }
    }

    /// A session that has a server from its beginning takes it as it is; another start of it is one that somebody
    /// asked for.
    fn why_wanted(&self, wish: &ServerWish) -> Wanted {
        let id = wish.declaration.about.id.clone();
        match self.attempts.lock().insert(id, wish.attempt) {
            Some(last) if last != wish.attempt => Wanted::Started,
            _ => Wanted::Along,
        }
    }

    fn find(&self, id: &str) -> Option<Arc<Running>> {
        let servers = self.servers.lock();
        let life = servers.iter().find(|life| life.running.id() == id);
        life.map(|life| Arc::clone(&life.running))
    }

    /// A server that is wanted. Its id is nothing that people know it by.
    fn wanted(&self, id: &str) -> Result<Arc<Running>, McpError> {
        self.find(id).ok_or_else(McpError::server_gone)
    }

    /// The start of a server that somebody means, if it is the present one.
    fn find_attempt(&self, id: &str, attempt: u64) -> Result<Arc<Running>, McpError> {
        let running = self.wanted(id)?;
        match running.wish.attempt == attempt {
            true => Ok(running),
            false => Err(McpError::no_server(running.name())),
        }
    }
}

/// Whether a server's tools can be called: also while it says that an App of somebody's wants more than it
/// grants to those who have not signed in (MCP-10).
fn can_be_called(state: &ServerState) -> bool {
    match state {
        ServerState::Ready => true,
        ServerState::AuthRequired(sign_in) => sign_in.reason == SignInReason::InsufficientScope,
        ServerState::Starting { .. } | ServerState::Error { .. } | ServerState::Stopped => false,
    }
}

#[async_trait]
impl SessionServers for OneSession {
    fn want(&self, wanted: SessionWants) {
        let mut servers = self.servers.lock();
        let mut before: Vec<Life> = std::mem::take(&mut *servers);
        for wish in wanted.servers {
            let is_same = |life: &Life| life.running.wish == wish && life.running.moves_to(&self.shared, &wanted.roots);
            let kept = before.iter().position(is_same).map(|index| before.swap_remove(index));
            servers.push(kept.unwrap_or_else(|| {
                // One that is replaced lets go of its server before the new one asks for it.
                before.retain(|life| life.running.id() != wish.declaration.about.id);
                let why = self.why_wanted(&wish);
                let running = Running::new(wish, why, &wanted.session, wanted.roots.clone());
                self.shared.note(&running);
                Life::begin(running, Arc::clone(&self.shared), self.sink.clone())
            }));
        }
    }

    fn tools(&self) -> Vec<McpTool> {
        let running: Vec<Arc<Running>> = self
            .servers
            .lock()
            .iter()
            .map(|life| Arc::clone(&life.running))
            .collect();
        let mut tools = Vec::new();
        for running in &running {
            let Some(lease) = running.lease().filter(|lease| can_be_called(&lease.state())) else {
                continue;
            };
            tools.extend(
                lease
                    .tools()
                    .iter()
                    .map(|tool| words::tool(tool, &running.wish.declaration)),
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
        during: &dyn During,
    ) -> Result<CallOutcome, McpError> {
        let running = self.wanted(server)?;
        super::calls::call(&running, tool, arguments, during, &self.shared.tokens).await
    }

    async fn prompts(&self, server: &str) -> Vec<McpPrompt> {
        match self.find(server) {
            Some(running) => super::offers::prompts(&running).await,
            None => Vec::new(),
        }
    }

    async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Map<String, Value>,
    ) -> Result<PromptMessages, McpError> {
        let running = self.wanted(server)?;
        super::offers::fill_in(&running, prompt, arguments).await
    }

    async fn resources(&self, server: &str) -> Vec<McpResource> {
        match self.find(server) {
            Some(running) => super::offers::resources(&running).await,
            None => Vec::new(),
        }
    }

    async fn read_resource(&self, server: &str, uri: &str) -> Result<Vec<ResourcePart>, McpError> {
        let running = self.wanted(server)?;
        super::offers::read(&running, uri).await
    }

    async fn app_request(
        &self,
        server: &str,
        attempt: u64,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<Value, McpError> {
        let running = self.find_attempt(server, attempt)?;
        let lease = running.lease().ok_or_else(|| McpError::no_server(running.name()))?;
        let allowed = words::allowed(words::apps(&lease));
        let _room = running.apps.room_for(running.name(), &params)?;
        tokio::select! {
            () = lease.gone.cancelled() => Err(running.was_stopped()),
            passed = lease.pass(allowed, Some(running.session()), method, Some(params), CancellationToken::new()) => {
                passed.map_err(words::error)
            }
        }
    }

    fn app_notification(&self, server: &str, attempt: u64, method: &str, params: Map<String, Value>) {
        if let Ok(running) = self.find_attempt(server, attempt) {
            running.apps.tell(running.name(), method, params);
        }
    }
}
