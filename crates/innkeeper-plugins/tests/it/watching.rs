//! The watcher on real files. Every test waits for a tree, none for a time.

use std::fs;

use innkeeper_plugins::{Container, LoadState, PluginSource, Sources};

use crate::support::write;
use crate::watched::{Watched, names, workspace};

const SKILL: &str = "---\ndescription: d\n---\n";

#[test]
fn d48_d59_a_directory_that_did_not_exist_is_noticed_with_its_parents() {
    let temp = tempfile::tempdir().unwrap();
    let (watched, first) = Watched::start(workspace(temp.path()));
    assert!(names(&first).is_empty());
    write(temp.path(), ".github/skills/x/SKILL.md", SKILL);
    watched.until(&["x"]);
    fs::remove_dir_all(temp.path().join(".github")).unwrap();
    watched.until(&[]);
    write(temp.path(), ".github/skills/y/SKILL.md", SKILL);
    watched.until(&["y"]);
}

#[test]
fn d54_saves_of_all_editors_are_noticed() {
    let temp = tempfile::tempdir().unwrap();
    write(
        temp.path(),
        ".claude/agents/a.md",
        "---\nname: one\ndescription: d\n---\n",
    );
    let (watched, first) = Watched::start(workspace(temp.path()));
    assert_eq!(names(&first), ["one"]);
    let file = temp.path().join(".claude/agents/a.md");
    // In place.
    fs::write(&file, "---\nname: two\ndescription: d\n---\n").unwrap();
    watched.until(&["two"]);
    // A new file over the old one.
    write(
        temp.path(),
        ".claude/agents/.a.tmp",
        "---\nname: three\ndescription: d\n---\n",
    );
    fs::rename(temp.path().join(".claude/agents/.a.tmp"), &file).unwrap();
    watched.until(&["three"]);
    // The old one out of the way first.
    fs::rename(&file, temp.path().join(".claude/agents/a.md~")).unwrap();
    fs::write(&file, "---\nname: four\ndescription: d\n---\n").unwrap();
    watched.until(&["four"]);
}

#[test]
fn d59_the_root_of_a_plugin_can_be_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("p");
    write(&root, "skills/a/SKILL.md", SKILL);
    write(temp.path(), "next/skills/b/SKILL.md", SKILL);
    let sources = Sources {
        plugins: vec![PluginSource::new(&root)],
        ..Sources::default()
    };
    let (watched, first) = Watched::start(sources);
    assert_eq!(names(&first), ["a"]);
    fs::rename(&root, temp.path().join("old")).unwrap();
    fs::rename(temp.path().join("next"), &root).unwrap();
    watched.until(&["b"]);
    write(&root, "skills/c/SKILL.md", SKILL);
    watched.until(&["b", "c"]);
    write(&root, ".plugin/plugin.json", "{");
    let broken = watched.until(&[]);
    assert!(matches!(&*broken.entries[0], Container::Plugin(plugin) if matches!(plugin.load, LoadState::Error { .. })));
    fs::remove_dir_all(root.join(".plugin")).unwrap();
    watched.until(&["b", "c"]);
}

#[cfg(unix)]
#[test]
fn d61_edits_behind_a_link_and_a_link_to_elsewhere_are_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let home = temp.path().join("home");
    write(temp.path(), "store/a/SKILL.md", "---\nname: one\ndescription: d\n---\n");
    write(
        temp.path(),
        "store/b/SKILL.md",
        "---\nname: other\ndescription: d\n---\n",
    );
    write(temp.path(), "store/agent.md", "---\nname: agent\ndescription: d\n---\n");
    crate::support::link(&home, ".claude/skills/x", temp.path().join("store/a"));
    crate::support::link(&home, ".claude/agents/y.md", temp.path().join("store/agent.md"));
    let sources = Sources {
        home: Some(home.clone()),
        ..Sources::default()
    };
    let (watched, first) = Watched::start(sources);
    assert_eq!(names(&first), ["agent", "one"]);
    write(temp.path(), "store/a/SKILL.md", "---\nname: two\ndescription: d\n---\n");
    watched.until(&["agent", "two"]);
    write(
        temp.path(),
        "store/agent.md",
        "---\nname: agent2\ndescription: d\n---\n",
    );
    watched.until(&["agent2", "two"]);
    fs::remove_file(home.join(".claude/skills/x")).unwrap();
    crate::support::link(&home, ".claude/skills/x", temp.path().join("store/b"));
    watched.until(&["agent2", "other"]);
}

#[test]
fn d55_d56_equal_trees_are_not_reported() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".github/skills/a/SKILL.md", SKILL);
    let (watched, _) = Watched::start(workspace(temp.path()));
    for path in [
        ".github/skills/a/.SKILL.md.swp",
        ".github/skills/4913",
        ".github/.DS_Store",
        "main.rs",
    ] {
        write(temp.path(), path, "x");
    }
    // The same contents once more, in one step: a scan in the middle of a write may see half a file.
    write(temp.path(), ".github/skills/a/new", SKILL);
    let folder = temp.path().join(".github/skills/a");
    fs::rename(folder.join("new"), folder.join("SKILL.md")).unwrap();
    // The next tree that is told of is that of the next real change.
    write(temp.path(), ".github/skills/b/SKILL.md", SKILL);
    assert_eq!(names(&watched.next()), ["a", "b"]);
}

#[test]
fn d58_a_burst_of_three_thousand_files_ends_in_the_right_state() {
    let temp = tempfile::tempdir().unwrap();
    let (watched, _) = Watched::start(workspace(temp.path()));
    let mut expected: Vec<String> = (0..3_000).map(|number| format!("s{number:04}")).collect();
    for name in &expected {
        write(temp.path(), &format!(".claude/skills/{name}/SKILL.md"), SKILL);
    }
    expected.sort();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    watched.until(&expected);
}

#[test]
fn a_plugin_that_is_dropped_into_a_folder_is_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let (work, collection) = (temp.path().join("work"), temp.path().join("collection"));
    fs::create_dir_all(&work).unwrap();
    fs::create_dir_all(&collection).unwrap();
    let (watched, _) = Watched::start(Sources {
        collections: vec![collection.clone()],
        workspaces: vec![work.clone()],
        ..Sources::default()
    });
    write(&work, ".agents/plugins/p/skills/a/SKILL.md", SKILL);
    watched.until(&["a"]);
    // Made elsewhere and moved in.
    write(temp.path(), "made/skills/b/SKILL.md", SKILL);
    fs::rename(temp.path().join("made"), collection.join("q")).unwrap();
    watched.until(&["b", "a"]);
}
