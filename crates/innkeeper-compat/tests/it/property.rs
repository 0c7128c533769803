//! The property of the ladder: translating actions down and folding them gives the same as folding them and translating
//! the state down. The judges are the published reducers: that of 1.0 folds what the core commits, and that of each
//! older version folds what its clients get.

mod actions;
mod parts;

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use innkeeper_compat::comparison::{difference, remove, with_questions_last, without_empty_inputs};
use innkeeper_dialects::{Translator, Version, state};
use innkeeper_testkit::reducer_cases;
use innkeeper_testkit::sim::{NewOlderMirror, OlderMirror};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use self::actions::{Draw, World};
use self::parts::Parts;
use crate::published;

/// The client that reads.
pub const OWN: &str = "me";
/// The session and its default chat.
pub const SESSION: &str = "session:1";
pub const CHAT: &str = "chat:1";

macro_rules! property {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                check(published::$name::VERSION, published::$name::mirror);
            }
        )+
    };
}

property! { v0_1 v0_2 v0_3 v0_4 v0_5_0 v0_5_1 v0_5_2 v0_6 v0_7 v0_8 v0_9 v1_0 }

/// Sequences of actions for each version. `PROPTEST_CASES` sets another number: `cargo xtask nightly` tries 2,000.
pub(crate) fn cases() -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    wanted.and_then(|cases| cases.parse().ok()).unwrap_or(12)
}

/// Folding and translating commute for any sequence of actions.
fn check(version: Version, new_mirror: NewOlderMirror) {
    let config = ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(choices in proptest::collection::vec(any::<u16>(), 1..250))| {
        let mut world = World::new();
        let mut client = OldClient::new(&world, version, new_mirror);
        let mut draw = Draw::new(&choices);
        let mut history = Vec::new();
        while let Some((channel, action)) = actions::next(&world, &mut draw) {
            // Clients that do not load turns in pages have all of them.
            if action["type"] == "chat/turnsLoaded" && !version.pages_turns() {
                continue;
            }
            let before = world.before(channel);
            if !world.fold(channel, &action) {
                continue;
            }
            history.push(action.clone());
            client.receive(channel, &action, &before, history.len());
            let (fold, snapshot) = client.compare(&world);
            let difference = difference(&fold, &snapshot);
            prop_assert!(difference.is_none(), "{version}: {} after {:#}", difference.unwrap_or_default(), json!(history));
        }
    });
}

/// Actions that no sequence has, and why.
const NOT_DRAWN: [(&str, &str); 12] = [
    ("terminal/input", "it changes no state"),
    ("resourceWatch/changed", "it changes no state"),
    ("canvas/stateChanged", "the host has no canvases"),
    ("automation/createRequested", NO_AUTOMATIONS),
    ("automation/updateRequested", NO_AUTOMATIONS),
    ("automation/set", NO_AUTOMATIONS),
    ("automation/removed", NO_AUTOMATIONS),
    ("automationRun/lifecycleChanged", NO_AUTOMATIONS),
    ("automationRun/sessionSet", NO_AUTOMATIONS),
    ("automationRun/sessionRemoved", NO_AUTOMATIONS),
    ("automationRun/primarySessionChanged", NO_AUTOMATIONS),
    ("automationRun/cancelRequested", NO_AUTOMATIONS),
];
const NO_AUTOMATIONS: &str = "the host has no automations";

/// Sequences in which every action must occur.
const SEQUENCES: u16 = 150;

/// The property says something about every row of the table of actions.
#[test]
fn every_action_is_drawn_and_changes_a_state() {
    let mut unseen: BTreeSet<&str> = reducer_cases::action_names().collect();
    for (name, _) in NOT_DRAWN {
        assert!(unseen.remove(name), "{name} is an action");
    }
    let choices_of = |seed: u16| {
        (0..600).map(move |number| BuildHasherDefault::<DefaultHasher>::new().hash_one([seed, number]) as u16)
    };
    for seed in 0..SEQUENCES {
        let choices: Vec<u16> = choices_of(seed).collect();
        let (mut world, mut draw) = (World::new(), Draw::new(&choices));
        while let Some((channel, action)) = actions::next(&world, &mut draw) {
            if world.fold(channel, &action) {
                unseen.remove(action["type"].as_str().expect("a type"));
            }
        }
        let (mut parts, mut draw) = (Parts::new(), Draw::new(&choices));
        while let Some((channel, action)) = parts::next(&mut draw) {
            if parts.fold(channel, &action) {
                unseen.remove(action["type"].as_str().expect("a type"));
            }
        }
    }
    assert!(unseen.is_empty(), "no sequence has {unseen:?}");
}

/// One client of an older version.
struct OldClient {
    version: Version,
    translator: Translator,
    mirror: Box<dyn OlderMirror>,
    /// A mirror that is shown every state anew.
    fresh: Box<dyn OlderMirror>,
}

impl OldClient {
    fn new(world: &World, version: Version, new_mirror: NewOlderMirror) -> Self {
        let mut client = Self {
            version,
            translator: Translator::new(version, OWN),
            mirror: new_mirror(),
            fresh: new_mirror(),
        };
        let session = object(world.session());
        let is_read = session["status"].as_u64().expect("a status") & 32 != 0;
        client.translator.shows_session(SESSION, &session);
        client.translator.shows_chat_as(CHAT, SESSION, is_read);
        show(&mut *client.mirror, world);
        client
    }

    fn receive(&mut self, channel: &str, action: &Value, before: &Value, seq: usize) {
        let params = json!({ "channel": channel, "action": action, "serverSeq": seq });
        let message = json!({ "jsonrpc": "2.0", "method": "action", "params": params });
        for message in self
            .translator
            .down_action(message.to_string().as_bytes(), Some(before))
        {
            let message: Value = serde_json::from_slice(&message).expect("JSON");
            assert_eq!(message["params"]["serverSeq"], seq);
            let reduced = self.mirror.reduce(&message["params"]);
            reduced.unwrap_or_else(|problem| panic!("{problem}"));
        }
    }

    fn compare(&mut self, world: &World) -> (Value, Value) {
        show(&mut *self.fresh, world);
        let [mut fold, mut snapshot] =
            [&self.mirror, &self.fresh].map(|mirror| json!([mirror.state(SESSION), mirror.state(CHAT)]));
        comparable(self.version, &mut fold);
        comparable(self.version, &mut snapshot);
        (fold, snapshot)
    }
}

/// Shows a client the states as they are.
fn show(mirror: &mut dyn OlderMirror, world: &World) {
    let (session, chat) = shown(mirror.version(), world);
    let states = [(SESSION, Some(session)), (CHAT, chat)];
    for (channel, state) in states
        .into_iter()
        .filter_map(|(channel, state)| Some((channel, state?)))
    {
        let shown = mirror.show(&json!({ "resource": channel, "state": state, "fromSeq": 0 }));
        shown.unwrap_or_else(|problem| panic!("{problem}"));
    }
}

/// The states as a version shows them: session and chat, or one session.
fn shown(version: Version, world: &World) -> (Value, Option<Value>) {
    let around = state::Around {
        resource: SESSION.into(),
        created_at: "2026-05-28T00:00:00Z".into(),
        modified_at: "2026-05-28T00:00:00Z".into(),
        own_client_id: OWN.into(),
    };
    let (mut session, mut chat) = (object(world.session()), object(world.chat()));
    let mut turns = chat.shift_remove("turns").expect("turns");
    for turn in turns.as_array_mut().expect("a list") {
        state::turn(version, turn.as_object_mut().expect("an object"));
    }
    if version.session_is_chat() {
        state::session_with_chat(version, &mut session, chat, &around);
        session.insert("turns".into(), turns);
        return (Value::Object(session), None);
    }
    state::session(version, &mut session, &around);
    state::chat(version, &mut chat);
    chat.insert("turns".into(), turns);
    (Value::Object(session), Some(Value::Object(chat)))
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is an object"),
    }
}

/// Leaves out what no action of a version carries; see the module of each step for why.
fn comparable(version: Version, states: &mut Value) {
    let [session, chat] = states.as_array_mut().expect("a list").as_mut_slice() else {
        panic!("two states");
    };
    let is_old = |newest: Version| version <= newest;
    // Reducers stamp the reader's own clock.
    if is_old(Version::V0_8) {
        remove(chat, "modifiedAt");
    }
    if is_old(Version::V0_4) {
        remove(&mut session["summary"], "modifiedAt");
    }
    // A session waits for input also while a client runs a tool, or does not list awaited input at all.
    if is_old(Version::V0_7) && !version.session_is_chat() {
        let head = if is_old(Version::V0_4) {
            &mut session["summary"]
        } else {
            &mut *session
        };
        head["status"] = (head["status"].as_u64().expect("a status") & !31).into();
    }
    // No action changes the one directory.
    if is_old(Version::V0_6) {
        remove(session, "workingDirectory");
        remove(&mut session["summary"], "workingDirectory");
        remove(chat, "workingDirectory");
    }
    for state in [session, chat] {
        without_empty_inputs(state);
        if version == Version::V0_5_2 {
            with_questions_last(state);
        }
    }
}
