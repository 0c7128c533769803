//! The server "everything" of the npm registry, over every transport.

use serde_json::{Value, json};

use crate::mcp_servers::offers::offers;
use crate::mcp_servers::support::{Inn, TestDirectory, TestSession, options};
use innkeeper_testkit::npm_servers::{NpmServer, package, servers};

/// Waits until the guide lists something; what a server has may change after it is ready.
async fn listed(room: &TestSession<'_>, what: &str) -> String {
    for attempt in 0.. {
        let list = room.say(&format!("list-{what}-{attempt}"), "/mcp").await;
        if list.contains(what) {
            return list;
        }
        assert!(attempt < 300, "{what} is not in {list}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    String::new()
}

async fn everything(declared: Value) {
    let options = options().flags(&["--log", "debug"]);
    let inn = Inn::open_with(TestDirectory::new(), json!({ "everything": declared }), options).await;
    let room = inn.ready_room("everything", "everything").await;
    // Some tools depend on the capabilities of the client: the server reports a changed list.
    let list = listed(&room, "trigger-elicitation-request").await;
    assert!(list.contains("**everything**") && list.contains("- `echo`"), "{list}");

    let (words, call) = room.call("echo", r#"everything echo {"message": "hi"}"#).await;
    assert!(words.contains("Echo: hi"), "{words}");
    assert_eq!(call["toolName"], "everything__echo");
    assert_eq!(call["contributor"]["customizationId"], room.server("everything")["id"]);
    let (words, _) = room.call("sum", r#"everything get-sum {"a": 2, "b": 3}"#).await;
    assert!(words.contains('5'), "{words}");
    let weather = r#"everything get-structured-content {"location": "New York"}"#;
    let (_, call) = room.call("structured", weather).await;
    assert!(call["structuredContent"]["temperature"].is_number(), "{call}");
    let (_, call) = room.call("image", "everything get-tiny-image").await;
    let pieces = call["content"].as_array().expect("content");
    let is_image = |piece: &&Value| piece["contentType"] == "image/png";
    assert!(pieces.iter().any(|piece| is_image(&piece)), "{call}");
    let (words, _) = room.call("roots", "everything get-roots-list").await;
    assert!(words.contains(&inn.place.uri()), "{words}");

    progress(&room).await;
    cancel(&room).await;
    elicitation(&room).await;
    offers(&inn, &room).await;
    room.client.assert_converged().await;
}

/// The progress of a call is shown on it.
async fn progress(room: &TestSession<'_>) {
    let long = r#"everything trigger-long-running-operation {"duration": 1, "steps": 4}"#;
    let (words, _) = room.call("progress", long).await;
    assert!(words.contains("completed"), "{words}");
    let actions = room.client.view().actions_on(&room.uris.chat);
    let is_report =
        |action: &&Value| action["type"] == "chat/toolCallContentChanged" && action.to_string().contains(" of 4");
    assert!(actions.iter().any(|action| is_report(&action)), "{actions:?}");
}

/// A turn that is cancelled ends although its call would go on for minutes, and the next one finds the server well.
async fn cancel(room: &TestSession<'_>) {
    let long = r#"everything trigger-long-running-operation {"duration": 600, "steps": 2}"#;
    room.begin("cancelled", long).await;
    room.client.call_in(&room.uris.chat, "running").await;
    let action = json!({ "type": "chat/turnCancelled", "turnId": "cancelled", "duration": 0 });
    room.client.dispatch(&room.uris.chat, action).await;
    let (_, call) = room.end("cancelled").await;
    assert_ne!(call["status"], "running", "{call}");
    let (words, _) = room.call("after", r#"everything echo {"message": "still here"}"#).await;
    assert!(words.contains("Echo: still here"), "{words}");
}

/// An elicitation is a question of the session, and the call continues with the answer.
async fn elicitation(room: &TestSession<'_>) {
    room.begin("asks", "everything trigger-elicitation-request").await;
    let wait = room.client.wait_for(&room.uris.session, "chatInput").await;
    let request = &wait["request"];
    let message = request["message"].as_str().unwrap_or_default();
    assert!(message.contains("\"everything\" asks"), "{request}");
    let questions = request["questions"].as_array().expect("questions");
    assert!(questions.iter().any(|question| question["id"] == "name"), "{request}");
    let name = json!({ "state": "submitted", "value": { "kind": "text", "value": "Ada" } });
    let action = json!({
        "type": "chat/inputCompleted", "requestId": request["id"], "response": "accept", "answers": { "name": name },
    });
    room.client.dispatch(&room.uris.chat, action).await;
    let (words, _) = room.end("asks").await;
    assert!(words.contains("Ada"), "{words}");
}

#[tokio::test]
async fn mcp12_everything_over_pipes() {
    let Some(program) = package("server-everything") else {
        return;
    };
    everything(json!({ "command": "node", "args": [program, "stdio"] })).await;
}

#[tokio::test]
async fn mcp12_everything_over_streamable_http() {
    let Some(program) = package("server-everything") else {
        return;
    };
    let beside = NpmServer::start(&program, Some("streamableHttp")).await;
    everything(json!({ "type": "http", "url": beside.url("/mcp") })).await;
}

#[tokio::test]
async fn f3_a_server_behind_an_address_may_go_and_come_back() {
    let Some(program) = package("server-everything") else {
        return;
    };
    let mut beside = NpmServer::start(&program, Some("streamableHttp")).await;
    let declared = json!({ "type": "http", "url": beside.url("/mcp") });
    let inn = Inn::open(TestDirectory::new(), json!({ "everything": declared })).await;
    let room = inn.ready_room("gone", "everything").await;
    let long = r#"everything trigger-long-running-operation {"duration": 600, "steps": 2}"#;
    room.begin("t1", long).await;
    room.client.call_in(&room.uris.chat, "running").await;
    beside.leave().await;
    let (words, call) = room.end("t1").await;
    assert!(
        words.contains("It failed:") && words.contains("cannot be reached"),
        "{words}"
    );
    assert_eq!(call["success"], false, "{call}");
    let shown = room.server_is("everything", "error").await;
    let why = shown["state"]["error"]["message"].as_str().expect("a reason");
    assert!(why.contains(&beside.url("")) && why.contains("again in"), "{why}");
    assert!(!why.contains("/mcp"), "a path may hold a key: {why}");
    // Another life of it, which knows nothing of what the first one was asked.
    let _beside = beside.again(&program, Some("streamableHttp")).await;
    room.server_is("everything", "ready").await;
    let (words, _) = room.call("t2", r#"everything echo {"message": "back"}"#).await;
    assert!(words.contains("Echo: back"), "{words}");
    room.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_everything_over_the_older_transport() {
    let Some(program) = package("server-everything") else {
        return;
    };
    let beside = NpmServer::start(&program, Some("sse")).await;
    everything(json!({ "type": "sse", "url": beside.url("/sse") })).await;
}

#[tokio::test]
async fn a_server_of_2026_on_the_official_sdk() {
    let Some(folder) = servers() else { return };
    let program = folder.join("modern.mjs");
    let inn = Inn::open(
        TestDirectory::new(),
        json!({ "modern": { "command": "node", "args": [program] } }),
    )
    .await;
    let room = inn.ready_room("modern", "modern").await;
    let (words, _) = room.call("add", r#"modern add {"a": 1, "b": 2}"#).await;
    assert!(words.contains('3'), "{words}");
    // In this revision the question is part of the answer, and the call is made once more.
    room.begin("greet", "modern greet").await;
    let wait = room.client.wait_for(&room.uris.session, "chatInput").await;
    let name = json!({ "state": "submitted", "value": { "kind": "text", "value": "Ada" } });
    let action = json!({
        "type": "chat/inputCompleted", "requestId": wait["request"]["id"], "response": "accept",
        "answers": { "name": name },
    });
    room.client.dispatch(&room.uris.chat, action).await;
    let (words, _) = room.end("greet").await;
    assert!(words.contains("Hello, Ada!"), "{words}");
    room.call("grow", "modern grow").await;
    listed(&room, "`grown`").await;
    room.client.assert_converged().await;
}
