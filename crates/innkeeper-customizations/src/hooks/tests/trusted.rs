//! Trust covers exactly the files that the user saw: not a file of the same name elsewhere, and not only until it has written
//! something.

use innkeeper_host::mcp::ServerTool;

use super::*;

/// Says yes to what hooks would run.
fn allow(workshop: &Workshop, hooks: &CommandHooks) {
    let subject = consent::subject(&hooks.files[0]).unwrap();
    let contents = consent::contents(hooks.files.iter()).unwrap();
    workshop.trust().decide(&subject, &contents, Verdict::Trusted).unwrap();
}

fn is_trusted(workshop: &Workshop, hooks: &CommandHooks) -> bool {
    let subject = consent::subject(&hooks.files[0]).unwrap();
    let contents = consent::contents(hooks.files.iter()).unwrap();
    workshop.trust().status(&subject, &contents).unwrap() == TrustStatus::Trusted
}

/// The hooks of a plugin, as if a client had published it.
fn published(workshop: &Workshop, root: &str) -> CommandHooks {
    let root = workshop.path().join(root);
    let plugin = innkeeper_plugins::load_plugin(&innkeeper_plugins::PluginSource::new(&root));
    let source = Origin::Client {
        client: ClientId::new("phone"),
        uri: "virtual://phone/guard".to_owned(),
    };
    workshop.with(SourcedHooks::of_entry(&Container::Plugin(plugin), &source, Some(&root)))
}

fn before_write(workshop: &Workshop) -> HookCall {
    let input = json!({ "tool_input": { "path": "a.txt" } });
    workshop.call(HookEvent::PreToolUse, "write_file", input)
}

#[cfg(unix)]
#[tokio::test]
async fn p12_trust_in_one_workspace_runs_nothing_of_another_one() {
    let cases = [
        json!({ "command": "sh scripts/check.sh" }),
        json!({ "command": "\"$CLAUDE_PROJECT_DIR\"/scripts/check.sh" }),
        json!({ "command": "sh check.sh", "cwd": "scripts" }),
        json!({ "command": "sh", "args": ["${CLAUDE_PROJECT_DIR}/scripts/check.sh"] }),
        json!({ "command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/scripts/check.sh"] }),
    ];
    for hook in cases {
        use std::os::unix::fs::PermissionsExt as _;
        let settings = json!({ "hooks": { "PreToolUse": [{ "hooks": [hook] }] } });
        let of = |says: &str| {
            let script = format!("#!/bin/sh\ncat > \"$CLAUDE_PROJECT_DIR/told.json\"; echo {says} >&2; exit 2\n");
            let workshop = Workshop::new(&[
                (".claude/settings.json", settings.to_string().as_str()),
                ("scripts/check.sh", &script),
            ]);
            let script = workshop.path().join("scripts/check.sh");
            std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
            workshop
        };
        let (trusted, other) = (of("trusted"), of("evil"));
        let hooks = trusted.hooks_of(&trusted.workspace());
        allow(&trusted, &hooks);
        // A chat that works in the other one first, as every chat with a directory of its own may.
        let mut call = before_write(&other);
        call.working_directories
            .extend(before_write(&trusted).working_directories);
        let outcome = hooks.run(call, &nothing(), None).await;
        assert_eq!(outcome.deny.as_deref(), Some("trusted"), "{hook}");
        assert_eq!(other.file("told.json"), None, "{hook}");
        // Tools work where the chat does, and the hook is told so.
        let told: Value = serde_json::from_str(&trusted.file("told.json").unwrap()).unwrap();
        let file = other.path().join("a.txt").to_string_lossy().into_owned();
        assert_eq!(told["tool_input"]["file_path"], *file);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn p12_a_clients_plugin_runs_its_own_file_not_a_project_file_of_that_name() {
    let hooks = json!({ "hooks": { "PreToolUse": [{ "hooks": [
        { "command": "sh scripts/check.sh" },
        { "command": "pwd > where.txt" },
    ] }] } });
    let workshop = Workshop::new(&[
        ("plugin/.claude-plugin/plugin.json", r#"{"name":"guard"}"#),
        ("plugin/hooks/hooks.json", &hooks.to_string()),
        ("plugin/scripts/check.sh", "echo trusted >&2; exit 2"),
        ("scripts/check.sh", "echo evil >&2; exit 2"),
    ]);
    let hooks = published(&workshop, "plugin");
    allow(&workshop, &hooks);
    let outcome = hooks.run(before_write(&workshop), &nothing(), None).await;
    assert_eq!(outcome.deny.as_deref(), Some("trusted"));
    assert!(
        workshop.file("where.txt").is_some(),
        "what is not the plugin's works in the project"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn p12_a_trusted_hook_may_write_into_its_workspace_without_a_new_question() {
    for command in [
        "cat >> .claude/audit.log",
        "cat >> .claude/audit",
        "date | tee -a \"$CLAUDE_PROJECT_DIR/.claude/audit\"",
        "sh scripts/audit.sh .claude/audit.json",
        "sh -e scripts/audit.sh .claude/audit.txt",
        "sh scripts/audit.sh .claude/audit 2>> $(pwd)/errors; touch .claude/audit",
        "bash -c 'date >> .claude/audit'",
    ] {
        let workshop = Workshop::claude("PreToolUse", "", command);
        workshop.write("scripts/audit.sh", "cat >> \"$1\"; date >> \"$1\"; echo oops >&2\n");
        for file in [
            ".claude/audit",
            ".claude/audit.log",
            ".claude/audit.json",
            ".claude/audit.txt",
        ] {
            workshop.write(file, "before\n");
        }
        let hooks = workshop.hooks_of(&workshop.workspace());
        allow(&workshop, &hooks);
        for _ in 0..2 {
            hooks.run(before_write(&workshop), &nothing(), None).await;
            assert!(is_trusted(&workshop, &hooks), "{command}");
        }
        let written = ["audit", "audit.log", "audit.json", "audit.txt"];
        let mut written = written
            .iter()
            .map(|name| workshop.file(&format!(".claude/{name}")).unwrap());
        assert!(written.any(|text| text.len() > 20), "{command} wrote something");
        // The file that it runs is another matter.
        workshop.write("scripts/audit.sh", "evil\n");
        assert_eq!(is_trusted(&workshop, &hooks), !command.contains(".sh"), "{command}");
    }
}

#[test]
fn p12_changed_programs_are_asked_about_again_and_changed_data_is_not() {
    for (command, file, counts) in [
        ("npx tsx hooks/check.ts", "hooks/check.ts", true),
        ("eslint -c rules.js src/index.js", "rules.js", true),
        ("eslint -c rules.js src/index.js", "src/index.js", false),
        ("npx prettier --write README.md src/index.ts", "src/index.ts", false),
        ("python3 run.py settings.yaml", "settings.yaml", true),
        ("cat scripts/x.sh | sh", "scripts/x.sh", true),
        ("make -f Hookfile", "Hookfile", true),
        ("sh < notes.txt", "notes.txt", true),
        ("cat notes.md", "notes.md", false),
        ("jq -r .prompt state.json", "state.json", false),
    ] {
        let workshop = Workshop::claude("Stop", "", command);
        workshop.write(file, "before\n");
        let hooks = workshop.hooks_of(&workshop.workspace());
        allow(&workshop, &hooks);
        workshop.write(file, "after\n");
        assert_eq!(!is_trusted(&workshop, &hooks), counts, "{command}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn p12_every_file_of_a_clients_plugin_is_in_its_digest() {
    let hooks = json!({ "hooks": { "PreToolUse": [{ "hooks": [
        { "command": "sh \"$CLAUDE_PLUGIN_ROOT/run.sh\"; echo $PYTHONDONTWRITEBYTECODE >&2; exit 2" },
    ] }] } });
    let workshop = Workshop::new(&[
        ("plugin/.claude-plugin/plugin.json", r#"{"name":"guard"}"#),
        ("plugin/hooks/hooks.json", &hooks.to_string()),
        ("plugin/run.sh", ". \"$CLAUDE_PLUGIN_ROOT/audit.log\"\n"),
        ("plugin/audit.log", "true\n"),
    ]);
    let hooks = published(&workshop, "plugin");
    allow(&workshop, &hooks);
    for _ in 0..2 {
        let outcome = hooks.run(before_write(&workshop), &nothing(), None).await;
        assert_eq!(outcome.deny.as_deref(), Some("1"));
    }
    workshop.write("plugin/audit.log", "evil\n");
    assert!(
        !is_trusted(&workshop, &hooks),
        "a trusted script loads what another revision discovered"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn hooks_are_told_of_an_event_by_the_name_that_they_stand_under() {
    let append = |name: &str| json!([{ "type": "command", "command": format!("cat >> {name}; echo >> {name}") }]);
    let copilot = json!({ "version": 1, "hooks": {
        "userPromptSubmitted": append("copilot"), "agentStop": append("copilot"), "SessionStart": append("copilot"),
    } });
    let cursor = json!({ "version": 1, "hooks": {
        "beforeSubmitPrompt": append("cursor"), "stop": append("cursor"), "sessionStart": append("cursor"),
    } });
    let workshop = Workshop::new(&[
        (".github/hooks/a.json", &copilot.to_string()),
        ("plugin/.cursor-plugin/plugin.json", r#"{"name":"guard"}"#),
        ("plugin/hooks/hooks.json", &cursor.to_string()),
    ]);
    let root = workshop.path().join("plugin");
    let plugin = innkeeper_plugins::load_plugin(&innkeeper_plugins::PluginSource::new(&root));
    let mut files = SourcedHooks::of_entry(&Container::Plugin(plugin), &Origin::User, Some(&root));
    files.extend(workshop.own().files);
    let hooks = workshop.with(files);
    for event in [HookEvent::UserPromptSubmit, HookEvent::Stop, HookEvent::SessionStart] {
        hooks.run(workshop.call(event, "", json!({})), &nothing(), None).await;
    }
    let heard = |name: &str| {
        let told = workshop.file(name).unwrap();
        let told = told.lines().filter(|line| !line.is_empty());
        let names = told.map(|line| serde_json::from_str::<Value>(line).unwrap()["hook_event_name"].clone());
        names.collect::<Vec<Value>>()
    };
    assert_eq!(heard("copilot"), ["userPromptSubmitted", "agentStop", "SessionStart"]);
    assert_eq!(heard("cursor"), ["beforeSubmitPrompt", "stop", "sessionStart"]);
}

#[cfg(unix)]
#[tokio::test]
async fn hooks_hear_of_tools_of_servers_by_the_names_of_their_formats() {
    let claude = settings("PreToolUse", "mcp__srv__ping", "cat > claude.json; echo no >&2; exit 2");
    let append = |name: &str| json!([{ "command": format!("cat > {name}.json") }]);
    let cursor = json!({ "version": 1, "hooks": {
        "preToolUse": append("cursor"),
        "beforeMCPExecution": append("before"),
        "afterMCPExecution": append("after"),
    } });
    let workshop = Workshop::new(&[
        (".claude/settings.json", claude.as_str()),
        ("plugin/.cursor-plugin/plugin.json", r#"{"name":"guard"}"#),
        ("plugin/hooks/hooks.json", &cursor.to_string()),
    ]);
    let root = workshop.path().join("plugin");
    let plugin = innkeeper_plugins::load_plugin(&innkeeper_plugins::PluginSource::new(&root));
    let mut files = SourcedHooks::of_entry(&Container::Plugin(plugin), &Origin::User, Some(&root));
    files.extend(workshop.own().files);
    let hooks = workshop.with(files);
    let run = async |event, tool: &str, server: Option<&str>| {
        let input = json!({ "tool_name": tool, "tool_input": { "n": 1 }, "tool_response": { "text": "pong" } });
        let call = HookCall {
            mcp: server.map(|server| ServerTool {
                server: server.to_owned(),
                plugin: None,
                tool: "ping".to_owned(),
            }),
            ..workshop.call(event, tool, input)
        };
        hooks.run(call, &nothing(), None).await
    };
    let told =
        |name: &str| -> Value { serde_json::from_str(&workshop.file(&format!("{name}.json")).unwrap()).unwrap() };

    assert_eq!(run(HookEvent::PreToolUse, "read_file", None).await.deny, None);
    assert_eq!(workshop.file("before.json"), None, "no server's");
    assert_eq!(
        run(HookEvent::PreToolUse, "other__ping", Some("other")).await.deny,
        None
    );
    let outcome = run(HookEvent::PreToolUse, "srv__ping", Some("srv")).await;
    assert_eq!(outcome.deny.as_deref(), Some("no"));
    assert_eq!(told("claude")["tool_name"], "mcp__srv__ping");
    assert_eq!(told("cursor")["tool_name"], "MCP:ping");
    assert_eq!(told("before")["tool_name"], "ping");
    assert_eq!(told("before")["tool_input"], r#"{"n":1}"#);
    run(HookEvent::PostToolUse, "srv__ping", Some("srv")).await;
    assert_eq!(told("after")["result_json"], r#"{"text":"pong"}"#);
}
