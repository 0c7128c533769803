//! Which customizations a session gets: those of the host, of its workspaces, of the user, and of its
//! clients.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ahp_types::state::Customization;
use async_trait::async_trait;
use futures_util::future::join_all;
use innkeeper_host::customizations::{Common, Customizations, Following, FoundSink, Hooks, NoHooks, Wanted};
use innkeeper_plugins::{Child, Container};
use innkeeper_std::sync::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use url::Url;

use crate::brought::{Brought, Part};
use crate::copies::Copies;
use crate::follow::{self, Follower};
use crate::place::{Place, Pool, Watched, configured, saved_into};
use crate::servers::ServerSettings;
use crate::wire;

/// How long it is waited at the start for what every session gets. What takes longer is told later.
const PATIENCE: Duration = Duration::from_millis(500);

/// Makes the hooks of a session.
pub type HooksOf = dyn Fn(&Brought) -> Arc<dyn Hooks> + Send + Sync;

/// Where customizations come from, besides workspaces and clients.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceDirectories {
    /// Plugins of the host, each by its own directory.
    pub plugins: Vec<PathBuf>,
    /// Marketplaces, and directories full of plugins.
    pub collections: Vec<PathBuf>,
    /// The home of whoever runs the host, if the customizations there are wanted.
    pub home: Option<PathBuf>,
    /// MCP servers that the configuration of the host declares itself.
    pub servers: Vec<Child>,
}

impl SourceDirectories {
    /// What a session without clients would get in these workspaces. Reads everything, and blocks.
    pub fn look(&self, workspaces: &[PathBuf]) -> Brought {
        let places = self.places(workspaces.to_vec());
        let scanned: Vec<_> = places.iter().map(Place::scan).collect();
        let own = self.own_servers();
        let mut brought = Brought::of(own.iter().chain(scanned.iter().flat_map(|scanned| &scanned.parts)));
        brought.notes = scanned.iter().flat_map(|scanned| scanned.notes.clone()).collect();
        brought.working_directories = workspaces.to_vec();
        brought
    }

    /// The directories of the user into which clients may save skills, agents and rules. They are
    /// published as writable, so whoever serves files has to let clients write there (CUS-23).
    pub fn saved_into(&self) -> Vec<PathBuf> {
        self.home.iter().flat_map(|home| saved_into(home)).collect()
    }

    fn host(&self) -> Option<Place> {
        let is_needed = !self.plugins.is_empty() || !self.collections.is_empty();
        is_needed.then(|| Place::Host {
            plugins: self.plugins.clone(),
            collections: self.collections.clone(),
        })
    }

    /// The servers of the configuration. They are nowhere to be looked for, and change only with the host.
    fn own_servers(&self) -> Vec<Part> {
        let servers = self.servers.iter().cloned();
        servers.map(|server| configured(Container::McpServer(server))).collect()
    }

    /// The places of a session, those that win over others of their kind first. Asks the file system
    /// which of them are the same.
    pub(crate) fn places(&self, workspaces: Vec<PathBuf>) -> Vec<Place> {
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
        let mut places: Vec<Place> = self.host().into_iter().collect();
        match &self.home {
            Some(home) if seen.contains(&real(home)) => places.push(Place::Together {
                workspaces,
                home: home.clone(),
            }),
            home => {
                places.extend(workspaces.into_iter().map(Place::Workspace));
                places.extend(home.clone().map(Place::Home));
            }
        }
        places
    }
}

/// Finds the customizations of sessions on this machine and through their clients.
pub struct LocalCustomizations {
    shared: Arc<Shared>,
    /// What every session gets is watched for as long as the host runs.
    _watched: Vec<Arc<Watched>>,
    common: Common,
    telling: AbortHandle,
}

/// What every follower uses.
pub(crate) struct Shared {
    pub(crate) directories: SourceDirectories,
    /// The servers of the configuration.
    pub(crate) own: Vec<Part>,
    pub(crate) pool: Pool,
    pub(crate) copies: Arc<Copies>,
    pub(crate) hooks: Arc<HooksOf>,
    /// `None` if MCP servers are not started here.
    pub(crate) servers: Option<ServerSettings>,
    /// Everybody who follows a session.
    pub(crate) followers: Mutex<Vec<Weak<Follower>>>,
}

impl LocalCustomizations {
    /// Starts to watch what every session gets. Copies of clients' plugins go below `cache`.
    pub async fn start(directories: SourceDirectories, cache: &Path) -> Self {
        Self::start_with(directories, cache, Arc::new(|_| Arc::new(NoHooks)), None).await
    }

    /// The same with hooks, and with MCP servers.
    pub async fn start_with(
        directories: SourceDirectories,
        cache: &Path,
        hooks: Arc<HooksOf>,
        servers: Option<ServerSettings>,
    ) -> Self {
        let copies = Arc::new(Copies::new(cache));
        let left = Arc::clone(&copies);
        let _ = tokio::task::spawn_blocking(move || left.sweep()).await;
        let pool = Pool::default();
        let places = directories.host().into_iter();
        let places = places.chain(directories.home.clone().map(Place::Home));
        let watched: Vec<Arc<Watched>> = places.map(|place| pool.watch(&place)).collect();
        let places: Vec<_> = watched.iter().map(|watched| watched.scanned()).collect();
        let read = places.clone();
        let reading = async move {
            for mut place in read {
                let _ = place.wait_for(Option::is_some).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, reading).await;
        let own = directories.own_servers();
        let (sender, common) = watch::channel(Arc::new(common(&own, &watched)));
        let weak = watched.iter().map(Arc::downgrade).collect();
        let telling = tokio::spawn(follow::tell_common(own.clone(), weak, places, sender)).abort_handle();
        Self {
            shared: Arc::new(Shared {
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

/// What every session gets, without children.
pub(crate) fn common(own: &[Part], watched: &[Arc<Watched>]) -> Vec<Customization> {
    let scanned: Vec<_> = watched
        .iter()
        .filter(|watched| watched.is_known())
        .map(|watched| watched.now())
        .collect();
    let brought = Brought::of(own.iter().chain(scanned.iter().flat_map(|scanned| &scanned.parts)));
    brought
        .parts
        .iter()
        .map(|part| wire::without_children(part.shown()))
        .collect()
}

#[async_trait]
impl Customizations for LocalCustomizations {
    fn follow(&self, wanted: Wanted, found: FoundSink) -> Following {
        let shared = Arc::clone(&self.shared);
        let jobs = wanted.client_plugins.iter();
        let jobs = jobs
            .map(|plugin| shared.copies.copy(plugin, &found.client_files()))
            .collect();
        let workspaces = wanted
            .working_directories
            .iter()
            .filter_map(|uri| path_of(uri))
            .collect();
        let task = tokio::spawn(follow::follow(shared, workspaces, jobs, found));
        Following::new(Ending(task.abort_handle()))
    }

    fn common(&self) -> Option<Common> {
        Some(self.common.clone())
    }

    async fn changed(&self, uris: &[String]) {
        let places = self.shared.pool.all();
        let paths: Vec<PathBuf> = uris.iter().filter_map(|uri| path_of(uri)).collect();
        let reading = places
            .iter()
            .flat_map(|place| paths.iter().map(|path| place.read_change(path.clone())));
        join_all(reading).await;
        drop(places);
        follow::all_reported(&self.shared).await;
    }
}

/// Where a working directory is, if it is on this machine.
fn path_of(uri: &str) -> Option<PathBuf> {
    let path = Url::parse(uri).ok()?.to_file_path().ok()?;
    // Without the slash at the end that some clients add.
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

/// Ends a task when it is dropped.
struct Ending(AbortHandle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}
