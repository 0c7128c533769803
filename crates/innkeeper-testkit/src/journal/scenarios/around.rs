//! Records beside the sessions: sessions to recover, clients, and the root.

use innkeeper_core::stored::Record;
use innkeeper_core::uri::ROOT;

use super::{CHAT, OTHER_CHAT, OTHER_SESSION, SESSION};
use crate::journal::Storage;
use crate::journal::life::{Life, client, text};
use crate::journal::logs::check_log;

/// A session rests if its last record said so and nothing happened in it since (P4).
pub async fn p4_a_session_that_is_not_at_rest_is_unsettled(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    life.create(OTHER_SESSION, OTHER_CHAT).await;
    let records = vec![life.session_with(SESSION, |session| session.at_rest = false)];
    life.keep(records).await;
    life = expect_unsettled(life, &*storage, &[SESSION], "that runs something").await;
    life.keep(vec![life.session(SESSION)]).await;
    life = expect_unsettled(life, &*storage, &[], "that came to rest").await;
    let records = vec![life.title(SESSION, "a title")];
    life.keep(records).await;
    life = expect_unsettled(life, &*storage, &[SESSION], "with an action").await;
    let records = vec![life.delta(OTHER_CHAT, "p", "text")];
    life.keep(records).await;
    life = expect_unsettled(life, &*storage, &[SESSION, OTHER_SESSION], "with an action in a chat").await;
    // Within a batch the order counts.
    let records = vec![life.title(SESSION, "another"), life.session(SESSION)];
    life.keep(records).await;
    let records = vec![life.session(OTHER_SESSION), life.delta(OTHER_CHAT, "p", "text")];
    life.keep(records).await;
    life = expect_unsettled(life, &*storage, &[OTHER_SESSION], "whose action came last").await;
    // A chat unsettles the session that it is in now.
    let records = vec![
        life.chat(SESSION, OTHER_CHAT),
        life.session(SESSION),
        life.session(OTHER_SESSION),
    ];
    life.keep(records).await;
    let records = vec![life.delta(OTHER_CHAT, "p", "text"), life.root_action(3)];
    life.keep(records).await;
    life = expect_unsettled(life, &*storage, &[SESSION], "that a chat moved to").await;
    life.keep(vec![Record::SessionRemoved { uri: SESSION.into() }]).await;
    expect_unsettled(life, &*storage, &[], "that is gone").await;
}

/// Looking at them does not settle them, and neither does a crash (P4).
pub async fn p4_unsettled_sessions_are_named_in_every_later_life(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    life.create(SESSION, CHAT).await;
    let record = life.title(SESSION, "a title");
    life.keep(vec![record]).await;
    let killed = storage.without_power().await;
    assert_eq!(Life::begin(&*killed).await.lease.unsettled, [SESSION]);
    for _ in 0..3 {
        life = expect_unsettled(life, &*storage, &[SESSION], "in a later life").await;
        life.load(SESSION).await;
    }
}

async fn expect_unsettled(life: Life, storage: &dyn Storage, expected: &[&str], what: &str) -> Life {
    let life = life.again(storage).await;
    let mut unsettled: Vec<_> = life.lease.unsettled.iter().map(String::as_str).collect();
    unsettled.sort_unstable();
    assert_eq!(unsettled, expected, "a session {what}");
    life
}

/// Clients come back as they last were, until they are forgotten (NEG-20).
pub async fn clients_are_remembered_latest_last(storage: Box<dyn Storage>) {
    let life = Life::begin(&*storage).await;
    assert!(life.lease.clients.is_empty());
    for (id, known) in [("a", "1"), ("b", "2"), ("c", "3"), ("d \"é\"", "4"), ("a", "5")] {
        life.keep(vec![client(id, known)]).await;
    }
    let forgotten = |id: &str| Record::ClientForgotten { id: id.into() };
    life.keep(vec![forgotten("b"), forgotten("unknown")]).await;
    let life = life.again(&*storage).await;
    assert_eq!(clients(&life), [("c", "3"), ("d \"é\"", "4"), ("a", "5")]);
    life.keep(vec![client("b", "6"), client("c", "7"), forgotten("a")])
        .await;
    let life = life.again(&*storage).await;
    assert_eq!(clients(&life), [("d \"é\"", "4"), ("b", "6"), ("c", "7")]);
}

/// A journal need not remember everybody, but it never prefers an older client.
pub async fn of_many_clients_the_latest_are_remembered(storage: Box<dyn Storage>) {
    let life = Life::begin(&*storage).await;
    let ids: Vec<_> = (0..1_500).map(|number| format!("client {number}")).collect();
    for some in ids.chunks(100) {
        life.keep(some.iter().map(|id| client(id, id)).collect()).await;
    }
    let life = life.again(&*storage).await;
    let remembered: Vec<_> = life.lease.clients.iter().map(|client| client.id.clone()).collect();
    assert!(
        ids.ends_with(&remembered),
        "older clients were preferred, or the order is lost"
    );
    assert!(
        remembered.len() >= 100,
        "only {} clients are remembered",
        remembered.len()
    );
}

fn clients(life: &Life) -> Vec<(&str, &str)> {
    let known = |document| std::str::from_utf8(document).expect("the document is text");
    let clients = life.lease.clients.iter();
    clients
        .map(|client| (client.id.as_str(), known(&client.document)))
        .collect()
}

/// The root is a channel like the others: a document, and the log after it.
pub async fn the_root_comes_back_with_its_log(storage: Box<dyn Storage>) {
    let mut life = Life::begin(&*storage).await;
    assert!(life.lease.root.is_none(), "an empty journal has no root");
    for version in 0..3 {
        let folded = life.seq;
        let document = format!("the root, version {version}");
        life.keep(vec![Record::Root {
            seq: folded,
            document: text(&document),
            is_promised: false,
        }])
        .await;
        let records = vec![life.root_action(version), life.root_action(version + 1)];
        life.keep(records).await;
        life = life.again(&*storage).await;
        let root = life.lease.root.as_ref().expect("the root is kept");
        assert_eq!((root.seq, &root.document[..]), (folded, document.as_bytes()));
        check_log(ROOT, &life.said_in(ROOT), folded, &root.log);
    }
    assert_eq!(life.lease.sessions, 0, "the root is no session");
    assert!(life.list().await.is_empty());
}
