//! Files, directories and links by their names.

use super::*;

#[tokio::test]
async fn res12_a_symlink_is_its_target_or_itself() {
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
