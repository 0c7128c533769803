//! One server: a handle for everybody, and one task that owns its life.
//!
//! `actor.rs` is that life: start, ready, crash, start again. `connect.rs` makes a connection, `handshake.rs` has the
//! server introduce itself,
//! `connection.rs` sends one request over it, `request.rs` sees a request through sign-ins and
//! questions, `peer.rs` is our side of it, `follow.rs` fetches lists that changed, and `presence.rs` notices
//! when a server behind an address is gone.

mod actor;
mod calls;
mod connect;
mod connection;
mod follow;
mod handshake;
mod levels;
mod log;
mod peer;
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

pub(crate) use self::connection::{Connection, Failed, Request};
use self::levels::Levels;
pub(crate) use self::log::{HostLog, StandardError};
pub use self::peer::Offer;
use crate::engine::ask::{AskSink, Asker, Root};
use crate::engine::auth::{
    Credentials, Metadata, Renew, SignIn, SignInReason, TokenHistory, bounded_scopes, bounded_text, canonical_resource,
    is_itself,
};
use crate::engine::config::{BaseEnvironment, Remote, ServerConfig, Transport};
use crate::engine::error::{ConfigError, WrongResource};
use crate::engine::offered::Offered;
use crate::engine::secret::{Scrubber, Token};
use crate::engine::state::{Event, EventSender, Events, ServerInfo, ServerState};
use crate::engine::tools::Tool;
use crate::engine::wire;

/// What a server finds around it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The environment that processes begin with.
    pub environment: BaseEnvironment,
    /// What the server is told that it may ask.
    pub offer: Offer,
    /// Takes questions that no call takes itself. Without it they are declined.
    pub asks: Option<AskSink>,
    /// The directories that the server may work in.
    pub roots: Vec<Root>,
    /// What has to end first: it is waited for before the first start, for as long as ending may take.
    pub after: Vec<CancellationToken>,
    /// Asked before every start, also after a crash. Without it, it may always start.
    pub permit: Option<Permit>,
    /// Room among the processes that start at the same time; without it, every one starts at once.
    pub starting: Option<Arc<Semaphore>>,
    /// Asked for another token when the server does not accept its own any more, before people are.
    pub renew: Option<Renew>,
}

/// Says whether a server may start, and if not, why not.
#[derive(Clone)]
pub struct Permit(Arc<dyn Fn() -> Result<(), String> + Send + Sync>);

impl Permit {
    /// Asks a function, which may read files and block.
    pub fn new(check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    /// Asks it where nobody waits.
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

/// A server. Cloning gives another handle to the same one; when the last handle is dropped, it ends.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Server {
    /// Prepares a server; nothing runs yet. Must be called within a Tokio runtime.
    pub fn new(config: ServerConfig, surroundings: Surroundings) -> Result<Self, ConfigError> {
        let shared = Arc::new(Shared::new(config, surroundings)?);
        // Bounded by its users: each waits for what it asked for, or asks once.
        let (commands, receiver) = mpsc::unbounded_channel();
        tokio::spawn(Actor::new(shared.clone(), receiver).run());
        Ok(Self { shared, commands })
    }

    /// What is run.
    pub fn config(&self) -> &ServerConfig {
        &self.shared.config
    }

    /// Starts it, unless it runs. The state tells what becomes of it (MCP-04).
    pub fn start(&self, start: Start) {
        self.send(Command::Start(start));
    }

    /// Starts it for one more who wants it, unless it was started before: one that failed keeps to its delays, or
    /// stays as it is, until somebody asks for a start (F3).
    pub fn join(&self) {
        self.send(Command::Join);
    }

    /// Starts it anew, whatever it does now; earlier crashes are forgotten.
    pub fn restart(&self, start: Start) {
        self.send(Command::Restart(start));
    }

    /// Nobody waits for its start any more (MCP-06).
    pub fn background(&self) {
        self.send(Command::Background);
    }

    /// Stops it with everything that it started, and waits until it is gone. Calls that are under
    /// way fail.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        self.send(Command::Stop(done));
        let _ = stopped.await;
    }

    /// What it does.
    pub fn state(&self) -> ServerState {
        self.shared.state.borrow().clone()
    }

    /// Waits until what it does satisfies a condition.
    pub async fn wait_for(&self, condition: impl FnMut(&ServerState) -> bool) -> ServerState {
        let mut states = self.shared.state.subscribe();
        match states.wait_for(condition).await {
            Ok(state) => state.clone(),
            Err(_) => ServerState::Stopped,
        }
    }

    /// What happens to it from now on.
    pub fn events(&self) -> Events {
        self.shared.events.subscribe()
    }

    /// How it introduced itself; nothing while it is not ready.
    pub fn info(&self) -> Option<ServerInfo> {
        self.shared.connection().map(|connection| connection.info.clone())
    }

    /// Its tools; none while it is not ready.
    pub fn tools(&self) -> Arc<[Tool]> {
        self.shared.tools.borrow().clone()
    }

    /// Sets the directories that it may work in. They count at once; what is returned, if it has to be told,
    /// tells it.
    pub fn set_roots(&self, roots: Vec<Root>) -> Option<impl Future<Output = ()> + Send + 'static> {
        let is_new = self.shared.roots.send_if_modified(|old| {
            let is_new = *old != roots;
            *old = roots;
            is_new
        });
        let connection = self.shared.connection().filter(|_| is_new)?;
        Some(async move {
            // It asks for them again when it wants to; a failure shows elsewhere soon enough.
            let _ = connection.notify("notifications/roots/list_changed", None).await;
        })
    }

    /// The resource that tokens for it are bound to; nothing for a process, which takes none.
    pub fn resource(&self) -> Option<String> {
        let remote = self.shared.remote.as_ref();
        remote.map(|remote| remote.credentials.resource())
    }

    /// Where it is; nothing for a process. It may hold secrets.
    pub(crate) fn address(&self) -> Option<String> {
        self.shared.remote.as_ref().map(|remote| remote.url.to_string())
    }

    /// Whether tokens that are there may be given to it without anybody asking: its resource is the server
    /// itself, or somebody has signed in to it already (T16).
    pub fn may_be_given_tokens(&self) -> bool {
        let remote = self.shared.remote.as_ref();
        remote.is_some_and(|remote| {
            is_itself(&remote.url, &remote.credentials.resource()) || remote.credentials.token().is_some()
        })
    }

    /// Whether it has a token now.
    pub(crate) fn has_token(&self) -> bool {
        let remote = self.shared.remote.as_ref();
        remote.is_some_and(|remote| remote.credentials.bearer().value.is_some())
    }

    /// Gives it a token for its resource; an empty one takes it away (AUTH-05). What waited for it goes
    /// on by itself (AUTH-10).
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
            // What was opened with the token is closed, and nothing new goes over it.
            self.shared.set_state(ServerState::Starting { blocking: false });
            // It may be bound to something else by now; then the token is gone already.
            let _ = remote.credentials.set(resource, None);
            self.send(Command::Reconnect);
            return Ok(());
        }
        let given = remote.credentials.set(resource, Some(token));
        given.map_err(|expected| wrong(&expected))?;
        self.shared.was_signed_in();
        Ok(())
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn shared_arc(&self) -> &Arc<Shared> {
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
    /// Nobody waits for it.
    #[default]
    Background,
}

/// What the handles and the task of one server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) surroundings: Surroundings,
    pub(crate) scrubber: Arc<Scrubber>,
    pub(crate) asker: Arc<Asker>,
    pub(crate) remote: Option<Far>,
    state: watch::Sender<ServerState>,
    connection: watch::Sender<Option<Arc<Connection>>>,
    tools: watch::Sender<Arc<[Tool]>>,
    pub(crate) offered: Offered,
    roots: watch::Sender<Vec<Root>>,
    pub(crate) events: Arc<EventSender>,
    pub(crate) levels: Levels,
}

/// What belongs to a server that is reached over HTTP.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) url: Url,
    pub(crate) client: wire::HttpClient,
    pub(crate) credentials: Arc<Credentials>,
    metadata: Metadata,
    oauth_client_id: Option<String>,
}

impl Shared {
    fn new(config: ServerConfig, surroundings: Surroundings) -> Result<Self, ConfigError> {
        let remote = match &config.transport {
            Transport::Stdio(_) => None,
            Transport::Http(remote) | Transport::Sse(remote) => Some(Far::new(remote, config.limits.message_bytes)?),
        };
        let roots = watch::Sender::new(surroundings.roots.clone());
        let asker = Asker::new(
            config.name.clone(),
            surroundings.asks.clone(),
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
            offered: Offered::default(),
            roots,
            events: Arc::new(EventSender::new()),
            levels: Levels::default(),
            config,
            surroundings,
        })
    }

    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.borrow().clone()
    }

    /// Says what it does now; the same again is not said.
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

    /// Goes on with a token that came: where the connection still stands, nothing has to be started again.
    pub(crate) fn was_signed_in(&self) {
        let far = self.remote.as_ref();
        let is_signed_in = far.is_some_and(|far| far.credentials.bearer().value.is_some());
        let waits = matches!(&*self.state.borrow(), ServerState::AuthRequired(_));
        if is_signed_in && waits && self.connection().is_some() {
            self.set_state(ServerState::Ready);
        }
    }

    /// Says that somebody has to sign in.
    pub(crate) async fn sign_in_for(&self, challenged: &wire::Challenged) -> Option<SignIn> {
        let far = self.remote.as_ref()?;
        let resource = far.metadata.find(&challenged.challenge).await;
        let description = challenged.challenge.description.as_deref();
        // What it says about a request without a token says nothing about the one that it refused.
        let description = description.filter(|_| !far.credentials.is_withheld());
        let description = description.map(|description| far.credentials.scrub(&self.scrubber, description));
        // Servers say what the operation at hand needs. People who grant only that would lose what they have granted
        // for others, and be asked in turns for one and the other (MCP, step-up authorization).
        let granted = far.credentials.scopes();
        let is_another = far.credentials.set_resource(&resource.resource);
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
            oauth_client_id: far.oauth_client_id.clone(),
            description: description.as_deref().map(bounded_text),
        })
    }

    /// Where what the server writes for people goes.
    pub(crate) fn log(&self) -> HostLog {
        let credentials = self.remote.as_ref().map(|far| far.credentials.clone());
        HostLog::new(self.config.name.clone(), self.scrubber.clone(), credentials)
    }

    /// Takes secrets out of text, the token among them.
    pub(crate) fn scrub(&self, text: &str) -> String {
        match &self.remote {
            Some(far) => far.credentials.scrub(&self.scrubber, text),
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

/// The scopes of both, each once.
fn union(granted: &[String], asked: &[String]) -> Vec<String> {
    let more = asked.iter().filter(|scope| !granted.contains(scope));
    granted.iter().chain(more).cloned().collect()
}

impl Far {
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
