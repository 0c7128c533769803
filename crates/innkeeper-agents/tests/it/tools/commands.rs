//! `run_command`: it asks, shows what it does, and leaves nothing running.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use innkeeper_agents::tools::{EnvironmentRules, ToolLimits, ToolSettings};
use innkeeper_host::Limits;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::tools::scene::{Scene, fifo};

/// Starts a process in the background that ignores polite requests to end, and is in nobody's way but holds a pipe.
const STUBBORN: &str = "trap '' TERM HUP INT; sleep 1000 > alive < /dev/null 2> /dev/null & echo $! > pid; ";

/// Knows when the stubborn process is gone: only then its pipe ends.
struct Watch {
    ends: JoinHandle<()>,
    pid: PathBuf,
}

impl Watch {
    fn start(scene: &Scene) -> Self {
        let pipe = scene.inside.join("alive");
        fifo(&pipe);
        let ends = tokio::task::spawn_blocking(move || {
            let mut pipe = std::fs::File::open(pipe).expect("a pipe");
            pipe.read_to_end(&mut Vec::new()).expect("its end");
        });
        Self {
            ends,
            pid: scene.inside.join("pid"),
        }
    }

    async fn sees_the_end(self) {
        self.ends.await.expect("the pipe ends");
        let pid = std::fs::read_to_string(self.pid).expect("its id");
        let status = format!("/proc/{}/stat", pid.trim());
        // Its files are closed a moment before it is gone, and whoever inherits it may not bury it.
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
    let scene = Scene::new().await;
    scene.put("sub/a", "");
    let call = scene
        .ask(
            "run_command",
            json!({ "command": "pwd; echo oops >&2; ls", "directory": "sub" }),
        )
        .await;
    let directory = scene.inside.join("sub").display().to_string();
    assert_eq!(call["confirmationTitle"], format!("Run this command in `{directory}`?"));
    assert_eq!(call["editable"], true);
    let answer = scene.approve(&call).await;
    assert!(!answer.is_error, "{}", answer.text);
    for expected in [directory.as_str(), "oops\n", "a\n", "[exit code 0]"] {
        assert!(answer.text.contains(expected), "{expected}: {}", answer.text);
    }
    assert_eq!(scene.summary(), "Ran `pwd; echo oops >&2; ls`");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn a_failed_command_reports_its_exit_code() {
    let scene = Scene::new().await;
    let answer = scene.approved("run_command", command("echo no; exit 3")).await;
    assert!(answer.is_error);
    assert_eq!(answer.text, "no\n[exit code 3]");
    let call = scene.shown();
    assert_eq!(
        (&call["success"], &call["error"]["message"]),
        (&json!(false), &json!("exit code 3"))
    );
    let answer = scene.approved("run_command", command("kill -9 $$")).await;
    assert_eq!(answer.text, "[no output]\n[ended by signal 9]");
    let answer = scene.approved("run_command", command("cat")).await;
    assert_eq!(answer.text, "[no output]\n[exit code 0]", "nobody types anything");
}

#[tokio::test]
async fn a_denied_command_does_not_run_and_an_edited_one_runs_as_edited() {
    let scene = Scene::new().await;
    let call = scene.ask("run_command", command("touch mine")).await;
    let denial = json!({ "approved": false, "reason": "denied", "reasonMessage": "why?" });
    scene.decide(&call, denial).await;
    assert_eq!(scene.answer().await.text, "the person denied this call and said: why?");
    let call = scene.ask("run_command", command("touch mine")).await;
    let answer = scene.approve_edited(&call, &command("echo theirs").to_string()).await;
    assert!(
        answer.text.starts_with("The person changed the input"),
        "{}",
        answer.text
    );
    assert!(answer.text.ends_with("\n\ntheirs\n[exit code 0]"), "{}", answer.text);
    assert_eq!(scene.summary(), "Ran `echo theirs`");
    assert!(!scene.inside.join("mine").exists());
    let call = scene.ask("run_command", command("touch mine")).await;
    let answer = scene.approve_edited(&call, "{\"command\": 1}").await;
    assert!(
        answer.is_error && answer.text.contains("`command` must be a string"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let scene = Scene::new().await;
    fifo(&scene.inside.join("go"));
    let call = scene.ask("run_command", command("echo first; cat go; echo last")).await;
    scene.decide(&call, json!({ "approved": true })).await;
    scene.shows("first").await;
    let go = scene.inside.join("go");
    tokio::task::spawn_blocking(move || std::fs::write(go, "second\n"))
        .await
        .expect("no panic")
        .expect("written");
    assert_eq!(scene.answer().await.text, "first\nsecond\nlast\n[exit code 0]");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn a_hundred_megabytes_of_output_stay_bounded() {
    let scene = Scene::new().await;
    let flood = "echo beginning; head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo end";
    let answer = scene.approved("run_command", command(flood)).await;
    assert!(answer.text.len() < 40_000, "{}", answer.text.len());
    assert!(answer.text.starts_with("beginning\n"));
    assert!(answer.text.ends_with("x\nend\n[exit code 0]"));
    assert!(answer.text.contains("bytes of the output left out"));
    let reference = scene.shown()["content"][1].clone();
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
    let read: serde_json::Value = scene.client.request("resourceRead", params).await.expect(uri);
    let kept = read["data"].as_str().expect("text");
    assert!(
        kept.starts_with("beginning\nxxxx") && kept.len() == 4 << 20,
        "{}",
        kept.len()
    );
    let actions = scene.client.view().actions_on(&scene.uris.chat);
    let longest = actions.iter().map(|action| action.to_string().len()).max();
    assert!(longest.is_some_and(|longest| longest < 100_000), "{longest:?}");
}

#[tokio::test]
async fn a_timeout_kills_a_command_and_its_children() {
    let scene = Scene::new().await;
    let watch = Watch::start(&scene);
    let input = json!({ "command": format!("{STUBBORN} echo waiting; wait"), "timeout_seconds": 1 });
    let answer = scene.approved("run_command", input).await;
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
    let scene = Scene::new().await;
    let watch = Watch::start(&scene);
    let call = scene
        .ask("run_command", command(&format!("{STUBBORN} echo waiting; wait")))
        .await;
    scene.decide(&call, json!({ "approved": true })).await;
    scene.shows("waiting").await;
    scene.cancel().await;
    watch.sees_the_end().await;
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn dropping_a_call_kills_the_command_and_its_children() {
    let scene = Scene::new().await;
    let watch = Watch::start(&scene);
    let call = scene
        .ask("run_command", command(&format!("{STUBBORN} echo waiting; wait")))
        .await;
    scene.decide(&call, json!({ "approved": true })).await;
    scene.shows("waiting").await;
    scene.give_up().await;
    watch.sees_the_end().await;
}

#[tokio::test]
async fn background_children_of_a_command_are_killed() {
    let scene = Scene::new().await;
    let watch = Watch::start(&scene);
    let answer = scene
        .approved("run_command", command(&format!("{STUBBORN} echo done")))
        .await;
    assert_eq!(answer.text, "done\n[exit code 0]");
    watch.sees_the_end().await;
    // One that holds on to the output does not hold up the call.
    let answer = scene.approved("run_command", command("sleep 1000 & echo done")).await;
    assert_eq!(
        answer.text,
        "done\n[exit code 0; what it left running in the background was ended]"
    );
}

#[tokio::test]
async fn commands_do_not_see_hidden_variables() {
    let environment = EnvironmentRules {
        hide: vec!["HOME".to_owned()],
        ..EnvironmentRules::default()
    };
    let settings = ToolSettings {
        environment,
        ..ToolSettings::default()
    };
    let scene = Scene::with(settings).await;
    let answer = scene.approved("run_command", command("env")).await;
    let has = |name: &str| answer.text.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert!(has("PATH") && has("TERM"), "{}", answer.text);
    assert!(!has("HOME"), "{}", answer.text);
}

#[tokio::test]
async fn commands_use_the_configured_umask() {
    let script = "umask; echo \"$# $0\"; echo 'it'\\''s `echo quoted`'; exit 3";
    let plain = Scene::new().await.approved("run_command", command(script)).await;
    let scene = Scene::with(ToolSettings {
        umask: Some(0o007),
        ..ToolSettings::default()
    })
    .await;
    let answer = scene.approved("run_command", command(script)).await;
    let without_umask = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert!(answer.text.starts_with("0007\n"), "{}", answer.text);
    assert_eq!(
        without_umask(&answer.text),
        without_umask(&plain.text),
        "nothing else is different"
    );
}

/// A command without output is at work, and the host hears so: its notice that the agent is silent goes away again
/// although the command says nothing.
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
    let scene = Scene::set_up(|_| settings, limits).await;
    fifo(&scene.inside.join("go"));
    let call = scene.ask("run_command", command("cat go")).await;
    scene.decide(&call, json!({ "approved": true })).await;
    let chat = &scene.uris.chat;
    scene.client.call_in(chat, "running").await;
    let before = scene.client.view().actions_on(chat).len();
    scene
        .client
        .until("the notice comes and goes", |view| {
            let actions = view.actions_on(chat);
            let changes = actions.iter().skip(before);
            let mut changes = changes.filter(|action| action["type"] == "chat/activityChanged");
            let is_notice = |action: &serde_json::Value| action["activity"].is_string();
            changes.any(is_notice) && changes.any(|action| !is_notice(action))
        })
        .await;
    let go = scene.inside.join("go");
    tokio::task::spawn_blocking(move || std::fs::write(go, "went\n"))
        .await
        .expect("the thread")
        .expect("written");
    assert_eq!(scene.answer().await.text, "went\n[exit code 0]");
}
