//! Sequence numbers across lives.

use innkeeper_core::Seq;
use innkeeper_host::journal::RESERVED;

use super::{CHAT, SESSION};
use crate::journal::Storage;
use crate::journal::host_run::{HostRun, client};

/// However a host ends, the next one starts after everything it may have given out (P5, E-05).
pub async fn p5_no_number_is_given_out_twice_across_lives(storage: Box<dyn Storage>) {
    let mut storage = storage;
    let mut last_seq = Seq::default();
    let mut said = Seq::default();
    for number in 0..9 {
        let mut host = HostRun::begin(&*storage).await;
        let start = host.lease.last_seq;
        assert!(start >= said, "{start} was given out before {said}");
        assert!(
            number == 0 || start.0 >= last_seq.0 + RESERVED,
            "a host that appended nothing may have used {RESERVED} numbers after {last_seq}, but the next starts at {start}"
        );
        assert!(start.0 + (1 << 40) < Seq::MAX.0, "{start} leaves too few numbers");
        last_seq = start;
        if number % 3 == 1 {
            host.create(&format!("{SESSION}/{number}"), &format!("{CHAT}/{number}"))
                .await;
            for _ in 0..5 {
                let record = host.title(&format!("{SESSION}/{number}"), "a title");
                host.keep(vec![record]).await;
            }
        }
        // The host uses its range before any client sees it.
        said = Seq(host.seq.0 + RESERVED);
        storage = match number % 3 {
            0 => storage.killed().await,
            1 => storage.without_power().await,
            _ => {
                host.flush().await;
                storage
            }
        };
        drop(host);
    }
}

/// A batch that comes close to the end of what is reserved reserves more before it is confirmed,
/// even if it has nothing durable (P5).
pub async fn p5_numbers_are_reserved_before_they_run_out(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    for round in 0..8 {
        host.seq = Seq(host.seq.0 + RESERVED - 2);
        let record = match round % 3 {
            0 => host.title(SESSION, "a title"),
            1 => host.delta(CHAT, "p", "text"),
            _ => client("a client", "known"),
        };
        host.keep(vec![record]).await;
        let left = storage.without_power().await;
        let next = HostRun::begin(&*left).await;
        let given_out = host.seq.0 + RESERVED;
        assert!(
            next.lease.last_seq.0 >= given_out,
            "{given_out} may have been given out, but the next host starts at {}",
            next.lease.last_seq
        );
    }
}

/// Numbers up to the kept one are complete, and nothing is there beyond it (P5).
pub async fn p5_kept_seq_says_up_to_where_nothing_is_missing(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    // A client of a journal that was lost has seen what this one does not know.
    assert_eq!(host.lease.persisted_seq, Seq(0), "an empty journal has kept nothing");
    host.create(SESSION, CHAT).await;
    let record = host.title(SESSION, "a title");
    // Actions that are not persisted take numbers, too.
    host.seq = Seq(host.seq.0 + 7);
    host.keep(vec![record]).await;
    let confirmed = host.seq;
    let killed = HostRun::begin(&*storage.without_power().await).await;
    assert_eq!(killed.lease.persisted_seq, confirmed);
    for _ in 0..50 {
        let record = host.delta(CHAT, "p", "text ");
        host.keep(vec![record]).await;
    }
    let said = host.seq;
    for left in [storage.killed().await, storage.without_power().await] {
        let next = HostRun::begin(&*left).await;
        let kept = next.lease.persisted_seq;
        assert!(
            confirmed <= kept && kept <= said,
            "{kept} is not from {confirmed} to {said}"
        );
        let last = next.load(CHAT).await.log.last().map(|frame| frame.seq);
        // Only appends came after the confirmed batch, one number each.
        let expected = if kept == confirmed { Seq(confirmed.0 - 7) } else { kept };
        assert_eq!(last, Some(expected), "what is there of numbers up to {kept}");
    }
    let host = host.again(&*storage).await;
    assert_eq!(host.lease.persisted_seq, said, "after a proper end");
    let host = host.again(&*storage).await;
    assert_eq!(
        host.lease.persisted_seq, said,
        "a host in which nothing happened keeps nothing new"
    );
}
