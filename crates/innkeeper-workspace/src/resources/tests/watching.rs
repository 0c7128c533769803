//! Changes that watches report.

use super::*;

/// Waits for changes until they are what is expected.
async fn told(
    receiver: &mut tokio::sync::mpsc::Receiver<Vec<innkeeper_host::resources::ResourceChange>>,
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
    assert!(second.recv().await.is_none(), "no sender is left");
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
async fn wch05_directories_that_vanish_and_return_are_watched_to_full_depth() {
    let scene = scene();
    fs::create_dir_all(scene.path("project/a/b/c")).expect("directories");
    let (sink, mut receiver) = ChangeSink::channel();
    let _watch = scene
        .resources
        .watch(&scene.project(), &spec(scene.uri("project"), true), sink)
        .await
        .expect("watched");
    for round in 0..3 {
        // The system forgets all watches in a directory that is renamed, although nothing in it is another one after.
        fs::rename(scene.path("project/a"), scene.path("project/away")).expect("renamed");
        fs::rename(scene.path("project/away"), scene.path("project/a")).expect("renamed back");
        let noticed = format!("noticed-{round}");
        fs::write(scene.path(&format!("project/{noticed}")), "").expect("a file");
        told(&mut receiver, &noticed).await;
        let deep = format!("deep-{round}");
        fs::write(scene.path(&format!("project/a/b/c/{deep}")), "").expect("a file");
        told(&mut receiver, &deep).await;
    }
}

#[tokio::test]
async fn wch01_too_large_trees_are_refused_unless_excluded() {
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

/// A user has 128 watchers on most systems, and a client with the scope `view` may create watches.
#[tokio::test]
async fn sec04_wch06_any_number_of_watches_takes_one_watcher() {
    let scene = scene();
    let mut watches = Vec::new();
    for index in 0..150 {
        let (sink, receiver) = ChangeSink::channel();
        let mut watching = spec(scene.uri("project/src"), false);
        watching.excludes = Some(vec![format!("none-{index}"), format!("none-{index}")]);
        let watch = scene.resources.watch(&scene.project(), &watching, sink).await;
        watches.push((watch.expect("watched"), receiver));
    }
    assert_eq!(scene.resources.watches.watched(), 150);
    assert_eq!(scene.resources.watches.watched_directories(), 1);
    fs::write(scene.path("project/src/a"), "").expect("a file");
    for (_, receiver) in &mut watches {
        told(receiver, "a").await;
    }
    // Another directory of the same name is watched for all of them.
    fs::rename(scene.path("project/src"), scene.path("outside/src")).expect("moved");
    fs::create_dir(scene.path("project/src")).expect("a directory");
    fs::write(scene.path("project/src/b"), "").expect("a file");
    for (_, receiver) in &mut watches {
        told(receiver, "b").await;
    }
    fs::write(scene.path("project/src/c"), "").expect("a file");
    for (_, receiver) in &mut watches {
        told(receiver, "c").await;
    }
    // Those that stay hear on when others leave.
    watches.truncate(1);
    fs::write(scene.path("project/src/d"), "").expect("a file");
    for (_, receiver) in &mut watches {
        told(receiver, "d").await;
    }
}

#[tokio::test]
async fn sec04_all_watches_together_have_a_bound_and_those_that_end_make_room() {
    let scene = scene();
    for index in 0..80 {
        fs::write(scene.path(&format!("project/src/{index}")), "").expect("a file");
    }
    let open = async |index: usize| {
        let (sink, receiver) = ChangeSink::channel();
        let mut watching = spec(scene.uri("project/src"), false);
        watching.excludes = Some(vec![format!("none-{index}")]);
        let watch = scene.resources.watch(&scene.project(), &watching, sink).await;
        watch.map(|watch| (watch, receiver))
    };
    let mut watches = Vec::new();
    for index in 0..4 {
        watches.push(open(index).await.expect("watched"));
    }
    let refused = open(4).await.map(drop);
    assert!(
        matches!(refused, Err(ResourceError::Invalid { field: "uri", .. })),
        "{refused:?}"
    );
    drop(watches);
    while open(4).await.is_err() {
        tokio::task::yield_now().await;
    }
}
