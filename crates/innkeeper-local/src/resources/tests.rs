//! What clients do to files, and what they try.

mod races;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use innkeeper_host::resource::{ChangeKind, Reach, Transfer, WatchSpec, Write, WriteMode};
use innkeeper_host::{ChangeSink, EntryKind, ResourceError, ResourceKind, Resources};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{LocalResources, ResourceLimits};
use crate::uri::from_path;

/// A project that a client works in, and secrets beside it.
struct Scene {
    dir: TempDir,
    resources: LocalResources,
}

fn scene() -> Scene {
    let dir = TempDir::new().expect("a directory");
    let root = fs::canonicalize(dir.path()).expect("there");
    fs::create_dir_all(root.join("project/src")).expect("a directory");
    fs::create_dir_all(root.join("outside/deep")).expect("a directory");
    fs::create_dir_all(root.join("project/.inn")).expect("a directory");
    fs::write(root.join("project/src/main.rs"), "fn main() {}").expect("a file");
    fs::write(root.join("project/.inn/token"), "hush").expect("a file");
    fs::write(root.join("outside/secret"), "hush").expect("a file");
    let limits = ResourceLimits {
        bytes: 1000,
        entries: 20,
        watched_directories: 10,
        watched_entries: 100,
    };
    let resources = LocalResources::new(limits, &[root.join("project/.inn")]);
    Scene { dir, resources }
}

impl Scene {
    fn path(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("there").join(path)
    }

    fn uri(&self, path: &str) -> String {
        from_path(&self.path(path)).expect("absolute")
    }

    fn reach(&self, path: &str, write: bool, exact: bool) -> Vec<Reach> {
        let uri = self.uri(path);
        vec![Reach { uri, write, exact }]
    }

    /// The working directory of a session that the client drives.
    fn project(&self) -> Vec<Reach> {
        self.reach("project", true, false)
    }

    async fn read(&self, reaches: &[Reach], uri: &str) -> Result<String, ResourceError> {
        let content = self.resources.read(reaches, uri, 1000).await?;
        Ok(String::from_utf8_lossy(&content.bytes).into_owned())
    }

    async fn write(&self, path: &str, data: &str) -> Result<(), ResourceError> {
        self.resources.write(&self.project(), self.writing(path, data)).await
    }

    fn writing(&self, path: &str, data: &str) -> Write {
        Write {
            uri: self.uri(path),
            data: data.into(),
            create_only: false,
            mode: WriteMode::Truncate,
            position: 0,
            if_match: None,
        }
    }

    fn transfer(&self, source: &str, destination: &str) -> Transfer {
        Transfer {
            source: self.uri(source),
            destination: self.uri(destination),
            fail_if_exists: false,
        }
    }
}

fn is_denied<T>(outcome: &Result<T, ResourceError>) -> bool {
    matches!(
        outcome,
        Err(ResourceError::Outside { .. } | ResourceError::Refused(_) | ResourceError::Invalid { .. })
    )
}

#[tokio::test]
async fn res05_each_mode_puts_bytes_where_it_says() {
    let scene = scene();
    let cases = [
        (WriteMode::Truncate, 0, "xy"),
        (WriteMode::Truncate, 2, "abxy"),
        (WriteMode::Insert, 0, "xyabcd"),
        (WriteMode::Insert, 4, "abcdxy"),
        (WriteMode::Append, 0, "abcdxy"),
        (WriteMode::Append, 3, "axybcd"),
    ];
    for (mode, position, after) in cases {
        fs::write(scene.path("project/f"), "abcd").expect("a file");
        let mut write = scene.writing("project/f", "xy");
        (write.mode, write.position) = (mode, position);
        scene
            .resources
            .write(&scene.project(), write.clone())
            .await
            .expect("written");
        assert_eq!(
            fs::read_to_string(scene.path("project/f")).expect("there"),
            after,
            "{mode:?} {position}"
        );
        write.position = 99;
        let refused = scene.resources.write(&scene.project(), write).await;
        assert!(
            matches!(refused, Err(ResourceError::Invalid { field: "position", .. })),
            "RES-08: {refused:?}"
        );
    }
    // What does not exist is created in every mode, with the directories it is in (RES-04).
    scene.write("project/new/deep/file", "new").await.expect("written");
    let mut create = scene.writing("project/new/deep/file", "other");
    create.create_only = true;
    let refused = scene.resources.write(&scene.project(), create).await;
    assert!(matches!(refused, Err(ResourceError::Exists(_))), "{refused:?}");
    let left: Vec<_> = fs::read_dir(scene.path("project/new/deep")).expect("there").collect();
    assert_eq!(left.len(), 1, "nothing unfinished is left behind");
}

#[tokio::test]
async fn res06_appends_of_many_are_all_there_whole() {
    let scene = scene();
    scene.write("project/log", "").await.expect("written");
    let mut appends = tokio::task::JoinSet::new();
    for index in 0..50 {
        let mut write = scene.writing("project/log", &format!("line {index}\n"));
        write.mode = WriteMode::Append;
        let (resources, reaches) = (scene.resources.clone(), scene.project());
        appends.spawn(async move { resources.write(&reaches, write).await });
    }
    while let Some(done) = appends.join_next().await {
        done.expect("ran").expect("appended");
    }
    let text = fs::read_to_string(scene.path("project/log")).expect("there");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 50);
}

#[tokio::test]
async fn res07_of_two_who_saw_the_same_version_one_writes() {
    let scene = scene();
    let seen = scene
        .resources
        .resolve(&scene.project(), &scene.uri("project/src/main.rs"), true)
        .await;
    let etag = seen.expect("there").etag;
    let mut write = scene.writing("project/src/main.rs", "fn main() { }");
    write.if_match = etag;
    let reaches = scene.project();
    let (one, other) = tokio::join!(
        scene.resources.write(&reaches, write.clone()),
        scene.resources.write(&reaches, write.clone()),
    );
    assert_eq!(one.is_ok() as u8 + other.is_ok() as u8, 1, "{one:?} {other:?}");
    write.uri = scene.uri("project/none");
    let refused = scene.resources.write(&scene.project(), write).await;
    assert!(
        matches!(refused, Err(ResourceError::Conflict(_))),
        "what is gone has changed: {refused:?}"
    );
}

#[tokio::test]
async fn res12_a_link_is_what_it_leads_to_or_itself() {
    let scene = scene();
    symlink("src/main.rs", scene.path("project/link")).expect("a link");
    let reaches = scene.project();
    let target = scene
        .resources
        .resolve(&reaches, &scene.uri("project/link"), true)
        .await
        .expect("there");
    assert_eq!(
        (target.kind, target.uri),
        (ResourceKind::File, scene.uri("project/src/main.rs"))
    );
    assert_eq!(target.size, Some(12));
    let link = scene
        .resources
        .resolve(&reaches, &scene.uri("project/link"), false)
        .await
        .expect("there");
    assert_eq!(
        (link.kind, link.uri),
        (ResourceKind::Symlink, scene.uri("project/link"))
    );
    let missing = scene
        .resources
        .resolve(&reaches, &scene.uri("project/none"), true)
        .await;
    assert!(matches!(missing, Err(ResourceError::NotFound(_))), "{missing:?}");
    let directory = scene
        .resources
        .resolve(&reaches, &scene.uri("project"), true)
        .await
        .expect("there");
    assert_eq!(directory.kind, ResourceKind::Directory);
}

#[tokio::test]
async fn res09_res10_res11_res13_names_are_listed_copied_moved_and_deleted() {
    let scene = scene();
    let reaches = scene.project();
    let listed = scene
        .resources
        .list(&reaches, &scene.uri("project"))
        .await
        .expect("listed");
    let listed: Vec<(&str, EntryKind)> = listed.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    assert_eq!(listed, [(".inn", EntryKind::Directory), ("src", EntryKind::Directory)]);
    let file = scene.resources.list(&reaches, &scene.uri("project/src/main.rs")).await;
    assert!(matches!(file, Err(ResourceError::Invalid { .. })), "{file:?}");

    scene.write("project/src/b", "b").await.expect("written");
    scene
        .resources
        .copy(&reaches, scene.transfer("project/src", "project/copy"))
        .await
        .expect("copied");
    assert_eq!(fs::read_to_string(scene.path("project/copy/b")).expect("there"), "b");
    let mut again = scene.transfer("project/src", "project/copy");
    again.fail_if_exists = true;
    let refused = scene.resources.copy(&reaches, again).await;
    assert!(matches!(refused, Err(ResourceError::Exists(_))), "{refused:?}");
    fs::write(scene.path("project/copy/old"), "").expect("a file");
    scene
        .resources
        .copy(&reaches, scene.transfer("project/src", "project/copy"))
        .await
        .expect("copied over");
    assert!(
        !scene.path("project/copy/old").exists(),
        "RES-10: overwritten, not mixed"
    );
    let into_itself = scene
        .resources
        .copy(&reaches, scene.transfer("project/src", "project/src/x"))
        .await;
    assert!(
        matches!(into_itself, Err(ResourceError::Invalid { .. })),
        "{into_itself:?}"
    );

    scene
        .resources
        .rename(&reaches, scene.transfer("project/copy", "project/moved"))
        .await
        .expect("moved");
    scene
        .resources
        .copy(&reaches, scene.transfer("project/src", "project/copy"))
        .await
        .expect("copied");
    scene
        .resources
        .rename(&reaches, scene.transfer("project/copy", "project/moved"))
        .await
        .expect("moved over");
    let mut onto = scene.transfer("project/src/b", "project/moved/b");
    onto.fail_if_exists = true;
    let refused = scene.resources.rename(&reaches, onto).await;
    assert!(matches!(refused, Err(ResourceError::Exists(_))), "{refused:?}");

    let full = scene
        .resources
        .delete(&reaches, &scene.uri("project/moved"), false)
        .await;
    assert!(matches!(full, Err(ResourceError::Failed(_))), "RES-11: {full:?}");
    scene
        .resources
        .delete(&reaches, &scene.uri("project/moved"), true)
        .await
        .expect("deleted");
    assert!(!scene.path("project/moved").exists());

    let new = scene.uri("project/x/y/z");
    scene.resources.make_directory(&reaches, &new).await.expect("made");
    scene
        .resources
        .make_directory(&reaches, &new)
        .await
        .expect("there already");
    let taken = scene
        .resources
        .make_directory(&reaches, &scene.uri("project/src/b"))
        .await;
    assert!(matches!(taken, Err(ResourceError::Exists(_))), "RES-13: {taken:?}");
    let below = scene
        .resources
        .make_directory(&reaches, &scene.uri("project/src/b/c"))
        .await;
    assert!(matches!(below, Err(ResourceError::NotFound(_))), "{below:?}");
    let left: Vec<String> = fs::read_dir(scene.path("project"))
        .expect("there")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(".innkeeper"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "nothing unfinished is left behind");
}

#[tokio::test]
async fn res17_no_link_leads_outside() {
    let scene = scene();
    let reaches = scene.project();
    symlink("../outside/secret", scene.path("project/file")).expect("a link");
    symlink("../outside", scene.path("project/dir")).expect("a link");
    symlink(scene.path("outside"), scene.path("project/full")).expect("a link");
    symlink("/", scene.path("project/whole")).expect("a link");
    symlink("../outside/new", scene.path("project/dangling")).expect("a link");
    symlink("circle", scene.path("project/circle")).expect("a link");
    for path in [
        "project/file",
        "project/dir/secret",
        "project/full/secret",
        "project/whole/etc/hostname",
        "project/circle",
        "project/../outside/secret",
        "project/%2e%2e/outside/secret",
        "outside/secret",
    ] {
        let uri = scene.uri("project").replace("project", path);
        let read = scene.read(&reaches, &uri).await;
        assert!(is_denied(&read), "{path}: {read:?}");
        let mut write = scene.writing("project/x", "pwned");
        write.uri = uri.clone();
        let written = scene.resources.write(&reaches, write).await;
        assert!(is_denied(&written), "{path}: {written:?}");
        let resolved = scene.resources.resolve(&reaches, &uri, true).await;
        assert!(is_denied(&resolved), "{path}: {resolved:?}");
    }
    let through = scene.write("project/dangling", "pwned").await;
    assert!(through.is_err(), "{through:?}");
    assert!(!scene.path("outside/new").exists());
    for (source, destination) in [
        ("project/file", "project/copy"),
        ("project/dir", "project/copy"),
        ("project/src/main.rs", "project/dir/pwned"),
        ("outside/secret", "project/copy"),
        ("project/src/main.rs", "outside/pwned"),
    ] {
        let copied = scene
            .resources
            .copy(&reaches, scene.transfer(source, destination))
            .await;
        assert!(is_denied(&copied), "{source} to {destination}: {copied:?}");
    }
    let into = scene
        .resources
        .rename(&reaches, scene.transfer("project/src/main.rs", "project/full/pwned"))
        .await;
    assert!(is_denied(&into), "{into:?}");
    let list = scene.resources.list(&reaches, &scene.uri("project/dir")).await;
    assert!(is_denied(&list), "{list:?}");
    let made = scene
        .resources
        .make_directory(&reaches, &scene.uri("project/dir/new"))
        .await;
    assert!(is_denied(&made), "{made:?}");
    let below = scene
        .resources
        .delete(&reaches, &scene.uri("project/dir/secret"), true)
        .await;
    assert!(is_denied(&below), "{below:?}");
    // Deleting a link deletes the link.
    scene
        .resources
        .delete(&reaches, &scene.uri("project/dir"), true)
        .await
        .expect("deleted");
    assert_eq!(
        fs::read_to_string(scene.path("outside/secret")).expect("still there"),
        "hush"
    );
    assert!(!scene.path("outside/pwned").exists() && !scene.path("outside/deep/pwned").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn res17_a_link_that_is_swapped_in_meanwhile_leads_nowhere() {
    let scene = scene();
    fs::create_dir(scene.path("project/now")).expect("a directory");
    fs::write(scene.path("project/now/secret"), "mine").expect("a file");
    let stop = Arc::new(AtomicBool::new(false));
    let (now, then, aside) = (
        scene.path("project/now"),
        scene.path("outside"),
        scene.path("project/aside"),
    );
    let swapping = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::rename(&now, &aside);
                let _ = symlink(&then, &now);
                let _ = fs::remove_file(&now);
                let _ = fs::rename(&aside, &now);
            }
        }
    });
    for round in 0..300 {
        if let Ok(text) = scene.read(&scene.project(), &scene.uri("project/now/secret")).await {
            assert_eq!(text, "mine", "in round {round}");
        }
        let _ = scene.write("project/now/pwned", "x").await;
        let _ = scene
            .resources
            .delete(&scene.project(), &scene.uri("project/now/pwned"), true)
            .await;
        let _ = scene
            .resources
            .make_directory(&scene.project(), &scene.uri("project/now/deep/a"))
            .await;
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().expect("it ended");
    assert_eq!(fs::read_to_string(scene.path("outside/secret")).expect("there"), "hush");
    assert!(!scene.path("outside/pwned").exists(), "nothing was written outside");
    assert!(!scene.path("outside/deep/a").exists(), "nothing was made outside");
}

#[tokio::test]
async fn sec03_the_hosts_own_data_is_nobodys() {
    let scene = scene();
    let reaches = scene.project();
    let own = scene.uri("project/.inn/token");
    symlink(".inn", scene.path("project/alias")).expect("a link");
    for uri in [own.clone(), scene.uri("project/alias/token"), scene.uri("project/.inn")] {
        let read = scene.read(&reaches, &uri).await;
        assert!(is_denied(&read), "{uri}: {read:?}");
    }
    let list = scene.resources.list(&reaches, &scene.uri("project/.inn")).await;
    assert!(is_denied(&list), "{list:?}");
    for outcome in [
        scene.resources.delete(&reaches, &scene.uri("project/.inn"), true).await,
        scene
            .resources
            .rename(&reaches, scene.transfer("project/.inn", "project/taken"))
            .await,
        scene
            .resources
            .copy(&reaches, scene.transfer("project/.inn", "project/taken"))
            .await,
        scene.write("project/.inn/token", "mine").await,
    ] {
        assert!(is_denied(&outcome), "{outcome:?}");
    }
    // Nor does it go with the directory it is in.
    let around = scene.reach("", true, false);
    for outcome in [
        scene.resources.delete(&around, &scene.uri("project"), true).await,
        scene
            .resources
            .rename(&around, scene.transfer("project", "other"))
            .await,
        scene.resources.copy(&around, scene.transfer("project", "other")).await,
    ] {
        assert!(is_denied(&outcome), "{outcome:?}");
    }
    assert_eq!(
        fs::read_to_string(scene.path("project/.inn/token")).expect("there"),
        "hush"
    );
}

#[tokio::test]
async fn res17_processes_devices_and_pipes_are_no_files() {
    let scene = scene();
    let everything = vec![Reach {
        uri: "file:///".to_owned(),
        write: true,
        exact: false,
    }];
    for uri in [
        "file:///proc/self/environ",
        "file:///dev/null",
        "file:///sys",
        "file:///proc",
    ] {
        let read = scene.read(&everything, uri).await;
        assert!(is_denied(&read), "{uri}: {read:?}");
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("project/pipe"), rustix::fs::Mode::RUSR).expect("a pipe");
    let read = scene.read(&scene.project(), &scene.uri("project/pipe")).await;
    assert!(
        matches!(read, Err(ResourceError::Refused(_))),
        "and nobody waits for it: {read:?}"
    );
    let written = scene.write("project/pipe", "x").await;
    assert!(matches!(written, Err(ResourceError::Refused(_))), "{written:?}");
}

#[tokio::test]
async fn res18_what_is_too_long_is_refused() {
    let scene = scene();
    fs::write(scene.path("project/long"), vec![b'x'; 1001]).expect("a file");
    let read = scene.read(&scene.project(), &scene.uri("project/long")).await;
    assert!(
        matches!(read, Err(ResourceError::Invalid { field: "uri", .. })),
        "{read:?}"
    );
    let written = scene.write("project/f", &"x".repeat(1001)).await;
    assert!(
        matches!(written, Err(ResourceError::Invalid { field: "data", .. })),
        "{written:?}"
    );
    for index in 0..21 {
        fs::write(scene.path(&format!("project/src/{index}")), "").expect("a file");
    }
    let listed = scene.resources.list(&scene.project(), &scene.uri("project/src")).await;
    assert!(matches!(listed, Err(ResourceError::Invalid { .. })), "{listed:?}");
}

#[tokio::test]
async fn res14_a_grant_is_for_one_place_and_no_link_makes_it_another() {
    let scene = scene();
    let grant = scene.reach("outside/secret", false, true);
    assert_eq!(
        scene.read(&grant, &scene.uri("outside/secret")).await.as_deref(),
        Ok("hush")
    );
    for uri in [
        scene.uri("outside"),
        scene.uri("outside/deep"),
        scene.uri("project/src/main.rs"),
    ] {
        let other = scene.read(&grant, &uri).await;
        assert!(matches!(other, Err(ResourceError::Outside { .. })), "{uri}: {other:?}");
    }
    let mut write = scene.writing("outside/secret", "mine");
    let written = scene.resources.write(&grant, write.clone()).await;
    assert!(
        matches!(written, Err(ResourceError::Outside { write: true, .. })),
        "{written:?}"
    );
    // A file that is not there yet can be granted, too.
    let new = scene.reach("outside/new", true, true);
    write.uri = scene.uri("outside/new");
    scene.resources.write(&new, write).await.expect("written");
    // What was granted is now a link, or lies behind one.
    symlink("secret", scene.path("outside/link")).expect("a link");
    let link = scene.reach("outside/link", false, true);
    let read = scene.read(&link, &scene.uri("outside/link")).await;
    assert!(matches!(read, Err(ResourceError::Outside { .. })), "{read:?}");
    fs::rename(scene.path("outside"), scene.path("gone")).expect("moved");
    symlink("gone", scene.path("outside")).expect("a link");
    let read = scene.read(&grant, &scene.uri("outside/secret")).await;
    assert!(matches!(read, Err(ResourceError::Outside { .. })), "{read:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn res17_no_path_leads_outside(
        parts in prop::collection::vec(
            prop::sample::select(vec!["..", ".", "%2e%2e", "src", "main.rs", "up", "out", "root", "outside", "secret", "project", "", "new"]),
            0..8,
        ),
    ) {
        let scene = scene();
        symlink("..", scene.path("project/src/up")).expect("a link");
        symlink("../outside", scene.path("project/out")).expect("a link");
        symlink("/", scene.path("project/whole")).expect("a link");
        let uri = format!("{}/{}", scene.uri("project"), parts.join("/"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let reaches = scene.project();
            if let Ok(text) = scene.read(&reaches, &uri).await {
                prop_assert_eq!(text, "fn main() {}");
            }
            let mut write = scene.writing("project/x", "pwned");
            write.uri = uri.clone();
            let _ = scene.resources.write(&reaches, write).await;
            let _ = scene.resources.delete(&reaches, &uri, true).await;
            prop_assert_eq!(fs::read_to_string(scene.path("outside/secret")).expect("there"), "hush");
            let outside = fs::read_dir(scene.path("outside")).expect("there").count();
            prop_assert_eq!(outside, 2);
            prop_assert!(scene.path("project").is_dir(), "what was given cannot be taken away");
            Ok(())
        })?;
    }
}

/// Waits for changes until they are what is expected.
async fn told(
    receiver: &mut tokio::sync::mpsc::Receiver<Vec<innkeeper_host::resource::ResourceChange>>,
    last: &str,
) -> Vec<(String, ChangeKind)> {
    let mut all = Vec::new();
    loop {
        let some = receiver.recv().await.expect("the watch goes on");
        assert!(!some.is_empty(), "WCH-05");
        all.extend(some.into_iter().map(|change| {
            let name = Path::new(&change.uri)
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            (name.unwrap_or_default(), change.kind)
        }));
        if all.iter().any(|(name, _)| name == last) {
            return all;
        }
    }
}

fn spec(uri: String, recursive: bool) -> WatchSpec {
    WatchSpec {
        uri,
        recursive,
        includes: None,
        excludes: None,
    }
}

#[tokio::test]
async fn wch06_watches_of_the_same_place_share_one_look_and_end_with_the_last() {
    let scene = scene();
    let reaches = scene.project();
    let (sink, mut first) = ChangeSink::channel();
    let one = scene
        .resources
        .watch(&reaches, &spec(scene.uri("project"), true), sink)
        .await
        .expect("watched");
    let (sink, mut second) = ChangeSink::channel();
    let mut only_b = spec(scene.uri("project"), true);
    only_b.includes = Some(vec!["**/b".to_owned()]);
    let other = scene.resources.watch(&reaches, &only_b, sink).await.expect("watched");
    assert_eq!(scene.resources.watches.watched(), 1);
    fs::write(scene.path("project/src/a"), "").expect("a file");
    fs::write(scene.path("project/src/b"), "").expect("a file");
    let all = told(&mut first, "b").await;
    assert!(all.contains(&("a".to_owned(), ChangeKind::Added)), "{all:?}");
    assert_eq!(told(&mut second, "b").await, [("b".to_owned(), ChangeKind::Added)]);
    drop(one);
    fs::remove_file(scene.path("project/src/b")).expect("deleted");
    assert_eq!(told(&mut second, "b").await, [("b".to_owned(), ChangeKind::Deleted)]);
    drop(other);
    assert_eq!(scene.resources.watches.watched(), 0);
    assert!(second.recv().await.is_none(), "nobody is left who could tell");
}

#[tokio::test]
async fn wch02_without_recursion_only_direct_children_are_told_of() {
    let scene = scene();
    let (sink, mut receiver) = ChangeSink::channel();
    let watching = spec(scene.uri("project"), false);
    let _watch = scene
        .resources
        .watch(&scene.project(), &watching, sink)
        .await
        .expect("watched");
    fs::write(scene.path("project/src/inner"), "").expect("a file");
    fs::write(scene.path("project/outer"), "").expect("a file");
    assert_eq!(
        told(&mut receiver, "outer").await,
        [("outer".to_owned(), ChangeKind::Added)]
    );
    // One file is watched through the directory it is in, and through an atomic save.
    let (sink, mut receiver) = ChangeSink::channel();
    let watching = spec(scene.uri("project/src/main.rs"), false);
    let _watch = scene
        .resources
        .watch(&scene.project(), &watching, sink)
        .await
        .expect("watched");
    fs::write(scene.path("project/src/other"), "x").expect("a file");
    fs::write(scene.path("project/src/new"), "fn main() { saved() }").expect("a file");
    fs::rename(scene.path("project/src/new"), scene.path("project/src/main.rs")).expect("saved");
    let all = told(&mut receiver, "main.rs").await;
    assert_eq!(all, [("main.rs".to_owned(), ChangeKind::Updated)]);
}

#[tokio::test]
async fn wch05_a_root_that_is_gone_and_back_is_watched_again() {
    let scene = scene();
    let (sink, mut receiver) = ChangeSink::channel();
    let watching = spec(scene.uri("project/src"), true);
    let _watch = scene
        .resources
        .watch(&scene.project(), &watching, sink)
        .await
        .expect("watched");
    fs::remove_dir_all(scene.path("project/src")).expect("deleted");
    let all = told(&mut receiver, "src").await;
    assert!(all.contains(&("main.rs".to_owned(), ChangeKind::Deleted)), "{all:?}");
    fs::create_dir(scene.path("project/src")).expect("a directory");
    fs::write(scene.path("project/src/back"), "").expect("a file");
    told(&mut receiver, "back").await;
    fs::write(scene.path("project/src/later"), "").expect("a file");
    told(&mut receiver, "later").await;
    // A directory that comes and is filled at once is told with all that is in it.
    fs::create_dir_all(scene.path("project/src/x/y")).expect("a directory");
    fs::write(scene.path("project/src/x/y/z"), "").expect("a file");
    told(&mut receiver, "z").await;
}

#[tokio::test]
async fn wch01_what_is_too_large_to_watch_is_refused_unless_it_is_excluded() {
    let scene = scene();
    for index in 0..12 {
        fs::create_dir_all(scene.path(&format!("project/node_modules/{index}"))).expect("a directory");
    }
    let watching = spec(scene.uri("project"), true);
    let (sink, _receiver) = ChangeSink::channel();
    let refused = scene.resources.watch(&scene.project(), &watching, sink).await;
    let Err(ResourceError::Invalid { problem, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(problem.contains("exclude"), "{problem}");
    let (sink, mut receiver) = ChangeSink::channel();
    let mut less = watching.clone();
    less.excludes = Some(vec!["**/node_modules/**".to_owned()]);
    let _watch = scene
        .resources
        .watch(&scene.project(), &less, sink)
        .await
        .expect("watched");
    fs::write(scene.path("project/node_modules/1/a"), "").expect("a file");
    fs::write(scene.path("project/b"), "").expect("a file");
    assert_eq!(told(&mut receiver, "b").await, [("b".to_owned(), ChangeKind::Added)]);
    // Nothing outside is watched, whatever leads there.
    symlink("../outside", scene.path("project/out")).expect("a link");
    told(&mut receiver, "out").await;
    let (sink, _receiver) = ChangeSink::channel();
    let outside = scene
        .resources
        .watch(&scene.project(), &spec(scene.uri("project/out"), true), sink)
        .await;
    assert!(is_denied(&outside.map(|_| ())));
}
