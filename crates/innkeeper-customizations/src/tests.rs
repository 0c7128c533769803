//! Customizations of real directories: order, origins, and texts for agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_host::customizations::CustomizationSet;
use innkeeper_plugins::Container;

use crate::discovered::{Discovered, Origin};
use crate::local::SourceDirectories;

/// A home, a workspace and a host with plugins of its own.
struct Machine {
    temp: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for directory in ["home", "work", "plugins"] {
            std::fs::create_dir(temp.path().join(directory)).unwrap();
        }
        Self { temp }
    }

    fn path(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.temp.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn skill(&self, directory: &str, name: &str) -> &Self {
        let text = format!("---\nname: {name}\ndescription: In {directory}.\n---\nBody of {directory}.\n");
        self.write(&format!("{directory}/{name}/SKILL.md"), &text)
    }

    fn directories(&self) -> SourceDirectories {
        SourceDirectories {
            plugins: Vec::new(),
            collections: vec![self.path("plugins")],
            servers: Vec::new(),
            home: Some(self.path("home")),
        }
    }

    fn look(&self) -> Discovered {
        self.directories().look(&[self.path("work")])
    }
}

fn set(discovered: &Discovered) -> CustomizationSet {
    discovered.set()
}

/// The full names of skills, with what their descriptions say about where they are.
fn skills(set: &CustomizationSet) -> Vec<(String, &str)> {
    let skills = set.skills.iter();
    skills
        .map(|skill| {
            (
                skill.about.full_name(),
                skill.about.description.as_deref().unwrap_or_default(),
            )
        })
        .collect()
}

#[test]
fn b3_workspaces_win_over_users_and_both_over_plugins() {
    let machine = Machine::new();
    machine
        .skill("plugins/p/skills", "x")
        .write("plugins/p/.plugin/plugin.json", r#"{ "name": "p" }"#)
        .skill("home/.claude/skills", "x")
        .skill("work/.claude/skills", "x")
        .skill("work/.github/skills", "x")
        .write("work/.claude/commands/x.md", "---\ndescription: A command.\n---\nX\n");
    let discovered = machine.look();
    let set = set(&discovered);
    let expected = [
        ("x", "In work/.github/skills."),
        ("x", "In work/.claude/skills."),
        ("x", "A command."),
        ("x", "In home/.claude/skills."),
        ("p:x", "In plugins/p/skills."),
    ];
    assert_eq!(skills(&set), expected.map(|(name, text)| (name.to_owned(), text)));
    let ids: Vec<String> = set.skills.iter().map(|skill| skill.about.id.clone()).collect();
    assert!(!set.shadows.contains_key(&ids[0]), "nothing comes before the first");
    for (index, id) in ids.iter().enumerate().skip(1) {
        assert_eq!(set.shadows[id], ids[..index], "in the order in which they win");
    }
}

#[cfg(unix)]
#[test]
fn b3_one_file_that_two_directories_lead_to_is_one() {
    let machine = Machine::new();
    machine.skill("work/skills", "x").skill("work/skills", "y");
    machine.write("work/AGENTS.md", "Be kind.\n");
    for directory in [".github", ".claude"] {
        std::fs::create_dir_all(machine.path("work").join(directory)).unwrap();
        std::os::unix::fs::symlink("../skills", machine.path("work").join(directory).join("skills")).unwrap();
    }
    std::fs::create_dir_all(machine.path("work/.claude/rules")).unwrap();
    std::os::unix::fs::symlink("../../AGENTS.md", machine.path("work/.claude/rules/agents.md")).unwrap();
    let set = set(&machine.look());
    let copies: Vec<_> = set.skills.iter().map(|skill| skill.about.original.is_some()).collect();
    assert_eq!(copies, [false, false, true, true], "{:?}", skills(&set));
    assert_eq!(
        set.skills[2].about.original.as_ref().unwrap().id,
        set.skills[0].about.id
    );
    let copies: Vec<_> = set.rules.iter().map(|rule| rule.about.original.is_some()).collect();
    assert_eq!(copies, [false, true]);
}

#[test]
fn cus28_only_files_owned_by_the_hosts_user_are_user_files() {
    let machine = Machine::new();
    for plugin in [
        "plugins/a",
        "home/.agents/plugins/b",
        "home/.claude/skills/c",
        "work/.agents/plugins/d",
    ] {
        machine.write(&format!("{plugin}/.plugin/plugin.json"), "{}");
    }
    machine.skill("home/.claude/skills", "x");
    let discovered = machine.look();
    let plugins = discovered
        .containers
        .iter()
        .filter(|part| matches!(part.entry(), Container::Plugin(_)));
    let mut origins: Vec<_> = plugins
        .map(|part| (part.root().file_name().unwrap().to_owned(), part.origin().clone()))
        .collect();
    origins.sort_by(|one, other| one.0.cmp(&other.0));
    let origins: Vec<_> = origins.into_iter().map(|(_, origin)| origin).collect();
    let saved: Arc<Path> = machine.path("home/.claude/skills/c").into();
    let work: Arc<Path> = machine.path("work").into();
    assert_eq!(
        origins,
        [
            Origin::Host,
            Origin::User,
            Origin::Saved(saved),
            Origin::Workspace(work)
        ],
        "clients can save into ~/.claude/skills, so what is there need not be the user's"
    );
    assert!(origins.iter().map(Origin::is_own).eq([true, true, false, false]));
    let saved_into = machine.directories().saved_into();
    assert!(saved_into.contains(&machine.path("home/.claude/skills")));
    assert!(!saved_into.contains(&machine.path("home/.copilot/hooks")));
}

#[tokio::test]
async fn texts_are_read_when_they_are_wanted_and_say_so_when_they_are_gone() {
    let machine = Machine::new();
    machine.skill("work/.claude/skills", "x");
    machine.write(
        "work/.github/agents/a b.agent.md",
        "---\ndescription: A.\n---\nYou are A.\n",
    );
    let set = set(&machine.look());
    let skill = &set.skills[0];
    assert_eq!(
        skill.directory.as_deref(),
        Some(&*machine.path("work/.claude/skills/x"))
    );
    let read = |about| set.texts.read(about);
    assert_eq!(read(&skill.about).await.unwrap(), "Body of work/.claude/skills.\n");
    assert_eq!(read(&set.agents[0].about).await.unwrap(), "You are A.\n");
    std::fs::remove_dir_all(machine.path("work/.claude/skills/x")).unwrap();
    let told = read(&skill.about).await.unwrap_err();
    assert!(told.contains("x/SKILL.md does not exist"), "{told}");
}

#[test]
fn d50_a_home_that_is_a_workspace_is_there_once_and_is_a_workspace() {
    let machine = Machine::new();
    machine
        .skill("home/.claude/skills", "x")
        .skill("home/.copilot/skills", "y");
    let discovered = machine.directories().look(&[machine.path("home")]);
    let set = set(&discovered);
    assert_eq!(skills(&set).len(), 2);
    let origins: Vec<_> = discovered
        .containers
        .iter()
        .filter(|part| !part.entry().children().is_empty())
        .map(|part| part.origin().is_own())
        .collect();
    assert_eq!(
        origins,
        [false, true],
        "what a workspace has is not trusted because it is the home"
    );
}

/// Names are for display: one that looks like the home does not make a workspace the user's.
#[test]
fn cus28_a_workspace_with_the_homes_prefix_is_not_in_the_home() {
    let machine = Machine::new();
    let hooks = r#"{ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "true" }] }] } }"#;
    machine
        .write("~evil/.claude/settings.json", hooks)
        .write("~evil/AGENTS.md", "Be evil.\n")
        .write("~/.claude/settings.json", hooks)
        .write("home/.claude/settings.json", hooks)
        .write("home/.copilot/hooks/own.json", hooks);
    let workspaces = ["~evil", "~", "home"].map(|name| machine.path(name));
    let discovered = machine.directories().look(&workspaces);
    let with_children = discovered
        .containers
        .iter()
        .filter(|part| !part.entry().children().is_empty());
    let mut origins: Vec<_> = with_children.map(|part| (part.root(), part.origin().clone())).collect();
    origins.sort_by(|one, other| one.0.cmp(&other.0));
    let workspace = |name: &str| (machine.path(name), Origin::Workspace(machine.path(name).into()));
    let expected = [
        workspace("home"),
        (machine.path("home/.copilot/hooks"), Origin::User),
        workspace("~"),
        workspace("~evil"),
        workspace("~evil"),
    ];
    assert_eq!(origins, expected);
}

/// A link to AGENTS.md among rules that apply on request must not be what counts.
#[cfg(unix)]
#[test]
fn b3_of_rules_that_are_one_file_the_one_that_applies_the_most_counts() {
    let machine = Machine::new();
    let link = |name: &str, target: &str| {
        let path = machine.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    };
    machine
        .write("work/AGENTS.md", "Be kind.\n")
        .write("work/docs/rust.md", "---\nglobs: \"**/*.rs\"\n---\nBe brief.\n");
    link("work/.cursor/rules/agents.mdc", "../../AGENTS.md");
    link("work/.github/instructions/rust.instructions.md", "../../docs/rust.md");
    link("work/.cursor/rules/rust.mdc", "../../docs/rust.md");
    let discovered = machine.look();
    let set = set(&discovered);
    let used: Vec<_> = set
        .rules
        .iter()
        .filter(|rule| rule.about.original.is_none())
        .map(|rule| (rule.about.uri.rsplit_once("work/").unwrap().1, rule.always))
        .collect();
    assert_eq!(
        used,
        [
            (".github/instructions/rust.instructions.md", false),
            ("AGENTS.md", true)
        ]
    );
    let agents = set.rules.iter().find(|rule| rule.always).unwrap();
    let linked = set.rules.iter().find(|rule| rule.about.uri.ends_with("agents.mdc"));
    let linked = &linked.unwrap().about;
    assert_eq!(set.shadows[&linked.id], std::slice::from_ref(&agents.about.id));
    assert_eq!(linked.original.as_ref().unwrap().id, agents.about.id);
}

#[test]
fn cus26_a_rule_that_always_applies_keeps_to_its_patterns() {
    let machine = Machine::new();
    machine.write("plugins/p/.plugin/plugin.json", r#"{ "name": "p" }"#);
    for (name, globs) in [
        ("everywhere", ""),
        ("rust", "globs: src/**/*.rs\n"),
        ("all", "globs: **/*\n"),
    ] {
        let text = format!("---\ndescription: R.\nalwaysApply: true\n{globs}---\nR.\n");
        machine.write(&format!("plugins/p/rules/{name}.mdc"), &text);
    }
    let set = set(&machine.directories().look(&[]));
    let rules: Vec<(&str, bool)> = set
        .rules
        .iter()
        .map(|rule| (rule.about.name.as_str(), rule.always))
        .collect();
    assert_eq!(rules, [("all", true), ("everywhere", true), ("rust", false)]);
    let rust = set.rules.iter().find(|rule| rule.about.name == "rust").unwrap();
    assert_eq!(
        rust.globs,
        ["src/**/*.rs"],
        "it applies to these files, as one without alwaysApply does"
    );
}

#[test]
fn the_same_directory_under_two_names_is_one_workspace() {
    let machine = Machine::new();
    machine.skill("work/.claude/skills", "x");
    std::os::unix::fs::symlink(machine.path("work"), machine.path("link")).unwrap();
    let discovered = machine
        .directories()
        .look(&[machine.path("work"), machine.path("link")]);
    assert_eq!(skills(&set(&discovered)).len(), 1);
}

#[test]
fn cus25_cus26_entries_have_every_field_and_omit_empty_ones() {
    let machine = Machine::new();
    machine
        .write(
            "plugins/p/.plugin/plugin.json",
            r#"{ "name": "p", "displayName": "The P", "version": "1.0.0", "description": "P.", "logo": "./p.svg" }"#,
        )
        .write("plugins/p/p.svg", "<svg/>")
        .write(
            "plugins/p/agents/one.md",
            "---\nname: one\ndescription: One.\nmodel: large\ntools: Read, Bash\ndisable-model-invocation: true\n---\nOne.\n",
        )
        .write("plugins/p/agents/two.md", "---\nname: two\ndescription: Two.\nmodel: inherit\n---\nTwo.\n")
        .write("plugins/p/rules/r.mdc", "---\ndescription: R.\nalwaysApply: false\nglobs: **/*.rs\n---\nR.\n");
    let discovered = machine.directories().look(&[]);
    let plugin = serde_json::to_value(&*discovered.set().entries[0]).unwrap();
    assert_eq!(plugin["name"], "The P");
    assert_eq!(
        plugin["_meta"],
        serde_json::json!({ "innkeeper.name": "p", "innkeeper.description": "P." })
    );
    assert_eq!(plugin["version"], "1.0.0");
    assert_eq!(plugin["icons"][0]["contentType"], "image/svg+xml");
    assert_eq!(plugin["load"], serde_json::json!({ "kind": "loaded" }));
    let fields = |child: &serde_json::Value| {
        let mut child = child.as_object().unwrap().clone();
        child.retain(|name, _| !matches!(name.as_str(), "id" | "uri"));
        serde_json::Value::Object(child)
    };
    let children: Vec<_> = plugin["children"].as_array().unwrap().iter().map(fields).collect();
    assert_eq!(
        children,
        [
            serde_json::json!({
                "type": "agent", "name": "one", "description": "One.", "model": "large", "tools": ["Read", "Bash"],
                "disableModelInvocation": true,
            }),
            serde_json::json!({ "type": "agent", "name": "two", "description": "Two." }),
            serde_json::json!({
                "type": "rule", "name": "r", "description": "R.", "alwaysApply": false, "globs": ["**/*.rs"],
            }),
        ]
    );
}

#[test]
fn cus26_a_rule_of_no_workspace_applies_to_all_workspaces() {
    let machine = Machine::new();
    let rule = "---\npaths:\n  - \"**/*.rs\"\n---\nR.\n";
    machine
        .write("work/.claude/rules/of-work.md", rule)
        .write("home/.claude/rules/of-home.md", rule)
        .write("plugins/p/.plugin/plugin.json", r#"{ "name": "p" }"#)
        .write("plugins/p/rules/of-plugin.mdc", "---\nglobs: **/*.rs\n---\nR.\n");
    let set = set(&machine
        .directories()
        .look(&[machine.path("work"), machine.path("plugins")]));
    let about = |name: &str| {
        let rule = set.rules.iter().find(|rule| rule.about.name == name).unwrap();
        (rule.base.clone(), rule.about.plugin_root.clone())
    };
    assert_eq!(about("of-work"), (Some(machine.path("work")), None));
    assert_eq!(about("of-home"), (None, None));
    assert_eq!(about("of-plugin"), (None, Some(machine.path("plugins/p"))));
}
