//! New files have the permissions of the user's files, and not those of the host's own.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn mode(scene: &Fixture, path: &str) -> u32 {
    let data = fs::symlink_metadata(scene.path(path)).expect("there");
    data.permissions().mode() & 0o777
}

#[tokio::test]
async fn new_files_have_the_permissions_of_the_users_files() {
    let mut scene = scene();
    scene.resources = scene.resources.with_umask(0o007);
    scene.write("project/new/deep/file", "1").await.expect("written");
    assert_eq!(mode(&scene, "project/new/deep/file"), 0o660);
    assert_eq!(
        (mode(&scene, "project/new"), mode(&scene, "project/new/deep")),
        (0o770, 0o770)
    );
    let made = scene.uri("project/made/inner");
    let made = scene.resources.make_directory(&scene.project(), &made).await;
    made.expect("made");
    assert_eq!(
        (mode(&scene, "project/made"), mode(&scene, "project/made/inner")),
        (0o770, 0o770)
    );
    // A copy has the files as they were, in directories of its own.
    fs::set_permissions(scene.path("project/src/main.rs"), fs::Permissions::from_mode(0o755)).expect("set");
    let transfer = scene.transfer("project/src", "project/copied/src");
    scene.resources.copy(&scene.project(), transfer).await.expect("copied");
    assert_eq!(mode(&scene, "project/copied/src/main.rs"), 0o755);
    assert_eq!(
        (mode(&scene, "project/copied"), mode(&scene, "project/copied/src")),
        (0o770, 0o770)
    );
}

#[tokio::test]
async fn existing_files_keep_their_permissions() {
    let mut scene = scene();
    scene.resources = scene.resources.with_umask(0o007);
    for (path, kept) in [("project/src", 0o711), ("project/src/main.rs", 0o604)] {
        fs::set_permissions(scene.path(path), fs::Permissions::from_mode(kept)).expect("set");
    }
    scene.write("project/src/main.rs", "other").await.expect("written");
    assert_eq!(
        (mode(&scene, "project/src"), mode(&scene, "project/src/main.rs")),
        (0o711, 0o604)
    );
}

#[tokio::test]
async fn cus23_a_place_that_is_made_is_no_exception() {
    let mut scene = scene();
    let place = scene.path("home/.agents/skills");
    scene.resources = scene.resources.making(vec![place]).with_umask(0o007);
    let reaches = scene.reach("home/.agents/skills", true, false);
    let write = scene.writing("home/.agents/skills/mine/SKILL.md", "text");
    scene.resources.write(&reaches, write).await.expect("written");
    for directory in [
        "home",
        "home/.agents",
        "home/.agents/skills",
        "home/.agents/skills/mine",
    ] {
        assert_eq!(mode(&scene, directory), 0o770, "{directory}");
    }
    assert_eq!(mode(&scene, "home/.agents/skills/mine/SKILL.md"), 0o660);
}
