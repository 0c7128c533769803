//! Reads plugins and directories of customizations into one tree.
//!
//! A plugin is a directory with skills, commands, agents, rules, hooks and MCP servers. Several
//! tools have formats for it, and users write them by hand. This crate reads all of them into one
//! [`Tree`]; the host turns the tree into the customizations of the protocol.
//!
//! # Promises
//!
//! - **Nothing is run.** Commands of hooks and servers are read as text.
//! - **Nothing outside is read.** Files are reached through opened directories; neither `..` nor a
//!   link leads out of a plugin or a workspace. Pipes and devices are never opened.
//! - **It ends.** Every count, size and depth has a bound ([`limits`]).
//! - **It always yields an entry.** A broken part is left out as narrowly as possible, and the
//!   [`LoadState`] says which file is wrong and what to do.
//! - **The same files give the same tree**: ids, order and messages do not depend on the machine,
//!   the time, or the order in which a file system lists its files. [`changes`] of two equal trees
//!   are none, so nothing is dispatched when nothing changed.
//!
//! # Modules
//!
//! The data goes through them in this order.
//!
//! | Module | Job | Types |
//! |---|---|---|
//! | `scan` | Names the sources, and reads each part of them once. | [`Sources`], `Parts`, [`Footprint`] |
//! | `read` | Opens files below a confined root and parses them. | `ScanRoot`, [`Reader`] |
//! | `formats` | Finds the format of a plugin, its manifest and its locations. | [`Format`], `Manifest`, [`Listing`] |
//! | `components` | Reads skills, agents, prompts, rules, hooks and MCP servers. | [`Component`] |
//! | `containers` | Loads a plugin, a directory or loose files with their components. | [`Plugin`], [`Directory`] |
//! | `tree` | Holds the result. | [`Tree`] of [`Container`]s with [`Child`]ren |
//! | `watch` | Scans again when something changed in a footprint. | [`TreeWatcher`] |
//!
//! # Example
//!
//! ```
//! use innkeeper_plugins::{Change, PluginSource, Sources, changes, scan};
//!
//! # let temp = tempfile::tempdir().unwrap();
//! # let workspace = temp.path().to_owned();
//! let sources = Sources {
//!     workspaces: vec![workspace.clone()],
//!     ..Sources::default()
//! };
//! let before = scan(&sources);
//!
//! let skill = workspace.join(".claude/skills/greet");
//! std::fs::create_dir_all(&skill).unwrap();
//! std::fs::write(skill.join("SKILL.md"), "---\ndescription: Greets guests.\n---\nSay hello.\n").unwrap();
//! let after = scan(&sources);
//!
//! // One container changed, and only that is announced.
//! let changes = changes(&before, &after);
//! let [Change::Updated { entry, is_visible: true, .. }] = changes.as_slice() else { panic!() };
//! assert_eq!(entry.children()[0].name, "greet");
//! ```

#![warn(missing_docs)]

mod components;
mod containers;
mod formats;
mod id;
pub mod limits;
mod note;
mod read;
mod scan;
mod tree;
mod watch;

pub use components::{
    Agent, CommandLine, ExitContract, Hook, HookAction, HookEvent, HookFile, HookOrigin, McpServer, OnFailure, Prompt,
    Remote, Rule, Skill, SkillOrigin, Transport, Treatment, configured_server,
};
pub use containers::directory::{DirectorySource, Layout, Scope};
pub use containers::plugin::{PluginSource, load_plugin};
pub use containers::well_known::{user_directories, workspace_directories};
pub use formats::detect::Format;
pub use formats::marketplace::{Listing, Plugins, find_plugins};
pub use note::{Code, LoadState, Note, Severity};
pub use read::frontmatter::{Split, split_frontmatter};
pub use read::private::is_private;
pub use read::reader::Reader;
pub use read::text::{TextPosition, TextRange};
pub use scan::changes::{Change, ChildChange, changes};
pub use scan::footprint::Footprint;
pub use scan::rescan::Rescan;
pub use scan::{Sources, scan, scan_traced};
pub use tree::{Child, Component, Container, Directory, Icon, Kind, Plugin, Tree};
pub use watch::TreeWatcher;
