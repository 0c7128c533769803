//! Edge cases of the loader by number, as `docs/dev/customization-cases.md` lists them, where no
//! fixture and no other test shows them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use innkeeper_plugins::{
    Change, Code, Component, Container, LoadState, Plugin, PluginSource, Sources, Tree, changes, load_plugin, scan,
};

#[cfg(unix)]
use crate::support::is_kept_out;
use crate::support::write;

const SKILL: &str = "---\ndescription: d\n---\n";

fn ids(tree: &Tree) -> Vec<&str> {
    let containers = tree.entries.iter().map(|entry| entry.id());
    let children = tree.entries.iter().flat_map(|entry| entry.children());
    containers.chain(children.map(|child| child.id.as_str())).collect()
}

fn are_unique(ids: &[&str]) -> bool {
    ids.iter().collect::<BTreeSet<_>>().len() == ids.len()
}

fn plugins(tree: &Tree) -> Vec<&Plugin> {
    let plugins = tree.entries.iter().filter_map(|entry| match &**entry {
        Container::Plugin(plugin) => Some(plugin),
        Container::Directory(_) | Container::McpServer(_) => None,
    });
    plugins.collect()
}

/// Takes all permissions away.
#[cfg(unix)]
fn lock(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
}

#[cfg(unix)]
fn unlock(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn d10_a_manifest_that_may_not_be_read_is_an_error_and_says_so() {
    if !is_kept_out("numbered::d10_a_manifest_that_may_not_be_read_is_an_error_and_says_so") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".plugin/plugin.json", r#"{"name": "p"}"#);
    write(temp.path(), "skills/a/SKILL.md", SKILL);
    lock(&temp.path().join(".plugin/plugin.json"));
    let plugin = load_plugin(&PluginSource::new(temp.path()));
    let LoadState::Error { message } = &plugin.load else {
        panic!("{:?}", plugin.load)
    };
    assert!(message.contains("permissions"), "{message}");
    assert_eq!(plugin.children.as_deref(), Some(&[][..]));
}

/// The URI of a child leads back to its file, for every URI that a client gives its plugin.
#[test]
fn d12_uris_of_published_plugins_lead_to_their_files() {
    let temp = tempfile::tempdir().unwrap();
    let path = "skills/a b#c?d%é/SKILL.md";
    write(temp.path(), path, SKILL);
    for uri in [
        "virtual://c/p",
        "virtual://c/p/",
        "virtual://c/a%20b/%C3%A9",
        "virtual://c/p?v=1",
        "virtual://c/p/?v=1#top",
    ] {
        let source = PluginSource::new(temp.path()).published_by("c", uri);
        let plugin = load_plugin(&source);
        assert_eq!((plugin.uri.as_str(), plugin.id.clone()), (uri, source.id()));
        let child = &plugin.children.as_ref().unwrap()[0];
        let child = url::Url::parse(&child.uri).unwrap();
        let root = url::Url::parse(uri).unwrap();
        assert_eq!(child.query(), root.query(), "{uri}");
        assert_eq!(child.fragment(), None);
        let below = child.path().strip_prefix(root.path().trim_end_matches('/')).unwrap();
        let file_uri = format!("file:///{}", below.trim_start_matches('/'));
        let decoded = url::Url::parse(&file_uri).unwrap().to_file_path().unwrap();
        assert!(decoded.ends_with(path), "{child} is {decoded:?}");
    }
}

#[test]
fn d38_plugins_of_one_name_are_all_listed_with_ids_of_their_own() {
    let temp = tempfile::tempdir().unwrap();
    for root in ["one", "two", "copy"] {
        write(&temp.path().join(root), ".plugin/plugin.json", r#"{"name": "same"}"#);
        write(&temp.path().join(root), "skills/a/SKILL.md", SKILL);
    }
    let one = PluginSource::new(temp.path().join("one"));
    let uri = one.announce().uri;
    let sources = Sources {
        plugins: vec![
            one,
            PluginSource::new(temp.path().join("two")),
            // A client may even publish the directory that the host has.
            PluginSource::new(temp.path().join("copy")).published_by("client", uri),
            PluginSource::new(temp.path().join("copy")).published_by("other", "virtual://c/p"),
        ],
        ..Sources::default()
    };
    let tree = scan(&sources);
    let names: Vec<&str> = plugins(&tree).iter().map(|plugin| plugin.name.as_str()).collect();
    assert_eq!(names, ["same"; 4]);
    assert!(are_unique(&ids(&tree)));
}

#[test]
fn d39_servers_of_one_name_in_different_places_are_different_servers() {
    let temp = tempfile::tempdir().unwrap();
    let config = r#"{"mcpServers": {"db": {"command": "c"}}}"#;
    for root in ["one", "two", "work"] {
        write(&temp.path().join(root), ".mcp.json", config);
    }
    write(&temp.path().join("work"), ".cursor/mcp.json", config);
    let tree = scan(&Sources {
        plugins: ["one", "two"]
            .map(|name| PluginSource::new(temp.path().join(name)))
            .to_vec(),
        workspaces: vec![temp.path().join("work")],
        ..Sources::default()
    });
    for plugin in plugins(&tree) {
        assert_eq!(plugin.children.as_ref().unwrap()[0].name, "db");
    }
    let is_server = |entry: &&Arc<Container>| matches!(&***entry, Container::McpServer(_));
    assert_eq!(
        tree.entries.iter().filter(is_server).count(),
        1,
        "of two files of a workspace the first counts"
    );
    let is_told = |entry: &Arc<Container>| match &**entry {
        Container::Directory(directory) => directory.notes.iter().any(|note| note.code == Code::DuplicateName),
        _ => false,
    };
    assert!(tree.entries.iter().any(is_told), "{:#?}", tree.entries);
    assert!(are_unique(&ids(&tree)));
}

/// Agent Plugins expand some values when a server is started. Loading leaves all of them alone.
#[test]
fn d46_nothing_is_expanded_when_it_is_loaded() {
    let temp = tempfile::tempdir().unwrap();
    let schema = "https://agent-plugins.org/schemas/1.0.0";
    write(
        temp.path(),
        "plugin.json",
        format!(r#"{{"$schema": "{schema}/plugin.schema.json", "name": "p"}}"#),
    );
    write(
        temp.path(),
        "mcp.json",
        format!(
            r#"{{"$schema": "{schema}/mcp.schema.json", "mcpServers": {{"s": {{"type": "stdio", "command": "run",
                "args": ["${{PLUGIN_ROOT}}/x", "${{X}}", "${{PLUGIN_DATA}}"]}}}}}}"#
        ),
    );
    let plugin = load_plugin(&PluginSource::new(temp.path()));
    assert_eq!(plugin.load, LoadState::Loaded, "{:?}", plugin.notes);
    let Component::McpServer(server) = &plugin.children.as_ref().unwrap()[0].component else {
        panic!()
    };
    let innkeeper_plugins::Transport::Stdio { args, .. } = &server.transport else {
        panic!()
    };
    assert_eq!(args, &["${PLUGIN_ROOT}/x", "${X}", "${PLUGIN_DATA}"]);
    assert_eq!(server.variables, ["PLUGIN_DATA", "PLUGIN_ROOT", "X"]);
}

/// The repository of the protocol itself keeps its skills once and links to them three times.
#[cfg(unix)]
#[test]
fn d49_directories_that_are_links_to_one_are_listed_with_ids_of_their_own() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "skills/a/SKILL.md", SKILL);
    write(temp.path(), ".agents/skills/b/SKILL.md", SKILL);
    for tool in [".github", ".claude"] {
        crate::support::link(temp.path(), &format!("{tool}/skills"), "../skills");
    }
    crate::support::link(temp.path(), ".codex/skills", "../.agents/skills");
    let tree = scan(&Sources {
        workspaces: vec![temp.path().to_owned()],
        ..Sources::default()
    });
    let found: Vec<String> = tree
        .entries
        .iter()
        .filter_map(|entry| match &**entry {
            Container::Directory(directory) if !entry.children().is_empty() => Some(directory),
            _ => None,
        })
        .map(|directory| format!("{} {}", directory.name, directory.children.as_ref().unwrap()[0].name))
        .collect();
    assert_eq!(
        found,
        [
            ".github/skills a",
            ".agents/skills b",
            ".claude/skills a",
            ".codex/skills b"
        ]
    );
    assert!(are_unique(&ids(&tree)));
}

#[cfg(unix)]
#[test]
fn d49_a_directory_that_may_not_be_listed_degrades_only_that() {
    if !is_kept_out("numbered::d49_a_directory_that_may_not_be_listed_degrades_only_that") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".github/skills/a/SKILL.md", SKILL);
    write(temp.path(), ".claude/skills/b/SKILL.md", SKILL);
    let locked = temp.path().join(".github/skills");
    let plugins = temp.path().join(".agents/plugins");
    fs::create_dir_all(&plugins).unwrap();
    lock(&locked);
    lock(&plugins);
    let tree = scan(&Sources {
        workspaces: vec![temp.path().to_owned()],
        ..Sources::default()
    });
    unlock(&locked);
    unlock(&plugins);
    let load = |name: &str| {
        let mut directories = tree.entries.iter().filter_map(|entry| match &**entry {
            Container::Directory(directory) if directory.name == name => {
                Some((&directory.load, entry.children().len()))
            }
            _ => None,
        });
        directories.next().unwrap()
    };
    assert_eq!(load(".claude/skills"), (&LoadState::Loaded, 1));
    assert!(matches!(load(".github/skills"), (LoadState::Degraded { .. }, 0)));
    let trouble = &self::plugins(&tree)[0].load;
    assert!(
        matches!(trouble, LoadState::Error { message } if message.contains("permissions")),
        "plugins that may be there are not kept quiet: {trouble:?}"
    );
}

/// A directory without write permission for anyone is read-only, also if the host runs as root.
#[cfg(unix)]
#[test]
fn d52_a_read_only_workspace_is_not_writable() {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    write(&work, ".github/skills/a/SKILL.md", SKILL);
    for directory in [".github/skills/a", ".github/skills", ".github", ""] {
        fs::set_permissions(work.join(directory), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let tree = scan(&Sources {
        workspaces: vec![work.clone()],
        ..Sources::default()
    });
    for directory in [".github/skills", ".github", ""] {
        unlock(&work.join(directory));
    }
    let writable: BTreeSet<bool> = tree
        .entries
        .iter()
        .filter_map(|entry| match &**entry {
            Container::Directory(directory) => Some(directory.writable),
            _ => None,
        })
        .collect();
    assert_eq!(writable, BTreeSet::from([false]));
}

#[test]
fn d66_two_containers_changed_at_once_are_one_ordered_change_each() {
    let temp = tempfile::tempdir().unwrap();
    let sources = Sources {
        plugins: ["b", "a", "c"]
            .map(|name| PluginSource::new(temp.path().join(name)))
            .to_vec(),
        workspaces: vec![temp.path().to_owned()],
        ..Sources::default()
    };
    for name in ["a", "b", "c"] {
        write(&temp.path().join(name), "skills/s/SKILL.md", SKILL);
    }
    let before = scan(&sources);
    // In another order than the one they are listed in, and one of them twice.
    for path in [
        ".claude/skills/w/SKILL.md",
        "c/skills/x/SKILL.md",
        "b/skills/x/SKILL.md",
        "c/agents/y.md",
    ] {
        write(temp.path(), path, SKILL);
    }
    let after = scan(&sources);
    let changes = changes(&before, &after);
    let places: Vec<usize> = changes
        .iter()
        .map(|change| match change {
            Change::Updated {
                at, is_visible: true, ..
            } => *at,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(places.len(), 3);
    assert_eq!(&places[..2], [0, 2]);
    assert!(places.is_sorted());
}
