//! Turns: one at a time, each with one end (TURN, PEND).

use innkeeper_core::{AgentCommand, AgentEvent, ConnId, CoreConfig, Effect, Failure, Input, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

fn chat_with_reader() -> (Stage, ConnId, String) {
    with_config(CoreConfig::default())
}

fn with_config(config: CoreConfig) -> (Stage, ConnId, String) {
    let mut stage = Stage::with(config);
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, &chat);
    (stage, conn, chat)
}

fn reason(stage: &mut Stage, conn: ConnId) -> String {
    let envelope = stage.actions(conn).pop().expect("an envelope");
    envelope["rejectionReason"]
        .as_str()
        .unwrap_or_else(|| panic!("not refused: {envelope}"))
        .to_owned()
}

#[test]
fn turn01_e11_a_second_turn_is_refused_and_the_first_goes_on() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.start_turn(conn, &chat, "one");
    stage.says(AgentEvent::Text("kept".into()));
    stage.start_turn(conn, &chat, "two");
    assert!(reason(&mut stage, conn).contains("a turn is already running"));
    assert_eq!(stage.state(&chat)["activeTurn"]["id"], "one");
    assert_eq!(stage.state(&chat)["activeTurn"]["responseParts"][0]["content"], "kept");
    stage.ends(TurnEnd::Complete);
    stage.start_turn(conn, &chat, "one");
    assert!(reason(&mut stage, conn).contains("turnId was used before"));
}

#[test]
fn turn02_e12_a_start_time_that_would_poison_the_turn_never_gets_in() {
    let (mut stage, conn, chat) = chat_with_reader();
    for bad in [
        "not-a-date",
        "",
        "9999-12-31T23:59:59Z",
        "1970-01-01T00:00:00Z",
        "2026-01-31",
        "5",
    ] {
        let mut action = stage.turn_started("t");
        action["startedAt"] = json!(bad);
        stage.dispatch(conn, &chat, 1, action);
        assert!(reason(&mut stage, conn).contains("startedAt"), "{bad:?}");
    }
    assert!(stage.state(&chat).get("activeTurn").is_none());
}

#[test]
fn turn03_e10_e19_turn14_the_echo_comes_first_and_parts_before_text() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.inbox(conn);
    stage.start_turn(conn, &chat, "t");
    assert!(matches!(
        stage.agent.last(),
        Some(Effect::Agent(AgentCommand::StartTurn { .. }))
    ));
    stage.says(AgentEvent::Reasoning("let me see".into()));
    stage.says(AgentEvent::Text("Hel".into()));
    stage.says(AgentEvent::Text("lo".into()));
    stage.says(AgentEvent::EndPart);
    stage.says(AgentEvent::Text("Again".into()));
    assert_eq!(
        stage.action_types(conn),
        [
            "chat/turnStarted",
            "chat/responsePart",
            "chat/reasoning",
            "chat/responsePart",
            "chat/delta",
            "chat/delta",
            "chat/responsePart",
            "chat/delta"
        ]
    );
    let parts = stage.state(&chat)["activeTurn"]["responseParts"].clone();
    let texts: Vec<_> = parts
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["content"].clone())
        .collect();
    assert_eq!(texts, ["let me see", "Hello", "Again"]);
}

#[test]
fn turn04_turn05_turn09_a_failure_is_one_chat_error_with_its_duration() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.start_turn(conn, &chat, "t");
    stage.pass(1234);
    stage.inbox(conn);
    let failure = Failure::new("agentDied", "the agent died");
    stage.ends(TurnEnd::Failed {
        failure,
        resumable: false,
    });
    let actions = stage.actions(conn);
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0]["action"]["type"], "chat/error");
    assert_eq!(actions[0]["action"]["duration"], 1234);
    assert_eq!(actions[0]["action"]["part"]["error"]["message"], "the agent died");
    assert_eq!(stage.state(&chat)["status"].as_u64().unwrap() & 0b1_1111, 2, "E-21");
    assert_eq!(stage.state(&chat)["turns"][0]["state"], "error");
}

/// (E-14)
#[test]
fn turn05_a_turn_ends_once_and_a_late_agent_is_not_heard() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.start_turn(conn, &chat, "t");
    stage.ends(TurnEnd::Complete);
    stage.inbox(conn);
    stage.ends(TurnEnd::Complete);
    stage.ends(TurnEnd::Cancelled);
    stage.says(AgentEvent::Text("late".into()));
    stage.says(AgentEvent::Usage(Default::default()));
    assert_eq!(stage.inbox(conn), Vec::<Value>::new());
    assert_eq!(stage.state(&chat)["turns"].as_array().unwrap().len(), 1);
}

#[test]
fn turn11_dsp16_a_cancel_ends_the_turn_and_a_second_one_is_rejected() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.start_turn(conn, &chat, "t");
    stage.says(AgentEvent::Activity(Some("thinking".into())));
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": i64::MAX });
    stage.dispatch(
        conn,
        &chat,
        2,
        json!({ "type": "chat/turnCancelled", "turnId": "other", "duration": 0 }),
    );
    assert_eq!(reason(&mut stage, conn), "another turn is running, not this one");
    stage.dispatch(conn, &chat, 3, cancel.clone());
    assert!(matches!(
        stage.agent.last(),
        Some(Effect::Agent(AgentCommand::CancelTurn { .. }))
    ));
    assert_eq!(stage.state(&chat)["turns"][0]["state"], "cancelled");
    assert!(
        stage.state(&chat).get("activity").is_none(),
        "no agent is thinking any more"
    );
    stage.inbox(conn);
    stage.dispatch(conn, &chat, 4, cancel);
    assert_eq!(reason(&mut stage, conn), "no turn is running");
    stage.says(AgentEvent::Text("late".into()));
    assert_eq!(stage.inbox(conn), Vec::<Value>::new());
}

/// (E-20)
#[test]
fn turn12_turn13_only_a_resumable_error_of_the_latest_turn_can_be_resumed() {
    let (mut stage, conn, chat) = chat_with_reader();
    let resume = |turn: &str| json!({ "type": "chat/turnResume", "turnId": turn });
    let failed = |resumable| TurnEnd::Failed {
        failure: Failure::new("limit", "try again later"),
        resumable,
    };
    stage.start_turn(conn, &chat, "one");
    stage.ends(failed(false));
    stage.dispatch(conn, &chat, 2, resume("one"));
    assert_eq!(reason(&mut stage, conn), "the turn's error cannot be resumed");
    stage.start_turn(conn, &chat, "two");
    stage.says(AgentEvent::Text("so far".into()));
    stage.ends(failed(true));
    stage.dispatch(conn, &chat, 3, resume("one"));
    assert!(reason(&mut stage, conn).contains("only the latest turn"));
    stage.dispatch(conn, &chat, 4, resume("two"));
    let Some(Effect::Agent(AgentCommand::StartTurn { start, .. })) = stage.agent.last() else {
        panic!("the agent goes on")
    };
    assert!(start.info.resume && start.info.turn_id == "two" && start.info.text == "hi");
    stage.says(AgentEvent::Text("and on".into()));
    let parts = stage.state(&chat)["activeTurn"]["responseParts"].clone();
    assert_eq!(parts[0]["content"], "so far");
    assert_eq!(parts[1]["kind"], "error");
    assert_eq!(parts[2]["content"], "and on", "a new part, not the old one");
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.state(&chat)["turns"].as_array().unwrap().len(), 2);
}

#[test]
fn pend02_pend05_e07_a_completed_turn_takes_the_queue_in_order() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.start_turn(conn, &chat, "t");
    for id in ["b", "a"] {
        let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message(id) });
        stage.dispatch(conn, &chat, 1, queued);
    }
    stage.inbox(conn);
    stage.ends(TurnEnd::Complete);
    let actions = stage.actions(conn);
    let types: Vec<_> = actions.iter().map(|e| e["action"]["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        ["chat/turnComplete", "chat/pendingMessageRemoved", "chat/turnStarted"]
    );
    assert_eq!(actions[1]["action"]["id"], "b");
    assert_eq!(actions[2]["action"]["queuedMessageId"], "b");
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.state(&chat)["activeTurn"]["message"]["text"], "a");
    assert!(stage.state(&chat).get("queuedMessages").is_none(), "PEND-08");
}

#[test]
fn pend03_a_message_queued_in_an_idle_chat_starts_after_its_echo() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.inbox(conn);
    let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": message("now") });
    stage.dispatch(conn, &chat, 1, queued);
    let types = stage.action_types(conn);
    assert_eq!(
        types,
        [
            "chat/pendingMessageSet",
            "chat/pendingMessageRemoved",
            "chat/turnStarted"
        ]
    );
}

#[test]
fn pend06_e63_nothing_starts_by_itself_after_a_cancel_or_an_error() {
    for end in [
        TurnEnd::Cancelled,
        TurnEnd::Failed {
            failure: Failure::new("x", "y"),
            resumable: false,
        },
    ] {
        let (mut stage, conn, chat) = chat_with_reader();
        stage.start_turn(conn, &chat, "t");
        let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": message("w") });
        stage.dispatch(conn, &chat, 1, queued);
        stage.ends(end);
        assert!(stage.state(&chat).get("activeTurn").is_none());
        assert_eq!(stage.state(&chat)["queuedMessages"][0]["id"], "q");
    }
}

#[test]
fn pend07_removing_a_message_that_is_not_there_is_refused() {
    let (mut stage, conn, chat) = chat_with_reader();
    let removed = json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "q" });
    stage.dispatch(conn, &chat, 1, removed);
    assert_eq!(reason(&mut stage, conn), "no such pending message");
}

#[test]
fn a_turn_of_too_many_parts_is_ended_by_the_host() {
    let (mut stage, conn, chat) = with_config(CoreConfig {
        max_parts_per_turn: 2,
        ..CoreConfig::default()
    });
    stage.start_turn(conn, &chat, "t");
    stage.says(AgentEvent::Activity(Some("flooding".into())));
    for _ in 0..3 {
        stage.says(AgentEvent::Notice("more".into()));
    }
    assert!(matches!(
        stage.agent.last(),
        Some(Effect::Agent(AgentCommand::CancelTurn { .. }))
    ));
    let turn = stage.state(&chat)["turns"][0].clone();
    assert_eq!(turn["state"], "error");
    assert_eq!(turn["responseParts"][2]["error"]["errorType"], "tooManyParts");
    assert!(stage.state(&chat).get("activity").is_none());
}

#[test]
fn shutdown_cancels_running_turns_and_rejects_new_ones() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.start_turn(conn, &chat, "t");
    stage.ends(TurnEnd::Failed {
        failure: Failure::new("x", "y"),
        resumable: true,
    });
    let other = stage.session(conn, "ahp-session:/two");
    stage.start_turn(conn, &other, "t");
    stage.handle(Input::ShutDown);
    assert_eq!(stage.state(&other)["turns"][0]["state"], "cancelled");
    assert!(matches!(
        stage.agent.last(),
        Some(Effect::Agent(AgentCommand::CancelTurn { .. }))
    ));
    stage.inbox(conn);
    for action in [
        stage.turn_started("new"),
        json!({ "type": "chat/turnResume", "turnId": "t" }),
    ] {
        stage.dispatch(conn, &chat, 9, action);
        assert_eq!(reason(&mut stage, conn), "the host is shutting down");
    }
    assert_eq!(error(&stage.create(conn, "ahp-session:/three")).0, -32011);
}

#[test]
fn a_turn_larger_than_a_client_can_read_is_ended() {
    let mut stage = Stage::with(CoreConfig {
        max_turn_bytes: 1000,
        ..Default::default()
    });
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    for _ in 0..3 {
        stage.says(AgentEvent::Text("x".repeat(300)));
    }
    let turn = &stage.state(&chat)["turns"][0];
    assert_eq!(turn["state"], "error");
    assert_eq!(turn["responseParts"][0]["content"], "x".repeat(600));
    assert_eq!(turn["responseParts"][1]["error"]["errorType"], "tooMuchText");
    stage.start_turn(conn, &chat, "t2");
    stage.says(AgentEvent::Text("the next turn starts afresh".into()));
    assert_eq!(stage.state(&chat)["activeTurn"]["id"], "t2");
}

#[test]
fn a_question_larger_than_a_client_can_read_ends_its_turn() {
    let mut stage = Stage::with(CoreConfig {
        max_turn_bytes: 1000,
        ..Default::default()
    });
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.says(AgentEvent::Ask(Box::new(innkeeper_core::agent::Questions {
        id: "q".into(),
        message: Some("x".repeat(2000)),
        url: None,
        questions: Vec::new(),
    })));
    let turn = &stage.state(&chat)["turns"][0];
    assert_eq!(turn["responseParts"][0]["error"]["errorType"], "tooMuchText");
}

#[test]
fn a_message_that_says_nothing_is_refused_and_an_empty_draft_is_not() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, &chat);
    let mut empty = stage.turn_started("t");
    empty["message"]["text"] = json!(" \n");
    stage.dispatch(conn, &chat, 1, empty.clone());
    assert!(stage.state(&chat).get("activeTurn").is_none());
    let draft = json!({ "type": "chat/draftChanged", "draft": empty["message"] });
    stage.dispatch(conn, &chat, 2, draft);
    assert_eq!(stage.state(&chat)["draft"]["text"], " \n");
    // An image is enough.
    empty["message"]["attachments"] =
        json!([{ "type": "embeddedResource", "label": "c", "data": "AAAA", "contentType": "image/png" }]);
    stage.dispatch(conn, &chat, 3, empty);
    assert_eq!(stage.state(&chat)["activeTurn"]["id"], "t");
}

#[test]
fn turn02_only_the_plain_form_of_rfc_3339_is_passed_on() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, &chat);
    let good = stage.turn_started("t")["startedAt"]
        .as_str()
        .expect("a time")
        .to_owned();
    for odd in [
        good.replace('T', " "),
        format!("{good}[UTC]"),
        good.to_lowercase(),
        format!(" {good}"),
    ] {
        let mut started = stage.turn_started("t");
        started["startedAt"] = odd.clone().into();
        stage.dispatch(conn, &chat, 1, started);
        let echo = stage.actions(conn).pop().expect("an answer");
        assert!(
            echo["rejectionReason"]
                .as_str()
                .is_some_and(|reason| reason.contains("startedAt")),
            "{odd:?}"
        );
    }
}

#[test]
fn tool21_a_resumed_turn_knows_which_call_ids_are_taken() {
    let (mut stage, conn, chat) = working_agent::working();
    stage.call(working_agent::host_tool("run"), working_agent::harmless());
    stage.ends(TurnEnd::Failed {
        failure: Failure::new("network", "try again"),
        resumable: true,
    });
    stage.accepted(conn, &chat, json!({ "type": "chat/turnResume", "turnId": "t" }));
    let start = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(start),
        _ => None,
    });
    assert_eq!(start.expect("a turn").calls_before, [working_agent::CALL]);
}

#[test]
fn an_agent_that_died_is_reopened_with_the_messages_since() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.start_turn(conn, &chat, "one");
    let (id, _) = stage.run();
    stage.handle(Input::ChatLost { chat: id });
    let opened = |stage: &Stage| {
        let opens = stage.agent.iter().filter_map(|effect| match effect {
            Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.history.recent.len()),
            _ => None,
        });
        opens.collect::<Vec<_>>()
    };
    assert_eq!(opened(&stage), [0], "not in the middle of a turn");
    stage.ends(TurnEnd::Failed {
        failure: Failure::new("agentDied", "x"),
        resumable: false,
    });
    stage.handle(Input::ChatLost { chat: id });
    assert_eq!(opened(&stage), [0, 1]);
}

#[test]
fn a_reopened_agent_does_not_read_a_message_that_a_hook_denied() {
    let (mut stage, conn, chat) = chat_with_reader();
    stage.turn(conn, &chat, "said", "hello");
    stage.start_turn(conn, &chat, "refused");
    stage.says(AgentEvent::Notice("The hook of the house has something to say.".into()));
    stage.ends(TurnEnd::Failed {
        failure: Failure::new(innkeeper_core::REFUSED, "no secrets"),
        resumable: false,
    });
    // A turn that reached its agent, which then refused to continue, counts as received.
    stage.start_turn(conn, &chat, "begun");
    stage.says(AgentEvent::Text("Well".into()));
    stage.ends(TurnEnd::Failed {
        failure: Failure::new(innkeeper_core::REFUSED, "not any more"),
        resumable: false,
    });
    let (id, _) = stage.run();
    stage.handle(Input::ChatLost { chat: id });
    let told = stage.last_opened().history.recent.iter();
    let told: Vec<&str> = told.map(|turn| turn.id.as_str()).collect();
    assert_eq!(told, ["said", "begun"]);
    assert_eq!(
        stage.state(&chat)["turns"].as_array().map(Vec::len),
        Some(3),
        "users still see it"
    );
}
