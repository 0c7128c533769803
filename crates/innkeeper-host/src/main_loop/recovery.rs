//! What happens when the journal fails: the core starts again from what was kept (P14).
//!
//! The state in memory is ahead of what was kept, and there is no telling how far. So nothing of it
//! counts: whoever waited is refused, every connection is closed and may come back, and a new core
//! takes the place of the old one, as if the process had been restarted. While nothing can be
//! written, it only reads; when the journal can write again, it starts once more.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use innkeeper_core::{HostCore, Input, Opening, StorageMode};

use crate::main_loop::message::Message;
use crate::main_loop::task::HostTask;
use crate::net::close::Close;
use crate::services::journal::effects::turns_of;
use crate::services::journal::{JournalError, Lease};

/// How often a journal that failed is tried again.
pub(crate) const REVIVE_INTERVAL: Duration = Duration::from_secs(1);

impl HostTask {
    /// The journal failed.
    pub(crate) async fn storage_failed(&mut self, error: &JournalError) -> Result<(), JournalError> {
        tracing::error!(%error, "the journal failed; the host is read-only until it can write again");
        let reason = error.to_string();
        // Before anybody hears of it: whoever is refused and asks `/readyz` is told why.
        self.ready.store(false, Ordering::Release);
        self.set_problem(Some(reason.clone()));
        self.refuse_pending(error);
        self.restart(Some(reason)).await
    }

    /// Tries whether a journal that failed can write again; if so, everything starts anew.
    pub(crate) async fn try_to_revive(&mut self) -> Result<(), JournalError> {
        match self.journal.revive().await {
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

    /// The core failed in the middle of an input. What was kept before it is whole, so everything
    /// starts from there (P9).
    pub(crate) async fn start_over(&mut self) -> Result<(), JournalError> {
        let read_only = self.read_only.clone();
        self.restart(read_only).await
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock() = problem;
    }

    /// Replaces the core by one that starts from what was kept.
    async fn restart(&mut self, read_only: Option<String>) -> Result<(), JournalError> {
        // What is being taken in is there before anything is counted, or is not taken in: the next
        // core must neither miss a session nor count it again when it hears of it.
        drop(Arc::clone(&self.importing).write_owned().await);
        self.generation += 1;
        let lease = self.journal.open().await?;
        self.close_all(Close::Restarting);
        self.drivers.clear();
        self.held.clear();
        self.taken.clear();
        self.requests.clear();
        self.renders.clear();
        self.watches.clear();
        self.followed.clear();
        self.repositories.clear();
        self.servers.clear();
        let unsettled = lease.unsettled.clone();
        let opening = opening(lease, &*self.journal, &self.core, read_only.clone());
        let Some(opening) = opening else {
            return Err(JournalError::Failed("the journal gives back nothing".to_owned()));
        };
        let now = self.now();
        let mut effects = Vec::new();
        let mut warnings = Vec::new();
        let config = self.limits.core.clone();
        let agents = self.core.agents().to_vec();
        let core = HostCore::open(config, agents, opening, now, &mut effects, &mut warnings);
        let before = std::mem::replace(&mut self.core, core);
        self.core.take_over_tokens(before);
        self.follow_wanted_logs();
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        self.ready.store(read_only.is_none(), Ordering::Release);
        self.set_problem(read_only.clone());
        self.read_only = read_only;
        self.submit(&mut effects)?;
        if let Some(inbox) = self.inbox.upgrade() {
            let look_after = Message::Core(Input::LookAfter(unsettled));
            self.tasks.spawn(async move {
                let _ = inbox.send(look_after).await;
            });
        }
        Ok(())
    }
}

/// What the next core starts with: after every number of the one before, and with other channels
/// than it, so that nothing late finds the wrong one.
fn opening(
    lease: Lease,
    journal: &dyn crate::services::journal::Journal,
    before: &HostCore,
    read_only: Option<String>,
) -> Option<Opening> {
    // One more than anybody has seen: nobody's picture from before is continued by accident. While
    // nothing can be reserved, the life goes on with numbers that are, of which half a block is left
    // (P5).
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
        kept_seq: lease.kept_seq,
        sessions: lease.sessions,
        clients: before.stored_clients(),
        root: lease.root,
        turns: turns_of(journal)?,
        first_channel: before.next_channel(),
    })
}
