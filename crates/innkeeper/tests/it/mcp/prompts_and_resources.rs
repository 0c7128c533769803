//! Prompts and resources end to end: completions, turns, and misbehaving servers.

use innkeeper_testkit::model_server::{ModelServer, Reply, Script};
use innkeeper_testkit::official::turn_started;
use serde_json::{Value, json};

use crate::mcp::support::McpHost;

impl McpHost {
    async fn items(&self, text: &str) -> Vec<Value> {
        let offset = text.encode_utf16().count();
        let params = json!({ "channel": self.uris.chat, "kind": "userMessage", "text": text, "offset": offset });
        let found: Value = self.client.request("completions", params).await.expect("answered");
        found["items"].as_array().expect("items").clone()
    }

    async fn labels(&self, text: &str) -> Vec<String> {
        let items = self.items(text).await.into_iter();
        let label = |item: Value| item["attachment"]["label"].as_str().expect("a label").to_owned();
        items.map(label).collect()
    }

    /// Says something with an attachment.
    async fn attach(&self, turn: &str, text: &str, attachment: &Value) {
        let mut action = turn_started(turn, text);
        action["message"]["attachments"] = json!([attachment]);
        self.client.dispatch(&self.uris.chat, action).await;
        self.client.turn_end(&self.uris.chat, turn).await;
    }

    /// The error that a turn ended with.
    async fn error(&self, turn: &str, text: &str) -> String {
        let turn = self.client.run_turn(&self.uris.chat, turn, text).await;
        let last = json!(turn.response_parts.last());
        last["error"]["message"].as_str().expect("an error").to_owned()
    }
}

#[tokio::test]
async fn mcp12_a_prompt_of_a_real_server_is_completed_and_sent_to_the_model() {
    let model = ModelServer::start(Script::by(|_| Reply::words("Hello, Ada."))).await;
    let scene = McpHost::ready_with_model("plain", &model).await;
    let labels = scene.labels("/odd").await;
    assert_eq!(labels, ["/odd:welcome", "/odd:wait", "/odd:refuse", "/odd:big"]);
    assert_eq!(scene.say("t1", "/odd:welcome Ada").await, "Hello, Ada.");
    let asked = model.requests().pop().expect("something was asked").body.to_string();
    assert!(asked.contains("Say hello to Ada."), "{asked}");
    assert!(asked.contains("Assistant:\\nGladly."), "{asked}");
    assert!(
        asked.contains("/odd:welcome Ada"),
        "the user's own words as well: {asked}"
    );
    let turn = scene.client.turn_end(&scene.uris.chat, "t1").await;
    assert_eq!(
        turn.message.text, "/odd:welcome Ada",
        "users see the message that they typed"
    );
    // Two megabytes are not.
    scene.say("t2", "/odd:big").await;
    let asked = model.requests().pop().expect("something was asked").body.to_string();
    assert!(asked.len() < 1 << 20 && asked.contains("more bytes]"));
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_a_resource_of_a_real_server_is_attached_and_sent_to_the_model() {
    let model = ModelServer::start(Script::by(|_| Reply::words("I see."))).await;
    let scene = McpHost::ready_with_model("plain", &model).await;
    let item = scene.items("what is @odd:on").await.remove(0);
    assert_eq!(item["insertText"], "@odd:one");
    let attachment = &item["attachment"];
    scene.attach("t1", "what is @odd:one", attachment).await;
    let asked = model.requests().pop().expect("something was asked").body.to_string();
    assert!(asked.contains("<attachment label=\\\"one\\\">\\nwords\\n"), "{asked}");
    let params = json!({ "channel": "ahp-root://", "uri": attachment["uri"] });
    let read: Value = scene
        .client
        .request("resourceRead", params.clone())
        .await
        .expect("read");
    assert_eq!(read, json!({ "data": "words", "encoding": "utf-8" }));
    let resolved: Value = scene.client.request("resourceResolve", params).await.expect("known");
    assert_eq!(resolved["type"], "file");
    scene.switch(false).await;
    scene.server_is("stopped").await;
    scene.attach("t2", "and now?", attachment).await;
    let asked = model.requests().pop().expect("something was asked").body.to_string();
    assert!(asked.contains("offers it any more"), "{asked}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn t15_f17_a_server_that_refuses_or_never_answers_ends_only_the_turn() {
    let scene = McpHost::ready("plain").await;
    let refused = scene.error("t1", "/odd:refuse").await;
    assert!(
        refused.contains("no prompt with") && !refused.contains("s3cr3t"),
        "{refused}"
    );
    // One that never answers can be cancelled.
    scene.client.start_turn(&scene.uris.chat, "t2", "/odd:wait").await;
    let chat = &scene.uris.chat;
    let asks = |view: &innkeeper_testkit::official::View| {
        let activity = view.chat(chat).and_then(|chat| chat.activity.as_deref());
        activity == Some("Asking odd for odd:wait")
    };
    scene.client.until("the server is asked", asks).await;
    scene.client.cancel_turn(chat, "t2").await;
    let words = scene.say("t3", "/odd:welcome Ada").await;
    assert!(words.contains("Say hello to Ada."), "{words}");
    // The server is stopped: nothing is offered, and who calls it hears why.
    scene.demand("Stop").await;
    scene.server_is("stopped").await;
    assert_eq!(scene.labels("/odd").await, Vec::<String>::new());
    let stopped = scene.error("t4", "/odd:welcome Ada").await;
    assert!(stopped.contains("is not ready: it is stopped."), "{stopped}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn cmp01_a_silent_server_does_not_block_completions() {
    let scene = McpHost::ready("mute").await;
    let labels = scene.labels("/m").await;
    assert_eq!(labels, ["/mcp"], "the guide's own commands are there");
    std::fs::write(scene.workspace().join("one.txt"), "x").expect("written");
    let labels = scene.labels("see @one").await;
    assert_eq!(labels, ["one.txt"]);
}

#[tokio::test]
async fn mcp17_prompts_that_change_are_followed() {
    let scene = McpHost::ready("new-prompts").await;
    let before = scene.labels("/odd:list").await;
    assert_eq!(scene.labels("/odd:list").await, before, "nothing is fetched twice");
    let words = scene.say("t1", &before[0]).await;
    assert!(words.contains("A model would be told:"), "{words}");
    // It said that it has others now.
    while scene.labels("/odd:list").await == before {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn p12_the_guide_lists_servers_with_their_status_and_tools() {
    let scene = McpHost::start_without_questions("plain").await;
    scene.server_is("error").await;
    let words = scene.say("t1", "/mcp").await;
    assert!(
        words.contains("**odd** is not ready:") && words.contains("innkeeper trust allow"),
        "{words}"
    );
    scene.allow();
    scene.server_is("ready").await;
    let words = scene.say("t2", "/mcp").await;
    for line in [
        "- `/odd:welcome <who>`: Greet: Says hello.",
        "- `odd://one` to read: one",
    ] {
        assert!(words.contains(line), "{line} in {words}");
    }
    let words = scene.say("t3", "/mcp odd read odd://one").await;
    assert!(words.contains("It says:\n\nwords"), "{words}");
    let words = scene.say("t4", r#"/mcp odd prompt welcome {"who": "Bob"}"#).await;
    assert!(words.contains("Say hello to Bob."), "{words}");
    let before = scene.history();
    scene.call("t5", "odd die").await;
    scene.was("not ready", before, |state| state["kind"] != "ready").await;
    // The server restarts by itself, perhaps already; its last output is not shown.
    let words = scene.say("t6", "/mcp").await;
    assert!(words.contains("**odd**") && !words.contains("s3cr3t"), "{words}");
    scene.client.assert_converged().await;
}
