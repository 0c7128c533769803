//! Starts a host from its store.

use std::collections::HashMap;
use std::sync::Arc;

use ahp_types::actions::{RootAgentsChangedAction, StateAction};
use serde_json::json;

use crate::agent::AgentProfile;
use crate::chat::approval_mode;
use crate::clients::channels::{Base, Subscription};
use crate::clients::client::{Client, GracePeriod, Negotiated, Presence};
use crate::config::CoreConfig;
use crate::core::{Cx, Host, ROOT, Timer};
use crate::effect::Effect;
use crate::ids::{ClientId, Seq};
use crate::protocol::dialect::Dialect;
use crate::storage::mode::StorageMode;
use crate::storage::records::document::{self, ClientDocument};
use crate::storage::records::{StoredClient, StoredRoot, TurnSource, restore_root};
use crate::time::Now;

/// The initial state of a host with a store.
#[derive(Debug)]
pub struct Opening {
    /// The highest number that any earlier run may have given out.
    pub last_seq: Seq,
    /// The highest number up to which nothing is missing.
    pub persisted_seq: Seq,
    /// How many sessions are stored.
    pub sessions: usize,
    /// The clients to remember.
    pub clients: Vec<StoredClient>,
    /// The host's own state, unless this is its first run.
    pub root: Option<StoredRoot>,
    /// Where turns are read.
    pub turns: Arc<dyn TurnSource>,
    /// The id of the first channel after the root: above all of those of an earlier core in the same process.
    pub first_channel: u64,
    /// The storage mode.
    pub storage: StorageMode,
}

impl Host {
    /// A host with the sessions of its earlier runs. Adds a warning for users about everything that could not be
    /// read; no session is touched.
    pub(crate) fn open(
        config: CoreConfig,
        agents: Vec<AgentProfile>,
        opening: Opening,
        now: Now,
        effects: &mut Vec<Effect>,
        warnings: &mut Vec<String>,
    ) -> Self {
        let mut core = Self::new(config, agents, opening.last_seq);
        core.channels.start_at(opening.first_channel);
        core.storage.turns = Some(opening.turns);
        core.log.set_limit(opening.storage.seq_limit());
        core.storage.mode = opening.storage;
        core.sessions.set_listed(opening.sessions);
        let cx = &mut Cx { now, effects };
        core.remember_clients(now, opening.clients, warnings);
        if opening.first_channel > 0 {
            // The core before this one remembered them, and their persisted state may be older.
            core.mark_all_clients_replaced();
        }
        core.open_root(cx, opening.root, warnings);
        // Persisted with the first record of this run, so that every later run knows of it (P5).
        core.log.add_gap(opening.persisted_seq, opening.last_seq);
        core.mark_dirty(ROOT);
        if let Some(reason) = core.storage.mode().read_only_reason() {
            let root = core.root.state_mut();
            let storage = json!({ "readOnly": true, "reason": reason });
            root.meta.get_or_insert_default().insert(STORAGE.to_owned(), storage);
            core.log.open_channel(ROOT);
        }
        core.publish_active_sessions(cx);
        core.schedule_purge(now.mono_ms);
        core.persist_dirty(cx);
        core
    }

    /// Restores the root, and publishes what differs now. If actions cannot express the difference, subscriptions to
    /// the root are not continued.
    fn open_root(&mut self, cx: &mut Cx<'_>, stored: Option<StoredRoot>, warnings: &mut Vec<String>) {
        // A new store has no root yet.
        let Some(stored) = stored else { return };
        let restored = match restore_root(&stored) {
            Ok(restored) => restored,
            Err(problem) => {
                warnings.push(format!(
                    "{problem}; the host's settings, its permanent approvals and its shared enablement decisions are \
                     reset"
                ));
                return;
            }
        };
        self.restore_approvals(
            restored.workspace_approvals,
            restored.everywhere_approvals,
            restored.outdated_approvals,
            warnings,
        );
        self.grants = restored.grants;
        self.enablement.restore(restored.enablement);
        self.log.restore_gaps(restored.gaps);
        let agents = self.shown_agents(self.agents.profiles());
        let mut config = self.root.state().config.clone();
        if let (Some(config), Some(stored)) = (&mut config, &restored.state.config) {
            let mut stored = stored.values.clone();
            approval_mode::convert_values(&mut stored);
            for (setting, value) in &mut config.values {
                if let Some(chosen) = stored.remove(setting) {
                    *value = chosen;
                }
            }
        }
        let continues = config == restored.state.config && restored.state.meta.is_none();
        let root = self.root.state_mut();
        root.agents.clone_from(&restored.state.agents);
        root.active_sessions = restored.state.active_sessions;
        root.config = config;
        self.root_config_changed(cx);
        if continues {
            self.restore_log(cx.now, ROOT, stored.seq, stored.log.iter());
            if let Some(entry) = self.channels.get_mut(ROOT) {
                entry.created = Seq(0);
            }
        }
        self.restore_parts(cx, &restored.state);
        if self.root.state().agents != agents || **self.agents.catalogue() != restored.catalogue {
            let action = RootAgentsChangedAction { agents };
            self.commit(cx, ROOT, StateAction::RootAgentsChanged(action), None);
        }
    }

    /// Clients may come back to a host that was restarted as if it had not been: they are in their
    /// grace.
    fn remember_clients(&mut self, now: Now, clients: Vec<StoredClient>, warnings: &mut Vec<String>) {
        let until_ms = now.mono_ms.saturating_add(self.config.grace_ms);
        for stored in clients {
            let id = ClientId::new(&stored.id);
            match remembered(&stored, until_ms) {
                Ok(client) => {
                    self.timers.set(until_ms, Timer::EndGrace(id.clone()));
                    self.clients.insert(id, client);
                }
                Err(problem) => warnings.push(format!("{problem}; it has to initialize again")),
            }
        }
    }
}

/// The key in the root's `_meta` that says whether the host can persist.
const STORAGE: &str = "innkeeper.storage";

fn remembered(stored: &StoredClient, until_ms: u64) -> Result<Client, String> {
    let document: ClientDocument<'_> = document::read(&format!("the client {:?}", stored.id), &stored.document)?;
    let dialect = Dialect::restored(&document.protocol, document.mcp_apps).ok_or_else(|| {
        let version = &document.protocol;
        format!(
            "the client {:?} speaks version {version:?}, which this host does not",
            stored.id
        )
    })?;
    let mut subscriptions = HashMap::new();
    for (uri, subscription) in document.subscriptions {
        // A message to this client alone may be newer than its persisted state, so a window of a history is not
        // continued; a snapshot is.
        let started = match subscription.unloaded {
            None => Seq(subscription.started),
            Some(_) => Seq::MAX,
        };
        let base = Base {
            started,
            unloaded: None,
        };
        let max_latency_ms = subscription.max_latency_ms;
        let subscription = Subscription {
            max_latency_ms,
            base,
            dialect,
        };
        subscriptions.insert(uri.into(), subscription);
    }
    let persisted = subscriptions.keys().cloned().collect();
    let negotiated = Negotiated {
        version: (&*document.protocol).into(),
        dialect,
        locale: document.locale.as_deref().map(Into::into),
    };
    let presence = Presence::Grace(GracePeriod {
        until_ms,
        subscriptions,
    });
    let mut client = Client::new((&*document.principal).into(), negotiated, presence);
    client.persist_with(persisted, true, 0);
    Ok(client)
}
