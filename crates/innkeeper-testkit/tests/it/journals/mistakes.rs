//! Mistakes that a journal can make, each with the scenario that is there to find it.

/// A mistake of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing.
    None,
    /// The last record of every longer batch is lost.
    DropsTheLastRecord,
    /// Streamed output is not kept.
    DropsStreams,
    /// A streamed batch is overtaken by the next one.
    SwapsBatches,
    /// A durable batch is confirmed before it is safe.
    ConfirmsTooEarly,
    /// A flush waits for nothing.
    FlushesNothing,
    /// The start of a batch is kept when writing fails.
    KeepsHalfOfAFailedBatch,
    /// A batch after a failure is kept as if nothing had happened.
    GoesOnAfterAFailure,
    /// Every failure is reported as a full disk.
    ConfusesFailures,
    /// Nothing is found any more after a failure.
    CannotBeReadAfterAFailure,
    /// A merged frame has only the start of its text.
    LosesMergedText,
    /// A merged frame does not say where it starts.
    ForgetsTheFirstNumber,
    /// A merged frame has the number of its start.
    NumbersByTheStart,
    /// Appends are merged across documents.
    MergesAcrossDocuments,
    /// An action in the middle of a log is gone.
    LeavesAHole,
    /// A log is in the order of its channels.
    SortsTheLogByChannel,
    /// The latest action is not there.
    LosesTheEndOfALog,
    /// Chats do not find their session.
    FindsByOwnUriOnly,
    /// The start of a URI finds a session.
    FindsByPrefix,
    /// Later documents of a chat are ignored.
    KeepsTheFirstDocument,
    /// A chat stays in the session it was created in.
    NeverMovesChats,
    /// Turns are only ever appended.
    NeverTruncatesTurns,
    /// A copy has all turns.
    CopiesAllTurns,
    /// An incomplete range is returned as if it were complete.
    ReadsHalfARange,
    /// No turn comes with its chat.
    GivesNoRecentTurns,
    /// The oldest turn comes with its chat.
    GivesTheOldestTurns,
    /// The turns of a removed chat are still read.
    KeepsTurnsOfRemovedChats,
    /// Removed sessions stay in lists.
    ListsRemovedSessions,
    /// A deletion that can be undone removes the session for good.
    DeletesForGood,
    /// A deletion does nothing.
    IgnoresDeletions,
    /// The first deletion is listed first.
    SortsDeletionsForwards,
    /// A restored session has lost its turns.
    RestoresWithoutTurns,
    /// A purge removes nothing.
    PurgesNothing,
    /// A purge removes all deleted sessions, however new.
    PurgesEverything,
    /// A purge also removes what was deleted at its very moment.
    PurgesTheMomentItself,
    /// Of equally late sessions the smaller URI is first.
    SortsTiesForwards,
    /// A page starts with the last line of the one before.
    RepeatsTheMark,
    /// A page starts after the moment of its mark.
    SkipsTies,
    /// Summaries change nothing.
    IgnoresSummaries,
    /// Numbers continue after the last one that was kept.
    ReusesNumbers,
    /// Numbers are reserved when a host begins, and then no more.
    ReservesAtTheStartOnly,
    /// Every number is said to be kept.
    ClaimsToKeepEverything,
    /// The kept number is that of the last action.
    CountsActionsOnly,
    /// No session has to be looked after.
    ForgetsTheUnsettled,
    /// Actions do not unsettle a session.
    UnsettlesByRecordOnly,
    /// Every session has to be looked after.
    SettlesNone,
    /// Clients come back in the order of their ids.
    SortsClients,
    /// Clients are never forgotten.
    RemembersForEver,
    /// The log of the root is gone.
    LosesTheLogOfTheRoot,
}

impl Mistake {
    /// All that are mistakes, with their scenarios.
    pub const ALL: &[(Self, &str)] = &[
        (Self::DropsTheLastRecord, "p1_a_later_life_finds_the_same_sessions"),
        (Self::DropsStreams, "merged_appends_keep_their_text_and_their_numbers"),
        (Self::SwapsBatches, "p2_actions_come_back_in_the_order_of_their_numbers"),
        (Self::ConfirmsTooEarly, "p1_confirmed_batches_survive"),
        (Self::FlushesNothing, "p1_flushed_batches_survive"),
        (Self::KeepsHalfOfAFailedBatch, "p14_a_batch_that_failed_leaves_nothing"),
        (
            Self::GoesOnAfterAFailure,
            "p14_the_first_failure_makes_later_batches_fail_until_the_revival",
        ),
        (
            Self::ConfusesFailures,
            "p14_the_first_failure_makes_later_batches_fail_until_the_revival",
        ),
        (
            Self::CannotBeReadAfterAFailure,
            "p14_a_journal_that_cannot_write_can_be_read",
        ),
        (
            Self::LosesMergedText,
            "merged_appends_keep_their_text_and_their_numbers",
        ),
        (
            Self::ForgetsTheFirstNumber,
            "merged_appends_keep_their_text_and_their_numbers",
        ),
        (
            Self::NumbersByTheStart,
            "merged_appends_keep_their_text_and_their_numbers",
        ),
        (Self::MergesAcrossDocuments, "nothing_is_merged_across_a_document"),
        (Self::LeavesAHole, "a_log_that_is_cut_has_no_hole"),
        (
            Self::SortsTheLogByChannel,
            "p2_actions_come_back_in_the_order_of_their_numbers",
        ),
        (Self::LosesTheEndOfALog, "an_append_is_readable_at_once"),
        (
            Self::FindsByOwnUriOnly,
            "a_session_is_found_by_its_uri_and_by_those_of_its_chats",
        ),
        (
            Self::FindsByPrefix,
            "a_session_is_found_by_its_uri_and_by_those_of_its_chats",
        ),
        (
            Self::KeepsTheFirstDocument,
            "a_document_takes_the_place_of_the_one_before",
        ),
        (Self::NeverMovesChats, "a_chat_moves_with_its_turns_and_its_log"),
        (Self::NeverTruncatesTurns, "turns_are_replaced_from_a_position_on"),
        (Self::CopiesAllTurns, "copied_turns_are_independent"),
        (Self::ReadsHalfARange, "ranges_are_read_whole_or_not_at_all"),
        (Self::GivesNoRecentTurns, "the_latest_turns_come_with_the_chat"),
        (Self::GivesTheOldestTurns, "turns_are_read_by_position_and_found_by_id"),
        (Self::KeepsTurnsOfRemovedChats, "a_removed_chat_leaves_nothing"),
        (Self::ListsRemovedSessions, "a_removed_session_leaves_nothing"),
        (
            Self::DeletesForGood,
            "ses37_a_deleted_session_is_hidden_and_restored_whole",
        ),
        (
            Self::IgnoresDeletions,
            "ses37_a_deleted_session_is_hidden_and_restored_whole",
        ),
        (
            Self::SortsDeletionsForwards,
            "ses38_a_purge_removes_only_earlier_deletions",
        ),
        (
            Self::RestoresWithoutTurns,
            "ses37_a_deleted_session_is_hidden_and_restored_whole",
        ),
        (Self::PurgesNothing, "ses38_a_purge_removes_only_earlier_deletions"),
        (Self::PurgesEverything, "ses38_a_purge_removes_only_earlier_deletions"),
        (
            Self::PurgesTheMomentItself,
            "ses38_a_purge_removes_only_earlier_deletions",
        ),
        (
            Self::SortsTiesForwards,
            "the_latest_session_is_first_and_of_equals_the_larger_uri",
        ),
        (Self::RepeatsTheMark, "pages_have_neither_gaps_nor_repeats"),
        (Self::SkipsTies, "pages_have_neither_gaps_nor_repeats"),
        (Self::IgnoresSummaries, "summaries_are_kept_up_to_date"),
        (Self::ReusesNumbers, "p5_no_number_is_given_out_twice_across_lives"),
        (
            Self::ReservesAtTheStartOnly,
            "p5_numbers_are_reserved_before_they_run_out",
        ),
        (
            Self::ClaimsToKeepEverything,
            "p5_kept_seq_says_up_to_where_nothing_is_missing",
        ),
        (
            Self::CountsActionsOnly,
            "p5_kept_seq_says_up_to_where_nothing_is_missing",
        ),
        (
            Self::ForgetsTheUnsettled,
            "p4_unsettled_sessions_are_named_in_every_later_life",
        ),
        (
            Self::UnsettlesByRecordOnly,
            "p4_a_session_that_is_not_at_rest_is_unsettled",
        ),
        (Self::SettlesNone, "p4_a_session_that_is_not_at_rest_is_unsettled"),
        (Self::SortsClients, "clients_are_remembered_latest_last"),
        (Self::RemembersForEver, "clients_are_remembered_latest_last"),
        (Self::LosesTheLogOfTheRoot, "the_root_comes_back_with_its_log"),
    ];
}
