//! The presentation of tool calls: `_meta`, markdown, descriptions while the input streams (TOOL-03, TOOL-19).

use innkeeper_core::agent::{
    Attachment, Description, McpName, Permission, ToolContent, ToolKind, ToolReady, ToolResult, ToolStart, ToolStep,
};
use serde_json::json;

use crate::harness::working_agent::*;

fn terminal() -> ToolStart {
    ToolStart {
        kind: Some(ToolKind::Terminal),
        ..host_tool("run_command")
    }
}

#[test]
fn tool19_the_kind_of_a_call_survives_every_later_action() {
    let (mut stage, conn, chat) = working();
    stage.call(terminal(), risky());
    let kind = json!({ "toolKind": "terminal", "language": "shellscript" });
    let started = stage.actions(conn).remove(0);
    assert_eq!(started["action"]["_meta"], kind);
    let echo = stage.accepted(conn, &chat, decide(true, None));
    let decided = json!({
        "toolKind": "terminal", "language": "shellscript", "innkeeper.decidedBy": { "clientId": "c" },
    });
    // The reducers replace the whole `_meta`, so the action has the whole.
    assert_eq!(echo["action"]["_meta"], decided);
    stage.tool(CALL, ToolStep::Content(vec![ToolContent::Text("so far".into())]));
    stage.tool(CALL, done());
    let state = stage.call_state(&chat, CALL);
    assert_eq!((&state["status"], &state["_meta"]), (&json!("completed"), &decided));
}

#[test]
fn tool19_reading_searching_and_servers_are_marked_too() {
    for (kind, name) in [(ToolKind::Read, "read"), (ToolKind::Search, "search")] {
        let (mut stage, _, chat) = working();
        let start = ToolStart {
            kind: Some(kind),
            ..host_tool("look")
        };
        stage.call(start, harmless());
        assert_eq!(stage.call_state(&chat, CALL)["_meta"], json!({ "toolKind": name }));
    }
    let (mut stage, _, chat) = working();
    let start = ToolStart {
        mcp: Some(McpName {
            server: "Files".into(),
            tool: "read".into(),
        }),
        ..host_tool("files__read")
    };
    stage.call(start, harmless());
    let expected = json!({ "mcpServerName": "Files", "mcpToolName": "read" });
    assert_eq!(stage.call_state(&chat, CALL)["_meta"], expected);
}

#[test]
fn tool19_client_meta_is_merged_and_the_hosts_keys_stay() {
    let (mut stage, conn, chat) = working();
    stage.call(terminal(), risky());
    let mut action = decide(true, None);
    action["_meta"] = json!({ "toolKind": "read", "innkeeper.decidedBy": "unknown", "theirs": 1 });
    stage.accepted(conn, &chat, action);
    let meta = stage.call_state(&chat, CALL)["_meta"].clone();
    assert_eq!(meta["toolKind"], "terminal");
    assert_eq!(meta["innkeeper.decidedBy"], json!({ "clientId": "c" }));
    assert_eq!(meta["theirs"], 1);
}

#[test]
fn tool03_messages_come_in_markdown_where_there_are_links() {
    let (mut stage, _, chat) = working();
    let link = "Reads [notes.txt](file:///inn/notes.txt)";
    let ready = ToolStep::Ready(ToolReady {
        invocation: Description::with_markdown("Reads `notes.txt`", link),
        input: None,
        permission: Permission::NotNeeded,
    });
    stage.call(host_tool("read_file"), ready);
    let markdown = json!({ "markdown": link });
    assert_eq!(stage.call_state(&chat, CALL)["invocationMessage"], markdown);
    let result = ToolResult {
        summary_markdown: Some("Read [notes.txt](file:///inn/notes.txt)".into()),
        ..ToolResult::text("Read `notes.txt`", "hello")
    };
    stage.tool(CALL, ToolStep::Done { result, review: false });
    let past = json!({ "markdown": "Read [notes.txt](file:///inn/notes.txt)" });
    assert_eq!(stage.call_state(&chat, CALL)["pastTenseMessage"], past);
}

/// VS Code shows the input of a call that asks only together with a message in Markdown.
#[test]
fn tool03_a_call_that_asks_describes_itself_in_equivalent_markdown() {
    let (mut stage, _, chat) = working();
    let ready = ToolStep::Ready(ToolReady {
        invocation: "Calls get_rooms of `inn` for $(5) [x](y)".into(),
        input: Some("{}".into()),
        permission: Permission::Ask(Box::default()),
    });
    stage.call(host_tool("get_rooms"), ready);
    let markdown = r"Calls get\_rooms of \`inn\` for \$(5) \[x\](y)";
    let message = json!({ "markdown": markdown });
    assert_eq!(stage.call_state(&chat, CALL)["invocationMessage"], message);
}

#[test]
fn tool03_a_call_describes_itself_while_its_input_streams() {
    let (mut stage, conn, chat) = working();
    stage.tool(CALL, ToolStep::Start(host_tool("edit_file")));
    stage.tool(CALL, ToolStep::Input(r#"{"path":"out.txt","#.into()));
    stage.inbox(conn);
    stage.tool(CALL, ToolStep::Announce("Editing out.txt".into()));
    stage.tool(CALL, ToolStep::Announce("Editing out.txt".into()));
    let actions = stage.actions(conn);
    let [delta] = &actions[..] else {
        panic!("the same is said once: {actions:?}");
    };
    assert_eq!(delta["action"]["type"], "chat/toolCallDelta");
    assert_eq!(delta["action"]["invocationMessage"], "Editing out.txt");
    let state = stage.call_state(&chat, CALL);
    assert_eq!(state["invocationMessage"], "Editing out.txt");
    assert_eq!(state["partialInput"], r#"{"path":"out.txt","#);
    stage.tool(CALL, harmless());
    stage.inbox(conn);
    // The call no longer streams, so it cannot be announced any more.
    stage.tool(CALL, ToolStep::Announce("Too late".into()));
    assert!(stage.actions(conn).is_empty());
}

#[test]
fn tool05_reason_suggestion_and_attachments_reach_the_agent() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), risky());
    let mut action = decide(false, None);
    action["reasonMessage"] = json!("not on a Friday");
    action["userSuggestion"] = json!({
        "text": "use the test database", "origin": { "kind": "user" },
        "attachments": [{
            "type": "resource", "label": "db.toml", "uri": "file:///inn/db.toml",
            "selection": { "range": { "start": { "line": 2, "character": 0 }, "end": { "line": 4, "character": 0 } } },
        }],
    });
    stage.accepted(conn, &chat, action);
    let decision = stage.decision();
    assert!(!decision.approved && !decision.is_skipped);
    assert_eq!(
        decision.remark.as_deref(),
        Some("not on a Friday\nuse the test database")
    );
    let [Attachment::Resource { uri, selection, .. }] = &decision.attachments[..] else {
        panic!("{:?}", decision.attachments);
    };
    assert_eq!(uri, "file:///inn/db.toml");
    let selected = selection.expect("a selection").in_words();
    assert_eq!(selected, "lines 3 to 4 are selected");
}

#[test]
fn turn17_attachments_of_a_suggestion_are_checked() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), risky());
    let mut action = decide(false, None);
    action["userSuggestion"] = json!({
        "text": "no", "origin": { "kind": "user" },
        "attachments": [{ "type": "embeddedResource", "label": "x", "data": "?", "contentType": "image/png" }],
    });
    let reason = stage.refused(conn, &chat, action);
    assert_eq!(reason, "userSuggestion.attachments[0] has data that is not base64");
}

#[test]
fn tool05_a_skipped_call_is_no_denial() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), risky());
    let mut action = decide(false, None);
    action["reason"] = json!("skipped");
    stage.accepted(conn, &chat, action);
    let decision = stage.decision();
    assert!(!decision.approved && decision.is_skipped);
    let state = stage.call_state(&chat, CALL);
    assert_eq!(
        (&state["status"], &state["reason"]),
        (&json!("cancelled"), &json!("skipped"))
    );
}

#[test]
fn tool05_past_calls_say_whether_they_were_skipped() {
    let told = |call: serde_json::Value| {
        let message = json!({ "text": "x", "origin": { "kind": "user" } });
        let part = json!({ "kind": "toolCall", "toolCall": call });
        let turn = json!({ "id": "t", "message": message, "responseParts": [part], "state": "complete" });
        let turn = innkeeper_core::past_turn(&serde_json::from_value(turn).unwrap());
        turn.tools[0].output.clone()
    };
    let call = json!({
        "status": "cancelled", "toolCallId": "1", "toolName": "ring", "displayName": "Ring",
        "invocationMessage": "Rings", "reason": "skipped",
    });
    // No user decided: the call ended with its turn.
    assert_eq!(told(call.clone()), None);
    let mut skipped = call.clone();
    skipped["_meta"] = json!({ "innkeeper.decidedBy": { "clientId": "c" } });
    assert_eq!(told(skipped).as_deref(), Some("It did not run: the user skipped it."));
    let mut suggested = call;
    suggested["userSuggestion"] = json!({ "text": "later", "origin": { "kind": "user" } });
    assert_eq!(
        told(suggested).as_deref(),
        Some("It did not run: the user skipped it, and said: later")
    );
}

#[test]
fn an_embedded_text_of_a_past_result_is_told_again() {
    let call = json!({
        "status": "completed", "toolCallId": "1", "toolName": "look", "displayName": "Look",
        "invocationMessage": "Looks", "success": true, "pastTenseMessage": "Looked", "confirmed": "not-needed",
        "content": [{ "type": "embeddedResource", "data": "dHdvIHJvb21z", "contentType": "text/plain; charset=utf-8" }],
    });
    let message = json!({ "text": "x", "origin": { "kind": "user" } });
    let part = json!({ "kind": "toolCall", "toolCall": call });
    let turn = json!({ "id": "t", "message": message, "responseParts": [part], "state": "complete" });
    let told = innkeeper_core::past_turn(&serde_json::from_value(turn).unwrap());
    assert_eq!(told.tools[0].output.as_deref(), Some("two rooms"));
}

#[test]
fn tool19_an_agent_adds_fields_of_its_own_and_no_fields_of_others() {
    let (mut stage, conn, chat) = working();
    let own =
        json!({ "innkeeper.acp": { "kind": "edit" }, "toolKind": "search", "innkeeper.decidedBy": {}, "mine": 1 });
    let start = ToolStart {
        meta: own.as_object().cloned().expect("an object"),
        ..terminal()
    };
    stage.call(start, harmless());
    let expected = json!({ "toolKind": "terminal", "language": "shellscript", "innkeeper.acp": { "kind": "edit" } });
    assert_eq!(stage.call_state(&chat, CALL)["_meta"], expected);
    stage.inbox(conn);
    let long = json!({ "innkeeper.acp": { "cost": 1 }, "innkeeper.long": "x".repeat(20_000) });
    stage.says(innkeeper_core::AgentEvent::Usage(Box::new(innkeeper_core::Usage {
        meta: long.as_object().cloned().expect("an object"),
        ..innkeeper_core::Usage::default()
    })));
    let action = stage.actions(conn).remove(0);
    assert_eq!(
        action["action"]["usage"]["_meta"],
        json!({ "innkeeper.acp": { "cost": 1 } })
    );
}
