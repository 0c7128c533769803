//! File changes in the state: snapshots of both sides, under URIs with the path of the file.

use innkeeper_testkit::model_server::{Api, ConversationPart, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, tool_calls_of};
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::model::support::{Setup, Stage};

/// A name with everything in it that a URI has to encode.
const NAME: &str = "gr\u{fc}n b#1?100%.txt";
const ENCODED: &str = "gr%C3%BCn%20b%231%3F100%25.txt";

/// Rewrites the file in every turn, with the text of the last message.
fn write(asked: &ReceivedRequest) -> Reply {
    match asked.said().last() {
        Some(ConversationPart::User(words)) => {
            Reply::new().call("write_file", json!({ "path": NAME, "content": words }))
        }
        _ => Reply::words("Done."),
    }
}

async fn stage() -> Stage {
    Setup::new(Api::Chat).stage(Script::by(write)).await
}

/// Reads what a side of a change refers to, and checks the shape of the reference.
async fn content(client: &OfficialClient, side: &Value) -> String {
    let uri = side["content"]["uri"].as_str().expect("a content URI");
    let (id, path) = uri
        .strip_prefix("innkeeper-content://")
        .and_then(|rest| rest.split_once('/'))
        .expect(uri);
    let is_id = |id: &str| !id.is_empty() && id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='z' | '-'));
    assert!(is_id(id) && !uri.contains(['?', '#']), "{uri}");
    let file = side["uri"].as_str().and_then(|uri| uri.strip_prefix("file:///"));
    assert_eq!(Some(path), file, "the path is that of the file");
    assert!(path.ends_with(ENCODED), "{path}");
    let params = json!({ "channel": "ahp-root://", "uri": uri });
    let read: Value = client.request("resourceRead", params).await.expect(uri);
    read["data"].as_str().expect("text").to_owned()
}

fn edit_of(call: &Value) -> Value {
    let contents = call["content"].as_array().expect("a result");
    let edit = contents.iter().find(|content| content["type"] == "fileEdit");
    edit.expect("a change").clone()
}

#[tokio::test]
async fn res03_both_sides_of_a_change_outlive_the_file_and_the_host() {
    let stage = stage().await;
    stage.start_turn("t1", "one").await;
    let wait = stage.approve().await;
    let asked = &wait["toolCall"]["edits"]["items"][0];
    assert_eq!(asked["before"], Value::Null);
    assert_eq!(content(&stage.client, &asked["after"]).await, "one");
    stage.turn_end("t1").await;
    stage.start_turn("t2", "two").await;
    let wait = stage.client.wait_for(&stage.uris.session, "toolConfirmation").await;
    let asked = &wait["toolCall"]["edits"]["items"][0];
    assert_eq!(content(&stage.client, &asked["before"]).await, "one");
    assert_eq!(content(&stage.client, &asked["after"]).await, "two");
    assert_eq!(stage.read(NAME), "one", "nothing is written before a user approves it");
    // A client without a subscription reads nothing, and no client can write there.
    let mut stranger = RawClient::initialized(stage.host.address(), "stranger").await;
    let uri = &asked["after"]["content"]["uri"];
    let refused = stranger
        .call("resourceRead", json!({ "uri": uri }))
        .await
        .expect_err("not theirs");
    assert_eq!(refused.code, -32009, "{}", refused.message);
    stranger
        .call("subscribe", json!({ "channel": stage.uris.session }))
        .await
        .expect("subscribed");
    let read = stranger
        .call("resourceRead", json!({ "uri": uri }))
        .await
        .expect("read");
    assert_eq!(read["data"], "two");
    let found = stranger
        .call("resourceResolve", json!({ "uri": uri }))
        .await
        .expect("resolved");
    assert_eq!(
        (&found["uri"], &found["type"], &found["size"]),
        (uri, &json!("file"), &json!(3))
    );
    let write = json!({ "uri": uri, "data": "x", "encoding": "utf-8" });
    assert_eq!(
        stranger.call("resourceWrite", write).await.expect_err("never").code,
        -32009
    );
    let gone = json!({ "uri": format!("innkeeper-content://{}/a.txt", "0".repeat(32)) });
    assert_eq!(
        stranger.call("resourceRead", gone).await.expect_err("not kept").code,
        -32008
    );
    stage.approve().await;
    stage.turn_end("t2").await;
    stage.write(NAME, "something else");
    let stage = stage.kill_and_restart().await;
    let chat = stage.client.chat(&stage.uris.chat);
    let expected = [(None, "one"), (Some("one"), "two")];
    for (turn, (before, after)) in chat.turns.iter().zip(expected) {
        let edit = edit_of(&tool_calls_of(turn)[0]);
        assert_eq!(content(&stage.client, &edit["after"]).await, after);
        match before {
            Some(before) => assert_eq!(content(&stage.client, &edit["before"]).await, before),
            None => assert_eq!(edit["before"], Value::Null),
        }
    }
    stage.assert_in_order().await;
}

/// Reads both sides of the change in a chat's first turn.
async fn sides(client: &OfficialClient, chat: &str) -> (String, String) {
    let edit = edit_of(&tool_calls_of(&client.chat(chat).turns[0])[0]);
    (
        content(client, &edit["before"]).await,
        content(client, &edit["after"]).await,
    )
}

#[tokio::test]
async fn cht05_res03_a_fork_has_its_contents_also_without_the_original() {
    let stage = stage().await;
    stage.write(NAME, "zero");
    stage.start_turn("t1", "one").await;
    stage.approve().await;
    stage.turn_end("t1").await;
    let session = &stage.uris.session;
    let fork = "ahp-chat:/fork";
    let source = json!({ "source": { "kind": "fork", "chat": stage.uris.chat, "turnId": "t1" } });
    stage.client.create_chat(session, fork, source).await;
    let expected = ("zero".to_owned(), "one".to_owned());
    assert_eq!(sides(&stage.client, fork).await, expected);
    // A later change in the fork belongs to it alone.
    stage.client.start_turn(fork, "t2", "two").await;
    stage.approve().await;
    let turn = stage.client.turn_end(fork, "t2").await;
    let later = edit_of(&tool_calls_of(&turn)[0]);
    assert_eq!(content(&stage.client, &later["before"]).await, "one");
    assert_eq!(stage.client.chat(&stage.uris.chat).turns.len(), 1);

    // The fork moves into a session of its own, and the session of the original is deleted for good.
    stage.client.assert_converged().await;
    let params = json!({ "channel": fork, "destination": { "kind": "newSession" } });
    let moved: Value = stage.client.request("moveChat", params).await.expect("moved");
    let dispose = json!({ "channel": session, "_meta": { "innkeeper.forGood": true } });
    let _: Value = stage
        .client
        .request("disposeSession", dispose)
        .await
        .expect("disposed of");
    stage.write(NAME, "something else");
    let host = stage.host.kill_and_restart().await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.join(moved["session"].as_str().expect("a session")).await;
    reader.subscribe(fork).await;
    assert_eq!(sides(&reader, fork).await, expected);
    assert_eq!(content(&reader, &later["after"]).await, "two");
}

#[tokio::test]
async fn res03_the_terminal_shows_changed_lines() {
    let stage = stage().await;
    stage.write(NAME, "one\nold\n");
    stage.start_turn("t1", "one\nnew\n").await;
    stage.client.wait_for(&stage.uris.session, "toolConfirmation").await;
    let shown = innkeeper(&stage, &["pending"]).await;
    assert!(shown.contains("| - old\n") && shown.contains("| + new\n"), "{shown}");
    stage.approve().await;
    stage.turn_end("t1").await;
}

/// Earlier versions stored what a file was before a change as a `data:` URI in the session.
#[tokio::test]
async fn res03_sessions_of_earlier_versions_show_their_changes_in_the_same_way() {
    let stage = stage().await;
    stage.write(NAME, "before\n");
    stage.start_turn("t1", "after\n").await;
    stage.approve().await;
    let turn = stage.turn_end("t1").await;
    let edit = edit_of(&tool_calls_of(&turn)[0]);
    let exported = innkeeper(&stage, &["sessions", "export", &stage.uris.session]).await;
    let before = edit["before"]["content"]["uri"].as_str().expect("a URI");
    assert!(exported.contains(before));
    let old = exported.replace(before, "data:text/plain;charset=utf-8;base64,YmVmb3JlCg==");
    let lines: Vec<&str> = old.lines().filter(|line| !line.starts_with("{\"content")).collect();
    // Under its own name, in a host that has nothing else of it.
    let other = Setup::new(Api::Chat).host(&stage.server).await;
    let mut admin = RawClient::initialized(other.address(), "admin").await;
    let imported = admin.call("innkeeper/importSession", json!({ "lines": lines })).await;
    imported.expect("taken in");
    let client = OfficialClient::connect(other.address(), "reader").await;
    let uris = client.join(&stage.uris.session).await;
    let chat = client.chat(&uris.chat);
    let shown = edit_of(&tool_calls_of(&chat.turns[0])[0]);
    assert_eq!(content(&client, &shown["before"]).await, "before\n");
    assert!(!serde_json::to_string(&chat).expect("JSON").contains("\"data:"));
    // Another host reads it from its store, turn by turn, and says the same.
    let other = other.kill_and_restart().await;
    let mut late = RawClient::initialized(other.address(), "late").await;
    let subscribed = late
        .call("subscribe", json!({ "channel": uris.chat }))
        .await
        .expect("subscribed");
    let snapshot = &subscribed["snapshot"]["state"]["turns"][0];
    assert_eq!(edit_of(&snapshot["responseParts"][0]["toolCall"]), shown);
    let fetched = late
        .call("fetchTurns", json!({ "channel": uris.chat }))
        .await
        .expect("fetched");
    if let Some(turn) = fetched["turns"].get(0) {
        assert_eq!(edit_of(&turn["responseParts"][0]["toolCall"]), shown);
    }
}

/// Runs the program against the stage's host, and returns what it said.
async fn innkeeper(stage: &Stage, args: &[&str]) -> String {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_innkeeper"));
    command.args(args).arg("--data").arg(stage.host.data_path(""));
    let output = command
        .env_clear()
        .env("HOME", stage.host.path(""))
        .output()
        .await
        .expect("ran");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}
