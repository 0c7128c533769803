//! MCP servers: the trait that runs them, and the handles that agents get.
//!
//! The core decides which servers a session wants: those that are enabled and that no user stopped. The host looks up
//! how each is started ([`ServerDeclaration`], which discovery reports in the
//! [`CustomizationSet`](crate::services::customizations::CustomizationSet)) and hands both to an implementation of
//! [`McpServers`]. Their status is reported through [`ServerSink`] and shown to clients; agents call their tools
//! through [`Mcp`] and [`McpCall`].

pub(crate) mod app_requests;
mod app_sampling;
mod arguments;
pub(crate) mod bounds;
mod call;
mod content;
mod declaration;
pub(crate) mod effects;
mod elicit;
mod offers;
pub(crate) mod prompts;
mod resource_requests;
mod sampling;
mod server_status;
mod session;
mod tool;
mod trust;
mod visible;

use std::fmt;
use std::sync::Arc;

pub(crate) use app_sampling::{AppRequest, AppRequests, CREATE_MESSAGE, Written as AppWritten};
pub use arguments::{Arguments, compact, numbers_fit};
use async_trait::async_trait;
use bounds::Written;
pub use call::{McpCall, McpDraft};
pub use declaration::{Permission, Remote, ServerDeclaration, StartPermission, Transport};
use futures_util::future::BoxFuture;
pub use innkeeper_core::agent::{AuthReason, Failure};
pub use innkeeper_core::mcp::{
    AppCapabilities, ClientAuth, ServerFacts, ServerIcon, ServerList, ServerReport, ServerStatus, ServerToken,
    StoredTokenInfo, TokenChange, TokenRefresh,
};
use innkeeper_core::{ChannelId, Input};
use innkeeper_std::sync::Mutex;
pub(crate) use offers::MAX_ARGUMENTS;
pub use offers::{
    McpPrompt, McpPromptArgument, McpResource, PartData, PromptContent, PromptMessage, PromptMessages, ResourcePart,
    display_line,
};
pub use sampling::{Sampler, SamplingMessage, SamplingPart, SamplingRequest, SamplingResult, SamplingStop};
use serde_json::{Map, Value};
pub(crate) use server_status::ReportedStatuses;
pub use server_status::ServerStatusText;
pub use session::Mcp;
pub(crate) use session::SessionLink;
use tokio::sync::mpsc;
use tokio::time::Instant;
pub use tool::{CallHandler, CallOutcome, Hints, McpError, McpTool, Question, QuestionAnswer, ServerTool};
pub(crate) use trust::{Asking, TrustTimeouts};
pub use trust::{NOT_TRUSTED, Trust, TrustDecision, TrustQuestion};
pub use visible::defused;

use crate::main_loop::Message;

/// Runs MCP servers.
///
/// Servers may be shared between sessions, as far as their declaration and the identity that they run
/// under allow: nothing here says how many processes there are.
pub trait McpServers: Send + Sync + 'static {
    /// Whether it runs any at all.
    fn serves(&self) -> bool {
        true
    }

    /// Prepares to run servers for a session. Nothing runs until [`SessionServers::want`] names it, and everything ends
    /// when the returned handle is dropped.
    fn open(&self, sink: ServerSink) -> Arc<dyn SessionServers>;

    /// Gives every server of a resource a token, now and later, or removes it. A server or a call that waits for a
    /// token continues by itself. Tokens are never shown, stored unencrypted or logged (AUTH-12).
    ///
    /// All of that happens at once. The returned future ends when the token is persisted, or cannot be: no client is
    /// answered before. It need not be waited for.
    fn set_token(&self, resource: &str, change: TokenChange) -> BoxFuture<'static, ()>;

    /// Returns whether tokens are persisted beyond their client and the host. They are persisted encrypted, or not at
    /// all (T23).
    fn keeps_tokens(&self) -> bool {
        false
    }

    /// Sets the sink for tokens that could not be refreshed. Called once, when the host starts.
    fn tell_lost_tokens(&self, sink: TokenSink) {
        let _ = sink;
    }

    /// Returns the tokens that were persisted before this host started, without their secrets, so that users can
    /// replace and revoke them.
    fn stored_tokens(&self) -> Vec<StoredTokenInfo> {
        Vec::new()
    }
}

/// The servers of one session.
#[async_trait]
pub trait SessionServers: Send + Sync + 'static {
    /// From now on exactly these are to run. Returns at once; what becomes of them is reported. A server
    /// with another attempt than before starts anew, and reports say which attempt they are about. One
    /// that is not named any more ends, and its calls fail.
    fn want(&self, wanted: DesiredServers);

    /// The tools of everything that is ready, with names that are unique among them, in the order in which
    /// the servers are wanted.
    fn tools(&self) -> Vec<McpTool>;

    /// Calls a tool by its server's name for it. Dropping the future cancels the call, and the server is
    /// told.
    ///
    /// # Errors
    ///
    /// When there is no result. A tool that says that it failed has one.
    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Arguments,
        during: &dyn CallHandler,
    ) -> Result<CallOutcome, McpError>;

    /// Returns the prompts of a server, without the names that users type. Waits only while they are fetched: it is
    /// called on every few keystrokes. A server that is not ready has none.
    async fn prompts(&self, server: &str) -> Vec<McpPrompt> {
        let _ = server;
        Vec::new()
    }

    /// Fills in a prompt by its server's name for it.
    ///
    /// # Errors
    ///
    /// The error of the server, or the reason why it did not answer.
    async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Map<String, Value>,
    ) -> Result<PromptMessages, McpError> {
        let _ = (server, prompt, arguments);
        Err(McpError::server_gone())
    }

    /// Returns the resources of a server. Waits only while the list is fetched, as with prompts.
    async fn resources(&self, server: &str) -> Vec<McpResource> {
        let _ = server;
        Vec::new()
    }

    /// Reads a resource by its server's URI for it.
    ///
    /// # Errors
    ///
    /// The error of the server, or the reason why it did not answer.
    async fn read_resource(&self, server: &str, uri: &str) -> Result<Vec<ResourcePart>, McpError> {
        let _ = (server, uri);
        Err(McpError::server_gone())
    }

    /// Passes a request of a client's app on to a server (MCP-16): one of the methods that the server was
    /// reported to serve, as far as its tools are for apps. `attempt` is the start that the client means.
    ///
    /// # Errors
    ///
    /// The error of the server, or the reason why it did not answer.
    async fn app_request(
        &self,
        server: &str,
        attempt: u64,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<Value, McpError>;

    /// Passes a notification on, likewise.
    fn app_notification(&self, server: &str, attempt: u64, method: &str, params: Map<String, Value>);
}

/// The servers that a session wants.
#[derive(Debug, Clone, Default)]
pub struct DesiredServers {
    /// The session's URI.
    pub session: Arc<str>,
    /// Its working directories, as URIs: the roots for servers that ask for them.
    pub roots: Vec<String>,
    /// The servers that are to run.
    pub servers: Vec<DesiredServer>,
}

impl Default for DesiredServer {
    fn default() -> Self {
        Self {
            attempt: 0,
            declaration: Arc::new(ServerDeclaration::default()),
        }
    }
}

/// A server that is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredServer {
    /// Which of its starts it is.
    pub attempt: u64,
    /// How it is started.
    pub declaration: Arc<ServerDeclaration>,
}

/// Receives the reports on the servers of a session.
#[derive(Clone)]
pub struct ServerSink {
    session: ChannelId,
    inbox: mpsc::WeakSender<Message>,
    written: Arc<Mutex<Written>>,
    reported: ReportedStatuses,
}

impl ServerSink {
    pub(crate) fn new(session: ChannelId, inbox: mpsc::WeakSender<Message>) -> Self {
        Self {
            session,
            inbox,
            written: Arc::default(),
            reported: ReportedStatuses::default(),
        }
    }

    /// Returns the last reported statuses, for agents.
    pub(crate) fn reported(&self) -> ReportedStatuses {
        self.reported.clone()
    }

    /// Reports the outcome of a start of a server. Waits while the host is busy; `false` means that the host is gone.
    /// Log output of the server is limited to an amount that a user can read.
    pub async fn report(&self, server: &str, attempt: u64, report: ServerReport) -> bool {
        let Some(inbox) = self.inbox.upgrade() else {
            return false;
        };
        let passed = {
            let mut written = self.written.lock();
            written.pass(server, report, Instant::now())
        };
        for report in passed {
            if let ServerReport::Status(status) = &report {
                self.reported.note(server, attempt, status);
            }
            let report = Input::McpServer {
                session: self.session,
                id: server.to_owned(),
                attempt,
                report,
            };
            if inbox.send(Message::Core(report)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Reports what a server does.
    pub async fn status(&self, server: &str, attempt: u64, status: ServerStatus) -> bool {
        self.report(server, attempt, ServerReport::Status(status)).await
    }
}

impl fmt::Debug for ServerSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSink")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// Receives the reports on lost tokens of servers.
#[derive(Clone)]
pub struct TokenSink {
    inbox: mpsc::WeakSender<Message>,
}

impl TokenSink {
    pub(crate) fn new(inbox: mpsc::WeakSender<Message>) -> Self {
        Self { inbox }
    }

    /// Reports that a token was dropped because it could not be renewed, so that clients see that it is missing. Waits
    /// while the host is busy; `false` means that the host is gone.
    pub async fn lost(&self, resource: &str, number: u64) -> bool {
        let Some(inbox) = self.inbox.upgrade() else {
            return false;
        };
        let lost = Input::McpTokenLost {
            resource: resource.to_owned(),
            number,
        };
        inbox.send(Message::Core(lost)).await.is_ok()
    }
}

impl fmt::Debug for TokenSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSink")
    }
}

/// A host without MCP servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMcpServers;

impl McpServers for NoMcpServers {
    fn serves(&self) -> bool {
        false
    }

    fn open(&self, _: ServerSink) -> Arc<dyn SessionServers> {
        Arc::new(Self)
    }

    fn set_token(&self, _: &str, _: TokenChange) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[async_trait]
impl SessionServers for NoMcpServers {
    fn want(&self, _: DesiredServers) {}

    fn tools(&self) -> Vec<McpTool> {
        Vec::new()
    }

    async fn call(&self, _: &str, _: &str, _: Arguments, _: &dyn CallHandler) -> Result<CallOutcome, McpError> {
        Err(McpError::server_gone())
    }

    async fn app_request(&self, _: &str, _: u64, _: &str, _: Map<String, Value>) -> Result<Value, McpError> {
        Err(McpError::server_gone())
    }

    fn app_notification(&self, _: &str, _: u64, _: &str, _: Map<String, Value>) {}
}
