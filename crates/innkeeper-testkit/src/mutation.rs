//! Seeded host bugs: a property test that has never failed has proven nothing.
//!
//! Each bug bends what a correct core sends on its way to the simulated clients. The mutation
//! check proves that the properties of [`crate::sim`] notice every one of them.

mod agents;
mod answers;
mod changes;
mod customizations;
mod mutator;
mod restarts;
mod servers;
mod terminals;

pub use self::mutator::Mutator;
pub use self::restarts::JournalBug;

/// One bug that a host could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// One subscriber does not get an action.
    DropPublish,
    /// Two messages of one connection change places.
    SwapMessages,
    /// A sequence number is given out twice.
    ReuseSeq,
    /// The echo of a client's action does not say whose it is.
    ForgetOrigin,
    /// A refusal goes out without its reason, so it looks accepted.
    ForgetReason,
    /// A refusal goes to every subscriber of the channel.
    BroadcastRejection,
    /// An action that changes nothing is not echoed to its author.
    LoseNoOpEcho,
    /// Actions keep coming after `unsubscribe`.
    DeliverAfterUnsubscribe,
    /// Notifications go to connections that do not subscribe to the root.
    NotifyEverybody,
    /// A change of a session's summary is not announced.
    LoseSummaryChange,
    /// The removal of a session is not announced.
    LoseSessionRemoved,
    /// The end of a turn is published twice.
    EndTurnTwice,
    /// Appends are merged over an action of another channel in between.
    MergeAcrossChannel,
    /// Appends are merged over an echo of the reader's own action, which is lost.
    MergeAcrossEcho,
    /// The first action after a subscription overtakes the response.
    PublishBeforeResponse,
    /// A snapshot claims to be one action older than it is.
    FromSeqTooLow,
    /// A snapshot claims to be one action newer than it is.
    FromSeqTooHigh,
    /// A snapshot lacks the latest change of its channel.
    StaleSnapshot,
    /// A replay lacks its first action.
    ReplayMissesFirst,
    /// A replay lacks its last action.
    ReplayMissesLast,
    /// A replay repeats the last action that was seen.
    ReplayRepeatsSeen,
    /// A replay contains refusals.
    ReplayContainsRejections,
    /// A replay does not say which channels are gone.
    ReplayHidesMissing,
    /// The snapshot answer to `reconnect` leaves a live channel out.
    ResyncOmitsChannel,
    /// A request is not answered.
    LoseResponse,
    /// A decision about a tool call is published twice.
    RepeatDecision,
    /// An entry of `inputNeeded` stays after its wait ended.
    LeaveInputNeeded,
    /// An entry of `inputNeeded` has no id.
    InputNeededWithoutId,
    /// An agent is not told to run a turn.
    LoseStart,
    /// An agent is not told that its turn was cancelled.
    LoseCancel,
    /// An agent is not told what it waits for.
    LoseReply,
    /// An agent is told something after its turn.
    ReplyAfterEnd,
    /// An agent is told a decision twice.
    DecideTwice,
    /// An agent runs a call with the input that a user replaced.
    IgnoreEdit,
    /// An agent is told that a user answered, without the answer.
    ForgetAnswers,
    /// An agent is told that there is no steering message, and it is gone.
    LoseSteering,
    /// An agent gets a client's result before a user confirmed it.
    LeakResult,
    /// An agent is not told that the client of its call has left.
    AbandonCalls,
    /// An approval of one session counts in another.
    LeakApproval,
    /// A client may report about another client's call.
    TakeForeignResult,
    /// A queued message replaces the one before it.
    OverwriteQueued,
    /// A turn does not get the disabled customizations.
    IgnoreSwitches,
    /// A toggle for all sessions is not published in the others.
    KeepSwitchToItself,
    /// Decisions are published the least specific first.
    UnsortDecisions,
    /// A container is updated without what is in it.
    UpdateWithoutChildren,
    /// A removed customization is still shown.
    LeaveCustomization,
    /// Discovery does not get a session's new wishes.
    LoseFollow,
    /// Discovery for an unused session never ends.
    LoseForget,
    /// Clients without MCP Apps get the fields of apps.
    ShowAppsToAll,
    /// A report of an earlier start of a server is published as if it came from the current one.
    HearOldServers,
    /// The MCP runner does not get the desired servers of a session.
    LoseServers,
    /// A client types into a terminal that another client holds.
    TypeWithoutClaim,
    /// A program does not get the input of a client.
    LoseTyped,
    /// A process goes on when its terminal is disposed of.
    LeaveProcess,
    /// Output that a client cleared is drawn again for clients that come later.
    DrawClearedOutput,
    /// A view is computed for ever, though no client looks at it.
    LoseUnfollow,
    /// An operation on a view is not carried out, and its request stays without an answer.
    LoseOperation,
    /// A view shows the former content of a changed file.
    MissChange,
    /// Subscribers do not get an annotation.
    HideAnnotation,
    /// Subscribers do not see that a file was reviewed.
    HideReview,
}

impl Mutation {
    /// Those about terminals.
    pub const TERMINALS: [Self; 4] = [
        Self::TypeWithoutClaim,
        Self::LoseTyped,
        Self::LeaveProcess,
        Self::DrawClearedOutput,
    ];

    /// All others.
    pub const ALL: [Self; 51] = [
        Self::DropPublish,
        Self::SwapMessages,
        Self::ReuseSeq,
        Self::ForgetOrigin,
        Self::ForgetReason,
        Self::BroadcastRejection,
        Self::LoseNoOpEcho,
        Self::DeliverAfterUnsubscribe,
        Self::NotifyEverybody,
        Self::LoseSummaryChange,
        Self::LoseSessionRemoved,
        Self::EndTurnTwice,
        Self::MergeAcrossChannel,
        Self::MergeAcrossEcho,
        Self::PublishBeforeResponse,
        Self::FromSeqTooLow,
        Self::FromSeqTooHigh,
        Self::StaleSnapshot,
        Self::ReplayMissesFirst,
        Self::ReplayMissesLast,
        Self::ReplayRepeatsSeen,
        Self::ReplayContainsRejections,
        Self::ReplayHidesMissing,
        Self::ResyncOmitsChannel,
        Self::LoseResponse,
        Self::RepeatDecision,
        Self::LeaveInputNeeded,
        Self::InputNeededWithoutId,
        Self::LoseStart,
        Self::LoseCancel,
        Self::LoseReply,
        Self::ReplyAfterEnd,
        Self::DecideTwice,
        Self::IgnoreEdit,
        Self::ForgetAnswers,
        Self::LoseSteering,
        Self::LeakResult,
        Self::AbandonCalls,
        Self::LeakApproval,
        Self::TakeForeignResult,
        Self::OverwriteQueued,
        Self::IgnoreSwitches,
        Self::KeepSwitchToItself,
        Self::UnsortDecisions,
        Self::UpdateWithoutChildren,
        Self::LeaveCustomization,
        Self::LoseFollow,
        Self::LoseForget,
        Self::ShowAppsToAll,
        Self::HearOldServers,
        Self::LoseServers,
    ];

    /// Those about changesets and annotations.
    pub const CHANGES: [Self; 5] = [
        Self::LoseUnfollow,
        Self::LoseOperation,
        Self::MissChange,
        Self::HideAnnotation,
        Self::HideReview,
    ];
}
