//! Edge cases of the watcher by number, as `docs/dev/customization-cases.md` lists them. Every test
//! waits for a tree, none for a time.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use innkeeper_plugins::{Container, LoadState, PluginSource, Sources, Tree, TreeWatcher, scan};

use crate::support::write;
use crate::watched::{Watched, names, workspace};

const SKILL: &str = "---\ndescription: d\n---\n";

fn ids(tree: &Tree) -> Vec<String> {
    let children = tree.entries.iter().flat_map(|entry| entry.children());
    children.map(|child| child.id.clone()).collect()
}

fn plugin(path: &Path) -> Sources {
    Sources {
        plugins: vec![PluginSource::new(path)],
        ..Sources::default()
    }
}

/// A file that is written piece by piece is read complete.
#[test]
fn d54_a_file_that_comes_in_pieces_or_from_elsewhere_is_read_whole() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "work/.claude/agents/a.md", "---\nname: one\n---\n");
    let (watched, _) = Watched::start(workspace(&temp.path().join("work")));
    let path = temp.path().join("work/.claude/agents/a.md");
    // Truncated, then in pieces.
    let mut file = File::create(&path).unwrap();
    for piece in ["---\n", "na", "me: tw", "o\n", "description: d\n", "--", "-\n"] {
        file.write_all(piece.as_bytes()).unwrap();
        file.sync_data().unwrap();
    }
    drop(file);
    let tree = watched.until(&["two"]);
    let mut last = tree;
    while last
        .entries
        .iter()
        .flat_map(|entry| entry.children())
        .all(|child| child.description.is_none())
    {
        last = watched.next();
    }
    // Written outside and moved in.
    write(temp.path(), "elsewhere.md", "---\nname: three\ndescription: d\n---\n");
    fs::rename(temp.path().join("elsewhere.md"), &path).unwrap();
    watched.until(&["three"]);
    // As vim does it: a file to see whether it can write, the old one aside, the new one, the old one gone.
    let folder = path.parent().unwrap();
    fs::write(folder.join("4913"), "").unwrap();
    fs::remove_file(folder.join("4913")).unwrap();
    fs::rename(&path, folder.join("a.md~")).unwrap();
    fs::write(&path, "---\nname: four\ndescription: d\n---\n").unwrap();
    fs::remove_file(folder.join("a.md~")).unwrap();
    watched.until(&["four"]);
}

/// A child is its file: moved, it is another one; what did not move is what it was.
#[test]
fn d57_directories_that_are_moved_in_out_and_about_change_ids() {
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    write(&work, ".claude/skills/stays/SKILL.md", SKILL);
    write(temp.path(), "outside/a/SKILL.md", "---\nname: n\ndescription: d\n---\n");
    let (watched, first) = Watched::start(workspace(&work));
    let skills = work.join(".claude/skills");
    fs::rename(temp.path().join("outside/a"), skills.join("a")).unwrap();
    let moved_in = watched.until(&["n", "stays"]);
    fs::rename(skills.join("a"), skills.join("b")).unwrap();
    // One tree, in which the old one is gone and the new one is there.
    let renamed = watched.next();
    assert_eq!(names(&renamed), ["n", "stays"]);
    assert_ne!(ids(&renamed)[0], ids(&moved_in)[0]);
    assert_eq!(ids(&renamed)[1], ids(&first)[0]);
    fs::rename(skills.join("b"), temp.path().join("outside/b")).unwrap();
    let moved_out = watched.until(&["stays"]);
    assert_eq!(moved_out, first);
}

#[test]
fn d59_a_workspace_can_be_deleted_and_come_back_as_another() {
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    write(&work, ".github/skills/a/SKILL.md", SKILL);
    let (watched, _) = Watched::start(workspace(&work));
    fs::remove_dir_all(&work).unwrap();
    let mut gone = watched.until(&[]);
    let is_error = |tree: &Tree| {
        let mut entries = tree.entries.iter();
        entries.all(|entry| matches!(&**entry, Container::Directory(d) if matches!(d.load, LoadState::Error { .. })))
    };
    while !is_error(&gone) {
        gone = watched.next();
    }
    write(&work, ".claude/skills/b/SKILL.md", SKILL);
    watched.until(&["b"]);
    // Renamed away, and another one put in its place; then something happens in the new one.
    write(temp.path(), "next/.claude/skills/c/SKILL.md", SKILL);
    fs::rename(&work, temp.path().join("old")).unwrap();
    fs::rename(temp.path().join("next"), &work).unwrap();
    watched.until(&["c"]);
    write(&work, ".claude/skills/d/SKILL.md", SKILL);
    watched.until(&["c", "d"]);
    // Changes in the old one are ignored.
    write(&temp.path().join("old"), ".claude/skills/x/SKILL.md", SKILL);
    write(&work, ".claude/skills/e/SKILL.md", SKILL);
    watched.until(&["c", "d", "e"]);
}

/// A directory that comes back is the same one, or looks like it; the watches that it had are gone all the same.
#[test]
fn d59_directories_that_go_and_come_back_at_once_are_watched_as_before() {
    type Steps = fn(&Path);
    let sequences: [(&str, Steps); 4] = [
        ("renamed away and back", |claude| {
            fs::rename(claude.join("skills"), claude.join("s")).unwrap();
            fs::rename(claude.join("s"), claude.join("skills")).unwrap();
        }),
        ("deleted and made again", |claude| {
            fs::remove_dir_all(claude.join("skills/a")).unwrap();
            write(claude, "skills/a/SKILL.md", SKILL);
        }),
        ("moved into another parent of the same name", |claude| {
            fs::rename(claude.join("skills"), claude.join("bak")).unwrap();
            fs::create_dir(claude.join("skills")).unwrap();
            fs::rename(claude.join("bak/a"), claude.join("skills/a")).unwrap();
        }),
        ("the parent renamed away and back", |claude| {
            let aside = claude.with_file_name("aside");
            fs::rename(claude, &aside).unwrap();
            fs::rename(&aside, claude).unwrap();
        }),
    ];
    for (what, steps) in sequences {
        let temp = tempfile::tempdir().unwrap();
        let claude = temp.path().join(".claude");
        write(&claude, "skills/a/SKILL.md", SKILL);
        let (watched, _) = Watched::start(workspace(temp.path()));
        println!("{what}");
        steps(&claude);
        // When this is told, the steps were noticed.
        write(temp.path(), "AGENTS.md", "Be kind.\n");
        watched.until(&["a", "AGENTS"]);
        write(&claude, "skills/a/SKILL.md", "---\nname: edited\ndescription: d\n---\n");
        watched.until(&["edited", "AGENTS"]);
        write(&claude, "skills/b/SKILL.md", SKILL);
        watched.until(&["edited", "b", "AGENTS"]);
    }
}

#[test]
fn d59_a_directory_far_above_the_workspace_can_be_renamed() {
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("one/two/three/work");
    write(&work, ".claude/skills/a/SKILL.md", SKILL);
    let (watched, _) = Watched::start(workspace(&work));
    for above in ["one/two/three", "one/two", "one"] {
        let (above, aside) = (temp.path().join(above), temp.path().join("aside"));
        fs::rename(&above, &aside).unwrap();
        watched.until(&[]);
        fs::rename(&aside, &above).unwrap();
        watched.until(&["a"]);
    }
    write(&work, ".claude/skills/b/SKILL.md", SKILL);
    watched.until(&["a", "b"]);
}

/// Half of them go, as many come, and the rest is not what it was: a checkout of another branch.
#[test]
fn d60_a_checkout_of_four_hundred_skills_ends_in_the_right_state() {
    let temp = tempfile::tempdir().unwrap();
    let skill = |number: usize| format!(".claude/skills/s{number:03}");
    for number in 0..400 {
        write(temp.path(), &format!("{}/SKILL.md", skill(number)), SKILL);
    }
    let (watched, _) = Watched::start(workspace(temp.path()));
    for number in 0..600 {
        if number < 200 {
            fs::remove_dir_all(temp.path().join(skill(number))).unwrap();
        } else {
            let text = format!("---\ndescription: branch {number}\n---\n");
            write(temp.path(), &format!("{}/SKILL.md", skill(number)), text);
        }
    }
    let expected = scan(&workspace(temp.path()));
    let mut told = vec![watched.next()];
    while *told.last().unwrap() != expected {
        told.push(watched.next());
    }
    assert!(
        told.windows(2).all(|pair| pair[0] != pair[1]),
        "one tree is reported once"
    );
}

/// Links to one directory are one directory to the operating system, which knows it by one of its
/// names only, and forgets it when told to forget that one.
#[cfg(unix)]
#[test]
fn d61_a_directory_behind_several_symlinks_stays_watched_without_one() {
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    write(&work, "skills/a/SKILL.md", SKILL);
    for tool in [".github", ".claude", ".codex"] {
        crate::support::link(&work, &format!("{tool}/skills"), "../skills");
    }
    let (watched, first) = Watched::start(workspace(&work));
    assert_eq!(names(&first), ["a"; 3]);
    write(&work, "skills/a/SKILL.md", "---\nname: edited\ndescription: d\n---\n");
    watched.until(&["edited"; 3]);
    for (tool, left) in [(".claude", 2), (".codex", 1)] {
        fs::remove_file(work.join(tool).join("skills")).unwrap();
        watched.until(&vec!["edited"; left]);
    }
    write(&work, "skills/a/SKILL.md", "---\nname: again\ndescription: d\n---\n");
    watched.until(&["again"]);
    write(&work, "skills/b/SKILL.md", SKILL);
    watched.until(&["again", "b"]);
}

#[cfg(unix)]
#[test]
fn d61_a_plugin_that_is_a_link_can_lead_elsewhere_and_nowhere() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "v1/skills/one/SKILL.md", SKILL);
    crate::support::link(temp.path(), "hop", "v1");
    crate::support::link(temp.path(), "current", "hop");
    let (watched, first) = Watched::start(plugin(&temp.path().join("current")));
    assert_eq!(names(&first), ["one"]);
    // The link behind the link is exchanged, as installers do, for one that leads nowhere yet.
    crate::support::link(temp.path(), "next", "v2");
    fs::rename(temp.path().join("next"), temp.path().join("hop")).unwrap();
    watched.until(&[]);
    write(temp.path(), "v2/skills/two/SKILL.md", SKILL);
    watched.until(&["two"]);
    write(temp.path(), "v2/skills/three/SKILL.md", SKILL);
    watched.until(&["three", "two"]);
}

#[cfg(unix)]
#[test]
fn d63_an_unreadable_directory_comes_back_when_readable() {
    use std::os::unix::fs::PermissionsExt as _;
    if !crate::support::is_kept_out("watched_cases::d63_an_unreadable_directory_comes_back_when_readable") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".claude/skills/a/SKILL.md", SKILL);
    let (watched, first) = Watched::start(workspace(temp.path()));
    let skills = temp.path().join(".claude/skills");
    fs::set_permissions(&skills, fs::Permissions::from_mode(0o000)).unwrap();
    watched.until(&[]);
    fs::set_permissions(&skills, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(watched.until(&["a"]), first);
    write(temp.path(), ".claude/skills/b/SKILL.md", SKILL);
    watched.until(&["a", "b"]);
}

#[test]
fn d64_a_file_can_become_a_directory_and_a_directory_a_file() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".claude/agents/a.md", "---\nname: agent\n---\n");
    write(temp.path(), ".claude/skills/s/SKILL.md", SKILL);
    let (watched, _) = Watched::start(workspace(temp.path()));
    fs::remove_file(temp.path().join(".claude/agents/a.md")).unwrap();
    fs::create_dir(temp.path().join(".claude/agents/a.md")).unwrap();
    watched.until(&["s"]);
    fs::remove_dir_all(temp.path().join(".claude/skills")).unwrap();
    write(temp.path(), ".claude/skills", "no directory");
    watched.until(&[]);
    fs::remove_file(temp.path().join(".claude/skills")).unwrap();
    fs::remove_dir(temp.path().join(".claude/agents/a.md")).unwrap();
    write(temp.path(), ".claude/agents/a.md", "---\nname: agent\n---\n");
    write(temp.path(), ".claude/skills/s/SKILL.md", SKILL);
    watched.until(&["agent", "s"]);
}

/// Users' toggles refer to ids, so the ids have to come back with the manifest.
#[test]
fn d65_a_manifest_that_is_broken_and_repaired_leaves_everything_as_it_was() {
    let temp = tempfile::tempdir().unwrap();
    let manifest = r#"{"name": "p", "skills": "./more"}"#;
    write(temp.path(), ".plugin/plugin.json", manifest);
    write(temp.path(), "skills/a/SKILL.md", SKILL);
    write(temp.path(), "more/b/SKILL.md", SKILL);
    let (watched, first) = Watched::start(plugin(temp.path()));
    assert_eq!(names(&first), ["b", "a"]);
    write(temp.path(), ".plugin/plugin.json", "{\"name\": ");
    let broken = watched.until(&[]);
    assert_eq!(broken.entries[0].id(), first.entries[0].id());
    write(temp.path(), ".plugin/plugin.json", manifest);
    assert_eq!(watched.until(&["b", "a"]), first);
}

/// The watches of this process in a directory, as the operating system lists them.
#[cfg(target_os = "linux")]
fn watches_on(directory: &Path) -> usize {
    use std::os::unix::fs::MetadataExt as _;
    let inode = format!(" ino:{:x} ", fs::metadata(directory).unwrap().ino());
    let mut count = 0;
    for entry in fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let info = fs::read_to_string(entry.path()).unwrap_or_default();
        count += info
            .lines()
            .filter(|line| line.starts_with("inotify") && line.contains(&inode))
            .count();
    }
    count
}

#[cfg(target_os = "linux")]
#[test]
fn d67_a_watcher_that_is_dropped_leaves_no_watches_behind() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), ".claude/skills/a/SKILL.md", SKILL);
    let skills = temp.path().join(".claude/skills");
    assert_eq!(watches_on(&skills), 0);
    let (watched, _) = Watched::start(workspace(temp.path()));
    assert_eq!(watches_on(&skills), 1);
    drop(watched);
    // The thread that takes events from the system ends in its own time.
    let start = std::time::Instant::now();
    while watches_on(&skills) > 0 {
        assert!(start.elapsed() < crate::watched::TIMEOUT, "the watches are never freed");
        std::thread::yield_now();
    }
}

/// A session can end in the middle of a scan. Its outcome is not reported.
#[test]
fn d67_no_tree_is_reported_after_the_watcher_is_dropped() {
    let temp = tempfile::tempdir().unwrap();
    for number in 0..300 {
        write(temp.path(), &format!(".claude/skills/s{number}/SKILL.md"), SKILL);
    }
    for _ in 0..20 {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let was_told_late = Arc::new(AtomicBool::new(false));
        let (dropped, late) = (Arc::clone(&is_dropped), Arc::clone(&was_told_late));
        let watcher = TreeWatcher::start(workspace(temp.path()), move |_| {
            late.fetch_or(dropped.load(Ordering::SeqCst), Ordering::SeqCst);
        })
        .unwrap();
        // In the middle of its first scan, and with a reason for another one waiting.
        write(temp.path(), ".claude/skills/s0/SKILL.md", SKILL);
        watcher.rescan();
        drop(watcher);
        is_dropped.store(true, Ordering::SeqCst);
        assert_eq!(Arc::strong_count(&was_told_late), 1, "the thread has ended");
        assert!(!was_told_late.load(Ordering::SeqCst));
    }
}

/// Neither size nor time tells whether a file is what it was.
#[test]
fn d68_a_file_of_the_same_size_and_time_is_read_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(".claude/agents/a.md");
    write(temp.path(), ".claude/agents/a.md", "---\nname: one\n---\n");
    let before = fs::metadata(&path).unwrap();
    let (watched, _) = Watched::start(workspace(temp.path()));
    fs::write(&path, "---\nname: two\n---\n").unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(before.modified().unwrap())
        .unwrap();
    watched.until(&["two"]);
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (after.len(), after.modified().unwrap()),
        (before.len(), before.modified().unwrap())
    );
}
