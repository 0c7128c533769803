//! The objects that snapshots store, and when they go.

use super::*;

const OTHER: &str = "ahp-session:/two";

/// The number of stored objects.
fn stored(repository: &TestRepository) -> usize {
    let stores = fs::read_dir(repository.changes.inner.directory.join("trees")).expect("stores");
    let objects = stores.flat_map(|store| {
        let objects = fs::read_dir(store.expect("a store").path().join("objects")).expect("objects");
        objects.map(|entry| entry.expect("an entry").path())
    });
    let objects = objects.filter(|path| path.file_name().is_some_and(|name| name.len() == 2));
    objects.map(|path| fs::read_dir(path).expect("objects").count()).sum()
}

fn has(repository: &TestRepository, text: &str) -> bool {
    let id = {
        let file = repository.directory.path().join("content");
        fs::write(&file, text).expect("a file");
        repository.git(&["hash-object", file.to_str().expect("text")])
    };
    let (prefix, rest) = id.split_at(2);
    let stores = fs::read_dir(repository.changes.inner.directory.join("trees")).expect("stores");
    stores
        .flatten()
        .any(|store| store.path().join("objects").join(prefix).join(rest).exists())
}

/// The service as another process has it.
fn restarted(repository: TestRepository) -> TestRepository {
    let data = repository.changes.inner.directory.clone();
    TestRepository {
        changes: LocalChanges::new(data, repository.contents.clone(), environment()),
        ..repository
    }
}

#[tokio::test]
async fn a_store_shrinks_to_the_checkpoints_of_its_sessions() {
    let repository = TestRepository::new();
    repository.turn("t1", TurnPhase::Before).await;
    repository.write("sub/b.txt", "B\n");
    repository.turn("t1", TurnPhase::After).await;
    for number in 0..50 {
        repository.write("log.txt", &"line\n".repeat(number));
        repository.compute(Uncommitted).await.expect("computed");
    }
    let grown = stored(&repository);
    assert!(grown > 100, "{grown} objects");
    // Contents that clients may read at the moment stay.
    repository.changes.inner.collect(&repository.work).await;
    assert!(has(&repository, &"line\n".repeat(30)));
    let repository = restarted(repository);
    repository.compute(Uncommitted).await.expect("computed");
    repository.changes.sweep(|| Some(vec![SESSION.to_owned()])).await;
    let shrunk = stored(&repository);
    assert!(shrunk < 10, "{shrunk} objects");
    assert!(has(&repository, "B\n") && !has(&repository, &"line\n".repeat(30)));
    assert_eq!(repository.told(turn("t1")).await, ["M sub/b.txt +1 -1"]);
    assert_eq!(
        repository.told(Session).await,
        ["A log.txt +49 -0", "M sub/b.txt +1 -1"]
    );
    repository.write("a.txt", "1\n");
    let now = ["M a.txt +1 -3", "A log.txt +49 -0", "M sub/b.txt +1 -1"];
    assert_eq!(repository.told(Uncommitted).await, now);
    repository.invoke(turn("t1"), "revert", None).await.expect("reverted");
    assert_eq!(repository.read("sub/b.txt").as_deref(), Some("b\n"));
    repository.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn the_contents_of_a_session_go_with_it() {
    let repository = TestRepository::new();
    let turn_of = async |session: &str, name: &str, text: &str| {
        let moment = |phase| TurnMoment {
            session: session.into(),
            directories: repository.view(Session).directories,
            turn: "t1".to_owned(),
            phase,
        };
        repository.changes.record(moment(TurnPhase::Before)).await;
        repository.write(name, text);
        repository.changes.record(moment(TurnPhase::After)).await;
        fs::remove_file(repository.path(name)).expect("removed");
    };
    turn_of(SESSION, "one.txt", "of the first\n").await;
    turn_of(OTHER, "two.txt", "of the second\n").await;
    repository.compute(Uncommitted).await.expect("computed");
    assert!(has(&repository, "of the first\n") && has(&repository, "of the second\n"));
    repository.changes.forget(OTHER).await;
    assert!(has(&repository, "of the first\n") && !has(&repository, "of the second\n"));
    assert_eq!(repository.told(turn("t1")).await, ["A one.txt +1 -0"]);
    // At the next start, a store without a session goes as a whole.
    let repository = restarted(repository);
    repository.changes.sweep(|| Some(Vec::new())).await;
    let stores = fs::read_dir(repository.changes.inner.directory.join("trees")).expect("stores");
    assert_eq!(stores.count(), 0);
}

#[tokio::test]
async fn nothing_is_collected_beneath_a_computation() {
    let repository = TestRepository::new();
    repository.turn("t1", TurnPhase::Before).await;
    for number in 0..5 {
        repository.write("a.txt", &format!("{number}\n"));
        let collecting = async {
            for _ in 0..3 {
                repository.changes.inner.collect(&repository.work).await;
            }
        };
        let (told, discarded, ()) =
            tokio::join!(repository.compute(Session), repository.compute(Uncommitted), collecting);
        assert_eq!(
            (
                told.expect("computed").files.len(),
                discarded.expect("computed").files.len()
            ),
            (1, 1)
        );
        assert_eq!(repository.told(turn("t1")).await, ["M a.txt +1 -3"]);
    }
}
