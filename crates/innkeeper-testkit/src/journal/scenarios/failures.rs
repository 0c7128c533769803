//! Failures of the storage. Skipped for storages that cannot fail on command.

use futures_util::FutureExt;
use innkeeper_core::records::Record;
use innkeeper_host::journal::{JournalError, RESERVED};

use super::{CHAT, OTHER_CHAT, OTHER_SESSION, SESSION};
use crate::journal::host_run::{HostRun, client, summary, turns_record};
use crate::journal::logs::{check_log, describe};
use crate::journal::{Storage, StorageFailure};

/// Nothing is kept after something was lost, until the journal is whole again (P14).
pub async fn p14_the_first_failure_makes_later_batches_fail_until_the_revival(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    for failure in [StorageFailure::Full, StorageFailure::Broken] {
        if !storage.break_down(failure) {
            return;
        }
        let record = host.title(SESSION, "lost");
        let error = host.append(vec![record]).await.expect_err("the storage is broken");
        match (failure, &error) {
            (StorageFailure::Full, JournalError::Full(_)) | (StorageFailure::Broken, JournalError::Failed(_)) => {}
            (failure, error) => panic!("{failure:?} is reported as {error:?}"),
        }
        assert!(!error.to_string().is_empty(), "the error says nothing");
        host.journal.revive().await.expect_err("the storage is still broken");
        storage.mend();
        // The storage would take it, but the batch before is missing.
        for _ in 0..3 {
            let record = host.title(SESSION, "too early");
            host.append(vec![record])
                .await
                .expect_err("the journal was not revived");
        }
        let record = host.delta(CHAT, "p", "too early");
        host.append(vec![record])
            .await
            .expect_err("the journal was not revived");
        host.journal.flush().await.expect_err("what was appended is lost");
        host.journal.revive().await.expect("the storage was mended");
        host.said
            .retain(|action| action.frame.bytes.windows(4).any(|word| word == b"kept"));
        let record = host.title(SESSION, "kept");
        host.keep(vec![record]).await;
        host.flush().await;
        host = host.again(&*storage).await;
        let session = host.load(SESSION).await;
        check_log(SESSION, &host.said_in(SESSION), session.seq, &session.log);
        check_log(CHAT, &[], session.seq, &session.log);
    }
}

/// A failed batch leaves no trace (P14).
pub async fn p14_a_batch_that_failed_leaves_nothing(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.keep(vec![turns_record(CHAT, 0, &["a", "b"]), client("a", "known")])
        .await;
    let record = host.title(SESSION, "confirmed");
    host.keep(vec![record, host.session(SESSION)]).await;
    let (before, kept) = (describe(&host.load(SESSION).await), host.seq);
    if !storage.break_down(StorageFailure::Broken) {
        return;
    }
    let said = host.said.len();
    let records = vec![
        host.new_session(OTHER_SESSION),
        host.new_chat(OTHER_SESSION, OTHER_CHAT),
        host.title(SESSION, "lost"),
        host.chat(OTHER_SESSION, CHAT),
        turns_record(CHAT, 1, &["lost"]),
        client("b", "lost"),
        Record::Summary(Box::new(summary(SESSION, 9_000, "lost"))),
    ];
    let lost = host.append(records);
    let after = host.append(vec![Record::SessionRemoved { uri: SESSION.into() }]);
    lost.await.expect_err("the storage is broken");
    after
        .now_or_never()
        .expect("batches are refused in order")
        .expect_err("the one before was lost");
    host.said.truncate(said);
    storage.mend();
    host.journal.revive().await.expect("the storage was mended");
    for step in ["after the revival", "in a later host"] {
        assert_eq!(describe(&host.load(SESSION).await), before, "{step}");
        assert!(!host.has(OTHER_SESSION).await, "{step}");
        let lines = host.list().await;
        assert_eq!(
            lines.iter().map(|line| line.modified_ms).collect::<Vec<_>>(),
            [1_000],
            "{step}"
        );
        assert_eq!(host.turns().position(CHAT, "b"), Ok(Some(1)), "{step}");
        host.flush().await;
        host = host.again(&*storage).await;
        assert_eq!(
            (host.lease.persisted_seq, host.lease.unsettled.len()),
            (kept, 0),
            "{step}"
        );
        assert_eq!(host.lease.clients.len(), 1, "{step}");
    }
}

/// Sessions can be looked at while nothing can be written (P14).
pub async fn p14_a_journal_that_cannot_write_can_be_read(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.keep(vec![turns_record(CHAT, 0, &["a", "b"])]).await;
    let record = host.title(SESSION, "confirmed");
    host.keep(vec![record]).await;
    let before = describe(&host.load(SESSION).await);
    if !storage.break_down(StorageFailure::Full) {
        return;
    }
    let record = host.title(SESSION, "lost");
    host.append(vec![record]).await.expect_err("the storage is full");
    for _ in 0..2 {
        let lease = host.journal.open().await.expect("the journal opens for reading");
        assert_eq!((lease.sessions, &lease.unsettled[..]), (1, &[SESSION.to_owned()][..]));
        assert_eq!(describe(&host.load(CHAT).await), before);
        assert_eq!(host.list().await.len(), 1);
        assert_eq!(host.turns().read(CHAT, 0..2).map(|turns| turns.len()), Ok(2));
        let record = host.title(SESSION, "lost");
        host.append(vec![record]).await.expect_err("opening does not revive");
    }
}

/// Numbers that were given out before a failure are not given out again (P5, P14).
pub async fn p14_no_number_is_given_out_twice_after_a_failure(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    for _ in 0..3 {
        if !storage.break_down(StorageFailure::Full) {
            return;
        }
        let record = host.title(SESSION, "lost");
        host.append(vec![record]).await.expect_err("the storage is full");
        let given_out = host.seq;
        let lease = host.journal.open().await.expect("the journal opens for reading");
        assert!(lease.last_seq >= given_out, "{given_out} could be given out again");
        storage.mend();
        host.journal.revive().await.expect("the storage was mended");
        let lease = host.journal.open().await.expect("the journal opens");
        assert!(lease.last_seq >= given_out, "{given_out} could be given out again");
        let left = storage.without_power().await;
        let next = HostRun::begin(&*left).await;
        assert!(next.lease.last_seq.0 >= lease.last_seq.0 + RESERVED);
        host.seq = lease.last_seq;
    }
}
