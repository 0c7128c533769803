//! Behaviour of real servers: ordered forms, numbers with many digits, colours in error output, secrets in logs.

use innkeeper_testkit::model_server::{ModelServer, Reply, Script};
use innkeeper_testkit::official::tool_calls_of;
use serde_json::{Value, json};

use crate::mcp::support::{McpHost, options};

#[tokio::test]
async fn inp07_a_form_is_shown_unchanged_and_omitted_fields_get_their_default() {
    let scene = McpHost::ready("wild").await;
    scene
        .client
        .start_turn(&scene.uris.chat, "t1", "/mcp odd form {}")
        .await;
    let wait = scene.client.wait_for(&scene.uris.session, "toolConfirmation").await;
    scene.client.decide(&wait, json!({ "approved": true })).await;
    let wait = scene.client.wait_for(&scene.uris.session, "chatInput").await;
    let questions = wait["request"]["questions"].as_array().expect("questions");
    let ids: Vec<&Value> = questions.iter().map(|question| &question["id"]).collect();
    assert_eq!(ids, ["room", "nights", "extras"]);
    assert_eq!(
        questions[0]["options"],
        json!([
            { "id": "g", "label": "Garden", "description": "Quiet.", "recommended": true },
            { "id": "s", "label": "Street", "recommended": true },
        ])
    );
    assert_eq!(
        (
            &questions[1]["min"],
            &questions[1]["max"],
            &questions[1]["defaultValue"]
        ),
        (&json!(1.0), &json!(7.0), &json!(2.0))
    );
    let answer = json!({ "state": "submitted", "value": { "kind": "text", "value": "Tea." } });
    let action = json!({
        "type": "chat/inputCompleted", "requestId": wait["request"]["id"], "response": "accept",
        "answers": { "extras": answer },
    });
    scene.client.dispatch(&scene.uris.chat, action).await;
    let words = scene.ending("t1").await;
    let told = r#"{"action":"accept","content":{"room":"s","nights":2,"extras":"Tea."}}"#;
    assert!(words.contains(told), "{words}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_numbers_reach_server_and_model_digit_by_digit() {
    let written = r#"{"z": 123456789012345678901234567890, "a": 110000.00000000001, "m": 1.10}"#;
    let compact = written.replace(' ', "");
    let script = Script::by(|asked| match asked.last_results().first() {
        None if asked.body.to_string().contains("Digits.") => Reply::new().call("odd__digits", json!({})),
        None => Reply::new().call_with_text(
            "odd__line",
            r#"{"z": 123456789012345678901234567890, "a": 110000.00000000001, "m": 1.10}"#,
        ),
        Some(_) => Reply::words("Done."),
    });
    let model = ModelServer::start(script).await;
    let scene = McpHost::ready_with_model("wild", &model).await;
    assert_eq!(scene.approve("t1", "Count.").await, "Done.");
    assert_eq!(scene.approve("t2", "Digits.").await, "Done.");
    let told = model.requests().pop().expect("something was asked").last_results();
    assert_eq!(told, [r#"{"z":123456789012345678901234567890,"a":110000.00000000001}"#]);
    let turn = scene.client.turn_end(&scene.uris.chat, "t1").await;
    let call = tool_calls_of(&turn).remove(0);
    assert_eq!(call["toolInput"], json!(compact), "users see the input that is sent");
    let sent = call["content"][0]["text"].as_str().expect("text");
    assert!(sent.contains(&format!(r#""arguments":{compact}"#)), "{sent}");
    let turn = scene.client.turn_end(&scene.uris.chat, "t2").await;
    let call = tool_calls_of(&turn).remove(0);
    let structured = call["structuredContent"].as_object().expect("an object");
    assert_eq!(
        structured.keys().collect::<Vec<_>>(),
        ["z", "a"],
        "in the server's order"
    );
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn res03_a_resource_link_is_one_part_and_one_line_for_the_model() {
    let script = Script::by(|asked| match asked.last_results().first() {
        None => Reply::new().call("odd__link", json!({})),
        Some(_) => Reply::words("Done."),
    });
    let model = ModelServer::start(script).await;
    let scene = McpHost::ready_with_model("wild", &model).await;
    assert_eq!(scene.approve("t1", "Link.").await, "Done.");
    let told = model.requests().pop().expect("something was asked").last_results();
    assert_eq!(
        told,
        ["[The one: All of it.; a resource of the server (text/plain): odd://one]"]
    );
    let turn = scene.client.turn_end(&scene.uris.chat, "t1").await;
    let content = tool_calls_of(&turn).remove(0)["content"].clone();
    let uri = content[0]["uri"].as_str().expect("a URI").to_owned();
    assert!(uri.starts_with("mcp-resource:/"), "{uri}");
    let reference = json!({ "type": "resource", "uri": uri, "contentType": "text/plain" });
    assert_eq!(content, json!([reference]), "one part and no text beside it");
    let params = json!({ "channel": "ahp-root://", "uri": uri });
    let read: Value = scene.client.request("resourceRead", params).await.expect("read");
    assert_eq!(read["data"], "words");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_task_and_app_tools_are_not_counted_and_the_list_says_why() {
    let scene = McpHost::ready("wild").await;
    let meta = scene.server()["_meta"].clone();
    // The plain ones, four more, and one that is for models only; not the one for views.
    let count = innkeeper_testkit::misbehaving_server::PLAIN_TOOLS.len() + 4 + 1;
    assert_eq!(meta["innkeeper.tools"], json!(count));
    assert_eq!(meta["innkeeper.taskTools"], json!(["research"]));
    let listed = scene.say("t1", "/mcp").await;
    assert!(
        listed.contains("`research` is not offered: it can be called only as a task"),
        "{listed}"
    );
    let words = scene.say("t2", "/mcp odd research {}").await;
    assert!(
        words.contains("No MCP server `odd` with a tool `research` is ready"),
        "{words}"
    );
}

#[tokio::test]
async fn t15_error_output_of_servers_is_sanitized() {
    let script = r"printf '\033[31mred\033]0;title\007 with k3y-in-args\n' >&2; exit 3";
    let servers = json!({
        "colourful": { "command": "/bin/sh", "args": ["-c", script, "--api-key=k3y-in-args"] },
        "gone": { "command": "/k3y-in-path/no-such-program" },
        "far": { "type": "http", "url": "http://127.0.0.1:1/k3y-in-url/mcp" },
    });
    let scene = McpHost::declaring(&servers, options()).await;
    let message = async |name: &str, part: &str| {
        let failed = |state: &Value| {
            let message = state["error"]["message"].as_str().unwrap_or_default();
            message.contains(part)
        };
        let state = scene.was(&format!("{name} in error"), 0, failed).await;
        state["error"]["message"].as_str().expect("a sentence").to_owned()
    };
    let coloured = message("colourful", "It last wrote").await;
    assert!(coloured.contains("red with [hidden]"), "{coloured:?}");
    let gone = message("gone", "was not found").await;
    assert!(gone.contains("`no-such-program`"), "{gone:?}");
    let far = message("far", "cannot be reached").await;
    assert!(far.contains("the server at http://127.0.0.1:1 cannot"), "{far:?}");
    for shown in [coloured, gone, far] {
        assert!(!shown.contains("k3y") && !shown.contains('\u{1b}'), "{shown:?}");
    }
    let stopped = scene.host.stop().await;
    assert!(
        stopped.log.contains("/k3y-in-path/no-such-program"),
        "the log has all of it"
    );
}
