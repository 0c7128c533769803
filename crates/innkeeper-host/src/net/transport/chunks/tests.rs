//! Answers that are read while they are written: to readers that are slow, that leave in the middle,
//! and from stores that fail (P7).

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use innkeeper_core::ChatModel;
use innkeeper_core::records::{StoredTurn, TurnSource};
use innkeeper_core::snapshot::{AnswerBody, Snapshot, Window};
use innkeeper_core::{RequestId, Seq, Wire};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::Notify;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::limits::Limits;
use crate::net::transport::lines::LineSink;
use crate::net::transport::websocket::accept;
use crate::net::transport::{Received, Sink, Source};

const TURNS: usize = 200;
const TURN_BYTES: usize = 100_000;

/// A store of turns that counts what is read.
#[derive(Debug, Default)]
struct Shelf {
    /// Bytes given out so far.
    read: AtomicUsize,
    max_at_once: AtomicUsize,
    /// The first turn that cannot be read.
    damaged_from: Option<usize>,
    /// Signals when the shelf is dropped, because its reader has ended.
    _gone: Option<Goodbye>,
}

#[derive(Debug)]
struct Goodbye(Arc<Notify>);

impl TurnSource for Shelf {
    fn read(&self, _: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        if self.damaged_from.is_some_and(|damaged| range.end > damaged) {
            return Err("bad sector".to_owned());
        }
        let rows: Vec<Bytes> = range.map(row).collect();
        let bytes = rows.iter().map(Bytes::len).sum();
        self.read.fetch_add(bytes, Ordering::Relaxed);
        self.max_at_once.fetch_max(bytes, Ordering::Relaxed);
        Ok(rows)
    }

    fn position(&self, _: &str, _: &str) -> Result<Option<usize>, String> {
        Ok(None)
    }
}

impl Drop for Goodbye {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn row(index: usize) -> Bytes {
    let turn = json!({
        "id": format!("t{index}"), "message": { "text": "é".repeat(TURN_BYTES / 2), "origin": { "kind": "user" } },
        "responseParts": [], "state": "complete",
    });
    turn.to_string().into_bytes().into()
}

/// The answer to a subscription to a chat of 20 MB that is nearly all in the store.
fn answer(shelf: &Arc<Shelf>) -> Arc<RpcAnswer> {
    let head = json!({
        "resource": "ahp-chat:/a", "title": "A", "status": 1, "modifiedAt": "2026-01-01T00:00:00.000Z", "turns": []
    });
    let known = |index| StoredTurn {
        id: format!("t{index}"),
        bytes: TURN_BYTES + 100,
    };
    let last = serde_json::from_slice(&row(TURNS - 1)).expect("a turn");
    let model = ChatModel::restore(
        serde_json::from_value(head).expect("a chat"),
        (0..TURNS).map(known).collect(),
        vec![Arc::new(last)],
        Arc::clone(shelf) as Arc<dyn TurnSource>,
    );
    let snapshot = Snapshot::new("ahp-chat:/a".into(), Seq(7), model.snapshot(Window::ALL));
    Arc::new(RpcAnswer {
        id: RequestId::number(1),
        body: AnswerBody::Subscribed(snapshot),
        estimated_bytes: TURNS * TURN_BYTES,
    })
}

fn check(message: &[u8]) {
    let answer: Value = serde_json::from_slice(message).expect("JSON");
    let turns = answer["result"]["snapshot"]["state"]["turns"]
        .as_array()
        .expect("turns");
    let ids: Vec<_> = turns.iter().map(|turn| turn["id"].clone()).collect();
    let wanted: Vec<_> = (0..TURNS).map(|index| json!(format!("t{index}"))).collect();
    assert_eq!(ids, wanted);
}

fn patient() -> Limits {
    Limits {
        write_time: Duration::from_secs(600),
        ..Limits::default()
    }
}

async fn client(stream: DuplexStream) -> WebSocketStream<DuplexStream> {
    WebSocketStream::from_raw_socket(stream, Role::Client, None).await
}

#[tokio::test]
async fn p7_a_streamed_answer_arrives_whole_between_other_messages() {
    let (server, stream) = tokio::io::duplex(1 << 16);
    let (_source, mut sink) = accept(server, Vec::new(), &patient()).await;
    let shelf = Arc::new(Shelf::default());
    let messages = vec![
        Wire::Text(Bytes::from_static(b"{\"before\":1}")),
        Wire::Stream(answer(&shelf)),
        Wire::Text(Bytes::from_static(b"{\"after\":1}")),
    ];
    let writing = tokio::spawn(async move { sink.write(messages).await });
    let mut client = client(stream).await;
    let mut next = async || match client.next().await {
        Some(Ok(Message::Text(text))) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(next().await.as_str(), "{\"before\":1}");
    check(next().await.as_bytes());
    assert_eq!(next().await.as_str(), "{\"after\":1}");
    writing.await.expect("no panic").expect("written");
    assert!(
        shelf.max_at_once.load(Ordering::Relaxed) <= 1 << 20,
        "a little at a time"
    );
}

#[tokio::test]
async fn p7_a_streamed_answer_is_one_line() {
    let (server, mut stream) = tokio::io::duplex(1 << 16);
    let mut sink = LineSink::new(server, Duration::from_secs(600));
    let shelf = Arc::new(Shelf::default());
    let messages = vec![
        Wire::Text(Bytes::from_static(b"{}")),
        Wire::Stream(answer(&shelf)),
        Wire::Text(Bytes::from_static(b"[]")),
    ];
    let writing = tokio::spawn(async move { sink.write(messages).await });
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.expect("read");
    writing.await.expect("no panic").expect("written");
    let lines: Vec<&[u8]> = all.split(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 4, "three messages, each with its end");
    assert_eq!((lines[0], lines[2]), (&b"{}"[..], &b"[]"[..]));
    check(lines[1]);
}

/// The amount that is read ahead of a slow peer is bounded.
#[tokio::test]
async fn p7_a_slow_reader_makes_the_store_wait() {
    let shelf = Arc::new(Shelf::default());
    let mut chunks = Chunks::of(answer(&shelf));
    let mut taken = 0;
    while let Some(chunk) = chunks.next().await.expect("readable") {
        assert!(chunk.len() <= CHUNK_BYTES);
        taken += chunk.len();
        // At most: the chunk that waits, the one that is filled, and what was read last.
        let ahead = shelf.read.load(Ordering::Relaxed).saturating_sub(taken);
        assert!(ahead <= 2 * CHUNK_BYTES + (1 << 20) + TURN_BYTES, "{ahead} bytes ahead");
    }
    assert!(taken > TURNS * TURN_BYTES);
}

#[tokio::test]
async fn p7_a_client_that_leaves_midway_leaves_no_reader_behind() {
    let gone = Arc::new(Notify::new());
    let shelf = Arc::new(Shelf {
        _gone: Some(Goodbye(Arc::clone(&gone))),
        ..Shelf::default()
    });
    let (server, stream) = tokio::io::duplex(1 << 16);
    let (_source, mut sink) = accept(server, Vec::new(), &patient()).await;
    let answer = answer(&shelf);
    drop(shelf);
    let writing = tokio::spawn(async move { sink.write(vec![Wire::Stream(answer)]).await });
    let mut stream = stream;
    let mut first = [0; 1000];
    stream.read_exact(&mut first).await.expect("some of it");
    drop(stream);
    let error = writing.await.expect("no panic").expect_err("no reader");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    // The thread notices as well, and drops everything.
    gone.notified().await;
}

#[tokio::test]
async fn p7_a_writer_that_is_given_up_leaves_no_reader_behind() {
    let gone = Arc::new(Notify::new());
    let shelf = Arc::new(Shelf {
        _gone: Some(Goodbye(Arc::clone(&gone))),
        ..Shelf::default()
    });
    let mut chunks = Chunks::of(answer(&shelf));
    drop(shelf);
    assert!(chunks.next().await.expect("readable").is_some());
    drop(chunks);
    gone.notified().await;
}

#[tokio::test]
async fn p9_a_turn_that_cannot_be_read_ends_the_message_and_says_why() {
    for damaged in [0, 60, TURNS - 2] {
        let shelf = Arc::new(Shelf {
            damaged_from: Some(damaged),
            ..Shelf::default()
        });
        let (server, stream) = tokio::io::duplex(1 << 16);
        let (source, mut sink) = accept(server, Vec::new(), &patient()).await;
        let answer = answer(&shelf);
        let writing = tokio::spawn(async move { sink.write(vec![Wire::Stream(answer)]).await });
        let mut client = client(stream).await;
        let read = tokio::spawn(async move { client.next().await });
        let error = writing.await.expect("no panic").expect_err("damaged");
        drop(source);
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("bad sector"), "{error}");
        assert!(
            !matches!(read.await, Ok(Some(Ok(Message::Text(_))))),
            "never half a message as a whole one"
        );
    }
}

/// A long answer over a slow line must not look like a dead peer to either side.
#[tokio::test]
async fn p7_pings_travel_between_the_fragments() {
    let (server, stream) = tokio::io::duplex(1 << 16);
    let limits = Limits {
        ping_interval: Duration::ZERO,
        ..patient()
    };
    let (mut source, mut sink) = accept(server, Vec::new(), &limits).await;
    let shelf = Arc::new(Shelf::default());
    let answer = answer(&shelf);
    let mut client = client(stream).await;
    futures_util::SinkExt::send(&mut client, Message::Ping(Bytes::from_static(b"there?")))
        .await
        .expect("sent");
    assert!(matches!(source.next().await, Received::Alive));
    // The library answers when it is asked for more.
    let reading = tokio::spawn(async move { while !matches!(source.next().await, Received::Closed) {} });
    let writing = tokio::spawn(async move { sink.write(vec![Wire::Stream(answer)]).await });
    let (mut pings, mut pongs) = (0, 0);
    loop {
        match client.next().await {
            Some(Ok(Message::Ping(_))) => pings += 1,
            Some(Ok(Message::Pong(_))) => pongs += 1,
            Some(Ok(Message::Text(text))) => break check(text.as_bytes()),
            other => panic!("{other:?}"),
        }
    }
    assert!(pings > 10 && pongs == 1, "{pings} {pongs}");
    writing.await.expect("no panic").expect("written");
    drop(client);
    reading.await.expect("no panic");
}

#[test]
fn a_chunk_is_handed_over_as_soon_as_it_is_full() {
    let (sender, mut chunks) = mpsc::channel(8);
    let mut out = Chunked {
        filled: Vec::new(),
        sender,
    };
    let mut sizes = Vec::new();
    out.write_all(&vec![b'x'; 2 * CHUNK_BYTES + 5]).expect("taken");
    while let Ok(chunk) = chunks.try_recv() {
        sizes.push(chunk.len());
    }
    assert_eq!(sizes, [CHUNK_BYTES, CHUNK_BYTES]);
    drop(chunks);
    out.flush().expect_err("no reader takes the rest");
}
