//! A scan in parts, each of which is read again only after a change.
//!
//! A part is the result of one source: a plugin, a directory, the loose files of a workspace, a collection. It has the
//! directories that it was read from ([`Footprint`]), so that one changed file costs one part and not a whole scan. Parts
//! never read one another. So a scan with cached parts finds the same as one without, as long as every change is told
//! ([`Parts::forget`]). A caller that may have lost events forgets everything.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::containers::directory::{self, DirectorySource, LoadedDirectory, Scope};
use crate::containers::loose::{self, LooseFiles};
use crate::containers::plugin::{self, PluginSource};
use crate::containers::well_known::plugin_directories;
use crate::formats::marketplace::{Plugins, find_installed, find_traced};
use crate::note::Note;
use crate::scan::Sources;
use crate::scan::footprint::Footprint;
use crate::tree::{Container, Tree};

/// The parts that were read and are still valid.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    collections: PartCache<PathBuf, Plugins>,
    installed: PartCache<(PathBuf, &'static str), Plugins>,
    directories: PartCache<DirectorySource, LoadedDirectory>,
    /// By their ids; a source that differs is another part.
    plugins: PartCache<String, (PluginSource, Arc<Container>)>,
    loose: PartCache<(PathBuf, Scope), LooseFiles>,
}

impl Parts {
    /// Reads the parts that are not cached, and builds the tree.
    pub(crate) fn scan(&mut self, sources: &Sources) -> Tree {
        let mut tree = Tree::default();
        let mut directories = Vec::new();
        let mut troubles = Vec::new();
        let mut plugins = self.find_all_plugins(sources, &mut troubles, &mut tree.notes);
        for source in sources.directories() {
            let read = self.directory(&source);
            directories.push(read.entry);
            let below = |path: &PathBuf| {
                let path = path.strip_prefix(&source.base).ok()?;
                Some(PluginSource::below(&source.base, path, source.scope.links()))
            };
            plugins.extend(read.plugins.iter().filter_map(below));
        }
        let mut ids = HashSet::new();
        for source in plugins {
            let id = source.id();
            if ids.insert(id.clone()) {
                tree.entries.push(self.plugin(id, source));
            }
        }
        let mut servers = Vec::new();
        for (path, scope) in sources.scopes() {
            let read = self.loose(path, scope);
            directories.extend(read.directories);
            servers.extend(read.servers);
            tree.notes.extend(read.notes);
        }
        let rest = troubles.into_iter().chain(directories).chain(servers);
        tree.entries
            .extend(rest.filter(|entry| ids.insert(entry.id().to_owned())));
        self.drop_unused();
        tree
    }

    /// The plugins in the order in which they are listed: those that sources name, those of collections, then those in
    /// the directories of workspaces and of the user. Problems of a list become entries; other remarks become notes.
    fn find_all_plugins(
        &mut self,
        sources: &Sources,
        troubles: &mut Vec<Arc<Container>>,
        notes: &mut Vec<Note>,
    ) -> Vec<PluginSource> {
        let mut plugins = sources.plugins.clone();
        let mut take_in = |path: &Path, found: Plugins| {
            match found.trouble(path) {
                Some(trouble) => troubles.push(Arc::new(Container::Plugin(trouble))),
                None => notes.extend(found.notes),
            }
            plugins.extend(found.sources);
        };
        for collection in &sources.collections {
            let read = |footprint: &mut Footprint| find_traced(collection, footprint);
            let found = self.collections.get_or_read(collection.clone(), read);
            take_in(collection, found);
        }
        for (path, scope) in sources.scopes() {
            for directory in plugin_directories(scope) {
                let read = |footprint: &mut Footprint| find_installed(path, directory, scope.links(), footprint);
                let found = self.installed.get_or_read((path.to_owned(), *directory), read);
                take_in(&path.join(directory), found);
            }
        }
        plugins
    }

    fn directory(&mut self, source: &DirectorySource) -> LoadedDirectory {
        let read = |footprint: &mut Footprint| directory::load(source, footprint);
        self.directories.get_or_read(source.clone(), read)
    }

    fn plugin(&mut self, id: String, source: PluginSource) -> Arc<Container> {
        // A marketplace may describe it differently than before.
        self.plugins.forget_unless(&id, |(known, _)| *known == source);
        let (_, entry) = self.plugins.get_or_read(id, |footprint| {
            let entry = Arc::new(Container::Plugin(plugin::load_traced(&source, footprint)));
            (source, entry)
        });
        entry
    }

    fn loose(&mut self, path: &Path, scope: Scope) -> LooseFiles {
        let read = |footprint: &mut Footprint| loose::load(path, scope, footprint);
        self.loose.get_or_read((path.to_owned(), scope), read)
    }

    /// Drops the parts that depend on changed paths, so that they are read again.
    pub(crate) fn forget(&mut self, paths: &BTreeSet<PathBuf>) {
        self.forget_if(|part| paths.iter().any(|path| part.footprint.concerns(path)));
    }

    /// Drops the parts that were read from these directories before they were watched.
    pub(crate) fn forget_watched_late(&mut self, points: &BTreeSet<PathBuf>) {
        self.forget_if(|part| part.points.iter().any(|point| points.contains(point)));
    }

    /// Everything is read again.
    pub(crate) fn forget_all(&mut self) {
        *self = Self::default();
    }

    fn forget_if(&mut self, is_lost: impl Fn(&Origin) -> bool) {
        self.collections.forget_if(&is_lost);
        self.installed.forget_if(&is_lost);
        self.directories.forget_if(&is_lost);
        self.plugins.forget_if(&is_lost);
        self.loose.forget_if(&is_lost);
    }

    fn drop_unused(&mut self) {
        self.collections.drop_unused();
        self.installed.drop_unused();
        self.directories.drop_unused();
        self.plugins.drop_unused();
        self.loose.drop_unused();
    }

    fn origins(&self) -> impl Iterator<Item = &Origin> {
        let plugins = self.collections.origins().chain(self.installed.origins());
        let containers = self.directories.origins().chain(self.plugins.origins());
        plugins.chain(containers).chain(self.loose.origins())
    }

    /// The directories that the parts depend on.
    pub(crate) fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::default();
        self.origins().for_each(|origin| footprint.absorb(&origin.footprint));
        footprint
    }

    /// The directories that have to be watched for them.
    pub(crate) fn watch_points(&self) -> BTreeSet<PathBuf> {
        self.origins()
            .flat_map(|origin| origin.points.iter().cloned())
            .collect()
    }
}

/// Where a part came from.
#[derive(Debug)]
struct Origin {
    footprint: Footprint,
    points: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Part<T> {
    value: T,
    origin: Origin,
    is_used: bool,
}

/// Parts of one kind.
#[derive(Debug)]
struct PartCache<K, T>(HashMap<K, Part<T>>);

impl<K, T> Default for PartCache<K, T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash, T: Clone> PartCache<K, T> {
    fn get_or_read(&mut self, key: K, read: impl FnOnce(&mut Footprint) -> T) -> T {
        let part = self.0.entry(key).or_insert_with(|| {
            let mut footprint = Footprint::default();
            let value = read(&mut footprint);
            let points = footprint.watch_points();
            Part {
                value,
                origin: Origin { footprint, points },
                is_used: true,
            }
        });
        part.is_used = true;
        part.value.clone()
    }

    fn forget_unless(&mut self, key: &K, is_right: impl FnOnce(&T) -> bool) {
        if self.0.get(key).is_some_and(|part| !is_right(&part.value)) {
            self.0.remove(key);
        }
    }

    fn forget_if(&mut self, is_lost: impl Fn(&Origin) -> bool) {
        self.0.retain(|_, part| !is_lost(&part.origin));
    }

    /// Drops parts that no source uses any more.
    fn drop_unused(&mut self) {
        self.0.retain(|_, part| std::mem::take(&mut part.is_used));
    }

    fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.0.values().map(|part| &part.origin)
    }
}

#[cfg(test)]
mod tests;
