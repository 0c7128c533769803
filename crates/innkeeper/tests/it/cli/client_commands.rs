//! The client commands against a real host process.

use rustix::process::Signal;
use serde_json::Value;

use super::support::Home;

/// The URI of the only session.
fn only_session(home: &Home) -> String {
    let sessions = home.run(&["sessions", "--json"]).code(0).json_lines();
    assert_eq!(sessions.len(), 1);
    sessions[0]["resource"].as_str().unwrap().to_owned()
}

#[test]
fn hello_gets_an_answer_and_the_session_goes_on() {
    let home = Home::new();
    let host = home.host(&[]);
    let first = home.run(&["send", "hello", "there"]).code(0);
    assert!(!first.stdout.trim().is_empty(), "{first:?}");
    let session = only_session(&home);
    let name = session.rsplit('/').next().unwrap().get(..8).unwrap();
    let first = first.says(&format!("send --session {name} \"…\""));
    assert!(!first.stdout.contains(name), "{first:?}");
    for session in [session.as_str(), name] {
        home.run(&["send", "--session", session, "hello again"]).code(0);
    }
    home.run(&["send", "--last", "hello again"]).code(0);
    assert_eq!(only_session(&home), session);
    host.stop().code(0);
}

#[test]
fn message_can_come_from_standard_input() {
    use std::io::Write as _;
    let home = Home::new();
    let _host = home.host(&[]);
    for args in [&["send", "-"][..], &["send"]] {
        let mut program = home.spawn_piped(args);
        program.stdin.as_mut().unwrap().write_all(b"/help").unwrap();
        program.stdin = None;
        assert!(program.wait().code(0).stdout.contains("/stream"));
    }
    // Beside a message, piped text is added to it.
    let mut program = home.spawn_piped(&["send", "how", "many"]);
    program.stdin.as_mut().unwrap().write_all(b"words are here").unwrap();
    program.stdin = None;
    let counted = program.wait().code(0);
    assert!(counted.stdout.contains("You wrote 5 words"), "{counted:?}");
}

#[test]
fn a_model_that_is_not_there_is_refused_before_there_is_a_session() {
    let home = Home::new();
    // Nothing is asked of the provider: nothing listens there.
    home.write(
        "config/innkeeper/innkeeper.toml",
        "[[models.providers]]\nid = \"here\"\nbase_url = \"http://127.0.0.1:9/v1\"\nkeyless = true\n\
         models = [{ id = \"small\" }, { id = \"large\" }]\n",
    );
    let _host = home.host(&[]);
    let refused = home.run(&["send", "--provider", "here", "--model", "huge", "hello"]);
    refused.code(2).says("has no model \"huge\"").says("small, large");
    assert!(home.run(&["sessions", "--json"]).code(0).json_lines().is_empty());
}

#[test]
fn a_message_that_cannot_be_sent_leaves_no_session_behind() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["send", ""]).code(2).says("the message is empty");
    let refused = home.run(&["send", "--as", "nope", "hello"]);
    refused.code(2).says("no custom agent \"nope\"");
    assert!(home.run(&["sessions", "--json"]).code(0).json_lines().is_empty());
}

#[test]
fn every_delta_arrives() {
    let home = Home::new();
    let _host = home.host(&[]);
    let ended = home.run(&["send", "/stream 5000 0 20"]).code(0);
    assert_eq!(ended.stdout.trim_end().len(), 5000 * 20, "{}", ended.stderr);
}

#[test]
fn reasoning_stays_out_of_standard_output() {
    let home = Home::new();
    let _host = home.host(&[]);
    let ended = home.run(&["send", "/reason deep thoughts"]).code(0);
    let ended = ended.says("thinking: ");
    assert!(ended.stderr.contains("deep thoughts"), "{ended:?}");
}

#[test]
fn exit_codes_tell_the_outcomes_apart() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["send", "/error"]).code(3).says("the turn failed");
    home.run(&["send", "--provider", "unknown", "hello"])
        .code(5)
        .says("ahp-root://");
    home.run(&["send", "--session", "ahp-session:/missing", "hello"])
        .code(5)
        .says("innkeeper sessions");
}

#[test]
fn interrupting_cancels_the_turn_on_the_host() {
    let home = Home::new();
    let _host = home.host(&[]);
    let program = home.spawn(&["send", "--json", "/slow 60"]);
    let started = loop {
        let line: Value = serde_json::from_str(&program.line()).unwrap();
        if line["action"]["type"] == "chat/turnStarted" {
            break line;
        }
    };
    program.signal(Signal::INT);
    let ended = program.wait().code(4).says("cancelled");
    let mut lines = ended.json_lines();
    let summary = lines.pop().unwrap();
    assert_eq!(summary["summary"]["outcome"], "cancelled");
    let last = lines.pop().unwrap();
    assert_eq!(last["action"]["type"], "chat/turnCancelled");
    assert_eq!(last["action"]["turnId"], started["action"]["turnId"]);
}

#[test]
fn message_during_a_running_turn_is_rejected() {
    let home = Home::new();
    let _host = home.host(&[]);
    let program = home.spawn(&["send", "--json", "/slow 60"]);
    while !program.line().contains("chat/turnStarted") {}
    let session = only_session(&home);
    home.run(&["send", "--session", &session, "hello"])
        .code(5)
        .says("rejected");
}

#[test]
fn json_output_is_the_envelopes_in_order() {
    let home = Home::new();
    let _host = home.host(&[]);
    let mut lines = home.run(&["send", "--json", "/stream 3"]).code(0).json_lines();
    let summary = lines.pop().unwrap()["summary"].clone();
    assert_eq!(
        (&summary["outcome"], &summary["session"]),
        (&"complete".into(), &only_session(&home).into())
    );
    assert!(!summary["text"].as_str().unwrap().is_empty(), "{summary}");
    let seqs: Vec<u64> = lines.iter().map(|line| line["serverSeq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    let types: Vec<&str> = lines
        .iter()
        .map(|line| line["action"]["type"].as_str().unwrap())
        .collect();
    assert!(types.contains(&"chat/turnStarted"), "{types:?}");
    assert_eq!(types.last(), Some(&"chat/turnComplete"));
}

#[test]
fn watch_shows_the_state_and_then_the_actions() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["send", "hello"]).code(0);
    let session = only_session(&home);
    let watcher = home.spawn(&["watch", "--json", &session]);
    let snapshot: Value = serde_json::from_str(&watcher.line()).unwrap();
    assert_eq!(snapshot["resource"], *session);
    let chat = snapshot["state"]["defaultChat"].as_str().unwrap().to_owned();
    let chat_watcher = home.spawn(&["watch", &chat]);
    assert!(chat_watcher.line().starts_with(&chat));
    while chat_watcher.line() != "  > hello" {}
    home.run(&["send", "--session", &session, "/stream 2"]).code(0);
    while !chat_watcher.line().contains("chat/turnComplete") {}
    for program in [watcher, chat_watcher] {
        program.signal(Signal::INT);
        program.wait().code(0);
    }
}

#[test]
fn watch_of_root_shows_agents_and_new_sessions() {
    let home = Home::new();
    let _host = home.host(&[]);
    let watcher = home.spawn(&["watch", "ahp-root://"]);
    while !watcher.line().contains("agent tour") {}
    home.run(&["send", "hello"]).code(0);
    while !watcher.line().contains("root/sessionAdded") {}
}

#[test]
fn sessions_list_prints_a_table() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["sessions"]).code(0).says("no sessions yet");
    home.run(&["send", "hello"]).code(0);
    let table = home.run(&["sessions"]).code(0).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("TITLE"), "{table}");
    assert!(lines[1].contains("idle") && lines[1].contains("tour"), "{table}");
    assert!(lines[1].ends_with(&only_session(&home)), "{table}");
}

#[test]
fn rejected_tokens_and_missing_hosts_have_different_exit_codes() {
    let home = Home::new();
    home.run(&["sessions"]).code(69).says("start one with `innkeeper`");
    home.run(&["sessions", "--url", "ws://127.0.0.1:1"]).code(69);
    home.run(&["sessions", "--url", "nonsense"])
        .code(2)
        .says("ws://127.0.0.1:4747");
    let host = home.host(&[]);
    // Under another name the host is a stranger, and strangers do not get the token.
    let alias = host.url().replace("127.0.0.1", "localhost");
    home.run(&["sessions", "--url", &alias]).code(77).says("--token-file");
    let token = home.data("token");
    home.run(&["sessions", "--url", &alias, "--token-file", token.to_str().unwrap()])
        .code(0);
    let wrong = home.write("wrong", "0123456789012345678901234567890123456789012");
    home.run(&["sessions", "--token-file", wrong.to_str().unwrap()])
        .code(77)
        .says("does not accept");
}

#[test]
fn a_session_works_in_the_current_directory_on_a_local_host() {
    let home = Home::new();
    let host = home.host(&[]);
    let socket = home.path("inn.sock");
    let directory = home.path("w");
    std::fs::create_dir(&directory).unwrap();
    let alias = host.url().replace("127.0.0.1", "localhost");
    let token = home.data("token");
    let token = token.to_str().unwrap();
    home.run_in("w", &["send", "--url", &alias, "--token-file", token, "hello"])
        .code(0);
    let works_in = |home: &Home| {
        let shown = home.run(&["sessions", "show", &only_session(home), "--json"]);
        shown.code(0).json_lines()[0]["state"]["workingDirectories"].clone()
    };
    let expected = url::Url::from_file_path(directory.canonicalize().unwrap()).unwrap();
    assert_eq!(works_in(&home), serde_json::json!([expected.as_str()]));
    host.stop().code(0);

    let home = Home::new();
    std::fs::create_dir(home.path("w")).unwrap();
    let _host = home.host(&["--unix", socket.to_str().unwrap()]);
    let url = format!("unix:{}", socket.display());
    home.run_in("w", &["send", "--url", &url, "hello"]).code(0);
    let expected = url::Url::from_file_path(home.path("w").canonicalize().unwrap()).unwrap();
    assert_eq!(works_in(&home), serde_json::json!([expected.as_str()]));
}
