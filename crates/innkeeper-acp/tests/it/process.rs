//! Processes of agents: they start late, die, are ended, and come back with the whole conversation.

use std::time::Duration;

use innkeeper_acp::{AcpAgent, AcpTimes};
use innkeeper_host::journal::{CrashSurvivors, MemoryJournal};
use innkeeper_host::{Agent as _, Host};
use innkeeper_testkit::embedded::Running;
use innkeeper_testkit::official::markdown;
use serde_json::json;

use crate::support::{Agency, calls, error_of, short_times, until};

#[tokio::test]
async fn nothing_is_started_before_a_session_uses_the_agent() {
    let agency = Agency::new("");
    let agent = AcpAgent::new(agency.settings());
    assert_eq!(agent.info().provider, "scripted");
    let running = Running::start(Host::builder().agent(agent)).await;
    assert_eq!(agency.noted("starts").len(), 0);
    drop(running);
}

#[tokio::test]
async fn an_agent_runs_in_the_directory_of_its_session_with_few_variables() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let names = stage.words("t1", "env").await;
    let names: Vec<&str> = names.split(',').filter(|name| !name.starts_with("__CF")).collect();
    assert_eq!(names, ["ACP_AGENT", "ACP_STATE", "PATH"]);
    let directory = agency.noted("directories").remove(0);
    assert_eq!(directory, agency.work().display().to_string());
}

/// The agent dies in the middle of a turn. The turn ends and can be resumed, and the next message restores the session in
/// the way that the agent offers.
#[tokio::test]
async fn a_dead_agent_is_restored_without_duplicated_history() {
    for (quirks, restored, told, starts) in [
        ("load", vec!["session/load"], 0, 2),
        // Gemini replays after it has answered.
        ("load-late", vec!["session/load"], 0, 2),
        ("load-null", vec!["session/load"], 0, 2),
        ("resume", vec!["session/resume"], 0, 2),
        // A request that is never answered costs another process.
        ("load-never", vec!["session/load"], 2, 3),
        ("", vec![], 2, 2),
    ] {
        let agency = Agency::new(quirks).with_times(short_times());
        let stage = agency.open().await;
        assert_eq!(stage.words("t1", "say one").await, "one", "{quirks}");
        let turn = stage.turn("t2", "die").await;
        let error = error_of(&turn);
        assert_eq!(error["error"]["errorType"], "agentDied", "{quirks}: {error}");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains("exited with code 3"), "{message}");
        assert!(message.contains("fatal: the floor gave way"), "{message}");
        assert_eq!(error["resumable"], true, "{error}");
        assert_ne!(calls(&turn)[0]["status"], "running");
        let said = stage.words("t3", "recall").await;
        let known = if told == 0 {
            "2 messages, told 0: say one | die"
        } else {
            "0 messages, told 2: "
        };
        assert_eq!(said, known, "{quirks}");
        assert_eq!(agency.noted("restored"), restored, "{quirks}");
        assert_eq!(agency.noted("starts").len(), starts, "{quirks}");
        assert_eq!(stage.client.chat(&stage.uris.chat).turns.len(), 3);
        stage.client.assert_converged().await;
    }
}

#[tokio::test]
async fn an_interrupted_turn_is_resumed() {
    let agency = Agency::new("load");
    let stage = agency.open().await;
    stage.turn("t1", "die").await;
    let resume = json!({ "type": "chat/turnResume", "turnId": "t1" });
    stage.client.dispatch(&stage.uris.chat, resume).await;
    // The words are those before the end and those after it.
    stage
        .client
        .until("the resumed turn has ended", |view| {
            let chat = view.chat(&stage.uris.chat).expect("mirrored");
            chat.active_turn.is_none()
                && chat
                    .turns
                    .last()
                    .is_some_and(|turn| markdown(&turn.response_parts).contains("You said: Your work"))
        })
        .await;
}

#[tokio::test]
async fn an_idle_agent_is_ended_and_comes_back_on_demand() {
    let times = AcpTimes {
        idle: Duration::from_millis(200),
        ..AcpTimes::default()
    };
    let agency = Agency::new("load").with_times(times);
    let stage = agency.open().await;
    assert_eq!(stage.words("t1", "say one").await, "one");
    let pid = agency.noted("starts").pop().expect("a process");
    let process = std::path::PathBuf::from(format!("/proc/{pid}"));
    if cfg!(target_os = "linux") {
        until("the idle process ends", || !process.exists()).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stage.words("t2", "recall").await, "1 messages, told 0: say one");
    assert!(agency.noted("starts").len() >= 2);
}

#[tokio::test]
async fn a_session_continues_after_a_restart_of_the_host() {
    let agency = Agency::new("load");
    let journal = MemoryJournal::new();
    let mut stage = agency.open_with(agency.builder().journal(journal.clone())).await;
    assert_eq!(stage.words("t1", "say one").await, "one");
    let left = journal.crash(CrashSurvivors::Durable);
    let second = Running::start(agency.builder().journal(left)).await;
    stage.client.cut().await;
    stage.client.move_to(&second.address);
    stage.client.reconnect().await.expect("known across restarts");
    assert_eq!(stage.words("t2", "recall").await, "1 messages, told 0: say one");
    assert_eq!(agency.noted("restored"), ["session/load"]);
    stage.client.assert_converged().await;
}

/// Hermes, Nanocoder and OpenHands open an empty session for an id that they do not know.
#[tokio::test]
async fn hermes_says_yes_to_a_session_it_does_not_have() {
    let agency = Agency::new("load-unknown");
    let stage = agency.open().await;
    assert_eq!(stage.words("t1", "say one").await, "one");
    stage.turn("t2", "die").await;
    for session in std::fs::read_dir(agency.state()).expect("a directory") {
        let session = session.expect("an entry");
        if session.file_name().to_string_lossy().starts_with('s') && session.file_name() != "starts" {
            std::fs::remove_file(session.path()).expect("forgotten");
        }
    }
    assert_eq!(stage.words("t3", "recall").await, "0 messages, told 2: ");
    assert_eq!(agency.noted("restored"), ["session/load"]);
    stage.client.assert_converged().await;
}

/// A fork is another conversation than the one that the agent has.
#[tokio::test]
async fn a_fork_gets_the_conversation_in_words() {
    let agency = Agency::new("load");
    let stage = agency.open().await;
    stage.turn("t1", "say one").await;
    stage.turn("t2", "say two").await;
    let fork = "ahp-chat:/fork";
    let source = json!({ "source": { "kind": "fork", "chat": stage.uris.chat, "turnId": "t1" } });
    stage.client.create_chat(&stage.uris.session, fork, source).await;
    stage.client.subscribe(fork).await;
    let turn = stage.client.run_turn(fork, "f1", "recall").await;
    assert_eq!(markdown(&turn.response_parts), "0 messages, told 1: ");
    assert_eq!(agency.noted("restored").len(), 0);
}

#[tokio::test]
async fn start_problems_come_with_a_remedy() {
    let fails = async |quirks: &str, program: Option<&str>| {
        let times = AcpTimes {
            start: Duration::from_secs(if quirks == "silent" { 1 } else { 60 }),
            ..AcpTimes::default()
        };
        let agency = Agency::new(quirks).with_times(times);
        let mut settings = agency.settings();
        if let Some(program) = program {
            settings.command.program = program.into();
        }
        let builder = Host::builder().agent(AcpAgent::new(settings));
        let stage = agency.open_with(builder).await;
        let error = error_of(&stage.turn("t1", "say hi").await);
        assert_eq!(error["resumable"], true, "{error}");
        error["error"]["message"].as_str().expect("a message").to_owned()
    };
    let crashed = fails("crash", None).await;
    assert!(
        crashed.contains("exited with code 4") && crashed.contains("no license found"),
        "{crashed}"
    );
    let missing = fails("", Some("no-such-agent")).await;
    assert!(
        missing.contains("`no-such-agent` was not found: install it"),
        "{missing}"
    );
    let signed_out = fails("signed-out", None).await;
    assert!(
        signed_out.contains("needs you to sign in") && signed_out.contains("Run `scripted login`"),
        "{signed_out}"
    );
    // OpenCode says nothing without a key.
    let silent = fails("silent", None).await;
    assert!(silent.contains("did not answer `initialize` within 1 s"), "{silent}");
    let future = fails("future", None).await;
    assert!(
        future.contains("speaks version 99 of ACP; this host speaks version 1"),
        "{future}"
    );
}

#[tokio::test]
async fn a_check_reports_version_and_abilities() {
    let agency = Agency::new("load,resume");
    let agent = AcpAgent::new(agency.settings());
    let report = innkeeper_acp::check(&agent, agency.work()).await.expect("a report");
    assert_eq!(report.learned.version.as_deref(), Some("1.2.3"));
    assert!(report.learned.abilities.load && report.learned.abilities.resume);
    let commands: Vec<&str> = report.learned.commands.iter().map(|command| &*command.name).collect();
    assert_eq!(commands, ["polish"], "they come after the session");
    let pid = agency.noted("starts").pop().expect("a process");
    if cfg!(target_os = "linux") {
        assert!(
            !std::path::PathBuf::from(format!("/proc/{pid}")).exists(),
            "the process has ended"
        );
    }
    let other = Agency::new("signed-out");
    let signed_out = AcpAgent::new(other.settings());
    let problem = innkeeper_acp::check(&signed_out, agency.work())
        .await
        .expect_err("signed out");
    assert!(problem.contains("sign in"), "{problem}");
}

/// Codex and others sign in by themselves if their variables are there.
#[tokio::test]
async fn a_key_in_the_environment_signs_in() {
    let agency = Agency::new("env-auth");
    let stage = agency.open().await;
    assert_eq!(stage.words("t1", "say hi").await, "hi");
    assert_eq!(agency.noted("signed-in"), ["key"]);
}
