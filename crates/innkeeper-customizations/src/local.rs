//! Decides which customizations a session gets: those of the host, of its workspaces, of the user, and of its clients.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ahp_types::state::Customization;
use async_trait::async_trait;
use futures_util::future::join_all;
use innkeeper_host::customizations::{
    Common, CustomizationSources, Customizations, CustomizationsSink, Following, Hooks, NoHooks,
};
use innkeeper_plugins::{Child, Container};
use innkeeper_std::sync::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use url::Url;

use crate::copies::Copies;
use crate::discovered::{Discovered, DiscoveredContainer};
use crate::follow::{self, Follower};
use crate::servers::ServerSettings;
use crate::source::{Source, SourcePool, WatchedSource, configured, saved_into};
use crate::wire;

/// How long the start waits for the customizations of every session. Later ones are reported after their scan.
const START_TIMEOUT: Duration = Duration::from_millis(500);

/// Creates the hooks of a session.
pub type HooksOf = dyn Fn(&Discovered) -> Arc<dyn Hooks> + Send + Sync;

/// The sources of customizations, besides workspaces and clients.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceDirectories {
    /// Plugins of the host, each by its own directory.
    pub plugins: Vec<PathBuf>,
    /// Marketplaces, and directories of plugins.
    pub collections: Vec<PathBuf>,
    /// The home of the user who runs the host, if its customizations are used.
    pub home: Option<PathBuf>,
    /// MCP servers that the configuration of the host declares.
    pub servers: Vec<Child>,
}

impl SourceDirectories {
    /// Discovers the customizations of a session without clients in these workspaces. Reads all files, and blocks.
    pub fn look(&self, workspaces: &[PathBuf]) -> Discovered {
        let sources = self.sources(workspaces.to_vec());
        let scanned: Vec<_> = sources.iter().map(Source::scan).collect();
        let own = self.own_servers();
        let mut discovered = Discovered::of(own.iter().chain(scanned.iter().flat_map(|scanned| &scanned.containers)));
        discovered.notes = scanned.iter().flat_map(|scanned| scanned.notes.clone()).collect();
        discovered.working_directories = workspaces.to_vec();
        discovered
    }

    /// The directories of the user into which clients may save skills, agents and rules. They are published as
    /// writable, so the resource service has to let clients write there (CUS-23).
    pub fn saved_into(&self) -> Vec<PathBuf> {
        self.home.iter().flat_map(|home| saved_into(home)).collect()
    }

    fn host(&self) -> Option<Source> {
        let is_needed = !self.plugins.is_empty() || !self.collections.is_empty();
        is_needed.then(|| Source::Host {
            plugins: self.plugins.clone(),
            collections: self.collections.clone(),
        })
    }

    /// The servers of the configuration, which change only with the host.
    fn own_servers(&self) -> Vec<DiscoveredContainer> {
        let servers = self.servers.iter().cloned();
        servers
            .map(|server| configured(Arc::new(Container::McpServer(server))))
            .collect()
    }

    /// The sources of a session, in the order in which they win. Asks the file system which of them are the same.
    pub(crate) fn sources(&self, workspaces: Vec<PathBuf>) -> Vec<Source> {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut seen = Vec::new();
        let mut workspaces = workspaces;
        workspaces.retain(|workspace| {
            let real = real(workspace);
            let is_new = !seen.contains(&real);
            if is_new {
                seen.push(real);
            }
            is_new
        });
        let mut sources: Vec<Source> = self.host().into_iter().collect();
        match &self.home {
            Some(home) if seen.contains(&real(home)) => sources.push(Source::WorkspacesWithHome {
                workspaces,
                home: home.clone(),
            }),
            home => {
                sources.extend(workspaces.into_iter().map(Source::Workspace));
                sources.extend(home.clone().map(Source::Home));
            }
        }
        sources
    }
}

/// Discovers the customizations of sessions on this machine and through their clients.
pub struct LocalCustomizations {
    shared: Arc<DiscoveryContext>,
    /// The sources of every session, watched for as long as the host runs.
    _watched: Vec<Arc<WatchedSource>>,
    common: Common,
    telling: AbortHandle,
}

/// State that all followers share.
pub(crate) struct DiscoveryContext {
    pub(crate) directories: SourceDirectories,
    /// The servers of the configuration.
    pub(crate) own: Vec<DiscoveredContainer>,
    pub(crate) pool: SourcePool,
    pub(crate) copies: Arc<Copies>,
    pub(crate) hooks: Arc<HooksOf>,
    /// `None` if MCP servers are not started here.
    pub(crate) servers: Option<ServerSettings>,
    /// The followers of all sessions.
    pub(crate) followers: Mutex<Vec<Weak<Follower>>>,
}

impl LocalCustomizations {
    /// Starts to watch the sources of every session. Copies of clients' plugins go below `cache`.
    pub async fn start(directories: SourceDirectories, cache: &Path) -> Self {
        Self::start_with(directories, cache, Arc::new(|_| Arc::new(NoHooks)), None).await
    }

    /// Starts with hooks, and with MCP servers.
    pub async fn start_with(
        directories: SourceDirectories,
        cache: &Path,
        hooks: Arc<HooksOf>,
        servers: Option<ServerSettings>,
    ) -> Self {
        let copies = Arc::new(Copies::new(cache));
        let left = Arc::clone(&copies);
        let _ = tokio::task::spawn_blocking(move || left.sweep()).await;
        let pool = SourcePool::default();
        let sources = directories.host().into_iter();
        let sources = sources.chain(directories.home.clone().map(Source::Home));
        let watched: Vec<Arc<WatchedSource>> = sources.map(|source| pool.watch(&source)).collect();
        let sources: Vec<_> = watched.iter().map(|watched| watched.scanned()).collect();
        let read = sources.clone();
        let reading = async move {
            for mut source in read {
                let _ = source.wait_for(Option::is_some).await;
            }
        };
        let _ = tokio::time::timeout(START_TIMEOUT, reading).await;
        let own = directories.own_servers();
        let (sender, common) = watch::channel(Arc::new(common(&own, &watched)));
        let weak = watched.iter().map(Arc::downgrade).collect();
        let telling = tokio::spawn(follow::tell_common(own.clone(), weak, sources, sender)).abort_handle();
        Self {
            shared: Arc::new(DiscoveryContext {
                directories,
                own,
                pool,
                copies,
                hooks,
                servers,
                followers: Mutex::default(),
            }),
            _watched: watched,
            common,
            telling,
        }
    }
}

/// The containers of every session, without children.
pub(crate) fn common(own: &[DiscoveredContainer], watched: &[Arc<WatchedSource>]) -> Vec<Customization> {
    let scanned: Vec<_> = watched
        .iter()
        .filter(|watched| watched.is_known())
        .map(|watched| watched.now())
        .collect();
    let discovered = Discovered::of(own.iter().chain(scanned.iter().flat_map(|scanned| &scanned.containers)));
    discovered
        .containers
        .iter()
        .map(|part| wire::without_children(part.shown()))
        .collect()
}

#[async_trait]
impl Customizations for LocalCustomizations {
    fn follow(&self, sources: CustomizationSources, sink: CustomizationsSink) -> Following {
        let shared = Arc::clone(&self.shared);
        let jobs = sources.client_plugins.iter();
        let jobs = jobs
            .map(|plugin| shared.copies.copy(plugin, &sink.client_files()))
            .collect();
        let workspaces = sources
            .working_directories
            .iter()
            .filter_map(|uri| path_of(uri))
            .collect();
        let task = tokio::spawn(follow::follow(shared, workspaces, jobs, sink));
        Following::new(Ending(task.abort_handle()))
    }

    fn common(&self) -> Option<Common> {
        Some(self.common.clone())
    }

    async fn changed(&self, uris: &[String]) {
        let sources = self.shared.pool.all();
        let paths: Vec<PathBuf> = uris.iter().filter_map(|uri| path_of(uri)).collect();
        let reading = sources
            .iter()
            .flat_map(|source| paths.iter().map(|path| source.read_change(path.clone())));
        join_all(reading).await;
        drop(sources);
        follow::all_reported(&self.shared).await;
    }
}

/// Returns the path of a working directory, if it is on this machine.
fn path_of(uri: &str) -> Option<PathBuf> {
    let path = Url::parse(uri).ok()?.to_file_path().ok()?;
    // Removes the slash at the end that some clients add.
    Some(path.components().collect())
}

impl Drop for LocalCustomizations {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

impl fmt::Debug for LocalCustomizations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCustomizations")
            .field("directories", &self.shared.directories)
            .finish_non_exhaustive()
    }
}

/// Aborts a task when it is dropped.
struct Ending(AbortHandle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}
