//! Sources of customizations: each is read and watched once, however many sessions share it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use innkeeper_plugins::{
    Container, Directory, Layout, PluginSource, Reader, Scope, Sources, Tree, TreeWatcher, scan, user_directories,
};
use innkeeper_std::sync::Mutex;
use tokio::sync::{oneshot, watch};
use url::Url;

use crate::background::drop_in_background;
use crate::discovered::{Discovered, DiscoveredContainer, Origin};

/// A source of customizations. Sessions with an equal source share its scans.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The plugins and collections of the host's configuration.
    Host {
        plugins: Vec<PathBuf>,
        collections: Vec<PathBuf>,
    },
    /// The home of the user.
    Home(PathBuf),
    /// A workspace.
    Workspace(PathBuf),
    /// Workspaces of which one is the home. Its customizations are listed once.
    WorkspacesWithHome { workspaces: Vec<PathBuf>, home: PathBuf },
}

impl Source {
    fn sources(&self) -> Sources {
        match self {
            Self::Host { plugins, collections } => Sources {
                plugins: plugins.iter().map(PluginSource::new).collect(),
                collections: collections.clone(),
                ..Sources::default()
            },
            Self::Home(home) => Sources {
                home: Some(home.clone()),
                ..Sources::default()
            },
            Self::Workspace(workspace) => Sources {
                workspaces: vec![workspace.clone()],
                ..Sources::default()
            },
            Self::WorkspacesWithHome { workspaces, home } => Sources {
                workspaces: workspaces.clone(),
                home: Some(home.clone()),
                ..Sources::default()
            },
        }
    }

    /// Reads the source. Blocks.
    pub(crate) fn scan(&self) -> Discovered {
        self.scanned(scan(&self.sources()))
    }

    /// The containers to show while the source is read (CUS-04, CUS-05). Looks at the directories' paths.
    fn announce(&self) -> Discovered {
        let sources = self.sources();
        let plugins = sources
            .plugins
            .iter()
            .map(|source| Container::Plugin(source.announce()));
        let directories = sources.directories();
        let directories = directories.iter().map(|source| Container::Directory(source.announce()));
        self.scanned(Tree {
            entries: plugins.chain(directories).map(Arc::new).collect(),
            notes: Vec::new(),
        })
    }

    fn scanned(&self, tree: Tree) -> Discovered {
        Discovered {
            containers: tree.entries.into_iter().map(|entry| self.container(entry)).collect(),
            notes: tree.notes,
            ..Discovered::default()
        }
    }

    fn container(&self, entry: Arc<Container>) -> DiscoveredContainer {
        let path = path_of(&entry);
        let (base, origin, scope) = self.origin(&entry, &path);
        let reader = match (&origin, &*entry) {
            (Origin::Host, _) => Reader::of_plugin(path),
            // The commands of a server start in the directory of the file that declares it.
            (_, Container::McpServer(_)) => Reader::within(base, "", scope),
            _ => {
                let inside = path.strip_prefix(base).unwrap_or_else(|_| Path::new("")).to_owned();
                Reader::within(base, inside, scope)
            }
        };
        DiscoveredContainer::new(entry, origin, reader, None)
    }

    /// The base directory, the origin and the scope of a container.
    fn origin(&self, entry: &Container, path: &Path) -> (&Path, Origin, Scope) {
        match self {
            Self::Host { .. } => (Path::new(""), Origin::Host, Scope::Workspace),
            Self::Home(home) => {
                let is_saved = matches!(entry, Container::Plugin(_)) && is_saved(home, path);
                let root = || path.components().collect::<PathBuf>();
                let origin = if is_saved {
                    Origin::Saved(root().into())
                } else {
                    Origin::User
                };
                (home, origin, Scope::User)
            }
            Self::Workspace(workspace) => (
                workspace,
                Origin::Workspace(workspace.as_path().into()),
                Scope::Workspace,
            ),
            Self::WorkspacesWithHome { workspaces, home } => {
                // Only directories that no workspace has are the user's.
                if let Container::Directory(Directory { scope: Scope::User, .. }) = entry {
                    return (home, Origin::User, Scope::User);
                }
                let around = workspaces.iter().filter(|workspace| path.starts_with(workspace));
                let nearest = around.max_by_key(|workspace| workspace.as_os_str().len());
                let workspace = nearest.unwrap_or(home);
                (
                    workspace,
                    Origin::Workspace(workspace.as_path().into()),
                    Scope::Workspace,
                )
            }
        }
    }
}

/// A container that the configuration of the host declares. Its paths are relative to the configuration file.
pub(crate) fn configured(entry: Arc<Container>) -> DiscoveredContainer {
    let file = path_of(&entry);
    let reader = Reader::within(file.parent().unwrap_or(&file), "", Scope::User);
    DiscoveredContainer::new(entry, Origin::Host, reader, None)
}

/// Returns the path of a container on this machine.
fn path_of(entry: &Container) -> PathBuf {
    let uri = match entry {
        Container::Plugin(plugin) => &plugin.uri,
        Container::Directory(directory) => &directory.uri,
        Container::McpServer(server) => &server.uri,
    };
    let path = Url::parse(uri).ok().and_then(|uri| uri.to_file_path().ok());
    path.unwrap_or_default()
}

/// Whether a plugin is in a directory of the user into which clients may save.
fn is_saved(home: &Path, plugin: &Path) -> bool {
    saved_into(home).any(|directory| plugin.starts_with(directory))
}

/// The directories of the user into which clients may save skills, agents and rules. Not hooks, because a saved hook
/// would run a command (CUS-28).
pub(crate) fn saved_into(home: &Path) -> impl Iterator<Item = PathBuf> {
    let directories = user_directories(home).into_iter();
    let harmless = directories.filter(|directory| directory.layout != Layout::Hooks);
    harmless.map(|directory| directory.full_path())
}

/// A source that is read and watched until no session uses it.
#[derive(Debug)]
pub(crate) struct WatchedSource {
    source: Source,
    scanned: watch::Receiver<Option<Arc<Discovered>>>,
    watcher: Option<TreeWatcher>,
}

impl WatchedSource {
    fn start(source: Source) -> Self {
        let (sender, scanned) = watch::channel(None);
        let read = source.clone();
        let failed = sender.clone();
        let mut number = 0;
        let watcher = TreeWatcher::start(source.sources(), move |tree| {
            number += 1;
            let scanned = Discovered {
                scan: number,
                ..read.scanned(tree)
            };
            sender.send_replace(Some(Arc::new(scanned)));
        });
        let watcher = match watcher {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                // Without a watcher, one scan is better than none.
                tracing::warn!(%error, "customizations cannot be watched; they stay as they are now");
                failed.send_replace(Some(Arc::new(source.scan())));
                None
            }
        };
        Self {
            source,
            scanned,
            watcher,
        }
    }

    /// Returns a receiver of later scans.
    pub(crate) fn scanned(&self) -> watch::Receiver<Option<Arc<Discovered>>> {
        self.scanned.clone()
    }

    /// Returns the last scan, or before the first one a preview, which looks at files.
    pub(crate) fn now(&self) -> Arc<Discovered> {
        let known = self.scanned.borrow().clone();
        known.unwrap_or_else(|| Arc::new(self.source.announce()))
    }

    /// The number of the last scan.
    pub(crate) fn number(&self) -> u64 {
        self.scanned.borrow().as_ref().map_or(0, |scanned| scanned.scan)
    }

    /// Reads the parts again that depend on a changed path. Completes after the scan.
    pub(crate) async fn read_change(&self, path: PathBuf) {
        let Some(watcher) = &self.watcher else {
            return;
        };
        let (done, is_done) = oneshot::channel();
        watcher.changed(path, move || {
            let _ = done.send(());
        });
        // A watcher that has ended does not answer.
        let _ = is_done.await;
    }

    /// Whether it was read at least once.
    pub(crate) fn is_known(&self) -> bool {
        self.scanned.borrow().is_some()
    }
}

impl Drop for WatchedSource {
    fn drop(&mut self) {
        // The drop waits for a running scan.
        if let Some(watcher) = self.watcher.take() {
            drop_in_background(watcher);
        }
    }
}

/// The sources that sessions use.
#[derive(Debug, Default)]
pub(crate) struct SourcePool {
    watched: Mutex<HashMap<Source, Weak<WatchedSource>>>,
}

impl SourcePool {
    /// Returns the sources in use.
    pub(crate) fn all(&self) -> Vec<Arc<WatchedSource>> {
        let watched = self.watched.lock();
        watched.values().filter_map(Weak::upgrade).collect()
    }

    /// Watches a source, or shares the watch that exists.
    pub(crate) fn watch(&self, source: &Source) -> Arc<WatchedSource> {
        let mut watched = self.watched.lock();
        watched.retain(|_, watched| watched.strong_count() > 0);
        if let Some(watched) = watched.get(source).and_then(Weak::upgrade) {
            return watched;
        }
        let new = Arc::new(WatchedSource::start(source.clone()));
        watched.insert(source.clone(), Arc::downgrade(&new));
        new
    }
}
