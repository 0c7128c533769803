//! The contents of a journal in memory, and the effect of records on them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use innkeeper_core::Seq;
use innkeeper_core::records::{
    Batch, ChatRecord, DeletedSession, ImportedSession, ListPage, Record, SessionRecord, StoredChat, StoredClient,
    StoredFrame, StoredRoot, StoredSession, StoredSummary, StoredTurn, SummaryRecord, TurnRecord,
};
use innkeeper_core::uri::ROOT;

use super::log::Log;
use crate::services::journal::JournalError;

/// How many clients are remembered.
const CLIENTS: usize = 1000;
/// How many turns of a chat are given with it, and how many bytes of them; at least one.
const RECENT_TURNS: usize = 20;
const RECENT_BYTES: usize = 256 << 10;

/// Sessions, their chats, and everything around them.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    /// The last number of the latest batch.
    pub(super) seq: Seq,
    sessions: BTreeMap<Arc<str>, Session>,
    chats: BTreeMap<Arc<str>, Chat>,
    /// Session and chat, to find the chats of a session.
    members: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Time and URI of every session but for drafts; lists read it backwards.
    order: BTreeSet<(i64, Arc<str>)>,
    logs: BTreeMap<Arc<str>, Log>,
    turns: BTreeMap<Arc<str>, Vec<Turn>>,
    /// Latest last.
    clients: Vec<StoredClient>,
    root: Option<(Seq, Bytes)>,
}

#[derive(Debug, Clone)]
struct Session {
    seq: Seq,
    document: Bytes,
    modified_ms: i64,
    summary: Bytes,
    is_draft: bool,
    is_settled: bool,
    /// When it was deleted, if it was.
    deleted_ms: Option<i64>,
}

#[derive(Debug, Clone)]
struct Chat {
    session: Arc<str>,
    seq: Seq,
    document: Bytes,
}

#[derive(Debug, Clone)]
struct Turn {
    id: Arc<str>,
    document: Bytes,
}

impl Contents {
    /// Takes a batch as a whole.
    pub(super) fn apply(&mut self, batch: &Batch, at_ms: i64) {
        for record in &batch.records {
            self.apply_record(record, at_ms);
        }
        // Logs and turns may come before their channel, but not without it: a late action of a removed channel is
        // dropped.
        let (sessions, chats) = (&self.sessions, &self.chats);
        let is_known = |uri: &Arc<str>| &**uri == ROOT || sessions.contains_key(uri) || chats.contains_key(uri);
        for record in &batch.records {
            match record {
                Record::Action(action) if !is_known(&action.channel) => {
                    self.logs.remove(&action.channel);
                }
                Record::Turns { chat: uri, .. } | Record::CopyTurns { to: uri, .. } if !chats.contains_key(uri) => {
                    self.turns.remove(uri);
                }
                _ => {}
            }
        }
        self.seq = self.seq.max(batch.seq);
    }

    fn apply_record(&mut self, record: &Record, at_ms: i64) {
        match record {
            Record::Action(action) => {
                let log = self.logs.entry(Arc::clone(&action.channel)).or_default();
                log.push(Arc::clone(&action.frame), at_ms);
                self.unsettle(&action.channel);
            }
            Record::Session(session) => self.put_session(session),
            Record::Summary(summary) => self.put_summary(summary),
            Record::SessionRemoved { uri } => self.remove_session(uri),
            Record::SessionDeleted { uri, at_ms } => self.delete_session(uri, *at_ms),
            Record::Chat(chat) => self.put_chat(chat),
            Record::ChatRemoved { uri } => self.remove_chat(uri),
            Record::Turns { chat, from, turns } => {
                let kept = self.turns.entry(Arc::clone(chat)).or_default();
                kept.truncate(*from);
                kept.extend(turns.iter().map(Turn::from));
            }
            Record::CopyTurns { from, to, count } => {
                let copied = self.turns.get(from).map(|turns| turns.iter().take(*count).cloned());
                let copied = copied.map(Iterator::collect).unwrap_or_default();
                self.turns.insert(Arc::clone(to), copied);
            }
            Record::Client { id, document, .. } => {
                self.forget_client(id);
                self.clients.push(StoredClient {
                    id: id.to_string(),
                    document: document.encode().into(),
                });
                if self.clients.len() > CLIENTS {
                    self.clients.remove(0);
                }
            }
            Record::ClientForgotten { id } => self.forget_client(id),
            Record::Root { seq, document, .. } => {
                self.root = Some((*seq, document.encode().into()));
                self.fold_log(&ROOT.into(), *seq);
            }
        }
    }

    /// Notes that something happened in a session, here or in one of its chats.
    fn unsettle(&mut self, channel: &Arc<str>) {
        let session = self.chats.get(channel).map_or(channel, |chat| &chat.session);
        if let Some(session) = self.sessions.get_mut(session) {
            session.is_settled = false;
        }
    }

    fn put_session(&mut self, record: &SessionRecord) {
        let uri = &record.summary.uri;
        if let Some(before) = self.sessions.get(uri) {
            self.order.remove(&(before.modified_ms, Arc::clone(uri)));
        }
        if !record.is_draft {
            self.order.insert((record.summary.modified_ms, Arc::clone(uri)));
        }
        let session = Session {
            seq: record.seq,
            document: record.document.encode().into(),
            modified_ms: record.summary.modified_ms,
            summary: record.summary.summary.encode().into(),
            is_draft: record.is_draft,
            is_settled: record.at_rest,
            deleted_ms: None,
        };
        self.sessions.insert(Arc::clone(uri), session);
        self.fold_log(uri, record.seq);
    }

    fn put_summary(&mut self, record: &SummaryRecord) {
        if let Some(session) = self.sessions.get_mut(&record.uri)
            && !session.is_draft
        {
            self.order.remove(&(session.modified_ms, Arc::clone(&record.uri)));
            self.order.insert((record.modified_ms, Arc::clone(&record.uri)));
            session.modified_ms = record.modified_ms;
            session.summary = record.summary.encode().into();
        }
    }

    fn put_chat(&mut self, record: &ChatRecord) {
        let chat = Chat {
            session: Arc::clone(&record.session),
            seq: record.seq,
            document: record.document.encode().into(),
        };
        if let Some(before) = self.chats.insert(Arc::clone(&record.uri), chat) {
            self.members.remove(&(before.session, Arc::clone(&record.uri)));
        }
        self.members
            .insert((Arc::clone(&record.session), Arc::clone(&record.uri)));
        self.fold_log(&record.uri, record.seq);
    }

    fn remove_session(&mut self, uri: &Arc<str>) {
        for chat in self.chats_of(uri) {
            self.remove_chat(&chat);
        }
        if let Some(session) = self.sessions.remove(uri) {
            self.order.remove(&(session.modified_ms, Arc::clone(uri)));
        }
        self.logs.remove(uri);
    }

    fn delete_session(&mut self, uri: &Arc<str>, at_ms: i64) {
        if let Some(session) = self.sessions.get_mut(uri) {
            self.order.remove(&(session.modified_ms, Arc::clone(uri)));
            session.deleted_ms = Some(at_ms);
        }
    }

    pub(super) fn deleted(&self) -> Vec<DeletedSession> {
        let deleted = |(uri, session): (&Arc<str>, &Session)| {
            Some(DeletedSession {
                uri: uri.to_string(),
                deleted_ms: session.deleted_ms?,
                summary: session.summary.clone(),
            })
        };
        let mut deleted: Vec<_> = self.sessions.iter().filter_map(deleted).collect();
        deleted.sort_by_key(|session| std::cmp::Reverse(session.deleted_ms));
        deleted
    }

    pub(super) fn undo_deletion(&mut self, uri: &str) -> Result<ImportedSession, JournalError> {
        let uri: Arc<str> = uri.into();
        let chats = self.chats_of(&uri);
        let session = self
            .sessions
            .get_mut(&uri)
            .filter(|session| session.deleted_ms.is_some());
        let Some(session) = session else {
            return Err(JournalError::Failed(format!("there is no deleted session {uri}")));
        };
        session.deleted_ms = None;
        self.order.insert((session.modified_ms, Arc::clone(&uri)));
        let turns = chats.iter().filter_map(|chat| self.turns.get(chat)).map(Vec::len);
        Ok(ImportedSession {
            chats: chats.len(),
            turns: turns.sum(),
            at_rest: session.is_settled,
            last_seq: self.seq,
            summary: session.summary.clone(),
            approvals: Vec::new(),
            uri: uri.to_string(),
        })
    }

    pub(super) fn purge_deleted(&mut self, before_ms: i64) -> Vec<String> {
        let deleted = self.deleted().into_iter();
        let purged = deleted.filter(|session| session.deleted_ms < before_ms);
        let purged: Vec<String> = purged.map(|session| session.uri).collect();
        for uri in &purged {
            self.remove_session(&uri.as_str().into());
        }
        purged
    }

    fn remove_chat(&mut self, uri: &Arc<str>) {
        if let Some(chat) = self.chats.remove(uri) {
            self.members.remove(&(chat.session, Arc::clone(uri)));
        }
        self.turns.remove(uri);
        self.logs.remove(uri);
    }

    fn forget_client(&mut self, id: &str) {
        self.clients.retain(|client| client.id != id);
    }

    fn fold_log(&mut self, channel: &Arc<str>, seq: Seq) {
        self.logs.entry(Arc::clone(channel)).or_default().fold(seq);
    }

    fn chats_of(&self, session: &Arc<str>) -> Vec<Arc<str>> {
        let start = (Arc::clone(session), Arc::from(""));
        let members = self.members.range(start..);
        members
            .take_while(|(owner, _)| owner == session)
            .map(|(_, chat)| Arc::clone(chat))
            .collect()
    }

    /// How many sessions lists show.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn unsettled(&self) -> Vec<String> {
        let is_unsettled = |session: &Session| !session.is_settled && session.deleted_ms.is_none();
        let unsettled = self.sessions.iter().filter(|(_, session)| is_unsettled(session));
        unsettled.map(|(uri, _)| uri.to_string()).collect()
    }

    pub(super) fn clients(&self) -> Vec<StoredClient> {
        self.clients.clone()
    }

    pub(super) fn root(&self) -> Option<StoredRoot> {
        let (seq, document) = self.root.clone()?;
        let log = self.log_of(&ROOT.into()).collect();
        Some(StoredRoot { seq, document, log })
    }

    pub(super) fn load(&self, channel: &str) -> Option<StoredSession> {
        let uri: Arc<str> = self
            .chats
            .get(channel)
            .map_or_else(|| channel.into(), |chat| Arc::clone(&chat.session));
        let session = self.sessions.get(&uri)?;
        if session.deleted_ms.is_some() {
            return Some(StoredSession {
                uri: uri.to_string(),
                is_deleted: true,
                ..StoredSession::default()
            });
        }
        let chats = self.chats_of(&uri);
        let mut log: Vec<_> = self.log_of(&uri).collect();
        for chat in &chats {
            log.extend(self.log_of(chat));
        }
        log.sort_by_key(|frame| frame.seq);
        Some(StoredSession {
            uri: uri.to_string(),
            seq: session.seq,
            document: session.document.clone(),
            chats: chats.iter().filter_map(|chat| self.chat(chat)).collect(),
            log,
            is_deleted: false,
        })
    }

    fn log_of(&self, channel: &Arc<str>) -> impl Iterator<Item = StoredFrame> {
        self.logs.get(channel).into_iter().flat_map(|log| log.frames(channel))
    }

    fn chat(&self, uri: &Arc<str>) -> Option<StoredChat> {
        let chat = self.chats.get(uri)?;
        let turns = self.turns.get(uri).map(Vec::as_slice).unwrap_or_default();
        let mut bytes = 0;
        let mut recent: Vec<_> = turns
            .iter()
            .rev()
            .take(RECENT_TURNS)
            .enumerate()
            .take_while(|(age, turn)| {
                bytes += turn.document.len();
                *age == 0 || bytes <= RECENT_BYTES
            })
            .map(|(_, turn)| turn.document.clone())
            .collect();
        recent.reverse();
        Some(StoredChat {
            uri: uri.to_string(),
            seq: chat.seq,
            document: chat.document.clone(),
            turns: turns.iter().map(Turn::known).collect(),
            recent,
        })
    }

    pub(super) fn list(&self, page: &ListPage) -> Vec<StoredSummary> {
        let end = page.after.as_ref().map(|(at, uri)| (*at, Arc::from(uri.as_str())));
        let rest = match end {
            Some(end) => self.order.range(..end),
            None => self.order.range::<(i64, Arc<str>), _>(..),
        };
        let line = |(modified_ms, uri): &(i64, Arc<str>)| {
            Some(StoredSummary {
                uri: uri.to_string(),
                modified_ms: *modified_ms,
                summary: self.sessions.get(uri)?.summary.clone(),
            })
        };
        rest.rev().take(page.limit).filter_map(line).collect()
    }

    pub(super) fn turns(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        let turns = self.turns.get(chat).map(Vec::as_slice).unwrap_or_default();
        let Some(wanted) = turns.get(range.clone()) else {
            return Err(format!(
                "turns {} to {} of {chat} are not all there: it has {}",
                range.start,
                range.end,
                turns.len()
            ));
        };
        Ok(wanted.iter().map(|turn| turn.document.clone()).collect())
    }

    pub(super) fn position(&self, chat: &str, turn_id: &str) -> Option<usize> {
        let mut turns = self.turns.get(chat)?.iter();
        turns.position(|turn| &*turn.id == turn_id)
    }
}

impl Turn {
    fn known(&self) -> StoredTurn {
        StoredTurn {
            id: self.id.to_string(),
            bytes: self.document.len(),
        }
    }
}

impl From<&TurnRecord> for Turn {
    fn from(record: &TurnRecord) -> Self {
        Self {
            id: Arc::clone(&record.id),
            document: record.document.encode().into(),
        }
    }
}
