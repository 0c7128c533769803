//! One server: a handle for its users, and one task that owns it.
//!
//! `actor.rs` is the task: start, ready, crash, restart. `connect.rs` opens a connection, and `handshake.rs` has the server
//! introduce itself. `connection.rs` sends one request, and `request.rs` waits for sign-ins and answers questions that a
//! request needs. `client_handler.rs` handles the messages of the server, `follow.rs` fetches changed lists, and
//! `presence.rs` notices when a server behind an address is gone.

mod actor;
mod calls;
mod client_handler;
mod connect;
mod connection;
mod follow;
mod handshake;
mod levels;
mod log;
mod presence;
mod request;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

use self::actor::{Actor, Command};
pub(crate) use self::calls::CallContext;
pub use self::calls::{Progress, ProgressSink};

pub use self::client_handler::Offer;
pub(crate) use self::connection::{AttemptFailure, Connection, Request};
use self::levels::LogLevels;
pub(crate) use self::log::{HostLog, StandardError};
use crate::engine::ask::{AskSink, QuestionHandler, Root};
use crate::engine::auth::{
    Credentials, Metadata, Renew, SignIn, SignInReason, TokenHistory, bounded_scopes, bounded_text, canonical_resource,
    is_itself,
};
use crate::engine::config::{BaseEnvironment, Remote, ServerConfig, Transport};
use crate::engine::error::{ConfigError, WrongResource};
use crate::engine::offered_lists::OfferedLists;
use crate::engine::secret::{Scrubber, Token};
use crate::engine::state::{Event, EventSender, Events, ServerInfo, ServerState};
use crate::engine::tools::Tool;
use crate::engine::wire;

/// The environment that a server gets from its host.
#[derive(Clone, Debug, Default)]
pub struct ServerEnv {
    /// The environment variables that processes start with.
    pub environment: BaseEnvironment,
    /// The capabilities that the server is told of.
    pub offer: Offer,
    /// Takes questions that no call takes itself. Without it they are declined.
    pub asks: Option<AskSink>,
    /// The directories that the server may work in.
    pub roots: Vec<Root>,
    /// Processes that have to end before the first start, with a timeout.
    pub after: Vec<CancellationToken>,
    /// Checked before every start, also after a crash. Without it the server may always start.
    pub permit: Option<Permit>,
    /// Permits for processes that start at the same time. Without it the start does not wait.
    pub starting: Option<Arc<Semaphore>>,
    /// Asked for another token when the server does not accept its token any more, before users are.
    pub renew: Option<Renew>,
}

/// Decides whether a server may start, and if not, why not.
#[derive(Clone)]
pub struct Permit(Arc<dyn Fn() -> Result<(), String> + Send + Sync>);

impl Permit {
    /// Wraps a function, which may read files and block.
    pub fn new(check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    /// Runs the check on a thread that may block.
    async fn check(&self) -> Result<(), String> {
        let check = Arc::clone(&self.0);
        let checked = tokio::task::spawn_blocking(move || check()).await;
        checked.unwrap_or_else(|_| Err("it could not be found out whether it may start; the log says more".to_owned()))
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

/// A server. Clones are handles to the same one; it ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<ServerShared>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Server {
    /// Prepares a server without starting it. Must be called within a Tokio runtime.
    pub fn new(config: ServerConfig, server_env: ServerEnv) -> Result<Self, ConfigError> {
        let shared = Arc::new(ServerShared::new(config, server_env)?);
        // Bounded by its users: each waits for its command, or sends it once.
        let (commands, receiver) = mpsc::unbounded_channel();
        tokio::spawn(Actor::new(shared.clone(), receiver).run());
        Ok(Self { shared, commands })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.shared.config
    }

    /// Starts the server, unless it runs. The state shows the result (MCP-04).
    pub fn start(&self, start: Start) {
        self.send(Command::Start(start));
    }

    /// Starts the server for another user, unless it was started before. A failed server keeps its delays, or stays as it
    /// is, until a user asks for a start (F3).
    pub fn join(&self) {
        self.send(Command::Join);
    }

    /// Restarts the server, whatever state it is in. Earlier crashes are forgotten.
    pub fn restart(&self, start: Start) {
        self.send(Command::Restart(start));
    }

    /// Makes a blocking start a background start (MCP-06).
    pub fn background(&self) {
        self.send(Command::Background);
    }

    /// Stops the server with everything that it started, and waits until it is gone. Calls that are under way fail.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        self.send(Command::Stop(done));
        let _ = stopped.await;
    }

    /// Returns the state.
    pub fn state(&self) -> ServerState {
        self.shared.state.borrow().clone()
    }

    /// Waits until the state satisfies a condition.
    pub async fn wait_for(&self, condition: impl FnMut(&ServerState) -> bool) -> ServerState {
        let mut states = self.shared.state.subscribe();
        match states.wait_for(condition).await {
            Ok(state) => state.clone(),
            Err(_) => ServerState::Stopped,
        }
    }

    /// Returns the events from now on.
    pub fn events(&self) -> Events {
        self.shared.events.subscribe()
    }

    /// Returns how the server introduced itself; nothing while it is not ready.
    pub fn info(&self) -> Option<ServerInfo> {
        self.shared.connection().map(|connection| connection.info.clone())
    }

    /// Returns the tools; none while the server is not ready.
    pub fn tools(&self) -> Arc<[Tool]> {
        self.shared.tools.borrow().clone()
    }

    /// Sets the directories that the server may work in. If the server has to be told, the returned future tells it.
    pub fn set_roots(&self, roots: Vec<Root>) -> Option<impl Future<Output = ()> + Send + 'static> {
        let is_new = self.shared.roots.send_if_modified(|old| {
            let is_new = *old != roots;
            *old = roots;
            is_new
        });
        let connection = self.shared.connection().filter(|_| is_new)?;
        Some(async move {
            // The server asks for the roots when it needs them. A failure shows with the next request.
            let _ = connection.notify("notifications/roots/list_changed", None).await;
        })
    }

    /// Returns the resource that its tokens are bound to; nothing for a process, which takes none.
    pub fn resource(&self) -> Option<String> {
        let remote = self.shared.remote.as_ref();
        remote.map(|remote| remote.credentials.resource())
    }

    /// Returns the address; nothing for a process. It may contain secrets.
    pub(crate) fn address(&self) -> Option<String> {
        self.shared.remote.as_ref().map(|remote| remote.url.to_string())
    }

    /// Returns true if present tokens may be given to the server without asking a user: its resource is the server itself,
    /// or a user has signed in to it already (T16).
    pub fn may_be_given_tokens(&self) -> bool {
        let remote = self.shared.remote.as_ref();
        remote.is_some_and(|remote| {
            is_itself(&remote.url, &remote.credentials.resource()) || remote.credentials.token().is_some()
        })
    }

    /// Returns true if the server has a token.
    pub(crate) fn has_token(&self) -> bool {
        let remote = self.shared.remote.as_ref();
        remote.is_some_and(|remote| remote.credentials.bearer().value.is_some())
    }

    /// Sets the token for the resource of the server; an empty token removes it (AUTH-05). Calls that waited for it go on
    /// (AUTH-10).
    pub fn sign_in(&self, resource: &str, token: Token) -> Result<(), WrongResource> {
        let wrong = |expected: &str| WrongResource {
            given: resource.to_owned(),
            expected: expected.to_owned(),
        };
        let Some(remote) = &self.shared.remote else {
            return Err(wrong("a process, which takes no token"));
        };
        let expected = remote.credentials.resource();
        if resource != expected {
            return Err(wrong(&expected));
        }
        let signs_out = token.expose().is_empty();
        if signs_out && remote.credentials.token().is_some() && self.shared.connection().is_some() {
            // The connection that was opened with the token is closed, and nothing new is sent over it.
            self.shared.set_state(ServerState::Starting { blocking: false });
            // The server may be bound to another resource by now; then the token is gone already.
            let _ = remote.credentials.set(resource, None);
            self.send(Command::Reconnect);
            return Ok(());
        }
        let given = remote.credentials.set(resource, Some(token));
        given.map_err(|expected| wrong(&expected))?;
        self.shared.was_signed_in();
        Ok(())
    }

    pub(crate) fn shared(&self) -> &ServerShared {
        &self.shared
    }

    pub(crate) fn shared_arc(&self) -> &Arc<ServerShared> {
        &self.shared
    }

    fn send(&self, command: Command) {
        // The task lives as long as a handle does.
        let _ = self.commands.send(command);
    }
}

/// How a server is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Messages wait for it.
    Blocking,
    /// Messages do not wait for it.
    #[default]
    Background,
}

/// The state that the handles and the task of one server share.
#[derive(Debug)]
pub(crate) struct ServerShared {
    pub(crate) config: ServerConfig,
    pub(crate) server_env: ServerEnv,
    pub(crate) scrubber: Arc<Scrubber>,
    pub(crate) asker: Arc<QuestionHandler>,
    pub(crate) remote: Option<RemoteServer>,
    state: watch::Sender<ServerState>,
    connection: watch::Sender<Option<Arc<Connection>>>,
    tools: watch::Sender<Arc<[Tool]>>,
    pub(crate) offered: OfferedLists,
    roots: watch::Sender<Vec<Root>>,
    pub(crate) events: Arc<EventSender>,
    pub(crate) levels: LogLevels,
}

/// The parts of a server that is reached over HTTP.
#[derive(Debug)]
pub(crate) struct RemoteServer {
    pub(crate) url: Url,
    pub(crate) client: wire::HttpClient,
    pub(crate) credentials: Arc<Credentials>,
    metadata: Metadata,
    oauth_client_id: Option<String>,
}

impl ServerShared {
    fn new(config: ServerConfig, server_env: ServerEnv) -> Result<Self, ConfigError> {
        let remote = match &config.transport {
            Transport::Stdio(_) => None,
            Transport::Http(remote) | Transport::Sse(remote) => {
                Some(RemoteServer::new(remote, config.limits.message_bytes)?)
            }
        };
        let roots = watch::Sender::new(server_env.roots.clone());
        let asker = QuestionHandler::new(
            config.name.clone(),
            server_env.asks.clone(),
            roots.subscribe(),
            config.limits.answer_time,
        );
        Ok(Self {
            scrubber: Arc::new(Scrubber::of(&config)),
            asker: Arc::new(asker),
            remote,
            state: watch::Sender::new(ServerState::Stopped),
            connection: watch::Sender::new(None),
            tools: watch::Sender::new(Arc::default()),
            offered: OfferedLists::default(),
            roots,
            events: Arc::new(EventSender::new()),
            levels: LogLevels::default(),
            config,
            server_env,
        })
    }

    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.borrow().clone()
    }

    /// Sets the state, and sends an event if it changed.
    pub(crate) fn set_state(&self, new: ServerState) {
        let is_new = self.state.send_if_modified(|state| {
            let is_new = *state != new;
            state.clone_from(&new);
            is_new
        });
        if is_new {
            self.events.send(Event::State(new));
        }
    }

    /// Goes on with a new token. A connection that still stands is not opened again.
    pub(crate) fn was_signed_in(&self) {
        let remote = self.remote.as_ref();
        let is_signed_in = remote.is_some_and(|remote| remote.credentials.bearer().value.is_some());
        let waits = matches!(&*self.state.borrow(), ServerState::AuthRequired(_));
        if is_signed_in && waits && self.connection().is_some() {
            self.set_state(ServerState::Ready);
        }
    }

    /// Describes the sign-in that a challenge asks for.
    pub(crate) async fn sign_in_for(&self, challenged: &wire::Challenged) -> Option<SignIn> {
        let remote = self.remote.as_ref()?;
        let resource = remote.metadata.find(&challenged.challenge).await;
        let description = challenged.challenge.description.as_deref();
        // The description of a request without a token does not describe the refused token.
        let description = description.filter(|_| !remote.credentials.is_withheld());
        let description = description.map(|description| remote.credentials.scrub(&self.scrubber, description));
        // Servers name the scopes of the present operation. Granting only these would drop the scopes that were granted for
        // others, and users would be asked for one and the other in turn (MCP, step-up authorization).
        let granted = remote.credentials.scopes();
        let is_another = remote.credentials.set_resource(&resource.resource);
        let token = if is_another {
            TokenHistory::None
        } else {
            challenged.token
        };
        let reason = challenged.challenge.reason(token);
        let asked = challenged.challenge.scopes.as_deref();
        let required_scopes = asked.map(|asked| match reason {
            SignInReason::InsufficientScope if !is_another => bounded_scopes(&union(&granted, asked)),
            _ => bounded_scopes(asked),
        });
        Some(SignIn {
            reason,
            resource,
            required_scopes,
            oauth_client_id: remote.oauth_client_id.clone(),
            description: description.as_deref().map(bounded_text),
        })
    }

    /// Returns the log for output of the server.
    pub(crate) fn log(&self) -> HostLog {
        let credentials = self.remote.as_ref().map(|remote| remote.credentials.clone());
        HostLog::new(self.config.name.clone(), self.scrubber.clone(), credentials)
    }

    /// Removes secrets from text, the token among them.
    pub(crate) fn scrub(&self, text: &str) -> String {
        match &self.remote {
            Some(remote) => remote.credentials.scrub(&self.scrubber, text),
            None => self.scrubber.scrub(text),
        }
    }

    pub(crate) fn scrub_value(&self, value: Value) -> Value {
        let text = value.to_string();
        let clean = self.scrub(&text);
        if clean == text {
            value
        } else {
            serde_json::from_str(&clean).unwrap_or(Value::String(clean))
        }
    }
}

/// Returns the scopes of both, each once.
fn union(granted: &[String], asked: &[String]) -> Vec<String> {
    let more = asked.iter().filter(|scope| !granted.contains(scope));
    granted.iter().chain(more).cloned().collect()
}

impl RemoteServer {
    fn new(remote: &Remote, most: usize) -> Result<Self, ConfigError> {
        let url = Url::parse(&remote.url).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| ConfigError::Address(crate::engine::secret::scheme_and_host(&remote.url)))?;
        let http = wire::http_client_for(&url)?;
        let credentials = Arc::new(Credentials::new(canonical_resource(&url)));
        Ok(Self {
            client: wire::HttpClient::new(http.clone(), remote, credentials.clone(), most)?,
            metadata: Metadata::new(url.clone(), http),
            oauth_client_id: remote.oauth_client_id.clone(),
            credentials,
            url,
        })
    }
}
