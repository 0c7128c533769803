//! Comments on files.

use serde_json::{Value, json};

use crate::tools::harness::ToolHarness;

/// Returns the annotations of the session.
async fn annotations(harness: &ToolHarness) -> Vec<Value> {
    let channel = format!("{}/annotations", harness.uris.session);
    let answer: Value = harness
        .client
        .request("subscribe", json!({ "channel": channel }))
        .await
        .expect("subscribed");
    let annotations = answer["snapshot"]["state"]["annotations"].as_array();
    annotations.expect("a list").clone()
}

#[tokio::test]
async fn ann04_a_model_comments_on_lines_and_on_whole_files() {
    let harness = ToolHarness::new().await;
    harness.put("src/a.rs", "one\ntwo\nthree");
    let lines = json!({ "path": "src/a.rs", "line": 2, "end_line": 3, "text": "Why **both**?" });
    assert_eq!(
        harness.text("comment_on_file", lines).await,
        "Commented on `src/a.rs`, lines 2 to 3"
    );
    let whole = json!({ "path": "src/a.rs", "text": "Fine." });
    assert_eq!(harness.text("comment_on_file", whole).await, "Commented on `src/a.rs`");
    assert!(harness.summary().contains(&harness.link("src/a.rs")));
    let written = annotations(&harness).await;
    assert_eq!(written.len(), 2, "{written:?}");
    let uri = format!("file://{}", harness.inside.join("src/a.rs").display());
    assert_eq!(written[0]["resource"], uri);
    let range = json!({ "start": { "line": 1, "character": 0 }, "end": { "line": 3, "character": 0 } });
    assert_eq!(written[0]["range"], range);
    assert_eq!(written[0]["entries"][0]["text"]["markdown"], "Why **both**?");
    assert_eq!(written[0]["origin"]["turnId"], "t1");
    assert_eq!(written[0]["origin"]["chat"], harness.uris.chat);
    assert_eq!(written[1]["range"], Value::Null);
}

#[tokio::test]
async fn a_comment_needs_a_file_of_the_session_and_its_lines() {
    let harness = ToolHarness::new().await;
    harness.put("a", "one\ntwo\n");
    harness.put("sub/b", "");
    std::fs::write(harness.outside.join("c"), "c").expect("a file");
    let outside = harness.outside.join("c").display().to_string();
    for (input, problem) in [
        (
            json!({ "path": "a", "line": 3, "text": "x" }),
            "`a` has 2 lines, so it has no line 3",
        ),
        (
            json!({ "path": "a", "line": 2, "end_line": 1, "text": "x" }),
            "comes before `line`",
        ),
        (
            json!({ "path": "a", "end_line": 1, "text": "x" }),
            "`end_line` needs `line`",
        ),
        (
            json!({ "path": "a", "line": 0, "text": "x" }),
            "`line` must be a whole number from 1",
        ),
        (json!({ "path": "a", "text": " " }), "`text` is empty"),
        (
            json!({ "path": "a", "text": "x".repeat(20_000) }),
            "`text` is longer than 16 KiB",
        ),
        (json!({ "path": "sub/b", "line": 1, "text": "x" }), "has 0 lines"),
        (json!({ "path": "sub", "text": "x" }), "is a directory"),
        (json!({ "path": "absent", "text": "x" }), "absent"),
        (json!({ "path": outside, "text": "x" }), "outside"),
    ] {
        let answer = harness.problem("comment_on_file", input).await;
        assert!(answer.contains(problem), "{problem}: {answer}");
    }
    assert_eq!(annotations(&harness).await, Vec::<Value>::new());
}

#[tokio::test]
async fn nothing_of_a_secret_file_is_told() {
    let harness = ToolHarness::new().await;
    harness.put(".env", "A=1\n");
    let comment = json!({ "path": ".env", "line": 7, "text": "Do not commit this." });
    assert_eq!(
        harness.text("comment_on_file", comment).await,
        "Commented on `.env`, line 7"
    );
}
