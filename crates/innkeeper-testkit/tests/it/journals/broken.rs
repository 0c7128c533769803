//! A journal in memory that makes one mistake.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::FutureExt;
use innkeeper_core::Seq;
use innkeeper_core::records::{
    Batch, DeletedSession, ImportedSession, ListPage, Record, StoredFrame, StoredSession, StoredSummary, TurnSource,
};
use innkeeper_host::async_trait;
use innkeeper_host::journal::{Appended, CrashSurvivors, Journal, JournalError, Lease, MemoryJournal};
use innkeeper_testkit::journal::{Storage, StorageFailure};

use super::mistakes::Mistake;

/// A storage whose journal makes a mistake; the journal as well.
#[derive(Debug, Clone)]
pub struct Broken {
    inner: MemoryJournal,
    mistake: Mistake,
    notes: Arc<Mutex<Notes>>,
}

/// State that mistakes need.
#[derive(Debug, Default, Clone)]
struct Notes {
    /// A batch that comes later than it should.
    held: Option<Batch>,
    failure: Option<JournalError>,
    has_failed: bool,
    lives: u64,
    unsettled: BTreeSet<String>,
    sessions_of_chats: HashMap<Arc<str>, Arc<str>>,
    removed_sessions: Vec<StoredSummary>,
    removed_turns: BTreeMap<String, Vec<Bytes>>,
}

impl Broken {
    /// An empty one.
    pub fn new(mistake: Mistake) -> Self {
        Self {
            inner: MemoryJournal::mortal(Seq(1_000)),
            mistake,
            notes: Arc::default(),
        }
    }

    fn left(&self, keep: CrashSurvivors) -> Box<dyn Storage> {
        let mut notes = self.notes().clone();
        notes.held = None;
        Box::new(Self {
            inner: self.inner.crash(keep),
            mistake: self.mistake,
            notes: Arc::new(Mutex::new(notes)),
        })
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("nothing panics while it holds the notes")
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    fn write(&self, batch: Batch) -> Result<(), JournalError> {
        let written = self.inner.append(batch);
        written.now_or_never().expect("memory does not wait")
    }

    fn revive_inner(&self) {
        self.inner.recover();
        let revived = self.inner.revive().now_or_never().expect("memory does not wait");
        revived.expect("the journal has recovered");
    }

    fn let_go(&self) {
        let held = self.notes().held.take();
        if let Some(held) = held {
            // A failure of the delayed batch is ignored.
            self.write(held).unwrap_or_default();
        }
    }

    /// Appends a batch that was changed already.
    fn append_wrongly(&self, batch: Batch) -> Result<(), JournalError> {
        match self.mistake {
            Mistake::SwapsBatches if !batch.is_durable() && self.notes().held.is_none() => {
                self.notes().held = Some(batch);
                return Ok(());
            }
            Mistake::ConfirmsTooEarly => {
                self.let_go();
                if self.notes().failure.is_none() && !self.notes().has_failed {
                    self.notes().held = Some(batch);
                    return Ok(());
                }
            }
            _ => {}
        }
        let written = self.write(batch.clone());
        self.let_go();
        let Err(error) = written else { return Ok(()) };
        self.notes().has_failed = true;
        let failure = self.notes().failure.clone();
        match (self.mistake, failure) {
            (Mistake::KeepsHalfOfAFailedBatch, Some(failure)) => {
                let mut half = batch;
                half.records.truncate(half.records.len() / 2);
                self.revive_inner();
                self.write(half)?;
                self.inner.fail_with(failure);
                self.write(Batch::default())
            }
            (Mistake::GoesOnAfterAFailure, None) => {
                self.revive_inner();
                self.write(batch)
            }
            (Mistake::ConfusesFailures, _) => Err(JournalError::Full(error.to_string())),
            _ => Err(error),
        }
    }

    /// The batch as this journal understands it.
    fn misread(&self, mut batch: Batch) -> Batch {
        let mistake = self.mistake;
        if mistake == Mistake::DropsTheLastRecord && batch.records.len() > 2 {
            batch.records.pop();
        }
        if mistake == Mistake::CountsActionsOnly {
            let actions = batch.records.iter().rev().filter_map(|record| match record {
                Record::Action(action) => Some(action.frame.seq),
                _ => None,
            });
            batch.seq = actions.max().unwrap_or_default();
        }
        batch.records.retain(|record| match (mistake, record) {
            (Mistake::DropsStreams, Record::Action(_)) => record.is_durable(),
            (Mistake::IgnoresSummaries, Record::Summary(_)) => false,
            (Mistake::RemembersForEver, Record::ClientForgotten { .. }) => false,
            (Mistake::KeepsTheFirstDocument, Record::Chat(chat)) => chat.is_new,
            (Mistake::IgnoresDeletions, Record::SessionDeleted { .. }) => false,
            _ => true,
        });
        for record in &mut batch.records {
            if let (Mistake::DeletesForGood, Record::SessionDeleted { uri, .. }) = (mistake, &*record) {
                *record = Record::SessionRemoved { uri: Arc::clone(uri) };
            }
            match (mistake, record) {
                (Mistake::NeverTruncatesTurns, Record::Turns { from, .. }) => *from = usize::MAX,
                (Mistake::CopiesAllTurns, Record::CopyTurns { count, .. }) => *count = usize::MAX,
                (Mistake::MergesAcrossDocuments, Record::Chat(chat)) => chat.seq = Seq(0),
                (Mistake::NeverMovesChats, Record::Chat(chat)) => {
                    let mut notes = self.notes();
                    let first = notes.sessions_of_chats.entry(Arc::clone(&chat.uri));
                    chat.session = Arc::clone(first.or_insert_with(|| Arc::clone(&chat.session)));
                }
                _ => {}
            }
        }
        self.note(&batch);
        batch
    }

    fn note(&self, batch: &Batch) {
        for record in &batch.records {
            match record {
                Record::Session(session) => {
                    let uri = session.summary.uri.to_string();
                    let mut notes = self.notes();
                    notes.unsettled.remove(&uri);
                    if !session.at_rest {
                        notes.unsettled.insert(uri);
                    }
                }
                Record::SessionRemoved { uri } => {
                    let mut lines = self.lines();
                    lines.retain(|line| line.uri == **uri);
                    self.notes().removed_sessions.extend(lines);
                    self.notes().unsettled.remove(&**uri);
                }
                Record::ChatRemoved { uri } => {
                    let turns = self.inner.read(uri, 0..1).unwrap_or_default();
                    self.notes().removed_turns.insert(uri.to_string(), turns);
                }
                _ => {}
            }
        }
    }

    /// All lines of the list.
    fn lines(&self) -> Vec<StoredSummary> {
        let page = ListPage {
            after: None,
            limit: usize::MAX,
        };
        let lines = self.inner.list(page).now_or_never().expect("memory does not wait");
        lines.expect("memory can be read")
    }

    fn list_wrongly(&self, page: &ListPage) -> Vec<StoredSummary> {
        let mut lines = self.lines();
        match self.mistake {
            Mistake::SortsTiesForwards => {
                lines.sort_by(|a, b| b.modified_ms.cmp(&a.modified_ms).then(a.uri.cmp(&b.uri)))
            }
            Mistake::ListsRemovedSessions => lines.extend(self.notes().removed_sessions.clone()),
            _ => {}
        }
        if let Some((at, uri)) = &page.after {
            lines.retain(|line| match self.mistake {
                Mistake::RepeatsTheMark => (line.modified_ms, &line.uri) <= (*at, uri),
                Mistake::SkipsTies => line.modified_ms < *at,
                Mistake::SortsTiesForwards => line.modified_ms < *at || (line.modified_ms == *at && line.uri > *uri),
                _ => (line.modified_ms, &line.uri) < (*at, uri),
            });
        }
        lines.truncate(page.limit);
        lines
    }

    fn spoil(&self, session: &mut StoredSession) {
        let log = &mut session.log;
        match self.mistake {
            Mistake::LeavesAHole if log.len() > 2 => {
                log.remove(log.len() / 2);
            }
            Mistake::LosesTheEndOfALog => {
                log.pop();
            }
            Mistake::SortsTheLogByChannel => log.sort_by(|a, b| a.channel.cmp(&b.channel)),
            _ => {}
        }
        for frame in log.iter_mut().filter(|frame| frame.first < frame.seq) {
            match self.mistake {
                Mistake::LosesMergedText => lose_text(frame),
                Mistake::ForgetsTheFirstNumber => frame.first = frame.seq,
                Mistake::NumbersByTheStart => frame.seq = frame.first,
                _ => {}
            }
        }
        for chat in &mut session.chats {
            match self.mistake {
                Mistake::GivesNoRecentTurns => chat.recent.clear(),
                Mistake::GivesTheOldestTurns => chat.recent = self.inner.read(&chat.uri, 0..1).unwrap_or_default(),
                _ => {}
            }
        }
    }
}

fn lose_text(frame: &mut StoredFrame) {
    let mut message: serde_json::Value = serde_json::from_slice(&frame.bytes).expect("frames are JSON");
    message["params"]["action"]["content"] = "the start".into();
    frame.bytes = message.to_string().into();
}

#[async_trait]
impl Storage for Broken {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(self.clone())
    }

    async fn killed(&self) -> Box<dyn Storage> {
        self.left(CrashSurvivors::Batches(self.inner.unsynced() / 2))
    }

    async fn without_power(&self) -> Box<dyn Storage> {
        self.left(CrashSurvivors::Durable)
    }

    fn break_down(&self, failure: StorageFailure) -> bool {
        self.let_go();
        let error = super::error(failure);
        self.notes().failure = Some(error.clone());
        self.inner.fail_with(error);
        true
    }

    fn mend(&self) {
        self.notes().failure = None;
        self.inner.recover();
    }
}

#[async_trait]
impl Journal for Broken {
    async fn open(&self) -> Result<Lease, JournalError> {
        self.let_go();
        let mut lease = self.inner.open().await?;
        let mut notes = self.notes();
        match self.mistake {
            Mistake::ReusesNumbers => lease.last_seq = lease.persisted_seq.max(Seq(1_000)),
            Mistake::ReservesAtTheStartOnly => lease.last_seq = Seq(1_000 + (notes.lives << 16)),
            Mistake::ClaimsToKeepEverything => lease.persisted_seq = lease.last_seq,
            Mistake::ForgetsTheUnsettled => lease.unsettled.clear(),
            Mistake::UnsettlesByRecordOnly => lease.unsettled = notes.unsettled.iter().cloned().collect(),
            Mistake::SettlesNone => lease.unsettled = self.lines().into_iter().map(|line| line.uri).collect(),
            Mistake::SortsClients => lease.clients.sort_by(|a, b| a.id.cmp(&b.id)),
            Mistake::LosesTheLogOfTheRoot => {
                if let Some(root) = &mut lease.root {
                    root.log.clear();
                }
            }
            _ => {}
        }
        notes.lives += 1;
        Ok(lease)
    }

    fn append(&self, batch: Batch) -> Appended {
        let batch = self.misread(batch);
        Box::pin(ready(self.append_wrongly(batch)))
    }

    async fn revive(&self) -> Result<(), JournalError> {
        self.inner.revive().await?;
        self.notes().has_failed = false;
        Ok(())
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.let_go();
        if self.makes(Mistake::FlushesNothing) {
            return Ok(());
        }
        self.inner.flush().await
    }

    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError> {
        if !self.makes(Mistake::SwapsBatches) {
            self.let_go();
        }
        if self.makes(Mistake::CannotBeReadAfterAFailure) && self.notes().has_failed {
            return Ok(None);
        }
        let mut found = self.inner.load(channel).await?;
        if self.makes(Mistake::FindsByOwnUriOnly) {
            found = found.filter(|session| session.uri == channel);
        }
        if self.makes(Mistake::FindsByPrefix) && found.is_none() {
            let like = self.lines().into_iter().find(|line| line.uri.starts_with(channel));
            if let Some(like) = like {
                found = self.inner.load(&like.uri).await?;
            }
        }
        if let Some(session) = &mut found {
            self.spoil(session);
        }
        Ok(found)
    }

    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        self.let_go();
        Ok(self.list_wrongly(&page))
    }

    async fn deleted(&self) -> Result<Vec<DeletedSession>, JournalError> {
        self.let_go();
        let mut deleted = self.inner.deleted().await?;
        if self.makes(Mistake::SortsDeletionsForwards) {
            deleted.reverse();
        }
        Ok(deleted)
    }

    async fn undo_deletion(&self, uri: &str) -> Result<ImportedSession, JournalError> {
        self.let_go();
        let restored = self.inner.undo_deletion(uri).await?;
        if self.makes(Mistake::RestoresWithoutTurns) {
            let session = self.inner.load(uri).await?;
            let chats = session.into_iter().flat_map(|session| session.chats);
            let records = chats.map(|chat| Record::Turns {
                chat: chat.uri.into(),
                from: 0,
                turns: Vec::new(),
            });
            let records = records.collect();
            self.write(Batch {
                records,
                seq: restored.last_seq,
            })?;
        }
        Ok(restored)
    }

    async fn purge_deleted(&self, before_ms: i64) -> Result<Vec<String>, JournalError> {
        self.let_go();
        match self.mistake {
            Mistake::PurgesNothing => Ok(Vec::new()),
            Mistake::PurgesEverything => self.inner.purge_deleted(i64::MAX).await,
            Mistake::PurgesTheMomentItself => self.inner.purge_deleted(before_ms.saturating_add(1)).await,
            _ => self.inner.purge_deleted(before_ms).await,
        }
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        self.let_go();
        Some(Arc::new(self.clone()))
    }
}

impl TurnSource for Broken {
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        let read = self.inner.read(chat, range.clone());
        if read.is_ok() {
            return read;
        }
        match self.mistake {
            Mistake::ReadsHalfARange => {
                let there = range.filter_map(|position| self.inner.read(chat, position..position + 1).ok());
                Ok(there.flatten().collect())
            }
            Mistake::KeepsTurnsOfRemovedChats => self.notes().removed_turns.get(chat).cloned().ok_or_else(String::new),
            _ => read,
        }
    }

    fn position(&self, chat: &str, turn_id: &str) -> Result<Option<usize>, String> {
        self.inner.position(chat, turn_id)
    }
}
