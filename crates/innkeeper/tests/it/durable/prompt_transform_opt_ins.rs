//! Opt-ins to prompt transforms are state: they survive restarts, and end with their client.

use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use innkeeper_testkit::rewriter::Rewriter;
use serde_json::{Value, json};

use crate::durable::{options, start_with_client};

async fn reconnect(host: &HostProcess, client: &str, seen: &Value, channels: &[&str]) -> (RawClient, Value) {
    let mut raw = RawClient::connect(host.address()).await;
    let params = json!({
        "channel": "ahp-root://", "clientId": client, "lastSeenServerSeq": seen, "subscriptions": channels,
    });
    let answer = raw.call("reconnect", params).await.expect("known across restarts");
    (raw, answer)
}

async fn members(raw: &mut RawClient, session: &str) -> Value {
    let subscribed = raw.call("subscribe", json!({ "channel": session })).await;
    subscribed.expect("subscribed")["snapshot"]["state"]["activeClients"].take()
}

#[tokio::test]
async fn smt17_p1_an_opt_in_survives_a_killed_host() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    let mut watcher = RawClient::initialized(host.address(), "watcher").await;
    let subscribed = watcher.call("subscribe", json!({ "channel": uris.session })).await;
    let seen = subscribed.expect("subscribed")["snapshot"]["fromSeq"].take();
    let mut desk = Rewriter::join(host.address(), "desk", &uris.session, &["tone", "x"]).await;
    desk.announce(&["tone", "y"]).await;
    client.start_turn(&uris.chat, "t1", "hello").await;
    desk.rewrite(&[]).await;
    client.turn_end(&uris.chat, "t1").await;
    // Said last, so it is in the log and in no document.
    let last = desk.announce(&["tone", "guidelines"]).await["serverSeq"].clone();
    let opt_in = json!({ "sections": ["tone", "guidelines"] });

    let host = host.kill_and_restart().await;
    client.disconnected().await;
    client.move_to(host.address());
    client.reconnect().await.expect("known across restarts");
    let (_watcher, replay) = reconnect(&host, "watcher", &seen, &[&uris.session]).await;
    let announced: Vec<&Value> = replay["actions"]
        .as_array()
        .unwrap_or_else(|| panic!("a replay: {replay}"))
        .iter()
        .filter(|envelope| envelope["action"]["type"] == "session/activeClientSet")
        .map(|envelope| &envelope["action"]["activeClient"]["systemMessageTransform"])
        .collect();
    assert_eq!(announced.len(), 3, "{replay}");
    assert_eq!(*announced[2], opt_in);

    let (raw, _) = reconnect(&host, "desk", &last, &[&uris.session]).await;
    let mut desk = Rewriter::over(raw, "desk", &uris.session).await;
    assert_eq!(
        members(&mut desk.raw, &uris.session).await[0]["systemMessageTransform"],
        opt_in
    );
    // The agent was opened afresh for it: one render for that, and one for the turn.
    client.start_turn(&uris.chat, "t2", "/prompt tone").await;
    desk.rewrite(&[]).await;
    desk.rewrite(&[("tone", "Whisper.")]).await;
    let said = markdown(&client.turn_end(&uris.chat, "t2").await.response_parts);
    assert!(said.contains("Whisper."), "{said}");
    client.assert_converged().await;

    // Once more, now that all of it is in a document.
    let stopped = host.stop().await;
    let host = stopped.start().await;
    let mut late = RawClient::initialized(host.address(), "late").await;
    assert_eq!(
        members(&mut late, &uris.session).await[0]["systemMessageTransform"],
        opt_in
    );
}

#[tokio::test]
async fn smt17_act10_an_opt_in_goes_with_a_client_that_does_not_come_back() {
    let host = HostProcess::start(options().limit("grace_ms", 300)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("gone").await;
    let desk = Rewriter::join(host.address(), "desk", &uris.session, &["tone"]).await;
    drop(client);
    let host = host.kill_and_restart().await;
    drop(desk);
    let client = OfficialClient::connect(host.address(), "second").await;
    client.join(&uris.session).await;
    client
        .until("its grace is over", |view| view.members(&uris.session).is_empty())
        .await;
    // It reconnects without an opt-in.
    let raw = RawClient::initialized(host.address(), "desk").await;
    let mut desk = Rewriter::over(raw, "desk", &uris.session).await;
    let plain = json!({ "clientId": "desk", "tools": [] });
    desk.dispatch(json!({ "type": "session/activeClientSet", "activeClient": plain }))
        .await;
    assert_eq!(members(&mut desk.raw, &uris.session).await, json!([plain]));
    client.run_turn(&uris.chat, "t1", "hello").await;
    assert!(!desk.was_asked().await);
    client.assert_converged().await;
}
