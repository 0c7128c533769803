//! Failures of the storage. Skipped for storages that cannot fail on command.

use futures_util::FutureExt;
use innkeeper_core::stored::Record;
use innkeeper_host::{JournalError, RESERVED};

use super::{CHAT, OTHER_CHAT, OTHER_SESSION, SESSION};
use crate::journal::life::{Life, client, summary, turns_record};
use crate::journal::logs::{check_log, describe};
use crate::journal::{Storage, Trouble};

/// Nothing is kept after something was lost, until the journal is whole again (P14).
pub async fn p14_the_first_failure_makes_later_batches_fail_until_the_revival(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    for trouble in [Trouble::Full, Trouble::Broken] {
        if !storage.break_down(trouble) {
            return;
        }
        let record = life.title(SESSION, "lost");
        let error = life.append(vec![record]).await.expect_err("the storage is broken");
        match (trouble, &error) {
            (Trouble::Full, JournalError::Full(_)) | (Trouble::Broken, JournalError::Failed(_)) => {}
            (trouble, error) => panic!("{trouble:?} is reported as {error:?}"),
        }
        assert!(!error.to_string().is_empty(), "the error says nothing");
        life.journal.revive().await.expect_err("the storage is still broken");
        storage.mend();
        // The storage would take it, but the batch before is missing.
        for _ in 0..3 {
            let record = life.title(SESSION, "too early");
            life.append(vec![record]).await.expect_err("nobody revived the journal");
        }
        let record = life.delta(CHAT, "p", "too early");
        life.append(vec![record]).await.expect_err("nobody revived the journal");
        life.journal.flush().await.expect_err("what was appended is lost");
        life.journal.revive().await.expect("the storage was mended");
        life.said
            .retain(|action| action.frame.bytes.windows(4).any(|word| word == b"kept"));
        let record = life.title(SESSION, "kept");
        life.keep(vec![record]).await;
        life.flush().await;
        life = life.again(&*storage).await;
        let session = life.load(SESSION).await;
        check_log(SESSION, &life.said_in(SESSION), session.seq, &session.log);
        check_log(CHAT, &[], session.seq, &session.log);
    }
}

/// Whatever a failed batch was about, it is as if it had never been (P14).
pub async fn p14_a_batch_that_failed_leaves_nothing(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    life.keep(vec![turns_record(CHAT, 0, &["a", "b"]), client("a", "known")])
        .await;
    let record = life.title(SESSION, "confirmed");
    life.keep(vec![record, life.session(SESSION)]).await;
    let (before, kept) = (describe(&life.load(SESSION).await), life.seq);
    if !storage.break_down(Trouble::Broken) {
        return;
    }
    let said = life.said.len();
    let records = vec![
        life.new_session(OTHER_SESSION),
        life.new_chat(OTHER_SESSION, OTHER_CHAT),
        life.title(SESSION, "lost"),
        life.chat(OTHER_SESSION, CHAT),
        turns_record(CHAT, 1, &["lost"]),
        client("b", "lost"),
        Record::Summary(Box::new(summary(SESSION, 9_000, "lost"))),
    ];
    let lost = life.append(records);
    let after = life.append(vec![Record::SessionRemoved { uri: SESSION.into() }]);
    lost.await.expect_err("the storage is broken");
    after
        .now_or_never()
        .expect("batches are refused in order")
        .expect_err("the one before was lost");
    life.said.truncate(said);
    storage.mend();
    life.journal.revive().await.expect("the storage was mended");
    for step in ["after the revival", "in a later life"] {
        assert_eq!(describe(&life.load(SESSION).await), before, "{step}");
        assert!(!life.has(OTHER_SESSION).await, "{step}");
        let lines = life.list().await;
        assert_eq!(
            lines.iter().map(|line| line.modified_ms).collect::<Vec<_>>(),
            [1_000],
            "{step}"
        );
        assert_eq!(life.turns().position(CHAT, "b"), Ok(Some(1)), "{step}");
        life.flush().await;
        life = life.again(&*storage).await;
        assert_eq!((life.lease.kept_seq, life.lease.unsettled.len()), (kept, 0), "{step}");
        assert_eq!(life.lease.clients.len(), 1, "{step}");
    }
}

/// Sessions can be looked at while nothing can be written (P14).
pub async fn p14_a_journal_that_cannot_write_can_be_read(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    life.keep(vec![turns_record(CHAT, 0, &["a", "b"])]).await;
    let record = life.title(SESSION, "confirmed");
    life.keep(vec![record]).await;
    let before = describe(&life.load(SESSION).await);
    if !storage.break_down(Trouble::Full) {
        return;
    }
    let record = life.title(SESSION, "lost");
    life.append(vec![record]).await.expect_err("the storage is full");
    for _ in 0..2 {
        let lease = life.journal.open().await.expect("the journal opens for reading");
        assert_eq!((lease.sessions, &lease.unsettled[..]), (1, &[SESSION.to_owned()][..]));
        assert_eq!(describe(&life.load(CHAT).await), before);
        assert_eq!(life.list().await.len(), 1);
        assert_eq!(life.turns().read(CHAT, 0..2).map(|turns| turns.len()), Ok(2));
        let record = life.title(SESSION, "lost");
        life.append(vec![record]).await.expect_err("opening does not revive");
    }
}

/// Numbers that were given out before a failure are not given out again (P5, P14).
pub async fn p14_no_number_is_given_out_twice_after_a_failure(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    for _ in 0..3 {
        if !storage.break_down(Trouble::Full) {
            return;
        }
        let record = life.title(SESSION, "lost");
        life.append(vec![record]).await.expect_err("the storage is full");
        let given_out = life.seq;
        let lease = life.journal.open().await.expect("the journal opens for reading");
        assert!(lease.last_seq >= given_out, "{given_out} could be given out again");
        storage.mend();
        life.journal.revive().await.expect("the storage was mended");
        let lease = life.journal.open().await.expect("the journal opens");
        assert!(lease.last_seq >= given_out, "{given_out} could be given out again");
        let left = storage.without_power().await;
        let next = Life::begin(&*left).await;
        assert!(next.lease.last_seq.0 >= lease.last_seq.0 + RESERVED);
        life.seq = lease.last_seq;
    }
}
