//! Customizations of sessions (CUS): those of plugins, directories and clients, and the users' decisions about them.
//!
//! The host discovers customizations and reports all of them, without enablement
//! ([`Input::CustomizationsFound`](crate::Input::CustomizationsFound)). The core adds the decisions of users and
//! publishes what changed:
//! - `discovered` compares the discovered customizations with the published ones, and publishes the difference;
//! - `decisions` holds what users decided, in a session, in a workspace, and everywhere;
//! - `enablement` computes the effective enablement from both;
//! - `toggle` handles the action by which users decide;
//! - `workspaces` compares workspaces by their URI;
//! - `client_plugins` tracks the plugins of active clients, and asks for discovery again;
//! - `custom_agents` says which discovered agents a message may choose;
//! - `published` matches a client's plugin with the description that its client gives;
//! - `shadows` marks customizations that another one of the same name shadows;
//! - `stored_decisions` reads decisions without a session;
//! - `limits` bounds what a session shows;
//! - `entry` has accessors for all kinds of customization.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use ahp_types::actions::StateAction;

use crate::core::{Host, json_bytes};
use crate::ids::{ChannelId, ClientId};
use crate::session::Session;

mod client_plugins;
mod custom_agents;
mod decisions;
mod discovered;
mod enablement;
mod entry;
mod limits;
mod published;
mod shadows;
mod stored_decisions;
mod toggle;
mod workspaces;

pub(crate) use client_plugins::{check_client_plugins, without_clients};
pub(crate) use decisions::Decisions;
pub use decisions::EnablementStore;
pub use published::PLUGIN_NAME;
pub use shadows::{SHADOWED_BY, Shadows};

/// In `_meta` of an MCP server: `true` means that it is off until a user decides about it.
pub const OFF_AT_FIRST: &str = "innkeeper.offAtFirst";

/// The sources of a session's customizations: its agent, its directories and its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomizationSources {
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// Its agent.
    pub provider: String,
    /// Where it works, as URIs, the primary one first.
    pub working_directories: Vec<String>,
    /// The plugins that its active clients publish, in the order of the clients (CUS-22).
    pub client_plugins: Vec<ClientPlugin>,
}

/// A plugin that a client publishes. Discovery reports it with the client's id and exactly this URI: by these two the
/// core finds the client's decisions about it (CUS-16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPlugin {
    /// The client, which alone can read it.
    pub client: ClientId,
    /// Where the client has it; `virtual:` URIs are read through the client.
    pub uri: String,
    /// The client's name for it.
    pub name: String,
    /// Changes whenever its content does; without one it is read again each time.
    pub nonce: Option<String>,
    /// How often its client has published it, where nothing but that says that it may have changed: without a nonce.
    pub publication: u64,
}

/// The state of a session's customizations in addition to the list that clients see.
#[derive(Debug, Default)]
pub struct CustomizationState {
    /// The decisions of users in this session alone. They outlive their customizations, which may come back.
    pub(crate) decisions: Arc<Decisions>,
    /// The sources that the session last asked to discover, if it did.
    wanted: Option<Box<CustomizationSources>>,
    /// Whether anything was reported since the session came into memory: until then it shows the persisted list, and
    /// none of its servers run.
    is_known: bool,
    /// Whether everything that it shows was only announced since then.
    is_announced: bool,
    /// The discovered customizations that are not shown. An agent must not use what users cannot see or toggle.
    left_out: BTreeSet<String>,
    /// The shadowed customizations, as discovered.
    shadows: Arc<Shadows>,
    /// How often each client has published its plugins since the session came into memory.
    publications: BTreeMap<String, u64>,
    /// The ids of everything that is off, while that is known.
    off: OnceLock<Arc<BTreeSet<String>>>,
    /// How many bytes the list takes, while that is known.
    bytes: OnceLock<usize>,
}

impl CustomizationState {
    /// The state of a session that is restored with its decisions.
    pub(crate) fn with(decisions: Arc<Decisions>) -> Self {
        Self {
            decisions,
            ..Self::default()
        }
    }

    /// Whether the session's customizations were asked for and are not reported yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.wanted.is_some() && !self.is_known
    }

    /// Takes note that the list changed, if an action was about it.
    pub(crate) fn follow(&mut self, action: &StateAction) {
        if matches!(
            action,
            StateAction::SessionCustomizationsChanged(_)
                | StateAction::SessionCustomizationToggled(_)
                | StateAction::SessionCustomizationUpdated(_)
                | StateAction::SessionCustomizationRemoved(_)
                | StateAction::SessionMcpServerStateChanged(_)
        ) {
            self.off.take();
            self.bytes.take();
        }
    }
}

/// Enablement decisions that hold in a workspace or everywhere.
#[derive(Debug, Default)]
pub(crate) struct SharedEnablement {
    store: Arc<EnablementStore>,
    /// Whether it differs from what was persisted last.
    is_changed: bool,
}

impl SharedEnablement {
    /// The decisions, for the store.
    pub(crate) fn store(&self) -> &Arc<EnablementStore> {
        &self.store
    }

    /// Takes over the decisions that an earlier run persisted.
    pub(crate) fn restore(&mut self, store: Arc<EnablementStore>) {
        self.store = store;
    }

    /// Notes that the decisions differ from the persisted ones.
    fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// Whether the decisions changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

impl Host {
    /// The ids of everything that is switched off in a session; nothing is in one that is not in memory.
    pub(crate) fn disabled_ids(&self, session: ChannelId) -> Arc<BTreeSet<String>> {
        self.sessions.get(&session).map(disabled_ids).unwrap_or_default()
    }
}

/// The ids of all disabled customizations, also of those in a disabled container (CUS-11).
pub(crate) fn disabled_ids(session: &Session) -> Arc<BTreeSet<String>> {
    let off = session.customization.off.get_or_init(|| {
        let mut off = session.customization.left_out.clone();
        for entry in session.state.customizations.iter().flatten() {
            enablement::add_off(entry, &mut off);
        }
        Arc::new(off)
    });
    Arc::clone(off)
}

/// Roughly how many bytes a session's customizations take in a snapshot.
pub(crate) fn shown_bytes(session: &Session) -> usize {
    *session
        .customization
        .bytes
        .get_or_init(|| json_bytes(&session.state.customizations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_persisted_once_and_restored_decisions_are_none() {
        let mut enablement = SharedEnablement::default();
        enablement.restore(Arc::default());
        assert!(!enablement.take_changed(), "restored decisions are persisted already");
        enablement.mark_changed();
        enablement.mark_changed();
        assert!(enablement.take_changed());
        assert!(!enablement.take_changed());
    }
}
