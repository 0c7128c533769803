//! Operations on work trees whose files, directories and symlinks took each other's place.

use super::*;

fn paths(repository: &TestRepository) -> Vec<String> {
    let status = repository.git(&[
        "-c",
        "core.quotePath=false",
        "status",
        "--porcelain",
        "--untracked-files=all",
    ]);
    status.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn chg11_nothing_outside_is_written_through_a_symlinked_directory() {
    let repository = TestRepository::new();
    let elsewhere = repository.directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    fs::write(elsewhere.join("b.txt"), "not of the repository\n").expect("a file");
    fs::remove_dir_all(repository.path("sub")).expect("removed");
    symlink(&elsewhere, repository.path("sub")).expect("a symlink");
    let mut told = repository.told(Uncommitted).await;
    told.sort_unstable();
    assert_eq!(told, ["A sub +1 -0", "D sub/b.txt +0 -1"]);
    let refused = repository
        .invoke(Uncommitted, "discard", Some(("sub/b.txt", None)))
        .await
        .expect_err("in the way");
    assert!(refused.message().contains("sub is a symlink now"), "{refused:?}");
    repository.invoke(Uncommitted, "stage", None).await.expect("staged");
    assert_eq!(paths(&repository), ["A  sub", "D  sub/b.txt"]);
    repository
        .invoke(Uncommitted, "discard", None)
        .await
        .expect("discarded");
    assert_eq!(repository.read("sub/b.txt").as_deref(), Some("b\n"));
    repository
        .invoke(Uncommitted, "undo-discard", None)
        .await
        .expect("undone");
    assert_eq!(fs::read_link(repository.path("sub")).ok(), Some(elsewhere.clone()));
    let outside = fs::read_to_string(elsewhere.join("b.txt")).expect("a file");
    assert_eq!(outside, "not of the repository\n");
    assert_eq!(fs::read_dir(&elsewhere).expect("a directory").count(), 1);
}

#[tokio::test]
async fn chg11_a_file_and_a_directory_that_changed_places_are_discarded() {
    let repository = TestRepository::new();
    fs::remove_file(repository.path("a.txt")).expect("removed");
    repository.write("a.txt/deep/new.txt", "new\n");
    fs::remove_dir_all(repository.path("sub")).expect("removed");
    repository.write("sub", "a file\n");
    let mut told = repository.told(Uncommitted).await;
    told.sort_unstable();
    let expected = [
        "A a.txt/deep/new.txt +1 -0",
        "A sub +1 -0",
        "D a.txt +0 -3",
        "D sub/b.txt +0 -1",
    ];
    assert_eq!(told, expected);
    let refused = repository
        .invoke(Uncommitted, "discard", Some(("a.txt", None)))
        .await
        .expect_err("files in the way");
    assert!(
        refused.message().contains("a directory now, with deep/new.txt in it"),
        "{refused:?}"
    );
    repository
        .invoke(Uncommitted, "discard", None)
        .await
        .expect("discarded");
    assert_eq!(paths(&repository), [] as [&str; 0]);
    repository
        .invoke(Uncommitted, "undo-discard", None)
        .await
        .expect("undone");
    let mut told = repository.told(Uncommitted).await;
    told.sort_unstable();
    assert_eq!(told, expected);
    repository
        .invoke(Uncommitted, "redo-discard", None)
        .await
        .expect("redone");
    assert_eq!(paths(&repository), [] as [&str; 0]);
    repository
        .invoke(Uncommitted, "undo-discard", None)
        .await
        .expect("undone");
    repository.invoke(Uncommitted, "commit", None).await.expect("committed");
    assert_eq!(paths(&repository), [] as [&str; 0]);
}

#[tokio::test]
async fn chg11_a_revert_leaves_the_directory_of_the_session() {
    let mut repository = TestRepository::without_git();
    repository.write("only.txt", "x\n");
    let (turn_id, file) = ("t1".to_owned(), repository.uri("only.txt"));
    repository.edits.push(RecordedEdit {
        turn: turn_id,
        file,
        before: None,
    });
    repository.invoke(turn("t1"), "revert", None).await.expect("reverted");
    assert!(repository.work.exists() && repository.read("only.txt").is_none());
    repository.invoke(Session, "undo-discard", None).await.expect("undone");
    assert_eq!(repository.read("only.txt").as_deref(), Some("x\n"));
    // In a repository, the same holds for the directory that the session works in.
    let repository = TestRepository::new();
    repository.write("app/src/new.txt", "x\n");
    let view = ChangesetView {
        directories: vec![repository.uri("app")],
        ..repository.view(Uncommitted)
    };
    let request = OperationRequest {
        id: "discard".to_owned(),
        target: None,
        values: Map::new(),
    };
    repository.changes.invoke(view, request).await.expect("discarded");
    assert!(repository.path("app").exists() && !repository.path("app/src").exists());
}

#[tokio::test]
async fn chg11_operations_of_a_session_do_not_mix() {
    let repository = TestRepository::new();
    repository.write("a.txt", "1\n");
    repository.write("sub/b.txt", "2\n");
    let request = |id: &str, target: Option<&str>| OperationRequest {
        id: id.to_owned(),
        target: target.map(|name| OperationTarget {
            resource: repository.uri(name),
            is_before: false,
            lines: None,
        }),
        values: Map::new(),
    };
    let invoke = |request| repository.changes.invoke(repository.view(Uncommitted), request);
    invoke(request("discard", Some("a.txt"))).await.expect("discarded");
    for _ in 0..10 {
        // Whichever comes first: both are carried out as a whole, and both can be reversed.
        let (one, other) = tokio::join!(
            invoke(request("undo-discard", None)),
            invoke(request("discard", Some("sub/b.txt")))
        );
        one.expect("undone");
        other.expect("discarded");
        while invoke(request("undo-discard", None)).await.is_ok() {}
        assert_eq!(repository.read("a.txt").as_deref(), Some("1\n"));
        assert_eq!(repository.read("sub/b.txt").as_deref(), Some("2\n"));
        invoke(request("discard", Some("a.txt"))).await.expect("discarded");
    }
}

#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_hinders_no_other_change() {
    let repository = TestRepository::new();
    fs::remove_file(repository.path("a.txt")).expect("removed");
    let made = Command::new("mkfifo").arg(repository.path("a.txt")).status();
    assert!(made.expect("mkfifo runs").success());
    repository.write("sub/b.txt", "B\n");
    let computed = repository.compute(Uncommitted).await.expect("computed");
    let told: Vec<String> = computed.files.iter().map(|file| repository.tell(file)).collect();
    assert_eq!(told, ["M a.txt", "M sub/b.txt +1 -1"]);
    assert!(computed.files[0].note.is_omitted);
    let refused = repository
        .invoke(Uncommitted, "discard", Some(("a.txt", None)))
        .await
        .expect_err("there is no copy of a pipe");
    assert!(refused.message().contains("cannot be read"), "{refused:?}");
    repository
        .invoke(Uncommitted, "commit", None)
        .await
        .expect("the rest is committed");
    assert_eq!(repository.told(Uncommitted).await, ["M a.txt"]);
}

#[tokio::test]
async fn chg11_only_a_work_tree_of_the_host_is_offered_for_removal() {
    let mut repository = TestRepository::new();
    let has = |computed: &ComputedChangeset, id: &str| computed.operations.iter().any(|offer| offer.id == id);
    let user = repository.directory.path().join("work tree.worktrees/mine");
    repository.git(&[
        "worktree",
        "add",
        "--quiet",
        "-b",
        "innkeeper/mine",
        user.to_str().expect("text"),
    ]);
    let main = std::mem::replace(&mut repository.work, fs::canonicalize(user).expect("a path"));
    let computed = repository.compute(Session).await.expect("computed");
    assert!(has(&computed, "apply") && !has(&computed, "remove-worktree"));
    let request = OperationRequest {
        id: "remove-worktree".to_owned(),
        target: None,
        values: Map::new(),
    };
    let refused = repository.changes.invoke(repository.view(Session), request).await;
    assert!(refused.expect_err("not of the host").message().contains("did not make"));
    repository.work = main;
    let linked = repository
        .changes
        .isolate(SESSION, &repository.uri(""))
        .await
        .expect("a work tree");
    repository.work = uri::to_path(&linked).expect("a path");
    let computed = repository.compute(Session).await.expect("computed");
    let remove = computed.operations.iter().find(|offer| offer.id == "remove-worktree");
    let question = remove
        .and_then(|offer| offer.confirmation.as_deref())
        .expect("a question");
    assert!(question.contains("files in it that Git ignores"), "{question}");
}

#[tokio::test]
async fn chg11_the_files_of_the_view_are_applied_and_no_others() {
    let mut repository = TestRepository::new();
    let main = repository.work.clone();
    let linked = repository
        .changes
        .isolate(SESSION, &repository.uri(""))
        .await
        .expect("a work tree");
    repository.work = uri::to_path(&linked).expect("a path");
    repository.turn("t1", TurnPhase::Before).await;
    repository.write("a.txt", "outside\n");
    repository.write("sub/b.txt", "inside\n");
    let large = fs::File::create(repository.path("sub/large")).expect("a file");
    large.set_len(1 << 30).expect("a sparse file");
    let view = ChangesetView {
        directories: vec![repository.uri("sub")],
        ..repository.view(Session)
    };
    let request = OperationRequest {
        id: "apply".to_owned(),
        target: None,
        values: Map::new(),
    };
    let outcome = repository.changes.invoke(view, request).await.expect("applied");
    let expected = format!(
        "Applied 1 changed file to {}; 1 file cannot be stored and was left out.",
        main.display()
    );
    assert_eq!(outcome.message, expected);
    assert_eq!(git_in(&main, &["status", "--porcelain"]), " M sub/b.txt");
    assert_eq!(fs::read_to_string(main.join("sub/b.txt")).expect("a file"), "inside\n");
}
