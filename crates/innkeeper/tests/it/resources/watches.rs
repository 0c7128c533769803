//! Resource watches: creation, several subscribers, release with the last one.

use std::collections::BTreeMap;
use std::fs;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::resources::files::{ask, project, with_channel};
use crate::{options, start_with_client};

async fn watch(client: &OfficialClient, params: Value) -> String {
    let made = ask(client, "createResourceWatch", params).await;
    let channel = made["channel"].as_str().expect("WCH-01").to_owned();
    assert!(channel.starts_with("ahp-resource-watch:/"), "{channel}");
    channel
}

/// Returns the last change of each URI on a channel.
fn told(client: &OfficialClient, channel: &str) -> BTreeMap<String, String> {
    let mut last = BTreeMap::new();
    for action in client.view().actions_on(channel) {
        let items = action["changes"]["items"].as_array().expect("WCH-05").clone();
        assert!(!items.is_empty(), "WCH-05");
        for item in items {
            let text = |field: &str| item[field].as_str().expect("WCH-05").to_owned();
            last.insert(text("uri"), text("type"));
        }
    }
    last
}

/// Waits for the expected change of a URI.
async fn until_told(client: &OfficialClient, channel: &str, uri: &str, kind: &str) {
    client
        .until(&format!("{uri} is told as {kind}"), |view| {
            let items = view.actions_on(channel).into_iter();
            let mut items = items.flat_map(|action| action["changes"]["items"].as_array().cloned().unwrap_or_default());
            items.any(|item| item["uri"] == uri && item["type"] == kind)
        })
        .await;
}

#[tokio::test]
async fn wch01_wch03_wch04_wch05_wch06_a_watch_lasts_until_the_last_client() {
    let (host, client) = start_with_client().await;
    let (project, uri) = project();
    client.create_session_in("files", &uri).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    other.join("ahp-session:/files").await;
    let params = json!({ "uri": uri, "recursive": true, "excludes": { "items": ["**/target/**"] } });
    let channel = watch(&client, params.clone()).await;
    assert_ne!(watch(&client, params).await, channel, "WCH-01: fresh for every call");
    client.subscribe(&channel).await;
    other.subscribe(&channel).await;
    let state = serde_json::to_value(other.view().resource_watch(&channel)).expect("JSON");
    let expected = json!({ "root": uri, "recursive": true, "excludes": { "items": ["**/target/**"] } });
    assert_eq!(state, expected, "WCH-04");
    fs::create_dir_all(project.path().join("target/debug")).expect("a directory");
    fs::write(project.path().join("target/debug/x"), "").expect("a file");
    fs::create_dir_all(project.path().join("src")).expect("a directory");
    fs::write(project.path().join("src/a b.rs"), "").expect("a file");
    for one in [&client, &other] {
        until_told(one, &channel, &format!("{uri}/src/a%20b.rs"), "added").await;
        assert!(
            !told(one, &channel).contains_key(&format!("{uri}/target/debug/x")),
            "WCH-03"
        );
    }
    fs::remove_file(project.path().join("notes.md")).expect("deleted");
    until_told(&client, &channel, &format!("{uri}/notes.md"), "deleted").await;
    client.unsubscribe(&channel).await;
    fs::write(project.path().join("later"), "").expect("a file");
    until_told(&other, &channel, &format!("{uri}/later"), "added").await;
    other.unsubscribe(&channel).await;
    other.caught_up().await;
    let gone = other.refused("subscribe", json!({ "channel": channel })).await;
    assert_eq!(gone.0, -32008, "WCH-06: {gone:?}");
}

#[tokio::test]
async fn wch05_three_thousand_files_at_once_end_in_the_right_state() {
    let (_host, client) = start_with_client().await;
    let (project, uri) = project();
    client.create_session_in("files", &uri).await;
    let channel = watch(&client, json!({ "uri": uri, "recursive": true })).await;
    client.subscribe(&channel).await;
    let root = project.path().to_owned();
    let writing = tokio::task::spawn_blocking(move || {
        for index in 0..3000 {
            let dir = root.join(format!("d{}", index % 60));
            fs::create_dir_all(&dir).expect("a directory");
            fs::write(dir.join(format!("f{index}")), index.to_string()).expect("a file");
            if index % 3 == 0 {
                fs::remove_file(dir.join(format!("f{index}"))).expect("deleted");
            }
        }
    });
    writing.await.expect("written");
    let expected: Vec<String> = (0..3000)
        .filter(|index| index % 3 != 0)
        .map(|index| format!("{uri}/d{}/f{index}", index % 60))
        .collect();
    client
        .until("all files are told of", |view| {
            let mut there = std::collections::BTreeSet::new();
            for action in view.actions_on(&channel) {
                for item in action["changes"]["items"].as_array().into_iter().flatten() {
                    let uri = item["uri"].as_str().unwrap_or_default().to_owned();
                    match item["type"] == "deleted" {
                        true => there.remove(&uri),
                        false => there.insert(uri),
                    };
                }
            }
            there.iter().filter(|uri| uri.contains("/f")).count() == expected.len()
                && expected.iter().all(|uri| there.contains(uri))
        })
        .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn wch07_a_watch_outlives_a_lost_connection_and_replays_changes() {
    let (_host, mut client) = start_with_client().await;
    let (project, uri) = project();
    client.create_session_in("files", &uri).await;
    let channel = watch(&client, json!({ "uri": uri })).await;
    client.subscribe(&channel).await;
    client.cut().await;
    fs::write(project.path().join("missed"), "").expect("a file");
    client.reconnect().await.expect("resumed");
    until_told(&client, &channel, &format!("{uri}/missed"), "added").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn wch07_watches_without_subscribers_are_released_and_limited() {
    let host = HostProcess::start(options().limit("watch_lease_ms", 1).limit("watches", 1)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let (_project, uri) = project();
    client.create_session_in("files", &uri).await;
    // E-56: no client subscribes, so only the end of the lease frees the slot.
    let mut made = vec![watch(&client, json!({ "uri": uri })).await];
    let params = with_channel(json!({ "uri": uri }));
    let deadline = tokio::time::Instant::now() + innkeeper_testkit::process::TIMEOUT;
    while made.len() < 3 {
        assert!(tokio::time::Instant::now() < deadline, "no place was ever free again");
        let another: Result<Value, _> = client.request("createResourceWatch", params.clone()).await;
        match another {
            Ok(another) => made.push(another["channel"].as_str().expect("WCH-01").to_owned()),
            Err(refused) => assert!(refused.to_string().contains("at most 1 watches"), "{refused}"),
        }
    }
    let gone = client.refused("subscribe", json!({ "channel": made[0] })).await;
    assert_eq!(gone.0, -32008, "{gone:?}");
}

#[tokio::test]
async fn wch01_a_watch_is_gated_like_reading() {
    let options = options().setting("[resources]\nbrowse = \"deny\"");
    let host = HostProcess::start(options.limit("watched_directories", 5).limit("watches", 1)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let (project, uri) = project();
    client.create_session_in("files", &uri).await;
    let channel = watch(&client, json!({ "uri": uri })).await;
    client.subscribe(&channel).await;
    let more = client
        .refused("createResourceWatch", with_channel(json!({ "uri": uri })))
        .await;
    assert_eq!(more.0, -32602, "SEC-04: {more:?}");
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let denied = raw
        .call("createResourceWatch", json!({ "uri": uri }))
        .await
        .expect_err("denied");
    assert_eq!(denied.code, -32009);
    let overheard = raw
        .call("subscribe", json!({ "channel": channel }))
        .await
        .expect_err("denied");
    assert_eq!(
        overheard.code, -32009,
        "SEC-03: its events name files: {}",
        overheard.message
    );
    raw.call("subscribe", json!({ "channel": "ahp-session:/files" }))
        .await
        .expect("subscribed");
    raw.call("subscribe", json!({ "channel": channel }))
        .await
        .expect("now it may");
    for index in 0..6 {
        fs::create_dir(project.path().join(format!("d{index}"))).expect("a directory");
    }
    let large = raw
        .call("createResourceWatch", json!({ "uri": uri, "recursive": true }))
        .await
        .expect_err("refused");
    assert_eq!(large.code, -32602, "LESSON-72");
    assert!(large.message.contains("exclude"), "{}", large.message);
    let forged = json!({ "type": "resourceWatch/changed", "changes": { "items": [] } });
    client.dispatch(&channel, forged).await;
    client.refusal(1).await;
}

/// A client subscribes to a watch and stops reading. Its connection is closed; the other subscribers get every change,
/// and the rest of the host works on.
#[tokio::test]
async fn wch05_lesson_14_a_listener_that_reads_nothing_costs_the_others_nothing() {
    let options = options().flags(&["--log", "info,innkeeper_host=debug"]);
    let host = HostProcess::start(options.limit("outbox_bytes", 1 << 20).limit("write_ms", 60_000)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let (project, uri) = project();
    let uris = client.create_session_in("files", &uri).await;
    let channel = watch(&client, json!({ "uri": uri, "recursive": true })).await;
    client.subscribe(&channel).await;
    let mut deaf = RawClient::connect_with_small_buffer(host.address()).await;
    deaf.initialize("deaf", &["1.0.0"]).await.expect("initialized");
    for channel in [uris.session.as_str(), &channel] {
        deaf.call("subscribe", json!({ "channel": channel }))
            .await
            .expect("subscribed");
    }
    // Long names fill queues faster.
    let name = "x".repeat(200);
    let mut round = 0;
    while !host.log().contains("reads too slowly") {
        assert!(round < 60, "no watch is dropped");
        let folder = project.path().join(format!("round{round}"));
        let names: Vec<_> = (0..500).map(|index| folder.join(format!("{name}{index}"))).collect();
        let writing = tokio::task::spawn_blocking(move || {
            fs::create_dir(folder).expect("a directory");
            names.iter().for_each(|path| fs::write(path, "").expect("a file"));
        });
        writing.await.expect("written");
        for index in [0, 250, 499] {
            until_told(&client, &channel, &format!("{uri}/round{round}/{name}{index}"), "added").await;
        }
        round += 1;
    }
    // Other clients are not affected, and a turn runs.
    client.run_turn(&uris.chat, "t1", "hello").await;
    fs::write(project.path().join("last"), "").expect("a file");
    until_told(&client, &channel, &format!("{uri}/last"), "added").await;
    client.assert_converged().await;
}

/// A client that may not browse and leaves the session of a watch gets no more changes, and the watch ends.
#[tokio::test]
async fn sec03_wch06_a_watch_ends_when_its_owner_leaves_the_session() {
    let host = HostProcess::start(options().setting("[resources]\nbrowse = \"deny\"")).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let (_project, uri) = project();
    let uris = client.create_session_in("files", &uri).await;
    let channel = watch(&client, json!({ "uri": uri })).await;
    client.subscribe(&channel).await;
    for left in [&uris.session, &uris.chat] {
        client.unsubscribe(left).await;
    }
    client.caught_up().await;
    let gone = client.refused("subscribe", json!({ "channel": channel })).await;
    assert_eq!(gone.0, -32008, "{gone:?}");
}
