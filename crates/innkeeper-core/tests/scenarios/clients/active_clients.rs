//! Active clients of a session, and the tools they offer (ACT).

use innkeeper_core::agent::{ToolReply, ToolStep};
use innkeeper_core::{AgentCommand, ConnId, CoreConfig, Effect, Input, Reply};
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

pub fn offer(client: &str, tools: &[&str]) -> Value {
    let tools: Vec<_> = tools
        .iter()
        .map(|name| json!({ "name": name, "description": "does it" }))
        .collect();
    json!({ "type": "session/activeClientSet", "activeClient": { "clientId": client, "tools": tools } })
}

fn complete(success: bool) -> Value {
    json!({ "type": "chat/toolCallComplete", "turnId": "t", "toolCallId": CALL, "result": { "success": success, "pastTenseMessage": "Opened it", "content": [{ "type": "text", "text": "opened" }] } })
}

/// A turn in which the agent has called a tool of the client `c`.
fn calling() -> (Stage, ConnId, String) {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, SESSION, offer("c", &["open"]));
    stage.call(client_tool("open", "c"), harmless());
    (stage, conn, chat)
}

fn failed_reply(stage: &mut Stage) -> String {
    match stage.replies().as_slice() {
        [
            Reply::Tool {
                reply: ToolReply::Completed(result),
                ..
            },
        ] if !result.success => result.error.clone().expect("an error for the model"),
        other => panic!("not one failure: {other:?}"),
    }
}

#[test]
fn act06_act07_tool05_a_client_runs_its_tool_and_reports_back() {
    let (mut stage, conn, chat) = calling();
    let state = stage.call_state(&chat, CALL);
    assert_eq!(state["contributor"], json!({ "kind": "client", "clientId": "c" }));
    assert_eq!(
        (&state["status"], &state["confirmed"]),
        (&json!("running"), &json!("not-needed"))
    );
    let waits = stage.waits(SESSION);
    assert_eq!(
        (&waits[0]["kind"], &waits[0]["clientId"]),
        (&json!("toolClientExecution"), &json!("c"))
    );
    assert_eq!(
        stage.state(SESSION)["status"].as_u64().map(|bits| bits & 31),
        Some(8),
        "E-23: no input needed"
    );
    let content = json!({ "type": "chat/toolCallContentChanged", "turnId": "t", "toolCallId": CALL, "content": [{ "type": "text", "text": "opening" }] });
    stage.accepted(conn, &chat, content);
    assert_eq!(stage.call_state(&chat, CALL)["content"][0]["text"], "opening");
    stage.accepted(conn, &chat, complete(true));
    let completed = stage.call_state(&chat, CALL);
    assert_eq!(completed["status"], "completed");
    assert_eq!(
        completed["contributor"], state["contributor"],
        "TOOL-02: the same owner to the end"
    );
    assert!(stage.waits(SESSION).is_empty());
    let replies = stage.replies();
    assert!(
        matches!(&replies[..], [Reply::Tool { reply: ToolReply::Completed(result), .. }] if result.success),
        "{replies:?}"
    );
}

#[test]
fn res03_a_file_sent_as_a_data_uri_is_published_with_a_path() {
    let (mut stage, conn, chat) = calling();
    let side = |content: &str| json!({ "uri": "file:///a%20b.txt", "content": { "uri": content } });
    let edit = |before: &str| json!({ "type": "fileEdit", "before": side(before), "after": side("file:///a%20b.txt") });
    let result = |before: &str| json!({ "success": true, "pastTenseMessage": "Changed it", "content": [edit(before)] });
    let (sent, shown) = (
        "data:text/plain;base64,aGk=",
        "innkeeper-content://inline-6869/a%20b.txt",
    );
    let running =
        json!({ "type": "chat/toolCallContentChanged", "turnId": "t", "toolCallId": CALL, "content": [edit(sent)] });
    stage.accepted(conn, &chat, running);
    assert_eq!(stage.call_state(&chat, CALL)["content"], json!([edit(shown)]));
    let done = json!({ "type": "chat/toolCallComplete", "turnId": "t", "toolCallId": CALL, "result": result(sent) });
    stage.accepted(conn, &chat, done);
    assert_eq!(stage.call_state(&chat, CALL)["content"], json!([edit(shown)]));
}

#[test]
fn tool11_act16_other_clients_cannot_report_on_a_clients_tool() {
    let (mut stage, _, chat) = calling();
    let other = stage.client("d", &[]);
    let reason = stage.refused(other, &chat, complete(true));
    assert!(reason.contains("another client runs this tool"), "{reason}");
    let content = json!({ "type": "chat/toolCallContentChanged", "turnId": "t", "toolCallId": CALL, "content": [{ "type": "riddle" }] });
    assert!(stage.refused(other, &chat, content).contains("another client"));
}

#[test]
fn tool20_a_client_that_does_not_know_its_tool_denies_it() {
    let (mut stage, conn, chat) = calling();
    let reason = stage.refused(conn, &chat, decide(false, None));
    assert!(reason.contains("ended as failed"), "{reason}");
    let state = stage.call_state(&chat, CALL);
    assert_eq!(
        (&state["status"], &state["success"]),
        (&json!("completed"), &json!(false))
    );
    assert!(failed_reply(&mut stage).contains("does not know it any more"));
}

#[test]
fn act09_act11_a_client_that_unsubscribes_leaves_and_its_calls_fail() {
    let (mut stage, conn, chat) = calling();
    let watcher = stage.client("w", &[]);
    stage.subscribe(watcher, SESSION);
    stage.subscribe(watcher, &chat);
    stage.inbox(watcher);
    stage.unsubscribe(conn, SESSION);
    let state = stage.call_state(&chat, CALL);
    assert_eq!(
        (&state["status"], &state["success"]),
        (&json!("completed"), &json!(false)),
        "not cancelled"
    );
    assert!(failed_reply(&mut stage).contains("left the session"));
    assert_eq!(stage.state(SESSION)["activeClients"], json!([]));
    let types = stage.action_types(watcher);
    assert_eq!(
        types
            .iter()
            .filter(|name| *name == "session/activeClientRemoved")
            .count(),
        1
    );
}

/// (E-16)
#[test]
fn act12_a_call_whose_input_still_streams_fails_too() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, SESSION, offer("c", &["open"]));
    stage.tool(CALL, ToolStep::Start(client_tool("open", "c")));
    stage.tool(CALL, ToolStep::Input("{".into()));
    stage.accepted(
        conn,
        SESSION,
        json!({ "type": "session/activeClientRemoved", "clientId": "c" }),
    );
    assert_eq!(stage.call_state(&chat, CALL)["status"], "completed");
    assert!(failed_reply(&mut stage).contains("left the session"));
}

#[test]
fn act10_lesson_45_lesson_46_the_end_of_grace_fails_a_call_once() {
    let (mut stage, conn, chat) = calling();
    stage.handle(Input::Disconnected { conn });
    stage.pass(29_000);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
    let back = stage.client("c", &[SESSION, &chat]);
    stage.pass(120_000);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running", "back in time");
    stage.handle(Input::Disconnected { conn: back });
    stage.pass(30_000);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "completed");
    assert!(failed_reply(&mut stage).contains("left the session"));
    stage.pass(120_000);
    assert!(stage.replies().is_empty(), "once");
}

#[test]
fn rec09_rec14_a_failed_call_is_reported_once_without_the_session() {
    let (mut stage, conn, chat) = calling();
    let seen = stage.core.seq().0;
    stage.disconnect(conn);
    let again = stage.connect();
    let result = stage.reconnect(again, "c", seen, &[&chat])["result"].take();
    assert_eq!(result["type"], "replay");
    let types: Vec<_> = result["actions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|envelope| envelope["action"]["type"].clone())
        .collect();
    assert_eq!(types, ["chat/toolCallComplete"]);
    assert_eq!(stage.actions(again), Vec::<Value>::new(), "and not besides");
    assert!(failed_reply(&mut stage).contains("left the session"));
}

/// A reloaded window does not know yet which sessions it took part in.
#[test]
fn act10_a_reinitialized_client_may_rejoin_within_the_rest_of_its_grace() {
    let (mut stage, conn, chat) = calling();
    stage.disconnect(conn);
    stage.pass(20_000);
    let again = stage.connect();
    let result = stage.initialize(again, "c", &["1.0.0"], &[&chat])["result"].take();
    let call = &result["snapshots"][0]["state"]["activeTurn"]["responseParts"][0]["toolCall"];
    assert_eq!(call["status"], "running", "nothing has ended");
    assert_eq!(stage.state(SESSION)["activeClients"][0]["clientId"], "c");
    stage.pass(9_999);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
    stage.subscribe(again, SESSION);
    stage.pass(120_000);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running", "back in time");
    assert_eq!(stage.state(SESSION)["activeClients"][0]["clientId"], "c");
}

#[test]
fn act10_a_reinitialized_client_leaves_after_its_grace_period() {
    let (mut stage, conn, chat) = calling();
    stage.disconnect(conn);
    stage.pass(20_000);
    let again = stage.client("c", &[&chat]);
    stage.pass(10_000);
    assert_eq!(stage.state(SESSION)["activeClients"], json!([]));
    assert_eq!(stage.call_state(&chat, CALL)["status"], "completed");
    assert!(failed_reply(&mut stage).contains("left the session"));
    // It is still a client, and may join again.
    stage.subscribe(again, SESSION);
    stage.accepted(again, SESSION, offer("c", &["open"]));
    stage.pass(120_000);
    assert_eq!(stage.state(SESSION)["activeClients"][0]["clientId"], "c");
}

#[test]
fn act10_a_second_absence_has_a_grace_of_its_own() {
    let (mut stage, conn, chat) = calling();
    stage.disconnect(conn);
    stage.pass(20_000);
    let again = stage.client("c", &[SESSION]);
    stage.disconnect(again);
    stage.pass(29_999);
    assert_eq!(
        stage.call_state(&chat, CALL)["status"],
        "running",
        "the first grace is over"
    );
    stage.pass(1);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "completed");
}

#[test]
fn act08_a_call_for_a_client_that_is_long_gone_fails_at_once_with_a_hint() {
    let (mut stage, conn, chat) = working();
    stage.call(client_tool("open", "ghost"), harmless());
    assert_eq!(stage.call_state(&chat, CALL)["status"], "completed");
    assert!(failed_reply(&mut stage).contains("open the session in a client"));
    stage.accepted(conn, SESSION, offer("c", &["open"]));
    stage.tool("call-2", ToolStep::Start(client_tool("open", "ghost")));
    stage.tool("call-2", harmless());
    assert!(failed_reply(&mut stage).contains("another client of this session offers the same tool"));
}

#[test]
fn act14_another_connection_of_the_same_client_keeps_it_in() {
    let (mut stage, conn, chat) = calling();
    let second = stage.client("c", &[SESSION]);
    stage.handle(Input::Disconnected { conn });
    stage.pass(60_000);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
    stage.handle(Input::Disconnected { conn: second });
    stage.pass(30_000);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "completed");
}

#[test]
fn act11_calls_fail_in_every_chat_of_the_session_and_in_no_other() {
    let (mut stage, conn, _) = calling();
    let other = stage.session(conn, "ahp-session:/other");
    stage.subscribe(conn, "ahp-session:/other");
    stage.accepted(conn, "ahp-session:/other", offer("c", &["open"]));
    stage.start_turn(conn, &other, "t");
    stage.call(client_tool("open", "c"), harmless());
    stage.unsubscribe(conn, SESSION);
    assert_eq!(stage.call_state(&other, CALL)["status"], "running");
}

fn tools_of(stage: &Stage) -> Vec<(String, String, String)> {
    let start = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(start),
        _ => None,
    });
    let tools = start.expect("a turn").info.client_tools.iter();
    tools
        .map(|tool| (tool.name.clone(), tool.client_name.clone(), tool.client.to_string()))
        .collect()
}

#[test]
fn act01_act04_act05_the_agent_sees_each_tool_once_the_authors_first() {
    let mut stage = Stage::new();
    let first = stage.client("c", &[]);
    let second = stage.client("d", &[]);
    let chat = stage.session(first, SESSION);
    for conn in [first, second] {
        stage.subscribe(conn, SESSION);
        stage.subscribe(conn, &chat);
    }
    stage.accepted(first, SESSION, offer("c", &["open", "only-c"]));
    stage.accepted(second, SESSION, offer("d", &["open", "only-d"]));
    stage.start_turn(first, &chat, "one");
    let own = |name: &str, client: &str| (name.to_owned(), name.to_owned(), client.to_owned());
    assert_eq!(
        tools_of(&stage),
        [own("open", "c"), own("only-c", "c"), own("only-d", "d")]
    );
    stage.ends(innkeeper_core::TurnEnd::Complete);
    stage.start_turn(second, &chat, "two");
    assert_eq!(
        tools_of(&stage),
        [own("open", "d"), own("only-d", "d"), own("only-c", "c")]
    );
    // The author of a queued message counts as the author of its turn, too.
    let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": message("later") });
    stage.accepted(first, &chat, queued);
    stage.ends(innkeeper_core::TurnEnd::Complete);
    assert_eq!(
        tools_of(&stage),
        [own("open", "c"), own("only-c", "c"), own("only-d", "d")]
    );
}

#[test]
fn act02_act03_a_client_announces_itself_within_bounds() {
    let (mut stage, conn, _) = working_with(CoreConfig {
        max_client_tools: 2,
        max_active_client_bytes: 4096,
        ..CoreConfig::default()
    });
    for (action, problem) in [
        (offer("d", &["open"]), "clientId is not the dispatcher's"),
        (
            offer("c", &["open", "open"]),
            "activeClient.tools[1].name: \"open\" is offered twice",
        ),
        (offer("c", &[""]), "activeClient.tools[0].name"),
        (offer("c", &["a", "b", "c"]), "at most 2 tools"),
        (
            json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "c", "tools": [{ "name": "a", "inputSchema": 5 }] } }),
            "inputSchema",
        ),
        (
            json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "c", "tools": [{ "name": "a", "description": "x".repeat(5000) }] } }),
            "activeClient.tools: the whole entry has at most 4096 bytes",
        ),
        (
            json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "c", "tools": [], "customizations": [
                { "type": "plugin", "id": "p", "uri": "https://plugins.example/p", "name": "p", "_meta": { "x": "x".repeat(5000) } },
            ] } }),
            "activeClient.customizations: the whole entry has at most 4096 bytes",
        ),
    ] {
        let reason = stage.refused(conn, SESSION, action);
        assert!(reason.contains(problem), "{reason}");
    }
    stage.accepted(conn, SESSION, offer("c", &[]));
    assert_eq!(stage.state(SESSION)["activeClients"][0]["tools"], json!([]));
}

#[test]
fn tool04_e18_a_client_may_request_a_review_of_its_result() {
    for approved in [true, false] {
        let (mut stage, conn, chat) = calling();
        let mut action = complete(true);
        action["requiresResultConfirmation"] = json!(true);
        stage.accepted(conn, &chat, action);
        assert_eq!(stage.call_state(&chat, CALL)["status"], "pending-result-confirmation");
        assert!(stage.replies().is_empty(), "the agent hears nothing yet");
        let look =
            json!({ "type": "chat/toolCallResultConfirmed", "turnId": "t", "toolCallId": CALL, "approved": approved });
        stage.accepted(conn, &chat, look);
        let replies = stage.replies();
        let [
            Reply::Tool {
                reply: ToolReply::Completed(result),
                ..
            },
        ] = replies.as_slice()
        else {
            panic!("{replies:?}");
        };
        assert_eq!(result.success, approved);
        assert_eq!(result.content.is_empty(), !approved, "what was held back stays back");
    }
}

#[test]
fn act11_an_agents_result_for_a_client_call_ends_it_without_review() {
    let (mut stage, _, chat) = calling();
    let result = innkeeper_core::agent::ToolResult::failed("Gave up", "it took too long");
    stage.tool(CALL, ToolStep::Done { result, review: true });
    assert_eq!(stage.call_state(&chat, CALL)["status"], "completed");
}

#[test]
fn ses18_content_meta_of_a_client_appears_on_the_session_too() {
    let (mut stage, conn, chat) = calling();
    let content = json!({ "type": "chat/toolCallContentChanged", "turnId": "t", "toolCallId": CALL, "content": [], "_meta": { "step": 2 } });
    stage.accepted(conn, &chat, content);
    assert_eq!(stage.waits(SESSION)[0]["toolCall"]["_meta"], json!({ "step": 2 }));
}

/// A reply after the end of a run would reach the next run, or none.
#[test]
fn act11_nothing_is_told_to_a_run_that_the_failure_of_its_call_ended() {
    let (mut stage, conn, chat) = working_with(CoreConfig {
        max_turn_bytes: 400,
        ..CoreConfig::default()
    });
    stage.accepted(conn, SESSION, offer("c", &["open"]));
    stage.call(client_tool("open", "c"), harmless());
    stage.unsubscribe(conn, SESSION);
    assert_eq!(
        stage.state(&chat)["turns"][0]["state"],
        "error",
        "no room for the failure"
    );
    assert!(stage.replies().is_empty());
}
