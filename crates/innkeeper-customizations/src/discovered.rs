//! Customizations as they are discovered, with the origin of each container.
//!
//! The data goes through these types in this order:
//!
//! 1. [`innkeeper_plugins::Tree`]: the files of one source, as containers with children.
//! 2. [`Discovered`]: the same with origins. One for each scan of a source, and one that merges those of a session.
//! 3. [`innkeeper_host::customizations::CustomizationSet`]: the entries that clients see, and the view for agents
//!    (`set.rs`, `wire.rs`).
//! 4. [`innkeeper_host::customizations::EnablementStore`], in the core: the decisions of users, from which the core
//!    computes the disabled ids of a session.
//! 5. [`innkeeper_host::customizations::TurnCustomizations`]: the enabled part of a set, for one turn. The host's
//!    `CustomizationsWatch` waits for it.
//! 6. `TurnContext` of the agents: the rules, skills and custom agent that a model's turn uses.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahp_types::state::Customization;
use innkeeper_host::ClientId;
use innkeeper_plugins::{Child, Container, Note, Reader};

use crate::copies::Revision;
use crate::trust::{Subject, TrustKind};
use crate::wire;

/// Customizations of one source at one scan, or of a session.
#[derive(Debug, Clone, Default)]
pub struct Discovered {
    /// The containers, in the order in which they are published.
    pub containers: Vec<DiscoveredContainer>,
    /// Remarks about files that belong to no container. Problems of other files are in the container.
    pub notes: Vec<Note>,
    /// The working directories of the session, the primary one first. Empty for a source.
    pub working_directories: Vec<PathBuf>,
    /// The number of the scan, counted from 1. 0 for a preview and for a session.
    pub(crate) scan: u64,
}

/// A plugin, a directory, or an MCP server outside of both, with its origin.
#[derive(Debug, Clone)]
pub struct DiscoveredContainer {
    entry: Arc<Container>,
    /// The entry that clients see.
    shown: Arc<Customization>,
    origin: Origin,
    reader: Reader,
    /// Retains the copy of a client's plugin while it may be read.
    _copy: Option<Arc<Revision>>,
}

/// The origin of a container. It decides whether commands run without asking the user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The configuration of the host.
    Host,
    /// The home directory of the user who runs the host.
    User,
    /// A plugin in the home directory, but in a directory that clients may write to. Clients are not the user who runs
    /// the host. The path is the directory of the plugin.
    Saved(Arc<Path>),
    /// A workspace: its own files, and the plugins in it.
    Workspace(Arc<Path>),
    /// A client that published a plugin.
    Client {
        /// The client.
        client: ClientId,
        /// The URI under which the client published it.
        uri: String,
    },
}

impl Origin {
    /// Whether the user who runs the host put it there, so that its commands are trusted.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Host | Self::User)
    }

    /// Whether it is a plugin of a client, published or saved.
    pub(crate) fn is_of_client(&self) -> bool {
        matches!(self, Self::Saved(_) | Self::Client { .. })
    }

    /// The workspace that it came with.
    pub(crate) fn workspace(&self) -> Option<&Path> {
        match self {
            Self::Workspace(path) => Some(path),
            Self::Host | Self::User | Self::Saved(_) | Self::Client { .. } => None,
        }
    }

    /// The subject about which the user is asked before commands of this origin run; `None` if they are trusted.
    pub(crate) fn subject(&self, kind: TrustKind) -> Option<Subject> {
        match self {
            Self::Host | Self::User => None,
            Self::Workspace(path) | Self::Saved(path) => Some(Subject {
                kind,
                place: path.to_string_lossy().into_owned(),
            }),
            Self::Client { client, uri } => Some(Subject::published(kind, client, uri)),
        }
    }
}

impl Discovered {
    /// Merges the containers of several sources: plugins, then directories, then servers, each in the order of the
    /// sources. Those of clients come last, because they change the most and an addition at the end needs the smallest
    /// update. Of containers with the same id the first one counts.
    pub(crate) fn of<'p>(parts: impl Iterator<Item = &'p DiscoveredContainer>) -> Self {
        let mut ids = HashSet::new();
        let [mut plugins, mut directories, mut servers, mut of_clients] = [const { Vec::new() }; 4];
        for part in parts {
            if ids.insert(part.entry.id()) {
                let list = match part.entry() {
                    _ if matches!(part.origin, Origin::Client { .. }) => &mut of_clients,
                    Container::Plugin(_) => &mut plugins,
                    Container::Directory(_) => &mut directories,
                    Container::McpServer(_) => &mut servers,
                };
                list.push(part.clone());
            }
        }
        plugins.append(&mut directories);
        plugins.append(&mut servers);
        plugins.append(&mut of_clients);
        Self {
            containers: plugins,
            ..Self::default()
        }
    }

    /// Returns the containers in the order in which their names win: a workspace wins over the user, and both over
    /// plugins, whose names are longer (profile B.3).
    pub(crate) fn by_precedence(&self) -> impl Iterator<Item = &DiscoveredContainer> {
        let is_plugin = |part: &&DiscoveredContainer| matches!(part.entry(), Container::Plugin(_));
        let directories = self.containers.iter().filter(move |part| !is_plugin(part));
        directories.chain(self.containers.iter().filter(is_plugin))
    }
}

impl DiscoveredContainer {
    pub(crate) fn new(entry: Arc<Container>, origin: Origin, reader: Reader, copy: Option<Arc<Revision>>) -> Self {
        Self {
            shown: Arc::new(wire::entry(&entry)),
            entry,
            origin,
            reader,
            _copy: copy,
        }
    }

    /// The container with its children.
    pub fn entry(&self) -> &Container {
        &self.entry
    }

    /// The entry that clients see, without enablement.
    pub(crate) fn shown(&self) -> &Arc<Customization> {
        &self.shown
    }

    /// Its origin.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The directory with its files on this machine: for a plugin, the value of `${PLUGIN_ROOT}`.
    pub fn root(&self) -> PathBuf {
        self.reader.root()
    }

    /// Reads its files.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The file of a child, relative to the root.
    pub fn path_of(&self, child: &Child) -> PathBuf {
        // A URI of this machine has the exact bytes of the name. A URI of a client names no file here.
        let path = url::Url::parse(&child.uri)
            .ok()
            .filter(|_| !matches!(self.origin, Origin::Client { .. }))
            .and_then(|uri| uri.to_file_path().ok());
        let inside = path.and_then(|path| path.strip_prefix(self.root()).ok().map(Path::to_owned));
        inside.unwrap_or_else(|| PathBuf::from(&child.path))
    }
}
