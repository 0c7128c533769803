//! `run_command`: it asks, shows its output, and leaves no process behind.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use innkeeper_agents::tools::{EnvironmentRules, ToolLimits, ToolSettings};
use innkeeper_host::Limits;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::tools::harness::{ToolHarness, fifo};

/// Starts a background process that ignores SIGTERM and holds a pipe.
const STUBBORN: &str = "trap '' TERM HUP INT; sleep 1000 > alive < /dev/null 2> /dev/null & echo $! > pid; ";

/// Detects the end of that process: only then its pipe is closed.
struct Watch {
    ends: JoinHandle<()>,
    pid: PathBuf,
}

impl Watch {
    fn start(harness: &ToolHarness) -> Self {
        let pipe = harness.inside.join("alive");
        fifo(&pipe);
        let ends = tokio::task::spawn_blocking(move || {
            let mut pipe = std::fs::File::open(pipe).expect("a pipe");
            pipe.read_to_end(&mut Vec::new()).expect("its end");
        });
        Self {
            ends,
            pid: harness.inside.join("pid"),
        }
    }

    async fn sees_the_end(self) {
        self.ends.await.expect("the pipe ends");
        let pid = std::fs::read_to_string(self.pid).expect("its id");
        let status = format!("/proc/{}/stat", pid.trim());
        // Files are closed shortly before the process ends, and its new parent may not reap it.
        while std::fs::read_to_string(&status).is_ok_and(|status| !status.contains(") Z ")) {
            tokio::task::yield_now().await;
        }
    }
}

fn command(command: &str) -> serde_json::Value {
    json!({ "command": command })
}

#[tokio::test]
async fn a_command_asks_for_confirmation_with_its_directory() {
    let harness = ToolHarness::new().await;
    harness.put("sub/a", "");
    let call = harness
        .ask(
            "run_command",
            json!({ "command": "pwd; echo oops >&2; ls", "directory": "sub" }),
        )
        .await;
    let directory = harness.inside.join("sub").display().to_string();
    assert_eq!(call["confirmationTitle"], format!("Run this command in `{directory}`?"));
    assert_eq!(call["editable"], true);
    let answer = harness.approve(&call).await;
    assert!(!answer.is_error, "{}", answer.text);
    for expected in [directory.as_str(), "oops\n", "a\n", "[exit code 0]"] {
        assert!(answer.text.contains(expected), "{expected}: {}", answer.text);
    }
    assert_eq!(harness.summary(), "Ran `pwd; echo oops >&2; ls`");
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn a_failed_command_reports_its_exit_code() {
    let harness = ToolHarness::new().await;
    let answer = harness.approved("run_command", command("echo no; exit 3")).await;
    assert!(answer.is_error);
    assert_eq!(answer.text, "no\n[exit code 3]");
    let call = harness.shown();
    assert_eq!(
        (&call["success"], &call["error"]["message"]),
        (&json!(false), &json!("exit code 3"))
    );
    let answer = harness.approved("run_command", command("kill -9 $$")).await;
    assert_eq!(answer.text, "[no output]\n[ended by signal 9]");
    let answer = harness.approved("run_command", command("cat")).await;
    assert_eq!(answer.text, "[no output]\n[exit code 0]", "standard input is empty");
}

#[tokio::test]
async fn a_denied_command_does_not_run_and_an_edited_one_runs_as_edited() {
    let harness = ToolHarness::new().await;
    let call = harness.ask("run_command", command("touch mine")).await;
    let denial = json!({ "approved": false, "reason": "denied", "reasonMessage": "why?" });
    harness.decide(&call, denial).await;
    assert_eq!(harness.answer().await.text, "the user denied this call and said: why?");
    let call = harness.ask("run_command", command("touch mine")).await;
    let answer = harness.approve_edited(&call, &command("echo theirs").to_string()).await;
    assert!(answer.text.starts_with("The user changed the input"), "{}", answer.text);
    assert!(answer.text.ends_with("\n\ntheirs\n[exit code 0]"), "{}", answer.text);
    assert_eq!(harness.summary(), "Ran `echo theirs`");
    assert!(!harness.inside.join("mine").exists());
    let call = harness.ask("run_command", command("touch mine")).await;
    let answer = harness.approve_edited(&call, "{\"command\": 1}").await;
    assert!(
        answer.is_error && answer.text.contains("`command` must be a string"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let harness = ToolHarness::new().await;
    fifo(&harness.inside.join("go"));
    let call = harness
        .ask("run_command", command("echo first; cat go; echo last"))
        .await;
    harness.decide(&call, json!({ "approved": true })).await;
    harness.shows("first").await;
    let go = harness.inside.join("go");
    tokio::task::spawn_blocking(move || std::fs::write(go, "second\n"))
        .await
        .expect("no panic")
        .expect("written");
    assert_eq!(harness.answer().await.text, "first\nsecond\nlast\n[exit code 0]");
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn a_hundred_megabytes_of_output_stay_bounded() {
    let harness = ToolHarness::new().await;
    let flood = "echo beginning; head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo end";
    let answer = harness.approved("run_command", command(flood)).await;
    assert!(answer.text.len() < 40_000, "{}", answer.text.len());
    assert!(answer.text.starts_with("beginning\n"));
    assert!(answer.text.ends_with("x\nend\n[exit code 0]"));
    assert!(answer.text.contains("bytes of the output left out"));
    let reference = harness.shown()["content"][1].clone();
    assert_eq!(
        (&reference["type"], &reference["contentType"], &reference["sizeHint"]),
        (&json!("resource"), &json!("text/plain"), &json!(4 << 20)),
        "{reference}"
    );
    let uri = reference["uri"].as_str().expect("a URI");
    assert!(
        uri.starts_with("innkeeper-content://") && uri.ends_with("/output.txt"),
        "{uri}"
    );
    let params = json!({ "channel": "ahp-root://", "uri": uri });
    let read: serde_json::Value = harness.client.request("resourceRead", params).await.expect(uri);
    let kept = read["data"].as_str().expect("text");
    assert!(
        kept.starts_with("beginning\nxxxx") && kept.len() == 4 << 20,
        "{}",
        kept.len()
    );
    let actions = harness.client.view().actions_on(&harness.uris.chat);
    let longest = actions.iter().map(|action| action.to_string().len()).max();
    assert!(longest.is_some_and(|longest| longest < 100_000), "{longest:?}");
}

#[tokio::test]
async fn a_timeout_kills_a_command_and_its_children() {
    let harness = ToolHarness::new().await;
    let watch = Watch::start(&harness);
    let input = json!({ "command": format!("{STUBBORN} echo waiting; wait"), "timeout_seconds": 1 });
    let answer = harness.approved("run_command", input).await;
    assert!(answer.is_error);
    assert!(
        answer.text.starts_with("waiting\n[ended after 1 seconds"),
        "{}",
        answer.text
    );
    watch.sees_the_end().await;
}

#[tokio::test]
async fn cancelling_kills_a_command_and_its_children() {
    let harness = ToolHarness::new().await;
    let watch = Watch::start(&harness);
    let call = harness
        .ask("run_command", command(&format!("{STUBBORN} echo waiting; wait")))
        .await;
    harness.decide(&call, json!({ "approved": true })).await;
    harness.shows("waiting").await;
    harness.cancel().await;
    watch.sees_the_end().await;
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn dropping_a_call_kills_the_command_and_its_children() {
    let harness = ToolHarness::new().await;
    let watch = Watch::start(&harness);
    let call = harness
        .ask("run_command", command(&format!("{STUBBORN} echo waiting; wait")))
        .await;
    harness.decide(&call, json!({ "approved": true })).await;
    harness.shows("waiting").await;
    harness.give_up().await;
    watch.sees_the_end().await;
}

#[tokio::test]
async fn background_children_of_a_command_are_killed() {
    let harness = ToolHarness::new().await;
    let watch = Watch::start(&harness);
    let answer = harness
        .approved("run_command", command(&format!("{STUBBORN} echo done")))
        .await;
    assert_eq!(answer.text, "done\n[exit code 0]");
    watch.sees_the_end().await;
    // A process that keeps the output open does not delay the call.
    let answer = harness.approved("run_command", command("sleep 1000 & echo done")).await;
    assert_eq!(
        answer.text,
        "done\n[exit code 0; processes that it left in the background were killed]"
    );
}

#[tokio::test]
async fn t15_commands_see_needed_and_passed_variables_alone() {
    let environment = EnvironmentRules {
        pass: vec!["CARGO_PKG_NAME".to_owned()],
        hide: vec!["HOME".to_owned()],
    };
    let settings = ToolSettings {
        environment,
        ..ToolSettings::default()
    };
    let harness = ToolHarness::with(settings).await;
    let answer = harness.approved("run_command", command("env")).await;
    let has = |name: &str| answer.text.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert!(has("PATH") && has("TERM") && has("CARGO_PKG_NAME"), "{}", answer.text);
    assert!(!has("HOME") && !has("CARGO_MANIFEST_DIR"), "{}", answer.text);
}

#[tokio::test]
async fn commands_use_the_configured_umask() {
    let script = "umask; echo \"$# $0\"; echo 'it'\\''s `echo quoted`'; exit 3";
    let plain = ToolHarness::new().await.approved("run_command", command(script)).await;
    let harness = ToolHarness::with(ToolSettings {
        umask: Some(0o007),
        ..ToolSettings::default()
    })
    .await;
    let answer = harness.approved("run_command", command(script)).await;
    let without_umask = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert!(answer.text.starts_with("0007\n"), "{}", answer.text);
    assert_eq!(
        without_umask(&answer.text),
        without_umask(&plain.text),
        "nothing else is different"
    );
}

/// A silent command counts as activity: the watchdog's notice disappears although the command prints nothing.
#[tokio::test]
async fn a_silent_command_reports_that_it_is_alive() {
    let mut limits = Limits::default();
    limits.core.silence_notice_ms = 50;
    let settings = ToolSettings {
        limits: ToolLimits {
            alive_pace: Duration::from_millis(400),
            ..ToolLimits::default()
        },
        ..ToolSettings::default()
    };
    let harness = ToolHarness::set_up(|_| settings, limits).await;
    fifo(&harness.inside.join("go"));
    let call = harness.ask("run_command", command("cat go")).await;
    harness.decide(&call, json!({ "approved": true })).await;
    let chat = &harness.uris.chat;
    harness.client.call_in(chat, "running").await;
    let before = harness.client.view().actions_on(chat).len();
    harness
        .client
        .until("the notice comes and goes", |view| {
            let actions = view.actions_on(chat);
            let changes = actions.iter().skip(before);
            let mut changes = changes.filter(|action| action["type"] == "chat/activityChanged");
            let is_notice = |action: &serde_json::Value| action["activity"].is_string();
            changes.any(is_notice) && changes.any(|action| !is_notice(action))
        })
        .await;
    let go = harness.inside.join("go");
    tokio::task::spawn_blocking(move || std::fs::write(go, "went\n"))
        .await
        .expect("the thread")
        .expect("written");
    assert_eq!(harness.answer().await.text, "went\n[exit code 0]");
}
