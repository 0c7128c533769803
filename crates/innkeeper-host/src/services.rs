//! The services of a host: one module per seam.
//!
//! Each module holds the trait that an embedder implements, the types that pass through it, and, in `effects.rs`, the
//! effects of the core that the main loop performs with it.

pub mod changes;
pub mod completions;
pub mod contents;
pub mod customizations;
pub mod journal;
pub mod mcp;
pub(crate) mod prompt_transform;
pub mod repositories;
pub mod resources;
pub mod telemetry;
pub mod terminals;

use std::sync::Arc;

use changes::effects::FollowedChanges;
use completions::effects::CompletionRequests;
use contents::effects::ContentStore;
use customizations::effects::FollowedCustomizations;
use journal::effects::JournalRequests;
use mcp::effects::Servers;
use repositories::effects::FollowedRepositories;
use resources::effects::ResourceRequests;
use telemetry::effects::Logs;
use terminals::effects::RunningTerminals;

use crate::main_loop::handles::LoopHandles;

/// The services of one host, each with its own state. Each performs the effects that concern it.
pub(crate) struct Services {
    pub(crate) journal: JournalRequests,
    pub(crate) completions: CompletionRequests,
    pub(crate) resources: ResourceRequests,
    pub(crate) contents: ContentStore,
    pub(crate) customizations: FollowedCustomizations,
    pub(crate) changes: FollowedChanges,
    pub(crate) repositories: FollowedRepositories,
    pub(crate) mcp: Servers,
    pub(crate) terminals: RunningTerminals,
    /// The log for clients, if there is one.
    pub(crate) logs: Option<Logs>,
}

impl Services {
    /// Removes everything that is stored for a session that is gone for good.
    pub(crate) fn erase_session(&mut self, handles: &LoopHandles, uri: Arc<str>) {
        self.changes.forget_session(handles, Arc::clone(&uri));
        self.terminals.forget_session(handles, Arc::clone(&uri));
        self.contents.forget_session(handles, uri);
    }

    /// Ends everything that belongs to sessions, because the core is replaced.
    pub(crate) fn clear(&mut self) {
        self.resources.clear();
        self.customizations.clear();
        self.changes.clear();
        self.repositories.clear();
        self.mcp.clear();
        self.terminals.clear();
    }
}
