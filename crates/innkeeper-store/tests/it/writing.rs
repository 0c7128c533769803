//! How the writer groups, merges, reserves and compacts.

use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::records::{Batch, Document, Record};
use innkeeper_core::{ActionFrame, Seq};
use innkeeper_faults::Op;
use innkeeper_host::journal::{Journal, RESERVED};
use innkeeper_store::{Options, ReplayLimits};
use innkeeper_testkit::journal::host_run::{HostRun, turns_record};
use rusqlite::Connection;

use crate::disks::{FaultyStorage, PlainStorage};

const SESSION: &str = "ahp-session:/one";
const CHAT: &str = "ahp-chat:/one/first";

fn with(options: Options) -> FaultyStorage {
    FaultyStorage::with(tempfile::tempdir().unwrap(), options)
}

fn count(plain: &PlainStorage, table: &str) -> i64 {
    let conn = Connection::open(plain.file()).unwrap();
    conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
        .unwrap()
}

/// Concurrent callers share the cost of a sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_many_clients_share_a_sync() {
    let storage = FaultyStorage::new();
    let mut life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    let before = storage.disk.counts().of(Op::Sync);
    // The others arrive while the writer encodes this one.
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let slow = life.session_with("ahp-session:/slow", |session| {
        session.is_new = true;
        session.document = Document::new(move || {
            let _ = wait.lock().unwrap().recv();
            b"slow".to_vec()
        });
    });
    let first = life.append(vec![slow]);
    let mut waiting = Vec::new();
    for number in 0..200 {
        let record = life.title(SESSION, &format!("title {number}"));
        waiting.push(life.append(vec![record]));
    }
    drop(release);
    first.await.unwrap();
    for appended in waiting {
        appended.await.unwrap();
    }
    let synced = storage.disk.counts().of(Op::Sync) - before;
    assert!(synced <= 3, "{synced} syncs for 201 batches");
}

/// Streamed text becomes few rows with the same content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_rows_equal_single_rows() {
    let storage = with(Options {
        gather: Duration::from_secs(60),
        gather_bytes: usize::MAX,
        ..Options::default()
    });
    let mut life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    let other = "ahp-chat:/one/second";
    life.keep(vec![life.new_chat(SESSION, other)]).await;
    for number in 0..500 {
        let record = life.delta(
            if number % 3 == 0 { other } else { CHAT },
            "part",
            &format!("{number}\n"),
        );
        life.keep(vec![record]).await;
    }
    let session = life.load(SESSION).await;
    assert_eq!(session.log.len(), 2, "one row for each chat");
    for row in &session.log {
        let said = life.said_in(&row.channel);
        assert_eq!(row.bytes, ActionFrame::merged(&said).bytes);
        assert_eq!(
            (Some(row.first), Some(row.seq)),
            (said.first().map(|frame| frame.seq), said.last().map(|frame| frame.seq))
        );
    }
}

/// Written output is synced within a quarter of a second, without further events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_streamed_output_is_synced_without_a_flush() {
    let storage = FaultyStorage::new();
    let mut life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    let before = storage.disk.counts().of(Op::Sync);
    let record = life.delta(CHAT, "part", "text");
    life.keep(vec![record]).await;
    while storage.disk.counts().of(Op::Sync) == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let next = HostRun::begin(&*innkeeper_testkit::journal::Storage::without_power(&storage).await).await;
    assert_eq!(next.lease.persisted_seq, life.seq);
}

/// A full queue makes the host wait, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_is_bounded() {
    let storage = with(Options {
        queue_bytes: 10_000,
        ..Options::default()
    });
    let mut life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    for number in 0..300 {
        let record = life.delta(CHAT, &format!("part {number}"), &"x".repeat(1_000));
        life.keep(vec![record]).await;
    }
    assert_eq!(life.load(CHAT).await.log.len(), 300);
}

/// Sequence numbers advance far without a durable record, and are reserved nevertheless (P5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p5_sequence_numbers_are_reserved_before_use() {
    let storage = FaultyStorage::new();
    let mut life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    for _ in 0..6 {
        life.seq = Seq(life.seq.0 + RESERVED - 1);
        life.journal
            .append(Batch {
                records: vec![],
                seq: life.seq,
            })
            .await
            .unwrap();
        let left = innkeeper_testkit::journal::Storage::without_power(&storage).await;
        let next = HostRun::begin(&*left).await;
        assert!(
            next.lease.last_seq.0 >= life.seq.0 + RESERVED,
            "{:?} after {}",
            next.lease.last_seq,
            life.seq
        );
    }
}

/// Actions retained for replay are dropped when they exceed age, total size or the size of a channel. Actions that
/// restoring needs are never dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_bounded_by_age_and_size_but_keep_the_records_for_restoring() {
    let limits = [
        ReplayLimits {
            age: Duration::ZERO,
            ..ReplayLimits::default()
        },
        ReplayLimits {
            channel_bytes: 2_000,
            ..ReplayLimits::default()
        },
        ReplayLimits {
            total_bytes: 2_000,
            ..ReplayLimits::default()
        },
    ];
    for replay in limits {
        let plain = PlainStorage::new();
        let journal = Arc::new(plain.sqlite(Options {
            replay,
            ..Options::default()
        }));
        let lease = journal.open().await.unwrap();
        let mut life = HostRun {
            journal: Arc::clone(&journal) as Arc<dyn Journal>,
            seq: lease.last_seq,
            lease,
            said: vec![],
        };
        life.create(SESSION, CHAT).await;
        for number in 0..600 {
            let record = life.title(SESSION, &format!("title {number}"));
            drop(life.append(vec![record]));
        }
        life.flush().await;
        journal.settle().await.unwrap();
        assert_eq!(
            life.load(SESSION).await.log.len(),
            600,
            "all of them are needed: {replay:?}"
        );
        life.keep(vec![life.session(SESSION)]).await;
        let folded = life.seq;
        for number in 0..5 {
            let record = life.title(SESSION, &format!("later {number}"));
            life.keep(vec![record]).await;
        }
        life.flush().await;
        journal.settle().await.unwrap();
        let session = life.load(SESSION).await;
        let needed = session.log.iter().filter(|frame| frame.seq > folded).count();
        assert_eq!(needed, 5, "{replay:?}");
        assert!(session.log.len() < 25, "{} are left: {replay:?}", session.log.len());
        drop((life, journal));
        assert_eq!(
            innkeeper_store::Archive::open(&plain.file(), innkeeper_store::Mode::ReadOnly)
                .unwrap()
                .check()
                .unwrap(),
            []
        );
    }
}

/// Bodies of removed turns are removed; those of a fork stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turn_bodies_are_removed_with_their_last_chat() {
    let plain = PlainStorage::new();
    let journal = Arc::new(plain.sqlite(Options::default()));
    let lease = journal.open().await.unwrap();
    let life = HostRun {
        journal: Arc::clone(&journal) as Arc<dyn Journal>,
        seq: lease.last_seq,
        lease,
        said: vec![],
    };
    life.create(SESSION, CHAT).await;
    let fork = "ahp-chat:/one/fork";
    let records = vec![
        turns_record(CHAT, 0, &["a", "b", "c", "d"]),
        life.new_chat(SESSION, fork),
        Record::CopyTurns {
            from: CHAT.into(),
            to: fork.into(),
            count: 3,
        },
        turns_record(CHAT, 1, &["e"]),
    ];
    life.keep(records).await;
    journal.settle().await.unwrap();
    assert_eq!(count(&plain, "body"), 4, "a, b and c of the fork, and e");
    assert_eq!(life.turns().position(fork, "c"), Ok(Some(2)));
    life.keep(vec![Record::ChatRemoved { uri: fork.into() }]).await;
    journal.settle().await.unwrap();
    assert_eq!((count(&plain, "body"), count(&plain, "garbage")), (2, 0));
    assert_eq!(life.turns().read(CHAT, 0..2).unwrap().len(), 2);
}

/// A document that cannot be encoded fails its batch, not the writer thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_cannot_be_encoded_fails_its_batch() {
    let storage = FaultyStorage::new();
    let mut life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    let broken = life.session_with("ahp-session:/broken", |session| {
        session.is_new = true;
        session.document = Document::new(|| panic!("this document cannot be encoded"));
    });
    life.append(vec![broken]).await.expect_err("it cannot be kept");
    life.journal.revive().await.expect("the disk is fine");
    let record = life.title(SESSION, "kept");
    life.keep(vec![record]).await;
    assert_eq!(life.load(SESSION).await.log.len(), 1);
}

/// A document may read turns that are not in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_may_read_turns_while_it_is_encoded() {
    let storage = FaultyStorage::new();
    let life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    life.keep(vec![turns_record(CHAT, 0, &["a", "b"])]).await;
    life.flush().await;
    let turns = life.turns();
    let record = life.session_with(SESSION, |session| {
        session.document = Document::new(move || turns.read(CHAT, 0..2).unwrap().concat());
    });
    life.keep(vec![record]).await;
    assert!(life.load(SESSION).await.document.ends_with(b"{\"id\":\"b\"}"));
}
