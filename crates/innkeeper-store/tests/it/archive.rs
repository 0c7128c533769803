//! The archive: the file without a host.

use innkeeper_core::records::{Batch, ListPage, Record};
use innkeeper_host::journal::Journal;
use innkeeper_store::{Archive, ErrorKind, Mode, OnlyIf, Options, RetentionPolicy, SqliteJournal};
use innkeeper_testkit::journal::host_run::{HostRun, text, turns_record};
use rusqlite::Connection;

use crate::disks::PlainStorage;

const SESSION: &str = "ahp-session:/one";
const CHAT: &str = "ahp-chat:/one/first";

/// A session with two chats, turns, a document that is not JSON, and actions newer than the documents.
async fn furnish(life: &mut HostRun) {
    life.create(SESSION, CHAT).await;
    let other = "ahp-chat:/one/second";
    let ids: Vec<String> = (0..150).map(|turn| format!("turn {turn}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let records = vec![
        life.title(SESSION, "part of the document"),
        life.new_chat(SESSION, other),
        turns_record(CHAT, 0, &ids),
        turns_record(other, 0, &["only"]),
        life.session_with(SESSION, |session| {
            session.document = text("{\"title\": \"spaces  stay\" }");
            session.summary.is_archived = true;
            session.summary.summary = text("two\nlines, \u{1F600}");
        }),
        life.chat(SESSION, CHAT),
        life.title(SESSION, "after it"),
        life.delta(CHAT, "part", "streamed"),
        life.delta(CHAT, "part", " text"),
    ];
    life.keep(records).await;
    life.flush().await;
}

fn export(plain: &PlainStorage, uri: &str) -> String {
    let archive = Archive::open(&plain.file(), Mode::ReadOnly).unwrap();
    let mut out = Vec::new();
    archive.export(uri, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the number of rows of each table.
fn rows(plain: &PlainStorage) -> Vec<(String, i64)> {
    let conn = Connection::open(plain.file()).unwrap();
    let mut tables = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .unwrap();
    let names: Vec<String> = tables
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let count = |name: String| {
        let count = conn
            .query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0))
            .unwrap();
        (name, count)
    };
    names.into_iter().map(count).collect()
}

#[tokio::test]
async fn export_and_import_are_lossless() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    furnish(&mut life).await;
    let seq = life.seq;
    // A running host does not prevent reading.
    let exported = export(&plain, SESSION);
    assert_eq!(exported, export(&plain, CHAT), "by the URI of a chat as well");
    drop(life);
    let elsewhere = PlainStorage::new();
    let mut archive = Archive::create(&elsewhere.file()).unwrap();
    let imported = archive.import(&mut exported.as_bytes()).unwrap();
    assert_eq!(
        (imported.uri.as_str(), imported.chats, imported.turns),
        (SESSION, 2, 151)
    );
    let again = archive.import(&mut exported.as_bytes()).unwrap_err();
    assert!(again.message.contains("exists"), "{again}");
    assert_eq!((archive.count().unwrap(), archive.check().unwrap()), (1, vec![]));
    drop(archive);
    assert_eq!(export(&elsewhere, SESSION), exported);
    let life = HostRun::begin(&elsewhere).await;
    assert!(
        life.lease.last_seq >= seq,
        "numbers of the session are not given out again"
    );
    assert_eq!(life.lease.unsettled, [SESSION], "it was not at rest");
    let session = life.load(SESSION).await;
    assert_eq!(session.chats.iter().map(|chat| chat.turns.len()).max(), Some(150));
}

#[tokio::test]
async fn a_running_journal_imports_sessions_and_survives_rejected_ones() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    furnish(&mut life).await;
    let seq = life.seq;
    drop(life);
    let exported = export(&plain, SESSION);
    let elsewhere = PlainStorage::new();
    let journal = SqliteJournal::new(&elsewhere.file(), Options::default());
    journal.open().await.unwrap();
    let torn = exported[..exported.len() / 2].to_owned();
    assert!(journal.import(torn).await.is_err());
    let imported = journal.import(exported.clone()).await.unwrap();
    assert_eq!(
        (imported.uri.as_str(), imported.turns, imported.at_rest),
        (SESSION, 151, false)
    );
    assert_eq!(imported.last_seq, seq);
    let again = journal.import(exported.clone()).await.unwrap_err();
    assert!(again.to_string().contains("exists"), "{again}");
    // The journal continues to work.
    journal
        .append(Batch {
            records: Vec::new(),
            seq,
        })
        .await
        .unwrap();
    assert!(journal.load(SESSION).await.unwrap().is_some());
    assert_eq!(export(&elsewhere, SESSION), exported);
    drop(journal);
    let life = HostRun::begin(&elsewhere).await;
    assert!(
        life.lease.last_seq > seq,
        "numbers of the session are not given out again"
    );
    assert_eq!((life.lease.sessions, life.lease.unsettled.len()), (1, 1));
}

#[tokio::test]
async fn a_rejected_import_names_the_line_and_changes_nothing() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    furnish(&mut life).await;
    drop(life);
    let exported = export(&plain, SESSION);
    let lines: Vec<&str> = exported.lines().collect();
    let elsewhere = PlainStorage::new();
    let mut archive = Archive::create(&elsewhere.file()).unwrap();
    let mut expect = |lines: &[&str], line: usize| {
        let error = archive.import(&mut lines.join("\n").as_bytes()).unwrap_err();
        assert!(error.message.starts_with(&format!("line {line}: ")), "{error}");
        assert_eq!(error.kind, ErrorKind::Refused);
        assert_eq!((archive.count().unwrap(), archive.check().unwrap()), (0, vec![]));
    };
    let changed = |line: usize, with: &'static str| {
        let mut lines = lines.clone();
        lines[line] = with;
        lines
    };
    expect(&[], 1);
    expect(&changed(0, "hello"), 1);
    expect(&changed(0, r#"{"session":{}}"#), 1);
    expect(
        &changed(3, "{\"turn\":{\"id\":\"t\",\"document\":{\"base64\":\"?\"}}}"),
        4,
    );
    expect(&changed(4, "\u{0}"), 5);
    expect(&changed(5, r#"{"cake":{}}"#), 6);
    expect(&lines[1..], 1);
    expect(&lines[..lines.len() - 1], lines.len());
    let mut missing = lines.clone();
    missing.remove(7);
    expect(&missing, lines.len() - 1);
    let mut more = lines.clone();
    more.push(lines[0]);
    expect(&more, lines.len() + 1);
    archive
        .import(&mut exported.as_bytes())
        .expect("the whole of it is fine");
}

#[tokio::test]
async fn a_removed_session_leaves_no_row_behind() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    life = life.again(&plain).await;
    let before = rows(&plain);
    furnish(&mut life).await;
    let records = vec![
        life.new_chat(SESSION, "ahp-chat:/one/fork"),
        Record::CopyTurns {
            from: CHAT.into(),
            to: "ahp-chat:/one/fork".into(),
            count: 100,
        },
    ];
    life.keep(records).await;
    drop(life);
    let mut archive = Archive::open(&plain.file(), Mode::Exclusive).unwrap();
    assert!(!archive.remove(CHAT).unwrap(), "a chat is no session");
    assert!(archive.remove(SESSION).unwrap());
    assert!(!archive.remove(SESSION).unwrap());
    drop(archive);
    assert_eq!(rows(&plain), before);
}

#[tokio::test]
async fn a_deleted_session_has_a_uri_until_it_is_removed() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    furnish(&mut life).await;
    life.create("ahp-session:/two", "ahp-chat:/two/first").await;
    life.flush().await;
    drop(life);
    let mut archive = Archive::open(&plain.file(), Mode::Exclusive).unwrap();
    let uris = |archive: &Archive| {
        let mut uris = archive.session_uris().unwrap();
        uris.sort();
        uris
    };
    assert_eq!(uris(&archive), [SESSION, "ahp-session:/two"]);
    archive.delete(SESSION).unwrap();
    assert_eq!(uris(&archive), [SESSION, "ahp-session:/two"]);
    archive.remove(SESSION).unwrap();
    assert_eq!(uris(&archive), ["ahp-session:/two"]);
}

#[tokio::test]
async fn a_file_in_use_can_be_read_but_not_changed() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    furnish(&mut life).await;
    let error = Archive::open(&plain.file(), Mode::Exclusive).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    assert!(error.message.contains("in use by a host"), "{error}");
    let mut archive = Archive::open(&plain.file(), Mode::ReadOnly).unwrap();
    assert_eq!(archive.remove(SESSION).unwrap_err().kind, ErrorKind::Refused);
    for round in 0..20 {
        let record = life.title(SESSION, &format!("round {round}"));
        life.keep(vec![record]).await;
        let session = archive.load(SESSION).unwrap().expect("it is there");
        assert_eq!(session.log.last().map(|frame| frame.seq), Some(life.seq));
        assert_eq!(archive.turns(CHAT, 100..150).unwrap().len(), 50);
    }
    assert!(archive.size().unwrap() > 0);
}

/// Prunes with a policy and returns the removed sessions and the number of remaining ones.
fn prune(archive: &mut Archive, policy: RetentionPolicy, dry_run: bool) -> (String, usize) {
    let pruned = archive.prune(&policy, dry_run).unwrap();
    let uris: Vec<String> = pruned
        .iter()
        .map(|pruned| pruned.uri.replace("ahp-session:/", ""))
        .collect();
    (uris.concat(), archive.count().unwrap())
}

#[tokio::test]
async fn ses_retention_without_limits_removes_nothing() {
    let plain = PlainStorage::new();
    let life = HostRun::begin(&plain).await;
    for number in 0..10 {
        let record = life.session_with(&format!("ahp-session:/{number}"), |session| {
            session.summary.modified_ms = 1_000 + number;
            session.summary.is_archived = number % 2 == 0;
            session.at_rest = number != 0;
            session.document = text(&"z".repeat(1_000));
        });
        life.keep(vec![record]).await;
    }
    drop(life);
    let mut archive = Archive::open(&plain.file(), Mode::Exclusive).unwrap();
    let nothing = RetentionPolicy::default();
    assert_eq!(prune(&mut archive, nothing, false), (String::new(), 10));
    let only_archived = RetentionPolicy {
        archived_only: true,
        ..nothing
    };
    assert_eq!(prune(&mut archive, only_archived, false), (String::new(), 10));
    let old = RetentionPolicy {
        unchanged_since_ms: Some(1_005),
        ..nothing
    };
    assert_eq!(
        prune(&mut archive, old, true),
        ("1234".into(), 10),
        "the first one is not at rest"
    );
    let old_and_archived = RetentionPolicy {
        archived_only: true,
        ..old
    };
    assert_eq!(prune(&mut archive, old_and_archived, false), ("24".into(), 8));
    // A selected session is removed only if it has not changed.
    let chosen = archive.prune(&old, true).unwrap();
    let first = &chosen[0];
    for only_if in [
        OnlyIf {
            modified_ms: first.only_if.modified_ms.map(|at| at - 1),
            ..first.only_if
        },
        OnlyIf {
            is_archived: true,
            ..first.only_if
        },
    ] {
        let refused = archive.remove_if(&first.uri, only_if).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
    }
    assert_eq!(archive.count().unwrap(), 8);
    let large = RetentionPolicy {
        total_bytes: Some(4_500),
        ..nothing
    };
    assert_eq!(prune(&mut archive, large, true), ("1356".into(), 8), "the oldest first");
    assert_eq!(prune(&mut archive, large, false), ("1356".into(), 4));
    let page = ListPage {
        after: None,
        limit: 100,
    };
    assert_eq!(archive.list(&page).unwrap().len(), 4);
    assert_eq!(archive.check().unwrap(), []);
}
