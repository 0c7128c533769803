//! Tests with files of every earlier version.

use super::*;
use crate::connection::Location;
use crate::reader::{self, RecentTurns};

const DRAFT: &str = include_str!("0.sql");

/// Creates a draft file with two sessions.
fn draft(directory: &std::path::Path) -> Location {
    let location = Location {
        path: directory.join(crate::FILE_NAME),
        vfs: None,
    };
    let conn = Connection::open(&location.path).unwrap();
    conn.execute_batch(DRAFT).unwrap();
    conn.execute_batch(
        "INSERT INTO host VALUES (70000, 12);
         INSERT INTO session VALUES ('ahp-session:/a', 1, 20, 10, CAST('summary a' AS BLOB), CAST('document a' AS BLOB));
         INSERT INTO session VALUES ('ahp-session:/b', 2, 30, 5, CAST('summary b' AS BLOB), CAST('document b' AS BLOB));
         INSERT INTO chat VALUES ('ahp-chat:/a/1', 'ahp-session:/a', 9, CAST('chat 1' AS BLOB));
         INSERT INTO turn VALUES ('ahp-chat:/a/1', 0, 't0', CAST('turn 0' AS BLOB));
         INSERT INTO turn VALUES ('ahp-chat:/a/1', 1, 't1', CAST('turn 1' AS BLOB));
         INSERT INTO log VALUES (9, 'ahp-chat:/a/1', 1000, 0, CAST('action 9' AS BLOB));
         INSERT INTO log VALUES (11, 'ahp-chat:/a/1', 1001, 1, CAST('action 11' AS BLOB));
         INSERT INTO log VALUES (12, 'ahp-session:/b', 1002, 0, CAST('action 12' AS BLOB));",
    )
    .unwrap();
    conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    location
}

#[test]
fn draft_files_are_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let location = draft(directory.path());
    let conn = location.open_for_writing(false).unwrap();
    let lease = reader::lease(&conn, 10).unwrap();
    assert_eq!(
        (lease.last_seq, lease.persisted_seq, lease.sessions),
        (Seq(70000), Seq(12), 2)
    );
    assert_eq!(lease.unsettled, ["ahp-session:/a", "ahp-session:/b"]);
    let recent = RecentTurns { turns: 10, bytes: 1000 };
    let session = reader::load(&conn, "ahp-chat:/a/1", recent).unwrap().unwrap();
    assert_eq!(
        (&*session.uri, &session.document[..], session.seq),
        ("ahp-session:/a", &b"document a"[..], Seq(10))
    );
    let chat = &session.chats[0];
    assert_eq!(
        (&chat.document[..], chat.seq, chat.turns.len()),
        (&b"chat 1"[..], Seq(9), 2)
    );
    assert_eq!(chat.recent, ["turn 0", "turn 1"]);
    let log: Vec<_> = session
        .log
        .iter()
        .map(|frame| (frame.seq.0, frame.bytes.as_ref()))
        .collect();
    assert_eq!(log, [(9, &b"action 9"[..]), (11, b"action 11")]);
    let page = innkeeper_core::records::ListPage { after: None, limit: 10 };
    let listed: Vec<_> = reader::list(&conn, &page)
        .unwrap()
        .into_iter()
        .map(|line| line.uri)
        .collect();
    assert_eq!(listed, ["ahp-session:/b", "ahp-session:/a"]);
}

#[test]
fn a_failed_migration_leaves_the_file_unchanged() {
    fn half(tx: &Transaction<'_>) -> Result<(), StoreError> {
        from_0::step(tx)?;
        Err(StoreError::new(ErrorKind::Full, "no room in the middle"))
    }
    let directory = tempfile::tempdir().unwrap();
    let location = draft(directory.path());
    let mut conn = Connection::open(&location.path).unwrap();
    let before = schema_of(&conn);
    assert_eq!(migrate_with(&mut conn, &[half]).unwrap_err().kind, ErrorKind::Full);
    let version: i32 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!((version, schema_of(&conn)), (0, before));
    drop(conn);
    let conn = location.open_for_writing(false).unwrap();
    assert_eq!(HostRow::read(&conn).unwrap().sessions, 2);
}

/// A migrated file must not differ from a new one.
#[test]
fn a_migrated_file_has_the_tables_of_a_new_one() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let migrated = draft(old.path()).open_for_writing(false).unwrap();
    let fresh = Location {
        path: new.path().join(crate::FILE_NAME),
        vfs: None,
    };
    assert_eq!(schema_of(&migrated), schema_of(&fresh.open_for_writing(false).unwrap()));
    let version: i32 = migrated
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, VERSION);
}

fn schema_of(conn: &Connection) -> Vec<String> {
    let mut statement = conn
        .prepare("SELECT type || name || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name")
        .unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}
