//! Records beside the sessions: sessions to recover, clients, and the root.

use innkeeper_core::records::Record;
use innkeeper_core::uri::ROOT;

use super::{CHAT, OTHER_CHAT, OTHER_SESSION, SESSION};
use crate::journal::Storage;
use crate::journal::host_run::{HostRun, client, text};
use crate::journal::logs::check_log;

/// A session rests if its last record said so and nothing happened in it since (P4).
pub async fn p4_a_session_that_is_not_at_rest_is_unsettled(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.create(OTHER_SESSION, OTHER_CHAT).await;
    let records = vec![host.session_with(SESSION, |session| session.at_rest = false)];
    host.keep(records).await;
    host = expect_unsettled(host, &*storage, &[SESSION], "that runs something").await;
    host.keep(vec![host.session(SESSION)]).await;
    host = expect_unsettled(host, &*storage, &[], "that came to rest").await;
    let records = vec![host.title(SESSION, "a title")];
    host.keep(records).await;
    host = expect_unsettled(host, &*storage, &[SESSION], "with an action").await;
    let records = vec![host.delta(OTHER_CHAT, "p", "text")];
    host.keep(records).await;
    host = expect_unsettled(host, &*storage, &[SESSION, OTHER_SESSION], "with an action in a chat").await;
    // Within a batch the order counts.
    let records = vec![host.title(SESSION, "another"), host.session(SESSION)];
    host.keep(records).await;
    let records = vec![host.session(OTHER_SESSION), host.delta(OTHER_CHAT, "p", "text")];
    host.keep(records).await;
    host = expect_unsettled(host, &*storage, &[OTHER_SESSION], "whose action came last").await;
    // A chat unsettles the session that it is in now.
    let records = vec![
        host.chat(SESSION, OTHER_CHAT),
        host.session(SESSION),
        host.session(OTHER_SESSION),
    ];
    host.keep(records).await;
    let records = vec![host.delta(OTHER_CHAT, "p", "text"), host.root_action(3)];
    host.keep(records).await;
    host = expect_unsettled(host, &*storage, &[SESSION], "that a chat moved to").await;
    host.keep(vec![Record::SessionRemoved { uri: SESSION.into() }]).await;
    expect_unsettled(host, &*storage, &[], "that is gone").await;
}

/// Looking at them does not settle them, and neither does a crash (P4).
pub async fn p4_unsettled_sessions_are_named_in_every_later_life(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    let record = host.title(SESSION, "a title");
    host.keep(vec![record]).await;
    let killed = storage.without_power().await;
    assert_eq!(HostRun::begin(&*killed).await.lease.unsettled, [SESSION]);
    for _ in 0..3 {
        host = expect_unsettled(host, &*storage, &[SESSION], "in a later host").await;
        host.load(SESSION).await;
    }
}

async fn expect_unsettled(host: HostRun, storage: &dyn Storage, expected: &[&str], what: &str) -> HostRun {
    let host = host.again(storage).await;
    let mut unsettled: Vec<_> = host.lease.unsettled.iter().map(String::as_str).collect();
    unsettled.sort_unstable();
    assert_eq!(unsettled, expected, "a session {what}");
    host
}

/// Clients come back as they last were, until they are forgotten (NEG-20).
pub async fn clients_are_remembered_latest_last(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    assert!(host.lease.clients.is_empty());
    for (id, known) in [("a", "1"), ("b", "2"), ("c", "3"), ("d \"é\"", "4"), ("a", "5")] {
        host.keep(vec![client(id, known)]).await;
    }
    let forgotten = |id: &str| Record::ClientForgotten { id: id.into() };
    host.keep(vec![forgotten("b"), forgotten("unknown")]).await;
    let host = host.again(&*storage).await;
    assert_eq!(clients(&host), [("c", "3"), ("d \"é\"", "4"), ("a", "5")]);
    host.keep(vec![client("b", "6"), client("c", "7"), forgotten("a")])
        .await;
    let host = host.again(&*storage).await;
    assert_eq!(clients(&host), [("d \"é\"", "4"), ("b", "6"), ("c", "7")]);
}

/// A journal need not remember every client, but it never prefers an older one.
pub async fn of_many_clients_the_latest_are_remembered(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    let ids: Vec<_> = (0..1_500).map(|number| format!("client {number}")).collect();
    for some in ids.chunks(100) {
        host.keep(some.iter().map(|id| client(id, id)).collect()).await;
    }
    let host = host.again(&*storage).await;
    let remembered: Vec<_> = host.lease.clients.iter().map(|client| client.id.clone()).collect();
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

fn clients(host: &HostRun) -> Vec<(&str, &str)> {
    let known = |document| std::str::from_utf8(document).expect("the document is text");
    let clients = host.lease.clients.iter();
    clients
        .map(|client| (client.id.as_str(), known(&client.document)))
        .collect()
}

/// The root is a channel like the others: a document, and the log after it.
pub async fn the_root_comes_back_with_its_log(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    assert!(host.lease.root.is_none(), "an empty journal has no root");
    for version in 0..3 {
        let folded = host.seq;
        let document = format!("the root, version {version}");
        host.keep(vec![Record::Root {
            seq: folded,
            document: text(&document),
            is_promised: false,
        }])
        .await;
        let records = vec![host.root_action(version), host.root_action(version + 1)];
        host.keep(records).await;
        host = host.again(&*storage).await;
        let root = host.lease.root.as_ref().expect("the root is kept");
        assert_eq!((root.seq, &root.document[..]), (folded, document.as_bytes()));
        check_log(ROOT, &host.said_in(ROOT), folded, &root.log);
    }
    assert_eq!(host.lease.sessions, 0, "the root is no session");
    assert!(host.list().await.is_empty());
}
