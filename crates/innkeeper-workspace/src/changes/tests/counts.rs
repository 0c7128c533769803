//! The numbers of changed files and lines in summaries.

use super::*;

fn counted(files: u64, additions: u64, deletions: u64) -> Option<CountedChanges> {
    Some(CountedChanges {
        files,
        additions,
        deletions,
    })
}

#[tokio::test]
async fn ses17_changes_are_counted_as_they_are_on_disk() {
    let repository = TestRepository::new();
    repository.write("before.txt", "not of the session\n");
    let directories = repository.view(Session).directories;
    let now = || repository.changes.count(SESSION, &directories);
    assert_eq!(now().await, None, "nothing is recorded yet");
    assert_eq!(repository.turn("t1", TurnPhase::Before).await, None);
    repository.write("a.txt", "one\ntwo\nthree\n4\n5\n6\n");
    assert_eq!(repository.turn("t1", TurnPhase::After).await, counted(1, 3, 0));
    repository.turn("t2", TurnPhase::Before).await;
    repository.write("a.txt", "one\ntwo\nthree\n");
    assert_eq!(repository.turn("t2", TurnPhase::After).await, counted(0, 0, 0));
    repository.turn("t3", TurnPhase::Before).await;
    repository.write("sub/b.txt", "B\n");
    repository.write("new/c.txt", "c\n");
    repository.git(&["init", "--quiet", "new"]);
    fs::write(repository.path("large"), vec![b'\n'; 17 << 20]).expect("a file");
    assert_eq!(repository.turn("t3", TurnPhase::After).await, counted(3, 2, 1));
    repository.git(&["commit", "--quiet", "-am", "A commit in between"]);
    assert_eq!(now().await, counted(3, 2, 1));
    let only = [repository.uri("sub")];
    assert_eq!(repository.changes.count(SESSION, &only).await, counted(1, 1, 1));
    fs::remove_file(repository.path("large")).expect("removed");
    repository.invoke(Session, "discard", None).await.expect("reverted");
    assert_eq!(now().await, counted(0, 0, 0));
    assert_eq!(TestRepository::without_git().turn("t1", TurnPhase::After).await, None);
}
