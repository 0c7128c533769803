//! Sampling: the user allows it, the session's model responds, and the turn counts the usage.

use innkeeper_testkit::model_server::{ModelServer, Reply, Script};
use serde_json::{Value, json};

use crate::mcp::support::McpHost;

/// Returns the sampling request as the input of the tool.
fn wish() -> Value {
    json!({
        "systemPrompt": "Be brief.",
        "messages": [{ "role": "user", "content": { "type": "text", "text": "Name a colour." } }],
        "maxTokens": 20,
        "temperature": 0.5,
        "stopSequences": ["."],
    })
}

impl McpHost {
    /// Approves a tool call that samples, and returns the question for the user.
    async fn wishes(&self, turn: &str) -> Value {
        let text = format!("/mcp odd sample {}", wish());
        self.client.start_turn(&self.uris.chat, turn, &text).await;
        self.allow_call().await;
        self.client.wait_for(&self.uris.session, "chatInput").await
    }

    async fn allow_call(&self) {
        let wait = self.client.wait_for(&self.uris.session, "toolConfirmation").await;
        self.client.decide(&wait, json!({ "approved": true })).await;
    }

    async fn reply(&self, wait: &Value, response: &str, remember: bool) {
        let value = json!({ "kind": "boolean", "value": remember });
        let answers = json!({ "remember": { "state": "submitted", "value": value } });
        let action = json!({
            "type": "chat/inputCompleted", "requestId": wait["request"]["id"], "response": response, "answers": answers,
        });
        self.client.dispatch(&self.uris.chat, action).await;
    }
}

#[tokio::test]
async fn mcp12_sampling_shows_the_request_and_can_be_allowed_for_the_session() {
    let scene = McpHost::ready("plain").await;
    let wait = scene.wishes("t1").await;
    let message = wait["request"]["message"].as_str().expect("words");
    for part in ["\"odd\"", "at most 20 tokens", "> Be brief.", "> Name a colour."] {
        assert!(message.contains(part), "{part} in {message}");
    }
    scene.reply(&wait, "accept", true).await;
    let answer = scene.ending("t1").await;
    for part in ["The tour guide answers", "Name a colour.", "assistant", "endTurn"] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
    // No question is asked any more, until the server is another one.
    let answer = scene.call("t2", &format!("odd sample {}", wish())).await;
    assert!(answer.contains("The tour guide answers"), "{answer}");
    scene.demand("Stop").await;
    scene.server_is("stopped").await;
    scene.demand("Start").await;
    scene.server_is("ready").await;
    let wait = scene.wishes("t3").await;
    scene.reply(&wait, "accept", false).await;
    scene.ending("t3").await;
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_sampling_ignores_tool_approvals_and_a_denial_is_an_error() {
    let scene = McpHost::ready("plain").await;
    let allow_all = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    scene.client.dispatch(&scene.uris.session, allow_all).await;
    let text = format!("/mcp odd sample {}", wish());
    scene.client.start_turn(&scene.uris.chat, "t1", &text).await;
    let wait = scene.client.wait_for(&scene.uris.session, "chatInput").await;
    scene.reply(&wait, "decline", true).await;
    let answer = scene.ending("t1").await;
    assert!(answer.contains("-1") && answer.contains("User rejected"), "{answer}");
    // Invalid requests are rejected before the user is asked.
    let odd = json!({ "messages": [], "maxTokens": 1 });
    let answer = scene.say("t2", &format!("/mcp odd sample {odd}")).await;
    assert!(
        answer.contains("-32602") && answer.contains("between 1 and"),
        "{answer}"
    );
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_sampling_the_session_s_model_answers_and_the_turn_pays_for_it() {
    let script = Script::by(|asked| match (asked.tools().is_empty(), asked.last_results().first()) {
        (true, _) => Reply::words("Blue. Or red.").usage(7, 2, 0),
        (false, None) => Reply::new().call("odd__sample", wish()).usage(100, 10, 0),
        (false, Some(_)) => Reply::words("Done.").usage(200, 20, 0),
    });
    let model = ModelServer::start(script).await;
    let scene = McpHost::ready_with_model("plain", &model).await;
    scene.client.start_turn(&scene.uris.chat, "t1", "Ask.").await;
    scene.allow_call().await;
    let wait = scene.client.wait_for(&scene.uris.session, "chatInput").await;
    assert_eq!(model.requests().len(), 1, "no request is sent before a user allows it");
    scene.reply(&wait, "accept", false).await;
    assert_eq!(scene.ending("t1").await, "Done.");
    let asked = model.requests();
    let [_, sampled, told] = asked.as_slice() else {
        panic!("{} requests", asked.len());
    };
    assert_eq!(sampled.system(), "Be brief.");
    assert_eq!(sampled.last_words().as_deref(), Some("Name a colour."));
    assert_eq!(sampled.body["temperature"], 0.5);
    let results = told.last_results().join("");
    for part in ["\"text\":\"Blue\"", "\"model\":\"scripted\"", "stopSequence"] {
        assert!(results.contains(part), "{part} in {results}");
    }
    let turn = scene.client.turn_end(&scene.uris.chat, "t1").await;
    let usage = serde_json::to_value(&turn.usage).expect("JSON");
    // Of an answer that ended early the provider says nothing, so that it is counted here.
    assert!(usage["inputTokens"].as_u64() > Some(300), "{usage}");
    assert!(usage["outputTokens"].as_u64() > Some(30), "{usage}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_sampling_a_cancelled_turn_cancels_sampling() {
    let script = Script::by(|asked| match asked.tools().is_empty() {
        true => Reply::words("Bl").stall(),
        false => Reply::new().call("odd__sample", wish()),
    });
    let model = ModelServer::start(script).await;
    let scene = McpHost::ready_with_model("plain", &model).await;
    scene.client.start_turn(&scene.uris.chat, "t1", "Ask.").await;
    scene.allow_call().await;
    let wait = scene.client.wait_for(&scene.uris.session, "chatInput").await;
    scene.reply(&wait, "accept", false).await;
    model.until_asked(2).await;
    scene.client.cancel_turn(&scene.uris.chat, "t1").await;
    scene.client.at_rest(&scene.uris.chat).await;
    model.until_hung_up(1).await;
    scene.client.assert_converged().await;
}
