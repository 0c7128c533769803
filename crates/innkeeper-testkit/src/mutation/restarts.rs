//! Seeded bugs of persistence.

use innkeeper_core::records::{Document, Record};
use innkeeper_host::journal::Lease;
use serde_json::Value;

/// One bug that a journal, or a host that uses one, could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JournalBug {
    /// An action that all clients have seen is not persisted.
    LoseAction,
    /// Streamed output that all clients have seen is missing in the middle.
    LoseStream,
    /// Completed turns are not persisted.
    LoseTurns,
    /// The turns that a fork starts with are not persisted.
    LoseCopies,
    /// A new chat is not persisted.
    LoseChat,
    /// A moved chat is persisted in its former session.
    LoseMove,
    /// A session that was disposed of comes back.
    KeepRemovedSession,
    /// A chat that was disposed of comes back.
    KeepRemovedChat,
    /// Documents are kept as if they were older than they are, so that actions are done twice.
    RepeatActions,
    /// Documents are persisted as if they were newer, so that actions are left out.
    SkipActions,
    /// Numbers that were given out are given out again.
    ReuseNumbers,
    /// A lost number counts as persisted, so that clients continue from it.
    ClaimLost,
    /// Sessions with an interrupted turn are not recovered.
    ForgetUnsettled,
    /// Approvals of workspaces are forgotten.
    ForgetRoot,
    /// Later subscriptions of clients are not persisted.
    ForgetSubscriptions,
    /// Decisions of users in a session are not persisted with it.
    ForgetDecisions,
}

impl JournalBug {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::LoseAction,
        Self::LoseStream,
        Self::LoseTurns,
        Self::LoseCopies,
        Self::LoseChat,
        Self::LoseMove,
        Self::KeepRemovedSession,
        Self::KeepRemovedChat,
        Self::RepeatActions,
        Self::SkipActions,
        Self::ReuseNumbers,
        Self::ClaimLost,
        Self::ForgetUnsettled,
        Self::ForgetRoot,
        Self::ForgetSubscriptions,
        Self::ForgetDecisions,
    ];

    /// Bends what is about to be kept. `chances` counts how often there was something to bend.
    pub(crate) fn keep(self, records: &mut Vec<Record>, chances: &mut u64) {
        records.retain_mut(|record| !self.loses(record, chances));
    }

    fn loses(self, record: &mut Record, chances: &mut u64) -> bool {
        let mut strikes = || {
            *chances += 1;
            *chances % 3 == 1
        };
        match (self, record) {
            (Self::LoseAction, Record::Action(action)) => !action.frame.is_mergeable() && strikes(),
            (Self::LoseStream, Record::Action(action)) => action.frame.is_mergeable() && strikes(),
            (Self::LoseTurns, Record::Turns { turns, .. }) => !turns.is_empty() && strikes(),
            (Self::LoseCopies, Record::CopyTurns { .. }) => true,
            (Self::LoseChat, Record::Chat(chat)) => chat.is_new && strikes(),
            (Self::LoseMove, Record::Chat(chat)) => !chat.is_new && strikes(),
            (Self::KeepRemovedSession, Record::SessionRemoved { .. })
            | (Self::KeepRemovedChat, Record::ChatRemoved { .. })
            | (Self::ForgetRoot, Record::Root { .. }) => true,
            (Self::ForgetSubscriptions, Record::Client { replaces, .. }) => *replaces,
            (Self::ForgetDecisions, Record::Session(session)) => {
                let read = serde_json::from_slice::<Value>(&session.document.encode());
                if let Ok(Value::Object(mut document)) = read {
                    document.remove("decisions");
                    session.document = Document::ready(Value::Object(document).to_string().into_bytes());
                }
                false
            }
            (Self::RepeatActions, Record::Chat(chat)) => {
                if !chat.is_new && strikes() {
                    chat.seq.0 = chat.seq.0.saturating_sub(2);
                }
                false
            }
            (Self::SkipActions, Record::Chat(chat)) => {
                chat.seq.0 += 2;
                false
            }
            _ => false,
        }
    }

    /// Bends what a journal tells when it is opened.
    pub(crate) fn open(self, lease: &mut Lease) {
        match self {
            Self::ReuseNumbers => lease.last_seq = lease.persisted_seq,
            Self::ClaimLost => lease.persisted_seq = lease.last_seq,
            Self::ForgetUnsettled => lease.unsettled.clear(),
            _ => {}
        }
    }
}
