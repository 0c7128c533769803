//! What agents get of the servers of a session.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value};

use super::{CallOutcome, During, McpError, McpTool, SessionServers};

/// The MCP servers of a session. Cheap to clone, and always up to date: a tool that its server takes
/// away in the middle of a turn is gone.
#[derive(Clone, Default)]
pub struct Mcp {
    link: Option<Arc<SessionLink>>,
}

impl Mcp {
    pub(crate) fn new(link: Arc<SessionLink>) -> Self {
        Self { link: Some(link) }
    }

    /// The tools that models may use right now. Their names are unique among themselves; an agent with a
    /// tool of the same name keeps its own. Call one with
    /// [`EventSink::mcp_tool`](crate::EventSink::mcp_tool).
    pub fn tools(&self) -> Vec<McpTool> {
        let Some(link) = &self.link else {
            return Vec::new();
        };
        let wanted = link.wanted.read().unwrap_or_else(PoisonError::into_inner).clone();
        let tools = link.servers.tools().into_iter();
        tools
            .filter(|tool| tool.is_for_models() && wanted.contains(&tool.server))
            .collect()
    }

    /// The tool with a name for models.
    pub fn tool(&self, name: &str) -> Option<McpTool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    pub(super) async fn call(
        &self,
        tool: &McpTool,
        arguments: Map<String, Value>,
        during: &dyn During,
    ) -> Result<CallOutcome, McpError> {
        match self.link.as_ref().filter(|link| link.wants(&tool.server)) {
            Some(link) => link.servers.call(&tool.server, &tool.tool, arguments, during).await,
            None => Err(McpError::no_server(&tool.server_name)),
        }
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<String> = self.tools().into_iter().map(|tool| tool.name).collect();
        f.debug_struct("Mcp").field("tools", &tools).finish()
    }
}

/// The servers of a session, and which of them are wanted: what agents see ends when people want it to.
pub(crate) struct SessionLink {
    pub(crate) servers: Arc<dyn SessionServers>,
    wanted: RwLock<Arc<[String]>>,
}

impl SessionLink {
    pub(crate) fn new(servers: Arc<dyn SessionServers>) -> Arc<Self> {
        Arc::new(Self {
            servers,
            wanted: RwLock::default(),
        })
    }

    pub(crate) fn set_wanted(&self, ids: Arc<[String]>) {
        *self.wanted.write().unwrap_or_else(PoisonError::into_inner) = ids;
    }

    fn wants(&self, server: &str) -> bool {
        let wanted = self.wanted.read().unwrap_or_else(PoisonError::into_inner);
        wanted.iter().any(|id| id == server)
    }
}
