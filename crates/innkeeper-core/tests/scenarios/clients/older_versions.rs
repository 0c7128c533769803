//! Clients of older versions: one subscription for session and chat, snapshots in their words, reconnects, and the
//! requests that only they have. Actions reach the stage before their connections translate them.

use innkeeper_core::request::{Initialize, Offer, SessionFork, TurnsPage};
use innkeeper_core::{AgentCommand, ClientId, Command, ConnId, Dispatch, Effect, Input, SessionChoice, TurnEnd};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::harness::*;

impl Stage {
    /// A connection of a client that speaks this version.
    fn older(&mut self, name: &str, version: &str, channels: &[&str]) -> ConnId {
        let conn = self.connect();
        let answer = self.initialize(conn, name, &[version], channels);
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        conn
    }

    fn choose(&mut self, conn: ConnId, client_seq: i64, choice: SessionChoice) {
        let raw = RawValue::from_string(json!({ "type": "session/modelChanged" }).to_string()).expect("JSON");
        let action = innkeeper_core::decode::decode_action(&raw);
        let dispatch = Box::new(Dispatch {
            channel: SESSION.to_owned(),
            client_seq,
            raw,
            action,
            choice: Some(choice),
        });
        self.handle(Input::Dispatch { conn, dispatch });
    }

    fn turns_before(&mut self, conn: ConnId, channel: &str, turn: Option<&str>, limit: Option<usize>) -> Value {
        let page = TurnsPage::Before {
            turn: turn.map(str::to_owned),
            limit,
        };
        let channel = channel.to_owned();
        self.request(conn, Command::FetchTurns { channel, page })
    }
}

fn model(id: &str) -> SessionChoice {
    SessionChoice::Model(serde_json::from_value(json!({ "id": id })).expect("a model"))
}

fn texts(state: &Value) -> Vec<&str> {
    let turns = state["turns"].as_array().expect("turns");
    turns
        .iter()
        .filter_map(|turn| turn["userMessage"]["text"].as_str())
        .collect()
}

#[test]
fn sub03_a_session_of_0_2_comes_with_the_turns_of_its_default_chat() {
    let mut stage = Stage::new();
    let new = stage.client("new", &[]);
    let chat = stage.listed_session(new, SESSION);
    stage.subscribe(new, &chat);
    stage.turn(new, &chat, "t1", "hello");
    let old = stage.older("old", "0.2.0", &[]);
    let snapshot = stage.subscribe(old, SESSION)["result"]["snapshot"].take();
    assert_eq!(snapshot["resource"], SESSION);
    assert_eq!(texts(&snapshot["state"]).len(), 1, "{snapshot}");
    assert!(snapshot["state"].get("chats").is_none());
    assert_eq!(snapshot["fromSeq"], json!(stage.core.seq().0));
    stage.inbox(old);
    stage.start_turn(new, &chat, "t2");
    stage.dispatch(new, SESSION, 9, title("both channels"));
    let types = stage.action_types(old);
    assert!(types.contains(&"chat/turnStarted".to_owned()), "{types:?}");
    assert!(types.contains(&"session/titleChanged".to_owned()), "{types:?}");
    stage.unsubscribe(old, SESSION);
    stage.ends(TurnEnd::Complete);
    stage.dispatch(new, SESSION, 10, title("unsent"));
    assert_eq!(stage.action_types(old), Vec::<String>::new(), "it left both");
}

#[test]
fn neg10_initial_subscriptions_of_0_3_include_the_chat() {
    let mut stage = Stage::new();
    let new = stage.client("new", &[]);
    let chat = stage.listed_session(new, SESSION);
    let old = stage.connect();
    let answer = stage.initialize(old, "old", &["0.3.0"], &[SESSION]);
    let snapshots = answer["result"]["snapshots"].as_array().expect("snapshots");
    assert_eq!(snapshots.len(), 1);
    assert_eq!(snapshots[0]["state"]["turns"], json!([]));
    // Before the client knows the chat, its connection names the session.
    let started = stage.turn_started("t1");
    stage.dispatch(old, SESSION, 1, started);
    assert_eq!(stage.state(&chat)["activeTurn"]["id"], "t1");
    let echo = &stage.actions(old)[0];
    assert_eq!(echo["origin"], json!({ "clientId": "old", "clientSeq": 1 }));
}

#[test]
fn rec05_clients_before_0_9_always_come_back_with_snapshots() {
    for (version, kind) in [
        ("0.2.0", "snapshot"),
        ("0.4.0", "snapshot"),
        ("0.8.0", "snapshot"),
        ("0.9.0", "replay"),
        ("1.0.0", "replay"),
    ] {
        let mut stage = Stage::new();
        let new = stage.client("new", &[]);
        stage.listed_session(new, SESSION);
        let old = stage.older("old", version, &[SESSION]);
        let seen = stage.core.seq().0;
        stage.disconnect(old);
        stage.dispatch(new, SESSION, 9, title("missed"));
        let again = stage.connect();
        let answer = stage.reconnect(again, "old", seen, &[SESSION]);
        assert_eq!(answer["result"]["type"], kind, "{version}");
        stage.inbox(again);
        stage.dispatch(new, SESSION, 10, title("live"));
        assert_eq!(stage.action_types(again), ["session/titleChanged"], "{version}");
    }
}

#[test]
fn rec05_a_replay_of_0_9_with_an_action_that_needs_a_state_is_a_snapshot() {
    let mut stage = Stage::able(Default::default());
    let new = stage.client("new", &[]);
    stage.listed_session(new, SESSION);
    for chat in ["ahp-chat:/a", "ahp-chat:/b"] {
        stage.create_chat(new, new_chat(SESSION, chat));
    }
    let old = stage.older("old", "0.9.0", &[SESSION]);
    let seen = stage.core.seq().0;
    stage.disconnect(old);
    let destination = innkeeper_core::request::MoveDestination::Session {
        session: SESSION.to_owned(),
        after: None,
    };
    stage.move_chat(new, "ahp-chat:/b", destination);
    let again = stage.connect();
    let answer = stage.reconnect(again, "old", seen, &[SESSION]);
    assert_eq!(answer["result"]["type"], "snapshot", "the order of chats changed");
}

#[test]
fn act09_0_2_leaves_its_session_when_it_unsubscribes() {
    let mut stage = Stage::new();
    let new = stage.client("new", &[SESSION]);
    stage.listed_session(new, SESSION);
    stage.subscribe(new, SESSION);
    let old = stage.older("old", "0.2.0", &[SESSION]);
    stage.dispatch(old, SESSION, 1, announce("old"));
    assert_eq!(stage.state(SESSION)["activeClients"][0]["clientId"], "old");
    stage.unsubscribe(old, SESSION);
    assert_eq!(stage.state(SESSION)["activeClients"], json!([]));
}

#[test]
fn sub02_0_1_has_its_own_root_uri_and_always_gets_notifications() {
    let mut stage = Stage::new();
    let conn = stage.connect();
    let initialize = |subscriptions: &[&str]| {
        Command::Initialize(Box::new(Initialize {
            offer: Offer::Number(1),
            client_id: ClientId::new("oldest"),
            initial_subscriptions: subscriptions.iter().map(|uri| (*uri).to_owned()).collect(),
            client_name: None,
            mcp_apps: false,
            locale: None,
        }))
    };
    let answer = stage.request(conn, initialize(&["root:/"]));
    assert_eq!(answer["result"]["protocolVersion"], 1);
    assert_eq!(answer["result"]["snapshots"][0]["resource"], "root:/");
    let other = stage.connect();
    let answer = stage.request(other, initialize(&[]));
    assert_eq!(answer["result"]["snapshots"], json!([]));
    let new = stage.client("new", &[]);
    stage.listed_session(new, SESSION);
    for conn in [conn, other] {
        let methods = stage.notifications(conn);
        assert!(methods.iter().any(|message| message["method"] == "root/sessionAdded"));
    }
}

#[test]
fn page01_turns_before_a_turn_are_in_the_answer() {
    let mut stage = Stage::new();
    let new = stage.client("new", &[]);
    let chat = stage.listed_session(new, SESSION);
    for turn in ["t1", "t2", "t3"] {
        stage.turn(new, &chat, turn, "ok");
    }
    let old = stage.older("old", "0.3.0", &[]);
    let ids = |answer: &Value| -> Vec<String> {
        let turns = answer["result"]["turns"].as_array().expect("turns").iter();
        turns
            .map(|turn| turn["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let all = stage.turns_before(old, SESSION, None, None);
    assert_eq!((ids(&all).len(), &all["result"]["hasMore"]), (3, &json!(false)));
    let one = stage.turns_before(old, &chat, Some("t3"), Some(1));
    assert_eq!(
        (ids(&one), &one["result"]["hasMore"]),
        (vec!["t2".to_owned()], &json!(true))
    );
    let none = stage.turns_before(old, &chat, Some("t1"), Some(5));
    assert_eq!((ids(&none), &none["result"]["hasMore"]), (vec![], &json!(false)));
    assert_eq!(error(&stage.turns_before(old, &chat, Some("t9"), None)).0, -32602);
    assert_eq!(
        error(&stage.turns_before(old, "ahp-chat:/nowhere", None, None)).0,
        -32001
    );
}

#[test]
fn a_model_that_0_4_chooses_counts_for_its_messages_from_the_next_turn_on() {
    let mut stage = Stage::new();
    let new = stage.client("new", &[]);
    let chat = stage.listed_session(new, SESSION);
    stage.subscribe(new, SESSION);
    let old = stage.older("old", "0.4.0", &[SESSION, &chat]);
    stage.choose(old, 1, model("first"));
    assert_eq!(stage.state(SESSION)["_meta"]["innkeeper.model"]["id"], "first");
    let echo = stage.actions(old).pop().expect("the echo");
    assert_eq!(echo["action"]["type"], "session/metaChanged");
    assert_eq!(echo["origin"], json!({ "clientId": "old", "clientSeq": 1 }));
    assert_eq!(stage.action_types(new), ["session/metaChanged"], "others see it");

    stage.start_turn(old, &chat, "t1");
    assert_eq!(stage.state(&chat)["activeTurn"]["message"]["model"]["id"], "first");
    // While a turn runs, a change waits.
    stage.inbox(old);
    stage.choose(old, 3, model("second"));
    assert_eq!(stage.action_types(old), Vec::<String>::new());
    assert_eq!(stage.state(SESSION)["_meta"]["innkeeper.model"]["id"], "first");
    stage.ends(TurnEnd::Complete);
    let echo = stage
        .actions(old)
        .into_iter()
        .find(|action| action["origin"]["clientSeq"] == 3);
    assert!(echo.is_some(), "it is echoed when it counts");
    assert_eq!(stage.state(SESSION)["_meta"]["innkeeper.model"]["id"], "second");

    // The same again changes nothing, and its author hears of it.
    stage.inbox(new);
    stage.choose(old, 4, model("second"));
    assert_eq!(stage.actions(old).pop().expect("the echo")["origin"]["clientSeq"], 4);
    assert_eq!(stage.action_types(new), Vec::<String>::new());
    // Newer clients choose on each message.
    stage.start_turn(new, &chat, "t2");
    assert_eq!(stage.state(&chat)["activeTurn"]["message"].get("model"), None);
}

#[test]
fn a_fork_of_a_session_has_its_turns_and_is_listed() {
    let mut stage = Stage::able(Default::default());
    let new = stage.client("new", &[ROOT]);
    let chat = stage.listed_session(new, SESSION);
    for turn in ["t1", "t2", "t3"] {
        stage.turn(new, &chat, turn, "ok");
    }
    let old = stage.older("old", "0.8.0", &[ROOT]);
    stage.inbox(old);
    let fork = |session: &str, turn: &str| {
        let mut create = new_session("ahp-session:/fork");
        create.fork = Some(SessionFork {
            session: session.to_owned(),
            turn_id: turn.to_owned(),
        });
        Command::CreateSession(Box::new(create))
    };
    assert_eq!(error(&stage.request(old, fork("ahp-session:/nowhere", "t1"))).0, -32001);
    assert_eq!(error(&stage.request(old, fork(SESSION, "t9"))).0, -32602);
    assert_eq!(stage.request(old, fork(SESSION, "t2"))["result"], Value::Null);
    let forked = innkeeper_core::uri::default_chat("ahp-session:/fork");
    let turns = stage.state(&forked)["turns"].take();
    let ids: Vec<_> = turns
        .as_array()
        .expect("turns")
        .iter()
        .map(|turn| &turn["id"])
        .collect();
    assert_eq!(ids, ["t1", "t2"]);
    assert_eq!(stage.state(&chat)["turns"].as_array().expect("turns").len(), 3);
    let added = stage.notifications(old);
    assert!(
        added
            .iter()
            .any(|message| message["params"]["summary"]["resource"] == "ahp-session:/fork")
    );
    let opened = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.history.recent.len()),
        _ => None,
    });
    assert_eq!(opened, Some(2), "the agent gets the turns");
}

#[test]
fn sub04_a_chat_asked_for_by_0_2_is_shown_as_a_session_of_its_own() {
    let mut stage = Stage::able(Default::default());
    let new = stage.client("new", &[]);
    stage.listed_session(new, SESSION);
    stage.create_chat(new, new_chat(SESSION, "ahp-chat:/worker"));
    stage.turn(new, "ahp-chat:/worker", "t1", "done");
    let old = stage.older("old", "0.2.0", &[]);
    let snapshot = stage.subscribe(old, "ahp-chat:/worker")["result"]["snapshot"].take();
    assert_eq!(snapshot["resource"], "ahp-chat:/worker");
    assert_eq!(snapshot["state"]["lifecycle"], "ready");
    assert_eq!(
        snapshot["state"]["summary"]["resource"], "ahp-chat:/worker",
        "{snapshot}"
    );
    assert_eq!(texts(&snapshot["state"]).len(), 1);
}

/// A version that cannot resume turns is shown a resumed turn as one that was removed and started again. The removal
/// names the turn before it, so a reader of the latest turn alone gets that one first.
#[test]
fn trc04_a_reader_of_one_turn_gets_the_turn_before_a_resumed_one() {
    for (version, loads) in [("0.5.1", true), ("0.8.0", true), ("0.9.0", false)] {
        let mut stage = Stage::new();
        let new = stage.client("new", &[]);
        let chat = stage.listed_session(new, SESSION);
        for turn in ["t1", "t2"] {
            stage.turn(new, &chat, turn, "ok");
        }
        stage.start_turn(new, &chat, "t3");
        stage.ends(TurnEnd::Failed {
            failure: innkeeper_core::Failure::new("x", "y"),
            resumable: true,
        });
        let old = stage.older("old", version, &[]);
        let snapshot = stage.subscribe_to_latest(old, &chat, 1)["result"]["snapshot"].take();
        assert_eq!(
            snapshot["state"]["turns"].as_array().map(Vec::len),
            Some(1),
            "{version}"
        );
        stage.inbox(old);
        stage.dispatch(new, &chat, 9, json!({ "type": "chat/turnResume", "turnId": "t3" }));
        let actions = stage.actions(old);
        assert_eq!(
            actions[0]["action"]["type"] == "chat/turnsLoaded",
            loads,
            "{version}: {actions:?}"
        );
        if loads {
            let loaded = &actions[0]["action"];
            assert_eq!(loaded["turns"].as_array().map(Vec::len), Some(1), "{loaded}");
            assert_eq!(loaded["turns"][0]["id"], "t2");
        }
    }
}

#[test]
fn an_agent_that_0_4_chooses_waits_for_the_end_of_the_turn() {
    let mut stage = Stage::new();
    let new = stage.client("new", &[]);
    let chat = stage.listed_session(new, SESSION);
    let old = stage.older("old", "0.4.0", &[SESSION, &chat]);
    let agent = |uri: &str| SessionChoice::Agent(serde_json::from_value(json!({ "uri": uri })).expect("an agent"));
    stage.choose(old, 1, agent("file:///agents/first.md"));
    stage.start_turn(old, &chat, "t1");
    let message = |stage: &Stage| stage.state(&chat)["activeTurn"]["message"].clone();
    assert_eq!(message(&stage)["agent"]["uri"], "file:///agents/first.md");
    stage.inbox(old);
    stage.choose(old, 2, agent("file:///agents/second.md"));
    stage.choose(old, 3, model("late"));
    assert_eq!(stage.action_types(old), Vec::<String>::new(), "both wait");
    stage.ends(TurnEnd::Complete);
    let echoes: Vec<Value> = stage
        .actions(old)
        .into_iter()
        .filter(|params| params["action"]["type"] == "session/metaChanged")
        .map(|params| params["origin"]["clientSeq"].clone())
        .collect();
    assert_eq!(echoes, [2, 3], "in the order of their dispatch");
    stage.start_turn(old, &chat, "t2");
    assert_eq!(message(&stage)["agent"]["uri"], "file:///agents/second.md");
    assert_eq!(message(&stage)["model"]["id"], "late");
    stage.ends(TurnEnd::Complete);
    // No agent is chosen any more; a URI that is none is rejected.
    stage.choose(old, 4, SessionChoice::Agent(None));
    assert_eq!(stage.state(SESSION)["_meta"].get("innkeeper.agent"), None);
    stage.inbox(old);
    stage.choose(old, 5, agent("not a URI"));
    let rejected = stage.actions(old).pop().expect("an answer");
    let reason = rejected["rejectionReason"].as_str().expect("a reason");
    assert!(reason.contains("agent.uri"), "{reason}");
}

#[test]
fn a_chat_that_0_4_creates_with_a_model_keeps_it_for_its_messages() {
    let mut stage = Stage::able(Default::default());
    let new = stage.client("new", &[]);
    stage.listed_session(new, SESSION);
    let old = stage.older("old", "0.4.0", &[SESSION]);
    stage.choose(old, 1, model("of-session"));
    let with_model = |chat: &str, id: &str| {
        let mut create = new_chat(SESSION, chat);
        create.choices = vec![model(id)];
        create
    };
    let created = stage.create_chat(old, with_model("ahp-chat:/own", "of-chat"));
    assert_eq!(created["result"], Value::Null, "{created}");
    let shown = stage.subscribe(old, "ahp-chat:/own")["result"]["snapshot"].take();
    assert_eq!(shown["state"]["model"]["id"], "of-chat", "{shown}");
    stage.start_turn(old, "ahp-chat:/own", "t1");
    let model_of = |stage: &Stage, chat: &str| stage.state(chat)["activeTurn"]["message"]["model"]["id"].clone();
    assert_eq!(model_of(&stage, "ahp-chat:/own"), "of-chat");
    // A chat without one has that of the session, also for the message that it is created with.
    let mut create = new_chat(SESSION, "ahp-chat:/plain");
    create.initial_message = serde_json::from_value(json!({ "text": "hi", "origin": { "kind": "user" } })).ok();
    stage.create_chat(old, create);
    assert_eq!(model_of(&stage, "ahp-chat:/plain"), "of-session");
    // The default chat exists, and cannot be created with another model.
    let default = innkeeper_core::uri::default_chat(SESSION);
    assert_eq!(error(&stage.create_chat(old, with_model(&default, "other"))).0, -32010);
    let agent = serde_json::from_value(json!({ "uri": "not a URI" })).expect("an agent");
    let mut create = new_chat(SESSION, "ahp-chat:/refused");
    create.choices = vec![SessionChoice::Agent(Some(agent))];
    assert_eq!(error(&stage.create_chat(old, create)).0, -32602);
}

/// Up to 0.4 a session has its model and its agent also in the list. The partial form of a summary cannot take one back.
#[test]
fn root12_a_choice_of_0_4_is_in_the_list_and_announced() {
    let mut stage = Stage::new();
    let new = stage.client("new", &[ROOT]);
    stage.listed_session(new, SESSION);
    let old = stage.older("old", "0.4.0", &[ROOT, SESSION]);
    stage.pass(1000);
    let agent = serde_json::from_value(json!({ "uri": "file:///agents/cook.md" })).expect("an agent");
    let mut announced = |choice: SessionChoice| {
        stage.inbox(old);
        stage.choose(old, 1, choice);
        stage.pass(1000);
        let heard = stage.notifications(old).into_iter();
        let mut heard = heard.filter(|message| message["method"] != "action");
        let mut last = heard.next_back().expect("an announcement");
        (last["method"].take(), last["params"].take())
    };
    let (method, params) = announced(model("first"));
    assert_eq!(method, "root/sessionSummaryChanged");
    assert_eq!(params["changes"]["_meta"]["innkeeper.model"]["id"], "first");
    let (_, params) = announced(SessionChoice::Agent(Some(agent)));
    assert_eq!(
        params["changes"]["_meta"]["innkeeper.agent"]["uri"],
        "file:///agents/cook.md"
    );
    let (method, params) = announced(SessionChoice::Agent(None));
    assert_eq!(method, "root/sessionAdded", "{params}");
    assert_eq!(
        params["summary"]["_meta"],
        json!({ "innkeeper.model": { "id": "first" } })
    );
    let listed = stage.list(old, None, None);
    let summary = &listed["result"]["items"][0];
    assert_eq!(summary["_meta"], json!({ "innkeeper.model": { "id": "first" } }));
}

/// Up to 0.8 an annotation names a turn and no chat.
#[test]
fn ann04_an_annotation_of_0_8_belongs_to_the_chat_of_its_turn() {
    let mut stage = Stage::able(Default::default());
    let new = stage.client("new", &[]);
    let default = stage.listed_session(new, SESSION);
    stage.create_chat(new, new_chat(SESSION, "ahp-chat:/second"));
    stage.turn(new, &default, "t1", "ok");
    stage.turn(new, "ahp-chat:/second", "t2", "ok");
    let channel = format!("{SESSION}/annotations");
    let old = stage.older("old", "0.8.0", &[&channel]);
    let newest = stage.client("newest", &[&channel]);
    let annotation = |turn: &str| {
        json!({ "id": "a", "origin": { "session": SESSION, "turnId": turn }, "resource": "file:///a.rs",
            "resolved": false, "entries": [{ "id": "e", "text": "Why?" }] })
    };
    let set = |turn: &str| json!({ "type": "annotations/set", "annotation": annotation(turn) });
    let origin = |stage: &Stage| stage.state(&channel)["annotations"][0]["origin"].clone();
    let of = |chat: &str, turn: &str| json!({ "session": SESSION, "chat": chat, "turnId": turn });
    stage.accepted(old, &channel, set("t2"));
    assert_eq!(origin(&stage), of("ahp-chat:/second", "t2"));
    // A turn that the host does not know belongs to the default chat.
    stage.accepted(old, &channel, set("unknown"));
    assert_eq!(origin(&stage), of(&default, "unknown"));
    let updated = json!({ "type": "annotations/updated", "annotationId": "a",
        "origin": { "session": SESSION, "turnId": "t1" } });
    stage.accepted(old, &channel, updated);
    assert_eq!(origin(&stage), of(&default, "t1"));
    // An annotation of a chat stays there when an older client replaces it.
    let mut moved = annotation("t1");
    moved["origin"]["chat"] = "ahp-chat:/second".into();
    stage.accepted(
        newest,
        &channel,
        json!({ "type": "annotations/set", "annotation": moved }),
    );
    stage.accepted(old, &channel, set("t1"));
    assert_eq!(origin(&stage), of("ahp-chat:/second", "t1"));
    // Newer clients name the chat.
    stage.refused(newest, &channel, set("t1"));
}
