//! Reads plugins and directories of customizations, and says what they hold.
//!
//! A plugin is a directory with skills, commands, agents, rules, hooks and MCP servers. Several
//! tools have formats for it, and people write them by hand. This crate reads all of them into one
//! [`Tree`]; the host turns the tree into the customizations of the protocol.
//!
//! # What it promises
//!
//! - **Nothing is run.** Commands of hooks and servers are read as text.
//! - **Nothing outside is read.** Files are reached through opened directories; neither `..` nor a
//!   link leads out of a plugin or a workspace. Pipes and devices are never opened.
//! - **It ends.** Every count, size and depth has a bound ([`limits`]).
//! - **It always yields an entry.** What is broken is left out as narrowly as possible, and the
//!   [`LoadState`] says which file is wrong and what to do.
//! - **The same files give the same tree**: ids, order and messages do not depend on the machine,
//!   the time, or the order in which a file system lists its files. [`changes`] of two equal trees
//!   are none, so nothing is dispatched when nothing changed.
//!
//! # Where to begin reading
//!
//! `scan.rs` names the sources and `parts.rs` puts a tree together from them. A plugin goes through `plugin.rs`: `format.rs`
//! finds the manifest and with it the format, `manifest.rs` reads it, `locations.rs` lists the
//! places where components are, the modules below `component.rs` read them, and `gather.rs` keeps
//! what was found. `directory.rs` and `loose.rs` do the same for what belongs to no plugin.
//! Everything reads files through `place.rs`, which also notes where it looked: `footprint.rs` makes
//! of that what to watch, and `watch.rs` scans again when something happens there.
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
//! std::fs::write(skill.join("SKILL.md"), "---\ndescription: Greets people.\n---\nSay hello.\n").unwrap();
//! let after = scan(&sources);
//!
//! // One container changed, and only that is announced.
//! let changes = changes(&before, &after);
//! let [Change::Updated { entry, is_visible: true, .. }] = changes.as_slice() else { panic!() };
//! assert_eq!(entry.children()[0].name, "greet");
//! ```

#![warn(missing_docs)]

mod changes;
mod component;
mod directory;
mod footprint;
mod format;
mod frontmatter;
mod gather;
mod id;
mod json;
pub mod limits;
mod listing;
mod locations;
mod loose;
mod manifest;
mod marketplace;
mod note;
mod parts;
mod place;
mod plugin;
mod private;
mod read;
mod rescan;
mod scan;
mod text;
mod tree;
mod uri;
mod watch;
mod well_known;
mod yaml;

pub use changes::{Change, ChildChange, changes};
pub use component::{
    Agent, CommandLine, ExitContract, Hook, HookAction, HookEvent, HookFile, HookOrigin, McpServer, OnFailure, Prompt,
    Remote, Rule, Skill, SkillOrigin, Transport, Treatment, configured_server,
};
pub use directory::{DirectorySource, Layout, LoadedDirectory, Scope, load_directory};
pub use footprint::Footprint;
pub use format::Format;
pub use frontmatter::{Split, split_frontmatter};
pub use marketplace::{Listing, Plugins, find_plugins};
pub use note::{Code, LoadState, Note, Severity};
pub use plugin::{PluginSource, load_plugin};
pub use private::is_private;
pub use read::Reader;
pub use rescan::Rescan;
pub use scan::{Sources, scan, scan_traced};
pub use text::{TextPosition, TextRange};
pub use tree::{Child, Component, Directory, Entry, Icon, Kind, Plugin, Tree};
pub use watch::TreeWatcher;
pub use well_known::{user_directories, workspace_directories};
