//! Lists of plugins on disk: marketplaces, and directories of plugins.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::path::{Path, PathBuf};

use jsonc_parser::ast::{Object, Value as Node};

use crate::containers::plugin::PluginSource;
use crate::formats::detect::{detect, is_metadata_directory};
use crate::formats::locations::{Location, is_directory, last_name, resolve};
use crate::formats::manifest::{Declarations, declarations};
use crate::id::id;
use crate::limits::{MAX_INDEX_BYTES, MAX_NAME_CHARS, MAX_PLUGINS};
use crate::note::{Code, LoadState, Note, Notes};
use crate::read::json::{Document, plain};
use crate::read::scan_root::{Links, PathKind, ReadError, ScanRoot, label};
use crate::read::text::{decode, printable, readable};
use crate::read::uri::Base;
use crate::scan::footprint::Footprint;
use crate::tree::Plugin;

/// The paths of a marketplace's index; the first that exists counts.
pub(crate) const INDEXES: &[&str] = &[
    "marketplace.json",
    ".plugin/marketplace.json",
    ".claude-plugin/marketplace.json",
    ".codex-plugin/marketplace.json",
    ".cursor-plugin/marketplace.json",
    ".github/plugin/marketplace.json",
    ".agents/plugins/marketplace.json",
];

/// The entry of a plugin in a marketplace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The name in the marketplace.
    pub name: String,
    /// Replaces the plugin's own field.
    pub description: Option<String>,
    /// Replaces the plugin's own field.
    pub version: Option<String>,
    /// Whether the plugin has a manifest of its own. If not, the entry is the manifest.
    pub is_strict: bool,
    pub(crate) declared: Declarations,
}

/// The plugins below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plugins {
    /// The name of the marketplace, if there is one.
    pub marketplace: Option<String>,
    /// The plugins on this machine, in the order of the index, or of their paths.
    pub sources: Vec<PluginSource>,
    /// The names of those that are elsewhere and would have to be fetched.
    pub external: Vec<String>,
    /// The notes.
    pub notes: Vec<Note>,
    /// Whether all of it could be used.
    pub load: LoadState,
}

impl Plugins {
    /// An entry with the problem of the list, if there is one. The protocol has no container for plugins, so it looks
    /// like a plugin that could not be loaded: missing plugins have no entry that could report it (CUS-05).
    pub(crate) fn trouble(&self, path: &Path) -> Option<Plugin> {
        let load = match &self.load {
            LoadState::Loading | LoadState::Loaded => return None,
            LoadState::Degraded { message } if self.sources.is_empty() => LoadState::Error {
                message: message.clone(),
            },
            load => load.clone(),
        };
        let uri = Base::Path(path.to_owned()).uri();
        let name = self.marketplace.clone().filter(|name| !name.is_empty());
        Some(Plugin {
            id: id("marketplace", &[&uri]),
            name: name.unwrap_or_else(|| printable(&last_name(path), MAX_NAME_CHARS)),
            uri,
            display_name: None,
            description: None,
            version: None,
            icons: Vec::new(),
            client_id: None,
            format: None,
            manifest: None,
            load,
            children: Some(Vec::new()),
            notes: self.notes.clone(),
        })
    }
}

/// Finds the plugins of a directory: those its marketplace lists; or else itself, if it is a
/// plugin; or else the plugins in its directories, two levels deep.
pub fn find_plugins(path: &Path) -> Plugins {
    find_traced(path, &mut Footprint::default())
}

/// Finds the plugins of a directory and leaves behind which directories that depended on.
pub(crate) fn find_traced(path: &Path, footprint: &mut Footprint) -> Plugins {
    let mut notes = Notes::default();
    let mut plugins = Plugins::default();
    match ScanRoot::open(path, Links::Confined) {
        Ok(root) => {
            let mut indexes = INDEXES.iter().map(Path::new);
            if let Some(index) = indexes.find(|index| root.look(index) != PathKind::Missing) {
                read_index(&root, path, index, &mut plugins, &mut notes);
            } else if !is_metadata_directory(path) {
                if detect(&root).is_some() {
                    plugins.sources.push(PluginSource::new(path));
                } else {
                    let around = Around {
                        base: path,
                        directory: Path::new(""),
                        links: Links::Confined,
                    };
                    search(&root, around, &mut plugins, &mut notes, footprint);
                }
            }
            footprint.extend(root.into_touched());
        }
        Err(error) => {
            footprint.extend([path.to_owned()]);
            notes.warn(
                Code::RootUnreadable,
                ".",
                format!(
                    "the directory cannot be opened ({}): check that it exists",
                    error.kind()
                ),
            );
        }
    }
    (plugins.notes, plugins.load) = notes.finish();
    plugins
}

/// Finds the plugins that were put into a directory below a workspace or a home. It need not exist.
pub(crate) fn find_installed(base: &Path, directory: &str, links: Links, footprint: &mut Footprint) -> Plugins {
    let mut notes = Notes::default();
    let mut plugins = Plugins::default();
    if let Ok(root) = ScanRoot::open_within(base, Path::new(directory), links) {
        let place = Location {
            path: PathBuf::new(),
            look: root.look(Path::new("")),
        };
        if place.look != PathKind::Missing && is_directory(&place, &mut notes) {
            let around = Around {
                base,
                directory: Path::new(directory),
                links,
            };
            search(&root, around, &mut plugins, &mut notes, footprint);
        }
        footprint.extend(root.into_touched());
    } else {
        footprint.extend([base.join(directory)]);
    }
    (plugins.notes, plugins.load) = notes.finish();
    plugins
}

fn read_index(root: &ScanRoot, path: &Path, index: &Path, plugins: &mut Plugins, notes: &mut Notes) {
    let shown = label(index);
    let contents = match root.read(index, MAX_INDEX_BYTES) {
        Ok(contents) => contents,
        Err(refusal) => return notes.warn(Code::MarketplaceInvalid, &shown, refusal.explain()),
    };
    if contents.is_cut_off() {
        return notes.warn(Code::MarketplaceInvalid, &shown, "is larger than 8 MiB and is not read");
    }
    let (text, _) = decode(&contents.bytes, false);
    let document = match Document::read(&text) {
        Ok(document) => document,
        Err(why) => return notes.warn(Code::MarketplaceInvalid, &shown, why),
    };
    let top = document.object();
    plugins.marketplace = top
        .get_string("name")
        .map(|name| printable(&name.value, MAX_NAME_CHARS));
    let Some(entries) = top.get_array("plugins") else {
        return notes.warn(Code::MarketplaceInvalid, &shown, "has no list `plugins`: add one");
    };
    let base = top
        .get_object("metadata")
        .and_then(|metadata| metadata.get_string("pluginRoot"));
    let base = base.map_or(Some(PathBuf::new()), |base| resolve(&base.value));
    let Some(base) = base else {
        return notes.warn(
            Code::PathEscape,
            &shown,
            "its `pluginRoot` leads out of the marketplace: correct it",
        );
    };
    if entries.elements.len() > MAX_PLUGINS {
        notes.warn(
            Code::Limit,
            &shown,
            format!("lists more than {MAX_PLUGINS} plugins; the rest is left out"),
        );
    }
    // The names of those that are listed, by their ids.
    let mut listed = HashMap::new();
    for entry in entries.elements.iter().take(MAX_PLUGINS) {
        let Node::Object(entry) = entry else {
            notes.warn(
                Code::MarketplaceEntryInvalid,
                &shown,
                "has an entry that is not an object, which is left out",
            );
            continue;
        };
        let Some(source) = read_entry(root, path, &base, entry, &shown, plugins, notes) else {
            continue;
        };
        let name = source.announce().name;
        match listed.entry(source.id()) {
            MapEntry::Vacant(place) => {
                place.insert(name);
                plugins.sources.push(source);
            }
            MapEntry::Occupied(first) => notes.warn(
                Code::DuplicateName,
                &shown,
                format!(
                    "the plugin `{name}` is left out, because `{}` has the same directory and so is the same plugin: \
                     give each its own, or set `strict` to false where the entry says what belongs to it",
                    first.get()
                ),
            ),
        }
    }
}

/// Reads one entry. `None` if there is no plugin on this machine; the notes say why.
fn read_entry(
    root: &ScanRoot,
    path: &Path,
    base: &Path,
    entry: &Object<'_>,
    shown: &str,
    plugins: &mut Plugins,
    notes: &mut Notes,
) -> Option<PluginSource> {
    let text = |key: &str| entry.get_string(key).map(|text| readable(&text.value, 4096));
    let name = text("name")
        .map(|name| printable(&name, MAX_NAME_CHARS))
        .filter(|name| !name.is_empty());
    let Some(name) = name else {
        notes.warn(
            Code::MarketplaceEntryInvalid,
            shown,
            "has an entry without a name, which is left out",
        );
        return None;
    };
    let written = match entry.get("source").map(|source| &source.value) {
        Some(Node::StringLit(source)) => Some(source.value.to_string()),
        Some(Node::Object(source)) => local_path(source),
        // Some leave it out if the plugin's directory has the same name.
        None => Some(format!("./{name}")),
        Some(_) => None,
    };
    let Some(written) = written else {
        plugins.external.push(name.clone());
        notes.info(
            Code::MarketplaceExternal,
            shown,
            format!("the plugin `{name}` is not on this machine and is not fetched"),
        );
        return None;
    };
    let Some(relative) = resolve(&written).map(|relative| base.join(relative)) else {
        notes.warn(
            Code::PathEscape,
            shown,
            format!("the plugin `{name}` lies outside the marketplace and is left out"),
        );
        return None;
    };
    match root.look(&relative) {
        PathKind::Directory => {}
        PathKind::Outside => {
            notes.warn(
                Code::PathEscape,
                shown,
                format!("the plugin `{name}` is a link out of the marketplace and is left out"),
            );
            return None;
        }
        _ => {
            notes.warn(
                Code::ManifestPathMissing,
                shown,
                format!("the directory of the plugin `{name}` does not exist: create it, or remove the entry"),
            );
            return None;
        }
    }
    let listing = Listing {
        name,
        description: text("description").filter(|text| !text.is_empty()),
        version: text("version").filter(|text| !text.is_empty()),
        is_strict: entry.get_boolean("strict").is_none_or(|strict| strict.value),
        declared: entry_declarations(entry, shown, notes),
    };
    Some(PluginSource::below(path, &relative, Links::Confined).listed_as(listing))
}

/// The path of a source that is an object, if it is on this machine.
fn local_path(source: &Object<'_>) -> Option<String> {
    let kind = source.get_string("source").map(|kind| kind.value.to_string());
    let is_local = kind
        .as_deref()
        .is_none_or(|kind| matches!(kind, "local" | "path" | "directory"));
    let is_elsewhere = ["url", "repo", "repository", "package"]
        .iter()
        .any(|key| source.get(key).is_some());
    let path = source.get_string("path")?;
    (is_local && !is_elsewhere).then(|| path.value.to_string())
}

/// The locations that an entry declares, read as if it were a manifest.
fn entry_declarations(entry: &Object<'_>, shown: &str, notes: &mut Notes) -> Declarations {
    let text = plain(&Node::Object(entry.clone())).to_string();
    match Document::read(&text) {
        Ok(document) => declarations(&document, shown, notes),
        Err(_) => Declarations::default(),
    }
}

/// Maximum depth of plugins without an index.
const SEARCH_LEVELS: usize = 2;

/// The directory to search for plugins, and the boundary that must not be left.
#[derive(Clone, Copy)]
struct Around<'p> {
    base: &'p Path,
    /// From there to the directory that is searched.
    directory: &'p Path,
    links: Links,
}

impl Around<'_> {
    /// Whether a directory is a plugin, as far as it can be opened.
    fn has_plugin(self, candidate: &Path, footprint: &mut Footprint) -> bool {
        let Ok(inner) = ScanRoot::open_within(self.base, &self.directory.join(candidate), self.links) else {
            return false;
        };
        let is_plugin = detect(&inner).is_some();
        footprint.extend(inner.into_touched());
        is_plugin
    }
}

fn search(root: &ScanRoot, around: Around<'_>, plugins: &mut Plugins, notes: &mut Notes, footprint: &mut Footprint) {
    let mut level = vec![PathBuf::new()];
    'levels: for _ in 0..SEARCH_LEVELS {
        let mut next = Vec::new();
        for directory in level {
            let entries = match root.list(&directory) {
                Ok(entries) => entries,
                Err(ReadError::Missing) => continue,
                // Noted once, at the end.
                Err(ReadError::Exhausted) => break 'levels,
                Err(refusal) => {
                    notes.warn(refusal.code(), &label(&directory), refusal.explain());
                    continue;
                }
            };
            for entry in entries.into_iter().filter(|entry| entry.may_be_directory) {
                let candidate = directory.join(&entry.name);
                let is_hidden = entry.name.as_encoded_bytes().starts_with(b".");
                if is_hidden || entry.name == "node_modules" {
                    continue;
                }
                match root.look(&candidate) {
                    PathKind::Directory => {}
                    PathKind::Outside => {
                        notes.warn(Code::PathEscape, &label(&candidate), ReadError::Outside.explain());
                        continue;
                    }
                    PathKind::Unreadable => {
                        let why = "cannot be read: check its permissions";
                        notes.warn(Code::Unreadable, &label(&candidate), why);
                        continue;
                    }
                    PathKind::File | PathKind::Special | PathKind::Missing => continue,
                }
                if plugins.sources.len() >= MAX_PLUGINS {
                    notes.warn(Code::Limit, ".", format!("has more than {MAX_PLUGINS} plugins"));
                    break 'levels;
                }
                if around.has_plugin(&candidate, footprint) {
                    let path = join(around.directory, &candidate);
                    plugins
                        .sources
                        .push(PluginSource::below(around.base, &path, around.links));
                } else {
                    next.push(candidate);
                }
            }
        }
        level = next;
    }
    if root.is_exhausted() {
        let why = "holds more directories than are searched, so plugins may be missing: split it up";
        notes.warn(Code::Limit, ".", why);
    }
    plugins.sources.sort_by(|a, b| a.path().cmp(b.path()));
}

/// One path after another; joining with nothing would leave a slash at the end.
fn join(directory: &Path, candidate: &Path) -> PathBuf {
    directory.components().chain(candidate.components()).collect()
}
