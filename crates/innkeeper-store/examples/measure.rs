//! Measures the store on this machine's disk: `cargo run --release -p innkeeper-store --example measure [directory]`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ahp_types::actions::{ChatDeltaAction, SessionTitleChangedAction, StateAction};
use innkeeper_core::records::{
    ActionRecord, Batch, ChatRecord, Document, ListPage, Record, SessionRecord, SummaryRecord,
};
use innkeeper_core::{ActionFrame, Seq};
use innkeeper_host::journal::Journal;
use innkeeper_store::{FILE_NAME, Options, SqliteJournal};

const CLIENTS: usize = 64;
const FOR: Duration = Duration::from_secs(5);
const SESSIONS: usize = 100_000;

#[tokio::main]
async fn main() {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let directory = tempfile::tempdir_in(given.unwrap_or_else(std::env::temp_dir)).expect("a directory");
    let path = directory.path().join(FILE_NAME);
    let journal = Arc::new(SqliteJournal::new(&path, Options::default()));
    let seq = Arc::new(AtomicU64::new(journal.open().await.expect("it opens").last_seq.0));
    durable(&journal, &seq).await;
    behind(&journal, &seq).await;
    many(&journal, &seq).await;
    drop(journal);
    start(&path).await;
}

fn session(uri: &str, number: usize, seq: u64) -> Record {
    let summary =
        format!(r#"{{"resource":"{uri}","title":"Session {number}","status":1,"modifiedAt":"2026-01-01T00:00:00Z"}}"#);
    Record::Session(Box::new(SessionRecord {
        seq: Seq(seq),
        is_new: true,
        at_rest: true,
        summary: SummaryRecord {
            uri: uri.into(),
            created_ms: 1_000,
            modified_ms: 1_000 + number as i64,
            is_archived: false,
            summary: Document::ready(summary.into_bytes()),
        },
        document: Document::ready(vec![b'x'; 1_500]),
        is_draft: false,
    }))
}

fn chat(session: &str, uri: &str, seq: u64) -> Record {
    Record::Chat(Box::new(ChatRecord {
        uri: uri.into(),
        session: session.into(),
        seq: Seq(seq),
        is_new: true,
        document: Document::ready(vec![b'x'; 500]),
    }))
}

fn action(channel: &Arc<str>, action: &StateAction, seq: u64) -> Record {
    Record::Action(ActionRecord {
        channel: Arc::clone(channel),
        frame: Arc::new(ActionFrame::from_action(channel, action, Seq(seq))),
    })
}

async fn durable(journal: &Arc<SqliteJournal>, seq: &Arc<AtomicU64>) {
    let uris: Vec<Arc<str>> = (0..CLIENTS)
        .map(|client| format!("ahp-session:/client/{client}").into())
        .collect();
    for uri in &uris {
        let records = vec![session(uri, 0, seq.load(Ordering::Relaxed))];
        let batch = Batch {
            records,
            seq: Seq(seq.load(Ordering::Relaxed)),
        };
        journal.append(batch).await.expect("it is kept");
    }
    let order = Arc::new(std::sync::Mutex::new(()));
    let end = Instant::now() + FOR;
    let clients: Vec<_> = uris
        .into_iter()
        .map(|uri| {
            let (journal, seq, order) = (Arc::clone(journal), Arc::clone(seq), Arc::clone(&order));
            tokio::spawn(async move {
                let mut waits = Vec::new();
                while Instant::now() < end {
                    let start = Instant::now();
                    let appended = {
                        let _in_order = order.lock().expect("no panic");
                        let number = seq.fetch_add(1, Ordering::Relaxed) + 1;
                        let title = StateAction::SessionTitleChanged(SessionTitleChangedAction {
                            title: format!("Title {number}"),
                        });
                        journal.append(Batch {
                            records: vec![action(&uri, &title, number)],
                            seq: Seq(number),
                        })
                    };
                    appended.await.expect("it is kept");
                    waits.push(start.elapsed());
                }
                waits
            })
        })
        .collect();
    let mut waits = Vec::new();
    for client in clients {
        waits.extend(client.await.expect("it ends"));
    }
    report(&format!("durable, {CLIENTS} clients, one record each"), waits, FOR);
}

async fn behind(journal: &Arc<SqliteJournal>, seq: &Arc<AtomicU64>) {
    let owner = "ahp-session:/client/0";
    let chats: Vec<Arc<str>> = (0..10).map(|chat| format!("ahp-chat:/stream/{chat}").into()).collect();
    let first = seq.load(Ordering::Relaxed);
    let records = chats.iter().map(|uri| chat(owner, uri, first)).collect();
    journal
        .append(Batch {
            records,
            seq: Seq(first),
        })
        .await
        .expect("it is kept");
    let start = Instant::now();
    let mut count = 0_u64;
    while start.elapsed() < FOR {
        for chat in &chats {
            let number = seq.fetch_add(1, Ordering::Relaxed) + 1;
            let delta = StateAction::ChatDelta(ChatDeltaAction {
                turn_id: "turn-1".into(),
                part_id: "part-1".into(),
                content: "about forty bytes of streamed text, yes.".into(),
                meta: None,
            });
            let batch = Batch {
                records: vec![action(chat, &delta, number)],
                seq: Seq(number),
            };
            journal.append(batch).await.expect("there is room");
            count += 1;
        }
    }
    let accepted = start.elapsed();
    journal.flush().await.expect("it is safe");
    let safe = start.elapsed();
    println!(
        "write-behind: {:.0} deltas/s over {} chats, one batch each; all safe {:?} after the last",
        count as f64 / safe.as_secs_f64(),
        chats.len(),
        safe - accepted
    );
}

async fn many(journal: &Arc<SqliteJournal>, seq: &Arc<AtomicU64>) {
    let start = Instant::now();
    let number = seq.load(Ordering::Relaxed);
    for first in (0..SESSIONS).step_by(500) {
        let records = (first..first + 500).flat_map(|number_of| {
            let (uri, chat_uri) = (
                format!("ahp-session:/many/{number_of}"),
                format!("ahp-chat:/many/{number_of}/1"),
            );
            [session(&uri, number_of, number), chat(&uri, &chat_uri, number)]
        });
        let batch = Batch {
            records: records.collect(),
            seq: Seq(number),
        };
        journal.append(batch).await.expect("it is kept");
    }
    println!("{SESSIONS} sessions with a chat each created in {:?}", start.elapsed());
    let page = || ListPage {
        after: None,
        limit: 100,
    };
    let first = Instant::now();
    journal.list(page()).await.expect("they are listed");
    let first = first.elapsed();
    let mut waits = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        assert_eq!(journal.list(page()).await.expect("they are listed").len(), 100);
        waits.push(start.elapsed());
    }
    println!(
        "first page of 100 of {SESSIONS}: {first:?} the first time, then {}",
        quantiles(waits)
    );
    let mut waits = Vec::new();
    for number in (0..SESSIONS).step_by(501) {
        let start = Instant::now();
        journal
            .load(&format!("ahp-session:/many/{number}"))
            .await
            .expect("it is read")
            .expect("it is there");
        waits.push(start.elapsed());
    }
    println!("a session loaded: {}", quantiles(waits));
}

async fn start(path: &std::path::Path) {
    println!(
        "file: {} MiB",
        std::fs::metadata(path).expect("it is there").len() >> 20
    );
    for what in ["after a clean end", "again"] {
        let journal = SqliteJournal::new(path, Options::default());
        let start = Instant::now();
        let lease = journal.open().await.expect("it opens");
        println!("open {what}: {:?}, {} sessions", start.elapsed(), lease.sessions);
        let start = Instant::now();
        let listed = journal
            .list(ListPage {
                after: None,
                limit: 100,
            })
            .await
            .expect("they are listed");
        println!("first page of {} after it: {:?}", listed.len(), start.elapsed());
    }
}

fn report(what: &str, waits: Vec<Duration>, over: Duration) {
    println!(
        "{what}: {:.0}/s, {}",
        waits.len() as f64 / over.as_secs_f64(),
        quantiles(waits)
    );
}

fn quantiles(mut waits: Vec<Duration>) -> String {
    waits.sort_unstable();
    let at = |share: f64| {
        waits
            .get((waits.len() as f64 * share) as usize)
            .copied()
            .unwrap_or_default()
    };
    format!(
        "p50 {:?}, p99 {:?}, longest {:?}",
        at(0.5),
        at(0.99),
        waits.last().copied().unwrap_or_default()
    )
}
