//! Sessions and chats: found, moved, removed.

use innkeeper_core::records::{Document, Record};
use innkeeper_core::uri::ROOT;

use super::{CHAT, OTHER_CHAT, OTHER_SESSION, SESSION};
use crate::journal::Storage;
use crate::journal::host_run::{HostRun, turns_record};
use crate::journal::logs::{check_log, describe};

/// Any channel of a session finds it, and nothing else does.
pub async fn a_session_is_found_by_its_uri_and_by_those_of_its_chats(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    assert!(!host.has(SESSION).await, "an empty journal has no session");
    host.create(SESSION, CHAT).await;
    host.keep(vec![host.new_chat(SESSION, OTHER_CHAT)]).await;
    let record = host.root_action(1);
    host.keep(vec![record]).await;
    let whole = describe(&host.load(SESSION).await);
    for chat in [CHAT, OTHER_CHAT] {
        assert_eq!(describe(&host.load(chat).await), whole, "found by {chat}");
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
        assert!(!host.has(unknown).await, "{unknown} finds a session");
    }
}

/// Documents are opaque to a journal.
pub async fn documents_come_back_byte_by_byte(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    let documents = [
        Vec::new(),
        (0..=255).collect(),
        "\u{1F600} and \u{0}".as_bytes().to_vec(),
        b"0123456789abcdef".repeat(100_000),
    ];
    for (number, document) in documents.into_iter().enumerate() {
        let (uri, chat) = (format!("ahp-session:/{number}"), format!("ahp-chat:/{number}"));
        let records = vec![
            host.session_with(&uri, |session| {
                session.is_new = true;
                session.document = Document::ready(document.clone());
            }),
            host.chat_with(&uri, &chat, |chat| {
                chat.is_new = true;
                chat.document = Document::ready(document.clone());
            }),
        ];
        host.keep(records).await;
        let session = host.load(&uri).await;
        assert!(session.document == document, "the document of {uri} changed");
        assert!(
            session.chats.iter().all(|chat| chat.document == document),
            "the document of {chat} changed"
        );
    }
}

/// Records of one session are not part of another (P9).
pub async fn sessions_do_not_mix(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    // One URI continues the other, and a chat is named like a session's start.
    let names = [
        ("ahp-session:/a", "ahp-chat:/a"),
        ("ahp-session:/ab", "ahp-chat:/ab"),
        ("x:a", "x:a/b"),
    ];
    for (session, chat) in names {
        host.create(session, chat).await;
    }
    let folded = host.seq;
    for round in 0..10 {
        for (session, chat) in names {
            let records = vec![
                host.title(session, &format!("{session} {round}")),
                host.delta(chat, "p", &format!("{chat} {round}, ")),
            ];
            host.keep(records).await;
        }
    }
    for (session, chat) in names {
        host.keep(vec![turns_record(chat, 0, &[session, chat])]).await;
    }
    for (session, chat) in names {
        let stored = host.load(session).await;
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
        check_log(session, &host.said_in(session), folded, &stored.log);
        check_log(chat, &host.said_in(chat), folded, &stored.log);
    }
}

/// Nothing changes between a proper end and the next start (P1).
pub async fn p1_a_later_life_finds_the_same_sessions(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    let mut before = Vec::new();
    for number in 0..12 {
        let (session, chat) = (format!("ahp-session:/{number}"), format!("ahp-chat:/{number}"));
        host.create(&session, &chat).await;
        let folded = host.seq;
        let records = vec![
            turns_record(&chat, 0, &["t1", "t2", "t3"]),
            host.title(&session, "a title"),
            host.delta(&chat, "p", "some text"),
        ];
        host.keep(records).await;
        let known = describe(&host.load(&session).await);
        before.push((session, chat, folded, known));
    }
    for _ in 0..3 {
        host = host.again(&*storage).await;
        assert_eq!(host.lease.sessions, before.len());
        for (session, chat, folded, known) in &before {
            let stored = host.load(chat).await;
            assert_eq!(&describe(&stored), known);
            check_log(session, &host.said_in(session), *folded, &stored.log);
            check_log(chat, &host.said_in(chat), *folded, &stored.log);
        }
    }
}

/// A chat that joins another session takes everything with it.
pub async fn a_chat_moves_with_its_turns_and_its_log(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.create(OTHER_SESSION, OTHER_CHAT).await;
    host.keep(vec![turns_record(CHAT, 0, &["t1", "t2"])]).await;
    host.keep(vec![host.chat(OTHER_SESSION, CHAT)]).await;
    let folded = host.seq;
    let record = host.delta(CHAT, "p", "after the move");
    host.keep(vec![record]).await;
    let host = host.again(&*storage).await;
    let left = host.load(SESSION).await;
    assert!(left.chats.is_empty(), "{} is still there", left.chats[0].uri);
    check_log(CHAT, &[], folded, &left.log);
    let joined = host.load(CHAT).await;
    assert_eq!(joined.uri, OTHER_SESSION);
    assert_eq!(joined.chats.len(), 2);
    check_log(CHAT, &host.said_in(CHAT), folded, &joined.log);
    let moved = joined.chats.iter().find(|chat| chat.uri == CHAT);
    assert_eq!(moved.map(|chat| chat.turns.len()), Some(2));
    // Later changes of its former session do not affect it.
    host.keep(vec![Record::SessionRemoved { uri: SESSION.into() }]).await;
    assert_eq!(host.load(CHAT).await.uri, OTHER_SESSION);
    assert_eq!(host.turns().position(CHAT, "t2"), Ok(Some(1)));
}

/// A chat that was removed can be created anew, and starts empty.
pub async fn a_removed_chat_leaves_nothing(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let records = vec![
        host.new_chat(SESSION, OTHER_CHAT),
        turns_record(OTHER_CHAT, 0, &["kept"]),
    ];
    host.keep(records).await;
    let records = vec![turns_record(CHAT, 0, &["t1", "t2"]), host.delta(CHAT, "p", "some text")];
    host.keep(records).await;
    host.keep(vec![Record::ChatRemoved { uri: CHAT.into() }]).await;
    let host = host.again(&*storage).await;
    assert!(!host.has(CHAT).await, "the chat is still found");
    let session = host.load(SESSION).await;
    let chats: Vec<_> = session.chats.iter().map(|chat| chat.uri.as_str()).collect();
    assert_eq!(chats, [OTHER_CHAT]);
    check_log(CHAT, &[], host.seq, &session.log);
    nothing_of_the_chat(&host, CHAT);
    assert_eq!(host.turns().position(OTHER_CHAT, "kept"), Ok(Some(0)));
    host.keep(vec![host.new_chat(SESSION, CHAT)]).await;
    let session = host.load(CHAT).await;
    let anew = session.chats.iter().find(|chat| chat.uri == CHAT);
    assert_eq!(anew.map(|chat| chat.turns.len()), Some(0));
    check_log(CHAT, &[], host.seq, &session.log);
}

/// A session that was removed takes its chats along, and can be created anew.
pub async fn a_removed_session_leaves_nothing(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.create(OTHER_SESSION, OTHER_CHAT).await;
    let records = vec![
        turns_record(CHAT, 0, &["t1", "t2"]),
        host.delta(CHAT, "p", "some text"),
        host.title(SESSION, "a title"),
    ];
    host.keep(records).await;
    host.keep(vec![Record::SessionRemoved { uri: SESSION.into() }]).await;
    let host = host.again(&*storage).await;
    assert!(
        !host.has(SESSION).await && !host.has(CHAT).await,
        "the session is still found"
    );
    assert_eq!((host.lease.sessions, host.lease.unsettled.len()), (1, 0));
    let listed: Vec<_> = host.list().await.into_iter().map(|line| line.uri).collect();
    assert_eq!(listed, [OTHER_SESSION]);
    nothing_of_the_chat(&host, CHAT);
    host.create(SESSION, CHAT).await;
    let session = host.load(SESSION).await;
    assert_eq!(session.chats.iter().map(|chat| chat.turns.len()).sum::<usize>(), 0);
    check_log(SESSION, &[], host.seq, &session.log);
    check_log(CHAT, &[], host.seq, &session.log);
}

/// A record about a removed session or chat has no effect.
pub async fn late_records_restore_no_deleted_session(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.keep(vec![Record::SessionRemoved { uri: SESSION.into() }]).await;
    let records = vec![
        host.delta(CHAT, "p", "too late"),
        host.title(SESSION, "too late"),
        turns_record(CHAT, 0, &["t1"]),
        Record::Summary(Box::new(crate::journal::host_run::summary(SESSION, 9_000, "too late"))),
        Record::ChatRemoved { uri: CHAT.into() },
        Record::SessionRemoved { uri: SESSION.into() },
    ];
    host.keep(records).await;
    assert!(!host.has(SESSION).await && !host.has(CHAT).await);
    assert!(host.list().await.is_empty());
    host.create(SESSION, CHAT).await;
    let session = host.load(SESSION).await;
    assert!(session.log.is_empty(), "the log of the session before");
    nothing_of_the_chat(&host, CHAT);
}

fn nothing_of_the_chat(host: &HostRun, chat: &str) {
    let turns = host.turns();
    assert!(turns.read(chat, 0..1).is_err(), "a turn of {chat} is still read");
    assert_eq!(turns.position(chat, "t1"), Ok(None));
}
