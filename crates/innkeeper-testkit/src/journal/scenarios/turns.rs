//! Completed turns.

use bytes::Bytes;
use innkeeper_core::records::{Record, StoredTurn, TurnRecord};

use super::{CHAT, OTHER_CHAT, SESSION};
use crate::journal::Storage;
use crate::journal::host_run::{HostRun, text, turn_document, turns_record};

/// The turns of a chat are numbered from the oldest one.
pub async fn turns_are_read_by_position_and_found_by_id(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let ids: Vec<_> = (0..300).map(|number| format!("turn \"{number}\"")).collect();
    for (position, id) in ids.iter().enumerate() {
        host.keep(vec![turns_record(CHAT, position, &[id])]).await;
    }
    let host = host.again(&*storage).await;
    expect_turns(&host, CHAT, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let turns = host.turns();
    let mut read = Vec::new();
    for start in (0..300).step_by(70) {
        let slice = turns
            .read(CHAT, start..300.min(start + 70))
            .expect("the turns are there");
        read.extend(slice);
    }
    let expected: Vec<_> = ids.iter().map(|id| Bytes::from(turn_document(id))).collect();
    assert!(read == expected, "slices do not make the whole");
    assert_eq!(turns.position(CHAT, "no such turn"), Ok(None));
    assert_eq!(turns.position("ahp-chat:/unknown", &ids[0]), Ok(None));
}

/// Turns are appended, corrected and cut off with the same record.
pub async fn turns_are_replaced_from_a_position_on(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let steps: [(usize, &[&str], &[&str]); 6] = [
        (0, &["a", "b"], &["a", "b"]),
        (2, &["c", "d", "e"], &["a", "b", "c", "d", "e"]),
        (3, &[], &["a", "b", "c"]),
        (1, &["B", "C", "D"], &["a", "B", "C", "D"]),
        (0, &[], &[]),
        (0, &["z"], &["z"]),
    ];
    for (from, turns, expected) in steps {
        host.keep(vec![turns_record(CHAT, from, turns)]).await;
        expect_turns(&host, CHAT, expected).await;
    }
    // Several in one batch: each sees what the one before left.
    let records = vec![
        turns_record(CHAT, 1, &["y", "x"]),
        turns_record(CHAT, 2, &["w"]),
        turns_record(CHAT, 3, &["v"]),
    ];
    host.keep(records).await;
    let host = host.again(&*storage).await;
    expect_turns(&host, CHAT, &["z", "y", "w", "v"]).await;
    assert_eq!(host.turns().position(CHAT, "x"), Ok(None));
}

/// A fork has turns of its own: neither chat sees what happens to the other.
pub async fn copied_turns_are_independent(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.keep(vec![turns_record(CHAT, 0, &["a", "b", "c", "d"])]).await;
    let fork = Record::CopyTurns {
        from: CHAT.into(),
        to: OTHER_CHAT.into(),
        count: 3,
    };
    host.keep(vec![host.new_chat(SESSION, OTHER_CHAT), fork]).await;
    expect_turns(&host, CHAT, &["a", "b", "c", "d"]).await;
    expect_turns(&host, OTHER_CHAT, &["a", "b", "c"]).await;
    host.keep(vec![turns_record(CHAT, 1, &["B"])]).await;
    host.keep(vec![turns_record(OTHER_CHAT, 3, &["e"])]).await;
    let host = host.again(&*storage).await;
    expect_turns(&host, CHAT, &["a", "B"]).await;
    expect_turns(&host, OTHER_CHAT, &["a", "b", "c", "e"]).await;
    host.keep(vec![Record::ChatRemoved { uri: CHAT.into() }]).await;
    expect_turns(&host, OTHER_CHAT, &["a", "b", "c", "e"]).await;
}

/// A reader gets all it asked for or learns that it cannot.
pub async fn ranges_are_read_whole_or_not_at_all(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let turns = host.turns();
    assert_eq!(turns.read(CHAT, 0..0), Ok(Vec::new()));
    host.keep(vec![turns_record(CHAT, 0, &["a", "b", "c"])]).await;
    for empty in [0..0, 2..2, 3..3] {
        assert_eq!(turns.read(CHAT, empty), Ok(Vec::new()));
    }
    for beyond in [0..4, 3..4, 10..20] {
        let read = turns.read(CHAT, beyond.clone());
        assert!(read.is_err(), "turns {beyond:?} of three: {read:?}");
    }
    assert!(turns.read("ahp-chat:/unknown", 0..1).is_err());
}

/// With any turns, at least the last one comes with the chat.
pub async fn the_latest_turns_come_with_the_chat(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    expect_turns(&host, CHAT, &[]).await;
    host.keep(vec![turns_record(CHAT, 0, &["only"])]).await;
    expect_turns(&host, CHAT, &["only"]).await;
    let huge = "x".repeat(1 << 20);
    let turn = TurnRecord {
        id: "huge".into(),
        document: text(&huge),
    };
    let record = Record::Turns {
        chat: CHAT.into(),
        from: 1,
        turns: vec![turn],
    };
    host.keep(vec![record]).await;
    let session = host.load(CHAT).await;
    let chat = &session.chats[0];
    assert_eq!(
        chat.turns.iter().map(|turn| turn.bytes).collect::<Vec<_>>(),
        [13, 1 << 20]
    );
    assert!(
        chat.recent.last().is_some_and(|last| last == huge.as_bytes()),
        "the last turn is missing"
    );
}

/// Turns are rows of their own.
pub async fn a_chat_document_leaves_the_turns_alone(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    // The record of a turn may come before that of its chat.
    let records = vec![
        turns_record(CHAT, 0, &["a", "b"]),
        host.chat(SESSION, CHAT),
        host.session(SESSION),
    ];
    host.keep(records).await;
    expect_turns(&host, CHAT, &["a", "b"]).await;
}

/// Checks the turns of a chat, every way there is to ask for them.
async fn expect_turns(host: &HostRun, chat: &str, ids: &[&str]) {
    let session = host.load(chat).await;
    let stored = session.chats.iter().find(|stored| stored.uri == chat);
    let stored = stored.unwrap_or_else(|| panic!("{chat} is not among its session's chats"));
    let known = |id: &&str| StoredTurn {
        id: (*id).to_owned(),
        bytes: turn_document(id).len(),
    };
    assert_eq!(stored.turns, ids.iter().map(known).collect::<Vec<_>>());
    let documents: Vec<_> = ids.iter().map(|id| Bytes::from(turn_document(id))).collect();
    assert!(documents.ends_with(&stored.recent), "the latest turns are others");
    assert_eq!(
        stored.recent.is_empty(),
        ids.is_empty(),
        "with any turns, the last one is there"
    );
    let turns = host.turns();
    assert_eq!(turns.read(chat, 0..ids.len()), Ok(documents));
    for (position, id) in ids.iter().enumerate() {
        assert_eq!(turns.position(chat, id), Ok(Some(position)), "where {id} is");
    }
}
