//! Commands that try to pass under a remembered pattern: every one of them is asked about.

use std::sync::LazyLock;

use innkeeper_core::ConnId;
use innkeeper_core::agent::{ApprovalSubject, Confirmation, Permission, ToolReady, ToolStep};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

/// Remembered rules and commands that try to pass under them.
///
/// `cargo xtask vscode` reads the same file and plays the commands in the windows of VS Code.
#[derive(Deserialize)]
struct Corpus {
    /// Rules that a user allowed before. None of them covers any of the attempts.
    remembered: Vec<String>,
    /// Commands that a hostile page or a careless model may produce, each after the trick it uses.
    attempts: Vec<(String, String)>,
}

static CORPUS: LazyLock<Corpus> =
    LazyLock::new(|| serde_json::from_str(include_str!("approval_attempts.json")).expect("rules and attempts"));

fn asks_to_run(stage: &mut Stage, call: &str, line: &str) {
    stage.tool(call, ToolStep::Start(host_tool("run_command")));
    stage.tool(
        call,
        ToolStep::Ready(ToolReady {
            invocation: "Runs it".into(),
            input: Some(json!({ "command": line }).to_string()),
            permission: Permission::Ask(Box::new(Confirmation {
                subject: ApprovalSubject::Command {
                    line: line.to_owned(),
                    directory: None,
                },
                ..Confirmation::default()
            })),
        }),
    );
}

fn status(stage: &Stage, chat: &str, call: &str) -> Value {
    stage.call_state(chat, call)["status"].clone()
}

/// A session in a workspace, where every remembered rule of the [`Corpus`] is allowed in one way.
fn remembering(setting: &str) -> (Stage, ConnId, String) {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let mut create = new_session(SESSION);
    create.working_directories = vec!["file:///srv/app".to_owned()];
    stage.create_with(conn, create);
    stage.opened(Ok(()));
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.start_turn(conn, &chat, "t");
    let allowed = json!({ "type": "session/configChanged", "config": { setting: CORPUS.remembered } });
    stage.accepted(conn, SESSION, allowed);
    (stage, conn, chat)
}

#[test]
fn every_attempt_to_pass_under_a_remembered_pattern_is_asked_about() {
    assert!(CORPUS.attempts.len() >= 100);
    for setting in ["approvedTools", "workspaceApprovedTools", "everywhereApprovedTools"] {
        let (mut stage, _, chat) = remembering(setting);
        asks_to_run(&mut stage, "control", "cargo test -p core");
        assert_eq!(status(&stage, &chat, "control"), "running", "the pattern itself works");
        for (index, (trick, line)) in CORPUS.attempts.iter().enumerate() {
            let call = format!("attempt-{index}");
            asks_to_run(&mut stage, &call, line);
            let asked = status(&stage, &chat, &call);
            assert_eq!(asked, "pending-confirmation", "{trick}: {line:?} in {setting}");
        }
    }
}

/// The setting that VS Code's permission picker writes decides whether users are asked at all; on its careful levels
/// the same rules hold.
#[test]
fn careful_permission_levels_ask_about_every_attempt() {
    for level in ["default", "assisted", "autopilot"] {
        let (mut stage, conn, chat) = remembering("approvedTools");
        let picked = json!({ "type": "session/configChanged", "config": { "autoApprove": level } });
        stage.dispatch(conn, SESSION, 77, picked);
        assert_eq!(stage.refusal(conn), None);
        for (index, (trick, line)) in CORPUS.attempts.iter().enumerate() {
            let call = format!("attempt-{index}");
            asks_to_run(&mut stage, &call, line);
            let asked = status(&stage, &chat, &call);
            assert_eq!(asked, "pending-confirmation", "{trick}: {line:?} on {level}");
        }
    }
}

/// The rule that is offered for an attempt covers that exact line and no similar one.
#[test]
fn an_attempt_is_never_offered_as_a_pattern() {
    let (mut stage, _, chat) = remembering("approvedTools");
    let mut offered = Vec::new();
    for (index, (trick, line)) in CORPUS.attempts.iter().enumerate() {
        let call = format!("attempt-{index}");
        asks_to_run(&mut stage, &call, line);
        let state = stage.call_state(&chat, &call);
        let rules = &state["_meta"]["innkeeper.approval"]["rules"];
        if let Some(rule) = rules["allow-session"].as_str() {
            assert!(!rule.contains('*'), "{trick}: {rule}");
            assert!(rule.chars().all(|c| matches!(c, ' '..='~')), "{trick}: {rule}");
            offered.push((line, rule.to_owned()));
        }
        let pattern = rules.get("allow-session-pattern");
        assert_eq!(pattern, None, "{trick}: {line:?}");
    }
    // Remembered, such a rule covers the same line again. The tests of `chat::approval::rule` compare it with every
    // other attempt; here the next one stands for them.
    let mut others = CORPUS.attempts.iter().map(|(_, line)| line).cycle().skip(1);
    for (line, rule) in offered {
        let (mut stage, conn, chat) = remembering("approvedTools");
        let allowed = json!({ "type": "session/configChanged", "config": { "approvedTools": [rule] } });
        stage.accepted(conn, SESSION, allowed);
        asks_to_run(&mut stage, "same", line);
        assert_eq!(status(&stage, &chat, "same"), "running", "{rule}");
        let other = others.find(|other| *other != line).expect("a cycle");
        asks_to_run(&mut stage, "other", other);
        assert_eq!(
            status(&stage, &chat, "other"),
            "pending-confirmation",
            "{rule}: {other:?}"
        );
    }
}

/// Pieces that mean something to a shell, and harmless ones between them.
const PIECES: &[&str] = &[
    "a",
    "b1",
    "-x",
    "--y=z",
    "src/c.rs",
    "./...",
    "'d e'",
    "\"f g\"",
    "''",
    "'*'",
    "\"it's\"",
    "%",
    "+",
    "@",
    ",",
    ":",
    "=",
    "h=i",
    " ",
    "  ",
    "'",
    "\"",
    "*",
    "?",
    "[",
    "]",
    "{j,k}",
    "$HOME",
    "$(echo l)",
    "`echo m`",
    ";",
    "&",
    "&&",
    "|",
    ">",
    "<",
    "<<n",
    "(",
    ")",
    "!",
    "!!",
    "#",
    "~",
    "\\",
    "\n",
    "\t",
    "\r",
    "é",
    "\u{200b}",
    "^",
    "$'o'",
    "$\"p\"",
    "-",
    "--",
    "2>&1",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1500))]

    /// A shell reads every line that a pattern covers as one command with these arguments.
    #[test]
    fn a_shell_reads_a_covered_line_as_one_plain_command(
        pieces in proptest::collection::vec((proptest::sample::select(PIECES), proptest::bool::weighted(0.7)), 0..6),
    ) {
        let mut line = "probe".to_owned();
        for (piece, is_apart) in pieces {
            line.push_str(if is_apart { " " } else { "" });
            line.push_str(piece);
        }
        if !runs_under(&line) || !std::path::Path::new("/bin/bash").exists() {
            return Ok(());
        }
        let directory = std::env::temp_dir();
        let script = format!("probe() {{ printf 'called\\0'; printf '%s\\0' \"$@\"; }}\n{line}");
        let ran = std::process::Command::new("/bin/bash")
            .args(["-c", &script])
            .current_dir(directory)
            .output()
            .expect("a shell");
        proptest::prop_assert!(ran.status.success() && ran.stderr.is_empty(), "{line:?}: {ran:?}");
        let output = String::from_utf8(ran.stdout).expect("text");
        let mut words = output.split_terminator('\0');
        proptest::prop_assert_eq!(words.next(), Some("called"), "{:?}", line);
        // Nothing was replaced: what it got is what stands there, quotes and spaces aside.
        let bare = |text: &str| text.chars().filter(|c| !matches!(c, ' ' | '\'' | '"')).collect::<String>();
        proptest::prop_assert_eq!(bare(&words.collect::<String>()), bare(&line["probe".len()..]), "{:?}", line);
    }
}

/// Whether a line runs unasked where `probe *` is allowed.
fn runs_under(line: &str) -> bool {
    let (mut stage, conn, chat) = working();
    let allowed = json!({ "type": "session/configChanged", "config": { "approvedTools": ["run_command(probe *)"] } });
    stage.accepted(conn, SESSION, allowed);
    asks_to_run(&mut stage, "probe", line);
    status(&stage, &chat, "probe") == "running"
}
