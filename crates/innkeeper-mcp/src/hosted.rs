//! The servers of a host's sessions, on the engine.
//!
//! `session.rs` compares what a session wants with what it has, `running.rs` sees one server of one
//! session through its life, `start.rs` finds out how it is started, `calls.rs` calls tools and asks
//! people for the server, `offers.rs` is prompts and resources, `apps.rs` bounds what apps say, and `words.rs` is what the host's types
//! and the engine's have in common. `tokens.rs` has what people signed in with, and `renewing.rs` gets
//! the next ones.

mod apps;
mod calls;
mod offers;
mod renewing;
mod running;
mod session;
mod start;
mod token_exchange;
mod tokens;
pub(crate) mod vault;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use innkeeper_host::mcp::{KeptToken, McpServers, ServerSink, SessionServers, TokenChange, TokenSink};
use innkeeper_std::sync::Mutex;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use self::running::Running;
use self::session::OneSession;
use self::tokens::Tokens;
use crate::engine::config::{BaseEnvironment, Limits, RestartPolicy};
use crate::engine::pool::Pool;
use crate::engine::secret::Token;
use crate::hosted::vault::TokenKeeper;

/// How long what is left to do with tokens may take when the host ends.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// What all servers of a host have in common.
#[derive(Clone, Debug, Default)]
pub struct RunnerSettings {
    /// The environment that processes begin with.
    pub environment: BaseEnvironment,
    /// What `${…}` may stand for in declarations that people trust. Nobody else's read any of it.
    pub variables: BTreeMap<String, String>,
    /// How long and how much.
    pub limits: Limits,
    /// What happens after a crash.
    pub restart: RestartPolicy,
    /// Whether every session has servers of its own.
    pub isolate: bool,
}

/// Runs the MCP servers of a host's sessions. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct McpRunner {
    shared: Arc<Shared>,
}

/// What all sessions share.
struct Shared {
    settings: RunnerSettings,
    pool: Pool,
    /// Room for processes that start: many at once take so long that each looks as if it hung.
    starting: Arc<Semaphore>,
    tokens: Tokens,
    running: Mutex<Vec<Weak<Running>>>,
    /// Where the host is told of tokens that are gone.
    lost_tokens: Mutex<Option<TokenSink>>,
    /// What has to be done before the host ends.
    tasks: TaskTracker,
}

impl McpRunner {
    /// Nothing runs until a session wants it. Tokens are in memory only.
    pub fn new(settings: RunnerSettings) -> Self {
        Self::with_tokens(settings, Tokens::load(None))
    }

    /// The same with tokens that outlive the host, and whoever gave them. Reads what was kept, and may
    /// block for that.
    pub fn keeping(settings: RunnerSettings, keeper: Arc<dyn TokenKeeper>) -> Self {
        Self::with_tokens(settings, Tokens::load(Some(keeper)))
    }

    fn with_tokens(settings: RunnerSettings, tokens: Tokens) -> Self {
        Self {
            shared: Arc::new(Shared {
                settings,
                pool: Pool::default(),
                starting: Arc::new(Semaphore::new(starts_at_once())),
                tokens,
                running: Mutex::default(),
                lost_tokens: Mutex::default(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// Stops everything, for a host that ends, and waits until the processes are gone and the tokens kept.
    pub async fn stop(&self) {
        self.shared.tasks.close();
        // At the same time: a server that takes long to end is no reason to lose a token.
        let last_tasks = tokio::time::timeout(LAST_TASKS, self.shared.tasks.wait());
        let _ = tokio::join!(self.shared.pool.stop_all(), last_tasks);
    }

    /// How many servers there are, each counted once however many sessions share it.
    pub fn servers(&self) -> usize {
        self.shared.pool.len()
    }
}

impl McpServers for McpRunner {
    fn open(&self, sink: ServerSink) -> Arc<dyn SessionServers> {
        Arc::new(OneSession::new(Arc::clone(&self.shared), sink))
    }

    fn set_token(&self, resource: &str, change: TokenChange) -> BoxFuture<'static, ()> {
        match change {
            TokenChange::Given(token) => {
                if let Some(replaced) = self.shared.tokens.set(resource, *token) {
                    self.shared.revoke(replaced);
                }
                for server in self.shared.servers() {
                    server.is_meant(resource, &self.shared.tokens);
                }
                self.shared.hand_out(resource);
            }
            TokenChange::Expired => {
                // Servers that have it do not send it any more, and know that it was there: they are not
                // signed out but say that it expired (AUTH-06).
                self.shared.tokens.expire(resource);
            }
            TokenChange::TakenBack => {
                if let Some(taken) = self.shared.tokens.take(resource) {
                    self.shared.revoke(taken);
                }
                // An empty one signs out.
                self.shared.give(resource, &Token::new(""));
            }
        }
        let saving = self.shared.save_soon();
        Box::pin(async move {
            if let Some(saving) = saving {
                // What could not be kept is logged.
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

    fn kept_tokens(&self) -> Vec<KeptToken> {
        self.shared.tokens.known()
    }
}

impl Shared {
    /// The token that a server is to use, which is seen to from now on.
    fn token(self: &Arc<Self>, resource: &str) -> Option<Token> {
        let token = self.tokens.get(resource)?.token();
        self.see_to(resource);
        Some(token)
    }

    /// Gives all servers of a resource a token.
    fn give(&self, resource: &str, token: &Token) {
        for server in self.servers() {
            server.sign_in(resource, token, &self.tokens);
        }
    }

    fn servers(&self) -> Vec<Arc<Running>> {
        let mut running = self.running.lock();
        running.retain(|running| running.strong_count() > 0);
        running.iter().filter_map(Weak::upgrade).collect()
    }

    fn note(&self, running: &Arc<Running>) {
        let mut all = self.running.lock();
        all.retain(|running| running.strong_count() > 0);
        all.push(Arc::downgrade(running));
    }
}

impl fmt::Debug for McpRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpRunner")
            .field("servers", &self.servers())
            .finish_non_exhaustive()
    }
}

/// How many processes start at the same time: most wait for a disk now and then, so a few more than there are cores.
fn starts_at_once() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).clamp(4, 16)
}
