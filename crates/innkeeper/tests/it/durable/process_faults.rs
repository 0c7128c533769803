//! Process faults: a frozen host, a removed socket, no memory.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use ahp_types::state::TurnState;
use innkeeper_testkit::official::{OfficialClient, SocketTransport};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::json;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::durable::busy_session::title;
use crate::durable::options;

#[tokio::test]
async fn f25_a_host_that_was_frozen_goes_on_as_if_nothing_had_been() {
    let options = options()
        .limit("ping_interval_ms", 500)
        .limit("silence_notice_ms", 1000);
    let host = HostProcess::start(options).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("frozen").await;
    client.start_turn(&uris.chat, "t1", "/stream 2000 1 10").await;
    client.running_text(&uris.chat, 500).await;
    host.freeze();
    // Longer than every interval above. Nothing is measured; this is what a closed lid does.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    client.dispatch(&uris.session, title("said without a connection")).await;
    host.thaw();
    // The connection is kept or ended, and either way nothing is missing in the end.
    client
        .until("the turn or the connection ends", |view| {
            view.is_over || view.ended_turn(&uris.chat, "t1").is_some()
        })
        .await;
    let is_over = client.view().is_over;
    if is_over {
        client.disconnected().await;
        client.reconnect().await.expect("known");
    }
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
    client.run_turn(&uris.chat, "t2", "awake").await;
    client.assert_converged().await;
}

async fn by_socket(path: &std::path::Path) -> Result<SocketTransport<UnixStream>, std::io::Error> {
    let stream = UnixStream::connect(path).await?;
    let request = "ws://localhost/".into_client_request().expect("a request");
    let upgraded = tokio_tungstenite::client_async(request, stream).await;
    Ok(SocketTransport(upgraded.expect("upgraded").0))
}

#[tokio::test]
async fn f24_a_removed_socket_does_not_affect_connected_clients() {
    let host = HostProcess::start(options().flags(&["--unix", "inn.sock"])).await;
    let path = host.path("inn.sock");
    let inside = OfficialClient::over(by_socket(&path).await.expect("connected"), "inside").await;
    let uris = inside.create_session("kept").await;
    std::fs::remove_file(&path).expect("removable");
    let data = host.data_path("");
    // This fails for every user: there are directories at the paths of the host's files.
    let in_the_way = [path.clone(), host.data_path("endpoint.json")];
    std::fs::remove_file(&in_the_way[1]).expect("removable");
    for place in &in_the_way {
        std::fs::create_dir(place).expect("a directory in place of a file");
    }
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o000)).expect("permitted");
    if std::fs::read_dir(&data).is_ok() {
        println!("the user of this test ignores permissions (root?): only the blocked path is tested");
    }
    assert!(by_socket(&path).await.is_err(), "new ones fail at once");
    inside.run_turn(&uris.chat, "t1", "still here").await;
    inside.dispatch(&uris.session, title("Still kept")).await;
    inside.caught_up().await;
    // The other door is open.
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    other.run_turn(&uris.chat, "t2", "through the other door").await;
    other.assert_converged().await;
    inside.turn_end(&uris.chat, "t2").await;
    inside.assert_equal_to_snapshots_of(other.client()).await;
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).expect("permitted");
    let stopped = host.stop().await;
    assert!(!stopped.log.contains("panicked"), "{}", stopped.log);
    // The error names the obstacle. The host does not remove it, because it is not its own.
    let refused = stopped.try_start().await.expect_err("there is no way to the socket");
    assert!(refused.log.contains("inn.sock"), "{}", refused.log);
    for place in &in_the_way {
        std::fs::remove_dir(place).expect("still there, and empty");
    }
    let host = stopped.start().await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.join(&uris.session).await;
    assert_eq!(reader.session(&uris.session).title, "Still kept");
    assert_eq!(reader.chat(&uris.chat).turns.len(), 2);
}

#[tokio::test]
async fn f21_without_memory_there_are_errors_or_an_end_and_never_a_wrong_state() {
    const MIB: usize = 1 << 20;
    let host = HostProcess::start(options().memory_limit(600 << 10)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.dispatch(&uris.session, title("Kept")).await;
    client.caught_up().await;
    // Everything that is too large, from many at once. Each may be refused, and the host may end.
    let mut pushing = Vec::new();
    for number in 0..12 {
        let (address, chat) = (host.address().clone(), uris.chat.clone());
        pushing.push(tokio::spawn(async move {
            let Ok(mut raw) = RawClient::connect_with(&address, address.request()).await else {
                return;
            };
            let large = "x".repeat(15 * MIB);
            let initialize = json!({ "channel": "ahp-root://", "clientId": large, "protocolVersions": ["1.0.0"] });
            let first = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize });
            if raw.try_send_frame(Message::text(first.to_string())).await.is_err() {
                return;
            }
            let draft =
                json!({ "type": "chat/draftChanged", "draft": { "text": large, "origin": { "kind": "user" } } });
            let params = json!({ "channel": chat, "clientSeq": number, "action": draft });
            let then = json!({ "jsonrpc": "2.0", "method": "dispatchAction", "params": params });
            let _ = raw.try_send_frame(Message::text(then.to_string())).await;
            let _ = raw.try_send_frame(Message::binary(vec![0; 30 * MIB])).await;
        }));
    }
    for pusher in pushing {
        pusher.await.expect("no panic");
    }
    let mut host = host;
    let survived = host.is_running();
    let stopped = host.kill().await;
    println!(
        "under a limit of 600 MiB the host {}",
        if survived { "went on" } else { "ended" }
    );
    let host = stopped.start().await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.join(&uris.session).await;
    assert_eq!(reader.session(&uris.session).title, "Kept");
    assert_eq!(reader.chat(&uris.chat).turns.len(), 1);
    reader.run_turn(&uris.chat, "t2", "and on").await;
    reader.assert_converged().await;
}
