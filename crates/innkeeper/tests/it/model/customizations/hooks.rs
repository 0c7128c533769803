//! Hooks of workspaces and of the user with a real agent: execution, trust and verdicts.

use std::path::Path;
use std::process::Command;

use ahp_types::state::{Turn, TurnState};
use innkeeper_testkit::model_server::{Api, ConversationPart, ModelServer, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, markdown, tool_calls_of};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::model::support::{PROVIDER, Setup, Stage, create_session, notices, uri_of, users};

/// Settings for Claude with one hook.
fn settings(event: &str, matcher: &str, command: &str) -> String {
    let hook = json!({ "type": "command", "command": command, "timeout": 30 });
    json!({ "hooks": { event: [{ "matcher": matcher, "hooks": [hook] }] } }).to_string()
}

/// Writes a file, and says that it is done.
fn writes(asked: &ReceivedRequest) -> Reply {
    match asked.said().last() {
        Some(ConversationPart::Result { .. }) => Reply::words("Done."),
        _ => Reply::new().call("write_file", json!({ "path": "new.txt", "content": "new" })),
    }
}

fn put(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    std::fs::write(path, text).expect("written");
}

/// A session in a workspace with these files, of a host with these in its user's home.
async fn stage(workspace: &[(&str, &str)], home: &[(&str, &str)], script: impl Into<Script>) -> (Stage, TempDir) {
    let own = tempfile::tempdir().expect("a directory");
    for (name, text) in home {
        put(own.path(), name, text);
    }
    let server = ModelServer::start(script).await;
    let path = own.path().to_owned();
    let setup =
        Setup::new(Api::Chat).options(|options| options.environment("HOME", path).environment("API_KEY", "k3y"));
    let host = setup.host(&server).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in workspace {
        put(directory.path(), name, text);
    }
    let uris = create_session(&client, "work", directory.path()).await;
    let stage = Stage {
        server,
        host,
        client,
        directory,
        uris,
    };
    (stage, own)
}

/// Waits for the question whether hooks may run, and answers it.
async fn answer(stage: &Stage, client: &OfficialClient, response: &str, choice: Option<&str>) -> String {
    let wait = client.wait_for(&stage.uris.session, "chatInput").await;
    let mut action = json!({ "type": "chat/inputCompleted", "requestId": wait["request"]["id"], "response": response });
    if let Some(choice) = choice {
        let value = json!({ "kind": "selected", "value": choice });
        action["answers"] = json!({ "trust": { "state": "submitted", "value": value } });
    }
    client.dispatch(&stage.uris.chat, action).await;
    client
        .until("the answer is known", |view| {
            let waits = view.waits(&stage.uris.session);
            !waits
                .iter()
                .any(|other| other["request"]["id"] == wait["request"]["id"])
        })
        .await;
    wait["request"]["message"].as_str().unwrap_or_default().to_owned()
}

fn exists(stage: &Stage, name: &str) -> bool {
    stage.directory.path().join(name).exists()
}

fn questions(turn: &Turn) -> usize {
    let parts = serde_json::to_value(&turn.response_parts).expect("JSON");
    let parts = parts.as_array().expect("parts").iter();
    parts.filter(|part| part["kind"] == "inputRequest").count()
}

/// `innkeeper trust`, on the data of the host: how it went, and what it printed.
fn trust(stage: &Stage, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_innkeeper"))
        .arg("trust")
        .args(arguments)
        .arg("--data")
        .arg(stage.host.data_path(""))
        .env_clear()
        .env("HOME", stage.directory.path())
        .output()
        .expect("it runs");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

const REFUSES: &str = "sh guard.sh";
const GUARD: &str = "cat > told.json; echo 'new.txt is not yours' >&2; exit 2\n";

#[tokio::test]
async fn p12_a_trusted_workspace_hook_denies_a_call_also_after_a_restart() {
    let hooks = settings("PreToolUse", "Write|Edit", REFUSES);
    let workspace = [(".claude/settings.json", hooks.as_str()), ("guard.sh", GUARD)];
    let (stage, _home) = stage(&workspace, &[], Script::by(writes)).await;
    stage.start_turn("t1", "Write it.").await;
    // Any client can answer for all.
    let phone = OfficialClient::connect(stage.host.address(), "phone").await;
    phone.join(&stage.uris.session).await;
    phone.wait_for(&stage.uris.session, "chatInput").await;
    assert!(!exists(&stage, "told.json"), "nothing runs before that");
    let message = answer(&stage, &phone, "accept", Some("trust")).await;
    for part in [
        "PreToolUse on Write|Edit: sh guard.sh",
        ".claude/settings.json",
        "file guard.sh",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let turn = stage.turn_end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "Done.", "the turn goes on");
    assert!(!exists(&stage, "new.txt"), "the call was refused");
    let call = tool_calls_of(&turn).remove(0);
    assert!(call.to_string().contains("A hook refused write_file"), "{call:#}");
    let told = stage.last_asked().last_results().remove(0);
    assert!(told.contains("new.txt is not yours"), "the model knows why: {told}");
    let told: Value = serde_json::from_str(&stage.read("told.json")).expect("JSON");
    assert_eq!(told["tool_name"], "Write");

    let stage = stage.kill_and_restart().await;
    let turn = stage.run_turn("t2", "Again.").await;
    assert_eq!((questions(&turn), exists(&stage, "new.txt")), (0, false), "asked once");

    // A hook that changed after it was trusted does not run, and the question shows the change.
    put(stage.directory.path(), "guard.sh", "echo evil > evil.txt\n");
    stage.start_turn("t3", "And again.").await;
    let message = answer(&stage, &stage.client, "accept", Some("refuse")).await;
    assert!(
        message.contains("They have changed since your decision. New or different:\n- file guard.sh"),
        "{message}"
    );
    stage.approve().await;
    let turn = stage.turn_end("t3").await;
    assert_eq!(turn.state, TurnState::Complete);
    assert!(exists(&stage, "new.txt") && !exists(&stage, "evil.txt"));
    let turn = stage.run_turn("t4", "Once more.").await;
    assert_eq!(
        questions(&turn),
        0,
        "a no is remembered too: {:#?}",
        turn.response_parts
    );
    stage.assert_in_order().await;
}

#[tokio::test]
async fn p12_trust_is_requested_once_and_another_directory_runs_nothing() {
    let commands = ["cat >> .claude/audit.log", "sh scripts/check.sh"];
    let hooks = commands.map(|command| json!({ "type": "command", "command": command }));
    let settings = json!({ "hooks": { "UserPromptSubmit": [{ "hooks": hooks }] } }).to_string();
    let workspace = [
        (".claude/settings.json", settings.as_str()),
        (".claude/audit.log", "empty\n"),
        ("scripts/check.sh", "echo ran >> ran.txt\n"),
    ];
    let (stage, _home) = stage(&workspace, &[], Script::by(|_: &ReceivedRequest| Reply::words("Done."))).await;
    stage.start_turn("t1", "Hello.").await;
    let message = answer(&stage, &stage.client, "accept", Some("trust")).await;
    assert!(message.contains("file scripts/check.sh"), "{message}");
    assert!(!message.contains("file .claude/audit.log"), "{message}");
    stage.turn_end("t1").await;
    let turn = stage.run_turn("t2", "Hello again.").await;
    assert_eq!(questions(&turn), 0, "{:#?}", turn.response_parts);
    assert_eq!(stage.read("ran.txt"), "ran\nran\n");
    assert!(stage.read(".claude/audit.log").contains("Hello again."));

    // A session that works in another directory first, which has a script of the same name.
    let other = tempfile::tempdir().expect("a directory");
    put(other.path(), "scripts/check.sh", "echo evil > evil.txt\n");
    let directories = [other.path(), stage.directory.path()].map(uri_of);
    let params = json!({ "provider": PROVIDER, "workingDirectories": directories });
    let uris = stage.client.create_session_with("both", params).await;
    let turn = stage.client.run_turn(&uris.chat, "t1", "Hello there.").await;
    assert_eq!(questions(&turn), 0, "{:#?}", turn.response_parts);
    assert_eq!(stage.read("ran.txt"), "ran\nran\nran\n");
    assert!(!other.path().join("evil.txt").exists() && !exists(&stage, "evil.txt"));
    stage.assert_in_order().await;
}

#[tokio::test]
async fn p12_a_declined_question_runs_nothing_and_is_not_repeated_in_its_turn() {
    let hooks = settings("PreToolUse", "", "echo ran > ran.txt");
    let reads = |asked: &ReceivedRequest| {
        let results = asked
            .said()
            .into_iter()
            .filter(|said| matches!(said, ConversationPart::Result { .. }));
        match results.count() {
            0 | 1 => Reply::new().call("read_file", json!({ "path": "a.txt" })),
            _ => Reply::words("Read."),
        }
    };
    let workspace = [(".claude/settings.json", hooks.as_str()), ("a.txt", "a")];
    let (stage, _home) = stage(&workspace, &[], Script::by(reads)).await;
    stage.start_turn("t1", "Read it twice.").await;
    answer(&stage, &stage.client, "decline", None).await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(
        (markdown(&turn.response_parts), questions(&turn)),
        ("Read.".to_owned(), 1)
    );
    assert!(!exists(&stage, "ran.txt"));

    // Meanwhile the user allows it with `innkeeper trust`.
    let (_, listed) = trust(&stage, &["list"]);
    assert!(
        listed.contains("asked, not decided") && listed.contains("echo ran > ran.txt"),
        "{listed}"
    );
    let place = stage.directory.path().to_string_lossy().into_owned();
    assert!(trust(&stage, &["allow", &place]).0);
    let turn = stage.run_turn("t2", "Read on.").await;
    assert_eq!(
        (markdown(&turn.response_parts), questions(&turn)),
        ("Read.".to_owned(), 0)
    );
    assert!(trust(&stage, &["revoke", &place]).0);
    assert!(
        !trust(&stage, &["revoke", &place]).0,
        "there is nothing left to take back"
    );
    assert_eq!(trust(&stage, &["list", "--json"]).1, "");
    stage.assert_in_order().await;
}

#[tokio::test]
async fn case47_hooks_do_not_run_on_load_nor_when_disabled() {
    let hooks = settings("SessionStart", "", "echo ran > ran.txt");
    let (stage, _home) = stage(&[(".claude/settings.json", &hooks)], &[], [Reply::words("Hello.")]).await;
    let hook = |view: &innkeeper_testkit::official::View| -> Option<Value> {
        let session = serde_json::to_value(view.session(&stage.uris.session)?).ok()?;
        let containers = session["customizations"].as_array()?.clone();
        let children = containers
            .iter()
            .filter_map(|container| container["children"].as_array());
        children.flatten().find(|child| child["type"] == "hook").cloned()
    };
    stage
        .client
        .until("the hook is shown", |view| hook(view).is_some())
        .await;
    let shown = hook(&stage.client.view()).expect("shown");
    assert!(
        !shown.to_string().contains("ran.txt"),
        "CUS-27: not what it runs: {shown:#}"
    );
    let off = json!({
        "type": "session/customizationToggled", "id": shown["id"],
        "enablement": [{ "kind": "session", "enabled": false }],
    });
    stage.client.dispatch(&stage.uris.session, off).await;
    stage
        .client
        .until("it is off", |view| {
            hook(view).is_some_and(|hook| hook["enabled"] == false)
        })
        .await;
    let turn = stage.run_turn("t1", "Hello!").await;
    assert_eq!(
        (markdown(&turn.response_parts), questions(&turn)),
        ("Hello.".to_owned(), 0)
    );
    assert!(!exists(&stage, "ran.txt"));
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_user_hook_needs_no_question_and_a_failing_one_stops_nothing() {
    let hooks = json!({ "hooks": {
        "SessionStart": [{ "hooks": [{ "command": "env > env.txt; echo It is raining." }] }],
        "UserPromptSubmit": [{ "hooks": [{ "command": "echo broken >&2; exit 7" }] }],
        "PostToolUse": [{ "matcher": "Read", "hooks": [
            { "command": "echo '{\"hookSpecificOutput\":{\"additionalContext\":\"It was written by Ada.\"}}'" },
            { "command": "(flock 9; echo up > up.txt; sleep 600) 9> lock & while [ ! -e up.txt ]; do :; done; sleep 600",
              "timeout": 1 },
        ] }],
    } });
    let script = [
        Reply::new().call("read_file", json!({ "path": "a.txt" })),
        Reply::words("Read."),
    ];
    let home = [(".claude/settings.json", &*hooks.to_string())];
    let (stage, _home) = stage(&[("a.txt", "aleph")], &home, script).await;
    let turn = stage.run_turn("t1", "Read it.").await;
    assert_eq!(
        (markdown(&turn.response_parts), questions(&turn)),
        ("Read.".to_owned(), 0)
    );
    let noticed = notices(&turn).join("\n");
    assert!(noticed.contains("exit code 7: broken"), "{noticed}");
    assert!(noticed.contains("took longer than 1 s and was ended"), "{noticed}");
    // Its child held a lock for as long as it lived.
    let lock = std::fs::File::open(stage.directory.path().join("lock")).expect("it ran");
    lock.lock().expect("it is gone");
    let asked = stage.last_asked();
    assert!(
        users(&asked).join("\n").contains("It is raining."),
        "the model knows: {asked:?}"
    );
    let told = asked.last_results().remove(0);
    assert!(
        told.contains("aleph") && told.contains("It was written by Ada."),
        "{told}"
    );
    let environment = stage.read("env.txt");
    assert!(
        !environment.contains("k3y"),
        "T15: no secret of the host: {environment}"
    );
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_hook_of_the_user_sends_the_model_on_and_changes_an_input() {
    let other =
        json!({ "hookSpecificOutput": { "permissionDecision": "allow", "updatedInput": { "content": "other" } } });
    let hooks = json!({ "hooks": {
        "Stop": [{ "hooks": [{ "command": "[ -e tested.txt ] || { touch tested.txt; echo 'run the tests' >&2; exit 2; }" }] }],
        "PreToolUse": [{ "matcher": "Write", "hooks": [{ "command": format!("echo '{other}'") }] }],
    } });
    let script = [
        Reply::new().call("write_file", json!({ "path": "new.txt", "content": "new" })),
        Reply::words("Done."),
        Reply::words("Tested, too."),
    ];
    let home = [(".claude/settings.json", &*hooks.to_string())];
    let (stage, _home) = stage(&[], &home, script).await;
    // No confirmation is needed, because the user's own hook approves it.
    let turn = stage.run_turn("t1", "Write it.").await;
    assert_eq!(turn.state, TurnState::Complete, "{:#?}", turn.response_parts);
    assert!(markdown(&turn.response_parts).ends_with("Tested, too."));
    assert_eq!(stage.read("new.txt"), "other");
    let said = users(&stage.last_asked()).join("\n");
    assert!(said.contains("run the tests"), "{said}");
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_refused_message_does_not_reach_the_model() {
    let hooks = settings(
        "UserPromptSubmit",
        "",
        "grep -q password && { echo 'no passwords' >&2; exit 2; }; true",
    );
    let home = [(".claude/settings.json", hooks.as_str())];
    let (stage, _home) = stage(&[], &home, [Reply::words("Hello.")]).await;
    let turn = stage.run_turn("t1", "The password is swordfish.").await;
    let (kind, message, _) = crate::model::support::error_of(&turn).expect("an error");
    assert_eq!(kind, "refusedByHook");
    assert!(message.contains("no passwords"), "{message}");
    assert!(stage.server.requests().is_empty());
    let turn = stage.run_turn("t2", "Hello!").await;
    assert_eq!(markdown(&turn.response_parts), "Hello.");
    assert!(!users(&stage.last_asked()).join("\n").contains("swordfish"));
}

/// Has every moment of these names written down, in a file of the workspace.
fn written_down(moments: &[&str]) -> String {
    let hook = |moment: &str| json!([{ "hooks": [{ "command": format!("echo {moment} >> moments.txt") }] }]);
    let hooks: serde_json::Map<String, Value> = moments.iter().map(|name| ((*name).to_owned(), hook(name))).collect();
    json!({ "hooks": hooks }).to_string()
}

/// Waits until a file of the workspace has a line. Asynchronous hooks write when they run.
async fn until_line(stage: &Stage, name: &str, line: &str) {
    let path = stage.directory.path().join(name);
    let deadline = tokio::time::Instant::now() + innkeeper_testkit::process::TIMEOUT;
    loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.lines().any(|known| known == line) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{line} is not in {text:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn p12_hooks_run_for_session_subagent_and_notification_events() {
    let moments = [
        "SessionStart",
        "SubagentStart",
        "Notification",
        "SubagentStop",
        "SessionEnd",
    ];
    let script = Script::by(|asked| {
        let is_subagent = asked
            .said()
            .first()
            .is_some_and(|said| format!("{said:?}").contains("Write it down."));
        if users(asked).last().is_some_and(|said| said == "Thanks.") {
            return Reply::words("Gladly.");
        }
        match (is_subagent, asked.last_results().first()) {
            (true, None) => Reply::new().call("write_file", json!({ "path": "new.txt", "content": "new" })),
            (true, Some(_)) => Reply::words("It is written."),
            (false, None) => Reply::new().call("delegate", json!({ "title": "Write", "task": "Write it down." })),
            (false, Some(report)) => Reply::words(report),
        }
    });
    let home = [(".claude/settings.json", &*written_down(&moments))];
    let (stage, _home) = stage(&[], &home, script).await;
    stage.start_turn("t1", "Have it written.").await;
    // A question that stays open triggers a notification.
    until_line(&stage, "moments.txt", "Notification").await;
    stage.approve().await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(turn.state, TurnState::Complete, "{:#?}", turn.response_parts);
    assert_eq!(stage.read("new.txt"), "new");
    let turn = stage.run_turn("t2", "Thanks.").await;
    assert_eq!(turn.state, TurnState::Complete, "{:#?}", turn.response_parts);
    let Stage { host, directory, .. } = stage;
    let _stopped = host.stop().await;
    let told = std::fs::read_to_string(directory.path().join("moments.txt")).expect("written");
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told, moments, "each once: a second turn is no second start");
}

#[tokio::test]
async fn p12_hooks_of_copilot_and_cursor_deny_a_call_in_their_formats() {
    let copilot = json!({ "version": 1, "hooks": { "preToolUse": [{ "type": "command", "bash":
        "cat > copilot.json; echo '{\"permissionDecision\":\"deny\",\"permissionDecisionReason\":\"not by Copilot\"}'"
    }] } });
    let cursor = json!({ "version": 1, "hooks": { "beforeShellExecution": [{ "command":
        "cat > cursor.json; echo '{\"permission\":\"deny\",\"agentMessage\":\"not by Cursor\"}'"
    }] } });
    let copilot = [(".copilot/hooks/guard.json", copilot.to_string())].to_vec();
    let cursor = [
        (
            ".agents/plugins/c/.cursor-plugin/plugin.json",
            r#"{ "name": "c" }"#.to_owned(),
        ),
        (".agents/plugins/c/hooks/hooks.json", cursor.to_string()),
    ]
    .to_vec();
    for (files, told, reason, command) in [
        (copilot, "copilot.json", "not by Copilot", ("toolName", "bash")),
        (cursor, "cursor.json", "not by Cursor", ("command", "touch ran.txt")),
    ] {
        let script = [
            Reply::new().call("run_command", json!({ "command": "touch ran.txt" })),
            Reply::words("Done."),
        ];
        let home: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let (stage, _home) = stage(&[], &home, script).await;
        let turn = stage.run_turn("t1", "Run it.").await;
        assert_eq!(turn.state, TurnState::Complete, "{:#?}", turn.response_parts);
        assert!(!exists(&stage, "ran.txt"), "{reason}");
        let result = stage.last_asked().last_results().remove(0);
        assert!(result.contains(reason), "the model knows why: {result}");
        let told: Value = serde_json::from_str(&stage.read(told)).expect("JSON");
        assert_eq!(told[command.0], command.1, "{told:#}");
        stage.assert_in_order().await;
    }
}
