//! The workload of a busy host: sessions are created, changed and removed.

use std::sync::Arc;

use ahp_types::actions::{ChatDeltaAction, RootActiveSessionsChangedAction, SessionTitleChangedAction, StateAction};
use innkeeper_core::records::{
    ActionRecord, Batch, ChatRecord, Document, Record, SessionRecord, SummaryRecord, TurnRecord,
};
use innkeeper_core::uri::ROOT;
use innkeeper_core::{ActionFrame, Seq};
use innkeeper_faults::Random;

/// An endless series of batches, determined by a seed except for sequence numbers.
#[derive(Clone)]
pub struct Workload {
    random: Random,
    /// The last assigned sequence number.
    pub seq: Seq,
    sessions: Vec<Session>,
    names: usize,
}

#[derive(Clone)]
struct Session {
    uri: Arc<str>,
    chats: Vec<Chat>,
}

#[derive(Clone)]
struct Chat {
    uri: Arc<str>,
    turns: usize,
}

impl Workload {
    pub fn new(seed: u64, seq: Seq) -> Self {
        Self {
            random: Random::new(seed),
            seq,
            sessions: Vec::new(),
            names: 0,
        }
    }

    /// Returns the next batch. Every batch has its own last sequence number, so that the last persisted batch can be
    /// identified.
    pub fn next(&mut self) -> Batch {
        let what = self.random.below(100);
        let mut records = if self.sessions.iter().all(|session| session.chats.is_empty()) {
            self.create()
        } else {
            match what {
                0..8 => self.create(),
                8..20 => vec![self.title()],
                20..60 => self.stream(),
                60..74 => self.end_turn(),
                74..78 => self.truncate(),
                78..82 => self.fork(),
                82..84 => self.move_chat(),
                84..87 => self.remove_chat(),
                87..89 => self.remove_session(),
                89..92 => self.summarize(),
                92..97 => self.meet_client(),
                _ => self.root(),
            }
        };
        // Records of one input are persisted together, however unrelated they are.
        if self.random.percent(10) && self.sessions.iter().any(|session| !session.chats.is_empty()) {
            records.extend(self.stream());
        }
        // Sequence numbers are also used for actions that are not persisted, sometimes for many.
        let skipped = if self.random.percent(5) { 20_000 } else { 1 };
        self.seq = Seq(self.seq.0 + skipped);
        Batch { records, seq: self.seq }
    }

    fn create(&mut self) -> Vec<Record> {
        let uri = self.name("ahp-session:/");
        let chat = self.name("ahp-chat:/");
        self.sessions.push(Session {
            uri: uri.clone(),
            chats: vec![Chat {
                uri: chat.clone(),
                turns: 0,
            }],
        });
        let sessions = self.sessions.len() as i64;
        let announced = RootActiveSessionsChangedAction {
            active_sessions: sessions,
        };
        vec![
            self.session(&uri, true, true),
            self.chat(&uri, &chat, true),
            self.act(ROOT, &StateAction::RootActiveSessionsChanged(announced)),
        ]
    }

    fn title(&mut self) -> Record {
        let session = self.any_session();
        let uri = self.sessions[session].uri.clone();
        let title = format!("title {}", self.random.below(1000));
        self.act(
            &uri,
            &StateAction::SessionTitleChanged(SessionTitleChangedAction { title }),
        )
    }

    /// Streamed output, mostly of one part.
    fn stream(&mut self) -> Vec<Record> {
        let (_, chat) = self.any_chat();
        let count = 1 + self.random.below(12);
        let delta = |this: &mut Self| {
            let action = ChatDeltaAction {
                turn_id: "turn".into(),
                part_id: format!("part {}", usize::from(this.random.percent(15))),
                content: format!("word {} ", this.random.below(100_000)),
                meta: None,
            };
            this.act(&chat.uri, &StateAction::ChatDelta(action))
        };
        (0..count).map(|_| delta(self)).collect()
    }

    /// Moves a turn from the log to the completed turns.
    fn end_turn(&mut self) -> Vec<Record> {
        let (session, chat) = self.any_chat();
        let uri = self.sessions[session].uri.clone();
        let title = self.title();
        let turns = Record::Turns {
            chat: chat.uri.clone(),
            from: chat.turns,
            turns: vec![self.turn()],
        };
        self.set_turns(&chat.uri, chat.turns + 1);
        let at_rest = self.random.percent(70);
        vec![
            title,
            turns,
            self.chat(&uri, &chat.uri, false),
            self.session(&uri, false, at_rest),
        ]
    }

    fn truncate(&mut self) -> Vec<Record> {
        let (session, chat) = self.any_chat();
        let uri = self.sessions[session].uri.clone();
        let left = self.random.below(chat.turns + 1);
        let turns = match self.random.percent(50) {
            true => vec![self.turn(), self.turn()],
            false => Vec::new(),
        };
        self.set_turns(&chat.uri, left + turns.len());
        let title = self.title();
        vec![
            title,
            Record::Turns {
                chat: chat.uri.clone(),
                from: left,
                turns,
            },
            self.chat(&uri, &chat.uri, false),
        ]
    }

    fn fork(&mut self) -> Vec<Record> {
        let (session, origin) = self.any_chat();
        let count = self.random.below(origin.turns + 1);
        let chat = self.name("ahp-chat:/");
        let uri = self.sessions[session].uri.clone();
        self.sessions[session].chats.push(Chat {
            uri: chat.clone(),
            turns: count,
        });
        vec![
            self.chat(&uri, &chat, true),
            Record::CopyTurns {
                from: origin.uri,
                to: chat,
                count,
            },
        ]
    }

    fn move_chat(&mut self) -> Vec<Record> {
        let (from, chat) = self.any_chat();
        let to = self.any_session();
        self.sessions[from].chats.retain(|other| other.uri != chat.uri);
        self.sessions[to].chats.push(chat.clone());
        let (from, to) = (self.sessions[from].uri.clone(), self.sessions[to].uri.clone());
        vec![
            self.title(),
            self.chat(&to, &chat.uri, false),
            self.session(&from, false, true),
            self.session(&to, false, true),
        ]
    }

    fn remove_chat(&mut self) -> Vec<Record> {
        let (session, chat) = self.any_chat();
        self.sessions[session].chats.retain(|other| other.uri != chat.uri);
        vec![Record::ChatRemoved { uri: chat.uri }]
    }

    fn remove_session(&mut self) -> Vec<Record> {
        let session = self.any_session();
        let gone = self.sessions.swap_remove(session);
        vec![Record::SessionRemoved { uri: gone.uri }]
    }

    fn summarize(&mut self) -> Vec<Record> {
        let session = self.any_session();
        let uri = self.sessions[session].uri.clone();
        vec![Record::Summary(Box::new(self.summary(&uri)))]
    }

    fn meet_client(&mut self) -> Vec<Record> {
        let id: Arc<str> = format!("client {}", self.random.below(6)).into();
        vec![match self.random.percent(80) {
            true => Record::Client {
                id,
                document: self.document("client"),
                replaces: false,
            },
            false => Record::ClientForgotten { id },
        }]
    }

    fn root(&mut self) -> Vec<Record> {
        vec![Record::Root {
            seq: self.seq,
            document: self.document("root"),
            is_promised: false,
        }]
    }

    fn act(&mut self, channel: &str, action: &StateAction) -> Record {
        self.seq = self.seq.next();
        Record::Action(ActionRecord {
            channel: channel.into(),
            frame: Arc::new(ActionFrame::from_action(channel, action, self.seq)),
        })
    }

    fn session(&mut self, uri: &Arc<str>, is_new: bool, at_rest: bool) -> Record {
        Record::Session(Box::new(SessionRecord {
            seq: self.seq,
            is_new,
            is_draft: false,
            at_rest,
            summary: self.summary(uri),
            document: self.document(uri),
        }))
    }

    fn summary(&mut self, uri: &Arc<str>) -> SummaryRecord {
        SummaryRecord {
            uri: uri.clone(),
            created_ms: 1_000,
            // Few different times, so that many sessions have the same.
            modified_ms: 2_000 + self.random.below(10) as i64,
            is_archived: self.random.percent(20),
            summary: self.document("summary"),
        }
    }

    fn chat(&mut self, session: &Arc<str>, uri: &Arc<str>, is_new: bool) -> Record {
        Record::Chat(Box::new(ChatRecord {
            uri: uri.clone(),
            session: session.clone(),
            seq: self.seq,
            is_new,
            document: self.document(uri),
        }))
    }

    fn turn(&mut self) -> TurnRecord {
        self.names += 1;
        TurnRecord {
            id: format!("turn {}", self.names).into(),
            document: self.document("turn"),
        }
    }

    /// A document: mostly small, sometimes many pages long.
    fn document(&mut self, what: &str) -> Document {
        let len = match self.random.below(20) {
            0 => 40_000,
            1..4 => 5_000,
            _ => 200,
        };
        let number = self.random.number();
        let len = 1 + self.random.below(len);
        Document::ready(format!("{what} {number} ").repeat(len / 20 + 1).into_bytes())
    }

    fn name(&mut self, kind: &str) -> Arc<str> {
        self.names += 1;
        format!("{kind}{}", self.names).into()
    }

    fn any_session(&mut self) -> usize {
        self.random.below(self.sessions.len())
    }

    /// A chat and the index of its session.
    fn any_chat(&mut self) -> (usize, Chat) {
        let all = self.sessions.iter().enumerate();
        let all: Vec<_> = all
            .flat_map(|(at, session)| session.chats.iter().map(move |chat| (at, chat)))
            .collect();
        let (session, chat) = all[self.random.below(all.len())];
        (session, chat.clone())
    }

    fn set_turns(&mut self, uri: &str, turns: usize) {
        let chats = self.sessions.iter_mut().flat_map(|session| &mut session.chats);
        if let Some(chat) = chats.into_iter().find(|chat| &*chat.uri == uri) {
            chat.turns = turns;
        }
    }
}
