//! Kept parts and a scan of everything find the same, whatever happens to the files.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::scan::scan;
use crate::watch::TreeWatcher;

/// The kinds of entries at a path.
#[derive(Debug, Clone)]
enum Act {
    Write(usize, usize),
    Remove(usize),
    Rename(usize, usize),
    #[cfg(unix)]
    Link(usize, usize),
}

/// Paths of a workspace, a home, a plugin, a collection and a place that only links lead to. Several
/// are in one another, so that directories come and go.
const PATHS: &[&str] = &[
    "work/.claude/skills/a/SKILL.md",
    "work/.claude/skills/b/SKILL.md",
    "work/.claude/skills/b/.claude-plugin/plugin.json",
    "work/.claude/skills",
    "work/.claude",
    "work/.github/skills",
    "work/.github/skills/c/SKILL.md",
    "work/.github/agents/x.md",
    "work/.agents/plugins/p/skills/s/SKILL.md",
    "work/.agents/plugins/p",
    "work/AGENTS.md",
    "work/CLAUDE.md",
    "work/.mcp.json",
    "work/.claude/settings.json",
    "work/skills/d/SKILL.md",
    "work/skills",
    "work",
    "home/.claude/skills/e/SKILL.md",
    "home/.claude/skills/e",
    "home/.claude/rules/deep/er/r.md",
    "plugin/.plugin/plugin.json",
    "plugin/skills/f/SKILL.md",
    "plugin/skills",
    "plugin/agents/y.md",
    "plugin",
    "market/marketplace.json",
    "market/one/skills/g/SKILL.md",
    "market/one",
    "market/two/commands/h.md",
    "store/i/SKILL.md",
    "store/i",
    "store",
    "top/mid/low/AGENTS.md",
    "top/mid/low/.claude/rules/k.md",
    "top/mid/low",
    "top/mid",
    "top",
];

const TEXTS: &[&str] = &[
    "---\ndescription: one\n---\n",
    "---\ndescription: two\n---\n",
    "---\nbroken",
    "{\"name\": \"n\", \"skills\": \"./skills\", \"plugins\": [{\"name\": \"one\", \"source\": \"./one\"}]}",
    "{\"name\": \"m\", \"mcpServers\": {\"s\": {\"command\": \"c\"}}, \"plugins\": []}",
    "{\"hooks\": {\"Stop\": [{\"command\": \"c\"}]}}",
];

fn act() -> impl Strategy<Value = Act> {
    let path = || 0..PATHS.len();
    let write = (path(), 0..TEXTS.len()).prop_map(|(path, text)| Act::Write(path, text));
    let remove = path().prop_map(Act::Remove);
    let rename = (path(), path()).prop_map(|(from, to)| Act::Rename(from, to));
    #[cfg(unix)]
    return prop_oneof![
        6 => write,
        2 => remove,
        2 => rename,
        2 => (path(), path()).prop_map(|(path, target)| Act::Link(path, target)),
    ];
    #[cfg(not(unix))]
    prop_oneof![6 => write, 2 => remove, 2 => rename]
}

/// Does it if it can be done.
fn perform(root: &Path, act: &Act) {
    let path = |index: usize| root.join(PATHS.get(index).unwrap());
    let make_room = |path: &Path| {
        let _ = fs::create_dir_all(path.parent().unwrap());
    };
    match act {
        Act::Write(at, text) => {
            make_room(&path(*at));
            let _ = fs::write(path(*at), TEXTS.get(*text).unwrap());
        }
        Act::Remove(at) => {
            let _ = fs::remove_file(path(*at)).or_else(|_| fs::remove_dir_all(path(*at)));
        }
        Act::Rename(from, to) => {
            make_room(&path(*to));
            let _ = fs::rename(path(*from), path(*to));
        }
        #[cfg(unix)]
        Act::Link(at, target) => {
            make_room(&path(*at));
            let _ = std::os::unix::fs::symlink(path(*target), path(*at));
        }
    }
}

/// Everything below a directory, without following links: what it is and what it holds.
fn everything(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            everything(&path, found);
            found.insert(path, b"directory".to_vec());
        } else if kind.is_symlink() {
            found.insert(
                path.clone(),
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            );
        } else {
            let contents = [b"file".to_vec(), fs::read(&path).unwrap()].concat();
            found.insert(path, contents);
        }
    }
}

/// The events of the operating system: changes in the watched directories. Of what is in
/// any other, such as a new one, nothing is told.
fn events(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
    watched: &BTreeSet<PathBuf>,
) -> BTreeSet<PathBuf> {
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let changed = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    let is_watched = |path: &&PathBuf| watched.contains(path.parent().unwrap());
    changed.filter(is_watched).cloned().collect()
}

/// Paths in one tree that are not in the other.
fn differences(kept: &Tree, whole: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (label, one, other) in [("stale", kept, whole), ("missed", whole, kept)] {
        let entries = one.entries.iter().filter(|entry| !other.entries.contains(entry));
        found.extend(entries.map(|entry| format!("{label}: {entry:?}")));
        let notes = one.notes.iter().filter(|note| !other.notes.contains(note));
        found.extend(notes.map(|note| format!("{label}: {note:?}")));
    }
    if found.is_empty() && kept != whole {
        found.push("another order".to_owned());
    }
    found
}

fn sources(root: &Path) -> Sources {
    Sources {
        plugins: vec![PluginSource::new(root.join("plugin"))],
        collections: vec![root.join("market")],
        workspaces: vec![root.join("work"), root.join("top/mid/low")],
        home: Some(root.join("home")),
    }
}

/// How many cases are tried by default.
fn cases() -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    wanted.and_then(|cases| cases.parse().ok()).unwrap_or(128)
}

/// Whether kept parts and a scan of everything agree after each burst.
fn agree(bursts: &[Vec<Act>]) -> Result<(), TestCaseError> {
    let temp = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(temp.path()).unwrap();
    let sources = sources(&root);
    let mut parts = Parts::default();
    let mut tree = parts.scan(&sources);
    let mut before = BTreeMap::new();
    everything(&root, &mut before);
    for burst in bursts {
        let watched = parts.watch_points();
        burst.iter().for_each(|act| perform(&root, act));
        let mut after = BTreeMap::new();
        everything(&root, &mut after);
        parts.forget(&events(&before, &after, &watched));
        let new = parts.scan(&sources);
        let whole = scan(&sources);
        let differing = differences(&new, &whole);
        prop_assert!(differing.is_empty(), "after {burst:?}: {differing:#?}");
        prop_assert_eq!(new.has_entries_of(&tree), tree.entries == whole.entries);
        (before, tree) = (after, new);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn cached_parts_equal_a_full_scan(bursts in vec(vec(act(), 1..4), 1..12)) {
        agree(&bursts)?;
    }
}

/// Cases that failed once.
#[cfg(unix)]
#[test]
fn cached_parts_find_parts_added_later() {
    let cases = [
        vec![vec![Act::Rename(0, 0), Act::Link(17, 16)], vec![Act::Rename(16, 20)]],
        vec![vec![Act::Write(14, 0), Act::Link(2, 14)], vec![Act::Remove(14)]],
    ];
    for case in cases {
        agree(&case).unwrap();
    }
}

/// How long a watcher may take, on a machine that is busy with something else. Less than what it reads
/// everything after without a reason.
const TIMEOUT: Duration = Duration::from_secs(40);

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 8, ..ProptestConfig::with_cases(6) })]

    /// The same with the events and the watches of the real system, which come and go with their directories.
    #[test]
    fn a_watcher_ends_where_a_scan_of_everything_does(bursts in vec(vec(act(), 1..5), 1..6)) {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let mut sources = sources(&root);
        sources.workspaces.push(root.join("marked"));
        fs::create_dir(root.join("marked")).unwrap();
        let (sender, trees) = channel();
        let _watcher = TreeWatcher::start(sources.clone(), move |tree| {
            let _ = sender.send(tree);
        }).unwrap();
        let mut last = trees.recv_timeout(TIMEOUT).unwrap();
        for (number, burst) in bursts.iter().enumerate() {
            burst.iter().for_each(|act| perform(&root, act));
            // Something is told after each burst, also where nothing else changed, so that the next one is
            // another one.
            fs::write(root.join("marked/AGENTS.md"), format!("---\nname: n{number}\n---\n")).unwrap();
            let whole = scan(&sources);
            while last.entries != whole.entries {
                match trees.recv_timeout(TIMEOUT) {
                    Ok(tree) => last = tree,
                    Err(_) => prop_assert!(false, "after {burst:?}: {:#?}", differences(&last, &whole)),
                }
            }
        }
    }
}

/// The point of it all: what nothing happened to is not even looked at.
#[test]
fn only_the_part_that_something_happened_to_is_read_again() {
    let temp = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(temp.path()).unwrap();
    for name in ["one", "two"] {
        let skill = root.join(name).join("skills/s");
        fs::create_dir_all(&skill).unwrap();
        fs::write(skill.join("SKILL.md"), "---\ndescription: d\n---\n").unwrap();
    }
    let sources = Sources {
        plugins: ["one", "two"].map(|name| PluginSource::new(root.join(name))).to_vec(),
        ..Sources::default()
    };
    let mut parts = Parts::default();
    let before = parts.scan(&sources);
    fs::write(root.join("two/skills/s/SKILL.md"), "---\ndescription: e\n---\n").unwrap();
    parts.forget(&BTreeSet::from([root.join("two/skills/s/SKILL.md")]));
    let after = parts.scan(&sources);
    let is_kept: Vec<bool> = before
        .entries
        .iter()
        .zip(&after.entries)
        .map(|(a, b)| Arc::ptr_eq(a, b))
        .collect();
    assert_eq!(is_kept, [true, false]);
    assert!(!after.has_entries_of(&before));
}
