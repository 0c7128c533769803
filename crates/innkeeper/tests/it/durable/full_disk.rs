//! F6: the disk fills up while an agent streams, and is freed again.

use std::io::Write as _;

use innkeeper_testkit::disk::SmallDisk;
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::get;
use serde_json::{Value, json};

use crate::durable::busy_session::{is_echo, title};
use crate::durable::{options, writable_again};

#[tokio::test]
async fn f6_a_full_disk_makes_the_host_read_only_until_there_is_room() {
    let disk = match SmallDisk::new(4 << 10) {
        Ok(disk) => disk,
        Err(reason) => return println!("not tried: no disk can be mounted here ({reason})"),
    };
    std::fs::write(disk.path("ballast"), vec![7; 2 << 20]).expect("there is room");
    let mut host = HostProcess::start(options().data(disk.path("data"))).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("kept").await;
    client.dispatch(&uris.session, title("Kept")).await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.start_turn(&uris.chat, "t2", "/stream 1000000 1 8192").await;
    host.logged("the end of the disk", |log| {
        log.contains("the host is read-only until it can write again")
    })
    .await;
    client.disconnected().await;
    let echoes: Vec<_> = client
        .view()
        .actions
        .iter()
        .filter(|action| is_echo(action))
        .cloned()
        .collect();
    assert!(echoes.len() >= 3, "{echoes:?}");
    let ready = get(host.address(), "/readyz", &[]).await;
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert!(ready.body.contains("is full"), "{}", ready.body);
    assert!(host.is_running());

    // Reading works, and the root says how things are.
    client.reconnect().await.expect("the host is there");
    let storage = storage_of(&client);
    assert_eq!(storage["readOnly"], true);
    assert!(
        storage["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("is full")),
        "{storage}"
    );
    assert_eq!(client.session(&uris.session).title, "Kept");
    client.turn_end(&uris.chat, "t1").await;
    let listed = client.listed(&uris.session).await;
    assert_eq!(listed.title, "Kept");
    let refusals = client.view().refusals.len();
    client.dispatch(&uris.session, title("Never kept")).await;
    let reason = client.refusal(refusals + 1).await;
    assert!(reason.contains("is full"), "{reason}");
    let (_, reason) = client
        .refused("createSession", json!({ "channel": "ahp-session:/never" }))
        .await;
    assert!(reason.contains("is full"), "{reason}");

    // With room again it recovers by itself.
    std::fs::remove_file(disk.path("ballast")).expect("removable");
    writable_again(&host).await;
    client.disconnected().await;
    client.reconnect().await.expect("the host is there");
    assert_eq!(storage_of(&client), Value::Null);
    let turn = client.turn_end(&uris.chat, "t2").await;
    let error = serde_json::to_value(turn.response_parts.last()).expect("JSON");
    assert_eq!(error["error"]["errorType"], "hostRestarted", "{error}");
    client.dispatch(&uris.session, title("Kept again")).await;
    client.run_turn(&uris.chat, "t3", "and on").await;
    client.assert_converged().await;
    // A look at the file from another life: it is whole.
    let host = host.stop().await.start().await;
    client.disconnected().await;
    client.move_to(host.address());
    client.reconnect().await.expect("the host is there");
    assert_eq!(client.session(&uris.session).title, "Kept again");
    assert_eq!(client.chat(&uris.chat).turns.len(), 3);
    client.assert_converged().await;
    drop(host);
}

fn storage_of(client: &OfficialClient) -> Value {
    let view = client.view();
    let root = serde_json::to_value(view.root()).expect("JSON");
    root["_meta"]["innkeeper.storage"].clone()
}

#[tokio::test]
async fn f6_a_host_on_a_full_disk_says_so_and_starts_once_space_is_free() {
    let disk = match SmallDisk::new(4 << 10) {
        Ok(disk) => disk,
        Err(reason) => return println!("not tried: no disk can be mounted here ({reason})"),
    };
    let host = HostProcess::start(options().data(disk.path("data"))).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    let killed = host.kill().await;
    client.disconnected().await;
    fill(&disk);
    let refused = killed.try_start().await.expect_err("nothing can be kept");
    assert_eq!(refused.status.code(), Some(73), "{}", refused.log);
    assert!(refused.log.contains("is full"), "{}", refused.log);
    std::fs::remove_file(disk.path("ballast")).expect("removable");
    let host = killed.start().await;
    client.move_to(host.address());
    client.reconnect().await.expect("known across restarts");
    assert_eq!(client.chat(&uris.chat).turns.len(), 1);
    client.assert_converged().await;
    drop(host);
}

/// Leaves no room at all.
fn fill(disk: &SmallDisk) {
    let mut ballast = std::fs::File::create(disk.path("ballast")).expect("a file");
    for size in [64 << 10, 4 << 10, 1] {
        while ballast.write_all(&vec![7; size]).is_ok() {}
    }
}
