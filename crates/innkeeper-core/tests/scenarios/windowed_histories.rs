//! A chat with few turns in memory, compared with one that has all of them: after any sequence of changes, both show
//! the same and store the same.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, Turn};
use bytes::Bytes;
use innkeeper_core::records::{StoredTurn, TurnSource};
use innkeeper_core::snapshot::Window;
use innkeeper_core::{ChatModel, TurnChanges};
use serde_json::{Value, json};

/// Turns by chat, as JSON.
#[derive(Debug, Default)]
struct Store(Mutex<HashMap<String, Vec<Bytes>>>);

impl Store {
    fn apply(&self, chat: &str, changes: TurnChanges) {
        let mut chats = self.0.lock().expect("no panic");
        if let Some((from, count)) = changes.copied {
            let copy = chats[&*from][..count].to_vec();
            chats.insert(chat.to_owned(), copy);
        }
        let rows = chats.entry(chat.to_owned()).or_default();
        assert!(changes.from <= rows.len(), "no gaps");
        rows.truncate(changes.from);
        rows.extend(changes.turns.iter().map(|turn| encoded(turn)));
    }

    fn rows(&self, chat: &str) -> Vec<Bytes> {
        self.0.lock().expect("no panic").get(chat).cloned().unwrap_or_default()
    }

    fn turns(&self, chat: &str, range: Range<usize>) -> Vec<Arc<Turn>> {
        let decode = |row: &Bytes| Arc::new(serde_json::from_slice(row).expect("a turn"));
        self.rows(chat)[range].iter().map(decode).collect()
    }
}

impl TurnSource for Store {
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        let rows = self.rows(chat);
        rows.get(range)
            .map(<[Bytes]>::to_vec)
            .ok_or_else(|| "no such turns".to_owned())
    }

    fn position(&self, _: &str, _: &str) -> Result<Option<usize>, String> {
        Ok(None)
    }
}

fn encoded(turn: &Turn) -> Bytes {
    serde_json::to_vec(turn).expect("serialises").into()
}

fn empty(uri: &str) -> ChatState {
    let state = json!({
        "resource": uri, "title": "A", "status": 1, "modifiedAt": "2026-01-01T00:00:00.000Z", "turns": []
    });
    serde_json::from_value(state).expect("a chat")
}

fn action(value: Value) -> StateAction {
    serde_json::from_value(value).expect("an action")
}

/// Choices that are the same on every machine.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound.max(1)
    }
}

/// The two chats, and what each of them had stored.
struct Twins {
    full: ChatModel,
    windowed: ChatModel,
    full_store: Store,
    store: Arc<Store>,
    next: usize,
}

impl Twins {
    fn new() -> Self {
        let store = Arc::new(Store::default());
        let mut windowed = ChatModel::new(empty("ahp-chat:/0"));
        windowed.read_turns_from(Arc::clone(&store) as Arc<dyn TurnSource>);
        Self {
            full: ChatModel::new(empty("ahp-chat:/0")),
            windowed,
            full_store: Store::default(),
            store,
            next: 1,
        }
    }

    fn uri(&self) -> String {
        self.full.head().resource.clone()
    }

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn apply(&mut self, value: Value) {
        let action = action(value);
        let outcome = self.full.apply(&action);
        assert_eq!(self.windowed.apply(&action), outcome, "{action:?}");
    }

    fn load(&mut self, range: Range<usize>) {
        if let Some(missing) = self.windowed.missing(range) {
            let turns = self.store.turns(&self.uri(), missing.clone());
            self.windowed.load(missing.start, turns);
        }
    }

    fn start(&mut self) -> Option<String> {
        let active = self.full.head().active_turn.as_ref().map(|turn| turn.id.clone());
        if active.is_none() {
            let id = format!("t{}", self.number());
            self.apply(
                json!({"type": "chat/turnStarted", "turnId": id, "startedAt": "2026-01-01T00:00:01.000Z",
                "message": {"text": "hi", "origin": {"kind": "user"}}}),
            );
            self.apply(json!({"type": "chat/responsePart", "turnId": id,
                "part": {"kind": "markdown", "id": "p", "content": "\"quoted\"\n"}}));
            return None;
        }
        active
    }

    fn step(&mut self, choices: &mut Choices) {
        let count = self.full.turn_count();
        match choices.below(12) {
            0..=2 => {
                if let Some(id) = self.start() {
                    self.apply(json!({"type": "chat/turnComplete", "turnId": id, "duration": 5}));
                }
            }
            3 => {
                if let Some(id) = self.start() {
                    self.apply(json!({"type": "chat/error", "turnId": id, "duration": 5,
                        "part": {"kind": "error", "error": {"errorType": "x", "message": "m"}, "resumable": true}}));
                }
            }
            4 => {
                if let (None, Some(last)) = (&self.full.head().active_turn, self.full.last_turn()) {
                    self.apply(json!({"type": "chat/turnResume", "turnId": last.id}));
                }
            }
            5 if count > 0 => {
                let index = count - 1 - choices.below(count.min(4));
                self.load(index..index + 1);
                let id = self.full.turn_id(index).expect("a turn").clone();
                self.apply(json!({"type": "chat/truncated", "turnId": &*id}));
            }
            6 if choices.below(8) == 0 => self.apply(json!({"type": "chat/truncated"})),
            7 if count > 0 && choices.below(3) == 0 => self.fork(choices.below(count) + 1),
            8 => self.load_some(choices),
            9 if choices.below(3) == 0 => self.restart(choices),
            _ => self.save(choices),
        }
    }

    /// Both go on as forks of themselves.
    fn fork(&mut self, count: usize) {
        self.store_changes();
        self.load(count - 1..count);
        let uri = format!("ahp-chat:/{}", self.number());
        self.full = ChatModel::forked(empty(&uri), &self.full, count);
        self.windowed = ChatModel::forked(empty(&uri), &self.windowed, count);
        self.store_changes();
    }

    /// Stores what changed, and lets some of it leave memory.
    fn save(&mut self, choices: &mut Choices) {
        self.store_changes();
        let stored = self.windowed.turn_count() - choices.below(2).min(self.windowed.turn_count());
        self.windowed
            .forget_turns(stored, 1 + choices.below(4), choices.below(2000));
    }

    fn load_some(&mut self, choices: &mut Choices) {
        self.store_changes();
        let from = choices.below(self.full.turn_count());
        self.load(from..from + choices.below(5));
    }

    /// The windowed one is read back from what was stored, in the middle of a turn or not.
    fn restart(&mut self, choices: &mut Choices) {
        self.store_changes();
        let rows = self.store.rows(&self.uri());
        let known = |(index, row): (usize, &Bytes)| StoredTurn {
            id: self.full.turn_id(index).expect("stored").to_string(),
            bytes: row.len(),
        };
        let turns = rows.iter().enumerate().map(known).collect();
        let first = rows.len() - (1 + choices.below(3)).min(rows.len());
        let recent = self.store.turns(&self.uri(), first..rows.len());
        let source = Arc::clone(&self.store) as Arc<dyn TurnSource>;
        self.windowed = ChatModel::restore(self.windowed.head().clone(), turns, recent, source);
        assert!(self.windowed.turn_changes().is_none(), "what is stored is stored");
    }

    fn store_changes(&mut self) {
        let uri = self.uri();
        if let Some(changes) = self.full.turn_changes() {
            self.full_store.apply(&uri, changes);
        }
        if let Some(changes) = self.windowed.turn_changes() {
            self.store.apply(&uri, changes);
        }
        assert!(self.windowed.turn_changes().is_none(), "said once");
        assert_eq!(self.full_store.rows(&uri), self.store.rows(&uri));
        let all: Vec<Bytes> = self.full.history().in_memory().map(|turn| encoded(turn)).collect();
        assert_eq!(self.store.rows(&uri), all, "what is stored is what there is");
    }

    fn check(&mut self, choices: &mut Choices) {
        assert_eq!(self.full.turn_count(), self.windowed.turn_count());
        let skipped = choices.below(self.full.turn_count() + 1);
        for window in [Window::ALL, Window { skipped }] {
            let of = |model: &ChatModel| serde_json::to_string(&model.snapshot(window)).expect("serialises");
            assert_eq!(of(&self.full), of(&self.windowed));
            let bytes = |model: &ChatModel| model.history().bytes_from(window.skipped);
            assert_eq!(
                bytes(&self.full),
                bytes(&self.windowed),
                "windows by size are equal too"
            );
        }
        for index in 0..self.full.turn_count() {
            let id = self.full.turn_id(index).expect("a turn");
            assert!(self.windowed.knows_turn(id));
            assert_eq!(self.windowed.position(id), Some(index));
        }
        if self.full.head().active_turn.is_none() {
            assert_eq!(self.windowed.last_turn(), self.full.last_turn());
        }
    }
}

#[test]
fn a_windowed_chat_equals_one_in_memory() {
    let mut max_turns = 0;
    let mut left_memory = 0;
    for seed in 0..100 {
        let mut choices = Choices(seed);
        let mut twins = Twins::new();
        for _ in 0..80 {
            twins.step(&mut choices);
            twins.check(&mut choices);
            max_turns = max_turns.max(twins.windowed.turn_count());
            left_memory += usize::from(twins.windowed.missing(0..usize::MAX).is_some());
        }
    }
    assert!(max_turns > 10 && left_memory > 500, "{max_turns} {left_memory}");
}

fn chat_of(turns: usize) -> (ChatModel, Arc<Store>) {
    let mut twins = Twins::new();
    while twins.windowed.turn_count() < turns {
        if let Some(id) = twins.start() {
            twins.apply(json!({"type": "chat/turnComplete", "turnId": id, "duration": 5}));
        }
    }
    twins.store_changes();
    (twins.windowed, twins.store)
}

#[test]
fn unstored_turns_never_leave_memory() {
    let (mut model, _) = chat_of(6);
    model.forget_turns(3, 1, 0);
    assert_eq!(model.missing(0..usize::MAX), Some(0..3));
    model.forget_turns(model.turn_count(), 0, 0);
    assert_eq!(
        model.missing(0..usize::MAX),
        Some(0..model.turn_count() - 1),
        "the last one stays"
    );
}

#[test]
fn a_turn_that_is_not_the_one_that_was_there_is_not_shown() {
    let (mut model, store) = chat_of(3);
    model.forget_turns(model.turn_count(), 1, 0);
    let uri = model.head().resource.clone();
    let before = model.snapshot(Window::ALL);
    assert!(serde_json::to_string(&before).is_ok());
    // The history is cut and grows again while a snapshot waits to be written.
    let other = br#"{"id":"other","message":{}}"#.as_slice();
    store.0.lock().expect("no panic").get_mut(&uri).expect("the chat")[0] = Bytes::from_static(other);
    let problem = serde_json::to_string(&before)
        .expect_err("not what was captured")
        .to_string();
    assert!(problem.contains("the history was cut"), "{problem}");
    store.0.lock().expect("no panic").clear();
    let problem = serde_json::to_string(&before).expect_err("nothing there").to_string();
    assert!(problem.contains("no such turns"), "{problem}");
}
