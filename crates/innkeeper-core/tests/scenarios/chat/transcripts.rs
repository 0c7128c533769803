//! The history and the attachments that agents get with a turn (CHT-06, TURN-17 to TURN-19).

use innkeeper_core::agent::{Attachment, PastOutcome, ToolResult, ToolStep};
use innkeeper_core::{AgentCommand, AgentEvent, ConnId, CoreConfig, Effect, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

/// A chat with so many completed turns, `t1` and so on.
fn stage(turns: usize) -> (Stage, ConnId, String) {
    let mut stage = Stage::able(CoreConfig::default());
    let conn = stage.client("author", &[]);
    let chat = stage.session(conn, SESSION);
    for n in 1..=turns {
        stage.turn(conn, &chat, &format!("t{n}"), &format!("reply {n}"));
    }
    (stage, conn, chat)
}

fn refused(stage: &mut Stage, conn: ConnId) -> String {
    let envelope = stage.actions(conn).pop().expect("an envelope");
    let reason = envelope["rejectionReason"].as_str();
    reason.unwrap_or_else(|| panic!("not refused: {envelope}")).to_owned()
}

#[test]
fn cht06_a_new_agent_gets_the_messages_and_tool_results_of_the_history() {
    let (mut stage, conn, chat) = stage(0);
    stage.start_turn(conn, &chat, "t1");
    let run = stage.run();
    for event in [
        AgentEvent::Reasoning("hm".into()),
        AgentEvent::Text("First.".into()),
        AgentEvent::EndPart,
        AgentEvent::Text("Sec".into()),
        AgentEvent::Text("ond.".into()),
    ] {
        stage.says(event);
    }
    let done = |result| Box::new(ToolStep::Done { result, review: false });
    for (call, result) in [
        ("good", ToolResult::text("Read it", "the text")),
        ("bad", ToolResult::failed("Did not read it", "no such file")),
    ] {
        stage.runs_tool(run, call);
        let call = call.to_owned();
        let step = done(result);
        stage.says_in(run, AgentEvent::Tool { call, step });
    }
    stage.asks_permission(run, "asked");
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
    stage.dispatch(conn, &chat, 1, cancel);
    stage.turn(conn, &chat, "t2", "x");
    stage.dispatch(conn, &chat, 2, json!({ "type": "chat/truncated", "turnId": "t1" }));
    let past = &stage.last_opened().history.recent[0];
    assert_eq!(past.text, "hi");
    assert_eq!(past.reply, "First.\n\nSecond.");
    assert_eq!(past.outcome, PastOutcome::Cancelled);
    let tools: Vec<_> = past
        .tools
        .iter()
        .map(|tool| (tool.call.as_str(), tool.output.as_deref(), tool.success))
        .collect();
    assert_eq!(
        tools,
        [
            ("good", Some("the text"), true),
            ("bad", Some("no such file"), false),
            ("asked", None, false)
        ]
    );
    assert_eq!(past.tools[0].name, "task");
    assert_eq!(past.tools[0].input, "{}");
}

fn attach(stage: &mut Stage, conn: ConnId, chat: &str, turn: &str, attachments: Value) {
    let mut action = stage.turn_started(turn);
    action["message"]["attachments"] = attachments;
    stage.dispatch(conn, chat, 1, action);
}

fn attached(stage: &Stage) -> Vec<Attachment> {
    match stage.agent.last() {
        Some(Effect::Agent(AgentCommand::StartTurn { start, .. })) => start.info.attachments.clone(),
        other => panic!("no turn was started: {other:?}"),
    }
}

#[test]
fn turn17_attachments_reach_the_agent_in_its_own_words() {
    let (mut stage, conn, chat) = stage(0);
    let attachments = json!([
        { "type": "simple", "label": "a", "modelRepresentation": "text" },
        { "type": "simple", "label": "b", "_meta": { "command": "fix" } },
        { "type": "embeddedResource", "label": "c", "data": "aGk=", "contentType": "text/plain" },
        { "type": "resource", "label": "d", "uri": "file:///x", "contentType": "text/x", "selection": {
            "range": { "start": { "line": 2, "character": 4 }, "end": { "line": 6, "character": 1 } } } },
        { "type": "annotations", "label": "e", "resource": "ahp-session:/one/annotations" },
    ]);
    attach(&mut stage, conn, &chat, "t", attachments);
    let [text, reference, embedded, resource, annotations] = &attached(&stage)[..] else {
        panic!("{:?}", attached(&stage));
    };
    assert!(matches!(text, Attachment::Text { label, text } if label == "a" && text == "text"));
    assert!(matches!(reference, Attachment::Reference { meta, .. } if meta["command"] == "fix"));
    assert!(matches!(embedded, Attachment::Embedded { data, .. } if data == "aGk="));
    let Attachment::Resource { uri, selection, .. } = resource else {
        panic!("{resource:?}");
    };
    assert_eq!(uri, "file:///x");
    let selected = selection.map(|selection| selection.in_words());
    assert_eq!(
        selected.as_deref(),
        Some("selected from line 3, column 5 to line 7, column 2")
    );
    assert!(matches!(annotations, Attachment::Annotations { label, .. } if label == "e"));
}

#[test]
fn a_completed_turn_reaches_the_agent_with_attachments_and_denials() {
    let message = json!({ "text": "", "origin": { "kind": "user" }, "attachments": [
        { "type": "simple", "label": "a", "modelRepresentation": "text" },
        { "type": "embeddedResource", "label": "b", "data": "aGk=", "contentType": "text/plain" },
        { "type": "embeddedResource", "label": "c", "data": "AAAA", "contentType": "image/png" },
        { "type": "resource", "label": "d", "uri": "file:///x" },
        { "type": "chat", "label": "e", "resource": "ahp-chat:/e" },
        { "type": "resource", "label": "f", "uri": "mcp-resource:/f" },
    ] });
    let denied = json!({ "kind": "toolCall", "toolCall": {
        "status": "cancelled", "toolCallId": "1", "toolName": "ring", "displayName": "Ring",
        "invocationMessage": "Rings", "reason": "denied", "reasonMessage": "the guests are asleep",
    } });
    let turn = json!({ "id": "t", "message": message, "responseParts": [denied], "state": "complete" });
    let told = innkeeper_core::past_turn(&serde_json::from_value(turn).unwrap());
    let [text, embedded, image, resource, other, of_server] = &told.attachments[..] else {
        panic!("{:?}", told.attachments);
    };
    assert!(matches!(text, Attachment::Text { text, .. } if text == "text"));
    assert!(matches!(embedded, Attachment::Text { text, .. } if text == "hi"));
    assert!(matches!(image, Attachment::Text { label, text } if label == "c" && !text.contains("AAAA")));
    assert!(matches!(resource, Attachment::Resource { uri, .. } if uri == "file:///x"));
    assert!(matches!(other, Attachment::Resource { uri, .. } if uri == "ahp-chat:/e"));
    assert!(
        matches!(of_server, Attachment::Text { label, text } if label == "f" && text.contains("no longer available"))
    );
    let refused = told.tools[0].output.as_deref().unwrap_or_default();
    assert!(refused.contains("the guests are asleep"), "{refused}");
}

/// (TURN-19)
#[test]
fn turn18_an_attached_chat_is_pinned_to_its_latest_completed_turn() {
    let (mut stage, conn, chat) = stage(2);
    let other = stage.session(conn, "ahp-session:/two");
    stage.start_turn(conn, &chat, "running");
    let running = stage.run();
    let attachment = json!([{ "type": "chat", "label": "that chat", "resource": chat }]);
    attach(&mut stage, conn, &other, "u1", attachment.clone());
    assert_eq!(
        stage.state(&other)["activeTurn"]["message"]["attachments"][0]["endTurn"],
        "t2"
    );
    let transcript = |stage: &Stage| match &attached(stage)[0] {
        Attachment::Chat { transcript, .. } => transcript.iter().map(|turn| turn.id.clone()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(transcript(&stage), ["t1", "t2"]);
    stage.ends(TurnEnd::Complete);
    let named = json!([{ "type": "chat", "label": "l", "resource": chat, "endTurn": "t1" }]);
    attach(&mut stage, conn, &other, "u2", named);
    assert_eq!(transcript(&stage), ["t1"]);
    stage.ends(TurnEnd::Complete);
    stage.ends_in(running, TurnEnd::Complete);
    // An attachment of a queued message is also pinned, when it is accepted.
    stage.start_turn(conn, &other, "u3");
    let mut queued = message("later");
    queued["attachments"] = attachment;
    let set = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": queued });
    stage.dispatch(conn, &other, 2, set);
    let busy = stage.run();
    stage.turn(conn, &chat, "t4", "x");
    stage.ends_in(busy, TurnEnd::Complete);
    assert_eq!(transcript(&stage), ["t1", "t2", "running"]);
}

#[test]
fn turn19_an_invalid_attachment_is_rejected_by_name() {
    let (mut stage, conn, chat) = stage(1);
    let empty = stage.session(conn, "ahp-session:/two");
    stage.start_turn(conn, &chat, "running");
    stage.subscribe(conn, &empty);
    stage.inbox(conn);
    for (resource, end) in [
        ("ahp-chat:/none", None),
        (SESSION, None),
        (&*chat, Some("none")),
        (&*chat, Some("running")),
        (&*empty, Some("none")),
    ] {
        let mut second = json!({ "type": "chat", "label": "l", "resource": resource });
        if let Some(end) = end {
            second["endTurn"] = json!(end);
        }
        let first = json!({ "type": "simple", "label": "a", "modelRepresentation": "text" });
        attach(&mut stage, conn, &empty, "t", json!([first, second]));
        assert!(
            refused(&mut stage, conn).contains("message.attachments[1]"),
            "{resource} {end:?}"
        );
    }
    // An empty chat adds nothing, and is no error.
    let attachment = json!([{ "type": "chat", "label": "l", "resource": empty }]);
    attach(&mut stage, conn, &empty, "t", attachment);
    assert!(matches!(&attached(&stage)[0], Attachment::Chat { transcript, .. } if transcript.is_empty()));
    assert!(
        stage.state(&empty)["activeTurn"]["message"]["attachments"][0]
            .get("endTurn")
            .is_none()
    );
}
