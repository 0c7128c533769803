//! Chats beyond the first: created, forked, side chats (CHT-01 to CHT-11, CHT-13).

use ahp_types::commands::ChatSource;
use innkeeper_core::agent::PastOutcome;
use innkeeper_core::request::CreateChat;
use innkeeper_core::{
    AgentCommand, AgentEvent, AgentProfile, ConnId, CoreConfig, Effect, Failure, Input, Seq, TurnEnd,
};
use serde_json::{Value, json};

use crate::harness::*;

const CHAT: &str = "ahp-chat:/second";

/// A ready session of an able agent, and a subscriber.
fn stage() -> (Stage, ConnId, String) {
    with(Stage::able(CoreConfig::default()))
}

fn with(mut stage: Stage) -> (Stage, ConnId, String) {
    let conn = stage.client("c", &[]);
    let mut create = new_session(SESSION);
    create.working_directories = vec!["file:///a".into(), "file:///b".into()];
    let answer = stage.request(conn, innkeeper_core::Command::CreateSession(Box::new(create)));
    assert_eq!(answer["result"], Value::Null, "{answer}");
    stage.opened(Ok(()));
    stage.subscribe(conn, SESSION);
    stage.inbox(conn);
    (stage, conn, innkeeper_core::uri::default_chat(SESSION))
}

fn source(value: Value) -> Option<ChatSource> {
    Some(serde_json::from_value(value).expect("a source"))
}

fn fork(chat: &str, turn: &str) -> CreateChat {
    CreateChat {
        source: source(json!({ "kind": "fork", "chat": chat, "turnId": turn })),
        ..new_chat(SESSION, CHAT)
    }
}

fn side(chat: &str, turn: &str, selection: Option<&str>) -> CreateChat {
    let mut value = json!({ "kind": "sideChat", "chat": chat, "turnId": turn });
    if let Some(text) = selection {
        value["selection"] = json!({ "text": text, "responsePartId": "p1" });
    }
    CreateChat {
        source: source(value),
        ..new_chat(SESSION, CHAT)
    }
}

fn entry(stage: &Stage, chat: &str) -> Value {
    let state = stage.state(SESSION);
    let chats = state["chats"].as_array().expect("a catalogue");
    chats
        .iter()
        .find(|entry| entry["resource"] == chat)
        .cloned()
        .unwrap_or(Value::Null)
}

/// (E-03, CHT-11, SES-11)
#[test]
fn cht01_the_chat_is_listed_before_the_answer_and_has_a_back_end() {
    let (mut stage, conn, default) = stage();
    stage.handle(Input::Request {
        conn,
        id: innkeeper_core::RequestId::number(77),
        command: innkeeper_core::Command::CreateChat(Box::new(new_chat(SESSION, CHAT))),
    });
    let inbox = stage.inbox(conn);
    assert_eq!(inbox.len(), 2, "{inbox:?}");
    let action = &inbox[0]["params"]["action"];
    assert_eq!(action["type"], "session/chatAdded");
    assert_eq!(action["summary"]["resource"], CHAT);
    assert_eq!(action["summary"]["title"], "New chat");
    assert_eq!(action["summary"]["origin"], json!({ "kind": "user" }));
    assert_eq!(action["summary"]["movable"], true);
    assert_eq!(inbox[1], json!({ "jsonrpc": "2.0", "id": 77, "result": null }));
    assert_eq!(&*stage.last_opened().info.chat, CHAT);
    assert_eq!(stage.last_opened().info.working_directories, ["file:///a", "file:///b"]);
    assert_eq!(stage.catalogue(SESSION), [default.as_str(), CHAT]);
    assert!(entry(&stage, &default).get("movable").is_none());
    assert_eq!(
        stage.subscribe(conn, CHAT)["result"]["snapshot"]["state"]["resource"],
        CHAT
    );
}

#[test]
fn cht01_an_invalid_request_names_the_field() {
    let (mut stage, conn, _) = stage();
    let answer = stage.create_chat(conn, new_chat("ahp-session:/none", CHAT));
    assert_eq!(error(&answer).0, -32001);
    for bad in ["no-uri", "ahp-session:/x", "ahp-terminal:/x", "ahp-chat://default/eA"] {
        let answer = stage.create_chat(conn, new_chat(SESSION, bad));
        assert_eq!(error(&answer).0, -32602, "{bad}");
        assert!(error(&answer).1.contains("params.chat:"), "{answer}");
    }
    assert_eq!(stage.catalogue(SESSION).len(), 1);
}

#[test]
fn cht02_a_taken_name_is_refused_and_the_default_chat_is_there_already() {
    let (mut stage, conn, default) = stage();
    assert_eq!(stage.create_chat(conn, new_chat(SESSION, CHAT))["result"], Value::Null);
    let again = stage.create_chat(conn, new_chat(SESSION, CHAT));
    assert_eq!(error(&again).0, -32010);
    let seq = stage.core.seq();
    let answer = stage.create_chat(conn, new_chat(SESSION, &default));
    assert_eq!(answer["result"], Value::Null, "{answer}");
    assert_eq!(stage.core.seq(), seq, "nothing happened");
    let message = serde_json::from_value(message("lost?")).expect("a message");
    let answer = stage.create_chat(
        conn,
        CreateChat {
            initial_message: Some(message),
            ..new_chat(SESSION, &default)
        },
    );
    assert_eq!(error(&answer).0, -32010, "a message is not dropped in silence");
}

/// (ROOT-03)
#[test]
fn cht03_an_agent_without_the_capability_keeps_one_chat() {
    let (mut stage, conn, default) = with(Stage::new());
    let answer = stage.create_chat(conn, new_chat(SESSION, CHAT));
    assert_eq!(error(&answer).0, -32011);
    assert!(error(&answer).1.contains("one chat per session"), "{answer}");
    assert_eq!(
        stage.create_chat(conn, new_chat(SESSION, &default))["result"],
        Value::Null
    );
}

#[test]
fn cht04_every_wrong_source_is_refused_and_its_field_named() {
    let (mut stage, conn, default) = stage();
    stage.turn(conn, &default, "done", "x");
    stage.start_turn(conn, &default, "running");
    let other = stage.session(conn, "ahp-session:/two");
    let cases = [
        (fork("ahp-chat:/none", "done"), "source.chat"),
        (fork(CHAT, "done"), "source.chat"),
        (fork(&other, "done"), "source.chat"),
        (fork(&default, "none"), "source.turnId"),
        (fork(&default, "running"), "source.turnId"),
        (side(&default, "none", None), "source.turnId"),
        (side(&default, "done", Some("")), "source.selection.text"),
        (
            CreateChat {
                source: source(json!({ "kind": "clone", "chat": default, "turnId": "done" })),
                ..new_chat(SESSION, CHAT)
            },
            "source.kind",
        ),
        (
            CreateChat {
                source: source(json!({ "chat": default })),
                ..new_chat(SESSION, CHAT)
            },
            "source.kind",
        ),
    ];
    for (create, field) in cases {
        let answer = stage.create_chat(conn, create);
        assert_eq!(error(&answer).0, -32602, "{answer}");
        assert!(error(&answer).1.starts_with(&format!("params.{field}:")), "{answer}");
    }
    assert_eq!(stage.catalogue(SESSION).len(), 1);
}

#[test]
fn cht04_requests_beyond_an_agents_capabilities_are_rejected() {
    let plain = |change: fn(&mut AgentProfile)| {
        let mut profile = able("tour");
        change(&mut profile);
        with(Stage::with_agents(CoreConfig::default(), vec![profile], Seq(1)))
    };
    let chats = |profile: &mut AgentProfile| {
        let capabilities = profile.info.capabilities.as_mut().expect("some");
        capabilities.multiple_chats = Some(ahp_types::state::MultipleChatsCapability {
            fork: None,
            side_chat: Some(false),
        });
    };
    let (mut stage, conn, default) = plain(chats);
    stage.turn(conn, &default, "t", "x");
    for create in [fork(&default, "t"), side(&default, "t", None)] {
        let answer = stage.create_chat(conn, create);
        assert!(error(&answer).1.contains("source.kind"), "{answer}");
    }
    let (mut stage, conn, default) = plain(|profile| profile.restores_history = false);
    stage.turn(conn, &default, "t", "x");
    let answer = stage.create_chat(conn, fork(&default, "t"));
    assert!(error(&answer).1.contains("cannot fork"), "{answer}");
    assert_eq!(
        stage.create_chat(conn, side(&default, "t", None))["result"],
        Value::Null
    );
}

/// (CHT-11)
#[test]
fn cht05_a_fork_copies_history_through_the_named_turn() {
    let (mut stage, conn, default) = stage();
    for turn in ["one", "two", "three"] {
        stage.turn(conn, &default, turn, &format!("reply {turn}"));
    }
    let mut create = fork(&default, "two");
    create.working_directories = Some(vec!["file:///elsewhere".into()]);
    let answer = stage.create_chat(conn, create);
    assert_eq!(
        answer["result"],
        Value::Null,
        "what a fork says about directories is ignored: {answer}"
    );
    let state = stage.state(CHAT);
    let ids: Vec<_> = state["turns"]
        .as_array()
        .expect("turns")
        .iter()
        .map(|turn| turn["id"].clone())
        .collect();
    assert_eq!(ids, ["one", "two"]);
    assert_eq!(
        state["origin"],
        json!({ "kind": "fork", "chat": default, "turnId": "two" })
    );
    assert_eq!(state["title"], stage.state(&default)["title"]);
    assert_eq!(state["status"], 33, "idle and read");
    let open = stage.last_opened();
    let told: Vec<_> = open.history.recent.iter().map(|turn| turn.reply.as_str()).collect();
    assert_eq!(told, ["reply one", "reply two"]);
    assert!(open.info.context.is_empty());
    // The two go separate ways from here.
    stage.turn(conn, CHAT, "three", "mine");
    assert_eq!(stage.state(CHAT)["turns"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        stage.state(&default)["turns"][2]["responseParts"][0]["content"],
        "reply three"
    );
}

#[test]
fn cht05_an_interrupted_turn_can_only_be_resumed_where_it_was_interrupted() {
    let (mut stage, conn, default) = stage();
    stage.start_turn(conn, &default, "t");
    stage.ends(TurnEnd::Failed {
        failure: Failure::new("x", "y"),
        resumable: true,
    });
    stage.create_chat(conn, fork(&default, "t"));
    stage.subscribe(conn, CHAT);
    stage.inbox(conn);
    stage.dispatch(conn, CHAT, 9, json!({ "type": "chat/turnResume", "turnId": "t" }));
    let envelope = stage.actions(conn).pop().expect("an answer");
    assert!(envelope["rejectionReason"].is_string(), "{envelope}");
    let parts = |stage: &Stage, chat: &str| stage.state(chat)["turns"][0]["responseParts"][0].clone();
    assert_eq!(parts(&stage, &default)["resumable"], true);
    assert!(parts(&stage, CHAT).get("resumable").is_none());
}

/// (CHT-08, CHT-11)
#[test]
fn cht06_a_side_chat_has_context_but_no_history() {
    let (mut stage, conn, default) = stage();
    for turn in ["one", "two"] {
        stage.turn(conn, &default, turn, turn);
    }
    let answer = stage.create_chat(conn, side(&default, "one", Some("these words")));
    assert_eq!(answer["result"], Value::Null, "{answer}");
    let state = stage.state(CHAT);
    assert_eq!(state["turns"], json!([]));
    assert_eq!(
        state["origin"]["selection"],
        json!({ "text": "these words", "responsePartId": "p1" })
    );
    let open = stage.last_opened();
    assert!(open.history.recent.is_empty());
    let context: Vec<_> = open.info.context.iter().map(|turn| turn.id.as_str()).collect();
    assert_eq!(context, ["one"]);
    assert_eq!(open.info.selection.as_deref(), Some("these words"));
}

#[test]
fn cht07_a_side_chat_on_a_running_turn_sees_it_as_it_is_now() {
    let (mut stage, conn, default) = stage();
    stage.turn(conn, &default, "one", "done");
    stage.start_turn(conn, &default, "two");
    stage.says(AgentEvent::Text("half a sen".into()));
    let running = stage.run();
    stage.create_chat(conn, side(&default, "two", None));
    stage.says_in(running, AgentEvent::Text("tence".into()));
    let open = stage.last_opened();
    assert_eq!(open.info.context.len(), 2);
    assert_eq!(open.info.context[1].text, "hi");
    assert_eq!(open.info.context[1].reply, "half a sen");
    assert_eq!(open.info.context[1].outcome, PastOutcome::Unfinished);
}

#[test]
fn cht09_directories_are_a_subset_of_the_sessions() {
    let (mut stage, conn, _) = stage();
    let with = |uri: &str, directories: Option<Vec<&str>>| CreateChat {
        working_directories: directories.map(|list| list.into_iter().map(str::to_owned).collect()),
        ..new_chat(SESSION, uri)
    };
    let answer = stage.create_chat(conn, with(CHAT, Some(vec!["file:///b", "file:///c"])));
    assert_eq!(error(&answer).0, -32602);
    assert!(error(&answer).1.contains("workingDirectories[1]"), "{answer}");
    stage.create_chat(conn, with(CHAT, Some(vec!["file:///b", "file:///b"])));
    assert_eq!(stage.state(CHAT)["workingDirectories"], json!(["file:///b"]));
    assert_eq!(stage.last_opened().info.working_directories, ["file:///b"]);
    stage.create_chat(conn, with("ahp-chat:/none", Some(vec![])));
    assert_eq!(stage.state("ahp-chat:/none")["workingDirectories"], json!([]));
    assert!(
        stage.last_opened().info.working_directories.is_empty(),
        "no access at all"
    );
    stage.create_chat(conn, with("ahp-chat:/all", None));
    assert!(stage.state("ahp-chat:/all").get("workingDirectories").is_none());
    assert_eq!(stage.last_opened().info.working_directories.len(), 2);
}

fn with_message(text: Value) -> CreateChat {
    CreateChat {
        initial_message: Some(serde_json::from_value(text).expect("a message")),
        ..new_chat(SESSION, CHAT)
    }
}

#[test]
fn cht10_an_initial_message_starts_the_first_turn_for_its_author() {
    let (mut stage, conn, _) = stage();
    let mut join = announce("c");
    join["activeClient"]["tools"] = json!([{ "name": "look" }]);
    stage.dispatch(conn, SESSION, 1, join);
    let answer = stage.create_chat(conn, with_message(message("first words")));
    assert_eq!(answer["result"], Value::Null, "{answer}");
    let state = stage.state(CHAT);
    assert_eq!(state["activeTurn"]["message"]["text"], "first words");
    assert_eq!(state["activeTurn"]["startedAt"], stage.now.rfc3339());
    assert_eq!(
        state["title"], "first words",
        "a further chat is named after its first message"
    );
    let Some(Effect::Agent(AgentCommand::StartTurn { start, .. })) = stage.agent.last() else {
        panic!("no turn was started: {:?}", stage.agent.last());
    };
    assert_eq!(start.info.text, "first words");
    assert_eq!(start.info.client_tools.len(), 1);
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.state(CHAT)["turns"].as_array().map(Vec::len), Some(1));
}

#[test]
fn cht10_an_initial_message_is_checked_before_anything_is_created() {
    let (mut stage, conn, _) = stage();
    let bad = [
        (json!({ "text": "x", "origin": { "kind": "agent" } }), "kind user"),
        (
            json!({ "text": "x", "origin": { "kind": "user" }, "attachments": [{ "type": "chat", "label": "l", "resource": "ahp-chat:/none" }] }),
            "attachments[0]",
        ),
    ];
    for (message, problem) in bad {
        let answer = stage.create_chat(conn, with_message(message));
        assert_eq!(error(&answer).0, -32602);
        assert!(error(&answer).1.starts_with("params.initialMessage:"), "{answer}");
        assert!(error(&answer).1.contains(problem), "{answer}");
    }
    assert_eq!(stage.catalogue(SESSION).len(), 1);
}

#[test]
fn cht10_while_the_session_comes_up_the_message_waits() {
    let mut stage = Stage::able(CoreConfig::default());
    let conn = stage.client("c", &[]);
    stage.create(conn, SESSION);
    let answer = stage.create_chat(conn, with_message(message("wait")));
    assert_eq!(answer["result"], Value::Null, "{answer}");
    assert!(stage.state(CHAT).get("activeTurn").is_none());
    let default = stage.agent.iter().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.chat),
        _ => None,
    });
    let further = stage.last_opened().chat;
    stage.handle(Input::ChatOpened {
        chat: further,
        outcome: Ok(()),
    });
    assert_eq!(stage.state(SESSION)["lifecycle"], "creating", "its own chat decides");
    stage.handle(Input::ChatOpened {
        chat: default.expect("the session's own chat"),
        outcome: Ok(()),
    });
    assert_eq!(stage.state(CHAT)["activeTurn"]["message"]["text"], "wait");
    let failed = "ahp-session:/failed";
    stage.create(conn, failed);
    stage.opened(Err(Failure::new("x", "y")));
    let answer = stage.create_chat(conn, new_chat(failed, "ahp-chat:/late"));
    assert_eq!(error(&answer).0, -32011);
}

#[test]
fn cht13_a_session_has_a_bounded_number_of_chats() {
    let (mut stage, conn, _) = with(Stage::able(CoreConfig {
        max_chats: 2,
        ..CoreConfig::default()
    }));
    assert_eq!(stage.create_chat(conn, new_chat(SESSION, CHAT))["result"], Value::Null);
    let answer = stage.create_chat(conn, new_chat(SESSION, "ahp-chat:/third"));
    assert_eq!(error(&answer).0, -32011);
}
