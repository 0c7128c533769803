//! Chats of which only the latest turn is in memory: what is read when, and how much of a long chat
//! goes into one answer. Every other scenario runs with such chats too.

use std::sync::Arc;

use innkeeper_core::agent::{Attachment, SpanEnd, TurnSpan};
use innkeeper_core::request::{Command, CreateChat, TurnsPage};
use innkeeper_core::{AgentCommand, ConnId, CoreConfig, Delivery, Effect, Input, RequestId, TurnEnd, Wire};
use serde_json::{Value, json};

use crate::harness::*;

const FORK: &str = "ahp-chat:/fork";

fn stage(config: CoreConfig, turns: usize) -> (Stage, ConnId, String) {
    let mut stage = Stage::able(config);
    let conn = stage.client("author", &[]);
    let chat = stage.session(conn, SESSION);
    for n in 1..=turns {
        stage.turn(conn, &chat, &format!("t{n}"), &"x".repeat(1000));
    }
    (stage, conn, chat)
}

fn starting_from(kind: &str, chat: &str, turn: &str) -> CreateChat {
    let source = json!({ "kind": kind, "chat": chat, "turnId": turn });
    CreateChat {
        source: Some(serde_json::from_value(source).expect("a source")),
        ..new_chat(SESSION, FORK)
    }
}

fn ids(state: &Value) -> Vec<&str> {
    let turns = state["turns"].as_array().expect("turns");
    turns.iter().map(|turn| turn["id"].as_str().expect("an id")).collect()
}

fn before(chat: &str, end: usize) -> TurnSpan {
    TurnSpan {
        chat: chat.into(),
        end: SpanEnd::Before(end),
    }
}

#[test]
fn page01_a_page_is_read_before_it_is_sent_and_nothing_else_is() {
    let config = CoreConfig {
        turns_per_page: 2,
        ..CoreConfig::default()
    };
    let (mut stage, _, chat) = stage(config, 6);
    let reader = stage.client("reader", &[]);
    stage.subscribe_to_latest(reader, &chat, 1);
    assert!(stage.loads.is_empty(), "a snapshot loads nothing");
    let answer = stage.fetch_turns(reader, &chat, Some("through:none"));
    assert!(answer["error"].is_object());
    assert!(stage.loads.is_empty(), "what is refused needs nothing");
    assert_eq!(stage.fetch_turns(reader, &chat, None)["result"], json!({}));
    assert_eq!(stage.loads, [(3, 5)]);
    let page = stage.actions(reader).pop().expect("a page");
    assert_eq!(ids(&page["action"]), ["t4", "t5"]);
}

#[test]
fn page01_turns_that_cannot_be_read_are_an_error_and_not_a_gap() {
    let (mut stage, _, chat) = stage(CoreConfig::default(), 3);
    let reader = stage.client("reader", &[]);
    stage.subscribe_to_latest(reader, &chat, 1);
    stage.inbox(reader);
    let request = |id| Input::Request {
        conn: reader,
        id: RequestId::number(id),
        command: Command::FetchTurns {
            channel: chat.clone(),
            page: TurnsPage::At(None),
        },
    };
    let (chat_id, needed) = stage.core.turns_needed(&request(1)).expect("not in memory");
    assert_eq!(needed, 0..2);
    let failed = Input::TurnsLoaded {
        chat: chat_id,
        first: 0,
        outcome: Err("the disk is on fire".to_owned()),
    };
    let mut effects = Vec::new();
    stage.core.handle(stage.now, failed, &mut effects);
    stage.core.handle(stage.now, request(2), &mut effects);
    let [Effect::Deliver(Delivery::Send { message, .. })] = &effects[..] else {
        panic!("{effects:?}");
    };
    let answer = message.clone().into_wire().to_bytes().expect("encoded");
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(error(&answer).0, -32603);
}

#[test]
fn cht05_a_fork_reads_one_turn_and_leaves_the_others_where_they_are() {
    let (mut stage, conn, chat) = stage(CoreConfig::default(), 6);
    assert_eq!(
        stage.create_chat(conn, starting_from("fork", &chat, "t4"))["result"],
        Value::Null
    );
    assert_eq!(stage.loads, [(3, 4)]);
    assert_eq!(stage.spans, [before(FORK, 3)], "its agent is told all of it");
    assert_eq!(stage.last_opened().history.recent.len(), 4);
    assert_eq!(ids(&stage.state(FORK)), ["t1", "t2", "t3", "t4"]);
    stage.turn(conn, FORK, "mine", "y");
    assert_eq!(stage.turns.all(FORK).len(), 5);
    assert_eq!(stage.turns.all(&chat).len(), 6);
}

#[test]
fn cht05_a_fork_of_an_interrupted_turn_keeps_its_own_copy_of_that_turn() {
    let (mut stage, conn, chat) = stage(CoreConfig::default(), 2);
    stage.start_turn(conn, &chat, "t3");
    stage.ends(TurnEnd::Failed {
        failure: innkeeper_core::Failure::new("x", "y"),
        resumable: true,
    });
    stage.create_chat(conn, starting_from("fork", &chat, "t3"));
    let resumable = |turn: &ahp_types::state::Turn| serde_json::to_value(turn).expect("JSON").to_string();
    assert!(resumable(&stage.turns.all(&chat)[2]).contains("resumable"));
    assert!(!resumable(&stage.turns.all(FORK)[2]).contains("resumable"));
    assert_eq!(stage.turns.all(&chat)[..2], stage.turns.all(FORK)[..2]);
}

/// (CHT-07)
#[test]
fn cht06_a_side_chat_is_told_the_newest_megabytes_only() {
    let (mut stage, conn, chat) = stage(CoreConfig::default(), 2);
    for n in 3..=8 {
        stage.turn(conn, &chat, &format!("t{n}"), &"x".repeat(1 << 20));
    }
    stage.create_chat(conn, starting_from("sideChat", &chat, "t7"));
    let told: Vec<_> = stage
        .last_opened()
        .info
        .context
        .iter()
        .map(|turn| turn.id.clone())
        .collect();
    assert_eq!(told, ["t5", "t6", "t7"], "a little less than four fit into 4 MiB");
    assert_eq!(stage.loads, [(4, 7)]);
}

/// (CHT-15)
#[test]
fn trc04_a_truncation_far_back_reads_one_turn() {
    let (mut stage, conn, chat) = stage(CoreConfig::default(), 9);
    let reader = stage.client("reader", &[]);
    stage.subscribe_to_latest(reader, &chat, 1);
    stage.dispatch(conn, &chat, 1, json!({ "type": "chat/truncated", "turnId": "t3" }));
    assert_eq!(stage.loads, [(2, 3)]);
    let sent = stage.actions(reader);
    assert_eq!(ids(&sent[0]["action"]), ["t3"], "and sends one");
    assert_eq!(sent[0]["action"]["turnsNextCursor"], "through:t2");
    assert_eq!(sent[1]["action"]["type"], "chat/truncated");
    assert_eq!(ids(&stage.state(&chat)), ["t1", "t2", "t3"]);
    assert_eq!(stage.turns.all(&chat).len(), 3);
    assert_eq!(stage.spans, [before(&chat, 2)], "the agent starts from what is left");
}

/// (TURN-19)
#[test]
fn turn18_an_attached_chat_is_read_for_the_agent_alone() {
    let (mut stage, conn, chat) = stage(CoreConfig::default(), 3);
    let other = stage.session(conn, "ahp-session:/two");
    let mut start = stage.turn_started("u1");
    start["message"]["attachments"] = json!([
        { "type": "simple", "label": "a", "modelRepresentation": "text" },
        { "type": "chat", "label": "that chat", "resource": chat, "endTurn": "t2" },
    ]);
    stage.dispatch(conn, &other, 1, start);
    let through = TurnSpan {
        chat: chat.as_str().into(),
        end: SpanEnd::Through("t2".to_owned()),
    };
    assert_eq!(stage.spans, [through]);
    assert!(stage.loads.is_empty());
    let Some(Effect::Agent(AgentCommand::StartTurn { start, .. })) = stage.agent.last() else {
        panic!("no turn was started");
    };
    let Attachment::Chat { label, transcript, .. } = &start.info.attachments[1] else {
        panic!("{:?}", start.info.attachments);
    };
    assert_eq!((label.as_str(), transcript.len()), ("that chat", 2));
}

fn bounded(max_snapshot_bytes: usize) -> CoreConfig {
    CoreConfig {
        max_snapshot_bytes,
        ..CoreConfig::default()
    }
}

/// The published client reads no message beyond its own limit (trap 11).
#[test]
fn sub12_a_chat_too_long_for_one_message_has_a_window_and_a_cursor() {
    let (mut stage, _, chat) = stage(bounded(7000), 9);
    let reader = stage.client("reader", &[]);
    let answer = stage.subscribe(reader, &chat);
    let state = &answer["result"]["snapshot"]["state"];
    assert_eq!(ids(state), ["t5", "t6", "t7", "t8", "t9"]);
    assert_eq!(state["turnsNextCursor"], "through:t4");
    assert!(state.to_string().len() < 7000);
    stage.fetch_turns(reader, &chat, Some("through:t4"));
    let page = stage.actions(reader).pop().expect("a page");
    assert_eq!(ids(&page["action"]), ["t1", "t2", "t3", "t4"]);
    assert_eq!(page["action"].get("turnsNextCursor"), None);
    // The same for a client that asks for more turns than fit, and for one turn that is too large.
    let other = stage.client("other", &[]);
    let answer = stage.subscribe_to_latest(other, &chat, 8);
    assert_eq!(ids(&answer["result"]["snapshot"]["state"]).len(), 5);
    let (mut stage, _, chat) = self::stage(bounded(100), 3);
    let reader = stage.client("reader", &[]);
    let answer = stage.subscribe(reader, &chat);
    assert_eq!(ids(&answer["result"]["snapshot"]["state"]), ["t3"]);
}

#[test]
fn sub12_without_a_bound_everything_is_shown() {
    let (mut stage, _, chat) = stage(bounded(0), 9);
    let reader = stage.client("reader", &[]);
    let answer = stage.subscribe(reader, &chat);
    assert_eq!(ids(&answer["result"]["snapshot"]["state"]).len(), 9);
    assert_eq!(answer["result"]["snapshot"]["state"].get("turnsNextCursor"), None);
}

/// (REC-05)
#[test]
fn neg10_all_snapshots_of_one_answer_fit_together() {
    let (mut stage, conn, chat) = stage(bounded(20_000), 9);
    let second = stage.session(conn, "ahp-session:/two");
    for n in 1..=9 {
        stage.turn(conn, &second, &format!("u{n}"), &"x".repeat(1000));
    }
    let reader = stage.connect();
    let answer = stage.initialize(reader, "reader", &["1.0.0"], &[&chat, &second]);
    let check = |snapshots: &Value| {
        let snapshots = snapshots.as_array().expect("snapshots");
        assert_eq!(snapshots.len(), 2);
        for snapshot in snapshots {
            assert!(ids(&snapshot["state"]).len() < 9);
            assert!(snapshot["state"]["turnsNextCursor"].is_string());
        }
    };
    check(&answer["result"]["snapshots"]);
    assert!(answer.to_string().len() < 20_000);
    // The omitted turns can be fetched: the host knows which ones the client lacks.
    stage.fetch_turns(reader, &second, None);
    let page = stage.actions(reader).pop().expect("a page");
    assert_eq!(ids(&page["action"])[0], "u1");
    let again = stage.connect();
    let answer = stage.reconnect(again, "reader", 0, &[&chat, &second]);
    check(&answer["result"]["snapshots"]);
    // One alone has room enough.
    let alone = stage.client("alone", &[]);
    let answer = stage.subscribe(alone, &chat);
    assert_eq!(ids(&answer["result"]["snapshot"]["state"]).len(), 9);
}

#[test]
fn only_answers_that_are_small_and_in_memory_are_encoded_in_one_piece() {
    let (mut stage, conn, chat) = stage(CoreConfig::default(), 3);
    let mut wire = |turns: usize| {
        let mut effects = Vec::new();
        let subscribe = innkeeper_core::request::Subscribe {
            channel: chat.clone(),
            max_latency_ms: None,
            turns: Some(turns),
        };
        let request = Input::Request {
            conn,
            id: RequestId::number(1),
            command: Command::Subscribe(Box::new(subscribe)),
        };
        stage.core.handle(stage.now, request, &mut effects);
        match effects.pop() {
            Some(Effect::Deliver(Delivery::Send { message, .. })) => message.into_wire(),
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(wire(1), Wire::Answer(..)));
    let Wire::Stream(answer) = wire(3) else {
        panic!("two turns have to be read");
    };
    let mut written = Vec::new();
    answer.write_to(&mut written).expect("written");
    let written: Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(ids(&written["result"]["snapshot"]["state"]), ["t1", "t2", "t3"]);
    assert_eq!(Arc::strong_count(&answer), 1);
}
