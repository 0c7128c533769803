//! Everything a session gets: plugins, the directories of its workspaces and of the user, and
//! loose files, as one tree.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::directory::{self, DirectorySource, Scope};
use crate::footprint::Footprint;
use crate::loose;
use crate::marketplace::{find_installed, find_traced};
use crate::plugin::{self, PluginSource};
use crate::tree::{Entry, Tree};
use crate::well_known::{plugin_directories, user_directories, workspace_directories};

/// Where to look. Nothing is looked up by itself: no environment, no home directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Plugins, in the order in which they are to be listed.
    pub plugins: Vec<PluginSource>,
    /// Marketplaces and directories full of plugins. What is in them is found anew by each scan.
    pub collections: Vec<PathBuf>,
    /// Workspaces, the first one first.
    pub workspaces: Vec<PathBuf>,
    /// The home of the user, if the user's customizations are wanted.
    pub home: Option<PathBuf>,
}

impl Sources {
    /// The directories that are read, published or watched, whether they exist or not.
    pub fn directories(&self) -> Vec<DirectorySource> {
        let mut sources: Vec<DirectorySource> = Vec::new();
        for workspace in &self.workspaces {
            sources.extend(workspace_directories(workspace));
        }
        if let Some(home) = &self.home {
            sources.extend(user_directories(home));
        }
        // A workspace can be the home: one directory is one entry.
        let mut seen = HashSet::new();
        sources.retain(|source| {
            let path = fs::canonicalize(&source.base).unwrap_or_else(|_| source.base.clone());
            seen.insert((path.join(&source.path), source.layout.contents()))
        });
        sources
    }

    /// Workspaces and home; a home that is a workspace is a workspace.
    fn scopes(&self) -> Vec<(&Path, Scope)> {
        let workspaces = self.workspaces.iter().map(|path| (path.as_path(), Scope::Workspace));
        let home = self.home.as_deref().filter(|home| {
            let mut workspaces = self.workspaces.iter();
            !workspaces.any(|workspace| is_same(workspace, home))
        });
        workspaces.chain(home.map(|path| (path, Scope::User))).collect()
    }
}

/// The plugins in the order in which they are listed: those that were named, those of collections,
/// then what was put into the directories of workspaces and of the user.
fn find_all_plugins(sources: &Sources, tree: &mut Tree, footprint: &mut Footprint) -> Vec<PluginSource> {
    let mut plugins = sources.plugins.clone();
    for collection in &sources.collections {
        let found = find_traced(collection, footprint);
        plugins.extend(found.sources);
        tree.notes.extend(found.notes);
    }
    for (path, scope) in sources.scopes() {
        for directory in plugin_directories(scope) {
            let found = find_installed(path, directory, scope.links(), footprint);
            plugins.extend(found.sources);
            tree.notes.extend(found.notes);
        }
    }
    plugins
}

/// Reads everything. The same files give the same tree, on every machine and after every restart.
///
/// This is what a benchmark of a cold scan measures; it blocks, so call it where blocking is
/// allowed.
pub fn scan(sources: &Sources) -> Tree {
    scan_traced(sources).0
}

/// Reads everything, and says which directories that depended on: while nothing happens in them,
/// another scan finds the same.
pub fn scan_traced(sources: &Sources) -> (Tree, Footprint) {
    let mut footprint = Footprint::default();
    let mut tree = Tree::default();
    let mut directories = Vec::new();
    let mut plugins = find_all_plugins(sources, &mut tree, &mut footprint);
    for source in sources.directories() {
        let loaded = directory::load_traced(&source, &mut footprint);
        directories.push(loaded.directory);
        let below = |path: &PathBuf| {
            let path = path.strip_prefix(&source.base).ok()?;
            Some(PluginSource::below(&source.base, path, source.scope.links()))
        };
        plugins.extend(loaded.plugins.iter().filter_map(below));
    }
    let mut ids = HashSet::new();
    for source in &plugins {
        if ids.insert(source.id()) {
            tree.entries
                .push(Entry::Plugin(plugin::load_traced(source, &mut footprint)));
        }
    }
    let mut servers = Vec::new();
    for (path, scope) in sources.scopes() {
        let found = loose::load(path, scope, &mut footprint);
        directories.extend(found.directories);
        servers.extend(found.servers);
        tree.notes.extend(found.notes);
    }
    let directories = directories.into_iter().map(Entry::Directory);
    let servers = servers.into_iter().map(Entry::McpServer);
    let rest = directories
        .chain(servers)
        .filter(|entry| ids.insert(entry.id().to_owned()));
    tree.entries.extend(rest);
    (tree, footprint)
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}
