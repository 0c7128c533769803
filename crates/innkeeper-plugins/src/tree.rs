//! The result of a scan: containers with their children, in a fixed order, with stable ids.
//!
//! The host turns these into the customizations of the protocol. Fields that are not published, such as commands and
//! environments (CUS-27), are for running them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::components::{Agent, HookFile, McpServer, Prompt, Rule, Skill};
use crate::containers::directory::Scope;
use crate::formats::detect::Format;
use crate::note::{LoadState, Note};
use crate::read::text::TextRange;

/// The result of a scan, in the order in which it is published.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    /// Containers, and MCP servers outside of containers. Scans share the entries that did not change.
    pub entries: Vec<Arc<Container>>,
    /// Remarks about files that belong to no container. Problems are in the notes of a container.
    pub notes: Vec<Note>,
}

impl Tree {
    /// Whether both trees have the same entries in the same order. Most entries of two scans are shared.
    pub(crate) fn has_entries_of(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Arc<Container>, &Arc<Container>)| Arc::ptr_eq(one, other) || one == other;
        self.entries.len() == other.entries.len() && self.entries.iter().zip(&other.entries).all(is_same)
    }
}

/// A top-level entry (CUS-01).
#[derive(Debug, Clone, PartialEq)]
pub enum Container {
    /// A plugin.
    Plugin(Plugin),
    /// A directory of customizations of one kind.
    Directory(Directory),
    /// An MCP server of a workspace, a user or the host's configuration.
    McpServer(Child),
}

impl Container {
    /// The id by which actions name the entry.
    pub fn id(&self) -> &str {
        match self {
            Self::Plugin(plugin) => &plugin.id,
            Self::Directory(directory) => &directory.id,
            Self::McpServer(server) => &server.id,
        }
    }

    /// The children, if the entry is a container that was read.
    pub fn children(&self) -> &[Child] {
        match self {
            Self::Plugin(plugin) => plugin.children.as_deref().unwrap_or_default(),
            Self::Directory(directory) => directory.children.as_deref().unwrap_or_default(),
            Self::McpServer(_) => &[],
        }
    }
}

/// A plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    /// The same after every scan and restart.
    pub id: String,
    /// Its directory, or the URI under which a client published it.
    pub uri: String,
    /// Its name, from the manifest, the marketplace or the directory.
    pub name: String,
    /// A friendlier name, where the manifest has one.
    pub display_name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// The version of the manifest, which is not interpreted.
    pub version: Option<String>,
    /// Its logo.
    pub icons: Vec<Icon>,
    /// The client that published it.
    pub client_id: Option<String>,
    /// Its format; `None` while it is not known.
    pub format: Option<Format>,
    /// The manifest that was used, relative to the plugin.
    pub manifest: Option<String>,
    /// Whether it could be read.
    pub load: LoadState,
    /// Its children; `None` until it was read (CUS-04).
    pub children: Option<Vec<Child>>,
    /// The load state.
    pub notes: Vec<Note>,
}

/// A directory of customizations of one kind. It need not exist (CUS-06).
#[derive(Debug, Clone, PartialEq)]
pub struct Directory {
    /// The same after every scan and restart.
    pub id: String,
    /// Where it is or would be.
    pub uri: String,
    /// Its path from the workspace, or from `~`. For users: a workspace may be called `~` too.
    pub name: String,
    /// Its owner.
    pub scope: Scope,
    /// The kind of its children.
    pub contents: Kind,
    /// Whether new customizations can be saved into it.
    pub writable: bool,
    /// Whether it exists.
    pub exists: bool,
    /// Whether it could be read.
    pub load: LoadState,
    /// Its children; `None` until it was read (CUS-04).
    pub children: Option<Vec<Child>>,
    /// The load state.
    pub notes: Vec<Note>,
}

/// The kinds of children, in the order in which they are listed (P15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A custom agent.
    Agent,
    /// A skill or a command.
    Skill,
    /// A prompt file.
    Prompt,
    /// A rule or an instruction file.
    Rule,
    /// A file of hooks.
    Hook,
    /// An MCP server.
    McpServer,
}

impl Kind {
    /// The name of the kind in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Skill => "skill",
            Self::Prompt => "prompt",
            Self::Rule => "rule",
            Self::Hook => "hook",
            Self::McpServer => "mcpServer",
        }
    }
}

/// One customization.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The same after every scan and restart, also when its file is edited.
    pub id: String,
    /// The file.
    pub uri: String,
    /// The file, relative to its container.
    pub path: String,
    /// Its name, without that of its plugin.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// Its position in the file, if the file contains more than it (CUS-03).
    pub range: Option<TextRange>,
    /// Its icons.
    pub icons: Vec<Icon>,
    /// The component.
    pub component: Component,
    /// The path of its file without symlinks, if known. It is not published. Two children that are one file are used
    /// once, so a change of this path is a change of the tree.
    pub(crate) real: Option<PathBuf>,
}

impl Child {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self.component {
            Component::Agent(_) => Kind::Agent,
            Component::Skill(_) => Kind::Skill,
            Component::Prompt(_) => Kind::Prompt,
            Component::Rule(_) => Kind::Rule,
            Component::Hook(_) => Kind::Hook,
            Component::McpServer(_) => Kind::McpServer,
        }
    }
}

/// A component, with the fields of its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Component {
    /// A custom agent.
    Agent(Agent),
    /// A skill or a command.
    Skill(Skill),
    /// A prompt file.
    Prompt(Prompt),
    /// A rule or an instruction file.
    Rule(Rule),
    /// A file of hooks.
    Hook(HookFile),
    /// An MCP server.
    McpServer(McpServer),
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Icon {
    /// Its URI.
    pub src: String,
    /// Its type, by its file name.
    pub mime_type: Option<String>,
}

impl Icon {
    pub(crate) fn new(src: String) -> Self {
        let path = src.split(['?', '#']).next().unwrap_or("");
        let ending = path.rsplit('.').next().map(str::to_ascii_lowercase);
        let mime_type = match ending.as_deref() {
            Some("png") => Some("image/png"),
            Some("svg") => Some("image/svg+xml"),
            Some("jpg" | "jpeg") => Some("image/jpeg"),
            Some("webp") => Some("image/webp"),
            Some("gif") => Some("image/gif"),
            Some("ico") => Some("image/x-icon"),
            _ => None,
        };
        Self {
            mime_type: mime_type.map(str::to_owned),
            src,
        }
    }
}

/// Sorts children as they are published (P15).
pub(crate) fn sort_children(children: &mut [Child]) {
    children.sort_by(|a, b| (a.kind(), &a.path, &a.name).cmp(&(b.kind(), &b.path, &b.name)));
}
