//! Requests that the tour agent answers: completions, values of settings, tokens, progress.

use innkeeper_agents::tour::TourAgent;
use innkeeper_host::Host;
use innkeeper_testkit::embedded::Running;
use serde_json::{Value, json};

use super::tour;

#[tokio::test]
async fn cmp06_values_of_a_setting_are_found_by_prefix() {
    let fixture = tour().await;
    let params = json!({
        "channel": "ahp-root://", "provider": "tour", "property": "topic", "query": "RI", "config": {},
    });
    let topics: Value = fixture
        .client
        .request("sessionConfigCompletions", params)
        .await
        .expect("found");
    let topics: Vec<&str> = topics["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|item| item["value"].as_str())
        .collect();
    assert_eq!(topics, ["bridges", "rivers"]);
}

#[tokio::test]
async fn cmp01_the_commands_of_an_agent_complete_a_message() {
    let fixture = tour().await;
    let params = json!({ "channel": fixture.uris.chat, "kind": "userMessage", "text": "/conf", "offset": 5 });
    let found: Value = fixture.client.request("completions", params).await.expect("found");
    assert_eq!(found["items"][0]["insertText"], "/confirm ");
}

/// (AUTH-04, AUTH-12)
#[tokio::test]
async fn tool15_an_mcp_tool_call_continues_after_a_sign_in() {
    let fixture = tour().await;
    fixture.begin("/auth").await;
    fixture.call("auth-required").await;
    let params = json!({
        "channel": "ahp-root://", "resource": "https://guest-book.example.com", "token": "very-secret",
    });
    let _: Value = fixture.client.request("authenticate", params).await.expect("taken");
    let words = fixture.words().await;
    assert!(words.contains("forgotten the token"), "{words}");
    let seen = format!("{:?}", fixture.client.view().actions);
    assert!(!seen.contains("very-secret"), "a token is never shown");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn tool15_giving_up_signing_in_ends_the_call() {
    let fixture = tour().await;
    fixture.begin("/auth").await;
    let call = fixture.call("auth-required").await;
    let result = json!({ "success": false, "pastTenseMessage": "Gave up" });
    fixture
        .about(&call, json!({ "type": "chat/toolCallComplete", "result": result }))
        .await;
    assert_eq!(fixture.words().await, "Then the guest book stays locked.");
    fixture.client.assert_converged().await;
}

/// Creating a session reports its progress to the requesting client (ROOT-17, ROOT-18).
#[tokio::test]
async fn root17_an_agent_reports_progress_while_it_opens() {
    let running = Running::start(Host::builder().agent(TourAgent::new())).await;
    let mut client = innkeeper_testkit::raw::RawClient::initialized(&running.address, "first").await;
    let params = json!({ "channel": "ahp-session:/lamps", "progressToken": "p1" });
    client.ask("createSession", params).await;
    let progress = client
        .notification("progress", |message| message["method"] == "root/progress")
        .await;
    assert_eq!(progress["params"]["progressToken"], "p1");
    assert_eq!(progress["params"]["message"], "Lighting the lamps");
}
