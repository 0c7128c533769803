//! Restarting the core after a failure of the journal or a panic of the core (P14).
//!
//! The state in memory is ahead of the journal by an unknown amount, so it is dropped: pending requests are refused,
//! every connection is closed and may reconnect, and a new core starts from the journal, as after a restart of the
//! process. While the journal accepts no writes, the new core is read-only. When the journal accepts writes again, the
//! core is replaced once more.

use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::records::TurnSource;
use innkeeper_core::{HostCore, Input, Opening, StorageMode};

use crate::main_loop::Message;
use crate::main_loop::task::HostTask;
use crate::net::close::Close;
use crate::services::journal::{JournalError, Lease};

/// How often a journal that failed is tried again.
pub(super) const REVIVE_INTERVAL: Duration = Duration::from_secs(1);

impl HostTask {
    /// Refuses everything that was not persisted, and continues read-only.
    pub(super) async fn storage_failed(&mut self, error: &JournalError) -> Result<(), JournalError> {
        tracing::error!(%error, "the journal failed; the host is read-only until it can write again");
        let reason = error.to_string();
        self.durability.report_failure(&reason);
        self.refuse_pending(error);
        self.restart(Some(reason)).await
    }

    /// Tries whether a journal that failed can write again. If so, the core is replaced once more.
    pub(super) async fn try_to_revive(&mut self) -> Result<(), JournalError> {
        match self.durability.journal().revive().await {
            Ok(()) => {
                tracing::info!("the journal can write again");
                self.restart(None).await
            }
            Err(error) => {
                tracing::debug!(%error, "the journal still cannot write");
                Ok(())
            }
        }
    }

    /// Replaces a core that has panicked in the middle of an input. The journal has everything before that input (P9).
    pub(super) async fn start_over(&mut self) -> Result<(), JournalError> {
        let read_only = self.durability.read_only().map(str::to_owned);
        self.restart(read_only).await
    }

    /// Replaces the core by one that starts from the journal.
    async fn restart(&mut self, read_only: Option<String>) -> Result<(), JournalError> {
        self.services.journal.next_generation().await;
        let lease = self.durability.journal().open().await?;
        self.net.close_all(Close::Restarting);
        self.agents.clear();
        self.requests.clear();
        self.services.clear();
        let unsettled = lease.unsettled.clone();
        let opening = opening(lease, self.services.journal.turns(), &self.core, read_only.clone());
        let Some(opening) = opening else {
            return Err(JournalError::Failed("the journal has no source of turns".to_owned()));
        };
        let now = self.now();
        let mut effects = Vec::new();
        let mut warnings = Vec::new();
        let config = self.handles.limits().core.clone();
        let agents = self.core.agents().to_vec();
        let core = HostCore::open(config, agents, opening, now, &mut effects, &mut warnings);
        let before = std::mem::replace(&mut self.core, core);
        self.core.take_over_tokens(before);
        self.follow_wanted_logs();
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        self.durability.set_read_only(read_only);
        self.submit(&mut effects)?;
        self.handles.send(Message::Core(Input::Recover(unsettled)));
        Ok(())
    }
}

/// Returns what the next core starts with: sequence numbers after those of the previous core, and other channels, so
/// that no late message reaches the wrong channel.
fn opening(
    lease: Lease,
    turns: Option<Arc<dyn TurnSource>>,
    before: &HostCore,
    read_only: Option<String>,
) -> Option<Opening> {
    // One more than any client has seen: no client continues the state from before by accident. While no numbers can be
    // reserved, the core uses those that are reserved already, of which half a block is left (P5).
    let next = before.seq().next();
    let (last_seq, storage) = match read_only {
        Some(reason) => {
            let seq_limit = Some(lease.last_seq);
            let reason = reason.into();
            (next, StorageMode::ReadOnly { reason, seq_limit })
        }
        None => (lease.last_seq.max(next), StorageMode::ReadWrite),
    };
    Some(Opening {
        last_seq,
        storage,
        persisted_seq: lease.persisted_seq,
        sessions: lease.sessions,
        clients: before.stored_clients(),
        root: lease.root,
        turns: turns?,
        first_channel: before.next_channel(),
    })
}
