//! What a host is made of, and how it starts.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use innkeeper_core::HostCore;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::task::HostTask;
use super::{Host, HostError, HostHandle};
use crate::agent::Agent;
use crate::files::{Files, NoFiles};
use crate::journal::{Journal, VolatileJournal};
use crate::limits::Limits;

/// Messages waiting for the main loop; senders wait beyond it.
const INBOX: usize = 1024;

/// Collects what a host is made of.
pub struct HostBuilder {
    agents: Vec<Arc<dyn Agent>>,
    journal: Arc<dyn Journal>,
    files: Arc<dyn Files>,
    limits: Limits,
}

impl HostBuilder {
    pub(super) fn new() -> Self {
        Self {
            agents: Vec::new(),
            journal: Arc::new(VolatileJournal),
            files: Arc::new(NoFiles),
            limits: Limits::default(),
        }
    }

    /// Adds an agent. The first one is used when a client names none.
    #[must_use]
    pub fn agent(mut self, agent: impl Agent) -> Self {
        self.agents.push(Arc::new(agent));
        self
    }

    /// Keeps accepted actions in a journal; the default keeps nothing.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Arc::new(journal);
        self
    }

    /// Finds files for completions; the default finds none.
    #[must_use]
    pub fn files(mut self, files: impl Files) -> Self {
        self.files = Arc::new(files);
        self
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How the host introduces itself in `initialize`.
    #[must_use]
    pub fn server_info(mut self, name: &str, version: &str) -> Self {
        self.limits.core.server_name = name.to_owned();
        self.limits.core.server_version = Some(version.to_owned());
        self
    }

    /// Starts the host on the current Tokio runtime.
    pub async fn start(self) -> Result<Host, HostError> {
        let mut agents: HashMap<String, Arc<dyn Agent>> = HashMap::new();
        let mut profiles = Vec::new();
        for agent in self.agents {
            let info = agent.info();
            if agents.insert(info.provider.clone(), agent).is_some() {
                return Err(HostError::DuplicateAgent(info.provider));
            }
            profiles.push(info.into_profile());
        }
        if profiles.is_empty() {
            return Err(HostError::NoAgents);
        }
        let lease = self.journal.open().await?;
        let (inbox, receiver) = mpsc::channel(INBOX);
        let version = self.limits.core.server_version.clone().unwrap_or_default().into();
        let core = HostCore::new(self.limits.core.clone(), profiles, lease.last_seq);
        let limits = Arc::new(self.limits);
        let tasks = TaskTracker::new();
        let handle = HostHandle {
            inbox: inbox.clone(),
            limits: Arc::clone(&limits),
            tasks: tasks.clone(),
            ready: Arc::new(AtomicBool::new(true)),
            stopping: CancellationToken::new(),
            version,
        };
        let task = HostTask {
            core,
            // Weak, so that the loop ends when every handle is gone.
            inbox: inbox.downgrade(),
            agents,
            journal: self.journal,
            files: self.files,
            limits,
            tasks: tasks.clone(),
            ready: Arc::clone(&handle.ready),
            connections: Vec::new(),
            free: Vec::new(),
            drivers: HashMap::new(),
            held: Vec::new(),
            taken: VecDeque::new(),
            missed: Arc::default(),
            look_ups: VecDeque::new(),
            started: Instant::now(),
            stopping: None,
        };
        tasks.spawn(task.run(receiver));
        Ok(Host { handle })
    }
}
