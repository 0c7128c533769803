//! Tools that clients execute for an agent.

use ahp_types::state::TurnState;
use innkeeper_host::agent::{Confirmation, ToolContent};
use innkeeper_testkit::embedded::{Scene, calls};
use innkeeper_testkit::official::OfficialClient;
use serde_json::json;

/// Calls the first tool that a client offers, after asking if the message says so.
async fn calling() -> Scene {
    Scene::of(|turn, events| async move {
        let Some(tool) = turn.client_tools.first() else {
            return events.text("nobody offers a tool").await;
        };
        let result = if turn.text == "ask" {
            let call = events.client_tool(tool).intention("See it");
            call.confirm(Confirmation::default()).run("{\"file\":\"a\"}").await?
        } else {
            events.call_client_tool(tool, "{\"file\":\"a\"}").await?
        };
        let text = match result.content.first() {
            Some(ToolContent::Text(text)) => text.clone(),
            _ => result.error.clone().unwrap_or_default(),
        };
        events.text(format!("{} {text}", result.success)).await
    })
    .await
}

fn complete(text: &str) -> serde_json::Value {
    let content = json!([{ "type": "text", "text": text }]);
    let result = json!({ "success": true, "pastTenseMessage": "Opened it", "content": content });
    json!({ "type": "chat/toolCallComplete", "result": result })
}

#[tokio::test]
async fn tool11_a_client_executes_its_tool_and_the_agent_gets_the_result() {
    let scene = calling().await;
    scene.offer_tools(&scene.client, &["open"]).await;
    scene.begin("go").await;
    let call = scene.call("running").await;
    assert_eq!(call["toolName"], "open");
    assert_eq!(call["toolInput"], "{\"file\":\"a\"}");
    assert_eq!(call["contributor"], json!({ "kind": "client", "clientId": "first" }));
    scene.about(&call, complete("it is open")).await;
    assert_eq!(scene.words().await, "true it is open");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn tool11_people_are_asked_first_when_the_agent_says_so() {
    for approved in [true, false] {
        let scene = calling().await;
        scene.offer_tools(&scene.client, &["open"]).await;
        scene.begin("ask").await;
        let call = scene.call("pending-confirmation").await;
        scene.decide(&call, approved).await;
        let expected = if approved {
            let call = scene.call("running").await;
            scene.about(&call, complete("open")).await;
            "true open"
        } else {
            "false the person denied this call and gave no reason; do not try the same again, ask or find another way"
        };
        assert_eq!(scene.words().await, expected);
        scene.client.assert_converged().await;
    }
}

#[tokio::test]
async fn act11_a_client_that_leaves_fails_its_call_and_the_agent_goes_on() {
    let scene = calling().await;
    let other = OfficialClient::connect(&scene.running.address, "second").await;
    other.join(&scene.uris.session).await;
    scene.offer_tools(&other, &["open"]).await;
    scene.begin("go").await;
    scene.call("running").await;
    let leave = json!({ "type": "session/activeClientRemoved", "clientId": "second" });
    other.dispatch(&scene.uris.session, leave).await;
    let words = scene.words().await;
    assert!(words.starts_with("false the client that runs open left"), "{words}");
    let turn = scene.client.turn_end(&scene.uris.chat, "t1").await;
    assert_eq!(turn.state, TurnState::Complete);
    let call = calls(&scene.end().await).remove(0);
    assert_eq!(call["status"], "completed");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn act04_without_clients_there_are_no_client_tools() {
    let scene = calling().await;
    scene.begin("go").await;
    assert_eq!(scene.words().await, "nobody offers a tool");
}
