//! One run of a host, as far as a journal sees it: it numbers actions and appends records.

use std::sync::Arc;

use ahp_types::actions::{
    ChatDeltaAction, ChatReasoningAction, RootActiveSessionsChangedAction, SessionTitleChangedAction, StateAction,
};
use innkeeper_core::records::{
    ActionRecord, Batch, ChatRecord, Document, ListPage, Record, SessionRecord, StoredSession, StoredSummary,
    SummaryRecord, TurnRecord, TurnSource,
};
use innkeeper_core::uri::ROOT;
use innkeeper_core::{ActionFrame, Seq};
use innkeeper_host::journal::{Appended, Journal, Lease};

use super::Storage;

/// A journal that is open, and what was said through it.
pub struct HostRun {
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// The result of opening it.
    pub lease: Lease,
    /// The last number that was given out.
    pub seq: Seq,
    /// Every action so far, in order.
    pub said: Vec<ActionRecord>,
}

impl HostRun {
    /// Opens the journal of a storage.
    pub async fn begin(storage: &dyn Storage) -> Self {
        let journal = storage.journal();
        let lease = journal.open().await.expect("the journal opens");
        Self {
            seq: lease.last_seq,
            journal,
            lease,
            said: Vec::new(),
        }
    }

    /// Ends this run properly and begins the next one.
    pub async fn again(self, storage: &dyn Storage) -> Self {
        self.flush().await;
        let said = self.said;
        drop(self.journal);
        Self {
            said,
            ..Self::begin(storage).await
        }
    }

    /// Appends records without waiting.
    pub fn append(&self, records: Vec<Record>) -> Appended {
        self.journal.append(Batch { records, seq: self.seq })
    }

    /// Appends records and waits until they are as safe as they have to be.
    pub async fn keep(&self, records: Vec<Record>) {
        self.append(records).await.expect("the batch is kept");
    }

    /// Waits until everything is safe.
    pub async fn flush(&self) {
        self.journal.flush().await.expect("the journal flushes");
    }

    /// Reads a session, which has to be there.
    pub async fn load(&self, channel: &str) -> StoredSession {
        let found = self.journal.load(channel).await.expect("sessions can be read");
        found.unwrap_or_else(|| panic!("{channel} is not there"))
    }

    /// Whether a channel is there.
    pub async fn has(&self, channel: &str) -> bool {
        let found = self.journal.load(channel).await.expect("sessions can be read");
        found.is_some()
    }

    /// Lists all sessions.
    pub async fn list(&self) -> Vec<StoredSummary> {
        let page = ListPage {
            after: None,
            limit: 100_000,
        };
        self.journal.list(page).await.expect("sessions can be listed")
    }

    /// Where turns are read.
    pub fn turns(&self) -> Arc<dyn TurnSource> {
        self.journal.turns().expect("a journal that keeps turns can read them")
    }

    /// The actions said in a channel.
    pub fn said_in(&self, channel: &str) -> Vec<Arc<ActionFrame>> {
        let said = self.said.iter().filter(|action| &*action.channel == channel);
        said.map(|action| Arc::clone(&action.frame)).collect()
    }

    /// An action of the host takes the next number.
    pub fn act(&mut self, channel: &str, action: &StateAction) -> Record {
        self.seq = self.seq.next();
        let record = ActionRecord {
            channel: channel.into(),
            frame: Arc::new(ActionFrame::from_action(channel, action, self.seq)),
        };
        self.said.push(record.clone());
        Record::Action(record)
    }

    /// Streamed text, which is written behind and may be merged.
    pub fn delta(&mut self, chat: &str, part: &str, text: &str) -> Record {
        let action = ChatDeltaAction {
            turn_id: "turn-1".to_owned(),
            part_id: part.to_owned(),
            content: text.to_owned(),
            meta: None,
        };
        self.act(chat, &StateAction::ChatDelta(action))
    }

    /// Streamed reasoning, which is written behind and may be merged with its like.
    pub fn reasoning(&mut self, chat: &str, part: &str, text: &str) -> Record {
        let action = ChatReasoningAction {
            turn_id: "turn-1".to_owned(),
            part_id: part.to_owned(),
            content: text.to_owned(),
            meta: None,
        };
        self.act(chat, &StateAction::ChatReasoning(action))
    }

    /// A durable action of a session.
    pub fn title(&mut self, session: &str, title: &str) -> Record {
        let action = SessionTitleChangedAction {
            title: title.to_owned(),
        };
        self.act(session, &StateAction::SessionTitleChanged(action))
    }

    /// A durable action of the root.
    pub fn root_action(&mut self, active_sessions: i64) -> Record {
        let action = RootActiveSessionsChangedAction { active_sessions };
        self.act(ROOT, &StateAction::RootActiveSessionsChanged(action))
    }

    /// A session that has just been created, at rest.
    pub fn new_session(&self, uri: &str) -> Record {
        self.session_with(uri, |session| session.is_new = true)
    }

    /// A session as it is now, at rest.
    pub fn session(&self, uri: &str) -> Record {
        self.session_with(uri, |_| {})
    }

    /// A session with something different about it.
    pub fn session_with(&self, uri: &str, differ: impl FnOnce(&mut SessionRecord)) -> Record {
        let mut session = SessionRecord {
            seq: self.seq,
            is_new: false,
            is_draft: false,
            at_rest: true,
            summary: summary(uri, 1_000, "as created"),
            document: text(&format!("{uri} at {}", self.seq)),
        };
        differ(&mut session);
        Record::Session(Box::new(session))
    }

    /// A chat that has just been created.
    pub fn new_chat(&self, session: &str, uri: &str) -> Record {
        self.chat_with(session, uri, |chat| chat.is_new = true)
    }

    /// A chat as it is now.
    pub fn chat(&self, session: &str, uri: &str) -> Record {
        self.chat_with(session, uri, |_| {})
    }

    /// A chat with something different about it.
    pub fn chat_with(&self, session: &str, uri: &str, differ: impl FnOnce(&mut ChatRecord)) -> Record {
        let mut chat = ChatRecord {
            uri: uri.into(),
            session: session.into(),
            seq: self.seq,
            is_new: false,
            document: text(&format!("{uri} at {}", self.seq)),
        };
        differ(&mut chat);
        Record::Chat(Box::new(chat))
    }

    /// Creates a session with one chat.
    pub async fn create(&self, session: &str, chat: &str) {
        self.keep(vec![self.new_session(session), self.new_chat(session, chat)])
            .await;
    }
}

/// The summary of a session in lists.
pub fn summary(uri: &str, modified_ms: i64, shown: &str) -> SummaryRecord {
    SummaryRecord {
        uri: uri.into(),
        created_ms: 500,
        modified_ms,
        is_archived: false,
        summary: text(shown),
    }
}

/// A document with some text in it.
pub fn text(text: &str) -> Document {
    Document::ready(text.as_bytes().to_vec())
}

/// Turns with these ids, whose documents name them.
pub fn turns(ids: &[&str]) -> Vec<TurnRecord> {
    let turn = |id: &&str| TurnRecord {
        id: (*id).into(),
        document: text(&turn_document(id)),
    };
    ids.iter().map(turn).collect()
}

/// The document of such a turn.
pub fn turn_document(id: &str) -> String {
    format!(r#"{{"id":"{id}"}}"#)
}

/// The turns of a chat from one on are replaced by these.
pub fn turns_record(chat: &str, from: usize, ids: &[&str]) -> Record {
    Record::Turns {
        chat: chat.into(),
        from,
        turns: turns(ids),
    }
}

/// A client as it is now.
pub fn client(id: &str, known: &str) -> Record {
    Record::Client {
        id: id.into(),
        document: text(known),
        replaces: false,
    }
}
