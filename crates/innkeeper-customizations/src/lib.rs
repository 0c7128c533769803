//! Brings plugins, skills, agents, rules and hooks into the sessions of a host.
//!
//! `innkeeper-plugins` reads files; this crate decides which ones a session gets (`local.rs`), reads and
//! watches each place once however many sessions share it (`place.rs`), copies what clients publish
//! (`copies.rs`), puts it together for each session (`follow.rs`, `brought.rs`), and says it in the
//! words of the protocol (`wire.rs`) and of agents (`kit.rs`), and how MCP servers are started, once
//! people let them (`servers.rs`).

#![warn(missing_docs)]

mod aside;
mod brought;
mod canonical;
mod copies;
mod explain;
mod follow;
mod hooks;
mod kit;
mod local;
mod place;
mod servers;
mod shown;
#[cfg(test)]
mod tests;
mod texts;
mod trust;
mod wire;

pub use brought::{Brought, Origin, Part};
pub use explain::Shown;
pub use hooks::{CommandHooks, HookSettings, HookSource, SourcedHooks};
pub use local::{HooksOf, LocalCustomizations, SourceDirectories};
pub use servers::ServerSettings;
pub use trust::{Contents, Decided, Piece, Standing, Subject, TrustFile, TrustKind, Verdict};
pub use wire::{DESCRIPTION, HOOKS};
