//! Finds plugins, skills, agents, rules and hooks for the sessions of a host.
//!
//! `innkeeper-plugins` reads files. This crate decides which customizations a session gets. The types in the order of the
//! data are listed in `discovered.rs`.
//!
//! | Module | Job |
//! |---|---|
//! | `local` | Implements the host's trait: which sources a session has. |
//! | `source` | Reads and watches each source once, however many sessions share it. |
//! | `copies` | Copies the plugins that clients publish. |
//! | `discovered` | Containers with their origin, merged for each session. |
//! | `wire`, `set` | The entries that clients see, and the view for agents. |
//! | `follow` | Reports a session's customizations whenever they change. |
//! | `texts`, `shown_files` | Reads the files of customizations for agents and for clients. |
//! | `hooks` | Runs hooks, once the user trusts them. |
//! | `servers` | How MCP servers are started, once the user allows it. |
//! | `trust` | The file with the user's decisions. |

#![warn(missing_docs)]

mod background;
mod canonical;
mod copies;
mod discovered;
mod follow;
mod hooks;
mod local;
mod servers;
mod set;
mod shown_files;
mod source;
#[cfg(test)]
mod tests;
mod texts;
mod trust;
mod wire;

pub use discovered::{Discovered, DiscoveredContainer, Origin};
pub use hooks::{CommandHooks, HookSettings};
pub use local::{HooksOf, LocalCustomizations, SourceDirectories};
pub use servers::ServerSettings;
pub use trust::{Contents, Piece, Subject, TrustFile, TrustKind, TrustRecord, TrustStatus, Verdict};
pub use wire::{DESCRIPTION, HOOKS};
