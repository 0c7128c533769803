//! `glob` and `search`.

use std::time::{Duration, SystemTime};

use innkeeper_agents::tools::{ToolLimits, ToolSettings};
use serde_json::json;

use crate::tools::harness::ToolHarness;

/// Tools without timeouts.
pub fn patient() -> ToolSettings {
    ToolSettings {
        limits: ToolLimits {
            search_time: Duration::from_secs(3600),
            ..ToolLimits::default()
        },
        ..ToolSettings::default()
    }
}

fn age(harness: &ToolHarness, path: &str, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    let file = std::fs::File::options().write(true).open(harness.inside.join(path));
    file.expect("a file").set_modified(time).expect("a time");
}

#[tokio::test]
async fn glob_returns_the_newest_files_first() {
    let harness = ToolHarness::new().await;
    for (path, seconds) in [
        ("src/old.rs", 300),
        ("src/deep/new.rs", 10),
        ("middle.rs", 100),
        ("notes.md", 1),
    ] {
        harness.put(path, "");
        age(&harness, path, seconds);
    }
    let text = harness.text("glob", json!({ "pattern": "*.rs" })).await;
    assert_eq!(text, "src/deep/new.rs\nmiddle.rs\nsrc/old.rs\n");
    assert_eq!(harness.summary(), "Found 3 files for `*.rs`");
    let text = harness.text("glob", json!({ "pattern": "src/*.rs" })).await;
    assert_eq!(text, "src/old.rs\n");
    let text = harness
        .text("glob", json!({ "pattern": "**/*.{rs,md}", "path": "src" }))
        .await;
    assert_eq!(text, "src/deep/new.rs\nsrc/old.rs\n");
    let text = harness.text("glob", json!({ "pattern": "*.py" })).await;
    assert_eq!(text, "No file fits `*.py`.\n");
}

#[tokio::test]
async fn ignored_files_are_skipped_unless_requested() {
    let harness = ToolHarness::new().await;
    harness.put(".gitignore", "target/\n*.log\n!keep.log\n");
    harness.put("sub/.ignore", "/local\n");
    harness.put(".git/info/exclude", "mine\n");
    harness.put(".git/config", "needle");
    for path in [
        "a",
        "target/b",
        "c.log",
        "keep.log",
        "sub/local",
        "sub/deep/local",
        "mine",
        ".hidden",
    ] {
        harness.put(path, "needle\n");
    }
    let files = |text: String| {
        let mut files: Vec<String> = text.lines().map(str::to_owned).collect();
        files.sort();
        files
    };
    let input = json!({ "pattern": "needle", "files_only": true });
    let expected = [".hidden", "a", "keep.log", "sub/deep/local"];
    assert_eq!(files(harness.text("search", input).await), expected);
    let input = json!({ "pattern": "needle", "files_only": true, "path": "sub" });
    assert_eq!(files(harness.text("search", input).await), ["sub/deep/local"]);
    let input = json!({ "pattern": "needle", "files_only": true, "include_ignored": true });
    assert_eq!(harness.text("search", input).await.lines().count(), 8, "all but `.git`");
    let text = harness.text("glob", json!({ "pattern": "**/local" })).await;
    assert_eq!(text, "sub/deep/local\n");
}

#[tokio::test]
async fn search_returns_lines_with_context() {
    let harness = ToolHarness::new().await;
    harness.put("a.rs", "one\nfn Needle() {}\nthree\nfour\nneedle\n");
    harness.put("b.md", "a needle\n");
    let text = harness.text("search", json!({ "pattern": "needle" })).await;
    assert_eq!(text, "a.rs:5: needle\nb.md:1: a needle\n");
    assert_eq!(harness.summary(), "Searched for `needle` (2 matches in 2 files)");
    let input = json!({ "pattern": r"fn \w+\(", "ignore_case": true, "glob": "*.rs", "context": 1 });
    let text = harness.text("search", input).await;
    assert_eq!(text, "a.rs-1- one\na.rs:2: fn Needle() {}\na.rs-3- three\n");
    let input = json!({ "pattern": "NEEDLE", "ignore_case": true, "glob": "!*.rs" });
    assert_eq!(harness.text("search", input).await, "b.md:1: a needle\n");
    let input = json!({ "pattern": "needle", "path": "b.md" });
    assert_eq!(harness.text("search", input).await, "b.md:1: a needle\n");
    let text = harness.text("search", json!({ "pattern": "nothing" })).await;
    assert_eq!(text, "Nothing matches `nothing`.\n");
}

#[tokio::test]
async fn secret_and_binary_files_are_not_searched() {
    let harness = ToolHarness::new().await;
    harness.put(".env", "needle=1\n");
    harness.put("a.bin", b"\0needle\n");
    harness.put("a.txt", "needle\n");
    let text = harness.text("search", json!({ "pattern": "needle" })).await;
    assert_eq!(text, "a.txt:1: needle\n[1 file that looks like secrets not searched]\n");
    let problem = harness
        .problem("search", json!({ "pattern": "needle", "path": ".env" }))
        .await;
    assert!(problem.contains("use `read_file`"), "{problem}");
}

#[tokio::test]
async fn searching_5000_files_is_bounded() {
    let harness = ToolHarness::new().await;
    for number in 0..5000 {
        let path = format!("d{}/e{}/f{number}.txt", number % 10, number % 100);
        harness.put(&path, format!("file {number}\nneedle {number}\n"));
    }
    let text = harness.text("search", json!({ "pattern": "needle" })).await;
    assert_eq!(text.lines().count(), 201);
    assert!(text.ends_with("[there are more matches; use a narrower `pattern`, `glob` or `path`]\n"));
    let text = harness.text("search", json!({ "pattern": "needle 4999$" })).await;
    assert_eq!(text, "d9/e99/f4999.txt:2: needle 4999\n");
    let text = harness.text("glob", json!({ "pattern": "*.txt" })).await;
    assert_eq!(text.lines().count(), 201);
    assert!(text.contains("[4800 older files left out"), "{text}");
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn matches_in_long_lines_are_bounded() {
    let harness = ToolHarness::new().await;
    harness.put("a.js", format!("{}needle\n", "x".repeat(1 << 20)).repeat(3));
    let text = harness.text("search", json!({ "pattern": "needle" })).await;
    assert!(text.len() < 2000, "{}", text.len());
}

/// The runtime shuts down only when the search thread has ended, and the tree would take hours.
#[test]
fn cancelling_stops_a_search() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let dir = runtime.block_on(async {
        let harness = ToolHarness::with(patient()).await;
        harness.put("0", "abcdefghij klmnopqrst uvwxyz\n".repeat(300_000));
        for number in 1..2000 {
            let link = harness.inside.join(number.to_string());
            std::fs::hard_link(harness.inside.join("0"), link).expect("a link");
        }
        harness
            .begin("search", json!({ "pattern": r"[a-z]+\d{3}[a-z]$" }))
            .await;
        harness.client.call_in(&harness.uris.chat, "running").await;
        harness.cancel().await;
        harness.into_dir()
    });
    drop(runtime);
    drop(dir);
}

/// The search times out, and the model is told.
#[tokio::test]
async fn a_search_that_times_out_returns_partial_results() {
    let settings = ToolSettings {
        limits: ToolLimits {
            search_time: Duration::ZERO,
            ..ToolLimits::default()
        },
        ..ToolSettings::default()
    };
    let harness = ToolHarness::with(settings).await;
    harness.put("a", "needle\n");
    let text = harness.text("search", json!({ "pattern": "needle" })).await;
    assert!(text.contains("it took too long to see all of the tree"), "{text}");
}
