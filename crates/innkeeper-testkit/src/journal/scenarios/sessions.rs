//! Sessions and chats: found, moved, removed.

use innkeeper_core::stored::{Document, Record};
use innkeeper_core::uri::ROOT;

use super::{CHAT, OTHER_CHAT, OTHER_SESSION, SESSION};
use crate::journal::Storage;
use crate::journal::life::{Life, turns_record};
use crate::journal::logs::{check_log, describe};

/// Any channel of a session finds it, and nothing else does.
pub async fn a_session_is_found_by_its_uri_and_by_those_of_its_chats(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    assert!(!life.has(SESSION).await, "an empty journal has no session");
    life.create(SESSION, CHAT).await;
    life.keep(vec![life.new_chat(SESSION, OTHER_CHAT)]).await;
    let record = life.root_action(1);
    life.keep(vec![record]).await;
    let whole = describe(&life.load(SESSION).await);
    for chat in [CHAT, OTHER_CHAT] {
        assert_eq!(describe(&life.load(chat).await), whole, "found by {chat}");
    }
    // URIs are exact strings (SUB-17).
    for unknown in [
        "",
        ROOT,
        "ahp-session:/on",
        "ahp-session:/one/",
        "AHP-SESSION:/one",
        "ahp-session:/%",
    ] {
        assert!(!life.has(unknown).await, "{unknown} finds a session");
    }
}

/// Documents are nobody's business but the core's.
pub async fn documents_come_back_byte_by_byte(storage: Box<dyn Storage>) {
    let life = Life::begin(&*storage).await;
    let documents = [
        Vec::new(),
        (0..=255).collect(),
        "\u{1F600} and \u{0}".as_bytes().to_vec(),
        b"0123456789abcdef".repeat(100_000),
    ];
    for (number, document) in documents.into_iter().enumerate() {
        let (uri, chat) = (format!("ahp-session:/{number}"), format!("ahp-chat:/{number}"));
        let records = vec![
            life.session_with(&uri, |session| {
                session.is_new = true;
                session.document = Document::ready(document.clone());
            }),
            life.chat_with(&uri, &chat, |chat| {
                chat.is_new = true;
                chat.document = Document::ready(document.clone());
            }),
        ];
        life.keep(records).await;
        let session = life.load(&uri).await;
        assert!(session.document == document, "the document of {uri} changed");
        assert!(
            session.chats.iter().all(|chat| chat.document == document),
            "the document of {chat} changed"
        );
    }
}

/// Records of one session are not part of another (P9).
pub async fn sessions_do_not_mix(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    // One URI continues the other, and a chat is named like a session's start.
    let names = [
        ("ahp-session:/a", "ahp-chat:/a"),
        ("ahp-session:/ab", "ahp-chat:/ab"),
        ("x:a", "x:a/b"),
    ];
    for (session, chat) in names {
        life.create(session, chat).await;
    }
    let folded = life.seq;
    for round in 0..10 {
        for (session, chat) in names {
            let records = vec![
                life.title(session, &format!("{session} {round}")),
                life.delta(chat, "p", &format!("{chat} {round}, ")),
            ];
            life.keep(records).await;
        }
    }
    for (session, chat) in names {
        life.keep(vec![turns_record(chat, 0, &[session, chat])]).await;
    }
    for (session, chat) in names {
        let stored = life.load(session).await;
        let chats: Vec<_> = stored.chats.iter().map(|chat| chat.uri.as_str()).collect();
        assert_eq!((stored.uri.as_str(), &chats[..]), (session, &[chat][..]));
        let ids: Vec<_> = stored
            .chats
            .iter()
            .flat_map(|chat| &chat.turns)
            .map(|turn| turn.id.as_str())
            .collect();
        assert_eq!(ids, [session, chat]);
        for frame in &stored.log {
            assert!(
                [session, chat].contains(&&*frame.channel),
                "{} in {session}",
                frame.channel
            );
        }
        check_log(session, &life.said_in(session), folded, &stored.log);
        check_log(chat, &life.said_in(chat), folded, &stored.log);
    }
}

/// Nothing changes between a proper end and the next start (P1).
pub async fn p1_a_later_life_finds_the_same_sessions(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    let mut before = Vec::new();
    for number in 0..12 {
        let (session, chat) = (format!("ahp-session:/{number}"), format!("ahp-chat:/{number}"));
        life.create(&session, &chat).await;
        let folded = life.seq;
        let records = vec![
            turns_record(&chat, 0, &["t1", "t2", "t3"]),
            life.title(&session, "a title"),
            life.delta(&chat, "p", "some text"),
        ];
        life.keep(records).await;
        let known = describe(&life.load(&session).await);
        before.push((session, chat, folded, known));
    }
    for _ in 0..3 {
        life = life.again(&*storage).await;
        assert_eq!(life.lease.sessions, before.len());
        for (session, chat, folded, known) in &before {
            let stored = life.load(chat).await;
            assert_eq!(&describe(&stored), known);
            check_log(session, &life.said_in(session), *folded, &stored.log);
            check_log(chat, &life.said_in(chat), *folded, &stored.log);
        }
    }
}

/// A chat that joins another session takes everything with it.
pub async fn a_chat_moves_with_its_turns_and_its_log(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    life.create(OTHER_SESSION, OTHER_CHAT).await;
    life.keep(vec![turns_record(CHAT, 0, &["t1", "t2"])]).await;
    life.keep(vec![life.chat(OTHER_SESSION, CHAT)]).await;
    let folded = life.seq;
    let record = life.delta(CHAT, "p", "after the move");
    life.keep(vec![record]).await;
    let life = life.again(&*storage).await;
    let left = life.load(SESSION).await;
    assert!(left.chats.is_empty(), "{} is still there", left.chats[0].uri);
    check_log(CHAT, &[], folded, &left.log);
    let joined = life.load(CHAT).await;
    assert_eq!(joined.uri, OTHER_SESSION);
    assert_eq!(joined.chats.len(), 2);
    check_log(CHAT, &life.said_in(CHAT), folded, &joined.log);
    let moved = joined.chats.iter().find(|chat| chat.uri == CHAT);
    assert_eq!(moved.map(|chat| chat.turns.len()), Some(2));
    // Later changes of its former session do not affect it.
    life.keep(vec![Record::SessionRemoved { uri: SESSION.into() }]).await;
    assert_eq!(life.load(CHAT).await.uri, OTHER_SESSION);
    assert_eq!(life.turns().position(CHAT, "t2"), Ok(Some(1)));
}

/// A chat that was removed can be created anew, and starts empty.
pub async fn a_removed_chat_leaves_nothing(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    let records = vec![
        life.new_chat(SESSION, OTHER_CHAT),
        turns_record(OTHER_CHAT, 0, &["kept"]),
    ];
    life.keep(records).await;
    let records = vec![turns_record(CHAT, 0, &["t1", "t2"]), life.delta(CHAT, "p", "some text")];
    life.keep(records).await;
    life.keep(vec![Record::ChatRemoved { uri: CHAT.into() }]).await;
    let life = life.again(&*storage).await;
    assert!(!life.has(CHAT).await, "the chat is still found");
    let session = life.load(SESSION).await;
    let chats: Vec<_> = session.chats.iter().map(|chat| chat.uri.as_str()).collect();
    assert_eq!(chats, [OTHER_CHAT]);
    check_log(CHAT, &[], life.seq, &session.log);
    nothing_of_the_chat(&life, CHAT);
    assert_eq!(life.turns().position(OTHER_CHAT, "kept"), Ok(Some(0)));
    life.keep(vec![life.new_chat(SESSION, CHAT)]).await;
    let session = life.load(CHAT).await;
    let anew = session.chats.iter().find(|chat| chat.uri == CHAT);
    assert_eq!(anew.map(|chat| chat.turns.len()), Some(0));
    check_log(CHAT, &[], life.seq, &session.log);
}

/// A session that was removed takes its chats along, and can be created anew.
pub async fn a_removed_session_leaves_nothing(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    life.create(OTHER_SESSION, OTHER_CHAT).await;
    let records = vec![
        turns_record(CHAT, 0, &["t1", "t2"]),
        life.delta(CHAT, "p", "some text"),
        life.title(SESSION, "a title"),
    ];
    life.keep(records).await;
    life.keep(vec![Record::SessionRemoved { uri: SESSION.into() }]).await;
    let life = life.again(&*storage).await;
    assert!(
        !life.has(SESSION).await && !life.has(CHAT).await,
        "the session is still found"
    );
    assert_eq!((life.lease.sessions, life.lease.unsettled.len()), (1, 0));
    let listed: Vec<_> = life.list().await.into_iter().map(|line| line.uri).collect();
    assert_eq!(listed, [OTHER_SESSION]);
    nothing_of_the_chat(&life, CHAT);
    life.create(SESSION, CHAT).await;
    let session = life.load(SESSION).await;
    assert_eq!(session.chats.iter().map(|chat| chat.turns.len()).sum::<usize>(), 0);
    check_log(SESSION, &[], life.seq, &session.log);
    check_log(CHAT, &[], life.seq, &session.log);
}

/// A record about something that is gone is for nobody.
pub async fn what_comes_too_late_brings_nothing_back(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    life.keep(vec![Record::SessionRemoved { uri: SESSION.into() }]).await;
    let records = vec![
        life.delta(CHAT, "p", "too late"),
        life.title(SESSION, "too late"),
        turns_record(CHAT, 0, &["t1"]),
        Record::Summary(Box::new(crate::journal::life::summary(SESSION, 9_000, "too late"))),
        Record::ChatRemoved { uri: CHAT.into() },
        Record::SessionRemoved { uri: SESSION.into() },
    ];
    life.keep(records).await;
    assert!(!life.has(SESSION).await && !life.has(CHAT).await);
    assert!(life.list().await.is_empty());
    life.create(SESSION, CHAT).await;
    let session = life.load(SESSION).await;
    assert!(session.log.is_empty(), "the log of the session before");
    nothing_of_the_chat(&life, CHAT);
}

fn nothing_of_the_chat(life: &Life, chat: &str) {
    let turns = life.turns();
    assert!(turns.read(chat, 0..1).is_err(), "a turn of {chat} is still read");
    assert_eq!(turns.position(chat, "t1"), Ok(None));
}
