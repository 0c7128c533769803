//! `write_file` and `edit_file`: people see what will be written, and that is what is written.

use std::os::unix::fs::PermissionsExt as _;

use innkeeper_agents::tools::ToolSettings;
use serde_json::{Value, json};

use crate::tools::scene::Scene;

/// The text that a side of a change refers to. Its URI has the path of the file, and names no live file.
async fn side(scene: &Scene, change: &Value, side: &str) -> String {
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
    let read: Value = scene.client.request("resourceRead", params).await.expect(uri);
    let text = read["data"].as_str().expect("text");
    assert_eq!(side["content"]["sizeHint"], json!(text.len()));
    assert_eq!(side["content"]["contentType"], read["contentType"]);
    text.to_owned()
}

/// Nothing is left in the directory but what belongs there.
fn is_clean(scene: &Scene, expected: &[&str]) {
    let entries = std::fs::read_dir(&scene.inside).expect("a directory").flatten();
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
    let scene = Scene::new().await;
    let call = scene
        .ask("write_file", json!({ "path": "src/a.rs", "content": "one\ntwo\n" }))
        .await;
    assert_eq!(call["confirmationTitle"], "Create `src/a.rs`?", "{call}");
    let announced = format!("Creates {} (+2 −0)", scene.link("src/a.rs"));
    assert_eq!(call["invocationMessage"], json!({ "markdown": announced }));
    assert_eq!(call["editable"], true);
    let change = &call["edits"]["items"][0];
    assert_eq!(change["before"], Value::Null);
    assert_eq!(side(&scene, change, "after").await, "one\ntwo\n");
    assert_eq!(change["diff"], json!({ "added": 2, "removed": 0 }));
    assert!(!scene.inside.join("src").exists(), "nothing happens before they decide");
    let answer = scene.approve(&call).await;
    assert!(!answer.is_error, "{}", answer.text);
    assert_eq!(scene.get("src/a.rs"), "one\ntwo\n");
    assert_eq!(scene.summary(), format!("Created {} (+2 −0)", scene.link("src/a.rs")));
    let content = &scene.shown()["content"][0];
    assert_eq!(content["type"], "fileEdit");
    assert_eq!(content["diff"], json!({ "added": 2, "removed": 0 }));
    let uri = format!("file://{}", scene.inside.join("src/a.rs").display());
    assert_eq!(content["after"]["uri"], json!(uri));
    is_clean(&scene, &["src"]);
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn an_edit_shows_both_contents_and_its_result_a_diff() {
    let scene = Scene::new().await;
    scene.put("a.rs", "one\ntwo\nthree\n");
    let call = scene.ask("edit_file", edit("a.rs", "two", "2\n2.5")).await;
    let change = &call["edits"]["items"][0];
    assert_eq!(side(&scene, change, "before").await, "one\ntwo\nthree\n");
    assert_eq!(side(&scene, change, "after").await, "one\n2\n2.5\nthree\n");
    let answer = scene.approve(&call).await;
    assert_eq!(
        answer.text,
        "Changed `a.rs` (+2 −1).\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n"
    );
    assert_eq!(scene.get("a.rs"), "one\n2\n2.5\nthree\n");
    // Both stay what they were, whatever becomes of the file.
    scene.put("a.rs", "something else\n");
    let shown = scene.shown()["content"][0].clone();
    assert_eq!(side(&scene, &shown, "before").await, "one\ntwo\nthree\n");
    assert_eq!(side(&scene, &shown, "after").await, "one\n2\n2.5\nthree\n");
}

#[tokio::test]
async fn an_edit_must_match_once_or_set_replace_all() {
    let scene = Scene::new().await;
    scene.put("a.rs", "let x = 1;\n\nlet x = 1;\n");
    let problem = scene.problem("edit_file", edit("a.rs", "let x", "let y")).await;
    assert!(problem.contains("occurs 2 times in `a.rs` (lines 1, 3)"), "{problem}");
    let mut all = edit("a.rs", "let x", "let y");
    all["replace_all"] = json!(true);
    scene.approved("edit_file", all).await;
    assert_eq!(scene.get("a.rs"), "let y = 1;\n\nlet y = 1;\n");
    let problem = scene.problem("edit_file", edit("a.rs", "   let y = 2;", "")).await;
    assert!(
        problem.contains("does not occur in `a.rs`; the nearest lines are:"),
        "{problem}"
    );
    assert!(problem.contains("     1\tlet y = 1;"), "{problem}");
    let problem = scene.problem("edit_file", edit("a.rs", "", "x")).await;
    assert!(problem.contains("`old_string` is empty"), "{problem}");
    let problem = scene.problem("edit_file", edit("a.rs", "x", "x")).await;
    assert!(problem.contains("nothing to change"), "{problem}");
    let problem = scene.problem("edit_file", edit("b.rs", "x", "y")).await;
    assert!(problem.contains("there is no `b.rs`"), "{problem}");
}

#[tokio::test]
async fn a_denied_change_writes_nothing_and_reports_the_reason() {
    let scene = Scene::new().await;
    scene.put("a.rs", "one\n");
    let call = scene.ask("edit_file", edit("a.rs", "one", "two")).await;
    let denial = json!({ "approved": false, "reason": "denied", "reasonMessage": "keep it" });
    scene.decide(&call, denial).await;
    let answer = scene.answer().await;
    assert!(answer.is_error);
    assert_eq!(answer.text, "the person denied this call and said: keep it");
    assert_eq!(scene.get("a.rs"), "one\n");
    assert_eq!(scene.shown()["status"], "cancelled");
    is_clean(&scene, &["a.rs"]);
}

#[tokio::test]
async fn tool06_an_edited_input_is_written() {
    let scene = Scene::new().await;
    let call = scene
        .ask("write_file", json!({ "path": "a.rs", "content": "mine" }))
        .await;
    let edited = json!({ "path": "b.rs", "content": "theirs" }).to_string();
    let answer = scene.approve_edited(&call, &edited).await;
    assert!(!answer.is_error, "{}", answer.text);
    assert_eq!(scene.get("b.rs"), "theirs");
    assert_eq!(scene.summary(), format!("Created {} (+1 −0)", scene.link("b.rs")));
    is_clean(&scene, &["b.rs"]);
    for edited in ["{", "{}", "{\"path\": \"../outside/a\", \"content\": \"x\"}"] {
        let call = scene
            .ask("write_file", json!({ "path": "a.rs", "content": "mine" }))
            .await;
        let answer = scene.approve_edited(&call, edited).await;
        assert!(
            answer.is_error && answer.text.contains("the person edited the input"),
            "{}",
            answer.text
        );
    }
    is_clean(&scene, &["b.rs"]);
}

/// What is written is what people were shown: a file that changed meanwhile is left alone.
#[tokio::test]
async fn a_file_that_changed_during_the_question_is_not_written() {
    let scene = Scene::new().await;
    scene.put("a.rs", "one\n");
    let call = scene.ask("edit_file", edit("a.rs", "one", "two")).await;
    scene.put("a.rs", "one more\n");
    let answer = scene.approve(&call).await;
    assert!(
        answer.is_error && answer.text.contains("changed while the person was asked"),
        "{}",
        answer.text
    );
    assert_eq!(scene.get("a.rs"), "one more\n");

    let call = scene
        .ask("write_file", json!({ "path": "new.rs", "content": "mine" }))
        .await;
    scene.put("new.rs", "somebody was faster");
    let answer = scene.approve(&call).await;
    assert!(answer.is_error, "{}", answer.text);
    assert_eq!(scene.get("new.rs"), "somebody was faster");

    let call = scene.ask("edit_file", edit("a.rs", "one", "two")).await;
    std::fs::remove_file(scene.inside.join("a.rs")).expect("removed");
    let answer = scene.approve(&call).await;
    assert!(answer.is_error, "{}", answer.text);
    std::fs::create_dir(scene.inside.join("a.rs")).expect("a directory instead");

    let call = scene.ask("edit_file", edit("new.rs", "faster", "slower")).await;
    scene.put("new.rs", "somebody was faster still");
    let edited = edit("new.rs", "faster", "later").to_string();
    let answer = scene.approve_edited(&call, &edited).await;
    assert!(
        answer.is_error && answer.text.contains("changed while"),
        "{}",
        answer.text
    );
    is_clean(&scene, &["a.rs", "new.rs"]);
}

/// A file is swapped for a link to the outside while people think.
#[tokio::test]
async fn a_file_that_became_a_symlink_is_not_written_through() {
    let scene = Scene::new().await;
    scene.put("a.rs", "one\n");
    let call = scene.ask("edit_file", edit("a.rs", "one", "two")).await;
    std::fs::write(scene.outside.join("victim"), "one\n").expect("a file");
    std::fs::remove_file(scene.inside.join("a.rs")).expect("removed");
    std::os::unix::fs::symlink(scene.outside.join("victim"), scene.inside.join("a.rs")).expect("a link");
    let answer = scene.approve(&call).await;
    assert!(answer.is_error, "{}", answer.text);
    assert_eq!(
        std::fs::read_to_string(scene.outside.join("victim")).expect("there"),
        "one\n"
    );
    is_clean(&scene, &["a.rs"]);
}

#[tokio::test]
async fn permissions_byte_order_mark_and_line_endings_are_preserved() {
    let scene = Scene::new().await;
    scene.put("run.bat", "\u{FEFF}echo one\r\necho two\r\n");
    let path = scene.inside.join("run.bat");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).expect("permissions");
    scene
        .approved("edit_file", edit("run.bat", "echo one\necho two", "echo 1\necho 2"))
        .await;
    assert_eq!(scene.get("run.bat"), "\u{FEFF}echo 1\r\necho 2\r\n");
    scene
        .approved("write_file", json!({ "path": "run.bat", "content": "echo\nnew\n" }))
        .await;
    assert_eq!(scene.get("run.bat"), "\u{FEFF}echo\r\nnew\r\n");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    is_clean(&scene, &["run.bat"]);
}

#[tokio::test]
async fn impossible_changes_are_rejected_without_a_question() {
    let scene = Scene::new().await;
    scene.put("locked", "one\n");
    let locked = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(scene.inside.join("locked"), locked).expect("permissions");
    scene.put("large", "x".repeat(5 << 20));
    scene.put("binary", b"one\xFF\xFE");
    scene.put("dir/a", "");
    for (path, expected) in [
        ("locked", "write-protected"),
        ("large", "too large to change"),
        ("binary", "not UTF-8"),
        ("dir", "is a directory"),
    ] {
        let problem = scene.problem("edit_file", edit(path, "one", "two")).await;
        assert!(problem.contains(expected), "{path}: {problem}");
    }
}

#[tokio::test]
async fn an_unchanged_file_needs_no_confirmation() {
    let scene = Scene::new().await;
    scene.put("a", "one\n");
    let text = scene
        .text("write_file", json!({ "path": "a", "content": "one\n" }))
        .await;
    assert_eq!(text, "`a` is already like that; nothing was written.");
    assert_eq!(scene.summary(), format!("Left {} as it is", scene.link("a")));
}

/// Of files that are too long no snapshots are kept, and the file shows what it has become.
#[tokio::test]
async fn a_large_file_is_changed_without_sending_its_content() {
    let scene = Scene::new().await;
    scene.put("long", "0123456789\n".repeat(100_000));
    let call = scene
        .ask("write_file", json!({ "path": "long", "content": "short\n" }))
        .await;
    assert_eq!(call["edits"], Value::Null);
    let announced = format!("Changes {} (+1 −100000)", scene.link("long"));
    assert_eq!(call["invocationMessage"], json!({ "markdown": announced }));
    let answer = scene.approve(&call).await;
    assert!(answer.text.len() < 20_000, "{}", answer.text.len());
    let shown = scene.shown()["content"][0].clone();
    assert_eq!(shown["before"], Value::Null);
    assert_eq!(shown["after"]["content"]["uri"], shown["after"]["uri"]);
    assert_eq!(scene.get("long"), "short\n");
}

/// Neither people's clients nor the model get to see what else is in a file with secrets.
#[tokio::test]
async fn changing_a_secret_file_shows_no_content() {
    let scene = Scene::new().await;
    scene.put(".env", "TOKEN=hush\nMODE=a\n");
    let call = scene.ask("edit_file", edit(".env", "MODE=a", "MODE=b")).await;
    assert!(
        !call.to_string().contains("hush") && call["edits"] == Value::Null,
        "{call}"
    );
    let answer = scene.approve(&call).await;
    assert_eq!(answer.text, "Changed `.env` (+1 −1).\n");
    assert_eq!(scene.get(".env"), "TOKEN=hush\nMODE=b\n");
    let shown = scene.shown().to_string();
    assert!(!shown.contains("hush") && !shown.contains("data:"), "{shown}");
}

#[tokio::test]
async fn a_cancelled_question_writes_nothing() {
    let scene = Scene::new().await;
    scene.put("a.rs", "one\n");
    scene.ask("edit_file", edit("a.rs", "one", "two")).await;
    scene.cancel().await;
    assert_eq!(scene.get("a.rs"), "one\n");
    is_clean(&scene, &["a.rs"]);
    scene.client.assert_converged().await;
}

/// A guess about a file with secrets is neither confirmed nor refuted before people have allowed it.
#[tokio::test]
async fn edit_errors_of_secret_files_need_confirmation() {
    let scene = Scene::new().await;
    let content = "TOKEN=hush\nMODE=a\nLEVEL=a\n";
    scene.put(".env", content);
    for (tool, input, expected) in [
        ("edit_file", edit(".env", "TOKEN=loud", "TOKEN=x"), "does not occur"),
        ("edit_file", edit(".env", "=a", "=b"), "occurs 2 times"),
        (
            "write_file",
            json!({ "path": ".env", "content": content }),
            "already like that",
        ),
    ] {
        let call = scene.ask(tool, input.clone()).await;
        scene
            .decide(&call, json!({ "approved": false, "reason": "denied" }))
            .await;
        let answer = scene.answer().await;
        assert!(answer.text.contains("the person denied this call"), "{}", answer.text);
        assert!(!answer.text.contains(expected), "{}", answer.text);
        let answer = scene.approved(tool, input).await;
        assert!(answer.text.contains(expected), "{}", answer.text);
        assert!(!answer.text.contains("hush"), "{}", answer.text);
    }
    assert_eq!(scene.get(".env"), content);
    is_clean(&scene, &[".env"]);
}

/// All of it at once would need more memory than any machine has.
#[tokio::test]
async fn an_edit_that_exceeds_the_size_limit_is_rejected_first() {
    let scene = Scene::new().await;
    scene.put("lines", "\n".repeat(4 << 20));
    let mut all = edit("lines", "\n", &"x".repeat(256 << 10));
    all["replace_all"] = json!(true);
    let problem = scene.problem("edit_file", all).await;
    assert_eq!(problem, "`lines` would become too large");
}

/// The host keeps its own files to itself; a project's files are for whoever they were for before.
#[tokio::test]
async fn new_files_and_directories_use_the_configured_umask() {
    let scene = Scene::with(ToolSettings {
        umask: Some(0o007),
        ..ToolSettings::default()
    })
    .await;
    scene.put("old/a", "");
    let mode = |path: &str| {
        let data = std::fs::metadata(scene.inside.join(path)).expect("it is there");
        data.permissions().mode() & 0o777
    };
    std::fs::set_permissions(scene.inside.join("old"), std::fs::Permissions::from_mode(0o701)).expect("permissions");
    scene
        .approved("write_file", json!({ "path": "old/new/newer/b", "content": "b" }))
        .await;
    assert_eq!(mode("old/new/newer/b"), 0o660);
    assert_eq!((mode("old/new"), mode("old/new/newer")), (0o770, 0o770));
    assert_eq!(mode("old"), 0o701, "what was there is left as it was");
}
