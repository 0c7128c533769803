//! The handles that agents get for the MCP servers of a session.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use innkeeper_core::resources::MCP_RESOURCES;
use innkeeper_std::sync::{Mutex, MutexGuard, RwLock};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::content::Listed;
use super::sampling::{APP_SAMPLES, Samples};
use super::{
    Arguments, Asking, CallHandler, CallOutcome, DesiredServer, McpError, McpPrompt, McpResource, McpTool,
    PromptMessages, ReportedStatuses, SessionServers, offers,
};
use crate::agent::ToolContent;
use crate::services::contents::SessionContents;
use crate::services::resources::Content;

/// How long a server may take to say what it lists, when a result links to it: the result waits for that.
const LIST_TIME: Duration = Duration::from_secs(5);
/// How many bytes of a digest name a resource.
const DIGEST_BYTES: usize = 18;

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
        let wanted = link.wanted();
        let tools = link.servers.tools().into_iter();
        tools
            .filter(|tool| tool.is_for_models() && wanted.contains(&tool.server))
            .collect()
    }

    /// Returns the tools that cannot be called because they need tasks of MCP. They are listed for users and not for
    /// models.
    pub fn task_tools(&self) -> Vec<McpTool> {
        let Some(link) = &self.link else {
            return Vec::new();
        };
        let wanted = link.wanted();
        let tools = link.servers.tools().into_iter();
        tools
            .filter(|tool| tool.needs_task && wanted.contains(&tool.server))
            .collect()
    }

    /// The tool with a name for models.
    pub fn tool(&self, name: &str) -> Option<McpTool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    /// Returns the prompts of a server, without the names that users type; none if it does not run.
    pub(crate) async fn prompts(&self, server: &str) -> Vec<McpPrompt> {
        let Some(link) = self.wanting(server) else {
            return Vec::new();
        };
        let prompts = link.servers.prompts(server).await;
        // A server that was disabled meanwhile has no prompts.
        if link.wants(server) { prompts } else { Vec::new() }
    }

    /// Fills in a prompt.
    ///
    /// # Errors
    ///
    /// The error of the server, or the reason why it did not answer.
    pub async fn prompt(&self, prompt: &McpPrompt, arguments: Map<String, Value>) -> Result<PromptMessages, McpError> {
        match self.wanting(&prompt.server) {
            Some(link) => link.servers.prompt(&prompt.server, &prompt.prompt, arguments).await,
            None => Err(McpError::no_server(&prompt.server_name)),
        }
    }

    /// Returns the resources of the running servers. Servers that do not answer in time are left out.
    pub async fn resources(&self, timeout: Duration) -> Vec<McpResource> {
        let Some(link) = &self.link else {
            return Vec::new();
        };
        let wanted = link.wanted();
        let lists = wanted.iter().map(|server| async move {
            let listed = tokio::time::timeout(timeout, link.servers.resources(server)).await;
            listed.unwrap_or_default()
        });
        let lists = futures_util::future::join_all(lists).await;
        let mut all: Vec<McpResource> = lists.into_iter().flatten().collect();
        let mut seen = HashSet::new();
        all.retain(|resource| {
            let is_new = seen.insert((resource.server.clone(), resource.uri.clone()));
            is_new && link.wants(&resource.server)
        });
        all
    }

    /// Reads a resource of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// The error of the server, or the reason why it did not answer.
    pub async fn read(&self, resource: &McpResource, most: usize) -> Result<Content, McpError> {
        match self.wanting(&resource.server) {
            Some(link) => {
                let parts = link.servers.read_resource(&resource.server, &resource.uri).await?;
                offers::content(parts, most)
            }
            None => Err(McpError::no_server(&resource.server_name)),
        }
    }

    /// Returns the URI under which this host serves a resource. It reveals nothing about the resource, is valid in one
    /// session only, and resolves only to resources that the server lists at that time: so no client can make a server
    /// read something that it does not offer, or pass a server's URI off as a file of this machine.
    pub fn resource_uri(&self, resource: &McpResource) -> String {
        let session = self.link.as_ref().map(|link| &*link.session).unwrap_or_default();
        resource_uri(session, resource)
    }

    /// Returns the listed resources that a result links to, by the server's own URIs.
    pub(super) async fn listed(&self, server: &str, outcome: &CallOutcome) -> HashMap<String, Listed> {
        let links = outcome.content.iter().filter_map(|piece| match piece {
            ToolContent::Resource { uri, .. } => Some(uri.as_str()),
            _ => None,
        });
        let links: HashSet<&str> = links.collect();
        let Some(link) = self.wanting(server).filter(|_| !links.is_empty()) else {
            return HashMap::new();
        };
        let resources = tokio::time::timeout(LIST_TIME, link.servers.resources(server)).await;
        let resources = resources.unwrap_or_default().into_iter();
        let linked = resources.filter(|resource| links.contains(resource.uri.as_str()));
        let linked = linked.map(|resource| {
            let uri = resource_uri(&link.session, &resource);
            let listed = Listed {
                uri,
                content_type: resource.content_type,
                size: resource.size,
            };
            (resource.uri, listed)
        });
        linked.collect()
    }

    /// The resource that such a URI stands for, if a server of the session offers it now.
    pub(crate) async fn find_resource(&self, uri: &str) -> Option<McpResource> {
        let link = self.link.as_ref()?;
        let wanted = link.wanted();
        // No slow server keeps from finding what another one offers.
        let mut lists: FuturesUnordered<_> = wanted.iter().map(|server| link.servers.resources(server)).collect();
        while let Some(listed) = lists.next().await {
            let mut listed = listed.into_iter();
            let found = listed.find(|resource| resource_uri(&link.session, resource) == uri);
            if let Some(found) = found.filter(|resource| link.wants(&resource.server)) {
                return Some(found);
            }
        }
        None
    }

    /// Reads what such a URI stands for.
    ///
    /// # Errors
    ///
    /// In a sentence, when it is gone or its server does not answer.
    pub(crate) async fn read_uri(&self, uri: &str, most: usize) -> Result<Content, McpError> {
        let Some(resource) = self.find_resource(uri).await else {
            return Err(McpError::new(
                "no MCP server that runs in this session offers it any more; start its server, or attach something else",
            ));
        };
        let content = self.read(&resource, most).await?;
        Ok(Content {
            content_type: content.content_type.or(resource.content_type),
            ..content
        })
    }

    /// Returns the last reported status of a server, if it is to run at all.
    pub(crate) fn standing(&self, server: &str) -> Option<super::ServerStatusText> {
        let link = self.wanting(server)?;
        Some(link.reported.of(server))
    }

    /// The part that the turns of the session share.
    pub(super) fn link(&self) -> Option<Arc<SessionLink>> {
        self.link.clone()
    }

    fn wanting(&self, server: &str) -> Option<&Arc<SessionLink>> {
        self.link.as_ref().filter(|link| link.wants(server))
    }

    /// Whether users let a server, or its apps, ask the model without asking them.
    pub(super) fn may_sample(&self, server: &str, who: Samples) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| {
            let mut allowed = link.may_sample();
            let key = (server.to_owned(), who);
            let Some(left) = allowed.get_mut(&key) else {
                return false;
            };
            if who == Samples::App {
                *left -= 1;
            }
            if *left == 0 {
                allowed.remove(&key);
            }
            true
        })
    }

    /// A user declined a request of an app of a server.
    pub(super) fn decline(&self, server: &str) {
        if let Some(link) = &self.link {
            let mut declined = link.declined.lock();
            declined.insert(server.to_owned(), Instant::now());
        }
    }

    /// Whether a user did so within this time.
    pub(super) fn was_declined(&self, server: &str, time: Duration) -> bool {
        self.link.as_ref().is_some_and(|link| {
            let declined = link.declined.lock();
            declined.get(server).is_some_and(|at| at.elapsed() < time)
        })
    }

    /// Users let a server, or its apps, ask the model from now on.
    pub(super) fn let_sample(&self, server: &str, who: Samples) {
        if let Some(link) = self.link.as_ref().filter(|link| link.wants(server)) {
            let times = match who {
                Samples::Server => u32::MAX,
                Samples::App => APP_SAMPLES,
            };
            link.may_sample().insert((server.to_owned(), who), times);
        }
    }

    /// Where what is too large for a turn is kept.
    pub(super) fn contents(&self) -> Option<&SessionContents> {
        self.link.as_ref().map(|link| &link.contents)
    }

    pub(super) async fn call(
        &self,
        tool: &McpTool,
        arguments: Arguments,
        during: &dyn CallHandler,
    ) -> Result<CallOutcome, McpError> {
        match self.wanting(&tool.server) {
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

fn resource_uri(session: &str, resource: &McpResource) -> String {
    let parts = [session, &resource.server, &resource.uri];
    let digest = parts.iter().fold(Sha256::new(), |digest, part| {
        // With their lengths, so that no two can be cut differently and be the same.
        digest.chain_update(part.len().to_le_bytes()).chain_update(part)
    });
    let digest = digest.finalize();
    let digest = digest.get(..DIGEST_BYTES).unwrap_or_default();
    format!("{MCP_RESOURCES}/{}", URL_SAFE_NO_PAD.encode(digest))
}

/// The servers of a session, and which of them are desired: an agent loses a server as soon as a user disables it.
pub(crate) struct SessionLink {
    pub(crate) servers: Arc<dyn SessionServers>,
    /// The session's URI.
    session: Arc<str>,
    reported: ReportedStatuses,
    /// The blobs of results that are too large for a turn.
    contents: SessionContents,
    wanted: RwLock<Arc<[String]>>,
    /// The servers and apps whose sampling a user allowed for the session, and the number of their requests. Dropped
    /// with the session's servers.
    may_sample: Mutex<HashMap<(String, Samples), u32>>,
    /// When a user last declined a request of an app, by server.
    declined: Mutex<HashMap<String, Instant>>,
    /// The questions about servers that wait for a decision.
    pub(super) asking: Asking,
}

impl SessionLink {
    pub(crate) fn new(
        servers: Arc<dyn SessionServers>,
        session: Arc<str>,
        reported: ReportedStatuses,
        contents: SessionContents,
    ) -> Arc<Self> {
        Arc::new(Self {
            servers,
            session,
            reported,
            contents,
            wanted: RwLock::default(),
            may_sample: Mutex::default(),
            declined: Mutex::default(),
            asking: Asking::default(),
        })
    }

    pub(crate) fn set_wanted(&self, ids: Arc<[String]>) {
        *self.wanted.write() = ids;
    }

    fn wanted(&self) -> Arc<[String]> {
        Arc::clone(&self.wanted.read())
    }

    /// Drops the approvals of restarted servers: the new process may be another program.
    pub(crate) fn forget_changed(&self, before: &[DesiredServer], wishes: &[DesiredServer]) {
        self.may_sample().retain(|(id, _), _| {
            let of = |wishes: &[DesiredServer]| wishes.iter().find(|wish| wish.declaration.about.id == *id).cloned();
            of(wishes).is_some_and(|wish| of(before).as_ref() == Some(&wish))
        });
    }

    /// The start of a server that waits until users allow it, if it does.
    pub(super) fn untrusted(&self, server: &str) -> Option<u64> {
        self.reported.untrusted(server).filter(|_| self.wants(server))
    }

    /// Completes when none of these servers waits for a decision or starts.
    pub(super) async fn started(&self, servers: &[String]) {
        self.reported.started(servers).await;
    }

    fn may_sample(&self) -> MutexGuard<'_, HashMap<(String, Samples), u32>> {
        self.may_sample.lock()
    }

    fn wants(&self, server: &str) -> bool {
        let wanted = self.wanted.read();
        wanted.iter().any(|id| id == server)
    }
}
