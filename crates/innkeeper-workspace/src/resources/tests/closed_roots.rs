//! Errors for roots that were granted and cannot be opened.

use super::*;

#[tokio::test]
async fn res16_a_place_that_is_not_there_is_not_found_and_nothing_to_ask_for() {
    let scene = scene();
    let absent = scene.reach("absent", true, false);
    let granted = scene.reach("no/such", true, true);
    let below_a_file = scene.reach("outside/secret", true, true);
    for (reaches, path) in [
        (&absent, "absent"),
        (&absent, "absent/file"),
        (&granted, "no/such"),
        (&below_a_file, "outside/secret/below"),
    ] {
        let uri = scene.uri(path);
        let write = scene.writing(path, "x");
        let (sink, _receiver) = ChangeSink::channel();
        let watching = WatchSpec {
            uri: uri.clone(),
            recursive: false,
            includes: None,
            excludes: None,
        };
        for outcome in [
            scene.read(reaches, &uri).await.map(drop),
            scene.resources.list(reaches, &uri).await.map(drop),
            scene.resources.resolve(reaches, &uri, true).await.map(drop),
            scene.resources.write(reaches, write).await,
            scene.resources.watch(reaches, &watching, sink).await.map(drop),
        ] {
            assert!(
                matches!(outcome, Err(ResourceError::NotFound(_))),
                "{path}: {outcome:?}"
            );
        }
    }
    // Another place that it is in counts.
    let both = [absent, scene.reach("", true, false)].concat();
    assert_eq!(
        scene.resources.write(&both, scene.writing("absent/file", "x")).await,
        Ok(())
    );
}

#[tokio::test]
async fn res14_a_grant_behind_a_symlink_names_the_path_to_request() {
    let scene = scene();
    symlink("outside", scene.path("link")).expect("a link");
    let granted = scene.reach("link", true, true);
    for (path, really) in [("link", "outside"), ("link/secret", "outside/secret")] {
        let refused = scene.read(&granted, &scene.uri(path)).await;
        let expected = ResourceError::Outside {
            uri: scene.uri(really),
            write: false,
        };
        assert_eq!(refused, Err(expected), "{path}");
    }
    // With that, both names lead there.
    let helped = [granted, scene.reach("outside/secret", false, true)].concat();
    for path in ["outside/secret", "link/secret"] {
        let read = scene.read(&helped, &scene.uri(path)).await;
        assert_eq!(read.as_deref(), Ok("hush"), "{path}");
    }
    symlink("nowhere", scene.path("dangling")).expect("a link");
    let dangling = scene.reach("dangling", false, true);
    let read = scene.read(&dangling, &scene.uri("dangling")).await;
    assert!(matches!(read, Err(ResourceError::NotFound(_))), "{read:?}");
}

#[tokio::test]
async fn sec04_abandoned_work_stops_and_releases_its_permit() {
    let scene = scene();
    for _ in 0..2 * MAX_AT_ONCE {
        let work = scene.resources.run_while_waited(&[], |_, _, is_over| {
            while !is_over() {
                std::thread::yield_now();
            }
            Ok(())
        });
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(20), work).await;
        assert!(given_up.is_err(), "it never ends by itself");
    }
    assert_eq!(
        scene
            .read(&scene.project(), &scene.uri("project/src/main.rs"))
            .await
            .as_deref(),
        Ok("fn main() {}")
    );
}

/// Directories in directories that no path is long enough for.
#[tokio::test]
async fn sec04_deeply_nested_directories_are_deleted_and_not_watched() {
    let scene = scene();
    let deep = vec!["a"; 1000].join("/");
    for part in ["one", "two"] {
        let made = scene
            .resources
            .make_directory(&scene.project(), &scene.uri(&format!("project/{part}/{deep}")))
            .await;
        assert_eq!(made, Ok(()));
    }
    let into = scene.transfer("project/two", &format!("project/one/{deep}/two"));
    assert_eq!(scene.resources.rename(&scene.project(), into).await, Ok(()));
    let resources = LocalResources::new(ResourceLimits::default(), &[]);
    let (sink, _receiver) = ChangeSink::channel();
    let watching = WatchSpec {
        uri: scene.uri("project"),
        recursive: true,
        includes: None,
        excludes: None,
    };
    let watched = resources.watch(&scene.project(), &watching, sink).await;
    assert!(matches!(watched, Err(ResourceError::Invalid { field: "uri", .. })));
    let uri = scene.uri("project/one");
    assert_eq!(scene.resources.delete(&scene.project(), &uri, true).await, Ok(()));
    assert!(!scene.path("project/one").exists());
}
