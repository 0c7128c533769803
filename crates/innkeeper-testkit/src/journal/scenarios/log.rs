//! Logs: order, merging, and what documents do to them.

use std::sync::Arc;

use futures_util::FutureExt;
use innkeeper_core::Seq;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::{CHAT, OTHER_CHAT, SESSION};
use crate::journal::Storage;
use crate::journal::life::{Life, text};
use crate::journal::logs::{check_log, check_order};

/// Actions of several channels, in several batches, come back in one order (P2).
pub async fn p2_actions_come_back_in_the_order_of_their_numbers(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    life.keep(vec![life.new_chat(SESSION, OTHER_CHAT)]).await;
    let folded = life.seq;
    for round in 0..20 {
        let mut records = vec![
            life.delta(CHAT, "a", &format!("first {round}, ")),
            life.delta(OTHER_CHAT, "a", &format!("second {round}, ")),
            life.title(SESSION, &format!("round {round}")),
            life.delta(CHAT, "a", "more, "),
        ];
        if round % 3 == 0 {
            records.push(life.delta(CHAT, "b", "another part"));
        }
        life.keep(records).await;
        for streamed in ["one ", "two ", "three"] {
            let record = life.delta(CHAT, "a", streamed);
            life.keep(vec![record]).await;
        }
    }
    let life = life.again(&*storage).await;
    let session = life.load(SESSION).await;
    check_order(&session.log);
    for channel in [SESSION, CHAT, OTHER_CHAT] {
        check_log(channel, &life.said_in(channel), folded, &session.log);
    }
}

/// Appends of many tasks are stored in the order of the calls (P2).
pub async fn p2_batches_of_many_tasks_are_kept_in_the_order_of_the_calls(storage: Box<dyn Storage>) {
    let life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    let folded = life.seq;
    let life = Arc::new(Mutex::new(life));
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let life = Arc::clone(&life);
        tasks.spawn(async move {
            for turn in 0..25 {
                // The lock makes taking a number and appending one step, as in the host's loop.
                let appended = {
                    let mut life = life.lock().await;
                    let record = match (task + turn) % 4 {
                        0 => life.title(SESSION, &format!("{task}.{turn}")),
                        part => life.delta(CHAT, &format!("part-{part}"), &format!("{task}.{turn} ")),
                    };
                    life.append(vec![record])
                };
                appended.await.expect("the batch is kept");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("the task ends");
    }
    let life = life.lock().await;
    let session = life.load(SESSION).await;
    check_order(&session.log);
    for channel in [SESSION, CHAT] {
        check_log(channel, &life.said_in(channel), folded, &session.log);
    }
}

/// When a durable batch is confirmed, so are those before it (P1).
pub async fn p1_durable_batches_are_confirmed_in_order(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    let mut waiting = Vec::new();
    for number in 0..30 {
        let record = life.title(SESSION, &format!("title {number}"));
        waiting.push(life.append(vec![record]));
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
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    let folded = life.seq;
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
            records.push(life.delta(CHAT, "p", text));
        }
        if round % 10 == 9 {
            records.push(life.delta(CHAT, "q", "another part"));
            records.push(life.reasoning(CHAT, "p", "the same part of another kind"));
            records.push(life.reasoning(CHAT, "p", ", twice"));
        }
    }
    life.keep(records).await;
    for text in texts.iter().cycle().take(200) {
        let record = life.delta(CHAT, "p", text);
        life.keep(vec![record]).await;
    }
    let session = life.load(SESSION).await;
    check_log(CHAT, &life.said_in(CHAT), folded, &session.log);
    let life = life.again(&*storage).await;
    let session = life.load(SESSION).await;
    check_log(CHAT, &life.said_in(CHAT), folded, &session.log);
}

/// Text that is part of a document is never merged with text that is not: it would come twice.
pub async fn nothing_is_merged_across_a_document(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    // All in one batch.
    let mut records = vec![life.delta(CHAT, "p", "in the document, ")];
    records.push(life.chat(SESSION, CHAT));
    let folded = life.seq;
    records.push(life.delta(CHAT, "p", "after it, "));
    records.push(life.delta(CHAT, "p", "and more, "));
    life.keep(records).await;
    let session = life.load(CHAT).await;
    check_log(CHAT, &life.said_in(CHAT), folded, &session.log);
    // One by one.
    life.keep(vec![life.chat(SESSION, CHAT)]).await;
    let folded = life.seq;
    let record = life.delta(CHAT, "p", "after the next, ");
    life.keep(vec![record]).await;
    let session = life.load(CHAT).await;
    check_log(CHAT, &life.said_in(CHAT), folded, &session.log);
}

/// The latest document counts, and the log goes on after it.
pub async fn a_document_takes_the_place_of_the_one_before(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    for version in 0..5 {
        let records = vec![
            life.title(SESSION, &format!("title {version}")),
            life.delta(CHAT, "p", &format!("text {version}, ")),
        ];
        life.keep(records).await;
        let document = format!("version {version}");
        let records = vec![
            life.session_with(SESSION, |session| session.document = text(&document)),
            life.chat_with(SESSION, CHAT, |chat| chat.document = text(&document)),
        ];
        life.keep(records).await;
        let folded = life.seq;
        let records = vec![life.title(SESSION, "later"), life.delta(CHAT, "p", "later, ")];
        life.keep(records).await;
        let session = life.load(SESSION).await;
        assert_eq!(session.seq, folded);
        assert_eq!(session.document, document.as_bytes());
        let [chat] = &session.chats[..] else {
            panic!("one chat, not {}", session.chats.len())
        };
        assert_eq!((chat.seq, &chat.document[..]), (folded, document.as_bytes()));
        for channel in [SESSION, CHAT] {
            check_log(channel, &life.said_in(channel), folded, &session.log);
        }
    }
}

/// The log for replay may be truncated at its old end, and nowhere else (P5).
pub async fn a_log_that_is_cut_has_no_hole(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    let long = "x".repeat(48 << 10);
    let mut folded = Seq::default();
    for round in 0..40 {
        let records = vec![
            life.delta(CHAT, &format!("part {round}"), &long),
            life.delta(CHAT, "small", "a little, "),
        ];
        life.keep(records).await;
        if round % 8 == 5 {
            life.keep(vec![life.chat(SESSION, CHAT)]).await;
            folded = life.seq;
        }
    }
    let life = life.again(&*storage).await;
    let session = life.load(SESSION).await;
    check_log(CHAT, &life.said_in(CHAT), folded, &session.log);
}

/// Reading waits for what was appended, also if nobody waits for the batch itself.
pub async fn what_was_appended_is_seen_at_once(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    let folded = life.seq;
    for number in 0..10 {
        let durable = life.title(SESSION, &format!("title {number}"));
        let durable = life.append(vec![durable]);
        let streamed = life.delta(CHAT, "p", "text ");
        drop(life.append(vec![streamed]));
        let session = life.load(SESSION).await;
        for channel in [SESSION, CHAT] {
            check_log(channel, &life.said_in(channel), folded, &session.log);
        }
        durable.await.expect("the batch is kept");
    }
}
