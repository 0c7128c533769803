//! Changes that the repository around them does not show: in repositories inside of it, and in ignored files.

use super::*;

#[tokio::test]
async fn chg02_repositories_inside_of_others_are_shown() {
    let repository = TestRepository::new();
    repository.turn("t1", TurnPhase::Before).await;
    repository.write("lib/new/c.txt", "c\n");
    repository.git(&["init", "--quiet", "lib/new"]);
    repository.write("a.txt", "1\n");
    let changed = ["M a.txt +1 -3", "A lib/new/c.txt +1 -0"];
    assert_eq!(repository.told(turn("t1")).await, changed);
    repository.turn("t1", TurnPhase::After).await;
    repository.turn("t2", TurnPhase::Before).await;
    repository.write("lib/new/c.txt", "c\nd\n");
    repository.turn("t2", TurnPhase::After).await;
    assert_eq!(repository.told(turn("t1")).await, changed);
    assert_eq!(repository.told(turn("t2")).await, ["M lib/new/c.txt +1 -0"]);
    assert_eq!(
        repository.told(Session).await,
        ["M a.txt +1 -3", "A lib/new/c.txt +2 -0"]
    );
    assert_eq!(
        repository.told(Uncommitted).await,
        ["M a.txt +1 -3", "A lib/new/c.txt +2 -0"]
    );
    let turns = ChangesetSource::Turns {
        original: "t1".into(),
        modified: "t2".into(),
    };
    assert_eq!(repository.told(turns).await, ["M lib/new/c.txt +1 -0"]);
    // A view of another directory has nothing of it.
    let view = ChangesetView {
        directories: vec![repository.uri("sub")],
        ..repository.view(Session)
    };
    let computed = repository.changes.inner.compute(&view).await.expect("computed");
    assert_eq!(computed.files, []);
    repository.invoke(turn("t2"), "revert", None).await.expect("reverted");
    assert_eq!(repository.read("lib/new/c.txt").as_deref(), Some("c\n"));
    // After the repository inside is gone, its files are those of the one around it.
    fs::remove_dir_all(repository.path("lib/new/.git")).expect("removed");
    assert_eq!(
        repository.told(Uncommitted).await,
        ["M a.txt +1 -3", "A lib/new/c.txt +1 -0"]
    );
}

/// The turn in which a submodule came is not about the files that it had later.
#[tokio::test]
async fn chg02_a_work_tree_that_came_later_does_not_spoil_earlier_turns() {
    let repository = TestRepository::new();
    repository.turn("t1", TurnPhase::Before).await;
    repository.write("a.txt", "1\n");
    repository.turn("t1", TurnPhase::After).await;
    let top = repository.directory.path();
    git_in(
        top,
        &["clone", "--quiet", repository.work.to_str().expect("text"), "library"],
    );
    let library = top.join("library");
    repository.git(&[
        "submodule",
        "--quiet",
        "add",
        library.to_str().expect("text"),
        "vendored",
    ]);
    assert_eq!(repository.told(turn("t1")).await, ["M a.txt +1 -3"]);
    // A further work tree began with the commit that it was made of.
    repository.git(&["worktree", "add", "--quiet", "-b", "other", "trees/other"]);
    repository.write("trees/other/sub/b.txt", "B\n");
    let told = repository.told(Session).await;
    assert!(told.contains(&"M trees/other/sub/b.txt +1 -1".to_owned()), "{told:?}");
    assert!(!told.iter().any(|it| it.contains("trees/other/a.txt")), "{told:?}");
}

#[tokio::test]
async fn chg02_ignored_files_that_a_tool_changed_are_shown_and_reverted() {
    let mut repository = TestRepository::new();
    repository.write(".gitignore", ".env\nbuild/\n");
    repository.write(".env", "A=1\n");
    repository.git(&["add", "."]);
    repository.git(&["commit", "--quiet", "-m", "Ignore"]);
    repository.turn("t1", TurnPhase::Before).await;
    let before = content::inline(b"A=1\n", &repository.uri(".env"));
    repository.write(".env", "A=1\nB=2\n");
    repository.write("build/out.txt", "x\n");
    repository.write("a.txt", "1\n");
    repository.write("build/by a command.txt", "x\n");
    for (name, before) in [(".env", Some(before)), ("build/out.txt", None), ("a.txt", None)] {
        let (turn, file) = ("t1".to_owned(), repository.uri(name));
        repository.edits.push(RecordedEdit { turn, file, before });
    }
    repository.turn("t1", TurnPhase::After).await;
    let changed = ["M a.txt +1 -3", "M .env +1 -0", "A build/out.txt +1 -0"];
    assert_eq!(repository.told(turn("t1")).await, changed);
    assert_eq!(repository.told(Session).await, changed);
    assert_eq!(repository.told(Uncommitted).await, ["M a.txt +1 -3"]);
    repository.invoke(turn("t1"), "revert", None).await.expect("reverted");
    assert_eq!(repository.read(".env").as_deref(), Some("A=1\n"));
    assert_eq!(repository.read("a.txt").as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(repository.read("build/out.txt"), None);
    assert!(repository.path("build/by a command.txt").exists());
    repository
        .invoke(turn("t1"), "undo-discard", None)
        .await
        .expect("undone");
    assert_eq!(repository.told(turn("t1")).await, changed);
}
