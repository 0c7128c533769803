//! Tool annotations: trusted of the user's own servers, and of no others.

use innkeeper_testkit::official::tool_calls_of;
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, TestSession, options};

/// A session with the same server twice: `garden` of the host's configuration, `field` of the workspace.
async fn both(inn: &Inn) -> TestSession<'_> {
    let room = inn.ready_room("one", "field").await;
    room.server_is("garden", "ready").await;
    room
}

async fn open() -> Inn {
    let place = TestDirectory::new();
    place.declare(".mcp.json", &json!({ "field": place.odd("annotated") }));
    let options = options().setting(&place.configured("garden", "annotated"));
    Inn::started(place, options).await
}

/// Calls a tool, waits for the confirmation, and denies it.
async fn is_asked_about(room: &TestSession<'_>, turn: &str, what: &str) {
    room.client
        .start_turn(&room.uris.chat, turn, &format!("/mcp {what}"))
        .await;
    let wait = room.client.wait_for(&room.uris.session, "toolConfirmation").await;
    room.client
        .decide(&wait, json!({ "approved": false, "reason": "denied" }))
        .await;
    let (words, call) = room.end(turn).await;
    assert!(words.contains("It failed:"), "{words}");
    assert_ne!(call["success"], true, "{call}");
    room.client.nothing_waits(&room.uris.session).await;
}

#[tokio::test]
async fn mcp12_t14_read_only_tools_run_unasked_only_on_the_users_own_servers() {
    let inn = open().await;
    let room = both(&inn).await;
    let before = room.client.view().actions_on(&room.uris.session).len();
    let turn = room.client.run_turn(&room.uris.chat, "t1", "/mcp garden peek").await;
    let call = tool_calls_of(&turn).remove(0);
    assert_eq!(call["success"], true, "{call}");
    assert_eq!(call["confirmed"], "not-needed", "{call}");
    let actions = room.client.view().actions_on(&room.uris.session);
    let asks = |action: &&Value| action.to_string().contains("toolConfirmation");
    let asked: Vec<&Value> = actions.iter().skip(before).filter(asks).collect();
    assert!(asked.is_empty(), "{asked:?}");
    // The same annotations, from a server that is only trusted to run.
    is_asked_about(&room, "t2", "field peek").await;
    // One that contradicts itself, or says nothing, is asked about wherever it comes from.
    is_asked_about(&room, "t3", "garden wreck").await;
    is_asked_about(&room, "t4", "garden echo").await;
    room.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_a_guard_that_was_written_for_claude_refuses_a_call_of_a_server() {
    let place = TestDirectory::new();
    let home = place.beside("home");
    let guard = |matcher: &str, reason: &str| {
        let command = format!("echo {reason} >&2; exit 2");
        json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] })
    };
    let hooks = [guard("mcp__garden__.*", "locked"), guard("mcp__field__peek", "wrong")];
    std::fs::create_dir_all(home.join(".claude")).expect("made");
    let settings = json!({ "hooks": { "PreToolUse": hooks } }).to_string();
    std::fs::write(home.join(".claude/settings.json"), settings).expect("written");
    let options = options().setting(&place.configured("garden", "annotated"));
    let inn = Inn::started(place, options.environment("HOME", home)).await;
    let room = inn.room("one").await;
    room.server_is("garden", "ready").await;
    let turn = room.client.run_turn(&room.uris.chat, "t1", "/mcp garden peek").await;
    let call = tool_calls_of(&turn).remove(0);
    assert_ne!(call["success"], true, "{call}");
    let call = call.to_string();
    assert!(call.contains("A hook refused") && call.contains("locked"), "{call}");
    assert!(!call.contains("wrong"), "{call}");
    room.client.assert_converged().await;
}
