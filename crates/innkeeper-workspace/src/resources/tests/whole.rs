//! A client that may look at the whole file system, as a folder picker does.

use super::*;

fn everything() -> Vec<AllowedRoot> {
    vec![AllowedRoot {
        uri: "file:///".to_owned(),
        write: false,
        exact: false,
    }]
}

#[tokio::test]
async fn res01_absolute_symlinks_are_followed_when_everything_is_visible() {
    // The directory for temporary files may be in `/dev`, which is never visible.
    let scene = scene_in(tempfile::tempdir_in("/var/tmp").expect("a directory"));
    let target = scene.path("outside");
    symlink(&target, scene.path("project/away")).expect("a link");
    symlink(scene.path("outside/secret"), scene.path("project/file")).expect("a link");
    let listed = scene.resources.list(&everything(), &scene.uri("project")).await;
    let kinds: Vec<(String, EntryKind)> = listed
        .expect("listed")
        .into_iter()
        .map(|entry| (entry.name, entry.kind))
        .collect();
    assert!(kinds.contains(&("away".to_owned(), EntryKind::Directory)), "{kinds:?}");
    assert!(kinds.contains(&("file".to_owned(), EntryKind::File)), "{kinds:?}");
    let listed = scene
        .resources
        .list(&everything(), &format!("{}/away", scene.uri("project")))
        .await;
    assert_eq!(listed.expect("listed").len(), 2);
    let away = format!("{}/away", scene.uri("project"));
    let found = scene
        .resources
        .resolve(&everything(), &away, true)
        .await
        .expect("there");
    assert_eq!((found.kind, found.uri), (ResourceKind::Directory, scene.uri("outside")));
    let found = scene
        .resources
        .resolve(&everything(), &away, false)
        .await
        .expect("there");
    assert_eq!(found.kind, ResourceKind::Symlink);
    let below = format!("{away}/deep");
    let found = scene
        .resources
        .resolve(&everything(), &below, false)
        .await
        .expect("there");
    assert_eq!(found.kind, ResourceKind::Directory);
    // A session that works there is still confined to it.
    let confined = scene.resources.list(&scene.project(), &away).await;
    assert!(matches!(confined, Err(ResourceError::Refused(_))), "{confined:?}");
    // Both together are what a client has that browses and works there.
    let mut both = scene.project();
    both.extend(everything());
    assert_eq!(scene.resources.list(&both, &away).await.expect("listed").len(), 2);
}

#[tokio::test]
async fn sec03_a_grant_for_everything_excludes_the_hosts_own_data() {
    let scene = scene();
    symlink(scene.path("project/.inn"), scene.path("outside/inn")).expect("a link");
    for uri in [scene.uri("project/.inn"), format!("{}/inn", scene.uri("outside"))] {
        for follow in [true, false] {
            let found = scene
                .resources
                .resolve(&everything(), &format!("{uri}/token"), follow)
                .await;
            assert!(matches!(found, Err(ResourceError::Refused(_))), "{uri}: {found:?}");
        }
        let listed = scene.resources.list(&everything(), &uri).await;
        assert!(matches!(listed, Err(ResourceError::Refused(_))), "{uri}: {listed:?}");
    }
    for system in ["file:///proc", "file:///sys/kernel", "file:///dev"] {
        let listed = scene.resources.list(&everything(), system).await;
        assert!(matches!(listed, Err(ResourceError::Refused(_))), "{system}: {listed:?}");
    }
    let nowhere = scene
        .resources
        .list(&everything(), "file:///no-such-directory-here")
        .await;
    assert!(matches!(nowhere, Err(ResourceError::NotFound(_))), "{nowhere:?}");
}
