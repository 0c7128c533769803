//! The commands about turns: `attach`, `cancel`, `queue`, `steer`, `resume`; and what `send` does alone.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::support::{Home, Program, TIMEOUT, named_session};

/// Starts a slow turn and waits until it runs.
fn slow_turn(home: &Home, seconds: &str) -> Program {
    let program = home.spawn(&["send", "--json", &format!("/slow {seconds}")]);
    while !program.line().contains("chat/turnStarted") {}
    program
}

/// Repeats a command until its output satisfies a condition.
fn until(home: &Home, args: &[&str], is_done: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let shown = home.run(args).code(0).stdout;
        if is_done(&shown) {
            return shown;
        }
        assert!(begun.elapsed() < TIMEOUT, "{args:?} shows {shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn latest(home: &Home) -> Value {
    home.run(&["sessions", "--json"]).code(0).json_lines().remove(0)
}

#[test]
fn a_running_turn_is_cancelled_from_another_terminal() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = slow_turn(&home, "60");
    home.run(&["cancel"]).code(0).says("Cancelled: /slow 60");
    sender.wait().code(4).says("the turn was cancelled");
    home.run(&["cancel"]).code(5).says("no turn runs");
}

#[test]
fn messages_are_queued_and_steered_while_a_turn_runs() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = slow_turn(&home, "3");
    home.run(&["queue", "/help"]).code(0).says("follows the running turn");
    home.run(&["steer", "a", "little", "faster"])
        .code(0)
        .says("gets the message");
    sender.wait().code(0);
    let session = latest(&home)["resource"].as_str().unwrap().to_owned();
    until(&home, &["sessions", "show", &session], |shown| {
        shown.contains("> /help") && shown.contains("/stream")
    });
    home.run(&["queue", "--session", &session, "hello"])
        .code(0)
        .says("the message starts one");
}

#[test]
fn a_failed_turn_is_resumed_by_the_command_that_the_error_names() {
    let home = Home::new();
    let _host = home.host(&[]);
    let failed = home.run(&["send", "/error resumable"]).code(3);
    let session = named_session(&failed.stderr);
    failed.says(&format!("resume {session}"));
    let resumed = home.run(&["resume", &session]).code(0);
    assert!(!resumed.stdout.trim().is_empty(), "{resumed:?}");
    home.run(&["resume", &session]).code(5).says("can be resumed");
}

#[test]
fn a_turn_that_takes_too_long_is_cancelled() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["send", "--timeout", "1", "/slow 60"])
        .code(4)
        .says("longer than --timeout");
}

#[test]
fn a_script_denies_or_approves_without_a_terminal() {
    let home = Home::new();
    let _host = home.host(&[]);
    let denied = home.run(&["send", "--deny", "/confirm"]).code(0);
    assert!(denied.stdout.contains("No bell, then"), "{denied:?}");
    home.run(&["send", "--deny", "/ask"])
        .code(0)
        .says("denied by --deny: question");
    let approved = home.run(&["send", "--approve", "ring_bell(*)", "/confirm"]).code(0);
    assert!(approved.stdout.contains("I rang the bell"), "{approved:?}");
    let listed = home.run(&["approvals"]).code(0).stdout;
    assert!(listed.contains("  ring_bell(*)"), "{listed}");
}

#[test]
fn attach_shows_earlier_turns_and_everything_that_follows() {
    let home = Home::new();
    let _host = home.host(&[]);
    let session = named_session(&home.run(&["send", "hello there"]).code(0).stderr);
    let attached = home.spawn(&["attach", &session]);
    while attached.line() != "> hello there" {}
    home.run(&["send", "-s", &session, "/stream 3"]).code(0);
    while attached.line() != "> /stream 3" {}
    attached.signal(Signal::INT);
    attached.wait().code(0).says("detached; the session goes on");
}

#[test]
fn send_survives_a_restart_of_the_host_and_says_so() {
    let home = Home::new();
    let host = home.host(&[]);
    let sender = slow_turn(&home, "60");
    host.program.signal(Signal::KILL);
    host.program.wait();
    let _host = home.host(&[]);
    let ended = sender.wait().code(3).says("the connection to the host is lost");
    let summary = ended.json_lines().pop().unwrap();
    assert_eq!(summary["summary"]["outcome"], "failed", "{summary}");
    ended.says("connected again").says("continue it with");
}

#[test]
fn models_and_settings_are_listed_and_changed() {
    let home = Home::new();
    let _host = home.host(&[]);
    let models = home.run(&["models"]).code(0).stdout;
    assert!(
        models.contains("tour  Tour guide") && models.contains("--model tour"),
        "{models}"
    );
    home.run(&["settings"])
        .code(5)
        .says("no session works in this directory");
    home.run(&["send", "hello"]).code(0);
    let listed = home.run(&["settings"]).code(0).stdout;
    assert!(listed.contains("mood = \"cheerful\""), "{listed}");
    home.run(&["settings", "mood=grumpy"]).code(0);
    let listed = home.run(&["settings", "--json"]).code(0).json_lines();
    assert_eq!(listed[0]["values"]["mood"], "grumpy");
    home.run(&["settings", "mood=purple"]).code(5).says("mood");
    home.run(&["settings", "colour=red"])
        .code(2)
        .says("no setting \"colour\"");
}

#[test]
fn sessions_are_renamed_and_archived() {
    let home = Home::new();
    let _host = home.host(&[]);
    let session = named_session(&home.run(&["send", "hello"]).code(0).stderr);
    home.run(&["sessions", "rename", &session, "The", "garden"]).code(0);
    assert_eq!(latest(&home)["title"], "The garden");
    home.run(&["sessions", "archive", &session]).code(0);
    assert_eq!(
        home.run(&["sessions", "--archived", "--json"])
            .code(0)
            .json_lines()
            .len(),
        1
    );
    home.run(&["sessions", "archive", "--undo", &session]).code(0);
    assert!(
        home.run(&["sessions", "--archived", "--json"])
            .code(0)
            .json_lines()
            .is_empty()
    );
}

#[test]
fn the_data_directory_is_named_before_the_command() {
    let home = Home::new();
    let elsewhere = home.path("elsewhere");
    let data = elsewhere.to_str().unwrap();
    let _host = home.host(&["--data", data]);
    home.run(&["--data", data, "send", "hello"]).code(0);
    home.run(&["--data", data, "sessions", "show", "--json", ""]).code(5);
    home.run(&["sessions"]).code(69);
}

#[test]
fn a_chat_is_not_a_session() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["send", "--session", "ahp-chat://default/x", "hello"])
        .code(2)
        .says("is a chat");
}
