//! A disk that fails and recovers while the journal is running (P14, F6, F7).

use innkeeper_core::records::ListPage;
use innkeeper_faults::{Fault, Op, Random};
use innkeeper_host::journal::{Journal, JournalError};
use tempfile::TempDir;

use crate::fault_injection::run::{Run, journal_on};

/// Appends at most this many batches, until the disk fails.
async fn work_until_failure(run: &mut Run, batches: usize) -> Option<JournalError> {
    for _ in 0..batches {
        if let Err(error) = run.append(1).await {
            return Some(error);
        }
    }
    run.flush().await.err()
}

/// After a failure nothing is acknowledged, and persisted data can be read.
async fn check_failed(run: &mut Run, context: &str) {
    let promised = run.promised(run.disk.position()).batches;
    for _ in 0..3 {
        assert!(run.append(1).await.is_err(), "{context}: acknowledged after a failure");
    }
    assert!(run.flush().await.is_err(), "{context}: flushed after a failure");
    let lease = run.journal.open().await;
    let lease = lease.unwrap_or_else(|error| panic!("{context}: cannot be read after a failure: {error}"));
    let kept = run.history.check(&run.journal, &lease, context).await;
    assert!(kept >= promised, "{context}: {kept} of {promised} promised batches");
    assert!(
        run.append(1).await.is_err(),
        "{context}: acknowledged before the revival"
    );
    cut_since(run, run.disk.position(), context).await;
}

/// Cuts the power at random positions after a given one.
async fn cut_since(run: &Run, since: usize, context: &str) {
    let recording = run.disk.recording();
    let mut random = Random::new(since as u64);
    for _ in 0..3 {
        let cut = since + random.below(recording.len() + 1 - since);
        let directory = TempDir::new().unwrap();
        recording
            .power_cut(cut, &mut random)
            .write_to(directory.path())
            .unwrap();
        run.check_image(directory.path(), cut, &format!("{context}, then cut {cut}"))
            .await;
    }
}

/// After the disk recovers, the journal revives without the unconfirmed data and works.
async fn check_revival(run: &mut Run, failed_after: usize, context: &str) {
    let revived = run.journal.revive().await;
    revived.unwrap_or_else(|error| panic!("{context}: no revival: {error}"));
    let lease = run.journal.open().await.unwrap();
    let kept = run.history.check(&run.journal, &lease, context).await;
    assert!(
        kept <= failed_after,
        "{context}: {kept} batches, but only {failed_after} had not failed"
    );
    run.go_on_from(kept, &lease).await;
    let since = run.disk.position();

    run.append(3).await.unwrap();
    run.append(1).await.unwrap();
    run.flush().await.unwrap();
    run.again().await;
    assert_eq!(
        run.history.batches.len(),
        kept + 4,
        "{context}: what follows a revival is kept"
    );

    cut_since(run, since, context).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p14_f7_after_an_error_nothing_is_acknowledged_until_revive() {
    let mut cases = 0;
    for (op, fault, upto) in [
        (Op::Sync, Fault::Io, 50),
        (Op::Write, Fault::Io, 20),
        (Op::Write, Fault::Short, 20),
        (Op::Write, Fault::Full, 20),
    ] {
        for n in 1..=upto {
            let context = format!("{fault:?} at {op:?} {n}");
            let mut run = Run::begin(n).await;
            run.disk.fail_nth(op, n, fault);
            let Some(error) = work_until_failure(&mut run, 200).await else {
                break;
            };
            let is_full = matches!(error, JournalError::Full(_));
            assert_eq!(is_full, fault == Fault::Full, "{context}: {error}");
            // The failed batch is the last one, unless the flush failed.
            let failed_after = run.history.batches.len();
            check_failed(&mut run, &context).await;
            check_revival(&mut run, failed_after, &context).await;
            cases += 1;
        }
    }
    println!("errors while writing: {cases} cases, 0 losses");
}

#[tokio::test(flavor = "multi_thread")]
async fn p14_f6_a_full_disk_is_readable_and_the_journal_recovers() {
    let mut cases = 0;
    for room in (0..12).map(|n| n * 9_000) {
        let context = format!("room for {room} bytes");
        let mut run = Run::begin(room).await;
        run.append(5).await.unwrap();
        run.flush().await.unwrap();
        run.disk.capacity(Some(run.disk.used() + room));
        let error = work_until_failure(&mut run, 400).await;
        assert!(matches!(error, Some(JournalError::Full(_))), "{context}: {error:?}");
        let failed_after = run.history.batches.len();
        // Reviving frees too little space.
        run.disk.capacity(Some(0));
        check_failed(&mut run, &context).await;
        let error = run.journal.revive().await;
        assert!(matches!(error, Err(JournalError::Full(_))), "{context}: {error:?}");
        check_failed(&mut run, &context).await;
        run.disk.capacity(None);
        check_revival(&mut run, failed_after, &context).await;
        cases += 1;
    }
    println!("full disks: {cases} cases, 0 losses");
}

#[tokio::test(flavor = "multi_thread")]
async fn p14_f7_a_read_only_disk_is_readable_and_the_journal_recovers() {
    let mut run = Run::begin(7).await;
    run.append(20).await.unwrap();
    run.flush().await.unwrap();
    run.disk.read_only(true);
    let error = work_until_failure(&mut run, 10).await;
    assert!(error.is_some());
    let failed_after = run.history.batches.len();
    check_failed(&mut run, "read-only").await;
    assert!(run.journal.revive().await.is_err());
    run.disk.read_only(false);
    check_revival(&mut run, failed_after, "writable again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_f7_a_read_error_is_reported_and_changes_nothing() {
    let mut run = Run::begin(8).await;
    run.work(120).await;
    run.flush().await.unwrap();
    drop(run.journal);
    let mut cases = 0;
    for n in 1.. {
        // A journal that was just opened has read little.
        let journal = journal_on(&run.disk, run.directory.path());
        let lease = journal.open().await.unwrap();
        let sessions = journal.list(everything()).await.unwrap();
        let before = run.disk.counts().of(Op::Read);
        run.disk.fail_nth(Op::Read, n, Fault::Io);
        let mut failed = 0;
        for session in &sessions {
            match journal.load(&session.uri).await {
                Ok(found) => assert!(found.is_some(), "read {n}: {} is not there any more", session.uri),
                Err(_) => failed += 1,
            }
        }
        let reads = run.disk.counts().of(Op::Read) - before;
        run.disk.clear_faults();
        if reads < n {
            break;
        }
        assert_eq!(
            failed, 1,
            "read {n}: the error is reported, and other sessions can be read"
        );
        let kept = run
            .history
            .check(&journal, &lease, &format!("after read {n} failed"))
            .await;
        assert_eq!(kept, run.history.batches.len());
        cases += 1;
    }
    assert!(cases > 0);
    println!("errors while reading: {cases} cases, 0 losses");
}

fn everything() -> ListPage {
    ListPage {
        after: None,
        limit: 100_000,
    }
}
