//! Sessions whose creation is interrupted by the end of the host or of their client.

use std::time::Duration;

use innkeeper_faults::Random;
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::durable::{chosen, options};

/// Every one of these sessions that exists can be joined, becomes ready, works, and is listed from then on. The host
/// may notice closed connections only now, so the sessions are counted until none is added.
async fn assert_whole(host: &HostProcess, wanted: &[String]) -> Vec<String> {
    let reader = OfficialClient::connect(host.address(), "reader").await;
    let mut whole: Vec<String> = Vec::new();
    for _ in 0..100 {
        let mut news = Vec::new();
        for session in wanted.iter().filter(|session| !whole.contains(session)) {
            // A draft is in no list.
            let found = reader
                .request::<Value>("subscribe", json!({ "channel": session }))
                .await;
            if found.is_ok() {
                news.push(session);
            }
        }
        for session in news.iter().copied() {
            let uris = reader.join(session).await;
            reader.session_ready(session).await;
            let turns = reader.chat(&uris.chat).turns.len();
            reader.run_turn(&uris.chat, &format!("turn-{turns}"), "hello").await;
        }
        reader.assert_converged().await;
        let listed = list(&reader).await;
        let active = reader.view().root().and_then(|root| root.active_sessions);
        if news.is_empty() && active == i64::try_from(listed.len()).ok() {
            return listed;
        }
        whole = listed;
    }
    panic!("the root does not know how many there are: {whole:?}");
}

async fn list(reader: &OfficialClient) -> Vec<String> {
    let listed: ahp_types::commands::ListSessionsResult = reader
        .request("listSessions", json!({ "channel": "ahp-root://" }))
        .await
        .expect("listSessions succeeds");
    listed.items.into_iter().map(|item| item.resource).collect()
}

#[tokio::test]
async fn f1_a_kill_while_a_session_is_created_leaves_all_of_it_or_nothing() {
    let kills: u64 = chosen("INNKEEPER_KILLS", 12);
    let mut host = HostProcess::start(options()).await;
    let mut promised = Vec::new();
    for seed in 0..kills / 3 {
        let mut random = Random::new(seed);
        let client = OfficialClient::connect(host.address(), &format!("creator-{seed}")).await;
        let session = format!("ahp-session:/creation-{seed}");
        let creating = client.request::<Value>("createSession", json!({ "channel": session }));
        let dying = tokio::time::sleep(Duration::from_micros(random.number() % 12_000));
        tokio::select! {
            created = creating => {
                created.expect("createSession succeeds");
                promised.push(session);
            }
            () = dying => {}
        }
        host = host.kill_and_restart().await;
    }
    let all: Vec<String> = (0..kills / 3)
        .map(|seed| format!("ahp-session:/creation-{seed}"))
        .collect();
    let there = assert_whole(&host, &all).await;
    for session in &promised {
        assert!(there.contains(session), "{session} was promised and is not there");
    }
    println!(
        "creations killed: {}, answered for: {}, there: {}",
        kills / 3,
        promised.len(),
        there.len()
    );
}

#[tokio::test]
async fn f20_a_client_that_leaves_during_creation_leaves_no_partial_session() {
    let host = HostProcess::start(options()).await;
    for number in 0..10 {
        let mut client = RawClient::initialized(host.address(), &format!("hasty-{number}")).await;
        let session = format!("ahp-session:/hasty-{number}");
        client.ask("createSession", json!({ "channel": session })).await;
        if number % 2 == 0 {
            client.ask("subscribe", json!({ "channel": session })).await;
        }
        drop(client);
    }
    let all: Vec<String> = (0..10).map(|number| format!("ahp-session:/hasty-{number}")).collect();
    let before = assert_whole(&host, &all).await;
    let host = host.kill_and_restart().await;
    let mut after = assert_whole(&host, &all).await;
    let mut before = before;
    before.sort();
    after.sort();
    assert_eq!(after, before);
}
