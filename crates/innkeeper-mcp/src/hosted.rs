//! The servers of a host's sessions, on the engine.
//!
//! `session.rs` compares what a session wants with what it has, `running.rs` sees one server of one
//! session through its life, `start.rs` finds out how it is started, `calls.rs` calls tools and asks
//! people for the server, and `words.rs` is what the host's types and the engine's have in common.

mod calls;
mod running;
mod session;
mod start;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use innkeeper_host::mcp::{McpServers, ServerSink, ServerToken, SessionServers};

use self::running::Running;
use self::session::OneSession;
use crate::config::{BaseEnvironment, Limits, RestartPolicy};
use crate::pool::Pool;
use crate::secret::Token;

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
    /// By the resource that they are for. In memory only: whoever keeps them does so elsewhere.
    tokens: Mutex<HashMap<String, Token>>,
    running: Mutex<Vec<Weak<Running>>>,
}

impl McpRunner {
    /// Nothing runs until a session wants it.
    pub fn new(settings: RunnerSettings) -> Self {
        Self {
            shared: Arc::new(Shared {
                settings,
                pool: Pool::default(),
                tokens: Mutex::default(),
                running: Mutex::default(),
            }),
        }
    }

    /// Stops everything, for a host that ends, and waits until the processes are gone.
    pub async fn stop(&self) {
        self.shared.pool.stop_all().await;
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

    fn set_token(&self, resource: &str, token: Option<ServerToken>) {
        let token = token.map(|given| {
            let mut token = Token::new(given.secret.reveal());
            token.expires_in = given.expires_in.map(Duration::from_secs);
            token.scopes = given.scopes;
            token
        });
        match &token {
            Some(token) => lock(&self.shared.tokens).insert(resource.to_owned(), token.clone()),
            None => lock(&self.shared.tokens).remove(resource),
        };
        // An empty one signs out.
        let token = token.unwrap_or_else(|| Token::new(""));
        let mut running = lock(&self.shared.running);
        running.retain(|running| running.strong_count() > 0);
        for server in running.iter().filter_map(Weak::upgrade) {
            server.sign_in(resource, &token);
        }
    }
}

impl Shared {
    fn token(&self, resource: &str) -> Option<Token> {
        lock(&self.tokens).get(resource).cloned()
    }

    fn note(&self, running: &Arc<Running>) {
        let mut all = lock(&self.running);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
