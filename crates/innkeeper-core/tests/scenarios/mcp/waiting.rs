//! Turns that wait for servers (MCP-03, MCP-06).

use ahp_types::state::TurnState;
use innkeeper_core::agent::PastTurns;

use super::*;

fn cancelled(turn: &str) -> Value {
    json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 0 })
}

#[test]
fn mcp03_a_turn_waits_until_its_servers_are_there() {
    let (mut stage, conn, chat) = Stage::serving(two_servers());
    stage.start_turn(conn, &chat, "t");
    assert_eq!(stage.refusal(conn), None, "the turn is accepted and shown");
    assert_eq!(stage.handed_over(), 0);
    assert_eq!(stage.state(&chat)["activity"], "Waiting for top, inner");
    stage.does("top", ready());
    assert_eq!(stage.handed_over(), 0, "one of two");
    stage.does("inner", failed("it crashed"));
    assert_eq!(stage.handed_over(), 1, "the turn does not wait for a failed server");
    assert_eq!(stage.state(&chat)["activity"], Value::Null);
}

#[test]
fn mcp03_a_server_that_requires_a_sign_in_delays_no_turn() {
    let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
    stage.start_turn(conn, &chat, "t");
    stage.does("top", signing_in::sign_in(&[]));
    assert_eq!(stage.handed_over(), 1, "LESSON-62: not blocked for ever");
}

#[test]
fn mcp06_a_user_may_skip_the_wait() {
    let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
    stage.start_turn(conn, &chat, "t");
    stage.inbox(conn);
    stage.dispatch(conn, SESSION, 1, background("top"));
    assert_eq!(stage.handed_over(), 1);
    assert_eq!(stage.state_of("top"), json!({ "kind": "starting", "blocking": false }));
    assert_eq!(stage.running(), ["top"], "it goes on starting");
    stage.inbox(conn);
    stage.does("top", ServerStatus::Starting);
    assert_eq!(stage.told(conn), [] as [Value; 0]);
    stage.dispatch(conn, SESSION, 2, background("top"));
    assert_eq!(stage.refusal(conn), None, "nothing to do is no mistake");
}

#[test]
fn mcp03_a_turn_waits_at_most_for_the_timeout() {
    let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
    stage.start_turn(conn, &chat, "t");
    stage.pass(9_999);
    assert_eq!(stage.handed_over(), 0);
    stage.pass(1);
    assert_eq!(stage.handed_over(), 1);
    assert_eq!(stage.state_of("top"), json!({ "kind": "starting" }));
    stage.ends(innkeeper_core::TurnEnd::Complete);
    stage.start_turn(conn, &chat, "t2");
    assert_eq!(stage.handed_over(), 2, "nor does the next one");
}

#[test]
fn mcp03_a_turn_waits_to_hear_which_servers_there_are() {
    let mut stage = Stage::able(config());
    let conn = stage.client("c", &[]);
    let chat = stage.session_in_workspace(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.start_turn(conn, &chat, "t");
    assert_eq!(stage.handed_over(), 0);
    stage.found(SESSION, json!([]));
    assert_eq!(stage.handed_over(), 1);
}

#[test]
fn mcp03_a_turn_that_waits_can_be_cancelled() {
    let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
    stage.start_turn(conn, &chat, "t");
    stage.dispatch(conn, &chat, 2, cancelled("t"));
    stage.does("top", ready());
    assert_eq!(stage.handed_over(), 0);
    let state = serde_json::to_value(TurnState::Cancelled).expect("JSON");
    assert_eq!(stage.state(&chat)["turns"][0]["state"], state);
    let opened = stage.agent.len();
    stage.start_turn(conn, &chat, "t2");
    assert_eq!(stage.handed_over(), 1);
    let opens = |effect: &Effect| matches!(effect, Effect::Agent(AgentCommand::OpenChat(open)) if open.history != PastTurns::default());
    assert!(
        stage.agent[opened..].iter().any(opens),
        "TRC-05: its agent hears of the first one now"
    );
}

#[test]
fn mcp03_stopping_and_switching_off_let_turns_go_on() {
    for action in [
        stop("top"),
        crate::customizations::toggle("top", json!([crate::customizations::in_session(false)])),
    ] {
        let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
        stage.start_turn(conn, &chat, "t");
        stage.dispatch(conn, SESSION, 1, action);
        assert_eq!(stage.handed_over(), 1);
    }
}

#[test]
fn mcp03_a_queued_turn_waits_for_servers_too() {
    let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
    let queued = json!({
        "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": message("hi"),
    });
    stage.dispatch(conn, &chat, 1, queued);
    assert_eq!(stage.handed_over(), 0);
    stage.does("top", ready());
    assert_eq!(stage.handed_over(), 1);
}
