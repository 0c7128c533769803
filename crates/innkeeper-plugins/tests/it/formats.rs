//! Every format with every kind of component, and what is read of each.

use std::path::Path;
use std::time::Duration;

use crate::support::write;
use innkeeper_plugins::{
    Child, Component, Format, HookAction, HookEvent, HookOrigin, LoadState, OnFailure, Plugin, PluginSource,
    SkillOrigin, Transport, find_plugins, load_plugin,
};

/// A plugin with one component of every kind that is the same in all formats.
fn components(root: &Path) {
    write(root, "skills/s/SKILL.md", "---\nname: s\ndescription: A skill.\n---\n");
    write(root, "commands/c.md", "---\ndescription: A command.\n---\n");
    write(root, "commands/p.prompt.md", "---\ndescription: A prompt.\n---\n");
    write(root, "agents/a.agent.md", "---\ndescription: An agent.\n---\n");
    write(root, "rules/r.mdc", "---\ndescription: A rule.\nglobs: **/*.rs\n---\n");
    write(root, "rules/i.instructions.md", "---\napplyTo: 'src/**, x'\n---\n");
}

const HOOKS: &str =
    r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}]}]}}"#;
const SERVERS: &str = r#"{"mcpServers": {"m": {"command": "x"}}}"#;
const AGENT_PLUGIN: &str = r#"{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "x"}"#;
const STRICT_SERVERS: &str = r#"{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json",
    "mcpServers": {"m": {"type": "stdio", "command": "x"}}}"#;

fn listed(plugin: &Plugin) -> Vec<String> {
    let children = plugin.children.as_ref().unwrap().iter();
    children
        .map(|child| format!("{} {} {}", child.kind().as_str(), child.name, child.path))
        .collect()
}

fn child<'p>(plugin: &'p Plugin, name: &str) -> &'p Child {
    let children = plugin.children.as_ref().unwrap();
    children.iter().find(|child| child.name == name).unwrap()
}

#[test]
fn every_format_keeps_its_components_where_it_says() {
    let common = [
        "agent a agents/a.agent.md",
        "skill c commands/c.md",
        "skill s skills/s/SKILL.md",
        "prompt p commands/p.prompt.md",
        "rule i rules/i.instructions.md",
        "rule r rules/r.mdc",
    ];
    // Manifest, format, where hooks are, where MCP servers are.
    let table = [
        (
            ".plugin/plugin.json",
            Format::OpenPlugin,
            "hooks/hooks.json",
            ".mcp.json",
        ),
        (
            ".claude-plugin/plugin.json",
            Format::Claude,
            "hooks/hooks.json",
            ".mcp.json",
        ),
        (".codex-plugin/plugin.json", Format::Codex, "hooks.json", ".mcp.json"),
        (
            ".cursor-plugin/plugin.json",
            Format::Cursor,
            "hooks/hooks.json",
            "mcp.json",
        ),
        (".github/plugin/plugin.json", Format::Copilot, "hooks.json", ".mcp.json"),
        ("plugin.json", Format::Copilot, "hooks/hooks.json", ".mcp.json"),
        ("plugins.json", Format::OpenPlugin, "hooks/hooks.json", ".mcp.json"),
        ("", Format::Bare, "hooks/hooks.json", ".mcp.json"),
    ];
    for (manifest, format, hooks, servers) in table {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("x");
        components(&root);
        write(&root, hooks, HOOKS);
        write(&root, servers, SERVERS);
        if !manifest.is_empty() {
            write(
                &root,
                manifest,
                r#"{"name": "x", "version": "1", "logo": "./logo.svg"}"#,
            );
            write(&root, "logo.svg", "<svg/>");
        }
        let plugin = load_plugin(&PluginSource::new(&root));
        assert_eq!(plugin.format, Some(format), "{manifest}");
        assert_eq!(plugin.load, LoadState::Loaded, "{manifest} {:?}", plugin.notes);
        let mut expected: Vec<String> = common.iter().map(ToString::to_string).collect();
        expected.push(format!("hook hooks.json {hooks}"));
        expected.push(format!("mcpServer m {servers}"));
        assert_eq!(listed(&plugin), expected, "{manifest}");
        if !manifest.is_empty() {
            assert_eq!(plugin.version.as_deref(), Some("1"));
            assert!(plugin.icons[0].src.ends_with("/x/logo.svg"));
            assert_eq!(plugin.icons[0].mime_type.as_deref(), Some("image/svg+xml"));
        }
    }
}

#[test]
fn agent_plugins_have_skills_and_servers_and_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    components(temp.path());
    write(temp.path(), "plugin.json", AGENT_PLUGIN);
    write(temp.path(), "hooks/hooks.json", HOOKS);
    write(temp.path(), ".mcp.json", SERVERS);
    write(temp.path(), "mcp.json", STRICT_SERVERS);
    let plugin = load_plugin(&PluginSource::new(temp.path()));
    assert_eq!(plugin.load, LoadState::Loaded);
    assert_eq!(listed(&plugin), ["skill s skills/s/SKILL.md", "mcpServer m mcp.json"]);
}

#[test]
fn copilots_own_directory_of_an_agent_plugin_is_read() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "plugin.json", AGENT_PLUGIN);
    components(&temp.path().join("com.github.copilot"));
    write(temp.path(), "com.github.copilot/hooks/hooks.json", HOOKS);
    let plugin = load_plugin(&PluginSource::new(temp.path()));
    let kinds: Vec<&str> = plugin
        .children
        .as_ref()
        .unwrap()
        .iter()
        .map(|child| child.kind().as_str())
        .collect();
    assert_eq!(kinds, ["agent", "skill", "prompt", "rule", "rule", "hook"]);
    let Component::Hook(file) = &child(&plugin, "hooks.json").component else {
        panic!()
    };
    assert_eq!(file.origin, HookOrigin::Copilot);
}

#[test]
fn every_field_of_an_agent_and_a_skill_is_read() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    write(
        root,
        "agents/a.md",
        "---\ndescription: d\nmodel: [m1, m2]\ntools: Read, Bash(git:*, x)\ndisallowedTools: [Write]\n\
         disable-model-invocation: true\nuser-invocable: false\n---\n",
    );
    write(
        root,
        "agents/b.md",
        "---\ndescription: d\nmodel: inherit\ntools: ['*']\ninfer: false\n---\n",
    );
    write(
        root,
        "skills/s/SKILL.md",
        "---\ndescription: d\nargument-hint: '[file]'\nallowed-tools: Read Write\nmodel: m\ncontext: fork\nagent: a\n---\n",
    );
    write(
        root,
        "skills/s/agents/openai.yaml",
        "interface:\n  icon_small: ./i.png\n  icon_large: ../../../up.png\npolicy:\n  allow_implicit_invocation: false\n",
    );
    write(root, "skills/s/i.png", "");
    let plugin = load_plugin(&PluginSource::new(root));
    let Component::Agent(agent) = &child(&plugin, "a").component else {
        panic!()
    };
    assert_eq!(agent.model.as_deref(), Some("m1"));
    assert_eq!(agent.tools, ["Read", "Bash(git:*, x)"]);
    assert_eq!(agent.disallowed_tools, ["Write"]);
    assert!(agent.disable_model_invocation && agent.disable_user_invocation);
    let Component::Agent(agent) = &child(&plugin, "b").component else {
        panic!()
    };
    assert_eq!((agent.model.as_deref(), agent.tools.len()), (None, 0));
    assert!(agent.disable_model_invocation && agent.disable_user_invocation);
    let skill = child(&plugin, "s");
    assert_eq!(skill.icons.len(), 1, "only the icon inside the plugin counts");
    let Component::Skill(skill) = &skill.component else {
        panic!()
    };
    assert_eq!(skill.origin, SkillOrigin::Directory);
    assert!(skill.disable_model_invocation, "Codex's file beside the skill says so");
    assert_eq!(skill.allowed_tools, ["Read", "Write"]);
    assert_eq!(skill.argument_hint.as_deref(), Some("[file]"));
    assert_eq!(
        (skill.model.as_deref(), skill.agent.as_deref(), skill.in_fork),
        (Some("m"), Some("a"), true)
    );
}

#[test]
fn d42_hooks_of_all_formats_become_one_shape() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    write(root, "plugin.json", r#"{"name": "x"}"#);
    write(
        root,
        "hooks.json",
        r#"{"version": 1, "hooks": {
            "preToolUse": [{"type": "command", "bash": "b", "powershell": "p", "cwd": "c", "env": {"K": "v"}, "timeoutSec": 5}],
            "userPromptSubmitted": [{"command": "u", "failClosed": true}],
            "Nonsense": [{"command": "n"}],
            "Stop": [{"hooks": [{"type": "prompt", "prompt": "Done?"}, {"type": "http", "url": "https://x"},
                                {"type": "command"}, {"type": "command", "command": "s", "timeout": -1}]}]
        }}"#,
    );
    let plugin = load_plugin(&PluginSource::new(root));
    let Component::Hook(file) = &child(&plugin, "hooks.json").component else {
        panic!()
    };
    assert_eq!(file.origin, HookOrigin::Copilot);
    assert_eq!(file.origin.exit_contract().refusal, 2);
    assert_eq!(file.raw["version"], 1);
    let events: Vec<&str> = file.hooks.iter().map(|hook| hook.event.as_str()).collect();
    assert_eq!(
        events,
        ["PreToolUse", "UserPromptSubmit", "Nonsense", "Stop", "Stop", "Stop"],
        "hooks run in the order of their file"
    );
    let pre = file
        .hooks
        .iter()
        .find(|hook| hook.event == HookEvent::PreToolUse)
        .unwrap();
    assert_eq!(pre.timeout, Some(Duration::from_secs(5)));
    let HookAction::Command(command) = &pre.action else {
        panic!()
    };
    assert_eq!(command.linux.as_deref(), Some("b"));
    assert_eq!(command.windows.as_deref(), Some("p"));
    assert_eq!(command.env["K"], "v");
    assert_eq!(file.hooks[5].timeout, None);
    assert_eq!(file.hooks[1].on_failure, OnFailure::Block);
    assert!(matches!(&plugin.load, LoadState::Degraded { message } if message.contains("hooks.json")));
    assert!(
        !format!("{plugin:?}").contains("\"v\""),
        "what hooks run is not printed"
    );
}

#[test]
fn d42_hooks_that_are_switched_off_are_not_listed() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "skills/s/SKILL.md", "---\ndescription: d\n---\n");
    write(
        temp.path(),
        "hooks.json",
        r#"{"disableAllHooks": true, "hooks": {"Stop": [{"command": "x"}]}}"#,
    );
    let plugin = load_plugin(&PluginSource::new(temp.path()));
    assert_eq!(listed(&plugin), ["skill s skills/s/SKILL.md"]);
}

#[test]
fn d46_servers_keep_their_variables_and_say_which() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    write(
        root,
        ".mcp.json",
        "{\"servers\": {\n  \"s\": {\"command\": \"${CLAUDE_PLUGIN_ROOT}/x\", \"args\": [\"-v\", 1], \
         \"env\": {\"A\": 1, \"B\": null, \"T\": \"${TOKEN}\"}, \"cwd\": \"d\"},\n  \
         \"h\": {\"url\": \"https://x\", \"headers\": {\"K\": \"v\"}, \"oauth\": {\"clientId\": \"c\"}}}}",
    );
    let plugin = load_plugin(&PluginSource::new(root));
    let server = child(&plugin, "s");
    assert_eq!(server.range.unwrap().start.line, 1);
    let Component::McpServer(server) = &server.component else {
        panic!()
    };
    assert_eq!(server.variables, ["CLAUDE_PLUGIN_ROOT", "TOKEN"]);
    let Transport::Stdio {
        command,
        args,
        env,
        cwd,
        ..
    } = &server.transport
    else {
        panic!()
    };
    assert_eq!(command, "${CLAUDE_PLUGIN_ROOT}/x");
    assert_eq!(args, &["-v"]);
    assert_eq!((env["A"].as_deref(), env["B"].as_deref()), (Some("1"), None));
    assert_eq!(cwd.as_deref(), Some("d"));
    let Component::McpServer(server) = &child(&plugin, "h").component else {
        panic!()
    };
    let Transport::Http(remote) = &server.transport else {
        panic!()
    };
    assert_eq!(remote.oauth_client_id.as_deref(), Some("c"));
}

#[test]
fn the_plugin_of_a_client_has_the_clients_uris() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".plugin/plugin.json", r#"{"name": "VS Code Synced Data"}"#);
    write(temp.path(), "commands/fix it.prompt.md", "---\ndescription: d\n---\n");
    write(temp.path(), "rules/r.instructions.md", "---\napplyTo: '**'\n---\n");
    let source = PluginSource::new(temp.path()).published_by("client-1", "virtual://c/data/?v=1");
    let waiting = source.announce();
    assert_eq!((waiting.load, waiting.children), (LoadState::Loading, None));
    let plugin = load_plugin(&source);
    assert_eq!(plugin.load, LoadState::Loaded, "{:?}", plugin.notes);
    assert_eq!(plugin.id, waiting.id);
    assert_eq!(plugin.uri, "virtual://c/data/?v=1");
    assert_eq!(plugin.client_id.as_deref(), Some("client-1"));
    assert_eq!(
        child(&plugin, "fix it").uri,
        "virtual://c/data/commands/fix%20it.prompt.md?v=1"
    );
    let other = PluginSource::new(temp.path()).published_by("client-2", "virtual://c/data/?v=1");
    assert_ne!(load_plugin(&other).id, plugin.id);
}

#[test]
fn a_marketplace_lists_its_plugins_in_order() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    for skill in ["pdf", "docx", "other"] {
        write(root, &format!("skills/{skill}/SKILL.md"), "---\ndescription: d\n---\n");
    }
    write(
        root,
        "plugins/one/.claude-plugin/plugin.json",
        r#"{"name": "one", "version": "1"}"#,
    );
    write(
        root,
        ".claude-plugin/marketplace.json",
        r#"{"name": "market", "plugins": [
            {"name": "two-docs", "source": "./", "strict": false, "skills": ["./skills/pdf", "./skills/docx"]},
            {"name": "the-other", "source": "./", "strict": false, "skills": ["./skills/other"]},
            {"name": "one-listed", "source": {"source": "local", "path": "plugins/one"}, "version": "2"},
            {"name": "far", "source": {"source": "github", "repo": "a/b"}},
            {"name": "out", "source": "../elsewhere"},
            {"name": "gone", "source": "./gone"},
            {"source": "./x"}, 7
        ]}"#,
    );
    let plugins = find_plugins(root);
    assert_eq!(plugins.marketplace.as_deref(), Some("market"));
    assert_eq!(plugins.external, ["far"]);
    assert_eq!(plugins.notes.len(), 5, "{:?}", plugins.notes);
    let loaded: Vec<Plugin> = plugins.sources.iter().map(load_plugin).collect();
    let names: Vec<&str> = loaded.iter().map(|plugin| plugin.name.as_str()).collect();
    assert_eq!(names, ["two-docs", "the-other", "one"]);
    assert_eq!(
        listed(&loaded[0]),
        ["skill docx skills/docx/SKILL.md", "skill pdf skills/pdf/SKILL.md"]
    );
    assert_eq!(listed(&loaded[1]), ["skill other skills/other/SKILL.md"]);
    assert_eq!(
        loaded[2].version.as_deref(),
        Some("2"),
        "what the marketplace says is shown"
    );
    assert_ne!(loaded[0].id, loaded[1].id, "two plugins in one directory are two");
    assert_ne!(loaded[0].uri, "");
}

#[test]
fn plugins_of_a_directory_are_found_two_levels_deep() {
    let temp = tempfile::tempdir().unwrap();
    for path in ["b", "a", "group/c", "x/y/z", ".hidden/d", "node_modules/e"] {
        write(
            temp.path(),
            &format!("{path}/.claude-plugin/plugin.json"),
            r#"{"name": "n"}"#,
        );
    }
    let plugins = find_plugins(temp.path());
    let found: Vec<_> = plugins
        .sources
        .iter()
        .map(|source| source.path().strip_prefix(temp.path()).unwrap())
        .collect();
    assert_eq!(found, [Path::new("a"), Path::new("b"), Path::new("group/c")]);
}
