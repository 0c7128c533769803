//! The well-known directories and files of workspaces and users.

use std::fs;
use std::path::Path;

use innkeeper_plugins::{Child, Component, Container, Directory, Kind, LoadState, Sources, Tree, scan};

use crate::support::write;

fn workspace(path: &Path) -> Sources {
    Sources {
        workspaces: vec![path.to_owned()],
        ..Sources::default()
    }
}

fn directories(tree: &Tree) -> Vec<&Directory> {
    let directories = tree.entries.iter().filter_map(|entry| match &**entry {
        Container::Directory(directory) => Some(directory),
        Container::Plugin(_) | Container::McpServer(_) => None,
    });
    directories.collect()
}

fn directory<'t>(tree: &'t Tree, name: &str) -> &'t Directory {
    let found = directories(tree).into_iter().find(|directory| directory.name == name);
    found.unwrap_or_else(|| panic!("{name} is not published"))
}

fn names(directory: &Directory) -> Vec<&str> {
    directory
        .children
        .as_ref()
        .unwrap()
        .iter()
        .map(|child| child.name.as_str())
        .collect()
}

#[test]
fn d48_directories_are_published_before_they_exist() {
    let temp = tempfile::tempdir().unwrap();
    let tree = scan(&workspace(temp.path()));
    assert_eq!(directories(&tree).len(), 13);
    for directory in directories(&tree) {
        assert!(directory.writable && !directory.exists, "{}", directory.name);
        assert_eq!(directory.load, LoadState::Loaded);
        assert_eq!(directory.children.as_deref(), Some(&[][..]), "read, and empty");
    }
    assert_eq!(directory(&tree, ".github/prompts").contents, Kind::Prompt);
}

#[test]
fn each_directory_holds_its_own_kind() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    let head = "---\ndescription: d\n---\n";
    write(root, ".github/agents/a.agent.md", head);
    write(root, ".github/agents/README.md", head);
    write(root, ".github/agents/deep/no.md", head);
    write(root, ".claude/skills/s/SKILL.md", head);
    write(root, ".claude/skills/no.md", head);
    write(root, ".claude/commands/git/commit.md", head);
    write(root, ".claude/commands/plain.md", head);
    write(root, ".github/prompts/p.prompt.md", head);
    write(root, ".github/prompts/no.md", head);
    write(
        root,
        ".github/instructions/a/b/i.Instructions.md",
        "---\napplyTo: '**/*.ts,*.js'\n---\n",
    );
    write(root, ".github/instructions/no.md", head);
    write(root, ".claude/rules/x/scoped.md", "---\npaths:\n  - src/**\n---\n");
    write(root, ".claude/rules/always.md", "Be kind.\n");
    write(
        root,
        ".cursor/rules/r.mdc",
        "---\nglobs: *.rs\nalwaysApply: false\n---\n",
    );
    write(
        root,
        ".github/hooks/h.json",
        r#"{"hooks": {"preToolUse": [{"bash": "x"}]}}"#,
    );
    let tree = scan(&workspace(root));
    assert_eq!(names(directory(&tree, ".github/agents")), ["a"]);
    assert_eq!(names(directory(&tree, ".claude/skills")), ["s"]);
    assert_eq!(names(directory(&tree, ".claude/commands")), ["git:commit", "plain"]);
    assert_eq!(names(directory(&tree, ".github/prompts")), ["p"]);
    assert_eq!(names(directory(&tree, ".github/instructions")), ["i"]);
    assert_eq!(names(directory(&tree, ".claude/rules")), ["always", "scoped"]);
    assert_eq!(names(directory(&tree, ".cursor/rules")), ["r"]);
    assert_eq!(names(directory(&tree, ".github/hooks")), ["h.json"]);
    let rule = |name: &str, index: usize| {
        let child: &Child = &directory(&tree, name).children.as_ref().unwrap()[index];
        let Component::Rule(rule) = &child.component else {
            panic!()
        };
        (rule.always_apply, rule.globs.clone())
    };
    assert_eq!(rule(".claude/rules", 0), (Some(true), vec![]));
    assert_eq!(rule(".claude/rules", 1), (None, vec!["src/**".to_owned()]));
    assert_eq!(rule(".github/instructions", 0).1, ["**/*.ts", "*.js"]);
    assert_eq!(rule(".cursor/rules", 0), (Some(false), vec!["*.rs".to_owned()]));
}

#[test]
fn d49_a_file_where_a_directory_belongs_degrades_only_that() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".github/skills", "x");
    let tree = scan(&workspace(temp.path()));
    let broken = directory(&tree, ".github/skills");
    assert!(matches!(broken.load, LoadState::Degraded { .. }));
    assert!(!broken.writable);
    assert_eq!(directory(&tree, ".claude/skills").load, LoadState::Loaded);
}

#[test]
fn d53_a_skill_with_a_manifest_is_a_plugin() {
    let temp = tempfile::tempdir().unwrap();
    write(
        temp.path(),
        ".claude/skills/x/.claude-plugin/plugin.json",
        r#"{"name": "x"}"#,
    );
    write(temp.path(), ".claude/skills/x/SKILL.md", "---\ndescription: d\n---\n");
    let tree = scan(&workspace(temp.path()));
    assert!(names(directory(&tree, ".claude/skills")).is_empty());
    let Container::Plugin(plugin) = &*tree.entries[0] else {
        panic!()
    };
    assert_eq!(plugin.name, "x");
    assert_eq!(plugin.children.as_ref().unwrap()[0].name, "x");
}

#[test]
fn loose_files_are_rules_hooks_and_servers() {
    let temp = tempfile::tempdir().unwrap();
    let root = &temp.path().join("work");
    write(root, "AGENTS.md", "Be kind.\n");
    write(root, ".github/copilot-instructions.md", "---\napplyTo: '**'\n---\n");
    write(
        root,
        ".claude/settings.json",
        "{ // mine\n \"env\": {\"SECRET\": \"x\"},\n \"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"c\"}]}]},\n \
         \"mcpServers\": {\"two\": {\"command\": \"c\"}} }",
    );
    write(root, ".claude/settings.local.json", "{\"permissions\": {}}");
    write(
        root,
        ".mcp.json",
        r#"{"mcpServers": {"one": {"command": "c"}, "bad": {}}}"#,
    );
    #[cfg(unix)]
    crate::support::link(root, "CLAUDE.md", "AGENTS.md");
    let tree = scan(&workspace(root));
    let loose = |contents: Kind| {
        let found = directories(&tree)
            .into_iter()
            .find(|directory| directory.contents == contents && directory.name == "work");
        found.unwrap()
    };
    let rules = loose(Kind::Rule);
    assert!(!rules.writable);
    assert_eq!(
        names(rules),
        ["copilot-instructions", "AGENTS"],
        "a link to AGENTS.md is AGENTS.md"
    );
    let hooks = loose(Kind::Hook);
    assert_eq!(names(hooks), ["settings.json"]);
    let hook = &hooks.children.as_ref().unwrap()[0];
    assert_eq!(hook.range.unwrap().start.line, 2);
    let Component::Hook(file) = &hook.component else {
        panic!()
    };
    assert!(file.raw.get("env").is_none(), "other settings stay where they are");
    let servers: Vec<&str> = tree
        .entries
        .iter()
        .filter_map(|entry| match &**entry {
            Container::McpServer(server) => Some(server.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(servers, ["two", "one"], "in the order of their files");
    let told = loose(Kind::McpServer);
    assert_eq!((names(told).len(), told.notes.len()), (0, 1), "{:?}", told.notes);
    assert!(matches!(told.load, LoadState::Degraded { .. }), "{:?}", told.load);
    assert!(
        tree.notes.is_empty(),
        "what is wrong is said by an entry: {:?}",
        tree.notes
    );
}

#[cfg(unix)]
#[test]
fn d14_d49_workspace_symlinks_stay_inside_and_user_symlinks_lead_anywhere() {
    let temp = tempfile::tempdir().unwrap();
    let (work, home) = (temp.path().join("work"), temp.path().join("home"));
    let head = "---\ndescription: d\n---\n";
    write(temp.path(), "elsewhere/mine/SKILL.md", head);
    write(&work, "skills/ours/SKILL.md", head);
    crate::support::link(&work, ".claude/skills", "../skills");
    crate::support::link(&work, ".codex/skills/mine", temp.path().join("elsewhere/mine"));
    crate::support::link(&home, ".claude/skills/mine", temp.path().join("elsewhere/mine"));
    crate::support::link(&home, ".agents/skills", temp.path().join("elsewhere"));
    let tree = scan(&Sources {
        workspaces: vec![work],
        home: Some(home),
        ..Sources::default()
    });
    assert_eq!(names(directory(&tree, ".claude/skills")), ["ours"]);
    assert!(names(directory(&tree, ".codex/skills")).is_empty());
    assert!(matches!(
        directory(&tree, ".codex/skills").load,
        LoadState::Degraded { .. }
    ));
    assert_eq!(names(directory(&tree, "~/.claude/skills")), ["mine"]);
    assert_eq!(names(directory(&tree, "~/.agents/skills")), ["mine"]);
}

#[test]
fn d50_a_workspace_that_is_the_home_is_listed_once() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".mcp.json", r#"{"s": {"command": "c"}}"#);
    write(temp.path(), ".claude/CLAUDE.md", "x");
    let tree = scan(&Sources {
        workspaces: vec![temp.path().to_owned()],
        home: Some(temp.path().to_owned()),
        ..Sources::default()
    });
    let mut ids: Vec<&str> = tree.entries.iter().map(|entry| entry.id()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    let mut places: Vec<_> = directories(&tree).iter().map(|d| (d.uri.clone(), d.contents)).collect();
    let count = places.len();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), count);
}

#[test]
fn a_workspace_that_is_gone_is_an_error_and_no_panic() {
    let temp = tempfile::tempdir().unwrap();
    let gone = temp.path().join("gone");
    let tree = scan(&workspace(&gone));
    assert!(
        directories(&tree)
            .iter()
            .all(|directory| matches!(directory.load, LoadState::Error { .. }))
    );
    fs::create_dir(&gone).unwrap();
    assert!(
        directories(&scan(&workspace(&gone)))
            .iter()
            .all(|directory| directory.load == LoadState::Loaded)
    );
}

#[test]
fn plugins_that_were_put_into_a_workspace_or_a_home_are_found() {
    let temp = tempfile::tempdir().unwrap();
    let (work, home) = (temp.path().join("work"), temp.path().join("home"));
    write(&work, ".agents/plugins/one/.plugin/plugin.json", r#"{"name": "one"}"#);
    write(
        &home,
        ".agents/plugins/two/skills/s/SKILL.md",
        "---\ndescription: d\n---\n",
    );
    write(
        &home,
        ".copilot/installed-plugins/market/three/plugin.json",
        r#"{"name": "three"}"#,
    );
    write(temp.path(), "elsewhere/skills/s/SKILL.md", "---\ndescription: d\n---\n");
    #[cfg(unix)]
    {
        crate::support::link(&work, ".agents/plugins/stolen", temp.path().join("elsewhere"));
        crate::support::link(&home, ".agents/plugins/linked", temp.path().join("elsewhere"));
    }
    write(
        temp.path(),
        "collection/four/.plugin/plugin.json",
        r#"{"name": "four"}"#,
    );
    let tree = scan(&Sources {
        collections: vec![temp.path().join("collection")],
        workspaces: vec![work],
        home: Some(home),
        ..Sources::default()
    });
    let plugins: Vec<(&str, bool)> = tree
        .entries
        .iter()
        .filter_map(|entry| match &**entry {
            Container::Plugin(plugin) => Some((plugin.name.as_str(), plugin.load == LoadState::Loaded)),
            _ => None,
        })
        .collect();
    let linked = cfg!(unix).then_some(("linked", true));
    let expected: Vec<_> = [("four", true), ("one", true)]
        .into_iter()
        .chain(linked)
        .chain([("two", true), ("three", true)])
        // The link that leads out of the workspace is not followed, and that is said.
        .chain(cfg!(unix).then_some(("plugins", false)))
        .collect();
    assert_eq!(plugins, expected);
}
