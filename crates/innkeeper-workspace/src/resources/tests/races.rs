//! Many at once, and files that change under way.

use super::*;

/// If many clients saw the same version, one of them writes, and the others succeed after they read again: no write is
/// lost, and none is done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn res07_concurrent_increments_with_etags_all_count() {
    const WRITERS: usize = 8;
    const TIMES: usize = 10;
    let scene = Arc::new(scene());
    scene.write("project/count", "0").await.expect("written");
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let scene = Arc::clone(&scene);
        writers.spawn(async move {
            let (reaches, uri) = (scene.project(), scene.uri("project/count"));
            let mut conflicts = 0;
            for _ in 0..TIMES {
                loop {
                    // The version first: what is read later can only be newer, and then it does not match.
                    let seen = scene.resources.resolve(&reaches, &uri, true).await.expect("there");
                    let count: usize = scene
                        .read(&reaches, &uri)
                        .await
                        .expect("there")
                        .parse()
                        .expect("a number");
                    let mut write = scene.writing("project/count", &(count + 1).to_string());
                    write.if_match = seen.etag;
                    match scene.resources.write(&reaches, write).await {
                        Ok(()) => break,
                        Err(ResourceError::Conflict(_)) => conflicts += 1,
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
            conflicts
        });
    }
    let conflicts: usize = writers.join_all().await.into_iter().sum();
    let count = scene
        .read(&scene.project(), &scene.uri("project/count"))
        .await
        .expect("there");
    assert_eq!(count, (WRITERS * TIMES).to_string(), "after {conflicts} conflicts");
}

/// Some file systems take `Token` for `token`. Whichever this one is, no spelling leads to what is out
/// of bounds, and none makes of one place another.
#[tokio::test]
async fn res17_sec03_no_spelling_of_a_path_leaves_the_root() {
    let scene = scene();
    let is_sensitive = !scene.path("project/SRC").exists();
    for spelling in [
        "project/.INN/token",
        "project/.inn/TOKEN",
        "project/.Inn/Token",
        "PROJECT/.inn/token",
        "project/.%49nn/token",
        "OUTSIDE/secret",
        "project/../OUTSIDE/secret",
    ] {
        let uri = scene.uri("x").replace("/x", &format!("/{spelling}"));
        let read = scene.read(&scene.project(), &uri).await;
        assert!(read.is_err(), "{spelling}: {read:?}");
    }
    // Where both exist, a client of one does not reach the other.
    if is_sensitive {
        fs::create_dir(scene.path("Project")).expect("a directory");
        fs::write(scene.path("Project/secret"), "hush").expect("a file");
        let read = scene.read(&scene.project(), &scene.uri("Project/secret")).await;
        assert!(is_denied(&read), "{read:?}");
        let written = scene
            .resources
            .write(&scene.project(), scene.writing("Project/secret", ""))
            .await;
        assert!(is_denied(&written), "{written:?}");
    }
    // A file that exists under another spelling is not created a second time, nor lost.
    let mut create = scene.writing("project/SRC/MAIN.RS", "other");
    create.create_only = true;
    let created = scene.resources.write(&scene.project(), create).await;
    assert_eq!(created.is_ok(), is_sensitive, "{created:?}");
    let first = scene.read(&scene.project(), &scene.uri("project/src/main.rs")).await;
    assert_eq!(first.expect("there"), "fn main() {}");
    // To give a file another spelling of its own name is no way to lose it.
    let transfer = scene.transfer("project/src/main.rs", "project/src/Main.rs");
    if scene.resources.rename(&scene.project(), transfer).await.is_ok() {
        let moved = scene.read(&scene.project(), &scene.uri("project/src/Main.rs")).await;
        assert_eq!(moved.expect("there"), "fn main() {}");
    }
}

/// While links are swapped under way, everything that changes names stays inside as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn res17_copies_moves_and_deletions_stay_inside_during_symlink_swaps() {
    let scene = scene();
    fs::create_dir(scene.path("project/swap")).expect("a directory");
    fs::write(scene.path("project/swap/secret"), "mine").expect("a file");
    symlink(scene.path("outside"), scene.path("project/link")).expect("a link");
    let is_done = Arc::new(AtomicBool::new(false));
    let (swap, link, aside) = (
        scene.path("project/swap"),
        scene.path("project/link"),
        scene.path("project/aside"),
    );
    let swapping = {
        let is_done = Arc::clone(&is_done);
        std::thread::spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                for (from, to) in [(&swap, &aside), (&link, &swap), (&swap, &link), (&aside, &swap)] {
                    let _ = fs::rename(from, to);
                }
            }
        })
    };
    let reaches = scene.project();
    for round in 0..200 {
        let stolen = format!("project/stolen{round}");
        let _ = scene
            .resources
            .copy(&reaches, scene.transfer("project/swap/secret", &stolen))
            .await;
        let copied = fs::read_to_string(scene.path(&stolen));
        assert!(copied.as_deref().map_or(true, |text| text == "mine"), "{copied:?}");
        let _ = scene
            .resources
            .write(&reaches, scene.writing("project/swap/planted", "x"))
            .await;
        let planted = scene.uri("project/swap/planted");
        let _ = scene
            .resources
            .make_directory(&reaches, &scene.uri("project/swap/dir"))
            .await;
        let _ = scene
            .resources
            .delete(&reaches, &scene.uri("project/swap/deep"), true)
            .await;
        let _ = scene
            .resources
            .rename(&reaches, scene.transfer("project/swap/deep", "project/moved"))
            .await;
        let _ = scene.resources.delete(&reaches, &planted, false).await;
        if let Ok(list) = scene.resources.list(&reaches, &scene.uri("project/swap")).await {
            assert!(list.iter().all(|entry| entry.name != "deep"), "{list:?}");
        }
    }
    is_done.store(true, Ordering::Relaxed);
    swapping.join().expect("ended");
    let mut outside: Vec<_> = fs::read_dir(scene.path("outside")).expect("there").flatten().collect();
    outside.sort_by_key(fs::DirEntry::file_name);
    let names: Vec<_> = outside.iter().map(fs::DirEntry::file_name).collect();
    assert_eq!(names, ["deep", "secret"], "nothing came and nothing went");
    assert_eq!(fs::read_to_string(scene.path("outside/secret")).expect("there"), "hush");
}

/// A file that is replaced while its name is looked up is still called what it is called: every write
/// ends in it, and in no other file.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn res08_writes_of_many_all_end_in_the_one_file() {
    let scene = Arc::new(scene());
    scene.write("project/busy", "0").await.expect("written");
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let scene = Arc::clone(&scene);
        writers.spawn(async move {
            for round in 0..30 {
                let text = format!("{writer} {round}");
                scene.write("project/busy", &text).await.expect("written");
                scene
                    .read(&scene.project(), &scene.uri("project/busy"))
                    .await
                    .expect("there");
            }
        });
    }
    writers.join_all().await;
    let names: Vec<_> = fs::read_dir(scene.path("project")).expect("there").flatten().collect();
    let names: Vec<String> = names
        .iter()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().all(|name| !name.contains("deleted")), "{names:?}");
    // And a file may really be called that.
    scene.write("project/busy (deleted)", "mine").await.expect("written");
    let read = scene.read(&scene.project(), &scene.uri("project/busy (deleted)")).await;
    assert_eq!(read.expect("there"), "mine");
}
