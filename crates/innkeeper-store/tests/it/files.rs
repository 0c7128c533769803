//! Ownership of the file, its permissions, and what happens when it is removed.

use std::path::Path;

use innkeeper_host::journal::{Journal, JournalError};
use innkeeper_store::{Archive, ErrorKind, FILE_NAME, Mode, Options};
use innkeeper_testkit::journal::host_run::HostRun;
use rusqlite::Connection;

use crate::disks::PlainStorage;

const SESSION: &str = "ahp-session:/one";
const CHAT: &str = "ahp-chat:/one/first";

async fn refused(plain: &PlainStorage) -> String {
    let error = plain
        .sqlite(Options::default())
        .open()
        .await
        .expect_err("it is refused");
    let JournalError::Failed(message) = error else {
        panic!("another failure: {error}")
    };
    assert!(message.contains(FILE_NAME), "the file is named: {message}");
    message
}

/// Nothing is written to a foreign file, nor beside it.
async fn expect_untouched(plain: &PlainStorage, words: &str, kind: ErrorKind) {
    let before = std::fs::read(plain.file()).unwrap();
    let message = refused(plain).await;
    assert!(message.contains(words), "{message}");
    for mode in [Mode::ReadOnly, Mode::Exclusive] {
        assert_eq!(Archive::open(&plain.file(), mode).unwrap_err().kind, kind);
    }
    assert_eq!(std::fs::read(plain.file()).unwrap(), before);
    let names: Vec<_> = std::fs::read_dir(plain.0.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[tokio::test]
async fn p9_a_file_that_is_not_a_database_is_not_changed() {
    for content in [&b"hello"[..], &[0; 4096], b"SQLite format 3\0"] {
        let plain = PlainStorage::new();
        std::fs::write(plain.file(), content).unwrap();
        expect_untouched(&plain, "was not written by innkeeper", ErrorKind::Foreign).await;
    }
}

#[tokio::test]
async fn p9_a_foreign_database_is_not_changed() {
    let plain = PlainStorage::new();
    let other = Connection::open(plain.file()).unwrap();
    other
        .execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (1)")
        .unwrap();
    drop(other);
    expect_untouched(&plain, "another program", ErrorKind::Foreign).await;
}

#[tokio::test]
async fn f19_a_file_of_a_newer_version_is_not_changed() {
    let plain = PlainStorage::new();
    HostRun::begin(&plain).await.create(SESSION, CHAT).await;
    let conn = Connection::open(plain.file()).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    expect_untouched(&plain, "newer version", ErrorKind::Newer).await;
}

#[tokio::test]
async fn p9_a_damaged_file_is_reported_and_not_changed() {
    let plain = PlainStorage::new();
    HostRun::begin(&plain).await.create(SESSION, CHAT).await;
    let mut bytes = std::fs::read(plain.file()).unwrap();
    bytes[100..].fill(0x5A);
    std::fs::write(plain.file(), &bytes).unwrap();
    let error = plain
        .sqlite(Options::default())
        .open()
        .await
        .expect_err("it is refused");
    assert!(
        matches!(&error, JournalError::Damaged(message) if message.contains("innkeeper doctor")),
        "{error}"
    );
    assert_eq!(std::fs::read(plain.file()).unwrap().len(), bytes.len());
}

#[tokio::test]
async fn an_empty_file_is_initialised() {
    let plain = PlainStorage::new();
    std::fs::write(plain.file(), b"").unwrap();
    assert_eq!(
        Archive::open(&plain.file(), Mode::ReadOnly).unwrap_err().kind,
        ErrorKind::NotFound
    );
    HostRun::begin(&plain).await.create(SESSION, CHAT).await;
    assert!(HostRun::begin(&plain).await.has(SESSION).await);
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let plain = PlainStorage::new();
    let missing = plain.0.path().join("missing").join(FILE_NAME);
    let journal = innkeeper_store::SqliteJournal::new(&missing, Options::default());
    let error = journal.open().await.expect_err("there is no directory");
    assert!(error.to_string().contains("missing"), "{error}");
    assert_eq!(
        Archive::open(&missing, Mode::ReadOnly).unwrap_err().kind,
        ErrorKind::NotFound
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let plain = PlainStorage::new();
    std::fs::write(plain.file(), b"").unwrap();
    std::fs::set_permissions(plain.file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let life = HostRun::begin(&plain).await;
    life.create(SESSION, CHAT).await;
    assert_eq!((mode(&plain.file()), mode(&plain.wal())), (0o600, 0o600));
}

/// SQLite would continue to write to an unlinked file (F19).
#[tokio::test]
async fn f19_removing_the_file_in_use_fails_the_journal() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    life.create(SESSION, CHAT).await;
    let elsewhere = plain.0.path().join("elsewhere");
    std::fs::rename(plain.file(), &elsewhere).unwrap();
    let record = life.title(SESSION, "lost");
    let error = life
        .append(vec![record])
        .await
        .expect_err("it could not be found again");
    assert!(error.to_string().contains("was removed"), "{error}");
    life.journal.revive().await.expect_err("it is still not there");
    assert!(!plain.file().exists(), "nothing was put in its place");
    std::fs::rename(&elsewhere, plain.file()).unwrap();
    life.journal.revive().await.expect("it is there again");
    let record = life.title(SESSION, "kept");
    life.keep(vec![record]).await;
}

#[tokio::test]
async fn p5_a_new_file_starts_at_the_wall_clock() {
    let before = jiff::Timestamp::now().as_microsecond() as u64;
    let life = HostRun::begin(&PlainStorage::new()).await;
    assert!(life.lease.last_seq.0 >= before);
    assert_eq!(life.lease.persisted_seq.0, 0);
}
