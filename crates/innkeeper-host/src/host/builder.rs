//! What a host is made of, and how it starts.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use innkeeper_core::{AgentProfile, CoreConfig, Effect, HostCore, Input, Now, Opening, Seq};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::keep::Waiting;
use super::loading::LOADS;
use super::message::Message;
use super::task::{Breaks, HostTask};
use super::{Host, HostError, HostHandle};
use crate::agent::Agent;
use crate::files::{Files, NoFiles};
use crate::journal::{Journal, Lease, VolatileJournal};
use crate::limits::Limits;

/// Messages waiting for the main loop; senders wait beyond it.
const INBOX: usize = 1024;

/// Collects what a host is made of.
pub struct HostBuilder {
    agents: Vec<Arc<dyn Agent>>,
    journal: Arc<dyn Journal>,
    files: Arc<dyn Files>,
    limits: Limits,
    breaks: Option<Breaks>,
    read_only: Option<String>,
}

impl HostBuilder {
    pub(super) fn new() -> Self {
        Self {
            agents: Vec::new(),
            journal: Arc::new(VolatileJournal),
            files: Arc::new(NoFiles),
            limits: Limits::default(),
            breaks: None,
            read_only: None,
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

    /// Shows what the journal has and changes nothing; whoever tries is told why. The host stays so
    /// for as long as the journal refuses to [`Journal::revive`].
    #[must_use]
    pub fn read_only(mut self, reason: &str) -> Self {
        self.read_only = Some(reason.to_owned());
        self
    }

    /// How the host introduces itself in `initialize`.
    #[must_use]
    pub fn server_info(mut self, name: &str, version: &str) -> Self {
        self.limits.core.server_name = name.to_owned();
        self.limits.core.server_version = Some(version.to_owned());
        self
    }

    /// Makes the core fail after these inputs, for tests of what follows (F23).
    #[doc(hidden)]
    #[must_use]
    pub fn break_on(mut self, breaks: impl Fn(&Input) -> bool + Send + Sync + 'static) -> Self {
        self.breaks = Some(Arc::new(breaks));
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
        let mut lease = self.journal.open().await?;
        let (inbox, receiver) = mpsc::channel(INBOX);
        let version = self.limits.core.server_version.clone().unwrap_or_default().into();
        let unsettled = std::mem::take(&mut lease.unsettled);
        let (core, first_effects) = core(
            &*self.journal,
            lease,
            self.limits.core.clone(),
            profiles,
            &self.read_only,
        );
        let limits = Arc::new(self.limits);
        let tasks = TaskTracker::new();
        let handle = HostHandle {
            inbox: inbox.clone(),
            limits: Arc::clone(&limits),
            tasks: tasks.clone(),
            ready: Arc::new(AtomicBool::new(self.read_only.is_none())),
            problem: Arc::new(Mutex::new(self.read_only.clone())),
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
            waiting: Waiting::default(),
            read_only: self.read_only,
            problem: Arc::clone(&handle.problem),
            loads: Arc::new(Semaphore::new(LOADS)),
            first_effects,
            parked: HashMap::new(),
            panicked: false,
            poisoned: HashSet::new(),
            breaks: self.breaks,
            started: Instant::now(),
            stopping: None,
        };
        if !unsettled.is_empty() {
            // The inbox is empty, so there is room.
            let _ = inbox.try_send(Message::Core(Input::LookAfter(unsettled)));
        }
        tasks.spawn(task.run(receiver));
        Ok(Host { handle })
    }
}

/// The core, from what was kept if anything ever is.
fn core(
    journal: &dyn Journal,
    lease: Lease,
    config: CoreConfig,
    agents: Vec<AgentProfile>,
    read_only: &Option<String>,
) -> (HostCore, Vec<Effect>) {
    let mut effects = Vec::new();
    let Some(turns) = journal.turns().filter(|_| journal.keeps()) else {
        return (HostCore::new(config, agents, lease.last_seq), effects);
    };
    // Whoever only looks on gives out numbers that the owner never does.
    let micros = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default();
    let last_seq = match read_only {
        Some(_) => lease.last_seq.max(Seq(micros)),
        None => lease.last_seq,
    };
    let opening = Opening {
        last_seq,
        kept_seq: lease.kept_seq,
        sessions: lease.sessions,
        clients: lease.clients,
        root: lease.root,
        turns,
        read_only: read_only.clone(),
        first_channel: 0,
        most: None,
        looks_on: read_only.is_some(),
    };
    let now = Now {
        mono_ms: 0,
        wall: jiff::Timestamp::now(),
    };
    let mut warnings = Vec::new();
    let core = HostCore::open(config, agents, opening, now, &mut effects, &mut warnings);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    (core, effects)
}
