//! Chats move within and between sessions (CHT-16 to CHT-20).

use innkeeper_core::request::MoveDestination;
use innkeeper_core::{
    AgentCommand, AgentEvent, AgentProfile, BlobCommand, Command, ConnId, CoreConfig, Effect, Seq, TurnEnd,
};
use serde_json::{Value, json};

use crate::harness::*;

const OTHER: &str = "ahp-session:/two";
const CHAT: &str = "ahp-chat:/second";
const THIRD: &str = "ahp-chat:/third";

fn to(session: &str, after: Option<&str>) -> MoveDestination {
    MoveDestination::Session {
        session: session.to_owned(),
        after: after.map(str::to_owned),
    }
}

/// Two sessions in the same directory, the first with two more chats.
fn stage() -> (Stage, ConnId, String) {
    with(Stage::able(CoreConfig::default()))
}

fn with(mut stage: Stage) -> (Stage, ConnId, String) {
    let conn = stage.client("c", &[ROOT]);
    for session in [SESSION, OTHER] {
        add_session(&mut stage, conn, session, &["file:///a"]);
        stage.keep_session(conn, session);
        stage.subscribe(conn, session);
    }
    for chat in [CHAT, THIRD] {
        let answer = stage.create_chat(conn, new_chat(SESSION, chat));
        assert_eq!(answer["result"], Value::Null, "{answer}");
    }
    stage.subscribe(conn, CHAT);
    stage.pass(1000);
    stage.inbox(conn);
    (stage, conn, innkeeper_core::uri::default_chat(SESSION))
}

fn add_session(stage: &mut Stage, conn: ConnId, uri: &str, directories: &[&str]) {
    let mut create = new_session(uri);
    create.working_directories = directories.iter().map(|&directory| directory.to_owned()).collect();
    let answer = stage.request(conn, Command::CreateSession(Box::new(create)));
    assert_eq!(answer["result"], Value::Null, "{answer}");
    stage.opened(Ok(()));
}

/// Every action since the last call, as channel and type.
fn told(stage: &mut Stage, conn: ConnId) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    stage
        .actions(conn)
        .iter()
        .map(|envelope| (text(&envelope["channel"]), text(&envelope["action"]["type"])))
        .collect()
}

/// (E-48)
#[test]
fn cht16_everything_is_checked_before_anything_happens() {
    let (mut stage, conn, default) = stage();
    let other_default = innkeeper_core::uri::default_chat(OTHER);
    let cases = [
        ("ahp-chat:/none", to(OTHER, None), -32001),
        (SESSION, to(OTHER, None), -32001),
        (&default, to(OTHER, None), -32011),
        (&default, MoveDestination::NewSession, -32011),
        (CHAT, to("ahp-session:/none", None), -32001),
        (CHAT, to(&default, None), -32001),
        (CHAT, to(SESSION, Some(CHAT)), -32602),
        (CHAT, to(SESSION, Some(&other_default)), -32602),
        (CHAT, to(OTHER, Some(&default)), -32602),
        (CHAT, to(OTHER, Some("ahp-chat:/none")), -32602),
    ];
    let before = (stage.core.seq(), stage.state(SESSION), stage.state(OTHER));
    for (chat, destination, code) in cases {
        let answer = stage.move_chat(conn, chat, destination.clone());
        assert_eq!(error(&answer).0, code, "{chat} {destination:?}: {answer}");
    }
    assert_eq!((stage.core.seq(), stage.state(SESSION), stage.state(OTHER)), before);
}

/// (E-38)
#[test]
fn cht17_within_a_session_only_the_order_changes() {
    let (mut stage, conn, default) = stage();
    let answer = stage.move_chat(conn, THIRD, to(SESSION, Some(&default)));
    assert_eq!(answer["result"], json!({ "session": SESSION }));
    assert_eq!(
        told(&mut stage, conn),
        [(SESSION.to_owned(), "session/chatsReordered".to_owned())]
    );
    assert_eq!(stage.catalogue(SESSION), [default.as_str(), THIRD, CHAT]);
    stage.move_chat(conn, THIRD, to(SESSION, None));
    assert_eq!(stage.catalogue(SESSION), [THIRD, default.as_str(), CHAT]);
    stage.inbox(conn);
    let answer = stage.move_chat(conn, THIRD, to(SESSION, None));
    assert_eq!(answer["result"]["session"], SESSION);
    assert!(told(&mut stage, conn).is_empty(), "it is there already");
    // The session's own chat is not the first one any more, and is still its own.
    assert_eq!(error(&stage.dispose_chat(conn, &default)).0, -32011);
    stage.turn(conn, &default, "t", "x");
    assert_eq!(stage.state(&default)["title"], "hi");
    assert_eq!(stage.state(THIRD)["title"], "New chat");
}

/// (CHT-17)
#[test]
fn cht18_a_chat_moves_with_its_subagents_and_subscribers() {
    let (mut stage, conn, _) = stage();
    stage.start_turn(conn, CHAT, "t");
    let run = stage.run();
    stage.runs_tool(run, "call");
    let subagent = stage.spawns(run, "call", true).expect("a subagent");
    let answer = stage.move_chat(conn, CHAT, to(OTHER, None));
    assert_eq!(error(&answer).0, -32004, "a turn is running (ERR-04)");
    stage.ends_in(run, TurnEnd::Complete);
    let answer = stage.move_chat(conn, CHAT, to(OTHER, None));
    assert_eq!(error(&answer).0, -32004, "its subagent is running");
    stage.ends_in((subagent.chat, subagent.turn), TurnEnd::Complete);
    let before = (stage.state(CHAT), stage.state(&subagent.chat_uri));
    stage.inbox(conn);
    let opened = stage.agent.len();
    let other_default = innkeeper_core::uri::default_chat(OTHER);
    let answer = stage.move_chat(conn, CHAT, to(OTHER, None));
    assert_eq!(answer["result"], json!({ "session": OTHER }));
    let expected = [
        (SESSION, "session/chatRemoved"),
        (SESSION, "session/chatRemoved"),
        (OTHER, "session/chatAdded"),
        (OTHER, "session/chatAdded"),
        (OTHER, "session/chatsReordered"),
    ];
    let expected = expected.map(|(channel, action)| (channel.to_owned(), action.to_owned()));
    assert_eq!(told(&mut stage, conn), expected);
    assert_eq!(
        stage.catalogue(OTHER),
        [CHAT, &subagent.chat_uri, other_default.as_str()]
    );
    assert_eq!(stage.catalogue(SESSION).len(), 2);
    assert_eq!((stage.state(CHAT), stage.state(&subagent.chat_uri)), before);
    // Same directories, same back end; but the blobs of the chats belong to another session from now on (RES-03).
    let [Effect::Blobs(BlobCommand::CopyForMovedChats(moved))] = &stage.agent[opened..] else {
        panic!("{:?}", &stage.agent[opened..]);
    };
    assert_eq!((&*moved.from, &*moved.to), (SESSION, OTHER));
    let chats: Vec<&str> = moved.chats.iter().map(|chat| &*chat.uri).collect();
    assert_eq!(chats, [CHAT, &*subagent.chat_uri]);
    assert!(
        moved
            .chats
            .iter()
            .all(|chat| chat.stored == 0 && !chat.recent.is_empty())
    );
    stage.pass(1000);
    let summaries = stage.notifications(conn);
    assert_eq!(summaries.len(), 2, "both sessions: {summaries:?}");
    // A subscriber of the chat stays one, and its changes show on its new session.
    stage.start_turn(conn, CHAT, "again");
    stage.says(AgentEvent::Text("here".into()));
    let actions = told(&mut stage, conn);
    assert!(
        actions.contains(&(CHAT.to_owned(), "chat/delta".to_owned())),
        "{actions:?}"
    );
    assert_eq!(stage.state(OTHER)["status"].as_u64().map(|bits| bits & 31), Some(8));
    assert_eq!(stage.state(SESSION)["status"].as_u64().map(|bits| bits & 31), Some(1));
}

#[test]
fn cht18_after_an_anchor_in_the_other_session() {
    let (mut stage, conn, _) = stage();
    let other_default = innkeeper_core::uri::default_chat(OTHER);
    stage.move_chat(conn, CHAT, to(OTHER, Some(&other_default)));
    stage.move_chat(conn, THIRD, to(OTHER, Some(&other_default)));
    assert_eq!(stage.catalogue(OTHER), [other_default.as_str(), THIRD, CHAT]);
}

/// (SES-11, ROOT-12, E-35)
#[test]
fn cht19_a_session_of_its_own_makes_it_the_default_chat() {
    let (mut stage, conn, _) = stage();
    stage.turn(conn, CHAT, "t", "x");
    stage.pass(1000);
    stage.inbox(conn);
    let answer = stage.move_chat(conn, CHAT, MoveDestination::NewSession);
    let session = answer["result"]["session"].as_str().expect("a session").to_owned();
    assert!(session.starts_with("ahp-session:/"), "{session}");
    let inbox = stage.inbox(conn);
    let added = inbox.iter().find(|message| message["method"] == "root/sessionAdded");
    let summary = &added.expect("an announcement")["params"]["summary"];
    assert_eq!(summary["resource"], session);
    assert_eq!(summary["defaultChat"], CHAT);
    assert_eq!(summary["chats"].as_array().map(Vec::len), Some(1));
    let types: Vec<_> = inbox
        .iter()
        .map(|message| message["params"]["action"]["type"].as_str().unwrap_or("-"))
        .collect();
    assert!(types.contains(&"chat/movableChanged"), "{types:?}");
    assert!(types.contains(&"session/chatRemoved"), "{types:?}");
    assert!(types.contains(&"root/activeSessionsChanged"), "{types:?}");
    let state = stage.state(&session);
    assert_eq!(state["lifecycle"], "ready");
    assert_eq!(state["provider"], "tour");
    assert_eq!(state["defaultChat"], CHAT);
    assert_eq!(state["workingDirectories"], json!(["file:///a"]));
    assert_eq!(state["config"], stage.state(SESSION)["config"]);
    assert_eq!(state["title"], "hi", "named after the chat");
    assert_eq!(state["chats"][0]["movable"], false);
    assert_eq!(stage.state(CHAT)["movable"], false);
    assert_eq!(stage.state(CHAT)["turns"].as_array().map(Vec::len), Some(1));
    assert_eq!(stage.state(ROOT)["activeSessions"], 3);
    // It is a session like any other.
    assert_eq!(
        error(&stage.move_chat(conn, CHAT, MoveDestination::NewSession)).0,
        -32011
    );
    stage.turn(conn, CHAT, "u", "y");
    assert_eq!(stage.state(CHAT)["turns"].as_array().map(Vec::len), Some(2));
    assert_eq!(stage.dispose(conn, &session)["result"], Value::Null);
}

#[test]
fn cht19_a_refused_move_leaves_everything_untouched() {
    let (mut stage, conn, _) = with(Stage::able(CoreConfig {
        max_sessions: 2,
        ..CoreConfig::default()
    }));
    let before = (stage.core.seq(), stage.state(SESSION), stage.state(CHAT));
    let answer = stage.move_chat(conn, CHAT, MoveDestination::NewSession);
    assert_eq!(error(&answer).0, -32011);
    assert_eq!((stage.core.seq(), stage.state(SESSION), stage.state(CHAT)), before);
}

#[test]
fn cht20_other_agents_sessions_that_are_not_up_and_full_ones_are_refused() {
    let (mut stage, conn, _) = with(Stage::able(CoreConfig {
        max_chats: 3,
        ..CoreConfig::default()
    }));
    let foreign = "ahp-session:/foreign";
    let mut create = new_session(foreign);
    create.provider = Some("other".to_owned());
    stage.request(conn, Command::CreateSession(Box::new(create)));
    stage.opened(Ok(()));
    let starting = "ahp-session:/starting";
    stage.create(conn, starting);
    let full = "ahp-session:/full";
    add_session(&mut stage, conn, full, &["file:///a"]);
    for n in 0..2 {
        stage.create_chat(conn, new_chat(full, &format!("ahp-chat:/full-{n}")));
    }
    for (session, word) in [(foreign, "agent"), (starting, "still starting"), (full, "at most 3")] {
        let answer = stage.move_chat(conn, CHAT, to(session, None));
        assert_eq!(error(&answer).0, -32011, "{session}");
        assert!(error(&answer).1.contains(word), "{answer}");
    }
}

#[test]
fn cht20_a_chat_stays_while_its_session_comes_up() {
    let (mut stage, conn, _) = stage();
    let starting = "ahp-session:/starting";
    stage.create(conn, starting);
    let waiting = "ahp-chat:/waiting";
    let mut create = new_chat(starting, waiting);
    create.initial_message = Some(serde_json::from_value(message("later")).expect("a message"));
    stage.create_chat(conn, create);
    for destination in [to(OTHER, None), MoveDestination::NewSession] {
        let answer = stage.move_chat(conn, waiting, destination);
        assert_eq!(error(&answer).0, -32011, "its message would wait for ever: {answer}");
    }
}

/// (CHT-09)
#[test]
fn cht20_directories_go_along_or_the_chat_stays() {
    let (mut stage, conn, _) = stage();
    let elsewhere = "ahp-session:/elsewhere";
    add_session(&mut stage, conn, elsewhere, &["file:///z"]);
    let bound = "ahp-chat:/bound";
    let mut create = new_chat(SESSION, bound);
    create.working_directories = Some(vec!["file:///a".to_owned()]);
    stage.create_chat(conn, create);
    let answer = stage.move_chat(conn, bound, to(elsewhere, None));
    assert_eq!(error(&answer).0, -32011);
    assert!(error(&answer).1.contains("file:///a"), "{answer}");
    // A chat without directories of its own works in those of its session, with a new back end.
    stage.turn(conn, CHAT, "t", "x");
    let answer = stage.move_chat(conn, CHAT, to(elsewhere, None));
    assert_eq!(answer["result"]["session"], elsewhere);
    assert!(matches!(
        stage.agent.last(),
        Some(Effect::Agent(AgentCommand::OpenChat(_)))
    ));
    let open = stage.last_opened();
    assert_eq!(&*open.info.chat, CHAT);
    assert_eq!(open.info.working_directories, ["file:///z"]);
    assert_eq!(open.history.recent.len(), 1);
}

#[test]
fn cht20_an_agent_that_forgets_does_not_take_a_conversation_elsewhere() {
    let forgetful = AgentProfile {
        restores_history: false,
        ..able("tour")
    };
    let (mut stage, conn, _) = with(Stage::with_agents(CoreConfig::default(), vec![forgetful], Seq(1)));
    let elsewhere = "ahp-session:/elsewhere";
    add_session(&mut stage, conn, elsewhere, &["file:///z"]);
    stage.turn(conn, CHAT, "t", "x");
    assert_eq!(error(&stage.move_chat(conn, CHAT, to(elsewhere, None))).0, -32011);
    assert_eq!(
        stage.move_chat(conn, THIRD, to(elsewhere, None))["result"]["session"],
        elsewhere,
        "nothing was said in it"
    );
}

#[test]
fn cht19_lesson_42_approvals_of_a_session_do_not_move_with_a_chat() {
    let (mut stage, conn, _) = stage();
    let allow = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove", "approvedTools": ["run_command(rm x)"] } });
    stage.accepted(conn, SESSION, allow);
    let answer = stage.move_chat(conn, CHAT, MoveDestination::NewSession);
    let session = answer["result"]["session"].as_str().expect("a session").to_owned();
    let values = stage.state(&session)["config"]["values"].clone();
    assert_eq!(
        (&values["autoApprove"], &values["approvedTools"]),
        (&json!("default"), &json!([]))
    );
}
