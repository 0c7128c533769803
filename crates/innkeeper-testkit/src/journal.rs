//! Scenarios that every implementation of `Journal` must pass.
//!
//! An implementation says how its [`Storage`] is made, opened again and found after a crash, and
//! calls [`all`]. Each scenario works on a storage of its own and panics at what it finds wrong.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use innkeeper_host::async_trait;
use innkeeper_host::journal::Journal;

pub mod host_run;
mod logs;
mod scenarios;

pub use logs::{check_log, describe};
pub use scenarios::{around, crashes, deletions, failures, lists, log, numbers, sessions, turns};

/// A medium on which one journal at a time persists sessions: a directory, a server, some memory.
#[async_trait]
pub trait Storage: Send + Sync {
    /// A journal on this storage, as a new process makes it. It is not open yet.
    ///
    /// Scenarios ask again for a later run on the same storage, after they have flushed and
    /// dropped the journal of the run before.
    fn journal(&self) -> Arc<dyn Journal>;

    /// Returns the storage as it is after a kill of the process at this moment. The original
    /// can still be used; the two are independent.
    async fn killed(&self) -> Box<dyn Storage>;

    /// Returns the storage as it is after a power cut at this moment. It may have less than [`Self::killed`].
    async fn without_power(&self) -> Box<dyn Storage> {
        self.killed().await
    }

    /// Makes writes fail until [`Self::mend`]. Says `false` where that cannot be arranged; the
    /// scenarios about failures are then left out.
    fn break_down(&self, _: StorageFailure) -> bool {
        false
    }

    /// Ends what [`Self::break_down`] began.
    fn mend(&self) {}
}

/// How a storage fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFailure {
    /// There is no room: the journal reports [`innkeeper_host::journal::JournalError::Full`].
    Full,
    /// Writing fails: the journal reports [`innkeeper_host::journal::JournalError::Failed`].
    Broken,
}

/// One thing that a journal has to do.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name, with the ids of the promises that it checks.
    pub name: &'static str,
    run: fn(Box<dyn Storage>) -> BoxFuture<'static, ()>,
}

impl Scenario {
    /// Runs the scenario on an empty storage.
    ///
    /// # Panics
    ///
    /// When the journal does something else.
    pub async fn run(&self, storage: Box<dyn Storage>) {
        (self.run)(storage).await;
    }
}

macro_rules! scenarios {
    ($($module:ident { $($name:ident),+ $(,)? })+) => {
        /// All scenarios.
        pub const SCENARIOS: &[Scenario] = &[$($(Scenario {
            name: stringify!($name),
            run: |storage| Box::pin($module::$name(storage)),
        }),+),+];
    };
}

scenarios! {
    log {
        p2_actions_come_back_in_the_order_of_their_numbers,
        p2_batches_of_many_tasks_are_kept_in_the_order_of_the_calls,
        p1_durable_batches_are_confirmed_in_order,
        merged_appends_keep_their_text_and_their_numbers,
        nothing_is_merged_across_a_document,
        a_document_takes_the_place_of_the_one_before,
        a_log_that_is_cut_has_no_hole,
        an_append_is_readable_at_once,
    }
    sessions {
        a_session_is_found_by_its_uri_and_by_those_of_its_chats,
        documents_come_back_byte_by_byte,
        sessions_do_not_mix,
        p1_a_later_life_finds_the_same_sessions,
        a_chat_moves_with_its_turns_and_its_log,
        a_removed_chat_leaves_nothing,
        a_removed_session_leaves_nothing,
        late_records_restore_no_deleted_session,
    }
    deletions {
        ses37_a_deleted_session_is_hidden_and_restored_whole,
        ses38_a_purge_removes_only_earlier_deletions,
    }
    turns {
        turns_are_read_by_position_and_found_by_id,
        turns_are_replaced_from_a_position_on,
        copied_turns_are_independent,
        ranges_are_read_whole_or_not_at_all,
        the_latest_turns_come_with_the_chat,
        a_chat_document_leaves_the_turns_alone,
    }
    lists {
        the_latest_session_is_first_and_of_equals_the_larger_uri,
        pages_have_neither_gaps_nor_repeats,
        a_page_continues_where_its_mark_was,
        summaries_are_kept_up_to_date,
    }
    numbers {
        p5_no_number_is_given_out_twice_across_lives,
        p5_numbers_are_reserved_before_they_run_out,
        p5_kept_seq_says_up_to_where_nothing_is_missing,
    }
    around {
        p4_a_session_that_is_not_at_rest_is_unsettled,
        p4_unsettled_sessions_are_named_in_every_later_life,
        clients_are_remembered_latest_last,
        of_many_clients_the_latest_are_remembered,
        the_root_comes_back_with_its_log,
    }
    crashes {
        p1_confirmed_batches_survive,
        p1_flushed_batches_survive,
        p1_only_a_tail_is_lost,
        p1_a_batch_is_kept_as_a_whole_or_not_at_all,
    }
    failures {
        p14_the_first_failure_makes_later_batches_fail_until_the_revival,
        p14_a_batch_that_failed_leaves_nothing,
        p14_a_journal_that_cannot_write_can_be_read,
        p14_no_number_is_given_out_twice_after_a_failure,
    }
}

/// Runs every scenario, each on a storage that `fresh` makes, and says how many there were.
///
/// # Panics
///
/// With the names of the failed scenarios. Each prints its failure.
pub async fn all(fresh: impl Fn() -> Box<dyn Storage>) -> usize {
    let failed = failing(fresh).await;
    assert!(
        failed.is_empty(),
        "{} of {} scenarios failed: {failed:#?}",
        failed.len(),
        SCENARIOS.len()
    );
    SCENARIOS.len()
}

/// The names of the scenarios that fail.
pub async fn failing(fresh: impl Fn() -> Box<dyn Storage>) -> Vec<&'static str> {
    let mut failed = Vec::new();
    for scenario in SCENARIOS {
        if AssertUnwindSafe(scenario.run(fresh())).catch_unwind().await.is_err() {
            eprintln!("scenario {} failed", scenario.name);
            failed.push(scenario.name);
        }
    }
    failed
}
