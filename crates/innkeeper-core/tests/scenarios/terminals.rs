//! The list of terminals: dead terminals never block new ones, and no terminal outlives what it belongs to.

use innkeeper_core::request::RequestId;
use innkeeper_core::terminal::{
    AgentCommandStart, CreateTerminal, PtyCommand, PtyId, StartedTerminal, TerminalCommand, TerminalEvent,
    TerminalInput, TerminalSize,
};
use innkeeper_core::{AgentCommand, ChannelId, Command, ConnId, CoreConfig, Effect, Input};
use serde_json::{Value, json};

use crate::harness::{PersistedState, ROOT, SESSION, Stage, error};

/// The number of terminals that a host lists at most.
const MOST: usize = 256;

fn config() -> CoreConfig {
    CoreConfig {
        serves_terminals: true,
        ..CoreConfig::default()
    }
}

/// A host with a store, and a client.
fn stage() -> (Stage, ConnId) {
    let mut stage = Stage::opening(PersistedState::default(), config());
    let conn = stage.client("c", &[ROOT]);
    (stage, conn)
}

fn uri(number: usize) -> String {
    format!("ahp-terminal:/{number}")
}

/// The claim of the client itself.
fn own() -> Value {
    json!({ "kind": "client", "clientId": "c" })
}

fn session_claim(chat: &str) -> Value {
    json!({ "kind": "session", "session": SESSION, "chat": chat })
}

/// Sends a request about a terminal that is not in memory, and answers that there is no record of it.
fn ask(stage: &mut Stage, conn: ConnId, id: u64, command: TerminalCommand) {
    let (id, command) = (RequestId::number(id), command.into());
    stage.handle(Input::Request { conn, id, command });
    let recalled = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Terminals(PtyCommand::Recall { uri }) => Some(uri.clone()),
        _ => None,
    });
    if let Some(uri) = recalled {
        stage
            .agent
            .retain(|effect| !matches!(effect, Effect::Terminals(PtyCommand::Recall { .. })));
        stage.handle(TerminalInput::Recalled { uri, state: None }.into());
    }
}

/// The answer to a request, if it was given.
fn answer(stage: &mut Stage, conn: ConnId, id: u64) -> Option<Value> {
    stage.inbox(conn).into_iter().find(|message| message["id"] == id)
}

fn create(uri: &str, claim: Value) -> TerminalCommand {
    TerminalCommand::Create(Box::new(CreateTerminal {
        channel: uri.to_owned(),
        claim: serde_json::from_value(claim).expect("a claim"),
        name: None,
        cwd: None,
        size: None,
    }))
}

fn dispose(uri: &str) -> TerminalCommand {
    let channel = uri.to_owned();
    TerminalCommand::Dispose { channel }
}

/// The process that was asked for last.
fn opening(stage: &Stage) -> PtyId {
    let opened = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Terminals(PtyCommand::Open { pty, .. }) => Some(*pty),
        _ => None,
    });
    opened.expect("a process is started")
}

fn start(stage: &mut Stage, pty: PtyId) {
    let started = StartedTerminal {
        title: "sh".to_owned(),
        directory: None,
        is_pty: true,
    };
    let outcome = Ok(started);
    stage.handle(TerminalInput::Opened { pty, outcome }.into());
}

/// Creates a terminal, whose process runs.
fn running(stage: &mut Stage, conn: ConnId, uri: &str) -> PtyId {
    ask(stage, conn, 9000, create(uri, own()));
    let pty = opening(stage);
    start(stage, pty);
    let answer = answer(stage, conn, 9000).expect("answered");
    assert_eq!(answer["result"], Value::Null, "{answer}");
    pty
}

fn exit(stage: &mut Stage, pty: PtyId) {
    let events = vec![TerminalEvent::Exited { exit_code: Some(0) }];
    stage.handle(TerminalInput::Output { pty, events }.into());
}

fn listed(stage: &Stage) -> Vec<String> {
    let root = stage.state(ROOT);
    let terminals = root["terminals"].as_array().cloned().unwrap_or_default();
    let uris = terminals
        .iter()
        .map(|info| info["resource"].as_str().unwrap_or_default().to_owned());
    uris.collect()
}

/// The records that were removed.
fn forgotten(stage: &Stage) -> Vec<String> {
    let forgotten = stage.agent.iter().filter_map(|effect| match effect {
        Effect::Terminals(PtyCommand::Forget { uri }) => Some(uri.to_string()),
        _ => None,
    });
    forgotten.collect()
}

fn is_closed(stage: &Stage, pty: PtyId) -> bool {
    let closes =
        |effect: &Effect| matches!(effect, Effect::Terminals(PtyCommand::Close { pty: closed }) if *closed == pty);
    stage.agent.iter().any(closes)
}

/// A client after a restart of a host that had two terminals.
fn restarted() -> (Stage, ConnId) {
    let (mut stage, conn) = stage();
    for number in 0..2 {
        let pty = running(&mut stage, conn, &uri(number));
        exit(&mut stage, pty);
    }
    let mut stage = stage.restart(config());
    let conn = stage.client("c", &[ROOT]);
    assert_eq!(listed(&stage), [uri(0), uri(1)]);
    (stage, conn)
}

#[test]
fn trm17_a_terminal_without_a_record_leaves_the_list_when_it_is_opened() {
    let (mut stage, conn) = restarted();
    let (id, channel) = (RequestId::number(9001), uri(0));
    let subscribe = innkeeper_core::request::Subscribe {
        channel,
        max_latency_ms: None,
        turns: None,
    };
    let command = Command::Subscribe(Box::new(subscribe));
    stage.handle(Input::Request { conn, id, command });
    let uri_asked = uri(0).into();
    stage.handle(
        TerminalInput::Recalled {
            uri: uri_asked,
            state: None,
        }
        .into(),
    );
    let answer = answer(&mut stage, conn, 9001).expect("answered");
    assert_eq!(error(&answer).0, -32008, "{answer}");
    assert_eq!(listed(&stage), [uri(1)]);
}

#[test]
fn trm02_a_terminal_without_a_record_can_be_disposed_of_by_its_holder() {
    let (mut stage, conn) = restarted();
    ask(&mut stage, conn, 9001, dispose(&uri(1)));
    let answer_to_first = answer(&mut stage, conn, 9001).expect("answered");
    assert_eq!(answer_to_first["result"], Value::Null, "{answer_to_first}");
    assert!(answer_to_first.get("error").is_none(), "{answer_to_first}");
    assert_eq!(listed(&stage), [uri(0)]);
    ask(&mut stage, conn, 9002, dispose(&uri(1)));
    let again = answer(&mut stage, conn, 9002).expect("answered");
    assert_eq!(error(&again).0, -32008, "{again}");
}

#[test]
fn the_oldest_ended_terminal_makes_room_at_the_limit() {
    let (mut stage, conn) = restarted();
    let ptys: Vec<PtyId> = (2..MOST)
        .map(|number| running(&mut stage, conn, &uri(number)))
        .collect();
    assert_eq!(listed(&stage).len(), MOST);
    // Those of an earlier run come first.
    running(&mut stage, conn, &uri(MOST));
    running(&mut stage, conn, &uri(MOST + 1));
    assert_eq!(forgotten(&stage), [uri(0), uri(1)]);
    // No terminal that runs is ended for another one.
    ask(&mut stage, conn, 9001, create("ahp-terminal:/more", own()));
    let refused = answer(&mut stage, conn, 9001).expect("answered");
    assert_eq!(error(&refused).0, -32011, "{refused}");
    assert!(error(&refused).1.contains("runs 256 terminals"), "{refused}");
    // Nor one that a client looks at.
    stage.subscribe(conn, &uri(2));
    exit(&mut stage, ptys[0]);
    exit(&mut stage, ptys[3]);
    running(&mut stage, conn, "ahp-terminal:/more");
    assert_eq!(forgotten(&stage), [uri(0), uri(1), uri(5)]);
    assert_eq!(listed(&stage).len(), MOST);
    assert!(listed(&stage).contains(&uri(2)));
}

#[test]
fn commands_of_agents_run_in_terminals_however_many_have_ended() {
    let (mut stage, conn) = stage();
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    let (chat, _) = stage.run();
    for number in 0..MOST {
        let pty = running(&mut stage, conn, &uri(number));
        exit(&mut stage, pty);
    }
    stage.handle(agent_command(chat));
    let pty = opening(&stage);
    start(&mut stage, pty);
    assert!(
        stage
            .agent
            .iter()
            .any(|effect| matches!(effect, Effect::Terminals(PtyCommand::Show { number: 7, .. })))
    );
    assert_eq!(forgotten(&stage), [uri(0)]);
}

fn agent_command(chat: ChannelId) -> Input {
    let start = AgentCommandStart {
        number: 7,
        chat,
        call: "call".to_owned(),
        line: "make".to_owned(),
        size: TerminalSize::default(),
    };
    TerminalInput::AgentCommand(start).into()
}

#[test]
fn a_session_that_is_deleted_while_its_shell_starts_leaves_no_terminal() {
    let (mut stage, conn) = stage();
    let chat = stage.session(conn, SESSION);
    ask(&mut stage, conn, 9001, create(&uri(0), session_claim(&chat)));
    let pty = opening(&stage);
    stage.dispose(conn, SESSION);
    start(&mut stage, pty);
    let refused = answer(&mut stage, conn, 9001).expect("answered");
    assert!(error(&refused).1.contains("there is no session"), "{refused}");
    assert!(is_closed(&stage, pty));
    assert_eq!(listed(&stage), Vec::<String>::new());
    // Its output may still be on its way.
    let events = vec![TerminalEvent::Data("$ ".to_owned())];
    stage.handle(TerminalInput::Output { pty, events }.into());
}

#[test]
fn an_agent_whose_session_is_deleted_while_its_command_starts_is_refused() {
    let (mut stage, conn) = stage();
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    let (chat, _) = stage.run();
    stage.handle(agent_command(chat));
    let pty = opening(&stage);
    stage.dispose(conn, SESSION);
    start(&mut stage, pty);
    assert!(is_closed(&stage, pty));
    let is_refused = |effect: &Effect| matches!(effect, Effect::Terminals(PtyCommand::Refuse { number: 7 }));
    assert!(stage.agent.iter().any(is_refused));
    assert!(
        stage
            .agent
            .iter()
            .any(|effect| matches!(effect, Effect::Agent(AgentCommand::CloseChat { .. })))
    );
}
