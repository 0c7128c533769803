//! What a session gets, with where each part of it came from.
//!
//! This is what everything else here is made of: what clients see ([`crate::wire`]), what agents use
//! ([`crate::kit`]), and the hooks that run.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahp_types::state::Customization;
use innkeeper_host::ClientId;
use innkeeper_plugins::{Child, Container, Note, Reader};

use crate::copies::Revision;
use crate::wire;

/// Everything that a session gets.
#[derive(Debug, Clone, Default)]
pub struct Brought {
    /// In the order in which it is published.
    pub parts: Vec<Part>,
    /// Remarks about files that belong to no container. What is wrong with such files is said by a part.
    pub notes: Vec<Note>,
    /// Where the session works, the primary directory first.
    pub working_directories: Vec<PathBuf>,
}

/// A container, or an MCP server that no container holds.
#[derive(Debug, Clone)]
pub struct Part {
    entry: Arc<Container>,
    /// The same in the words of the protocol.
    shown: Arc<Customization>,
    origin: Origin,
    reader: Reader,
    /// Keeps the copy of a client's plugin for as long as somebody may read it.
    _copy: Option<Arc<Revision>>,
}

/// Where something came from, which decides whether what it wants to run is run without a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The configuration of the host names it.
    Host,
    /// It is in the home of whoever runs the host.
    User,
    /// It is a plugin in the home, but in a directory into which clients may save: they are not whoever
    /// runs the host.
    Saved,
    /// It is in a workspace.
    Workspace(Arc<Path>),
    /// A client published it.
    Client(ClientId),
}

impl Origin {
    /// Whether whoever runs the host put it there: then its commands are theirs.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Host | Self::User)
    }
}

impl Brought {
    /// Puts together what several places have, the first of them first: plugins, then directories, then
    /// servers, and at the end what clients publish, because that comes and goes the most: what is new
    /// at the end is told by itself. What has the id of an earlier one is that one.
    pub(crate) fn of<'p>(parts: impl Iterator<Item = &'p Part>) -> Self {
        let mut ids = HashSet::new();
        let [mut plugins, mut directories, mut servers, mut of_clients] = [const { Vec::new() }; 4];
        for part in parts {
            if ids.insert(part.entry.id()) {
                let list = match part.entry() {
                    _ if matches!(part.origin, Origin::Client(_)) => &mut of_clients,
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
            parts: plugins,
            ..Self::default()
        }
    }
}

impl Part {
    pub(crate) fn new(entry: Container, origin: Origin, reader: Reader, copy: Option<Arc<Revision>>) -> Self {
        Self {
            shown: Arc::new(wire::entry(&entry)),
            entry: Arc::new(entry),
            origin,
            reader,
            _copy: copy,
        }
    }

    /// The container with its children.
    pub fn entry(&self) -> &Container {
        &self.entry
    }

    /// As clients see it, with nothing switched.
    pub fn shown(&self) -> &Customization {
        &self.shown
    }

    /// Where it came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The directory with its files, as a path of this machine: of a plugin, what `${PLUGIN_ROOT}`
    /// stands for.
    pub fn root(&self) -> PathBuf {
        self.reader.root()
    }

    /// Reads its files.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The file of a child, from the root.
    pub fn path_of(&self, child: &Child) -> PathBuf {
        // A URI of this machine has the very bytes of the name; one of a client has none here.
        let path = url::Url::parse(&child.uri)
            .ok()
            .filter(|_| !matches!(self.origin, Origin::Client(_)))
            .and_then(|uri| uri.to_file_path().ok());
        let inside = path.and_then(|path| path.strip_prefix(self.root()).ok().map(Path::to_owned));
        inside.unwrap_or_else(|| PathBuf::from(&child.path))
    }
}
