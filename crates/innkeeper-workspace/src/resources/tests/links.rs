//! Links by their own names: what is moved onto them, and what they are moved onto.

use super::*;

fn text(scene: &Fixture, path: &str) -> String {
    fs::read_to_string(scene.path(path)).unwrap_or_default()
}

#[tokio::test]
async fn res10_a_symlink_cannot_replace_its_own_target() {
    let scene = scene();
    fs::create_dir(scene.path("project/dir")).expect("a directory");
    fs::write(scene.path("project/dir/real.txt"), "precious").expect("a file");
    symlink("dir/real.txt", scene.path("project/link")).expect("a link");
    symlink("link", scene.path("project/second")).expect("a link");
    for (source, destination) in [
        ("link", "link"),
        ("link", "dir/real.txt"),
        ("link", "dir"),
        ("second", "link"),
        ("second", "second"),
        ("second", "dir/real.txt"),
    ] {
        for fail_if_exists in [false, true] {
            let mut transfer = scene.transfer(&format!("project/{source}"), &format!("project/{destination}"));
            transfer.fail_if_exists = fail_if_exists;
            let moved = scene.resources.rename(&scene.project(), transfer).await;
            assert!(
                matches!(
                    moved,
                    Err(ResourceError::Invalid {
                        field: "destination",
                        ..
                    })
                ),
                "{source} to {destination}: {moved:?}"
            );
            assert_eq!(text(&scene, "project/second"), "precious", "{source} to {destination}");
        }
    }
}

#[tokio::test]
async fn res10_replacing_a_symlink_keeps_its_target() {
    let scene = scene();
    fs::write(scene.path("project/real.txt"), "precious").expect("a file");
    fs::write(scene.path("project/new.txt"), "new").expect("a file");
    symlink("real.txt", scene.path("project/link")).expect("a link");
    symlink("src", scene.path("project/sources")).expect("a link");
    let moving = scene.transfer("project/new.txt", "project/link");
    scene.resources.rename(&scene.project(), moving).await.expect("moved");
    assert_eq!(text(&scene, "project/link"), "new");
    assert_eq!(text(&scene, "project/real.txt"), "precious");
    let moving = scene.transfer("project/link", "project/sources");
    scene.resources.rename(&scene.project(), moving).await.expect("moved");
    assert_eq!(text(&scene, "project/sources"), "new");
    assert_eq!(text(&scene, "project/src/main.rs"), "fn main() {}");
    // On the way to a name a link leads where it leads.
    symlink("src", scene.path("project/there")).expect("a link");
    let moving = scene.transfer("project/sources", "project/there/moved");
    scene.resources.rename(&scene.project(), moving).await.expect("moved");
    assert_eq!(text(&scene, "project/src/moved"), "new");
}

#[tokio::test]
async fn res04_res10_res13_a_link_that_leads_nowhere_has_its_name() {
    let scene = scene();
    let dangling = scene.path("project/dangling");
    symlink("nowhere", &dangling).expect("a link");
    let mut transfer = scene.transfer("project/src/main.rs", "project/dangling");
    transfer.fail_if_exists = true;
    let mut create = scene.writing("project/dangling", "x");
    create.create_only = true;
    for outcome in [
        scene.resources.rename(&scene.project(), transfer.clone()).await,
        scene.resources.copy(&scene.project(), transfer).await,
        scene
            .resources
            .make_directory(&scene.project(), &scene.uri("project/dangling"))
            .await,
        scene.resources.write(&scene.project(), create).await,
    ] {
        assert!(matches!(outcome, Err(ResourceError::Exists(_))), "{outcome:?}");
    }
    assert!(dangling.is_symlink() && !scene.path("project/nowhere").exists());
}

#[tokio::test]
async fn res09_symlinks_are_listed_as_their_target_without_non_utf8_names() {
    use std::os::unix::ffi::OsStrExt as _;
    let scene = scene();
    fs::create_dir_all(scene.path("project/packages/a/modules")).expect("a directory");
    let list = scene.path("project/packages/a/modules");
    symlink("../../../src", list.join("sibling")).expect("a link");
    symlink("../../../src/main.rs", list.join("file")).expect("a link");
    symlink(scene.path("outside"), list.join("out")).expect("a link");
    // Some file systems have no such names.
    let _ = fs::write(list.join(std::ffi::OsStr::from_bytes(b"\xff.txt")), "");
    let entries = scene
        .resources
        .list(&scene.project(), &scene.uri("project/packages/a/modules"))
        .await
        .expect("listed");
    let entries: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    assert_eq!(
        entries,
        [
            ("file", EntryKind::File),
            ("out", EntryKind::File),
            ("sibling", EntryKind::Directory)
        ]
    );
}
