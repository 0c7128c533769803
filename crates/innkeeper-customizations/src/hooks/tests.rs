//! Hooks as files, run as processes.

use std::time::{Duration, Instant};

use innkeeper_host::ClientId;
use innkeeper_plugins::{Sources, scan};
use serde_json::{Value, json};

use super::*;
use crate::trust::{TrustKind, TrustStatus, Verdict};

mod bounds;
mod trusted;

/// A workspace with hooks.
struct Workshop {
    directory: tempfile::TempDir,
    data: tempfile::TempDir,
}

impl Workshop {
    fn new(files: &[(&str, &str)]) -> Self {
        let workshop = Self {
            directory: tempfile::tempdir().unwrap(),
            data: tempfile::tempdir().unwrap(),
        };
        for (path, text) in files {
            workshop.write(path, text);
        }
        workshop
    }

    /// One whose settings for Claude have one hook.
    fn claude(event: &str, matcher: &str, command: &str) -> Self {
        Self::new(&[(".claude/settings.json", &settings(event, matcher, command))])
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn trust(&self) -> Arc<TrustFile> {
        Arc::new(TrustFile::new(self.data.path().join("trust.json")))
    }

    fn workspace(&self) -> Origin {
        Origin::Workspace(self.path().into())
    }

    /// The hooks, as if they came from there.
    fn hooks_of(&self, source: &Origin) -> CommandHooks {
        let sources = Sources {
            workspaces: vec![self.path().to_owned()],
            ..Sources::default()
        };
        let tree = scan(&sources);
        let files = tree.entries.iter();
        let files = files.flat_map(|entry| SourcedHooks::of_entry(entry, source, None));
        self.with(files.collect())
    }

    fn with(&self, files: Vec<SourcedHooks>) -> CommandHooks {
        CommandHooks::new(files, self.trust(), Arc::new(HookSettings::default()))
    }

    /// The hooks, as if they were the user's own.
    fn own(&self) -> CommandHooks {
        self.hooks_of(&Origin::User)
    }

    fn call(&self, event: HookEvent, subject: &str, input: Value) -> HookCall {
        let Value::Object(input) = input else {
            panic!("an object")
        };
        HookCall {
            event,
            subject: subject.to_owned(),
            mcp: None,
            session: "ahp-session:/s".into(),
            turn: "t".into(),
            working_directories: vec![url::Url::from_file_path(self.path()).unwrap().to_string()],
            input,
        }
    }

    async fn run(&self, event: HookEvent, subject: &str, input: Value) -> HookOutcome {
        let call = self.call(event, subject, input);
        self.own().run(call, &BTreeSet::new(), None).await
    }

    async fn before_command(&self, command: &str) -> HookOutcome {
        let input = json!({ "tool_name": "run_command", "tool_input": { "command": command } });
        self.run(HookEvent::PreToolUse, "run_command", input).await
    }

    fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path().join(path)).ok()
    }
}

fn settings(event: &str, matcher: &str, command: &str) -> String {
    let hook = json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": command, "timeout": 5 }] });
    json!({ "hooks": { event: [hook] } }).to_string()
}

fn nothing() -> BTreeSet<String> {
    BTreeSet::new()
}

#[tokio::test]
async fn claude_exit_code_2_denies_with_stderr() {
    let workshop = Workshop::claude("PreToolUse", "Bash", "echo not here >&2; exit 2");
    let outcome = workshop.before_command("rm -r /").await;
    assert_eq!(outcome.deny.as_deref(), Some("not here"));
    let read = workshop.run(HookEvent::PreToolUse, "read_file", json!({})).await;
    assert_eq!(read, HookOutcome::default(), "another tool is none of its business");
}

#[tokio::test]
async fn claude_hooks_get_claudes_input_format() {
    let workshop = Workshop::claude("PreToolUse", "Write|Edit", "cat > told.json");
    let input =
        json!({ "tool_name": "write_file", "tool_use_id": "c", "tool_input": { "path": "a.txt", "content": "x" } });
    let outcome = workshop.run(HookEvent::PreToolUse, "write_file", input).await;
    assert_eq!(outcome, HookOutcome::default());
    let told: Value = serde_json::from_str(&workshop.file("told.json").unwrap()).unwrap();
    let path = workshop.path().join("a.txt").to_string_lossy().into_owned();
    assert_eq!(told["hook_event_name"], "PreToolUse");
    assert_eq!(told["session_id"], "ahp-session:/s");
    assert_eq!(told["cwd"], *workshop.path().to_string_lossy());
    assert_eq!(told["tool_name"], "Write");
    assert_eq!(told["tool_input"]["file_path"], *path);
    assert_eq!(told["tool_input"]["content"], "x");
}

#[tokio::test]
async fn copilot_hooks_read_both_spellings_and_answer_at_the_top() {
    let said = r#"{"permissionDecision":"deny","permissionDecisionReason":"no shell"}"#;
    let hooks = json!({ "version": 1, "hooks": { "preToolUse": [
        { "type": "command", "bash": format!("cat > told.json; echo '{said}'"), "timeoutSec": 5 },
    ] } });
    let workshop = Workshop::new(&[(".github/hooks/guard.json", &hooks.to_string())]);
    let outcome = workshop.before_command("ls").await;
    assert_eq!(outcome.deny.as_deref(), Some("no shell"));
    let told: Value = serde_json::from_str(&workshop.file("told.json").unwrap()).unwrap();
    assert_eq!(
        (&told["toolName"], &told["tool_name"]),
        (&json!("bash"), &json!("bash"))
    );
    assert_eq!(told["hookEventName"], "preToolUse");
    let args: Value = serde_json::from_str(told["toolArgs"].as_str().unwrap()).unwrap();
    assert_eq!(args["command"], "ls");
}

#[tokio::test]
async fn cursor_hooks_of_one_tool_hear_of_it_alone() {
    let said = r#"{"permission":"ask","user_message":"sure?"}"#;
    let hooks = json!({ "version": 1, "hooks": {
        "beforeShellExecution": [{ "command": format!("cat > told.json; echo '{said}'"), "matcher": "curl|wget" }],
        "stop": [{ "command": "echo '{\"followup_message\":\"run the tests\"}'" }],
    } });
    let plugin = [
        (".cursor-plugin/plugin.json", r#"{"name":"guard"}"#),
        ("hooks/hooks.json", &*hooks.to_string()),
    ];
    let workshop = Workshop::new(&plugin);
    let plugin = innkeeper_plugins::load_plugin(&innkeeper_plugins::PluginSource::new(workshop.path()));
    let files = SourcedHooks::of_entry(&Container::Plugin(plugin), &Origin::Host, Some(workshop.path()));
    let hooks = CommandHooks::new(files, workshop.trust(), Arc::new(HookSettings::default()));
    let input = json!({ "tool_input": { "command": "curl example.test" } });
    let call = workshop.call(HookEvent::PreToolUse, "run_command", input);
    assert!(hooks.run(call, &nothing(), None).await.ask);
    let told: Value = serde_json::from_str(&workshop.file("told.json").unwrap()).unwrap();
    assert_eq!(told["command"], "curl example.test");
    assert_eq!(told["hook_event_name"], "beforeShellExecution");
    let call = workshop.call(
        HookEvent::PreToolUse,
        "run_command",
        json!({ "tool_input": { "command": "ls" } }),
    );
    assert_eq!(hooks.run(call, &nothing(), None).await, HookOutcome::default());
    let call = workshop.call(HookEvent::Stop, "", json!({}));
    assert_eq!(
        hooks.run(call, &nothing(), None).await.deny.as_deref(),
        Some("run the tests")
    );
}

#[tokio::test]
async fn json_output_of_hooks_is_read() {
    let say = |said: Value| format!("echo '{said}'");
    let cases = [
        (
            json!({ "decision": "block", "reason": "no" }),
            HookOutcome {
                deny: Some("no".into()),
                ..HookOutcome::default()
            },
        ),
        (
            json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "allow" } }),
            HookOutcome {
                allow: true,
                ..HookOutcome::default()
            },
        ),
        (
            json!({ "hookSpecificOutput": { "permissionDecision": "allow", "updatedInput": { "command": "ls -l" } } }),
            HookOutcome {
                allow: true,
                input: Some(json!({ "command": "ls -l" })),
                ..HookOutcome::default()
            },
        ),
        (
            json!({ "hookSpecificOutput": { "additionalContext": "mind the gap" } }),
            HookOutcome {
                context: vec!["mind the gap".into()],
                ..HookOutcome::default()
            },
        ),
        (
            json!({ "continue": false, "stopReason": "enough" }),
            HookOutcome {
                stop: Some("enough".into()),
                ..HookOutcome::default()
            },
        ),
        (json!({ "suppressOutput": true }), HookOutcome::default()),
    ];
    for (said, expected) in cases {
        let workshop = Workshop::claude("PreToolUse", "", &say(said.clone()));
        assert_eq!(workshop.before_command("ls").await, expected, "{said}");
    }
    let workshop = Workshop::claude("PreToolUse", "", &say(json!({ "systemMessage": "look out" })));
    let notices = workshop.before_command("ls").await.notices;
    assert!(notices[0].ends_with("says: look out"), "{notices:?}");
}

#[tokio::test]
async fn words_are_context_where_something_begins_and_nothing_elsewhere() {
    for (event, name, is_context) in [
        (HookEvent::UserPromptSubmit, "UserPromptSubmit", true),
        (HookEvent::SessionStart, "SessionStart", true),
        (HookEvent::PreToolUse, "PreToolUse", false),
        (HookEvent::Stop, "Stop", false),
    ] {
        let workshop = Workshop::claude(name, "", "echo it is raining");
        let outcome = workshop.run(event, "", json!({})).await;
        assert_eq!(!outcome.context.is_empty(), is_context, "{name}");
    }
}

#[tokio::test]
async fn after_a_call_a_refusal_is_for_the_model() {
    let workshop = Workshop::claude("PostToolUse", "Edit", "echo format it >&2; exit 2");
    let outcome = workshop
        .run(HookEvent::PostToolUse, "edit_file", json!({ "tool_input": {} }))
        .await;
    assert_eq!(outcome.context, ["format it"]);
    assert_eq!(outcome.deny, None);
}

#[tokio::test]
async fn several_run_and_a_refusal_wins() {
    let commands = [
        "echo '{\"permissionDecision\":\"allow\"}'",
        "echo first >&2; exit 2",
        "echo second >&2; exit 2",
        "exit 1",
    ];
    let hooks: Vec<Value> = commands.iter().map(|command| json!({ "command": command })).collect();
    let settings = json!({ "hooks": { "PreToolUse": [{ "matcher": "*", "hooks": hooks }] } });
    let workshop = Workshop::new(&[(".claude/settings.json", &settings.to_string())]);
    let outcome = workshop.before_command("ls").await;
    assert_eq!(outcome.deny.as_deref(), Some("first\nsecond"));
    assert_eq!(
        outcome.notices.len(),
        1,
        "the one that failed is told: {:?}",
        outcome.notices
    );
}

#[tokio::test]
async fn failures_are_reported_and_block_only_on_request() {
    let broken = json!({ "command": "echo oops >&2; exit 7" });
    let closed = json!({ "command": "echo oops >&2; exit 7", "failClosed": true });
    let missing = json!({ "command": "/nowhere/at/all", "args": [] });
    for (hook, notice, denies) in [
        (broken, "exit code 7: oops", false),
        (closed, "", true),
        (missing, "could not be started", false),
    ] {
        let settings = json!({ "hooks": { "PreToolUse": [hook] } });
        let workshop = Workshop::new(&[(".claude/settings.json", &settings.to_string())]);
        let outcome = workshop.before_command("ls").await;
        assert_eq!(outcome.deny.is_some(), denies, "{outcome:?}");
        assert!(notice.is_empty() || outcome.notices[0].contains(notice), "{outcome:?}");
    }
}

#[tokio::test]
async fn invalid_output_is_reported_once() {
    let settings = json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "prompt", "prompt": "Is it done?" }] }], "PreToolUse": [{ "matcher": "(", "hooks": [{ "command": "true" }] }] } });
    let workshop = Workshop::new(&[(".claude/settings.json", &settings.to_string())]);
    let hooks = workshop.own();
    for (event, notice) in [
        (HookEvent::Stop, "asks a model"),
        (HookEvent::PreToolUse, "its matcher"),
    ] {
        let call = || workshop.call(event, "", json!({}));
        let first = hooks.run(call(), &nothing(), None).await;
        assert!(first.notices[0].contains(notice), "{first:?}");
        assert_eq!(hooks.run(call(), &nothing(), None).await, HookOutcome::default());
    }
}

#[cfg(unix)]
#[tokio::test]
async fn t15_a_hook_sees_no_secret_of_the_host_and_finds_its_directories() {
    let settings =
        json!({ "hooks": { "Stop": [{ "command": "env > env.txt", "env": { "MINE": "${CLAUDE_PROJECT_DIR}/x" } }] } });
    let workshop = Workshop::new(&[(".claude/settings.json", &settings.to_string())]);
    workshop.run(HookEvent::Stop, "", json!({})).await;
    let env = workshop.file("env.txt").unwrap();
    let project = workshop.path().display().to_string();
    assert!(env.contains(&format!("CLAUDE_PROJECT_DIR={project}\n")), "{env}");
    assert!(env.contains(&format!("MINE={project}/x\n")), "{env}");
    let known = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "TMPDIR",
        "TEMP",
        "TMP",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "MINE",
        "CLAUDE_PROJECT_DIR",
        "CURSOR_PROJECT_DIR",
    ];
    for line in env.lines() {
        let name = line.split('=').next().unwrap();
        assert!(known.contains(&name) || name.starts_with("LC_"), "{name} is seen");
    }
}

/// Some shells drop variables with such names: the one that sets the umask does not come between then.
#[cfg(unix)]
#[tokio::test]
async fn a_hook_gets_its_declared_variables_and_the_users_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let hooks = json!([
        { "command": "env", "args": [], "env": { "my-key": "1", "npm.config": "2" } },
        { "command": "touch", "args": ["made by a hook"] },
    ]);
    let settings = json!({ "hooks": { "SessionStart": [{ "hooks": hooks }] } });
    let workshop = Workshop::new(&[(".claude/settings.json", &settings.to_string())]);
    let settings = HookSettings {
        umask: Some(0o027),
        ..HookSettings::default()
    };
    let hooks = CommandHooks::new(workshop.own().files, workshop.trust(), Arc::new(settings));
    let call = workshop.call(HookEvent::SessionStart, "startup", json!({}));
    let said = format!("{:?}", hooks.run(call, &nothing(), None).await);
    assert!(said.contains("my-key=1") && said.contains("npm.config=2"), "{said}");
    let made = std::fs::metadata(workshop.path().join("made by a hook")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o640);
}

#[cfg(unix)]
#[tokio::test]
async fn a_hook_that_hangs_is_ended_with_everything_it_started() {
    // Its child holds a lock for as long as it lives.
    let command = "(flock 9; echo up > up; sleep 600) 9> lock & while [ ! -e up ]; do :; done; sleep 600";
    let hook = json!({ "command": command, "timeout": 1 });
    let workshop = Workshop::new(&[(
        ".claude/settings.json",
        &json!({ "hooks": { "Stop": [hook] } }).to_string(),
    )]);
    let began = Instant::now();
    let outcome = workshop.run(HookEvent::Stop, "", json!({})).await;
    assert!(outcome.notices[0].contains("took longer than 1 s"), "{outcome:?}");
    assert_eq!(workshop.file("up").as_deref(), Some("up\n"), "its child ran");
    let lock = std::fs::File::open(workshop.path().join("lock")).unwrap();
    // Free at once, or as soon as the system has buried it.
    lock.lock().unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(300),
        "its child was not waited for"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_flood_of_output_is_bounded_and_an_unread_input_no_problem() {
    let workshop = Workshop::claude(
        "UserPromptSubmit",
        "",
        "head -c 20000000 /dev/zero | tr '\\0' x; exec 0<&-",
    );
    let input = json!({ "prompt": "p".repeat(1 << 20) });
    let outcome = workshop.run(HookEvent::UserPromptSubmit, "", input).await;
    assert!(outcome.context[0].len() < 20_000, "{}", outcome.context[0].len());
}

#[tokio::test]
async fn p12_a_workspace_runs_nothing_until_the_user_trusts_its_contents() {
    let workshop = Workshop::claude("Stop", "", "sh scripts/stop.sh");
    workshop.write("scripts/stop.sh", "echo ran >> ran.txt");
    let source = workshop.workspace();
    let subject = Subject {
        kind: TrustKind::Hooks,
        place: workshop.path().to_string_lossy().into_owned(),
    };
    let stop = async |workshop: &Workshop| {
        let hooks = workshop.hooks_of(&source);
        hooks
            .run(workshop.call(HookEvent::Stop, "", json!({})), &nothing(), None)
            .await
    };
    assert!(workshop.hooks_of(&source).hear(HookEvent::Stop, &nothing()));
    assert_eq!(stop(&workshop).await, HookOutcome::default());
    assert_eq!(workshop.file("ran.txt"), None, "no user was asked, so nothing ran");

    let contents = consent::contents(workshop.hooks_of(&source).files.iter()).unwrap();
    let shown: Vec<&str> = contents.pieces().iter().map(|piece| piece.what.as_str()).collect();
    assert_eq!(
        shown,
        [
            "Stop: sh scripts/stop.sh (.claude/settings.json)",
            "file scripts/stop.sh"
        ]
    );
    workshop.trust().decide(&subject, &contents, Verdict::Trusted).unwrap();
    stop(&workshop).await;
    assert_eq!(workshop.file("ran.txt").as_deref(), Some("ran\n"));

    // The script is swapped after it was approved.
    workshop.write("scripts/stop.sh", "echo evil >> ran.txt");
    stop(&workshop).await;
    assert_eq!(workshop.file("ran.txt").as_deref(), Some("ran\n"));
    let changed = consent::contents(workshop.hooks_of(&source).files.iter()).unwrap();
    let TrustStatus::Changed { now, .. } = workshop.trust().status(&subject, &changed).unwrap() else {
        panic!()
    };
    assert_eq!(now, ["file scripts/stop.sh"]);

    // And what is refused stays so.
    workshop.trust().decide(&subject, &changed, Verdict::Refused).unwrap();
    stop(&workshop).await;
    assert_eq!(workshop.file("ran.txt").as_deref(), Some("ran\n"));
}

#[tokio::test]
async fn p12_a_clients_plugin_runs_nothing_untrusted_and_may_move_once_trusted() {
    let hooks = json!({ "hooks": { "Stop": [{ "hooks": [{ "command": "\"${CLAUDE_PLUGIN_ROOT}/stop.sh\"" }] }] } });
    let script = "#!/bin/sh\necho \"$CLAUDE_PLUGIN_ROOT\" > \"$CLAUDE_PROJECT_DIR/ran.txt\"\n";
    let workshop = Workshop::new(&[]);
    let source = Origin::Client {
        client: ClientId::new("my phone"),
        uri: "virtual://phone/guard".to_owned(),
    };
    let copy = |name: &str, script: &str| {
        let root = workshop.path().join(name);
        workshop.write(&format!("{name}/.claude-plugin/plugin.json"), r#"{"name":"guard"}"#);
        workshop.write(&format!("{name}/hooks/hooks.json"), &hooks.to_string());
        workshop.write(&format!("{name}/stop.sh"), script);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(root.join("stop.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let plugin = innkeeper_plugins::load_plugin(&innkeeper_plugins::PluginSource::new(&root));
        let files = SourcedHooks::of_entry(&Container::Plugin(plugin), &source, Some(&root));
        CommandHooks::new(files, workshop.trust(), Arc::new(HookSettings::default()))
    };
    let call = || workshop.call(HookEvent::Stop, "", json!({}));
    let first = copy("first copy", script);
    first.run(call(), &nothing(), None).await;
    assert_eq!(workshop.file("ran.txt"), None);
    let subject = consent::subject(&first.files[0]).unwrap();
    let contents = consent::contents(first.files.iter()).unwrap();
    assert_eq!(subject.place, "my+phone@virtual://phone/guard");
    let shown: Vec<&str> = contents.pieces().iter().map(|piece| piece.what.as_str()).collect();
    assert_eq!(shown[1..], ["all files of the plugin (3)", "file stop.sh"]);
    workshop.trust().decide(&subject, &contents, Verdict::Trusted).unwrap();
    let second = copy("second copy", script);
    second.run(call(), &nothing(), None).await;
    assert!(workshop.file("ran.txt").unwrap().ends_with("second copy\n"));
    std::fs::remove_file(workshop.path().join("ran.txt")).unwrap();
    copy("third copy", "#!/bin/sh\necho evil\n")
        .run(call(), &nothing(), None)
        .await;
    assert_eq!(workshop.file("ran.txt"), None, "other contents are another plugin");
    workshop.write("second copy/loaded.sh", "evil");
    second.run(call(), &nothing(), None).await;
    assert_eq!(workshop.file("ran.txt"), None, "what no command names counts as well");
}

#[tokio::test]
async fn p12_a_workspace_cannot_allow_itself_anything() {
    let workshop = Workshop::claude("PreToolUse", "", "echo '{\"permissionDecision\":\"allow\"}'");
    let source = workshop.workspace();
    let hooks = workshop.hooks_of(&source);
    let subject = consent::subject(&hooks.files[0]).unwrap();
    let contents = consent::contents(hooks.files.iter()).unwrap();
    workshop.trust().decide(&subject, &contents, Verdict::Trusted).unwrap();
    let outcome = hooks
        .run(
            workshop.call(HookEvent::PreToolUse, "read_file", json!({})),
            &nothing(),
            None,
        )
        .await;
    assert!(!outcome.allow);
    assert!(workshop.before_command("ls").await.allow, "a user can");
}

#[tokio::test]
async fn p12_a_workspace_copy_of_a_users_hook_does_not_replace_it() {
    let workshop = Workshop::claude("PreToolUse", "", "echo ran >> ran.txt; echo no >&2; exit 2");
    let files = [workshop.workspace(), Origin::User].map(|source| workshop.hooks_of(&source).files);
    let hooks = workshop.with(files.into_iter().flatten().collect());
    let call = || workshop.call(HookEvent::PreToolUse, "read_file", json!({}));
    let outcome = hooks.run(call(), &nothing(), None).await;
    assert_eq!(outcome.deny.as_deref(), Some("no"), "the guard ran");
    // Of one origin it is one hook, however many files have it.
    let files = vec![workshop.own().files; 2];
    let hooks = workshop.with(files.into_iter().flatten().collect());
    hooks.run(call(), &nothing(), None).await;
    assert_eq!(workshop.file("ran.txt").as_deref(), Some("ran\nran\n"));
}

#[tokio::test]
async fn p12_a_yes_from_another_client_covers_the_shown_contents() {
    let workshop = Workshop::claude("Stop", "", "sh stop.sh");
    workshop.write("stop.sh", "echo good");
    let hooks = workshop.hooks_of(&workshop.workspace());
    let subject = consent::subject(&hooks.files[0]).unwrap();
    let shown = consent::contents(hooks.files.iter()).unwrap();
    workshop.trust().decide(&subject, &shown, Verdict::Trusted).unwrap();
    let answered = async || consent::answered_elsewhere(&workshop.trust(), &subject, &hooks.files, &shown).await;
    assert_eq!(answered().await, Ok(Consent::Given));
    workshop.write("stop.sh", "echo evil");
    let why = answered().await.unwrap_err();
    assert!(why.contains("changed while the question was open"), "{why}");
}

#[tokio::test]
async fn disabled_hooks_do_not_run() {
    let workshop = Workshop::claude("Stop", "", "echo ran > ran.txt");
    let hooks = workshop.own();
    for id in [&hooks.files[0].child, &hooks.files[0].container] {
        let off = BTreeSet::from([id.clone()]);
        assert!(!hooks.hear(HookEvent::Stop, &off));
        hooks
            .run(workshop.call(HookEvent::Stop, "", json!({})), &off, None)
            .await;
        assert_eq!(workshop.file("ran.txt"), None);
    }
}

#[test]
fn directories_are_put_in_once_and_unknown_names_stay() {
    let (root, project) = (Path::new("/$CLAUDE_PROJECT_DIR"), Path::new("/p"));
    for (text, expanded) in [
        ("${CLAUDE_PLUGIN_ROOT}/x", "/$CLAUDE_PROJECT_DIR/x"),
        ("$CLAUDE_PROJECT_DIR/x ${PLUGIN_ROOT}", "/p/x /$CLAUDE_PROJECT_DIR"),
        (
            "${HOME} $CLAUDE_PROJECT_DIRECTORY $",
            "${HOME} $CLAUDE_PROJECT_DIRECTORY $",
        ),
    ] {
        assert_eq!(expand(text, root, project), expanded);
    }
}
