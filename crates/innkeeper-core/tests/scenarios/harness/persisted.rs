//! A journal in memory, for scenarios in which the host starts again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use innkeeper_core::records::{
    Record, StoredChat, StoredFrame, StoredRoot, StoredSession, TurnSource, Unreadable, mark_imported, restore,
};
use innkeeper_core::{CoreConfig, Effect, HostCore, Input, JournalCommand, Opening, Publication, Seq, StorageMode};

use super::{ROOT, Stage, able};

/// The persisted state, as a journal returns it.
#[derive(Default)]
pub struct PersistedState {
    root: Option<(Seq, Bytes)>,
    sessions: BTreeMap<Arc<str>, (Seq, Bytes)>,
    chats: BTreeMap<Arc<str>, (Arc<str>, Seq, Bytes)>,
    /// The sessions that are no drafts.
    listed: BTreeSet<Arc<str>>,
    /// When sessions were deleted.
    pub deleted: BTreeMap<Arc<str>, i64>,
    log: Vec<StoredFrame>,
    /// Whether an answer had to wait for the host's own document.
    pub root_was_promised: bool,
}

impl PersistedState {
    pub fn persist(&mut self, effect: &Effect) {
        match effect {
            Effect::Publish(Publication { uri, frame, .. }) => self.log.push(StoredFrame {
                channel: Arc::clone(uri),
                first: frame.seq,
                seq: frame.seq,
                at_ms: 0,
                bytes: frame.bytes.clone().into(),
            }),
            Effect::Persist(record) => match &**record {
                Record::Root {
                    seq,
                    document,
                    is_promised,
                } => {
                    self.root_was_promised |= is_promised;
                    self.root = Some((*seq, document.encode().into()));
                }
                Record::Session(session) => {
                    let uri = Arc::clone(&session.summary.uri);
                    if !session.is_draft {
                        self.listed.insert(Arc::clone(&uri));
                    }
                    self.sessions
                        .insert(uri, (session.seq, session.document.encode().into()));
                }
                Record::Chat(chat) => {
                    let (session, document) = (Arc::clone(&chat.session), chat.document.encode().into());
                    self.chats.insert(Arc::clone(&chat.uri), (session, chat.seq, document));
                }
                Record::SessionRemoved { uri } => {
                    self.sessions.remove(uri);
                    self.deleted.remove(uri);
                    self.listed.remove(uri);
                    self.chats.retain(|_, (session, ..)| session != uri);
                }
                Record::SessionDeleted { uri, at_ms } => {
                    self.listed.remove(uri);
                    self.deleted.insert(Arc::clone(uri), *at_ms);
                }
                Record::ChatRemoved { uri } => {
                    self.chats.remove(uri);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Whether this is a deleted session or one of its chats.
    fn is_deleted(&self, uri: &str) -> bool {
        let session = self.chats.get(uri).map_or(uri, |(session, ..)| session);
        self.deleted.contains_key(session)
    }

    pub fn has_session(&self, uri: &str) -> bool {
        self.sessions.contains_key(uri)
    }

    /// Changes the host's own document, as if another version had written it.
    pub fn edit_root(&mut self, edit: impl FnOnce(&mut serde_json::Value)) {
        let (_, document) = self.root.as_mut().expect("a root");
        *document = edited(document, edit);
    }

    /// Changes the document of a session likewise.
    pub fn edit_session(&mut self, uri: &str, edit: impl FnOnce(&mut serde_json::Value)) {
        let (_, document) = self.sessions.get_mut(uri).expect("a session");
        *document = edited(document, edit);
    }

    /// Forgets the actions since the documents were written.
    pub fn forget_log(&mut self) {
        self.log.clear();
    }

    /// Takes a session for one that was exported elsewhere. Returns what was allowed in it.
    pub fn import(&mut self, uri: &str) -> Vec<String> {
        let (_, document) = self.sessions.get_mut(uri).expect("a session");
        let (marked, approvals) = mark_imported(document);
        *document = marked.into();
        approvals
    }

    fn session(&self, uri: &str) -> Option<StoredSession> {
        let (seq, document) = self.sessions.get(uri)?.clone();
        let chats = self.chats.iter().filter(|(_, (session, ..))| **session == *uri);
        let chats = chats.map(|(uri, (_, seq, document))| StoredChat {
            uri: uri.to_string(),
            seq: *seq,
            document: document.clone(),
            ..StoredChat::default()
        });
        Some(StoredSession {
            uri: uri.to_owned(),
            seq,
            document,
            chats: chats.collect(),
            log: self.log.clone(),
            is_deleted: false,
        })
    }
}

fn edited(document: &[u8], edit: impl FnOnce(&mut serde_json::Value)) -> Bytes {
    let mut value = serde_json::from_slice(document).expect("JSON");
    edit(&mut value);
    value.to_string().into()
}

impl Stage {
    /// A host with a store that has this.
    pub fn opening(kept: PersistedState, config: CoreConfig) -> Self {
        let (stage, warnings) = Self::opening_warned(kept, config);
        assert!(warnings.is_empty(), "{warnings:?}");
        stage
    }

    /// The same, with the host's warnings about the persisted state.
    pub fn opening_warned(kept: PersistedState, config: CoreConfig) -> (Self, Vec<String>) {
        let mut stage = Self::able(config.clone());
        let last = kept.log.last().map_or(Seq(1), |frame| frame.seq);
        let root = kept.root.clone().map(|(seq, document)| StoredRoot {
            seq,
            document,
            log: kept
                .log
                .iter()
                .filter(|frame| &*frame.channel == ROOT)
                .cloned()
                .collect(),
        });
        let opening = Opening {
            last_seq: Seq(last.0 + 1000),
            persisted_seq: last,
            sessions: kept.listed.len(),
            clients: Vec::new(),
            root,
            turns: Arc::clone(&stage.turns) as Arc<dyn TurnSource>,
            first_channel: 0,
            storage: StorageMode::ReadWrite,
        };
        let (mut effects, mut warnings) = (Vec::new(), Vec::new());
        stage.core = HostCore::open(
            config,
            vec![able("tour")],
            opening,
            stage.now,
            &mut effects,
            &mut warnings,
        );
        stage.persisted = Some(kept);
        stage.perform(effects);
        (stage, warnings)
    }

    /// The process ends without a shutdown, and another one starts with the persisted state.
    pub fn restart(&mut self, config: CoreConfig) -> Self {
        Self::opening(self.persisted.take().expect("a host with a store"), config)
    }

    /// The answer of the store to a load.
    pub(super) fn loaded(&mut self, effect: &Effect) -> Option<Input> {
        let Effect::Journal(JournalCommand::Load { uri }) = effect else {
            return None;
        };
        let turns = Arc::clone(&self.turns) as Arc<dyn TurnSource>;
        if self.persisted.as_ref()?.is_deleted(uri) {
            let (uri, outcome) = (Arc::clone(uri), Err(Unreadable::Deleted));
            return Some(Input::Loaded { uri, outcome });
        }
        let stored = self.persisted.as_ref()?.session(uri);
        let session = stored.map(|stored| Box::new(restore(stored, &turns).expect("readable")));
        let (uri, outcome) = (Arc::clone(uri), Ok(session));
        Some(Input::Loaded { uri, outcome })
    }
}
