//! Each of these mistakes of a host is noticed here and perhaps nowhere else: the clients' mirrors
//! would agree with it.

use innkeeper_core::request::CreateSession;
use innkeeper_core::{
    AgentCommand, AgentEvent, Command, ConnId, CoreConfig, Effect, HostCore, Input, Now, Principal, RequestId, Seq, uri,
};

use super::*;
use crate::sim::client::transports::initialize;

const SESSION: &str = "ahp-session:/s";

/// A session whose agent asks something, and its only chat.
fn asking() -> (SessionState, ChatState) {
    let now = Now {
        mono_ms: 0,
        wall: "2026-01-31T12:00:00Z".parse().expect("a valid time"),
    };
    let conn = ConnId { slot: 0, generation: 0 };
    let mut core = HostCore::new(CoreConfig::default(), crate::sim::agents("one"), Seq(1));
    let mut effects = Vec::new();
    let principal = Principal::stdio();
    core.handle(now, Input::Connected { conn, principal }, &mut effects);
    let create = CreateSession {
        channel: SESSION.to_owned(),
        ..CreateSession::default()
    };
    for command in [
        initialize("c", "1.0.0", Vec::new()),
        Command::CreateSession(Box::new(create)),
    ] {
        let id = RequestId::number(1);
        core.handle(now, Input::Request { conn, id, command }, &mut effects);
    }
    let opened = effects.iter().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.chat),
        _ => None,
    });
    let chat = opened.expect("a chat is opened");
    core.handle(now, Input::ChatOpened { chat, outcome: Ok(()) }, &mut effects);
    let started = json!({ "type": "chat/turnStarted", "turnId": "t", "startedAt": now.rfc3339(),
        "message": { "text": "hello", "origin": { "kind": "user" } } });
    let raw = serde_json::value::RawValue::from_string(started.to_string()).expect("JSON");
    let action = innkeeper_core::decode::decode_action(&raw);
    let channel = uri::default_chat(SESSION);
    let dispatch = Box::new(innkeeper_core::Dispatch {
        channel,
        client_seq: 1,
        raw,
        action,
        choice: None,
    });
    core.handle(now, Input::Dispatch { conn, dispatch }, &mut effects);
    let turn = effects.iter().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::StartTurn { turn, .. }) => Some(*turn),
        _ => None,
    });
    let questions = innkeeper_core::agent::Questions {
        id: "q".to_owned(),
        message: Some("Well?".to_owned()),
        ..Default::default()
    };
    let event = AgentEvent::Ask(Box::new(questions));
    let turn = turn.expect("a turn runs");
    core.handle(now, Input::Agent { chat, turn, event }, &mut effects);
    use innkeeper_core::snapshot::State;
    let state = |uri: &str| core.snapshot(uri).expect("it exists").state;
    match (state(SESSION), state(&uri::default_chat(SESSION))) {
        (State::Session(session), State::Chat(head, _, _)) => ((*session).clone(), (*head).clone()),
        other => panic!("{other:?}"),
    }
}

fn problem(session: &SessionState, chat: &ChatState) -> String {
    let violation = check(SESSION, session, &[(chat, &[])]).expect_err("it is wrong");
    violation.to_string()
}

#[test]
fn a_correct_session_passes() {
    let (session, chat) = asking();
    check(SESSION, &session, &[(&chat, &[])]).expect("nothing is wrong");
}

#[test]
fn ses18_a_wait_that_is_missing_over_doubled_or_without_an_id_is_noticed() {
    let (session, chat) = asking();
    let mut missing = session.clone();
    missing.input_needed = None;
    assert!(problem(&missing, &chat).contains("lacks"));
    let mut doubled = session.clone();
    let waits = doubled.input_needed.as_mut().expect("it waits");
    waits.extend(waits.clone());
    assert!(problem(&doubled, &chat).contains("an id of its own"));
    let mut nameless = session.clone();
    match nameless.input_needed.as_mut().expect("it waits").first_mut() {
        Some(ahp_types::state::SessionInputRequest::ChatInput(wait)) => wait.id.clear(),
        other => panic!("{other:?}"),
    }
    assert!(problem(&nameless, &chat).contains("an id of its own"));
    let (mut over, mut answered) = (session, chat);
    answered.active_turn = None;
    answered.status = SessionStatus::Idle.bits();
    over.chats[0].status = answered.status;
    assert!(problem(&over, &answered).contains("no chat waits for that"));
}

#[test]
fn ses14_ses15_ses20_a_wrong_status_is_detected_on_chat_list_and_session() {
    let (session, chat) = asking();
    let working = SessionStatus::InProgress.bits();
    let mut wrong = session.clone();
    wrong.status = working;
    assert!(problem(&wrong, &chat).contains("SES-15"));
    let mut wrong = session.clone();
    wrong.chats[0].status = working;
    assert!(problem(&wrong, &chat).contains("SES-14"));
    let mut wrong_chat = chat.clone();
    wrong_chat.status = working;
    assert!(problem(&session, &wrong_chat).contains("has the status"));
    let mut without = session.clone();
    without.chats.clear();
    assert!(problem(&without, &chat).contains("not in the catalogue"));
}
