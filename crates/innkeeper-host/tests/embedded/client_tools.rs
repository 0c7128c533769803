//! Tools that clients execute for an agent.

use ahp_types::state::TurnState;
use innkeeper_host::agent::{Confirmation, ToolContent};
use innkeeper_testkit::embedded::{SessionFixture, calls};
use innkeeper_testkit::official::OfficialClient;
use serde_json::json;

/// Calls the first tool that a client offers, after asking if the message says so.
async fn calling() -> SessionFixture {
    SessionFixture::of(|turn, events| async move {
        let Some(tool) = turn.client_tools.first() else {
            return events.text("no client offers a tool").await;
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
    let fixture = calling().await;
    fixture.offer_tools(&fixture.client, &["open"]).await;
    fixture.begin("go").await;
    let call = fixture.call("running").await;
    assert_eq!(call["toolName"], "open");
    assert_eq!(call["toolInput"], "{\"file\":\"a\"}");
    assert_eq!(call["contributor"], json!({ "kind": "client", "clientId": "first" }));
    fixture.about(&call, complete("it is open")).await;
    assert_eq!(fixture.words().await, "true it is open");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn tool11_a_client_tool_is_confirmed_first_if_the_agent_requests_it() {
    for approved in [true, false] {
        let fixture = calling().await;
        fixture.offer_tools(&fixture.client, &["open"]).await;
        fixture.begin("ask").await;
        let call = fixture.call("pending-confirmation").await;
        fixture.decide(&call, approved).await;
        let expected = if approved {
            let call = fixture.call("running").await;
            fixture.about(&call, complete("open")).await;
            "true open"
        } else {
            "false the user denied this call and gave no reason; do not try the same again, ask or find another way"
        };
        assert_eq!(fixture.words().await, expected);
        fixture.client.assert_converged().await;
    }
}

#[tokio::test]
async fn act11_a_client_that_leaves_fails_its_call_and_the_agent_goes_on() {
    let fixture = calling().await;
    let other = OfficialClient::connect(&fixture.running.address, "second").await;
    other.join(&fixture.uris.session).await;
    fixture.offer_tools(&other, &["open"]).await;
    fixture.begin("go").await;
    fixture.call("running").await;
    let leave = json!({ "type": "session/activeClientRemoved", "clientId": "second" });
    other.dispatch(&fixture.uris.session, leave).await;
    let words = fixture.words().await;
    assert!(words.starts_with("false the client that runs open left"), "{words}");
    let turn = fixture.client.turn_end(&fixture.uris.chat, "t1").await;
    assert_eq!(turn.state, TurnState::Complete);
    let call = calls(&fixture.end().await).remove(0);
    assert_eq!(call["status"], "completed");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn act04_without_clients_there_are_no_client_tools() {
    let fixture = calling().await;
    fixture.begin("go").await;
    assert_eq!(fixture.words().await, "no client offers a tool");
}
