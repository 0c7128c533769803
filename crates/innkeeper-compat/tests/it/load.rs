//! Large states and slow readers of older versions.

use innkeeper_compat::client::CompatClient;
use innkeeper_compat::version::Version;
use innkeeper_compat::words::answer_text;
use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::{Incoming, RawClient};
use serde_json::{Value, json};

use crate::{options, start};

/// A snapshot that is too large to be encoded in one piece is translated turn by turn on its way out.
#[tokio::test]
async fn a_snapshot_of_several_megabytes_reaches_every_version() {
    let host = start().await;
    let newest = OfficialClient::connect(host.address(), "newest").await;
    let uris = newest.create_session("large").await;
    newest.run_turn(&uris.chat, "t1", "/stream 40 0 65536").await;
    newest.run_turn(&uris.chat, "t2", "/error").await;
    let url = host.address().url_with_token();
    for version in [
        Version::V0_1,
        Version::V0_2,
        Version::V0_4,
        Version::V0_8,
        Version::V0_9,
    ] {
        let client = CompatClient::connect(&url, version, &format!("reader-{}", version.number())).await;
        let theirs = client.join(&uris.session).await;
        let turn = client.turn_end(&theirs, "t1").await;
        assert_eq!(answer_text(&turn).len(), 40 * 65536, "{version:?}");
        assert_eq!(client.turn_end(&theirs, "t2").await["state"], "error", "{version:?}");
        client.assert_converged("a large snapshot").await;
    }
}

/// The output for a client of 0.2 is re-headed for it. If the client does not read it, that costs the client its
/// connection, and others nothing.
#[tokio::test]
async fn lesson_14_a_client_of_0_2_that_stops_reading_is_closed_alone() {
    let options = options()
        .flags(&["--log", "info,innkeeper_host=debug"])
        .limit("outbox_bytes", 2 << 20)
        .limit("write_ms", 60_000)
        .limit("agent_hold_bytes", 200_000);
    let host = HostProcess::start(options).await;
    let newest = OfficialClient::connect(host.address(), "newest").await;
    let uris = newest.create_session("slow").await;
    let mut reading = RawClient::connect(host.address()).await;
    let mut deaf = RawClient::connect_with_small_buffer(host.address()).await;
    for (client, id) in [(&mut reading, "reading"), (&mut deaf, "deaf")] {
        client.initialize(id, &["0.2.0"]).await.expect("initialized");
        let params = json!({ "channel": uris.session });
        client.call("subscribe", params).await.expect("subscribed");
    }
    // It reads again as soon as it is given up.
    let listening = async {
        host.logged("the slow client", |log| log.contains("reads too slowly"))
            .await;
        loop {
            match deaf.receive().await {
                Incoming::Message(_) => {}
                end => break end,
            }
        }
    };
    let counting = async {
        let mut bytes = 0;
        loop {
            let Incoming::Message(message) = reading.receive().await else {
                panic!("the other client of 0.2 loses its connection");
            };
            let action = &message["params"]["action"];
            match action["type"].as_str() {
                Some("session/delta") => bytes += action["content"].as_str().map_or(0, str::len),
                Some("session/responsePart") => bytes += action["part"]["content"].as_str().map_or(0, str::len),
                Some("session/turnComplete") => break bytes,
                _ => {}
            }
        }
    };
    let working = newest.run_turn(&uris.chat, "t1", "/stream 950 0 8000");
    let (turn, end, bytes) = tokio::join!(working, listening, counting);
    assert_eq!(markdown(&turn.response_parts).len(), 7_600_000);
    assert_eq!(bytes, 7_600_000, "the other client of 0.2 got everything");
    assert_eq!(
        end,
        Incoming::Closed(1013, "the client reads too slowly; use reconnect".to_owned())
    );
    let mut back = RawClient::connect(host.address()).await;
    let params = json!({ "clientId": "deaf", "lastSeenServerSeq": 0, "subscriptions": [uris.session] });
    let resumed = back.call("reconnect", params).await.expect("reconnected");
    assert_eq!(resumed["type"], "snapshot");
    let turn: &Value = &resumed["snapshots"][0]["state"]["turns"][0];
    assert_eq!(answer_text(turn).len(), 7_600_000);
}
