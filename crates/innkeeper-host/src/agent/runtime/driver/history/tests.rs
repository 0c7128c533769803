//! The history that agents get of long conversations.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use innkeeper_core::agent::PastOutcome;
use serde_json::json;

use super::*;

const CHAT: &str = "ahp-chat:/a";
/// Bytes of each turn in the store, as JSON.
const TURN_BYTES: usize = 1000;

/// A chat of a hundred turns, `t0` and so on.
#[derive(Debug, Default)]
struct Shelf {
    rows_read: AtomicUsize,
    damaged: bool,
}

impl TurnSource for Shelf {
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        if self.damaged || chat != CHAT || range.end > 100 {
            return Err("bad sector".to_owned());
        }
        self.rows_read.fetch_add(range.len(), Ordering::Relaxed);
        Ok(range.map(row).collect())
    }

    fn position(&self, chat: &str, turn_id: &str) -> Result<Option<usize>, String> {
        let index = turn_id.strip_prefix('t').and_then(|index| index.parse().ok());
        Ok(index.filter(|index| chat == CHAT && *index < 100))
    }
}

fn row(index: usize) -> Bytes {
    let turn = |text: &str| {
        let message = json!({ "text": text, "origin": { "kind": "user" } });
        json!({ "id": format!("t{index}"), "message": message, "responseParts": [], "state": "complete" }).to_string()
    };
    let text = "x".repeat(TURN_BYTES - turn("").len());
    turn(&text).into_bytes().into()
}

fn past(id: &str, bytes: usize) -> PastTurn {
    PastTurn {
        id: id.to_owned(),
        text: "x".repeat(bytes),
        reply: String::new(),
        attachments: Vec::new(),
        steered: Vec::new(),
        tools: Vec::new(),
        outcome: PastOutcome::Complete,
    }
}

fn span(end: SpanEnd) -> TurnSpan {
    TurnSpan { chat: CHAT.into(), end }
}

fn reader(budget: usize) -> (TurnHistory, Arc<Shelf>) {
    let shelf = Arc::new(Shelf::default());
    (TurnHistory::new(Some(Arc::clone(&shelf) as _), budget), shelf)
}

fn ids(told: &AgentHistory) -> Vec<&str> {
    told.turns.iter().map(|turn| turn.id.as_str()).collect()
}

#[tokio::test]
async fn cht05_an_agent_is_told_everything_that_fits_oldest_first() {
    let (reader, _) = reader(1 << 20);
    let history = PastTurns {
        earlier: Some(span(SpanEnd::Before(98))),
        recent: vec![past("t98", 10), past("t99", 10)],
    };
    let told = reader.tell(history).await.expect("readable");
    let all: Vec<String> = (0..100).map(|index| format!("t{index}")).collect();
    assert_eq!(ids(&told), all);
    assert_eq!(told.omitted, 0);
}

#[tokio::test]
async fn a_long_history_gives_the_agent_the_latest_turns_and_an_omitted_count() {
    let (reader, shelf) = reader(5 * TURN_BYTES);
    let history = PastTurns {
        earlier: Some(span(SpanEnd::Before(98))),
        recent: vec![past("t98", 10), past("t99", 10)],
    };
    let told = reader.tell(history).await.expect("readable");
    assert_eq!(ids(&told), ["t94", "t95", "t96", "t97", "t98", "t99"]);
    assert_eq!(told.omitted, 94);
    let read = shelf.rows_read.load(Ordering::Relaxed);
    assert!(read < 70, "no more than a little beyond it is read: {read}");
}

#[tokio::test]
async fn the_latest_turn_is_always_included_and_memory_counts_too() {
    let (reader, shelf) = reader(500);
    let history = PastTurns {
        earlier: Some(span(SpanEnd::Before(97))),
        recent: vec![past("t97", 10), past("t98", 10), past("t99", 400)],
    };
    let told = reader.tell(history).await.expect("readable");
    assert_eq!((ids(&told), told.omitted), (vec!["t99"], 99));
    assert_eq!(shelf.rows_read.load(Ordering::Relaxed), 0);
    let nothing = reader.tell(PastTurns::default()).await.expect("nothing to read");
    assert_eq!((nothing.turns.len(), nothing.omitted), (0, 0));
}

#[tokio::test]
async fn p9_a_conversation_that_cannot_be_read_is_a_failure_with_a_reason() {
    let shelf = Shelf {
        damaged: true,
        ..Shelf::default()
    };
    let history = || PastTurns {
        earlier: Some(span(SpanEnd::Before(3))),
        recent: Vec::new(),
    };
    let damaged = TurnHistory::new(Some(Arc::new(shelf)), 1 << 20).tell(history()).await;
    assert_eq!(damaged.expect_err("damaged"), "bad sector");
    let nowhere = TurnHistory::new(None, 1 << 20).tell(history()).await;
    assert!(nowhere.expect_err("nowhere to read").contains("could not be read"));
}

/// (TURN-19)
#[tokio::test]
async fn turn18_an_attached_chat_is_read_to_its_end_and_a_lost_one_is_noted() {
    let (reader, _) = reader(3 * TURN_BYTES);
    let gone = |label: &str| Attachment::Text {
        label: label.to_owned(),
        text: "(gone)".to_owned(),
    };
    let mut attachments = vec![gone("one"), gone("two"), gone("three")];
    let through = |attachment: usize, chat: &str, turn: &str| UnreadChat {
        attachment,
        span: TurnSpan {
            chat: chat.into(),
            end: SpanEnd::Through(turn.to_owned()),
        },
    };
    let unread = vec![through(1, CHAT, "t7"), through(2, CHAT, "t100"), through(9, CHAT, "t7")];
    reader.fill(&mut attachments, unread).await;
    assert_eq!((&attachments[0], &attachments[2]), (&gone("one"), &gone("three")));
    let Attachment::Chat { label, uri, transcript } = &attachments[1] else {
        panic!("{:?}", attachments[1]);
    };
    assert_eq!((label.as_str(), uri.as_str()), ("two", CHAT));
    let ids: Vec<_> = transcript.iter().map(|turn| turn.id.as_str()).collect();
    assert_eq!(ids, ["t5", "t6", "t7"]);
}
