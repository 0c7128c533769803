//! Servers start, run, fail, and are started and stopped by users and by toggles.

use innkeeper_core::mcp::{ServerFacts, ServerIcon};
use innkeeper_core::request::MoveDestination;

use super::*;
use crate::customizations::in_session;

/// The kinds of the actions that a connection got.
fn kinds(told: &[Value]) -> Vec<String> {
    let kind = |action: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match action["type"].as_str() {
            Some("session/mcpServerStateChanged") => text(&action["state"]["kind"]),
            _ => text(&action["type"]),
        }
    };
    told.iter().map(kind).collect()
}

#[test]
fn mcp01_mcp02_a_discovered_server_is_started_and_followed() {
    let mut stage = Stage::able(config());
    let conn = stage.client("c", &[]);
    stage.session_in_workspace(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.found(SESSION, two_servers());
    let (_, wanted) = stage.wanted_servers().expect("servers are wanted");
    assert_eq!(&*wanted.session_uri, SESSION);
    assert_eq!(wanted.roots, [crate::customizations::WORKSPACE]);
    assert_eq!(stage.running(), ["top", "inner"]);
    assert_eq!(stage.state_of("top"), json!({ "kind": "starting", "blocking": true }));
    stage.inbox(conn);
    stage.does("top", ready());
    stage.does("inner", failed("it crashed; look at its log"));
    assert_eq!(
        stage.told(conn),
        [
            json!({ "type": "session/mcpServerStateChanged", "id": "top", "state": { "kind": "ready" } }),
            json!({
                "type": "session/mcpServerStateChanged", "id": "inner",
                "state": {
                    "kind": "error",
                    "error": { "errorType": "crashed", "message": "it crashed; look at its log" },
                },
            }),
        ]
    );
}

#[test]
fn mcp02_an_unchanged_status_is_not_published() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    stage.does("top", ServerStatus::Starting);
    assert_eq!(stage.told(conn), [] as [Value; 0], "it is known to be starting");
    stage.does("top", ready());
    stage.does("top", ready());
    assert_eq!(kinds(&stage.told(conn)), ["ready"]);
    stage.found(SESSION, two_servers());
    assert_eq!(stage.told(conn), [] as [Value; 0], "P19: it goes on running");
}

#[test]
fn mcp02_a_server_that_comes_back_by_itself_holds_nothing_back() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    stage.does("top", failed("it crashed"));
    stage.does("top", ServerStatus::Starting);
    assert_eq!(kinds(&stage.told(conn)), ["error", "starting"]);
    assert_eq!(stage.state_of("top"), json!({ "kind": "starting" }));
}

#[test]
fn mcp04_the_drive_scope_suffices_to_start_and_stop_servers() {
    let (mut stage, _, _) = Stage::serving(two_servers());
    let driver = crate::customizations::driver(&mut stage);
    stage.does("top", ready());
    let first = stage.attempt("top");
    stage.dispatch(driver, SESSION, 1, stop("top"));
    stage.dispatch(driver, SESSION, 2, start("top"));
    assert_eq!(stage.state_of("top")["kind"], "starting");
    assert_ne!(stage.attempt("top"), first);
}

#[test]
fn mcp04_a_user_stops_and_restarts_a_server() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    stage.does("top", ready());
    let first = stage.attempt("top");
    stage.inbox(conn);
    stage.dispatch(conn, SESSION, 1, stop("top"));
    assert_eq!(kinds(&stage.told(conn)), ["session/mcpServerStopRequested"]);
    assert_eq!(stage.state_of("top"), json!({ "kind": "stopped" }));
    assert_eq!(stage.running(), ["inner"]);
    stage.reports("top", first, ServerReport::Status(ready()));
    assert_eq!(
        stage.state_of("top"),
        json!({ "kind": "stopped" }),
        "a late report says nothing"
    );
    stage.found(SESSION, two_servers());
    assert_eq!(stage.running(), ["inner"], "looking again does not start it");
    stage.dispatch(conn, SESSION, 2, start("top"));
    assert_eq!(stage.running(), ["top", "inner"]);
    assert!(stage.attempt("top") > first);
    assert_eq!(
        stage.state_of("top"),
        json!({ "kind": "starting" }),
        "who starts one by hand does not wait for it"
    );
    stage.reports("top", first, ServerReport::Status(failed("it was killed")));
    assert_eq!(stage.state_of("top")["kind"], "starting", "that was the one before");
    stage.does("top", ready());
    assert_eq!(stage.state_of("top")["kind"], "ready");
}

#[test]
fn mcp04_starting_a_running_server_restarts_it_but_not_a_starting_one() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    let first = stage.attempt("top");
    stage.dispatch(conn, SESSION, 1, start("top"));
    assert_eq!(stage.attempt("top"), first, "it is on its way");
    stage.does("top", ready());
    stage.dispatch(conn, SESSION, 2, start("top"));
    assert!(stage.attempt("top") > first);
}

#[test]
fn mcp04_an_impossible_start_or_stop_is_rejected_by_name() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    for action in [start("unknown"), stop("unknown"), background("p")] {
        stage.dispatch(conn, SESSION, 1, action.clone());
        let refusal = stage.refusal(conn).expect("refused");
        let id = action["id"].as_str().expect("an id");
        assert_eq!(refusal, format!("id: this session has no MCP server {id:?}"));
    }
    stage.toggle(conn, SESSION, "p", json!([in_session(false)]));
    stage.inbox(conn);
    stage.dispatch(conn, SESSION, 2, start("inner"));
    let refusal = stage.refusal(conn).expect("refused");
    assert!(refusal.contains("\"inner\" or its plugin is disabled"), "{refusal}");
    let mut stage = Stage::finding();
    let conn = stage.client("c", &[]);
    stage.session_in_workspace(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.found(SESSION, two_servers());
    stage.inbox(conn);
    stage.dispatch(conn, SESSION, 1, start("top"));
    let refusal = stage.refusal(conn).expect("refused");
    assert!(refusal.contains("this host does not run MCP servers"), "{refusal}");
}

#[test]
fn cus18_switching_off_stops_and_switching_on_starts() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    stage.does("inner", ready());
    let first = stage.attempt("inner");
    stage.inbox(conn);
    stage.toggle(conn, SESSION, "p", json!([in_session(false)]));
    assert_eq!(kinds(&stage.told(conn)), ["session/customizationToggled", "stopped"]);
    assert_eq!(stage.running(), ["top"], "with its plugin (CUS-11)");
    stage.toggle(conn, SESSION, "p", json!([in_session(true)]));
    assert_eq!(kinds(&stage.told(conn)), ["session/customizationToggled", "starting"]);
    assert!(stage.attempt("inner") > first);
}

#[test]
fn cus18_a_disable_and_enable_starts_a_stopped_server() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    stage.dispatch(conn, SESSION, 1, stop("top"));
    stage.toggle(conn, SESSION, "top", json!([in_session(false)]));
    assert_eq!(stage.running(), ["inner"]);
    stage.toggle(conn, SESSION, "top", json!([in_session(true)]));
    assert_eq!(stage.running(), ["top", "inner"]);
}

#[test]
fn cus19_a_server_that_is_no_longer_there_is_let_go() {
    let (mut stage, _, _) = Stage::serving(two_servers());
    stage.found(SESSION, json!([server("top")]));
    assert_eq!(stage.running(), ["top"]);
    stage.found(SESSION, json!([]));
    assert_eq!(stage.running(), [] as [&str; 0]);
}

#[test]
fn mcp01_more_servers_than_a_session_may_run_say_so() {
    let config = CoreConfig {
        max_mcp_servers: 1,
        ..config()
    };
    let (mut stage, conn, _) = Stage::serving_with(config, two_servers());
    assert_eq!(stage.running(), ["top"]);
    let error = &stage.state_of("inner")["error"];
    assert_eq!(error["errorType"], "tooManyServers");
    stage.dispatch(conn, SESSION, 1, stop("top"));
    assert_eq!(stage.running(), ["inner"], "there is room now");
}

#[test]
fn mcp01_servers_go_with_their_session() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    stage.dispose(conn, SESSION);
    let forgotten = |effect: &Effect| matches!(effect, Effect::Mcp(McpCommand::ReleaseServers { .. }));
    assert!(stage.agent.iter().any(forgotten));
}

#[test]
fn mcp01_after_a_restart_servers_are_stopped_until_they_run_again() {
    let mut stage = Stage::opening(PersistedState::default(), config());
    let conn = stage.app_client("c", &[]);
    stage.session_in_workspace(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.found(SESSION, two_servers());
    let resource = Some("https://mcp.example".to_owned());
    let facts = ServerFacts {
        resource,
        tools: 3,
        ..ServerFacts::default()
    };
    stage.reports("top", stage.attempt("top"), ServerReport::Facts(facts));
    stage.does("top", ServerStatus::Ready { apps: Some(all_apps()) });
    let first = stage.attempt("top");
    assert!(stage.server("top")["channel"].is_string());
    let mut stage = stage.restart(config());
    let conn = stage.app_client("c", &[SESSION]);
    for id in ["top", "inner"] {
        assert_eq!(stage.state_of(id), json!({ "kind": "stopped" }));
        assert_eq!(stage.server(id)["channel"], Value::Null);
    }
    assert_eq!(
        stage.server("top")["_meta"],
        json!({ "innkeeper.tools": 3 }),
        "AUTH-05: its token was not kept"
    );
    stage.dispatch(conn, SESSION, 1, start("top"));
    let refusal = stage.refusal(conn).expect("refused");
    assert!(refusal.contains("still discovering"), "{refusal}");
    stage.found(SESSION, two_servers());
    assert_eq!(stage.running(), ["top", "inner"]);
    assert!(stage.attempt("top") > first, "no life repeats a channel");
    assert_eq!(
        stage.server("top")["mcpApp"],
        Value::Null,
        "MCP-15: its capabilities are not known yet"
    );
}

#[test]
fn mcp02_auth05_server_details_are_published_once_and_survive_a_rescan() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    let facts = |resource: Option<&str>, tools| {
        let resource = resource.map(str::to_owned);
        let icons = vec![ServerIcon {
            src: "data:image/png;base64,AAAA".to_owned(),
            sizes: vec!["48x48".to_owned()],
            ..ServerIcon::default()
        }];
        ServerReport::Facts(ServerFacts {
            resource,
            tools,
            icons,
            ..ServerFacts::default()
        })
    };
    let attempt = stage.attempt("inner");
    for _ in 0..2 {
        stage.reports("inner", attempt, facts(Some("https://mcp.example"), 3));
        stage.does("inner", ready());
    }
    let told = json!({
        "innkeeper.resource": "https://mcp.example", "innkeeper.tokenKept": false, "innkeeper.tools": 3,
    });
    assert_eq!(stage.server("inner")["_meta"], told);
    assert_eq!(stage.inbox(conn).len(), 2, "the facts, and the state");
    stage.found(SESSION, two_servers());
    assert_eq!(stage.server("inner")["_meta"], told);
    assert_eq!(
        stage.server("inner")["icons"],
        json!([{
            "src": "innkeeper-content://inline-000000/icon.png", "contentType": "image/png", "sizes": ["48x48"],
        }])
    );
    assert_eq!(stage.inbox(conn).len(), 0, "nothing is new");
    stage.reports("inner", attempt, facts(None, 2));
    assert_eq!(stage.server("inner")["_meta"], json!({ "innkeeper.tools": 2 }));
    stage.reports("inner", attempt + 7, facts(None, 9));
    assert_eq!(
        stage.server("inner")["_meta"],
        json!({ "innkeeper.tools": 2 }),
        "of another start"
    );
}

#[test]
fn mcp12_tools_without_a_usable_name_are_reported() {
    let (mut stage, _, _) = Stage::serving(two_servers());
    let attempt = stage.attempt("inner");
    let facts = |task_tools: &[&str]| {
        ServerReport::Facts(ServerFacts {
            tools: 2,
            task_tools: task_tools.iter().map(|name| (*name).to_owned()).collect(),
            ..ServerFacts::default()
        })
    };
    stage.reports("inner", attempt, facts(&["research"]));
    let told = json!({ "innkeeper.tools": 2, "innkeeper.taskTools": ["research"] });
    assert_eq!(stage.server("inner")["_meta"], told);
    stage.reports("inner", attempt, facts(&[]));
    assert_eq!(stage.server("inner")["_meta"], json!({ "innkeeper.tools": 2 }));
}

#[test]
fn cht19_a_chat_that_becomes_a_session_takes_no_running_server_along() {
    let (mut stage, conn, _) = Stage::serving(two_servers());
    stage.does("top", ServerStatus::Ready { apps: Some(all_apps()) });
    let chat = "ahp-chat:/more";
    stage.create_chat(conn, new_chat(SESSION, chat));
    stage.opened(Ok(()));
    let moved = stage.move_chat(conn, chat, MoveDestination::NewSession);
    let moved = moved["result"]["session"].as_str().expect("a session").to_owned();
    let list = stage.state(&moved)["customizations"].clone();
    assert_eq!(list[0]["state"], json!({ "kind": "stopped" }));
    assert_eq!(list[0]["channel"], Value::Null);
    assert_eq!(stage.running(), ["top", "inner"], "those of the old one");
}

#[test]
fn mcp02_a_server_that_is_declared_differently_starts_anew() {
    let (mut stage, _, _) = Stage::serving(two_servers());
    stage.does("top", ready());
    stage.does("inner", ready());
    let (old, inner) = (stage.attempt("top"), stage.attempt("inner"));
    let session = stage.wanted_servers().expect("something is wanted").0;
    let redeclared = |attempt| Input::McpRedeclared {
        session,
        servers: vec![("top".to_owned(), attempt)],
    };
    stage.handle(redeclared(old));
    assert_eq!(stage.state_of("top")["kind"], "starting");
    let new = stage.attempt("top");
    assert_ne!(new, old);
    assert_eq!(stage.attempt("inner"), inner, "the other one goes on");
    stage.reports("top", old, ServerReport::Status(failed("it was ended")));
    assert_eq!(stage.state_of("top")["kind"], "starting", "that was about the old one");
    stage.handle(redeclared(old));
    assert_eq!(stage.attempt("top"), new, "that is known already");
}
