//! The journal after a crash.

use super::{CHAT, OTHER_CHAT, SESSION};
use crate::journal::host_run::{HostRun, turns_record};
use crate::journal::logs::{check_log, check_order, describe};
use crate::journal::{Storage, StorageFailure};

/// A confirmed batch survives the end of the process and of the power supply (P1).
pub async fn p1_confirmed_batches_survive(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let folded = host.seq;
    for round in 0..6 {
        // Records before a durable one are durable as well.
        let records = vec![
            host.delta(CHAT, "p", &format!("text {round}, ")),
            turns_record(CHAT, round, &["turn"]),
        ];
        drop(host.append(records));
        let record = host.title(SESSION, &format!("title {round}"));
        host.keep(vec![record]).await;
        expect_all_of(&host, storage.killed().await, folded).await;
        expect_all_of(&host, storage.without_power().await, folded).await;
    }
    for round in 0..3 {
        let (session, chat) = (format!("{SESSION}/{round}"), format!("{CHAT}/{round}"));
        host.create(&session, &chat).await;
        let next = HostRun::begin(&*storage.without_power().await).await;
        assert!(next.has(&session).await && next.has(&chat).await, "{session} is lost");
    }
}

/// After a flush nothing is lost at all (P1).
pub async fn p1_flushed_batches_survive(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let folded = host.seq;
    for _ in 0..30 {
        let record = host.delta(CHAT, "p", "text, ");
        host.keep(vec![record]).await;
    }
    host.keep(vec![turns_record(CHAT, 0, &["a", "b"])]).await;
    host.flush().await;
    expect_all_of(&host, storage.without_power().await, folded).await;
}

async fn expect_all_of(host: &HostRun, left: Box<dyn Storage>, folded: innkeeper_core::Seq) {
    let next = HostRun::begin(&*left).await;
    let (before, after) = (host.load(SESSION).await, next.load(SESSION).await);
    assert_eq!(describe(&after), describe(&before));
    check_order(&after.log);
    for channel in [SESSION, CHAT] {
        check_log(channel, &host.said_in(channel), folded, &after.log);
    }
    assert_eq!(next.lease.persisted_seq, host.seq);
}

/// Records that are written behind may be lost from some batch on, never from the middle (P1).
pub async fn p1_only_a_tail_is_lost(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.keep(vec![host.new_chat(SESSION, OTHER_CHAT)]).await;
    let folded = host.seq;
    for round in 0..60 {
        let chat = if round % 2 == 0 { CHAT } else { OTHER_CHAT };
        let record = host.delta(chat, "p", &format!("{round}, "));
        host.keep(vec![record]).await;
    }
    for left in [storage.killed().await, storage.without_power().await] {
        let next = HostRun::begin(&*left).await;
        let kept = next.lease.persisted_seq;
        let session = next.load(SESSION).await;
        check_order(&session.log);
        for chat in [CHAT, OTHER_CHAT] {
            let mut said = host.said_in(chat);
            said.retain(|frame| frame.seq <= kept);
            check_log(chat, &said, folded, &session.log);
        }
    }
}

/// Half a batch is never seen, neither after a crash nor after a failure (P1).
pub async fn p1_a_batch_is_kept_as_a_whole_or_not_at_all(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.keep(vec![host.new_chat(SESSION, OTHER_CHAT)]).await;
    for round in 0..20 {
        let id = format!("turn {round}");
        let records = vec![
            host.delta(CHAT, "p", "text, "),
            turns_record(CHAT, round, &[&id]),
            host.chat(SESSION, CHAT),
            turns_record(OTHER_CHAT, round, &[&id]),
            host.chat(SESSION, OTHER_CHAT),
        ];
        host.keep(records).await;
        for left in [storage.killed().await, storage.without_power().await] {
            expect_equal_chats(&HostRun::begin(&*left).await).await;
        }
    }
    host.flush().await;
    if storage.break_down(StorageFailure::Broken) {
        let records = vec![
            turns_record(CHAT, 20, &["never"]),
            host.title(SESSION, "never"),
            turns_record(OTHER_CHAT, 20, &["never"]),
        ];
        host.append(records).await.expect_err("the storage is broken");
        expect_equal_chats(&host).await;
        storage.mend();
        host.journal.revive().await.expect("the storage was mended");
        expect_equal_chats(&host).await;
    }
}

/// Both chats got the same in each batch.
async fn expect_equal_chats(host: &HostRun) {
    let session = host.load(SESSION).await;
    let [one, other] = &session.chats[..] else {
        panic!("two chats, not {}", session.chats.len())
    };
    assert_eq!(one.turns, other.turns);
    if !one.turns.is_empty() {
        assert_eq!(one.seq, other.seq);
    }
    let lengths: Vec<_> = [one, other].iter().map(|chat| chat.turns.len()).collect();
    let turns = host.turns();
    for (chat, length) in [(CHAT, lengths[0]), (OTHER_CHAT, lengths[1])] {
        turns.read(chat, 0..length).expect("the turns that are named are there");
        turns.read(chat, 0..length + 1).expect_err("there are no others");
    }
}
