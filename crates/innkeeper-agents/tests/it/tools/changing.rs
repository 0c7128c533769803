//! `write_file` and `edit_file`: the written content is the content that was shown.

use std::os::unix::fs::PermissionsExt as _;

use innkeeper_agents::tools::ToolSettings;
use serde_json::{Value, json};

use crate::tools::harness::ToolHarness;

/// Returns the content that a side of an edit refers to. Its URI has the file's path but is not a `file:` URI.
async fn side(harness: &ToolHarness, change: &Value, side: &str) -> String {
    let side = &change[side];
    let uri = side["content"]["uri"].as_str().expect("a content URI");
    let path = side["uri"].as_str().and_then(|uri| uri.strip_prefix("file://"));
    let rest = uri.strip_prefix("innkeeper-content://").expect(uri);
    let (id, _) = rest.split_once('/').expect(uri);
    assert_eq!(rest.strip_prefix(id), path, "{uri}");
    assert!(
        id.len() == 32 && id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')),
        "{uri}"
    );
    let params = json!({ "channel": "ahp-root://", "uri": uri });
    let read: Value = harness.client.request("resourceRead", params).await.expect(uri);
    let text = read["data"].as_str().expect("text");
    assert_eq!(side["content"]["sizeHint"], json!(text.len()));
    assert_eq!(side["content"]["contentType"], read["contentType"]);
    text.to_owned()
}

/// Asserts that the directory contains nothing else.
fn is_clean(harness: &ToolHarness, expected: &[&str]) {
    let entries = std::fs::read_dir(&harness.inside).expect("a directory").flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().expect("text"))
        .collect();
    names.sort();
    assert_eq!(names, expected);
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "path": path, "old_string": old, "new_string": new })
}

#[tokio::test]
async fn a_new_file_is_shown_and_written_after_confirmation() {
    let harness = ToolHarness::new().await;
    let call = harness
        .ask("write_file", json!({ "path": "src/a.rs", "content": "one\ntwo\n" }))
        .await;
    assert_eq!(call["confirmationTitle"], "Create `src/a.rs`?", "{call}");
    let announced = format!("Creates {} (+2 −0)", harness.link("src/a.rs"));
    assert_eq!(call["invocationMessage"], json!({ "markdown": announced }));
    assert_eq!(call["editable"], true);
    let change = &call["edits"]["items"][0];
    assert_eq!(change["before"], Value::Null);
    assert_eq!(side(&harness, change, "after").await, "one\ntwo\n");
    assert_eq!(change["diff"], json!({ "added": 2, "removed": 0 }));
    assert!(
        !harness.inside.join("src").exists(),
        "nothing happens before they decide"
    );
    let answer = harness.approve(&call).await;
    assert!(!answer.is_error, "{}", answer.text);
    assert_eq!(harness.get("src/a.rs"), "one\ntwo\n");
    assert_eq!(
        harness.summary(),
        format!("Created {} (+2 −0)", harness.link("src/a.rs"))
    );
    let content = &harness.shown()["content"][0];
    assert_eq!(content["type"], "fileEdit");
    assert_eq!(content["diff"], json!({ "added": 2, "removed": 0 }));
    let uri = format!("file://{}", harness.inside.join("src/a.rs").display());
    assert_eq!(content["after"]["uri"], json!(uri));
    is_clean(&harness, &["src"]);
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn an_edit_shows_both_contents_and_its_result_a_diff() {
    let harness = ToolHarness::new().await;
    harness.put("a.rs", "one\ntwo\nthree\n");
    let call = harness.ask("edit_file", edit("a.rs", "two", "2\n2.5")).await;
    let change = &call["edits"]["items"][0];
    assert_eq!(side(&harness, change, "before").await, "one\ntwo\nthree\n");
    assert_eq!(side(&harness, change, "after").await, "one\n2\n2.5\nthree\n");
    let answer = harness.approve(&call).await;
    assert_eq!(
        answer.text,
        "Changed `a.rs` (+2 −1).\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n"
    );
    assert_eq!(harness.get("a.rs"), "one\n2\n2.5\nthree\n");
    // Both contents stay available when the file changes.
    harness.put("a.rs", "something else\n");
    let shown = harness.shown()["content"][0].clone();
    assert_eq!(side(&harness, &shown, "before").await, "one\ntwo\nthree\n");
    assert_eq!(side(&harness, &shown, "after").await, "one\n2\n2.5\nthree\n");
}

#[tokio::test]
async fn an_edit_must_match_once_or_set_replace_all() {
    let harness = ToolHarness::new().await;
    harness.put("a.rs", "let x = 1;\n\nlet x = 1;\n");
    let problem = harness.problem("edit_file", edit("a.rs", "let x", "let y")).await;
    assert!(problem.contains("occurs 2 times in `a.rs` (lines 1, 3)"), "{problem}");
    let mut all = edit("a.rs", "let x", "let y");
    all["replace_all"] = json!(true);
    harness.approved("edit_file", all).await;
    assert_eq!(harness.get("a.rs"), "let y = 1;\n\nlet y = 1;\n");
    let problem = harness.problem("edit_file", edit("a.rs", "   let y = 2;", "")).await;
    assert!(
        problem.contains("does not occur in `a.rs`; the nearest lines are:"),
        "{problem}"
    );
    assert!(problem.contains("     1\tlet y = 1;"), "{problem}");
    let problem = harness.problem("edit_file", edit("a.rs", "", "x")).await;
    assert!(problem.contains("`old_string` is empty"), "{problem}");
    let problem = harness.problem("edit_file", edit("a.rs", "x", "x")).await;
    assert!(problem.contains("nothing to change"), "{problem}");
    let problem = harness.problem("edit_file", edit("b.rs", "x", "y")).await;
    assert!(problem.contains("there is no `b.rs`"), "{problem}");
}

#[tokio::test]
async fn a_denied_change_writes_nothing_and_reports_the_reason() {
    let harness = ToolHarness::new().await;
    harness.put("a.rs", "one\n");
    let call = harness.ask("edit_file", edit("a.rs", "one", "two")).await;
    let denial = json!({ "approved": false, "reason": "denied", "reasonMessage": "keep it" });
    harness.decide(&call, denial).await;
    let answer = harness.answer().await;
    assert!(answer.is_error);
    assert_eq!(answer.text, "the user denied this call and said: keep it");
    assert_eq!(harness.get("a.rs"), "one\n");
    assert_eq!(harness.shown()["status"], "cancelled");
    is_clean(&harness, &["a.rs"]);
}

#[tokio::test]
async fn tool06_an_edited_input_is_written() {
    let harness = ToolHarness::new().await;
    let call = harness
        .ask("write_file", json!({ "path": "a.rs", "content": "mine" }))
        .await;
    let edited = json!({ "path": "b.rs", "content": "theirs" }).to_string();
    let answer = harness.approve_edited(&call, &edited).await;
    assert!(!answer.is_error, "{}", answer.text);
    assert_eq!(harness.get("b.rs"), "theirs");
    assert_eq!(harness.summary(), format!("Created {} (+1 −0)", harness.link("b.rs")));
    is_clean(&harness, &["b.rs"]);
    for edited in ["{", "{}", "{\"path\": \"../outside/a\", \"content\": \"x\"}"] {
        let call = harness
            .ask("write_file", json!({ "path": "a.rs", "content": "mine" }))
            .await;
        let answer = harness.approve_edited(&call, edited).await;
        assert!(
            answer.is_error && answer.text.contains("the user edited the input"),
            "{}",
            answer.text
        );
    }
    is_clean(&harness, &["b.rs"]);
}

/// A file that changed after the question is not written.
#[tokio::test]
async fn a_file_that_changed_during_the_question_is_not_written() {
    let harness = ToolHarness::new().await;
    harness.put("a.rs", "one\n");
    let call = harness.ask("edit_file", edit("a.rs", "one", "two")).await;
    harness.put("a.rs", "one more\n");
    let answer = harness.approve(&call).await;
    assert!(
        answer.is_error && answer.text.contains("changed while the user was asked"),
        "{}",
        answer.text
    );
    assert_eq!(harness.get("a.rs"), "one more\n");

    let call = harness
        .ask("write_file", json!({ "path": "new.rs", "content": "mine" }))
        .await;
    harness.put("new.rs", "another was faster");
    let answer = harness.approve(&call).await;
    assert!(answer.is_error, "{}", answer.text);
    assert_eq!(harness.get("new.rs"), "another was faster");

    let call = harness.ask("edit_file", edit("a.rs", "one", "two")).await;
    std::fs::remove_file(harness.inside.join("a.rs")).expect("removed");
    let answer = harness.approve(&call).await;
    assert!(answer.is_error, "{}", answer.text);
    std::fs::create_dir(harness.inside.join("a.rs")).expect("a directory instead");

    let call = harness.ask("edit_file", edit("new.rs", "faster", "slower")).await;
    harness.put("new.rs", "another was faster still");
    let edited = edit("new.rs", "faster", "later").to_string();
    let answer = harness.approve_edited(&call, &edited).await;
    assert!(
        answer.is_error && answer.text.contains("changed while"),
        "{}",
        answer.text
    );
    is_clean(&harness, &["a.rs", "new.rs"]);
}

/// The file is replaced by a symlink to the outside during the question.
#[tokio::test]
async fn a_file_that_became_a_symlink_is_not_written_through() {
    let harness = ToolHarness::new().await;
    harness.put("a.rs", "one\n");
    let call = harness.ask("edit_file", edit("a.rs", "one", "two")).await;
    std::fs::write(harness.outside.join("victim"), "one\n").expect("a file");
    std::fs::remove_file(harness.inside.join("a.rs")).expect("removed");
    std::os::unix::fs::symlink(harness.outside.join("victim"), harness.inside.join("a.rs")).expect("a link");
    let answer = harness.approve(&call).await;
    assert!(answer.is_error, "{}", answer.text);
    assert_eq!(
        std::fs::read_to_string(harness.outside.join("victim")).expect("there"),
        "one\n"
    );
    is_clean(&harness, &["a.rs"]);
}

#[tokio::test]
async fn permissions_byte_order_mark_and_line_endings_are_preserved() {
    let harness = ToolHarness::new().await;
    harness.put("run.bat", "\u{FEFF}echo one\r\necho two\r\n");
    let path = harness.inside.join("run.bat");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).expect("permissions");
    harness
        .approved("edit_file", edit("run.bat", "echo one\necho two", "echo 1\necho 2"))
        .await;
    assert_eq!(harness.get("run.bat"), "\u{FEFF}echo 1\r\necho 2\r\n");
    harness
        .approved("write_file", json!({ "path": "run.bat", "content": "echo\nnew\n" }))
        .await;
    assert_eq!(harness.get("run.bat"), "\u{FEFF}echo\r\nnew\r\n");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    is_clean(&harness, &["run.bat"]);
}

#[tokio::test]
async fn impossible_changes_are_rejected_without_a_question() {
    let harness = ToolHarness::new().await;
    harness.put("locked", "one\n");
    let locked = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(harness.inside.join("locked"), locked).expect("permissions");
    harness.put("large", "x".repeat(5 << 20));
    harness.put("binary", b"one\xFF\xFE");
    harness.put("dir/a", "");
    for (path, expected) in [
        ("locked", "write-protected"),
        ("large", "too large to change"),
        ("binary", "not UTF-8"),
        ("dir", "is a directory"),
    ] {
        let problem = harness.problem("edit_file", edit(path, "one", "two")).await;
        assert!(problem.contains(expected), "{path}: {problem}");
    }
}

#[tokio::test]
async fn an_unchanged_file_needs_no_confirmation() {
    let harness = ToolHarness::new().await;
    harness.put("a", "one\n");
    let text = harness
        .text("write_file", json!({ "path": "a", "content": "one\n" }))
        .await;
    assert_eq!(text, "`a` is already like that; nothing was written.");
    assert_eq!(harness.summary(), format!("Left {} as it is", harness.link("a")));
}

/// No content is stored for large files; clients see the current file.
#[tokio::test]
async fn a_large_file_is_changed_without_sending_its_content() {
    let harness = ToolHarness::new().await;
    harness.put("long", "0123456789\n".repeat(100_000));
    let call = harness
        .ask("write_file", json!({ "path": "long", "content": "short\n" }))
        .await;
    assert_eq!(call["edits"], Value::Null);
    let announced = format!("Changes {} (+1 −100000)", harness.link("long"));
    assert_eq!(call["invocationMessage"], json!({ "markdown": announced }));
    let answer = harness.approve(&call).await;
    assert!(answer.text.len() < 20_000, "{}", answer.text.len());
    let shown = harness.shown()["content"][0].clone();
    assert_eq!(shown["before"], Value::Null);
    assert_eq!(shown["after"]["content"]["uri"], shown["after"]["uri"]);
    assert_eq!(harness.get("long"), "short\n");
}

/// Neither clients nor the model see the content of a secret file.
#[tokio::test]
async fn changing_a_secret_file_shows_no_content() {
    let harness = ToolHarness::new().await;
    harness.put(".env", "TOKEN=hush\nMODE=a\n");
    let call = harness.ask("edit_file", edit(".env", "MODE=a", "MODE=b")).await;
    assert!(
        !call.to_string().contains("hush") && call["edits"] == Value::Null,
        "{call}"
    );
    let answer = harness.approve(&call).await;
    assert_eq!(answer.text, "Changed `.env` (+1 −1).\n");
    assert_eq!(harness.get(".env"), "TOKEN=hush\nMODE=b\n");
    let shown = harness.shown().to_string();
    assert!(!shown.contains("hush") && !shown.contains("data:"), "{shown}");
}

#[tokio::test]
async fn a_cancelled_question_writes_nothing() {
    let harness = ToolHarness::new().await;
    harness.put("a.rs", "one\n");
    harness.ask("edit_file", edit("a.rs", "one", "two")).await;
    harness.cancel().await;
    assert_eq!(harness.get("a.rs"), "one\n");
    is_clean(&harness, &["a.rs"]);
    harness.client.assert_converged().await;
}

/// A guess about the content of a secret file is neither confirmed nor denied before the user allows it.
#[tokio::test]
async fn edit_errors_of_secret_files_need_confirmation() {
    let harness = ToolHarness::new().await;
    let content = "TOKEN=hush\nMODE=a\nLEVEL=a\n";
    harness.put(".env", content);
    for (tool, input, expected) in [
        ("edit_file", edit(".env", "TOKEN=loud", "TOKEN=x"), "does not occur"),
        ("edit_file", edit(".env", "=a", "=b"), "occurs 2 times"),
        (
            "write_file",
            json!({ "path": ".env", "content": content }),
            "already like that",
        ),
    ] {
        let call = harness.ask(tool, input.clone()).await;
        harness
            .decide(&call, json!({ "approved": false, "reason": "denied" }))
            .await;
        let answer = harness.answer().await;
        assert!(answer.text.contains("the user denied this call"), "{}", answer.text);
        assert!(!answer.text.contains(expected), "{}", answer.text);
        let answer = harness.approved(tool, input).await;
        assert!(answer.text.contains(expected), "{}", answer.text);
        assert!(!answer.text.contains("hush"), "{}", answer.text);
    }
    assert_eq!(harness.get(".env"), content);
    is_clean(&harness, &[".env"]);
}

/// The replacement would exceed the memory of any machine.
#[tokio::test]
async fn an_edit_that_exceeds_the_size_limit_is_rejected_first() {
    let harness = ToolHarness::new().await;
    harness.put("lines", "\n".repeat(4 << 20));
    let mut all = edit("lines", "\n", &"x".repeat(256 << 10));
    all["replace_all"] = json!(true);
    let problem = harness.problem("edit_file", all).await;
    assert_eq!(problem, "`lines` would become too large");
}

/// The host's own files are private, but a project's files keep their usual permissions.
#[tokio::test]
async fn new_files_and_directories_use_the_configured_umask() {
    let harness = ToolHarness::with(ToolSettings {
        umask: Some(0o007),
        ..ToolSettings::default()
    })
    .await;
    harness.put("old/a", "");
    let mode = |path: &str| {
        let data = std::fs::metadata(harness.inside.join(path)).expect("it is there");
        data.permissions().mode() & 0o777
    };
    std::fs::set_permissions(harness.inside.join("old"), std::fs::Permissions::from_mode(0o701)).expect("permissions");
    harness
        .approved("write_file", json!({ "path": "old/new/newer/b", "content": "b" }))
        .await;
    assert_eq!(mode("old/new/newer/b"), 0o660);
    assert_eq!((mode("old/new"), mode("old/new/newer")), (0o770, 0o770));
    assert_eq!(mode("old"), 0o701, "what was there is left as it was");
}
