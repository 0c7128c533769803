//! Builds a host from its parts and starts it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use innkeeper_core::{
    AgentProfile, CoreConfig, Effect, HostCore, Input, JournalCommand, Now, Opening, Seq, StorageMode,
};
use innkeeper_std::sync::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::catalogue::{Catalogue, keep_current, profile_of};
use super::{Host, HostError, HostHandle};
use crate::agent::Agent;
use crate::limits::Limits;
use crate::main_loop::Message;
use crate::main_loop::agents::Agents;
use crate::main_loop::durability::Durability;
use crate::main_loop::handles::LoopHandles;
use crate::main_loop::task::{FailureInjection, HostParts, HostTask};
use crate::services::Services;
use crate::services::changes::effects::FollowedChanges;
use crate::services::changes::{Changes, NoChanges};
use crate::services::completions::effects::CompletionRequests;
use crate::services::completions::{Files, NoFiles};
use crate::services::contents::effects::ContentStore;
use crate::services::contents::{ContentLimits, Contents, MemoryContents};
use crate::services::customizations::effects::FollowedCustomizations;
use crate::services::customizations::{Customizations, NoCustomizations};
use crate::services::journal::effects::{JournalRequests, find, turns_of};
use crate::services::journal::{Journal, Lease, VolatileJournal};
use crate::services::mcp::effects::Servers;
use crate::services::mcp::{McpServers, NoMcpServers, TokenSink};
use crate::services::repositories::effects::FollowedRepositories;
use crate::services::repositories::{NoRepositories, Repositories};
use crate::services::resources::effects::ResourceRequests;
use crate::services::resources::{NoResources, Resources};
use crate::services::telemetry::LogSink;
use crate::services::telemetry::effects::Logs;
use crate::services::terminals::effects::RunningTerminals;
use crate::services::terminals::{NoTerminals, Terminals};

/// Messages waiting for the main loop; senders wait beyond it.
const INBOX: usize = 1024;

/// Collects what a host is made of.
pub struct HostBuilder {
    agents: Vec<Arc<dyn Agent>>,
    journal: Arc<dyn Journal>,
    files: Arc<dyn Files>,
    resources: Arc<dyn Resources>,
    customizations: Arc<dyn Customizations>,
    repositories: Arc<dyn Repositories>,
    changes: Arc<dyn Changes>,
    mcp_servers: Arc<dyn McpServers>,
    terminals: Arc<dyn Terminals>,
    contents: Option<Arc<dyn Contents>>,
    logs: Option<LogSink>,
    limits: Limits,
    breaks: Option<FailureInjection>,
    read_only: Option<String>,
    restricted_sections: Option<Vec<String>>,
    default_directory: Option<String>,
    server_info: Option<(String, String)>,
    is_owned: bool,
}

impl HostBuilder {
    pub(super) fn new() -> Self {
        Self {
            agents: Vec::new(),
            journal: Arc::new(VolatileJournal),
            files: Arc::new(NoFiles),
            resources: Arc::new(NoResources),
            customizations: Arc::new(NoCustomizations),
            repositories: Arc::new(NoRepositories),
            changes: Arc::new(NoChanges),
            mcp_servers: Arc::new(NoMcpServers),
            terminals: Arc::new(NoTerminals),
            contents: None,
            logs: None,
            limits: Limits::default(),
            breaks: None,
            read_only: None,
            restricted_sections: None,
            default_directory: None,
            server_info: None,
            is_owned: true,
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

    /// Serves files and other resources to clients; the default serves none, and their methods are
    /// unknown.
    #[must_use]
    pub fn resources(mut self, resources: impl Resources) -> Self {
        self.resources = Arc::new(resources);
        self
    }

    /// Finds plugins, skills, agents, rules and hooks for sessions; the default finds none.
    #[must_use]
    pub fn customizations(mut self, customizations: impl Customizations) -> Self {
        self.customizations = Arc::new(customizations);
        self
    }

    /// Looks at the Git repositories that sessions work in; the default looks at none.
    #[must_use]
    pub fn repositories(mut self, repositories: impl Repositories) -> Self {
        self.repositories = Arc::new(repositories);
        self
    }

    /// Computes which files sessions and their turns changed; the default computes nothing.
    #[must_use]
    pub fn changes(mut self, changes: impl Changes) -> Self {
        self.changes = Arc::new(changes);
        self
    }

    /// Runs the MCP servers of sessions; the default runs none.
    #[must_use]
    pub fn mcp_servers(mut self, mcp_servers: impl McpServers) -> Self {
        self.mcp_servers = Arc::new(mcp_servers);
        self
    }

    /// Runs terminals; the default runs none, and their methods are unknown.
    #[must_use]
    pub fn terminals(mut self, terminals: impl Terminals) -> Self {
        self.terminals = Arc::new(terminals);
        self
    }

    /// Keeps what tools gave back and turns have no room for; the default keeps it in memory.
    #[must_use]
    pub fn contents(mut self, contents: impl Contents) -> Self {
        self.contents = Some(Arc::new(contents));
        self
    }

    /// Tells clients with the scope `admin` what is written to a sink (OTL-01); by default there is no log for them.
    #[must_use]
    pub fn logs(mut self, logs: &LogSink) -> Self {
        self.logs = Some(logs.clone());
        self
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Shows the sessions of the journal and changes nothing; every attempt to change them fails with the reason. The
    /// host stays read-only for as long as the journal refuses to [`Journal::revive`]. Sessions are shown as they are:
    /// another process may own them, and continue them.
    #[must_use]
    pub fn read_only(mut self, reason: &str) -> Self {
        self.read_only = Some(reason.to_owned());
        self
    }

    /// Says which sections of system prompts no client may rewrite, even if their agents allow it
    /// (SMT-12). Without it, agents decide; of the standard ones, that is `identity` and `safety`.
    #[must_use]
    pub fn restricted_sections<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.restricted_sections = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Declares that no other process owns the journal of a [`Self::read_only`] host. Sessions are then shown as the
    /// next host will restore them: interrupted turns are closed, and none of that is persisted.
    #[must_use]
    pub fn without_owner(mut self) -> Self {
        self.is_owned = false;
        self
    }

    /// How the host introduces itself in `initialize`.
    #[must_use]
    pub fn server_info(mut self, name: &str, version: &str) -> Self {
        self.server_info = Some((name.to_owned(), version.to_owned()));
        self
    }

    /// Suggests a directory to clients, by its URI, in which they start to look for one to work in; without one they
    /// start at the root of the file system. They are told in `initialize` if they may create sessions.
    #[must_use]
    pub fn default_directory(mut self, uri: impl Into<String>) -> Self {
        self.default_directory = Some(uri.into());
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
    pub async fn start(mut self) -> Result<Host, HostError> {
        if self.restricted_sections.is_some() {
            self.limits.core.restricted_sections = self.restricted_sections.take();
        }
        if let Some((name, version)) = self.server_info.take() {
            self.limits.core.server_name = name;
            self.limits.core.server_version = Some(version);
        }
        if self.default_directory.is_some() {
            self.limits.core.default_directory = self.default_directory.take();
        }
        let mut agents: HashMap<String, Arc<dyn Agent>> = HashMap::new();
        let common = self.customizations.common();
        let mut profiles = Vec::new();
        let mut listed = Vec::new();
        for agent in self.agents {
            let info = agent.info();
            listed.push((info.provider.clone(), Arc::downgrade(&agent)));
            if agents.insert(info.provider.clone(), agent).is_some() {
                return Err(HostError::DuplicateAgent(info.provider));
            }
            profiles.push(profile_of(info, common.as_ref()));
        }
        if profiles.is_empty() {
            return Err(HostError::NoAgents);
        }
        self.limits.core.serves_resources = self.resources.serves();
        self.limits.core.serves_customizations = self.customizations.serves();
        self.limits.core.serves_repositories = self.repositories.serves();
        self.limits.core.serves_changes = self.changes.serves();
        self.limits.core.serves_mcp = self.mcp_servers.serves();
        self.limits.core.serves_terminals = self.terminals.serves();
        self.limits.core.lists_tools = true;
        self.limits.core.persists_mcp_tokens = self.mcp_servers.keeps_tokens();
        self.limits.core.serves_logs = self.logs.is_some();
        let mut lease = self.journal.open().await?;
        let (inbox, receiver) = mpsc::channel(INBOX);
        let version = self.limits.core.server_version.clone().unwrap_or_default().into();
        let mut unsettled = std::mem::take(&mut lease.unsettled);
        let looks_on = self.read_only.is_some() && self.is_owned;
        let (mut core, mut first_effects) = core(
            &*self.journal,
            lease,
            self.limits.core.clone(),
            profiles,
            &self.read_only,
            looks_on,
        );
        core.restore_server_tokens(at_start(), self.mcp_servers.stored_tokens());
        self.mcp_servers.tell_lost_tokens(TokenSink::new(inbox.downgrade()));
        if self.read_only.is_some() && !looks_on {
            // The first client already has to see that interrupted turns have ended.
            for uri in unsettled.drain(..) {
                recover(&mut core, &self.journal, uri, &mut first_effects).await;
            }
        }
        let limits = Arc::new(self.limits);
        let contents = self.contents.unwrap_or_else(|| {
            Arc::new(MemoryContents::new(ContentLimits {
                session_bytes: limits.content_session_bytes,
                total_bytes: limits.content_total_bytes,
            }))
        });
        let tasks = TaskTracker::new();
        let handle = HostHandle {
            inbox: inbox.clone(),
            limits: Arc::clone(&limits),
            tasks: tasks.clone(),
            ready: Arc::new(AtomicBool::new(self.read_only.is_none())),
            problem: Arc::new(Mutex::new(self.read_only.clone())),
            stopping: CancellationToken::new(),
            version,
            catalogue: Arc::new(Catalogue {
                agents: listed,
                common,
                reading: tokio::sync::Mutex::new(()),
            }),
            files: Arc::clone(&self.files),
        };
        // Weak, so that the loop ends when every handle is gone.
        let handles = LoopHandles::new(inbox.downgrade(), tasks.clone(), limits);
        let task = HostTask::new(HostParts {
            core,
            first_effects,
            agents: Agents::new(agents),
            services: Services {
                journal: JournalRequests::new(Arc::clone(&self.journal)),
                completions: CompletionRequests::new(self.files),
                resources: ResourceRequests::new(self.resources),
                contents: ContentStore::new(contents),
                customizations: FollowedCustomizations::new(self.customizations),
                changes: FollowedChanges::new(self.changes),
                repositories: FollowedRepositories::new(self.repositories),
                mcp: Servers::new(self.mcp_servers),
                terminals: RunningTerminals::new(self.terminals),
                logs: self.logs.map(|sink| Logs::start(sink, inbox.downgrade(), &tasks)),
            },
            durability: Durability::new(
                self.journal,
                self.read_only,
                Arc::clone(&handle.ready),
                Arc::clone(&handle.problem),
            ),
            handles,
            fails_on: self.breaks,
        });
        if !unsettled.is_empty() {
            // The inbox is empty, so there is room.
            let _ = inbox.try_send(Message::Core(Input::Recover(unsettled)));
        }
        tasks.spawn(keep_current(
            Arc::clone(&handle.catalogue),
            inbox.downgrade(),
            handle.stopping.clone(),
        ));
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
    looks_on: bool,
) -> (HostCore, Vec<Effect>) {
    let mut effects = Vec::new();
    let Some(turns) = turns_of(journal).filter(|_| journal.keeps()) else {
        return (HostCore::new(config, agents, lease.last_seq), effects);
    };
    // A read-only host uses numbers that the owner of the journal never uses.
    let micros = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default();
    let last_seq = match read_only {
        Some(_) => lease.last_seq.max(Seq(micros)),
        None => lease.last_seq,
    };
    let storage = match read_only.as_deref().map(Into::into) {
        Some(reason) if looks_on => StorageMode::Observer { reason },
        Some(reason) => StorageMode::ReadOnly {
            reason,
            seq_limit: None,
        },
        None => StorageMode::ReadWrite,
    };
    let opening = Opening {
        last_seq,
        persisted_seq: lease.persisted_seq,
        sessions: lease.sessions,
        clients: lease.clients,
        root: lease.root,
        turns,
        storage,
        first_channel: 0,
    };
    let mut warnings = Vec::new();
    let core = HostCore::open(config, agents, opening, at_start(), &mut effects, &mut warnings);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    (core, effects)
}

/// Brings a session back before anything else happens, and closes what was interrupted in it.
async fn recover(core: &mut HostCore, journal: &Arc<dyn Journal>, uri: String, effects: &mut Vec<Effect>) {
    let mut asked = Vec::new();
    core.handle(at_start(), Input::Recover(vec![uri]), &mut asked);
    for effect in asked {
        let Effect::Journal(JournalCommand::Load { uri }) = effect else {
            effects.push(effect);
            continue;
        };
        let outcome = find(Arc::clone(journal), &uri).await;
        core.handle(at_start(), Input::Loaded { uri, outcome }, effects);
    }
}

/// The moment at which the monotonic clock of a host starts.
fn at_start() -> Now {
    Now {
        mono_ms: 0,
        wall: jiff::Timestamp::now(),
    }
}
