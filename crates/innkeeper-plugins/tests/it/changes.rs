//! Differences between two trees, and none between equal ones.

use std::fs;
use std::path::Path;

use innkeeper_plugins::{Change, ChildChange, Container, LoadState, PluginSource, Sources, Tree, changes, scan};

use crate::support::write;

const SKILL: &str = "---\ndescription: d\n---\n";

fn sources(root: &Path) -> Sources {
    Sources {
        plugins: ["one", "two"].map(|name| PluginSource::new(root.join(name))).to_vec(),
        workspaces: vec![root.join("workspace")],
        ..Sources::default()
    }
}

fn start() -> (tempfile::TempDir, Tree) {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "one/skills/a/SKILL.md", SKILL);
    write(temp.path(), "one/skills/b/SKILL.md", SKILL);
    write(temp.path(), "two/.mcp.json", r#"{"s": {"command": "c"}}"#);
    fs::create_dir(temp.path().join("workspace")).unwrap();
    let tree = scan(&sources(temp.path()));
    (temp, tree)
}

#[test]
fn d55_d56_nothing_changed_is_no_change() {
    let (temp, before) = start();
    write(temp.path(), "one/skills/a/SKILL.md", SKILL);
    write(temp.path(), "one/skills/.SKILL.md.swp", "x");
    write(temp.path(), "one/skills/a/4913", "x");
    write(temp.path(), "one/skills/a/SKILL.md~", "x");
    write(temp.path(), "workspace/.github/.DS_Store", "x");
    assert_eq!(changes(&before, &scan(&sources(temp.path()))), []);
}

#[test]
fn a_changed_child_updates_its_container_and_only_that() {
    let (temp, before) = start();
    write(temp.path(), "one/skills/b/SKILL.md", "---\ndescription: new\n---\n");
    write(temp.path(), "one/skills/c/SKILL.md", SKILL);
    fs::remove_dir_all(temp.path().join("one/skills/a")).unwrap();
    let after = scan(&sources(temp.path()));
    let changes = changes(&before, &after);
    let [
        Change::Updated {
            at: 0,
            children,
            is_visible: true,
            ..
        },
    ] = changes.as_slice()
    else {
        panic!("{changes:?}")
    };
    let [
        ChildChange::Removed { .. },
        ChildChange::Updated {
            child,
            is_visible: true,
        },
        ChildChange::Added { child: new },
    ] = children.as_slice()
    else {
        panic!("{children:?}")
    };
    assert_eq!((child.name.as_str(), new.name.as_str()), ("b", "c"));
}

#[test]
fn a_changed_command_matters_only_to_its_callers() {
    let (temp, before) = start();
    write(temp.path(), "two/.mcp.json", r#"{"s": {"command": "d"}}"#);
    let after = scan(&sources(temp.path()));
    let changes = changes(&before, &after);
    assert!(
        matches!(changes.as_slice(), [Change::Updated { is_visible: false, .. }]),
        "{changes:?}"
    );
}

#[test]
fn d65_a_repaired_file_yields_the_same_tree() {
    let (temp, before) = start();
    write(temp.path(), "one/.plugin/plugin.json", "{");
    let broken = scan(&sources(temp.path()));
    let Container::Plugin(plugin) = &*broken.entries[0] else {
        panic!()
    };
    assert!(matches!(plugin.load, LoadState::Error { .. }));
    assert!(matches!(
        changes(&before, &broken).as_slice(),
        [Change::Updated { is_visible: true, .. }]
    ));
    fs::remove_dir_all(temp.path().join("one/.plugin")).unwrap();
    assert_eq!(changes(&before, &scan(&sources(temp.path()))), []);
}

#[test]
fn entries_come_go_and_change_places() {
    let (temp, before) = start();
    let mut other = sources(temp.path());
    other.plugins.reverse();
    let after = scan(&other);
    assert_eq!(changes(&before, &after), [Change::Reordered]);
    other.plugins.truncate(1);
    let after = scan(&other);
    let one = before.entries[0].id();
    assert_eq!(changes(&before, &after), [Change::Removed { id: one }]);
    assert!(matches!(
        changes(&after, &before).as_slice(),
        [Change::Added { at: 0, .. }]
    ));
    assert_eq!(changes(&before, &Tree::default()).len(), before.entries.len());
}
