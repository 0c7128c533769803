//! Approvals are remembered in the chosen scope, listed, and revoked.

use innkeeper_core::ConnId;
use innkeeper_core::agent::ToolStep;
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

const WORKSPACE: &str = "file:///srv/app";

/// A session in a workspace with a running turn.
fn in_workspace(stage: &mut Stage, conn: ConnId, session: &str, directory: &str) -> String {
    let mut create = new_session(session);
    create.working_directories = vec![directory.to_owned()];
    let answer = stage.create_with(conn, create);
    assert_eq!(answer["result"], Value::Null, "{answer}");
    stage.opened(Ok(()));
    let chat = innkeeper_core::uri::default_chat(session);
    stage.subscribe(conn, session);
    stage.subscribe(conn, &chat);
    stage.start_turn(conn, &chat, "t");
    chat
}

fn asks(stage: &mut Stage, call: &str, tool: &str) {
    stage.tool(call, ToolStep::Start(host_tool(tool)));
    stage.tool(call, risky());
}

fn answer(stage: &mut Stage, conn: ConnId, chat: &str, call: &str, option: &str) {
    let mut action = decide(option != "deny", Some(option));
    action["toolCallId"] = json!(call);
    stage.accepted(conn, chat, action);
    stage.replies();
}

fn status(stage: &Stage, chat: &str, call: &str) -> String {
    stage.call_state(chat, call)["status"]
        .as_str()
        .expect("a status")
        .to_owned()
}

fn setting(stage: &Stage, session: &str, name: &str) -> Value {
    stage.state(session)["config"]["values"][name].clone()
}

fn change(name: &str, value: Value) -> Value {
    json!({ "type": "session/configChanged", "config": { name: value } })
}

#[test]
fn an_approval_for_the_session_is_remembered_listed_and_revocable() {
    let (mut stage, conn, chat) = working();
    asks(&mut stage, "one", "run");
    answer(&mut stage, conn, &chat, "one", "allow-session");
    assert_eq!(
        setting(&stage, SESSION, "approvedTools"),
        json!([r#"run({"command":"ls"})"#]),
        "listed"
    );
    asks(&mut stage, "two", "run");
    let state = stage.call_state(&chat, "two");
    assert_eq!(
        (&state["status"], &state["confirmed"]),
        (&json!("running"), &json!("setting")),
        "TOOL-04"
    );
    let decision = stage.decision();
    assert!(decision.approved && decision.by.is_none());
    asks(&mut stage, "three", "delete");
    assert_eq!(
        status(&stage, &chat, "three"),
        "pending-confirmation",
        "another tool still asks"
    );
    stage.accepted(conn, SESSION, change("approvedTools", json!([])));
    asks(&mut stage, "four", "run");
    assert_eq!(status(&stage, &chat, "four"), "pending-confirmation", "taken back");
}

#[test]
fn allowing_once_and_denying_are_forgotten() {
    let (mut stage, conn, chat) = working();
    asks(&mut stage, "one", "run");
    answer(&mut stage, conn, &chat, "one", "allow-once");
    asks(&mut stage, "two", "run");
    assert_eq!(status(&stage, &chat, "two"), "pending-confirmation");
    answer(&mut stage, conn, &chat, "two", "deny");
    asks(&mut stage, "three", "run");
    assert_eq!(status(&stage, &chat, "three"), "pending-confirmation");
}

#[test]
fn lesson_42_an_approval_for_one_session_does_not_reach_another() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let first = in_workspace(&mut stage, conn, "ahp-session:/one", WORKSPACE);
    asks(&mut stage, "one", "run");
    answer(&mut stage, conn, &first, "one", "allow-session");
    let second = in_workspace(&mut stage, conn, "ahp-session:/two", WORKSPACE);
    asks(&mut stage, "two", "run");
    assert_eq!(status(&stage, &second, "two"), "pending-confirmation");
    assert_eq!(setting(&stage, "ahp-session:/two", "workspaceApprovedTools"), json!([]));
}

#[test]
fn a_workspace_approval_holds_in_its_workspace_until_it_is_revoked() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let first = in_workspace(&mut stage, conn, "ahp-session:/one", WORKSPACE);
    asks(&mut stage, "one", "run");
    answer(&mut stage, conn, &first, "one", "allow-workspace");
    assert_eq!(
        setting(&stage, "ahp-session:/one", "workspaceApprovedTools"),
        json!([r#"run({"command":"ls"})"#])
    );

    let second = in_workspace(&mut stage, conn, "ahp-session:/two", WORKSPACE);
    asks(&mut stage, "two", "run");
    assert_eq!(
        status(&stage, &second, "two"),
        "running",
        "the same workspace, a later session"
    );

    let elsewhere = in_workspace(&mut stage, conn, "ahp-session:/three", "file:///srv/other");
    asks(&mut stage, "three", "run");
    assert_eq!(status(&stage, &elsewhere, "three"), "pending-confirmation");

    stage.accepted(conn, "ahp-session:/one", change("workspaceApprovedTools", json!([])));
    assert_eq!(
        setting(&stage, "ahp-session:/two", "workspaceApprovedTools"),
        json!([]),
        "taken back everywhere"
    );
    let fourth = in_workspace(&mut stage, conn, "ahp-session:/four", WORKSPACE);
    asks(&mut stage, "four", "run");
    assert_eq!(status(&stage, &fourth, "four"), "pending-confirmation");
}

#[test]
fn a_session_can_be_set_to_allow_everything_and_back() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, SESSION, change("autoApprove", json!("autoApprove")));
    asks(&mut stage, "one", "run");
    assert_eq!(status(&stage, &chat, "one"), "running");
    stage.accepted(conn, SESSION, change("autoApprove", json!("default")));
    asks(&mut stage, "two", "run");
    assert_eq!(status(&stage, &chat, "two"), "pending-confirmation");
}
