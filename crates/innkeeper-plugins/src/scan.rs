//! Everything a session gets: plugins, the directories of its workspaces and of the user, and
//! loose files, as one tree.

pub(crate) mod changes;
pub(crate) mod footprint;
pub(crate) mod parts;
pub(crate) mod rescan;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::containers::directory::{DirectorySource, Scope};
use crate::containers::plugin::PluginSource;
use crate::containers::well_known::{user_directories, workspace_directories};
use crate::scan::footprint::Footprint;
use crate::scan::parts::Parts;
use crate::tree::Tree;

/// The sources of a scan. No environment and no home directory is looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Plugins, in the order in which they are to be listed.
    pub plugins: Vec<PluginSource>,
    /// Marketplaces and directories of plugins. Each scan finds their plugins again.
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
    pub(crate) fn scopes(&self) -> Vec<(&Path, Scope)> {
        let workspaces = self.workspaces.iter().map(|path| (path.as_path(), Scope::Workspace));
        let home = self.home.as_deref().filter(|home| {
            let mut workspaces = self.workspaces.iter();
            !workspaces.any(|workspace| is_same(workspace, home))
        });
        workspaces.chain(home.map(|path| (path, Scope::User))).collect()
    }
}

/// Reads everything. The same files give the same tree, on every machine and after every restart.
///
/// It blocks, so call it where blocking is allowed.
pub fn scan(sources: &Sources) -> Tree {
    Parts::default().scan(sources)
}

/// Reads everything, and returns the directories that the result depends on: without a change in them, another scan
/// returns the same.
pub fn scan_traced(sources: &Sources) -> (Tree, Footprint) {
    let mut parts = Parts::default();
    let tree = parts.scan(sources);
    (tree, parts.footprint())
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}
