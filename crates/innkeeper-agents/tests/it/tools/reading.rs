//! `read_file` and `list_directory`.

use innkeeper_agents::tools::ToolSettings;
use innkeeper_host::Limits;
use serde_json::json;

use crate::tools::harness::ToolHarness;

#[tokio::test]
async fn a_file_is_read_with_numbered_lines() {
    let harness = ToolHarness::new().await;
    harness.put("src/main.rs", "fn main() {\n    run();\n}\n");
    let text = harness.text("read_file", json!({ "path": "src/main.rs" })).await;
    assert_eq!(text, "     1\tfn main() {\n     2\t    run();\n     3\t}\n");
    assert_eq!(
        harness.summary(),
        format!("Read {} (3 lines)", harness.link("src/main.rs"))
    );
    let call = harness.shown();
    assert_eq!(call["status"], "completed");
    assert_eq!(call["success"], true);
    assert_eq!(
        call["invocationMessage"],
        json!({ "markdown": format!("Reads {}", harness.link("src/main.rs")) })
    );
    assert_eq!(call["confirmed"], "not-needed", "no user is asked (TOOL-04): {call}");
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn a_range_reports_the_remaining_lines() {
    let harness = ToolHarness::new().await;
    let lines: String = (1..=10).map(|number| format!("line {number}\n")).collect();
    harness.put("a.txt", lines);
    let input = json!({ "path": "a.txt", "offset": 4, "limit": "2" });
    let text = harness.text("read_file", input).await;
    assert_eq!(
        text,
        "     4\tline 4\n     5\tline 5\n[5 more lines; read on with `offset` 6]\n"
    );
    let text = harness
        .text("read_file", json!({ "path": "a.txt", "offset": 10 }))
        .await;
    assert_eq!(text, "    10\tline 10\n");
    let text = harness
        .text("read_file", json!({ "path": "a.txt", "offset": 11 }))
        .await;
    assert_eq!(text, "`a.txt` has only 10 lines.");
}

#[tokio::test]
async fn byte_order_marks_line_endings_and_long_lines_are_normalised() {
    let harness = ToolHarness::new().await;
    let long = "ü".repeat(5000);
    harness.put("a.txt", format!("\u{FEFF}one\r\n{long}\nlast"));
    let text = harness.text("read_file", json!({ "path": "a.txt" })).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "     1\tone");
    assert!(lines[1].starts_with("     2\tüüü"), "{}", lines[1]);
    assert!(lines[1].contains('…') && lines[1].contains("more"), "{}", lines[1]);
    assert!(lines[1].chars().count() < 2100);
    assert_eq!(lines[2], "     3\tlast");
}

#[tokio::test]
async fn reading_a_huge_file_is_bounded() {
    let harness = ToolHarness::new().await;
    harness.put("big.txt", "0123456789012345678901234567890123456789\n".repeat(500_000));
    let text = harness.text("read_file", json!({ "path": "big.txt" })).await;
    assert!(text.len() < 100_000, "{}", text.len());
    assert!(
        text.ends_with("[498000 more lines; read on with `offset` 2001]\n"),
        "{}",
        &text[text.len() - 100..]
    );
}

#[tokio::test]
async fn an_empty_file_is_reported_as_empty() {
    let harness = ToolHarness::new().await;
    harness.put("empty", "");
    assert_eq!(
        harness.text("read_file", json!({ "path": "empty" })).await,
        "`empty` is empty."
    );
}

#[tokio::test]
async fn images_are_returned_and_other_binary_files_rejected() {
    let harness = ToolHarness::new().await;
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.extend_from_slice(&[0; 100]);
    harness.put("a.png", &png);
    harness.put("a.bin", b"ELF\0\x01\x02");
    let answer = harness.call("read_file", json!({ "path": "a.png" })).await;
    assert_eq!(answer.images.len(), 1);
    assert_eq!(answer.images[0].media_type, "image/png");
    assert!(
        answer.images[0].base64.starts_with("iVBORw0KGgo"),
        "{:?}",
        answer.images
    );
    assert_eq!(harness.summary(), format!("Looked at {}", harness.link("a.png")));
    assert_eq!(harness.shown()["content"][0]["contentType"], "image/png");
    let problem = harness.problem("read_file", json!({ "path": "a.bin" })).await;
    assert!(problem.contains("binary"), "{problem}");
}

#[tokio::test]
async fn invalid_input_errors_name_the_field() {
    let harness = ToolHarness::new().await;
    let cases = [
        (
            "read_file",
            json!({}),
            "`path` is missing: give the path of the file to read",
        ),
        (
            "read_file",
            json!({ "path": "a", "limit": 0 }),
            "`limit` must be a whole number from 1 to 2000, not 0",
        ),
        (
            "list_directory",
            json!({ "path": 7 }),
            "`path` must be a string, or left out",
        ),
        ("glob", json!({ "pattern": "[" }), "`pattern` is not a pattern"),
        (
            "search",
            json!({ "pattern": "(" }),
            "`pattern` is not a regular expression",
        ),
        ("write_file", json!({ "path": "a" }), "`content` is missing"),
        (
            "edit_file",
            json!({ "path": "a", "old_string": "x" }),
            "`new_string` is missing",
        ),
        ("run_command", json!({ "command": " " }), "`command` is empty"),
        (
            "run_command",
            json!({ "command": "ls", "timeout_seconds": 601 }),
            "`timeout_seconds` must be",
        ),
        ("read_file", json!([]), "the input must be a JSON object"),
    ];
    for (tool, input, expected) in cases {
        let problem = harness.problem(tool, input).await;
        assert!(problem.starts_with(expected), "{tool}: {problem}");
        assert_eq!(harness.shown()["success"], false);
    }
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn without_a_working_directory_errors_name_the_remedy() {
    let harness = ToolHarness::nowhere().await;
    for (tool, input) in [
        ("read_file", json!({ "path": "a" })),
        ("list_directory", json!({})),
        ("glob", json!({ "pattern": "*" })),
        ("search", json!({ "pattern": "a" })),
        ("write_file", json!({ "path": "a", "content": "a" })),
        ("run_command", json!({ "command": "ls" })),
    ] {
        let problem = harness.problem(tool, input).await;
        assert!(problem.contains("ask the user to add one"), "{tool}: {problem}");
    }
}

#[tokio::test]
async fn secret_files_need_confirmation() {
    let harness = ToolHarness::new().await;
    harness.put(".env", "TOKEN=hush\n");
    let call = harness.ask("read_file", json!({ "path": ".env" })).await;
    assert!(
        call["confirmationTitle"]
            .to_string()
            .contains("looks like a file with secrets"),
        "{call}"
    );
    let denial = json!({ "approved": false, "reason": "denied", "reasonMessage": "not yours" });
    harness.decide(&call, denial).await;
    let answer = harness.answer().await;
    assert!(answer.is_error && answer.text.contains("not yours"), "{}", answer.text);
    assert!(!answer.text.contains("hush"));
    let answer = harness.approved("read_file", json!({ "path": ".env" })).await;
    assert!(answer.text.contains("hush"));
}

#[tokio::test]
async fn a_directory_listing_shows_entry_kinds() {
    let harness = ToolHarness::new().await;
    harness.put("b.txt", "12345");
    harness.put("a/inner", "x");
    harness.put(".hidden", "");
    std::os::unix::fs::symlink("b.txt", harness.inside.join("link")).expect("a link");
    let text = harness.text("list_directory", json!({})).await;
    assert_eq!(text, ".hidden (0 bytes)\na/\nb.txt (5 bytes)\nlink -> b.txt\n");
    let summary = harness.summary();
    assert!(
        summary.starts_with("Listed [.](file:///") && summary.ends_with(") (4 entries)"),
        "{summary}"
    );
    assert_eq!(
        harness.text("list_directory", json!({ "path": "a" })).await,
        "inner (1 byte)\n"
    );
    let problem = harness.problem("list_directory", json!({ "path": "b.txt" })).await;
    assert!(problem.contains("not a directory"), "{problem}");
    let problem = harness.problem("read_file", json!({ "path": "a" })).await;
    assert!(problem.contains("use `list_directory`"), "{problem}");
    let problem = harness.problem("read_file", json!({ "path": "nothing" })).await;
    assert!(problem.contains("there is no `nothing`"), "{problem}");
}

#[tokio::test]
async fn a_long_directory_listing_is_truncated() {
    let harness = ToolHarness::new().await;
    for number in 0..1100 {
        harness.put(&format!("{number:04}"), "");
    }
    let text = harness.text("list_directory", json!({})).await;
    assert_eq!(text.lines().count(), 1001);
    assert!(text.ends_with("[100 or more entries left out; use `glob` to narrow it down]\n"));
}

/// Cancelling ends reading, however large the file is. The test ends only when the reader thread has ended.
#[tokio::test]
async fn cancelling_stops_reading_an_endless_file() {
    let settings = crate::tools::finding::patient();
    let harness = ToolHarness::with(settings).await;
    harness.put("endless", "words\n".repeat(2000));
    let file = std::fs::File::options()
        .write(true)
        .open(harness.inside.join("endless"));
    file.expect("a file").set_len(1 << 42).expect("a file with a hole");
    harness
        .begin("read_file", json!({ "path": "endless", "offset": 100_000 }))
        .await;
    harness.client.call_in(&harness.uris.chat, "running").await;
    harness.cancel().await;
}

/// A key file of the host is a secret whatever its name, also through a symlink.
#[tokio::test]
async fn configured_secret_files_need_confirmation() {
    let settings = |inside: &std::path::Path| ToolSettings {
        secret_files: vec![inside.join("link/gateway.txt"), inside.join("later")],
        ..ToolSettings::default()
    };
    let harness = ToolHarness::set_up(settings, Limits::default()).await;
    harness.put("real/gateway.txt", "hush\n");
    harness.put("real/other.txt", "hush hush\n");
    harness.put("later", "hush\n");
    std::os::unix::fs::symlink("real", harness.inside.join("link")).expect("a link");
    for path in ["real/gateway.txt", "link/gateway.txt", "later"] {
        let call = harness.ask("read_file", json!({ "path": path })).await;
        let title = call["confirmationTitle"].as_str().expect("a title");
        assert!(title.contains("a file with secrets"), "{title}");
        let denial = json!({ "approved": false, "reason": "denied" });
        harness.decide(&call, denial).await;
        assert!(harness.answer().await.is_error);
    }
    let found = harness.text("search", json!({ "pattern": "hush" })).await;
    assert!(
        found.contains("real/other.txt") && !found.contains("gateway") && !found.contains("later:"),
        "{found}"
    );
    let input = json!({ "path": "later", "old_string": "hush", "new_string": "x" });
    let call = harness.ask("edit_file", input).await;
    assert_eq!(call["edits"], serde_json::Value::Null, "{call}");
    harness.cancel().await;
}
