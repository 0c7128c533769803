//! How clients see the agent's tools and calls, and how the model sees the decisions about them.

use innkeeper_testkit::model_server::Reply;
use innkeeper_testkit::official::{View, tool_calls_of, turn_started};
use serde_json::{Value, json};

use crate::customizations::harness::{AgentFixture, count};

fn offered(view: &View, session: &str) -> Vec<String> {
    let tools = view.session(session).and_then(|session| session.server_tools.clone());
    tools.unwrap_or_default().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn the_session_lists_use_skill_only_with_skills() {
    let with = AgentFixture::new()
        .skill("bake", "Bake.")
        .open([Reply::words("Yes.")])
        .await;
    let without = AgentFixture::new().open([Reply::words("Yes.")]).await;
    let has = |session: &str, tool: &str, view: &View| offered(view, session).iter().any(|name| name == tool);
    let session = &with.uris.session;
    with.client
        .until("the tool is shown", |view| has(session, "use_skill", view))
        .await;
    let session = &without.uris.session;
    without
        .client
        .until("the tools are shown", |view| has(session, "read_file", view))
        .await;
    without.run("t1", "Hello.").await;
    let shown = offered(&without.client.view(), session);
    assert!(!shown.contains(&"use_skill".to_owned()), "{shown:?}");
    let tools = without.last_asked().body["tools"].clone();
    let told: Vec<Value> = tools
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| tool["function"]["name"].clone())
        .collect();
    assert_eq!(json!(shown), json!(told), "what is shown is what the model may call");
    without.client.assert_converged().await;
}

#[tokio::test]
async fn tool19_a_call_shows_its_kind_and_subject_while_its_input_streams() {
    let fixture = AgentFixture::new();
    fixture.put("work/notes.txt", "hello");
    let script = [
        Reply::new().call("read_file", json!({ "path": "notes.txt" })),
        Reply::words("Read."),
    ];
    let harness = fixture.open(script).await;
    let turn = harness.run("t1", "Read it.").await;
    let call = tool_calls_of(&turn).remove(0);
    assert_eq!(call["_meta"], json!({ "toolKind": "read" }));
    let markdown = call["pastTenseMessage"]["markdown"].as_str().unwrap_or_default();
    assert!(markdown.starts_with("Read [notes.txt](file:///"), "{call}");
    let actions = harness.client.view().actions_on(&harness.uris.chat);
    let announced = actions
        .iter()
        .find(|action| action["type"] == "chat/toolCallDelta" && action["invocationMessage"] == "Reading `notes.txt`");
    assert!(announced.is_some(), "{actions:?}");
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn a_command_is_a_terminal_call_and_can_be_skipped() {
    let run = || Reply::new().call("run_command", json!({ "command": "true" }));
    let harness = AgentFixture::new()
        .open([run(), Reply::words("Fine."), run(), Reply::words("Fine.")])
        .await;
    for (turn, decision, expected) in [
        ("t1", json!({ "reason": "skipped" }), "the user skipped this call"),
        (
            "t2",
            json!({
                "reasonMessage": "too slow",
                "userSuggestion": {
                    "text": "look at this", "origin": { "kind": "user" },
                    "attachments": [{ "type": "simple", "label": "plan", "modelRepresentation": "first the roof" }],
                },
            }),
            "said: too slow",
        ),
    ] {
        harness
            .client
            .dispatch(&harness.uris.chat, turn_started(turn, "Run it."))
            .await;
        let chat = &harness.uris.chat;
        let asks = |view: &View| {
            let calls = view.tool_calls(chat);
            calls
                .last()
                .is_some_and(|call| call["status"] == "pending-confirmation")
        };
        harness.client.until("the command asks", asks).await;
        let call = harness.client.view().tool_calls(chat).pop().expect("a call");
        let meta = &call["_meta"];
        assert_eq!(
            (&meta["toolKind"], &meta["language"]),
            (&json!("terminal"), &json!("shellscript"))
        );
        let mut action = json!({
            "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call["toolCallId"], "approved": false,
        });
        for (field, value) in decision.as_object().expect("fields") {
            action[field] = value.clone();
        }
        harness.client.dispatch(chat, action).await;
        harness.client.turn_end(chat, turn).await;
        let asked = harness.last_asked();
        assert_eq!(count(&asked, expected), 1, "{:?}", asked.said());
        if turn == "t2" {
            for told in ["look at this", "first the roof"] {
                assert_eq!(count(&asked, told), 1, "{:?}", asked.said());
            }
        }
    }
    harness.client.assert_converged().await;
}
