//! Everything that is left out is reported: limits, symlinks that lead outside, unreadable files (P14, P16).

use std::fs;
use std::path::Path;

use innkeeper_plugins::{
    Code, Component, Container, Directory, LoadState, Note, Plugin, Sources, Tree, find_plugins, load_plugin, scan,
};

use crate::support::write;
use crate::watched::{names, workspace};

const SKILL: &str = "---\ndescription: d\n---\n";

fn directory<'t>(tree: &'t Tree, name: &str) -> &'t Directory {
    let mut directories = tree.entries.iter().filter_map(|entry| match &**entry {
        Container::Directory(directory) => Some(directory),
        Container::Plugin(_) | Container::McpServer(_) => None,
    });
    directories.find(|directory| directory.name == name).unwrap()
}

fn plugins(tree: &Tree) -> Vec<&Plugin> {
    let plugins = tree.entries.iter().filter_map(|entry| match &**entry {
        Container::Plugin(plugin) => Some(plugin),
        Container::Directory(_) | Container::McpServer(_) => None,
    });
    plugins.collect()
}

fn codes(notes: &[Note]) -> Vec<(Code, &str)> {
    notes.iter().map(|note| (note.code, note.path.as_str())).collect()
}

#[test]
fn p16_files_that_are_too_deep_are_left_out_with_a_word() {
    let temp = tempfile::tempdir().unwrap();
    for (file, text) in [
        (".claude/rules/1/2/3/4/5/6/deep.md", "Deep.\n"),
        (".claude/rules/1/2/3/4/5/6/7/deeper.md", "Deeper.\n"),
        (".claude/commands/1/2/3/4/5/6/7/8/c.md", "C.\n"),
        (
            ".github/hooks/1/2/3/4/5/6/7/h.json",
            r#"{"hooks": {"Stop": [{"command": "c"}]}}"#,
        ),
        // Nothing that would be read is left out here.
        (".cursor/rules/1/2/3/4/5/6/7/image.png", ""),
    ] {
        write(temp.path(), file, text);
    }
    let tree = scan(&workspace(temp.path()));
    assert_eq!(names(&tree), ["deep"]);
    for name in [".claude/rules", ".claude/commands", ".github/hooks"] {
        let directory = directory(&tree, name);
        assert_eq!(codes(&directory.notes), [(Code::Limit, "1/2/3/4/5/6/7")], "{name}");
        assert!(matches!(directory.load, LoadState::Degraded { .. }), "{name}");
    }
    assert_eq!(directory(&tree, ".cursor/rules").load, LoadState::Loaded);
}

#[test]
fn p16_plugins_beyond_the_search_limit_are_omitted_with_a_warning() {
    let temp = tempfile::tempdir().unwrap();
    for number in 0..2_010 {
        fs::create_dir_all(temp.path().join(format!("group{number}/plugin/skills"))).unwrap();
    }
    let found = find_plugins(temp.path());
    assert_eq!(found.sources.len(), 1_999);
    assert_eq!(codes(&found.notes), [(Code::Limit, ".")]);
    assert!(matches!(found.load, LoadState::Degraded { .. }));
}

#[cfg(unix)]
#[test]
fn p5_workspace_plugins_may_be_inner_symlinks_and_others_are_omitted() {
    use crate::support::link;
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    write(&work, "tools/bare/skills/s/SKILL.md", SKILL);
    write(temp.path(), "elsewhere/skills/s/SKILL.md", SKILL);
    link(&work, ".agents/plugins/bare", "../../tools/bare");
    link(&work, ".agents/plugins/away", temp.path().join("elsewhere"));
    let tree = scan(&workspace(&work));
    let [bare, trouble] = plugins(&tree)[..] else {
        panic!("{:?}", plugins(&tree))
    };
    assert_eq!((bare.name.as_str(), &bare.load), ("bare", &LoadState::Loaded));
    assert_eq!(names(&tree), ["s"]);
    assert_eq!(codes(&trouble.notes), [(Code::PathEscape, "away")]);
    assert!(matches!(trouble.load, LoadState::Degraded { .. }));
}

#[cfg(unix)]
#[test]
fn p14_a_directory_of_plugins_that_is_none_or_leads_away_says_so() {
    use crate::support::link;
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "elsewhere/p/skills/s/SKILL.md", SKILL);
    write(temp.path(), "file/.agents/plugins", "no directory");
    link(temp.path(), "link/.agents/plugins", temp.path().join("elsewhere"));
    link(temp.path(), "dangling/.agents/plugins", "/nonexistent-outside/x");
    for (name, code) in [
        ("file", Code::WrongKind),
        ("link", Code::PathEscape),
        ("dangling", Code::PathEscape),
    ] {
        let tree = scan(&workspace(&temp.path().join(name)));
        let [trouble] = plugins(&tree)[..] else {
            panic!("{name}: {:?}", plugins(&tree))
        };
        assert_eq!(codes(&trouble.notes), [(code, ".")], "{name}");
        assert!(matches!(trouble.load, LoadState::Error { .. }), "{name}");
    }
}

#[test]
fn a7_components_only_in_a_marketplace_entry_are_noted_as_missing() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "p/skills/s/SKILL.md", SKILL);
    let index = r#"{"name": "m", "plugins": [{
        "name": "p", "source": "./p", "strict": false,
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "c"}]}]},
        "mcpServers": {"one": {"command": "c"}}
    }]}"#;
    write(temp.path(), "marketplace.json", index);
    let found = find_plugins(temp.path());
    let plugin = load_plugin(&found.sources[0]);
    let LoadState::Degraded { message } = &plugin.load else {
        panic!("{:?}", plugin.load)
    };
    assert!(
        message.contains("`hooks`") && message.contains("`mcpServers`"),
        "{message}"
    );
}

#[test]
fn a7_two_entries_for_one_directory_are_one_plugin_and_that_is_said() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "p/.plugin/plugin.json", r#"{"name": "p"}"#);
    let index = r#"{"name": "m", "plugins": [
        {"name": "one", "source": "./p"}, {"name": "two", "source": "./p"},
        {"name": "three", "source": "./p", "strict": false}
    ]}"#;
    write(temp.path(), "marketplace.json", index);
    let found = find_plugins(temp.path());
    assert_eq!(found.sources.len(), 2, "what is not strict has a name of its own");
    assert_eq!(codes(&found.notes), [(Code::DuplicateName, "marketplace.json")]);
    assert!(
        found.notes[0].message.contains("`two` is left out"),
        "{:?}",
        found.notes
    );
}

#[test]
fn d53_a_manifest_of_any_format_makes_a_plugin_of_a_skill() {
    let temp = tempfile::tempdir().unwrap();
    let agent_plugin = r#"{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "agent"}"#;
    for (name, manifest, text) in [
        ("open", ".plugin/plugin.json", "{}"),
        ("claude", ".claude-plugin/plugin.json", "{}"),
        ("codex", ".codex-plugin/plugin.json", "{}"),
        ("cursor", ".cursor-plugin/plugin.json", "{}"),
        ("github", ".github/plugin/plugin.json", "{}"),
        ("agent", "plugin.json", agent_plugin),
        ("unowned", "plugin.json", "{}"),
    ] {
        write(temp.path(), &format!(".claude/skills/{name}/{manifest}"), text);
        write(temp.path(), &format!(".claude/skills/{name}/SKILL.md"), SKILL);
    }
    let tree = scan(&workspace(temp.path()));
    let found: Vec<&str> = plugins(&tree).iter().map(|plugin| plugin.name.as_str()).collect();
    assert_eq!(found, ["agent", "claude", "codex", "cursor", "github", "open"]);
    let skills = directory(&tree, ".claude/skills").children.as_deref().unwrap();
    assert_eq!(
        skills.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(),
        ["unowned"]
    );
}

/// The content and the owner of a missing path are unknown.
#[cfg(unix)]
#[test]
fn d17_d48_a_directory_that_is_a_link_to_nothing_is_not_writable() {
    use crate::support::link;
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("home")).unwrap();
    let work = temp.path().join("work");
    link(&work, ".claude/skills", "/nonexistent-outside/x");
    link(&work, ".claude/agents", "../../outside/agents");
    link(&work, ".github", "nowhere");
    link(&work, ".codex/skills", work.join("later"));
    link(temp.path(), "home/.copilot/skills", temp.path().join("later"));
    let tree = scan(&Sources {
        home: Some(temp.path().join("home")),
        ..workspace(&work)
    });
    for (name, is_loaded) in [
        (".claude/skills", false),
        (".claude/agents", false),
        (".github/skills", true),
        (".codex/skills", true),
        ("~/.copilot/skills", true),
    ] {
        let directory = directory(&tree, name);
        assert!(!directory.writable, "{name}");
        assert_eq!(
            directory.load == LoadState::Loaded,
            is_loaded,
            "{name}: {:?}",
            directory.notes
        );
        assert_eq!(directory.notes.len(), 1, "{name}: {:?}", directory.notes);
    }
    assert!(
        directory(&tree, ".agents/skills").writable,
        "what is simply not there can be made"
    );
}

#[test]
fn b2_instructions_for_everything_always_apply() {
    let temp = tempfile::tempdir().unwrap();
    write(
        temp.path(),
        ".github/copilot-instructions.md",
        "---\napplyTo: \"**\"\n---\nBe kind.\n",
    );
    write(temp.path(), "AGENTS.md", "---\napplyTo: \"**/*.rs\"\n---\nBe brief.\n");
    let tree = scan(&workspace(temp.path()));
    let rules = tree.entries.iter().flat_map(|entry| entry.children());
    let always: Vec<_> = rules
        .map(|child| match &child.component {
            Component::Rule(rule) => (child.path.as_str(), rule.always_apply),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        always,
        [(".github/copilot-instructions.md", Some(true)), ("AGENTS.md", None)]
    );
}

/// Two rules that are one file are used once; when they are no longer, the user has to be told.
#[cfg(unix)]
#[test]
fn p19_a_link_that_becomes_a_file_of_its_own_is_another_tree() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".claude/rules/a.md", "Be kind.\n");
    write(temp.path(), ".claude/skills/s/SKILL.md", SKILL);
    let rule = Path::new(".github/instructions/a.instructions.md");
    crate::support::link(temp.path(), rule.to_str().unwrap(), "../../.claude/rules/a.md");
    crate::support::link(
        temp.path(),
        ".github/skills/s/SKILL.md",
        "../../../.claude/skills/s/SKILL.md",
    );
    let linked = scan(&workspace(temp.path()));
    for file in [rule, Path::new(".github/skills/s/SKILL.md")] {
        let before = scan(&workspace(temp.path()));
        let text = fs::read(temp.path().join(file)).unwrap();
        fs::remove_file(temp.path().join(file)).unwrap();
        fs::write(temp.path().join(file), text).unwrap();
        let after = scan(&workspace(temp.path()));
        assert_ne!(before, after, "{}", file.display());
    }
    let separate = scan(&workspace(temp.path()));
    let changes = innkeeper_plugins::changes(&linked, &separate);
    assert_eq!(changes.len(), 2);
    let is_told = |change: &innkeeper_plugins::Change<'_>| {
        matches!(change, innkeeper_plugins::Change::Updated { is_visible: true, .. })
    };
    assert!(!changes.iter().any(is_told), "nothing of that is published");
}
