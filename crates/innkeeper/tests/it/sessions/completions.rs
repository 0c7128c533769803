//! Completions: files after an `@`, commands after a `/`.

use innkeeper_testkit::official::{OfficialClient, SessionUris};
use serde_json::{Value, json};

use crate::start_with_client;

/// Returns the completions at the position of the bar.
async fn complete(client: &OfficialClient, channel: &str, marked: &str) -> Vec<Value> {
    let at = marked.find('|').expect("a cursor");
    let offset = marked[..at].encode_utf16().count();
    let text = marked.replacen('|', "", 1);
    let params = json!({ "channel": channel, "kind": "userMessage", "text": text, "offset": offset });
    let found: Value = client.request("completions", params).await.expect("answered");
    found["items"].as_array().cloned().expect("items")
}

fn inserted(items: &[Value]) -> Vec<&str> {
    items
        .iter()
        .map(|item| item["insertText"].as_str().expect("CMP-03"))
        .collect()
}

/// The text after an item was chosen, as a client makes it.
fn chosen(marked: &str, item: &Value) -> String {
    let text = marked.replacen('|', "", 1);
    let units: Vec<u16> = text.encode_utf16().collect();
    let place = |field: &str| usize::try_from(item[field].as_u64().expect("CMP-02")).expect("small");
    let mut after = units[..place("rangeStart")].to_vec();
    after.extend(item["insertText"].as_str().expect("CMP-03").encode_utf16());
    after.extend(&units[place("rangeEnd")..]);
    String::from_utf16(&after).expect("no half of a character is left")
}

async fn with_directory(client: &OfficialClient, name: &str) -> (SessionUris, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a directory");
    for file in [
        "src/main.rs",
        "src/mail.rs",
        "notes.md",
        "target/main.o",
        "ümläut.txt",
        ".git/HEAD",
    ] {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, "x").expect("written");
    }
    std::fs::write(folder.path().join(".gitignore"), "target/\n").expect("written");
    let directory = format!("file://{}", folder.path().display());
    (client.create_session_in(name, &directory).await, folder)
}

#[tokio::test]
async fn cmp01_cmp03_cmp04_files_of_the_working_directory_complete_an_at_sign() {
    let (_host, client) = start_with_client().await;
    let (uris, folder) = with_directory(&client, "files").await;
    let items = complete(&client, &uris.chat, "look at @ma|").await;
    let mut labels = inserted(&items);
    labels.sort_unstable();
    // A letter without its accent matches the one with it. Files that Git ignores are not offered.
    assert_eq!(labels, ["@src/mail.rs", "@src/main.rs", "@ümläut.txt"]);
    for item in &items {
        let attachment = &item["attachment"];
        assert_eq!(attachment["type"], "resource", "{item}");
        let uri = attachment["uri"].as_str().expect("a URI");
        assert!(
            uri.starts_with(&format!("file://{}/", folder.path().display())),
            "{uri}"
        );
        assert_eq!(attachment["_meta"]["uri"], uri, "CMP-04");
    }
    // The reference client asks for its session; that means the default chat.
    assert_eq!(complete(&client, &uris.session, "@note|").await.len(), 1);
    assert!(
        complete(&client, &uris.chat, "me@ma|").await.is_empty(),
        "an address is no file"
    );
    assert!(
        complete(&client, &uris.chat, "@../|").await.is_empty(),
        "nothing outside"
    );
    // The message carries the chosen completion.
    let mut message = json!({ "text": "see @notes.md", "origin": { "kind": "user" } });
    message["attachments"] = json!([complete(&client, &uris.chat, "@notes|").await[0]["attachment"]]);
    let mut action = innkeeper_testkit::official::turn_started("t1", "");
    action["message"] = message;
    client.dispatch(&uris.chat, action).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(turn.message.attachments.map(|attachments| attachments.len()), Some(1));
    client.assert_converged().await;
}

#[tokio::test]
async fn cmp02_positions_are_counted_in_utf16() {
    let (_host, client) = start_with_client().await;
    let (uris, _folder) = with_directory(&client, "units").await;
    for marked in ["👻 @note|", "a👩‍👩‍👧b @note|s. Yes", "ü@ @note|", "@NOTES|"] {
        let items = complete(&client, &uris.chat, marked).await;
        assert_eq!(inserted(&items), ["@notes.md"], "{marked}");
        let after = chosen(marked, &items[0]);
        assert!(after.contains("@notes.md") && !after.contains("@note."), "{after}");
    }
    let items = complete(&client, &uris.chat, "👻👻 @üml| 👻").await;
    assert_eq!(chosen("👻👻 @üml| 👻", &items[0]), "👻👻 @ümläut.txt 👻");
    // In the middle of a character.
    let halved = json!({ "channel": uris.chat, "kind": "userMessage", "text": "👻", "offset": 1 });
    let found: Value = client.request("completions", halved).await.expect("answered");
    assert_eq!(found, json!({ "items": [] }));
    for offset in [-1, 4, i64::MAX] {
        let params = json!({ "channel": uris.chat, "kind": "userMessage", "text": "👻x", "offset": offset });
        let (code, text) = client.refused("completions", params).await;
        assert_eq!(code, -32602, "{offset}");
        assert!(text.contains("offset") && text.contains('3'), "{text}");
    }
}

#[tokio::test]
async fn cmp01_the_agents_commands_complete_a_slash_at_the_start() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("commands").await;
    let all = complete(&client, &uris.chat, "/|").await;
    assert!(all.len() > 10, "{}", all.len());
    let items = complete(&client, &uris.chat, "/st|").await;
    assert_eq!(inserted(&items), ["/stream ", "/steer "]);
    for item in &items {
        assert!(item["attachment"]["_meta"]["command"].is_string(), "CMP-04: {item}");
    }
    assert_eq!(chosen("/st| 5", &items[0]), "/stream  5");
    assert!(complete(&client, &uris.chat, "what is /st|").await.is_empty());
    assert!(complete(&client, &uris.chat, "/nothing|").await.is_empty());
    assert!(
        complete(&client, &uris.chat, "|/stream").await.is_empty(),
        "before the slash"
    );
    let params = json!({ "channel": uris.chat, "kind": "telepathy", "text": "/st", "offset": 3 });
    let found: Value = client.request("completions", params).await.expect("CMP-01");
    assert_eq!(found, json!({ "items": [] }));
    let nowhere = json!({ "channel": "ahp-chat:/missing", "kind": "userMessage", "text": "", "offset": 0 });
    assert_eq!(client.refused("completions", nowhere).await.0, -32001);
}

/// A chat sees the files of its own directories only (CHT-09).
#[tokio::test]
async fn cht09_a_chat_without_directories_is_shown_no_files() {
    let (_host, client) = start_with_client().await;
    let (uris, _folder) = with_directory(&client, "subset").await;
    let bare = json!({ "workingDirectories": [] });
    client.create_chat(&uris.session, "ahp-chat:/bare", bare).await;
    assert!(complete(&client, "ahp-chat:/bare", "@|").await.is_empty());
    assert!(!complete(&client, &uris.chat, "@|").await.is_empty());
}
