//! Approvals of real tools: which later calls they cover.

use innkeeper_agents::tools::{FetchSettings, ToolSettings};
use serde_json::{Value, json};

use crate::tools::harness::ToolHarness;

/// Confirms a call with a lasting approval.
async fn allow(harness: &ToolHarness, call: &Value, option: &str) {
    let decision = json!({ "approved": true, "selectedOptionId": option });
    harness.decide(call, decision).await;
    harness.answer().await;
}

/// Denies a call.
async fn deny(harness: &ToolHarness, call: &Value) {
    harness.decide(call, json!({ "approved": false })).await;
    harness.answer().await;
}

fn labels(call: &Value) -> Vec<&str> {
    let options = call["options"].as_array().expect("options");
    options.iter().filter_map(|option| option["label"].as_str()).collect()
}

fn command(command: &str) -> Value {
    json!({ "command": command })
}

#[tokio::test]
async fn approving_one_command_allows_no_other() {
    let harness = ToolHarness::new().await;
    harness.put("sub/a", "");
    let call = harness.ask("run_command", command("ls")).await;
    assert!(
        labels(&call).contains(&"Always allow `ls` in this workspace"),
        "{call:#}"
    );
    allow(&harness, &call, "allow-workspace").await;
    let again = harness.call("run_command", command("ls")).await;
    assert!(again.text.contains("sub"), "{}", again.text);
    let shown = harness.shown();
    assert_eq!(shown["confirmed"], "setting");
    assert_eq!(
        shown["_meta"]["innkeeper.approval"],
        json!({ "rule": "run_command(ls)", "scope": "workspace" })
    );
    for input in [
        command("rm -rf sub"),
        command("ls; rm -rf sub"),
        command("ls\nrm -rf sub"),
        command("ls -l"),
        json!({ "command": "ls", "directory": "sub" }),
    ] {
        let call = harness.ask("run_command", input.clone()).await;
        assert_eq!(call["status"], "pending-confirmation", "{input}");
        deny(&harness, &call).await;
    }
    assert!(harness.inside.join("sub/a").exists());
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn edit_approvals_apply_to_resolved_paths() {
    let harness = ToolHarness::new().await;
    harness.put("src/a.txt", "one");
    harness.put("other/b.txt", "one");
    std::os::unix::fs::symlink("../other", harness.inside.join("src/link")).expect("a link");
    let edit = |path: &str| json!({ "path": path, "content": format!("new {path}") });
    let call = harness.ask("write_file", edit("src/a.txt")).await;
    assert!(
        labels(&call).contains(&"Allow edits of every file below `src/` in this session"),
        "{call:#}"
    );
    allow(&harness, &call, "allow-session-pattern").await;
    let changed = harness.call(
        "edit_file",
        json!({ "path": "src/../src/a.txt", "old_string": "new", "new_string": "newer" }),
    );
    let changed = changed.await;
    assert!(!changed.is_error, "{}", changed.text);
    for path in ["src/link/b.txt", "other/b.txt", "src/.env", "src/.git/config"] {
        let call = harness.ask("write_file", edit(path)).await;
        assert_eq!(call["status"], "pending-confirmation", "{path}");
        deny(&harness, &call).await;
    }
    assert_eq!(harness.get("other/b.txt"), "one");
}

#[tokio::test]
async fn fetch_approvals_apply_to_one_server() {
    let settings = ToolSettings {
        fetch: Some(FetchSettings {
            allow_private_addresses: true,
        }),
        ..ToolSettings::default()
    };
    let harness = ToolHarness::with(settings).await;
    let url = |port: u16| json!({ "url": format!("http://127.0.0.1:{port}/page") });
    // No server listens on that port. The error follows the confirmation.
    let call = harness.ask("fetch_url", url(9)).await;
    assert!(
        labels(&call).contains(&"Allow fetching from `http://127.0.0.1:9` in this session"),
        "{call:#}"
    );
    allow(&harness, &call, "allow-session").await;
    let again = harness.call("fetch_url", url(9)).await;
    assert!(again.is_error, "it was tried, without a question: {}", again.text);
    let call = harness.ask("fetch_url", url(7)).await;
    deny(&harness, &call).await;
}
