//! Sessions come and go (SES).

use innkeeper_core::request::Initialize;
use innkeeper_core::{AgentCommand, ClientId, Command, Effect, Failure, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn ses01_a_uri_is_taken_while_creating_when_ready_and_after_a_failure() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.create(conn, SESSION);
    assert_eq!(error(&stage.create(conn, SESSION)).0, -32003, "while creating");
    stage.opened(Err(Failure::new("noAgent", "it did not start")));
    let answer = stage.create(conn, SESSION);
    assert_eq!(error(&answer).0, -32003, "after a failure");
    assert!(error(&answer).1.contains(SESSION), "{answer}");
    stage.dispose(conn, SESSION);
    assert_eq!(
        stage.create(conn, SESSION)["result"],
        Value::Null,
        "after disposal it is free"
    );
}

#[test]
fn ses01_uris_that_cannot_name_a_session_are_refused_by_field() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    for bad in [
        "",
        "no-scheme",
        "ahp-chat:/x",
        "ahp-root://",
        "a b:/c",
        "ahp-session:/x/annotations",
    ] {
        let answer = stage.create(conn, bad);
        assert_eq!(error(&answer).0, -32602, "{bad:?}");
        assert!(error(&answer).1.starts_with("params.channel: "), "{answer}");
    }
}

#[test]
fn ses02_e55_the_answer_does_not_wait_for_the_back_end() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    assert_eq!(stage.create(conn, SESSION)["result"], Value::Null);
    assert_eq!(stage.state(SESSION)["lifecycle"], "creating");
    stage.subscribe(conn, SESSION);
    stage.opened(Err(Failure::new("noAgent", "it did not start")));
    let failed = stage.actions(conn).remove(0);
    assert_eq!(failed["action"]["type"], "session/creationFailed");
    assert_eq!(failed["action"]["error"]["message"], "it did not start");
    assert_eq!(stage.state(SESSION)["lifecycle"], "failed");
    stage.opened(Ok(()));
    assert_eq!(
        stage.inbox(conn),
        Vec::<Value>::new(),
        "a second answer of the back end is ignored"
    );
}

#[test]
fn ses03_ses33_root_subscribers_hear_of_creation_and_disposal() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let watcher = stage.client("watcher", &[ROOT]);
    stage.listed_session(conn, SESSION);
    let heard = stage.inbox(watcher);
    assert_eq!(heard[0]["method"], "root/sessionAdded");
    assert_eq!(heard[0]["params"]["summary"]["resource"], SESSION);
    assert_eq!(
        heard[1]["params"]["action"],
        json!({ "type": "root/activeSessionsChanged", "activeSessions": 1 })
    );
    stage.dispose(conn, SESSION);
    let heard = stage.inbox(watcher);
    assert_eq!(heard[0]["method"], "root/sessionRemoved");
    assert_eq!(heard[0]["params"], json!({ "channel": ROOT, "session": SESSION }));
    assert_eq!(heard[1]["params"]["action"]["activeSessions"], 0);
}

#[test]
fn ses04_the_provider_is_the_named_one_or_the_first() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let mut wanted = new_session(SESSION);
    wanted.provider = Some("unknown".into());
    let answer = stage.request(conn, Command::CreateSession(Box::new(wanted.clone())));
    assert_eq!(error(&answer).0, -32002);
    assert!(
        error(&answer).1.contains("\"unknown\"") && error(&answer).1.contains("tour, other"),
        "{answer}"
    );
    wanted.provider = Some("other".into());
    stage.request(conn, Command::CreateSession(Box::new(wanted)));
    assert_eq!(stage.state(SESSION)["provider"], "other");
    stage.create(conn, "ahp-session:/two");
    assert_eq!(stage.state("ahp-session:/two")["provider"], "tour");
}

#[test]
fn ses06_only_the_first_directory_counts_without_the_capability() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let mut wanted = new_session(SESSION);
    wanted.working_directories = vec!["file:///a".into(), "file:///b".into()];
    stage.request(conn, Command::CreateSession(Box::new(wanted.clone())));
    assert_eq!(stage.state(SESSION)["workingDirectories"], json!(["file:///a"]));
    wanted.channel = "ahp-session:/two".into();
    for elsewhere in ["https://example.com/a", "vscode-vfs://github/a/b"] {
        wanted.working_directories = vec!["file:///a".into(), elsewhere.into()];
        let answer = stage.request(conn, Command::CreateSession(Box::new(wanted.clone())));
        let (code, message) = error(&answer);
        assert_eq!(code, -32602);
        assert!(
            message.starts_with("params.workingDirectories[1]: must be a directory of the host"),
            "{message}"
        );
    }
    wanted.working_directories = vec!["file:///a".into(), "not a uri".into()];
    let answer = stage.request(conn, Command::CreateSession(Box::new(wanted)));
    assert_eq!(error(&answer).0, -32602);
    assert!(
        error(&answer).1.starts_with("params.workingDirectories[1]: "),
        "{answer}"
    );
}

#[test]
fn ses07_the_creator_may_join_at_once_but_only_as_itself() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let mut wanted = new_session(SESSION);
    let active = json!({ "clientId": "another", "tools": [] });
    wanted.active_client = Some(serde_json::from_value(active).unwrap());
    let answer = stage.request(conn, Command::CreateSession(Box::new(wanted.clone())));
    assert_eq!(error(&answer).0, -32602);
    assert!(
        error(&answer).1.starts_with("params.activeClient.clientId: "),
        "{answer}"
    );
    wanted.active_client.as_mut().unwrap().client_id = "c".into();
    stage.request(conn, Command::CreateSession(Box::new(wanted)));
    assert_eq!(stage.state(SESSION)["activeClients"][0]["clientId"], "c");
}

#[test]
fn ses08_ses10_e49_a_new_session_has_its_fields_and_a_default_chat() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.create(conn, "copilot:/1");
    let state = stage.state("copilot:/1");
    for field in ["provider", "title", "status", "lifecycle", "activeClients", "chats"] {
        assert!(state.get(field).is_some(), "{field}");
    }
    assert!(state.get("createdAt").is_none() && state.get("modifiedAt").is_none());
    let chat = "ahp-chat://default/Y29waWxvdDovMQ";
    assert_eq!(state["defaultChat"], chat);
    assert_eq!(state["chats"][0]["resource"], chat);
    assert_eq!(stage.state(chat)["resource"], chat);
    assert_ne!(stage.state(chat)["movable"], true, "SES-11");
}

#[test]
fn ses09_turn22_turns_start_only_when_the_session_is_ready() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.create(conn, SESSION);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.start_turn(conn, &chat, "t");
    assert!(
        stage.actions(conn)[0]["rejectionReason"]
            .as_str()
            .unwrap()
            .contains("wait for session/ready")
    );
    stage.opened(Ok(()));
    stage.start_turn(conn, &chat, "t");
    assert_eq!(stage.state(&chat)["activeTurn"]["id"], "t");
}

#[test]
fn pend03_a_message_queued_while_the_session_starts_runs_when_it_is_ready() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.create(conn, SESSION);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": message("early") });
    stage.dispatch(conn, &chat, 1, queued);
    assert!(stage.state(&chat).get("activeTurn").is_none());
    stage.opened(Ok(()));
    assert_eq!(stage.state(&chat)["activeTurn"]["message"]["text"], "early");
}

#[test]
fn ses27_ses30_disposal_ends_the_turn_and_the_chat_and_answers_null() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.agent.clear();
    assert_eq!(stage.dispose(conn, SESSION)["result"], Value::Null);
    assert!(
        matches!(
            stage.agent[..],
            [
                Effect::Agent(AgentCommand::CancelTurn { .. }),
                Effect::Agent(AgentCommand::CloseChat { .. }),
                Effect::Erase(_)
            ]
        ),
        "{:?}",
        stage.agent
    );
    assert!(stage.core.snapshot(SESSION).is_none() && stage.core.snapshot(&chat).is_none());
    for gone in [SESSION, &chat, ROOT] {
        assert_eq!(error(&stage.dispose(conn, gone)).0, -32001, "{gone}");
    }
}

#[test]
fn act09_act14_membership_ends_with_the_last_subscription_of_the_client() {
    let mut stage = Stage::new();
    let one = stage.client("twin", &[]);
    stage.session(one, SESSION);
    stage.subscribe(one, SESSION);
    let two = stage.client("twin", &[SESSION]);
    stage.dispatch(one, SESSION, 1, announce("twin"));
    stage.unsubscribe(one, SESSION);
    assert_eq!(
        stage.state(SESSION)["activeClients"].as_array().unwrap().len(),
        1,
        "ACT-14"
    );
    stage.unsubscribe(two, SESSION);
    assert_eq!(stage.state(SESSION)["activeClients"], json!([]), "ACT-09");
}

#[test]
fn root01_root02_root09_the_root_lists_agents_and_no_sessions() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    stage.listed_session(conn, SESSION);
    let root = stage.state(ROOT);
    for agent in root["agents"].as_array().expect("agents") {
        for field in ["provider", "displayName", "description", "models"] {
            assert!(agent.get(field).is_some(), "{field} of {agent}");
        }
    }
    serde_json::from_value::<ahp_types::state::RootState>(root.clone()).expect("decodes");
    assert!(
        !root.to_string().contains(SESSION),
        "sessions are no part of it: {root}"
    );
    assert!(
        stage
            .notifications(conn)
            .iter()
            .any(|note| note["method"] == "root/sessionAdded")
    );
    assert_eq!(stage.list(conn, None, None)["result"]["items"][0]["resource"], SESSION);
}

#[test]
fn lesson_31_a_host_without_its_agents_still_lists_its_sessions() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    let chat = stage.listed_session(conn, SESSION);
    let before = stage.list(conn, None, None)["result"].clone();
    stage.inbox(conn);
    stage.handle(innkeeper_core::Input::AgentsChanged(Vec::new()));
    stage.pass(1000);
    assert_eq!(stage.list(conn, None, None)["result"], before, "rows are kept");
    let removed = |note: &Value| note["method"] == "root/sessionRemoved";
    assert!(!stage.notifications(conn).iter().any(removed));
    assert_eq!(stage.state(&chat)["turns"], json!([]), "and can be opened");
}

#[test]
fn lesson_32_late_events_of_an_agent_do_not_revive_a_disposed_session() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    let (id, turn) = stage.run();
    stage.dispose(conn, SESSION);
    stage.pass(1000);
    stage.inbox(conn);
    let before = stage.core.seq();
    stage.handle(innkeeper_core::Input::ChatOpened {
        chat: id,
        outcome: Ok(()),
    });
    stage.handle(innkeeper_core::Input::Agent {
        chat: id,
        turn,
        event: innkeeper_core::AgentEvent::Text("still here".into()),
    });
    stage.handle(innkeeper_core::Input::TurnEnded {
        chat: id,
        turn,
        end: TurnEnd::Complete,
    });
    stage.handle(innkeeper_core::Input::ChatLost { chat: id });
    stage.pass(120_000);
    assert_eq!(stage.core.seq(), before);
    assert!(stage.inbox(conn).is_empty());
    assert!(stage.core.snapshot(SESSION).is_none());
    assert_eq!(stage.list(conn, None, None)["result"]["items"], json!([]));
}

#[test]
fn lesson_30_every_client_can_delete_a_session_with_turns() {
    let mut stage = Stage::new();
    let conn = stage.connect();
    let initialize = Initialize {
        offer: innkeeper_core::request::Offer::List(vec!["1.0.0".to_owned()]),
        client_id: ClientId::new("reference"),
        initial_subscriptions: Vec::new(),
        client_name: Some("vscode-editor-window".to_owned()),
        mcp_apps: false,
        locale: None,
    };
    let answer = stage.request(conn, Command::Initialize(Box::new(initialize)));
    assert!(answer.get("error").is_none(), "{answer}");
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    assert_eq!(stage.dispose(conn, SESSION)["result"], Value::Null, "while a turn runs");
    assert!(stage.core.snapshot(SESSION).is_none());
    assert_eq!(
        stage.create(conn, SESSION)["result"],
        Value::Null,
        "without a store it is gone"
    );
}
