//! Writing files, and its limits.

use super::*;

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
    // A missing file is created in every mode, with the directories it is in (RES-04).
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
async fn res07_of_two_writers_with_the_same_etag_one_succeeds() {
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
async fn res18_too_long_uris_are_refused() {
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
