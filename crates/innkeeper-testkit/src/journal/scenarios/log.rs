//! Logs: order, merging, and what documents do to them.

use std::sync::Arc;

use futures_util::FutureExt;
use innkeeper_core::Seq;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::{CHAT, OTHER_CHAT, SESSION};
use crate::journal::Storage;
use crate::journal::host_run::{HostRun, text};
use crate::journal::logs::{check_log, check_order};

/// Actions of several channels, in several batches, come back in one order (P2).
pub async fn p2_actions_come_back_in_the_order_of_their_numbers(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.keep(vec![host.new_chat(SESSION, OTHER_CHAT)]).await;
    let folded = host.seq;
    for round in 0..20 {
        let mut records = vec![
            host.delta(CHAT, "a", &format!("first {round}, ")),
            host.delta(OTHER_CHAT, "a", &format!("second {round}, ")),
            host.title(SESSION, &format!("round {round}")),
            host.delta(CHAT, "a", "more, "),
        ];
        if round % 3 == 0 {
            records.push(host.delta(CHAT, "b", "another part"));
        }
        host.keep(records).await;
        for streamed in ["one ", "two ", "three"] {
            let record = host.delta(CHAT, "a", streamed);
            host.keep(vec![record]).await;
        }
    }
    let host = host.again(&*storage).await;
    let session = host.load(SESSION).await;
    check_order(&session.log);
    for channel in [SESSION, CHAT, OTHER_CHAT] {
        check_log(channel, &host.said_in(channel), folded, &session.log);
    }
}

/// Appends of many tasks are stored in the order of the calls (P2).
pub async fn p2_batches_of_many_tasks_are_kept_in_the_order_of_the_calls(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let folded = host.seq;
    let host = Arc::new(Mutex::new(host));
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let host = Arc::clone(&host);
        tasks.spawn(async move {
            for turn in 0..25 {
                // The lock makes taking a number and appending one step, as in the host's loop.
                let appended = {
                    let mut host = host.lock().await;
                    let record = match (task + turn) % 4 {
                        0 => host.title(SESSION, &format!("{task}.{turn}")),
                        part => host.delta(CHAT, &format!("part-{part}"), &format!("{task}.{turn} ")),
                    };
                    host.append(vec![record])
                };
                appended.await.expect("the batch is kept");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("the task ends");
    }
    let host = host.lock().await;
    let session = host.load(SESSION).await;
    check_order(&session.log);
    for channel in [SESSION, CHAT] {
        check_log(channel, &host.said_in(channel), folded, &session.log);
    }
}

/// When a durable batch is confirmed, so are those before it (P1).
pub async fn p1_durable_batches_are_confirmed_in_order(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let mut waiting = Vec::new();
    for number in 0..30 {
        let record = host.title(SESSION, &format!("title {number}"));
        waiting.push(host.append(vec![record]));
        if waiting.len() == 10 {
            let last = waiting.pop().expect("there are ten");
            last.await.expect("the batch is kept");
            for earlier in waiting.drain(..) {
                let confirmed = earlier.now_or_never();
                assert_eq!(confirmed, Some(Ok(())), "a later batch was confirmed first");
            }
        }
    }
}

/// Appends may be merged, if nothing of them is lost.
pub async fn merged_appends_keep_their_text_and_their_numbers(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let folded = host.seq;
    let texts = [
        "plain ",
        "",
        "\"quoted\" \\ ",
        "line\nbreak\t",
        "\u{1F600}\u{0}",
        "é",
        "end",
    ];
    // Long runs in one batch, short ones in many, and neighbours that only look alike.
    let mut records = Vec::new();
    for round in 0..50 {
        for text in texts {
            records.push(host.delta(CHAT, "p", text));
        }
        if round % 10 == 9 {
            records.push(host.delta(CHAT, "q", "another part"));
            records.push(host.reasoning(CHAT, "p", "the same part of another kind"));
            records.push(host.reasoning(CHAT, "p", ", twice"));
        }
    }
    host.keep(records).await;
    for text in texts.iter().cycle().take(200) {
        let record = host.delta(CHAT, "p", text);
        host.keep(vec![record]).await;
    }
    let session = host.load(SESSION).await;
    check_log(CHAT, &host.said_in(CHAT), folded, &session.log);
    let host = host.again(&*storage).await;
    let session = host.load(SESSION).await;
    check_log(CHAT, &host.said_in(CHAT), folded, &session.log);
}

/// Text that is part of a document is never merged with text that is not: it would come twice.
pub async fn nothing_is_merged_across_a_document(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    // All in one batch.
    let mut records = vec![host.delta(CHAT, "p", "in the document, ")];
    records.push(host.chat(SESSION, CHAT));
    let folded = host.seq;
    records.push(host.delta(CHAT, "p", "after it, "));
    records.push(host.delta(CHAT, "p", "and more, "));
    host.keep(records).await;
    let session = host.load(CHAT).await;
    check_log(CHAT, &host.said_in(CHAT), folded, &session.log);
    // One by one.
    host.keep(vec![host.chat(SESSION, CHAT)]).await;
    let folded = host.seq;
    let record = host.delta(CHAT, "p", "after the next, ");
    host.keep(vec![record]).await;
    let session = host.load(CHAT).await;
    check_log(CHAT, &host.said_in(CHAT), folded, &session.log);
}

/// The latest document counts, and the log goes on after it.
pub async fn a_document_takes_the_place_of_the_one_before(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    for version in 0..5 {
        let records = vec![
            host.title(SESSION, &format!("title {version}")),
            host.delta(CHAT, "p", &format!("text {version}, ")),
        ];
        host.keep(records).await;
        let document = format!("version {version}");
        let records = vec![
            host.session_with(SESSION, |session| session.document = text(&document)),
            host.chat_with(SESSION, CHAT, |chat| chat.document = text(&document)),
        ];
        host.keep(records).await;
        let folded = host.seq;
        let records = vec![host.title(SESSION, "later"), host.delta(CHAT, "p", "later, ")];
        host.keep(records).await;
        let session = host.load(SESSION).await;
        assert_eq!(session.seq, folded);
        assert_eq!(session.document, document.as_bytes());
        let [chat] = &session.chats[..] else {
            panic!("one chat, not {}", session.chats.len())
        };
        assert_eq!((chat.seq, &chat.document[..]), (folded, document.as_bytes()));
        for channel in [SESSION, CHAT] {
            check_log(channel, &host.said_in(channel), folded, &session.log);
        }
    }
}

/// The log for replay may be truncated at its old end, and nowhere else (P5).
pub async fn a_log_that_is_cut_has_no_hole(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let long = "x".repeat(48 << 10);
    let mut folded = Seq::default();
    for round in 0..40 {
        let records = vec![
            host.delta(CHAT, &format!("part {round}"), &long),
            host.delta(CHAT, "small", "a little, "),
        ];
        host.keep(records).await;
        if round % 8 == 5 {
            host.keep(vec![host.chat(SESSION, CHAT)]).await;
            folded = host.seq;
        }
    }
    let host = host.again(&*storage).await;
    let session = host.load(SESSION).await;
    check_log(CHAT, &host.said_in(CHAT), folded, &session.log);
}

/// Reading waits for appended records, also if no caller waits for their batch.
pub async fn an_append_is_readable_at_once(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let folded = host.seq;
    for number in 0..10 {
        let durable = host.title(SESSION, &format!("title {number}"));
        let durable = host.append(vec![durable]);
        let streamed = host.delta(CHAT, "p", "text ");
        drop(host.append(vec![streamed]));
        let session = host.load(SESSION).await;
        for channel in [SESSION, CHAT] {
            check_log(channel, &host.said_in(channel), folded, &session.log);
        }
        durable.await.expect("the batch is kept");
    }
}
