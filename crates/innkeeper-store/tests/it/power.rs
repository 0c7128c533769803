//! Power cuts, full disks and failing syncs (F5, F6, F7).

use innkeeper_core::Seq;
use innkeeper_faults::{Disk, Fault, Op, Random};
use innkeeper_host::journal::JournalError;
use innkeeper_testkit::journal::host_run::{HostRun, turns_record};
use innkeeper_testkit::journal::{Storage, check_log};

use crate::disks::FaultyStorage;

const SESSION: &str = "ahp-session:/one";
const CHAT: &str = "ahp-chat:/one/first";

/// Runs one step of a session that streams, completes turns and changes titles. Returns whether it was durable.
fn step(life: &mut HostRun, number: usize) -> (Vec<innkeeper_core::records::Record>, bool) {
    match number % 5 {
        0 => (vec![life.title(SESSION, &format!("title {number}"))], true),
        4 => {
            let id = format!("turn {number}");
            let records = vec![
                life.delta(CHAT, "end", "the end"),
                turns_record(CHAT, number / 5, &[&id]),
                life.chat(SESSION, CHAT),
                life.session(SESSION),
            ];
            (records, false)
        }
        _ => (vec![life.delta(CHAT, "part", &format!("text {number}, "))], false),
    }
}

/// The remaining files open, contain everything confirmed, and are a prefix of what happened (F5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f5_a_power_cut_at_any_point_loses_nothing_confirmed() {
    let storage = FaultyStorage::new();
    let mut life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    let created = life.seq;
    let start = storage.disk.position();
    let mut confirmed: Vec<(usize, Seq)> = vec![(start, created)];
    for number in 0..60 {
        let (records, is_durable) = step(&mut life, number);
        life.keep(records).await;
        if number % 17 == 16 {
            life.flush().await;
        }
        if is_durable || number % 17 == 16 {
            confirmed.push((storage.disk.position(), life.seq));
        }
    }
    let recording = storage.disk.recording();
    let mut random = Random::new(5);
    let mut cuts = 0;
    for round in 0..150 {
        let cut = start + random.below(recording.len() - start + 1);
        let image = if round % 5 == 0 {
            recording.kill(cut)
        } else {
            recording.power_cut(cut, &mut random)
        };
        let safe = confirmed
            .iter()
            .filter(|(position, _)| *position <= cut)
            .map(|(_, seq)| *seq);
        let safe = safe.max().unwrap_or(created);
        let left = FaultyStorage::from_image(&image, storage.options.clone());
        let next = HostRun::begin(&left).await;
        assert!(
            next.lease.persisted_seq >= safe,
            "round {round}, cut at {cut}: lost what was confirmed"
        );
        assert!(
            next.lease.last_seq >= life.seq,
            "round {round}: a number is given out twice"
        );
        let session = next.load(SESSION).await;
        for channel in [SESSION, CHAT] {
            let mut said = life.said_in(channel);
            said.retain(|frame| frame.seq <= next.lease.persisted_seq);
            let folded = session
                .chats
                .iter()
                .find(|chat| chat.uri == channel)
                .map_or(session.seq, |chat| chat.seq);
            check_log(channel, &said, folded, &session.log);
        }
        cuts += 1;
    }
    println!("{cuts} power cuts and kills");
}

/// The first failed sync stops everything until revive. Failed data does not come back, with or without a restart
/// (F7).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f7_a_failed_sync_is_not_repeated_for_the_same_batch() {
    for nth in 1..=12 {
        let storage = FaultyStorage::new();
        let mut life = HostRun::begin(&storage).await;
        life.create(SESSION, CHAT).await;
        storage.disk.fail_nth(Op::Sync, nth, Fault::Io);
        let mut kept = life.seq;
        let mut failed = None;
        for number in 0..30 {
            let record = life.title(SESSION, &format!("title {number}"));
            match life.append(vec![record]).await {
                Ok(()) if failed.is_none() => kept = life.seq,
                Ok(()) => panic!("a batch was kept after {failed:?}"),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        assert!(
            matches!(failed, Some(JournalError::Failed(_))),
            "sync {nth}: {failed:?}"
        );
        life.journal.revive().await.expect("the disk works again");
        let session = life.load(SESSION).await;
        assert_eq!(
            session.log.last().map_or(session.seq, |frame| frame.seq),
            kept,
            "sync {nth}"
        );
        let record = life.title(SESSION, "kept");
        life.keep(vec![record]).await;
        let next = HostRun::begin(&*storage.without_power().await).await;
        let session = next.load(SESSION).await;
        assert_eq!(session.log.last().map(|frame| frame.seq), Some(life.seq), "sync {nth}");
        assert_eq!(
            session.log.len(),
            usize::try_from(nth).unwrap(),
            "sync {nth}: {:?}",
            session.log.len()
        );
    }
}

/// A full disk is reported, sessions stay readable, and freeing space makes it work again (F6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f6_a_disk_that_fills_up_while_streaming_recovers_without_a_restart() {
    let storage = FaultyStorage::new();
    let mut life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    let disk: &Disk = &storage.disk;
    disk.capacity(Some(disk.used() + (64 << 10)));
    let mut kept = life.seq;
    let failure = loop {
        let record = life.title(SESSION, &"long ".repeat(100));
        match life.append(vec![record]).await {
            Ok(()) => kept = life.seq,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&failure, JournalError::Full(message) if message.contains("is full")),
        "{failure}"
    );
    let session = life.load(SESSION).await;
    assert_eq!(session.log.last().map(|frame| frame.seq), Some(kept));
    let lease = life.journal.open().await.expect("it can be read");
    assert!(lease.last_seq >= life.seq);
    disk.clear_faults();
    life.journal.revive().await.expect("there is room again");
    let record = life.title(SESSION, "kept");
    life.keep(vec![record]).await;
    let next = HostRun::begin(&*storage.without_power().await).await;
    assert_eq!(next.lease.persisted_seq, life.seq);
}

/// A failed read has no other effect (F7).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f7_a_failed_read_has_no_other_effect() {
    let storage = FaultyStorage::new();
    let life = HostRun::begin(&storage).await;
    life.create(SESSION, CHAT).await;
    let life = life.again(&storage).await;
    storage.disk.fail_from(Op::Read, 1, Fault::Io);
    life.journal.load(SESSION).await.expect_err("it cannot be read");
    storage.disk.clear_faults();
    assert!(life.has(SESSION).await);
    life.flush().await;
}
