//! Attempts to leave a root.

use super::*;

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
async fn sec03_no_client_reaches_the_hosts_own_data() {
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
        // Nor does anything take the place of that directory, a file or a directory.
        scene
            .resources
            .rename(&around, scene.transfer("outside", "project"))
            .await,
        scene
            .resources
            .rename(&around, scene.transfer("outside/secret", "project"))
            .await,
        scene
            .resources
            .copy(&around, scene.transfer("outside", "project"))
            .await,
        scene
            .resources
            .copy(&around, scene.transfer("outside/secret", "project"))
            .await,
        scene.resources.write(&around, scene.writing("project", "a file")).await,
    ] {
        assert!(is_denied(&outcome), "{outcome:?}");
    }
    let made = scene.resources.make_directory(&around, &scene.uri("project")).await;
    assert_eq!(made, Ok(()), "it is there, and stays what it is");
    assert_eq!(
        fs::read_to_string(scene.path("project/.inn/token")).expect("there"),
        "hush"
    );
    assert!(scene.path("outside/secret").exists());
}

#[tokio::test]
async fn sec03_no_link_on_the_way_to_the_hosts_own_data_goes() {
    // A client that removed the symlink could put a directory with a token of its own in its place.
    let scene = scene();
    symlink("project", scene.path("first")).expect("a link");
    symlink("first", scene.path("second")).expect("a link");
    let named = [scene.path("second/.inn")];
    let resources = LocalResources::new(ResourceLimits::default(), &named);
    let around = scene.reach("", true, false);
    for link in ["first", "second"] {
        for outcome in [
            resources.delete(&around, &scene.uri(link), false).await,
            resources.rename(&around, scene.transfer(link, "taken")).await,
            resources.rename(&around, scene.transfer("outside", link)).await,
        ] {
            assert!(is_denied(&outcome), "{link}: {outcome:?}");
        }
    }
    assert_eq!(
        fs::read_to_string(scene.path("second/.inn/token")).expect("there"),
        "hush"
    );
}

/// A client that could create it, or read it once the host has created it, would be an admin after a restart.
#[tokio::test]
async fn sec03_paths_of_the_hosts_data_are_refused_before_they_exist() {
    let scene = scene();
    symlink("outside", scene.path("secrets")).expect("a link");
    symlink(scene.path("outside/key"), scene.path("project/key")).expect("a link");
    let named = [
        scene.path("secrets/drive"),
        scene.path("project/config/host/host.toml"),
        scene.path("project/key"),
    ];
    let resources = LocalResources::new(ResourceLimits::default(), &named);
    let around = scene.reach("", true, false);
    for path in [
        "secrets/drive",
        "outside/drive",
        "project/config/host/host.toml",
        "outside/key",
    ] {
        let written = resources.write(&around, scene.writing(path, "mine")).await;
        assert!(is_denied(&written), "{path}: {written:?}");
        let moved = resources
            .rename(&around, scene.transfer("project/src/main.rs", path))
            .await;
        assert!(is_denied(&moved), "{path}: {moved:?}");
    }
    // Nor does anything take the place of a directory that it will be in.
    for path in ["project/config", "project/config/host", "secrets"] {
        let moved = resources.rename(&around, scene.transfer("outside/deep", path)).await;
        assert!(is_denied(&moved), "{path}: {moved:?}");
    }
    fs::write(scene.path("outside/drive"), "token").expect("a file");
    for path in ["secrets/drive", "outside/drive"] {
        let read = resources.read(&around, &scene.uri(path), 1000).await;
        assert!(is_denied(&read), "{path}: {read:?}");
    }
    let beside = resources
        .write(&around, scene.writing("project/config/host/other", "x"))
        .await;
    assert_eq!(beside, Ok(()), "only what is the host's own");
}

#[tokio::test]
async fn sec03_no_directory_with_a_link_to_the_hosts_own_data_goes() {
    let scene = scene();
    for home in ["home/one", "home/other"] {
        fs::create_dir_all(scene.path(home)).expect("a directory");
        symlink(scene.path("project"), scene.path(home).join("link")).expect("a link");
    }
    // However many lead through the one link, the other is known as well.
    let mut named: Vec<_> = (0..50)
        .map(|n| scene.path(&format!("home/one/link/.inn/{n}")))
        .collect();
    named.push(scene.path("home/other/link/.inn"));
    let resources = LocalResources::new(ResourceLimits::default(), &named);
    let around = scene.reach("", true, false);
    for directory in ["home", "home/one", "home/other", "home/one/link", "home/other/link"] {
        for outcome in [
            resources.delete(&around, &scene.uri(directory), true).await,
            resources.rename(&around, scene.transfer(directory, "taken")).await,
            resources.rename(&around, scene.transfer("outside", directory)).await,
            resources.copy(&around, scene.transfer("outside", directory)).await,
        ] {
            assert!(is_denied(&outcome), "{directory}: {outcome:?}");
        }
    }
    assert_eq!(
        fs::read_to_string(scene.path("home/other/link/.inn/token")).expect("there"),
        "hush"
    );
    fs::create_dir(scene.path("home/one/beside")).expect("a directory");
    let beside = resources.delete(&around, &scene.uri("home/one/beside"), true).await;
    assert_eq!(beside, Ok(()), "only what leads there stays");
}

#[tokio::test]
async fn res17_processes_devices_and_pipes_are_no_files() {
    let scene = scene();
    let everything = vec![AllowedRoot {
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
    // Also for who works in them.
    for root in ["file:///proc/self", "file:///proc", "file:///dev", "file:///sys"] {
        let reaches = vec![AllowedRoot {
            uri: root.to_owned(),
            write: true,
            exact: false,
        }];
        for uri in [
            format!("{root}/environ"),
            format!("{root}/self/environ"),
            root.to_owned(),
        ] {
            let read = scene.read(&reaches, &uri).await;
            assert!(read.is_err(), "{uri}: {read:?}");
            let listed = scene.resources.list(&reaches, &uri).await;
            assert!(listed.is_err(), "{uri}: {listed:?}");
        }
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("project/pipe"), rustix::fs::Mode::RUSR).expect("a pipe");
    let read = scene.read(&scene.project(), &scene.uri("project/pipe")).await;
    assert!(
        matches!(read, Err(ResourceError::Refused(_))),
        "and no caller waits for it: {read:?}"
    );
    let written = scene.write("project/pipe", "x").await;
    assert!(matches!(written, Err(ResourceError::Refused(_))), "{written:?}");
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
    // The granted path is now a symlink, or behind one.
    symlink("secret", scene.path("outside/link")).expect("a link");
    let link = scene.reach("outside/link", false, true);
    let read = scene.read(&link, &scene.uri("outside/link")).await;
    assert!(is_denied(&read), "{read:?}");
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
            prop::sample::select(vec![
                "..", ".", "%2e%2e", "src", "main.rs", "up", "out", "out/secret", "whole", "whole/outside",
                "whole/outside/secret", "outside", "secret", "project", "", "new",
            ]),
            0..8,
        ),
    ) {
        let scene = scene();
        symlink("..", scene.path("project/src/up")).expect("a link");
        symlink("../outside", scene.path("project/out")).expect("a link");
        // An absolute one, and not to the root of the machine: should it ever be followed, a test deletes what is there.
        symlink(scene.path(""), scene.path("project/whole")).expect("a link");
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
