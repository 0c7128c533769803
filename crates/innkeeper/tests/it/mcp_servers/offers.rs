//! Prompts, resources, sampling and logs of the server "everything".

use innkeeper_testkit::official::turn_started;
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestSession};

/// Returns the completions at the end of a text.
async fn items(room: &TestSession<'_>, text: &str) -> Vec<Value> {
    let offset = text.encode_utf16().count();
    let params = json!({ "channel": room.uris.chat, "kind": "userMessage", "text": text, "offset": offset });
    let found: Value = room.client.request("completions", params).await.expect("answered");
    found["items"].as_array().expect("items").clone()
}

/// All of it.
pub(crate) async fn offers(inn: &Inn, room: &TestSession<'_>) {
    prompts(room).await;
    resources(room).await;
    sampling(room).await;
    logging(inn, room).await;
}

/// Prompts are completed and called like commands.
async fn prompts(room: &TestSession<'_>) {
    let found = items(room, "/everything").await;
    let labels: Vec<&str> = found
        .iter()
        .filter_map(|item| item["attachment"]["label"].as_str())
        .collect();
    for label in ["/everything:simple-prompt", "/everything:args-prompt"] {
        assert!(labels.contains(&label), "{label} in {labels:?}");
    }
    let words = room.say("prompt", "/everything:simple-prompt").await;
    assert!(
        words.contains("This is a simple prompt without arguments."),
        "what a model would be told: {words}"
    );
    let words = room.say("prompt-of", "/everything:args-prompt Paris").await;
    assert!(words.contains("What's weather in Paris?"), "{words}");
}

/// Resources are completed, attached and read.
async fn resources(room: &TestSession<'_>) {
    let found = items(room, "what is @everything:arch").await;
    let item = found.first().expect("the server has a document about its architecture");
    let inserted = item["insertText"].as_str().unwrap_or_default();
    assert!(inserted.starts_with("@everything:arch"), "{item}");
    let attachment = &item["attachment"];
    let read = json!({ "channel": "ahp-root://", "uri": attachment["uri"] });
    let read: Value = room.client.request("resourceRead", read).await.expect("read");
    let text = read["data"].as_str().unwrap_or_default();
    assert!(text.contains("Everything Server"), "{text}");
    let mut action = turn_started("attached", &format!("what is {inserted}"));
    action["message"]["attachments"] = json!([attachment]);
    room.client.dispatch(&room.uris.chat, action).await;
    let turn = room.client.turn_end(&room.uris.chat, "attached").await;
    assert_eq!(json!(turn.message.attachments)[0]["uri"], attachment["uri"]);
}

/// The server requests sampling; the user sees the request and allows it.
async fn sampling(room: &TestSession<'_>) {
    let ask = r#"everything trigger-sampling-request {"prompt": "Name a colour.", "maxTokens": 20}"#;
    room.begin("sampling", ask).await;
    let wait = room.client.wait_for(&room.uris.session, "chatInput").await;
    let message = wait["request"]["message"].as_str().unwrap_or_default();
    for part in ["\"everything\"", "Name a colour."] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let action = json!({ "type": "chat/inputCompleted", "requestId": wait["request"]["id"], "response": "accept" });
    room.client.dispatch(&room.uris.chat, action).await;
    let (words, _) = room.end("sampling").await;
    for part in ["LLM sampling result", "The tour guide answers"] {
        assert!(words.contains(part), "{part} in {words}");
    }
}

/// Logs of the server are in the host's log.
async fn logging(inn: &Inn, room: &TestSession<'_>) {
    let (words, _) = room.call("logging", "everything toggle-simulated-logging").await;
    assert!(words.contains("Started simulated"), "{words}");
    // It picks one of its messages by chance.
    let is_logged = |log: &str| {
        let mut lines = log.lines();
        lines.any(|line| {
            line.contains("an MCP server wrote")
                && line.contains("everything")
                && (line.contains("-level message") || line.contains("level-message"))
        })
    };
    inn.host.logged("a line of the server", is_logged).await;
    let (words, _) = room.call("logging-off", "everything toggle-simulated-logging").await;
    assert!(words.contains("Stopped simulated"), "{words}");
}
