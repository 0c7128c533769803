//! The MCP servers of a host's sessions, on the engine.
//!
//! `session.rs` compares the servers that a session wants with those it has. `session_server.rs` is one server of one
//! session, and `launch.rs` builds its configuration. `calls.rs` calls tools and asks users on behalf of the server.
//! `prompts_and_resources.rs` and `apps.rs` are the rest of what a server offers. `convert.rs` converts between the types of
//! the engine and of the host. `tokens.rs` has the tokens of users, `token_renewal.rs` and `token_exchange.rs` renew them, and
//! `vault.rs` persists them.

mod apps;
mod calls;
mod convert;
mod launch;
mod prompts_and_resources;
mod session;
mod session_server;
mod token_exchange;
mod token_renewal;
mod tokens;
pub(crate) mod vault;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use innkeeper_host::mcp::{McpServers, ServerSink, SessionServers, StoredTokenInfo, TokenChange, TokenSink};
use innkeeper_std::sync::Mutex;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use self::session::HostedSession;
use self::session_server::SessionServer;
use self::tokens::Tokens;
use crate::engine::config::{BaseEnvironment, Limits, RestartPolicy};
use crate::engine::pool::Pool;
use crate::engine::secret::Token;
use crate::hosted::vault::TokenKeeper;

/// The time that open work on tokens may take when the host ends.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// Settings that all servers of a host share.
#[derive(Clone, Debug, Default)]
pub struct RunnerSettings {
    /// The environment that processes start with.
    pub environment: BaseEnvironment,
    /// Variables for `${…}` expansion. Only trusted declarations may read them.
    pub variables: BTreeMap<String, String>,
    /// Timeouts and bounds.
    pub limits: Limits,
    /// The delays after crashes.
    pub restart: RestartPolicy,
    /// True if every session has processes of its own.
    pub isolate: bool,
}

/// Runs the MCP servers of a host's sessions. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct McpRunner {
    shared: Arc<RunnerShared>,
}

/// The state that all sessions share.
struct RunnerShared {
    settings: RunnerSettings,
    pool: Pool,
    /// Permits for processes that start. Too many at once take so long that each looks as if it hung.
    starting: Arc<Semaphore>,
    tokens: Tokens,
    session_servers: Mutex<Vec<Weak<SessionServer>>>,
    /// Reports lost tokens to the host.
    lost_tokens: Mutex<Option<TokenSink>>,
    /// Tasks that must end before the host does.
    tasks: TaskTracker,
}

impl McpRunner {
    /// Returns a runner without servers. Tokens are in memory only.
    pub fn new(settings: RunnerSettings) -> Self {
        Self::with_tokens(settings, Tokens::load(None))
    }

    /// Returns a runner whose tokens are persisted. Reads the persisted tokens, and may block for that.
    pub fn keeping(settings: RunnerSettings, keeper: Arc<dyn TokenKeeper>) -> Self {
        Self::with_tokens(settings, Tokens::load(Some(keeper)))
    }

    fn with_tokens(settings: RunnerSettings, tokens: Tokens) -> Self {
        Self {
            shared: Arc::new(RunnerShared {
                settings,
                pool: Pool::default(),
                starting: Arc::new(Semaphore::new(starts_at_once())),
                tokens,
                session_servers: Mutex::default(),
                lost_tokens: Mutex::default(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// Stops all servers when the host ends, and waits until the processes are gone and the tokens are persisted.
    pub async fn stop(&self) {
        self.shared.tasks.close();
        // At the same time: a server that takes long to end is no reason to lose a token.
        let last_tasks = tokio::time::timeout(LAST_TASKS, self.shared.tasks.wait());
        let _ = tokio::join!(self.shared.pool.stop_all(), last_tasks);
    }

    /// Returns the number of servers. Each counts once, however many sessions share it.
    pub fn servers(&self) -> usize {
        self.shared.pool.len()
    }
}

impl McpServers for McpRunner {
    fn open(&self, sink: ServerSink) -> Arc<dyn SessionServers> {
        Arc::new(HostedSession::new(Arc::clone(&self.shared), sink))
    }

    fn set_token(&self, resource: &str, change: TokenChange) -> BoxFuture<'static, ()> {
        match change {
            TokenChange::Given(token) => {
                if let Some(replaced) = self.shared.tokens.set(resource, *token) {
                    self.shared.revoke(replaced);
                }
                for server in self.shared.servers() {
                    server.note_sign_in(resource, &self.shared.tokens);
                }
                self.shared.hand_out(resource);
            }
            TokenChange::Expired => {
                // Servers stop sending it and know that there was one: they are not signed out but report that it
                // expired (AUTH-06).
                self.shared.tokens.expire(resource);
            }
            TokenChange::TakenBack => {
                if let Some(taken) = self.shared.tokens.take(resource) {
                    self.shared.revoke(taken);
                }
                // An empty token signs out.
                self.shared.give(resource, &Token::new(""));
            }
        }
        let saving = self.shared.save_soon();
        Box::pin(async move {
            if let Some(saving) = saving {
                // A failure to persist is logged.
                let _ = saving.await;
            }
        })
    }

    fn tell_lost_tokens(&self, sink: TokenSink) {
        *self.shared.lost_tokens.lock() = Some(sink);
    }

    fn keeps_tokens(&self) -> bool {
        self.shared.tokens.keeps()
    }

    fn stored_tokens(&self) -> Vec<StoredTokenInfo> {
        self.shared.tokens.known()
    }
}

impl RunnerShared {
    /// Returns the token that a server is to use, and schedules its renewal.
    fn token(self: &Arc<Self>, resource: &str) -> Option<Token> {
        let token = self.tokens.get(resource)?.token();
        self.schedule_renewal(resource);
        Some(token)
    }

    /// Gives a token to all servers of a resource.
    fn give(&self, resource: &str, token: &Token) {
        for server in self.servers() {
            server.sign_in(resource, token, &self.tokens);
        }
    }

    fn servers(&self) -> Vec<Arc<SessionServer>> {
        let mut servers = self.session_servers.lock();
        servers.retain(|server| server.strong_count() > 0);
        servers.iter().filter_map(Weak::upgrade).collect()
    }

    fn note(&self, server: &Arc<SessionServer>) {
        let mut all = self.session_servers.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(server));
    }
}

impl fmt::Debug for McpRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpRunner")
            .field("servers", &self.servers())
            .finish_non_exhaustive()
    }
}

/// Returns the number of processes that start at the same time. Most wait for a disk now and then, so a few more than cores.
fn starts_at_once() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).clamp(4, 16)
}
