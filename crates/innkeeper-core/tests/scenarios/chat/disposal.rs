//! Disposal of chats, and background work (CHT-21, CHT-24).

use innkeeper_core::agent::BackgroundChange;
use innkeeper_core::{AgentCommand, AgentEvent, ConnId, CoreConfig, Effect, Input};
use serde_json::{Value, json};

use crate::harness::*;

const CHAT: &str = "ahp-chat:/second";

/// A ready session of an able agent, and a subscriber.
fn stage() -> (Stage, ConnId, String) {
    let mut stage = Stage::able(CoreConfig::default());
    let conn = stage.client("c", &[]);
    let default = stage.session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.inbox(conn);
    (stage, conn, default)
}

/// (SES-15, SES-18, SUB-19)
#[test]
fn cht21_disposing_of_a_chat_ends_its_subagents_and_updates_the_session() {
    let (mut stage, conn, default) = stage();
    stage.create_chat(conn, new_chat(SESSION, CHAT));
    stage.subscribe(conn, CHAT);
    stage.start_turn(conn, CHAT, "t");
    let run = stage.run();
    stage.runs_tool(run, "call");
    let detached = stage.spawns(run, "call", true).expect("a subagent");
    let nested_run = (detached.chat, detached.turn);
    stage.runs_tool(nested_run, "inner");
    let nested = stage.spawns(nested_run, "inner", false).expect("a subagent");
    assert_eq!(stage.state(SESSION)["status"], 8 | 32);
    stage.inbox(conn);
    let answer = stage.dispose_chat(conn, CHAT);
    assert_eq!(answer["result"], Value::Null, "{answer}");
    let removed: Vec<_> = stage
        .actions(conn)
        .into_iter()
        .filter(|envelope| envelope["action"]["type"] == "session/chatRemoved")
        .map(|envelope| envelope["action"]["chat"].clone())
        .collect();
    assert_eq!(
        removed,
        [&*nested.chat_uri, &*detached.chat_uri, CHAT],
        "children first"
    );
    assert_eq!(stage.catalogue(SESSION), [default.as_str()]);
    assert_eq!(stage.state(SESSION)["status"], 1, "idle again, and unread");
    assert_eq!(stage.cancelled().len(), 3);
    let closed = stage
        .agent
        .iter()
        .filter(|effect| matches!(effect, Effect::Agent(AgentCommand::CloseChat { .. })));
    assert_eq!(closed.count(), 3);
    assert_eq!(error(&stage.subscribe(conn, CHAT)).0, -32001);
    // Late events of the agent are dropped.
    stage.says_in(run, AgentEvent::Text("late".into()));
    assert_eq!(stage.create_chat(conn, new_chat(SESSION, CHAT))["result"], Value::Null);
}

#[test]
fn cht21_the_sessions_own_chat_stays() {
    let (mut stage, conn, default) = stage();
    stage.create_chat(conn, new_chat(SESSION, CHAT));
    let answer = stage.dispose_chat(conn, &default);
    assert_eq!(error(&answer).0, -32011);
    assert!(error(&answer).1.contains("dispose of the session"), "{answer}");
    for unknown in ["ahp-chat:/none", SESSION] {
        assert_eq!(error(&stage.dispose_chat(conn, unknown)).0, -32001);
    }
}

#[test]
fn cht21_a_disposed_chat_removes_its_input_needed_from_the_session() {
    let (mut stage, conn, _) = stage();
    stage.create_chat(conn, new_chat(SESSION, CHAT));
    stage.start_turn(conn, CHAT, "t");
    let run = stage.run();
    stage.asks_permission(run, "call");
    assert_eq!(stage.state(SESSION)["inputNeeded"].as_array().map(Vec::len), Some(1));
    stage.dispose_chat(conn, CHAT);
    let left = stage.state(SESSION)["inputNeeded"].as_array().map_or(0, Vec::len);
    assert_eq!(left, 0);
    assert_eq!(stage.state(SESSION)["status"], 1);
}

#[test]
fn cht24_background_work_is_listed_while_it_lives() {
    let (mut stage, conn, default) = stage();
    stage.subscribe(conn, &default);
    let chat = stage.last_opened().chat;
    let set = |label: &str| BackgroundChange::Set {
        id: "build".to_owned(),
        label: label.to_owned(),
        command: "make".to_owned(),
        terminal: Some("ahp-terminal:/1".to_owned()),
    };
    let started = stage.now.rfc3339();
    stage.handle(Input::Background {
        chat,
        change: set("Build"),
    });
    stage.pass(5000);
    stage.inbox(conn);
    stage.handle(Input::Background {
        chat,
        change: set("Build, again"),
    });
    stage.handle(Input::Background {
        chat,
        change: set("Build, again"),
    });
    assert_eq!(
        stage.action_types(conn),
        ["chat/backgroundWorkSet"],
        "what did not change is not told"
    );
    assert_eq!(
        stage.state(&default)["backgroundWork"],
        json!([{ "kind": "shell", "id": "build", "label": "Build, again", "startedAt": started, "command": "make", "terminal": "ahp-terminal:/1" }])
    );
    for id in ["unknown", "build", "build"] {
        let id = id.to_owned();
        stage.handle(Input::Background {
            chat,
            change: BackgroundChange::Remove { id },
        });
    }
    assert_eq!(stage.action_types(conn), ["chat/backgroundWorkRemoved"]);
    let left = stage.state(&default)["backgroundWork"].as_array().map_or(0, Vec::len);
    assert_eq!(left, 0);
    for n in 0..1001 {
        stage.handle(Input::Background {
            chat,
            change: BackgroundChange::Set {
                id: n.to_string(),
                label: String::new(),
                command: String::new(),
                terminal: None,
            },
        });
    }
    assert_eq!(
        stage.state(&default)["backgroundWork"].as_array().map(Vec::len),
        Some(1000)
    );
}
