//! A host and its client in one process, without any socket.

use std::time::Duration;

use innkeeper_host::access::{Principal, Scope};
use innkeeper_host::{Host, Limits, stdio};
use innkeeper_testkit::embedded::TestAgent;
use innkeeper_testkit::official::{LineTransport, OfficialClient, markdown};

#[tokio::test]
async fn an_in_memory_duplex_is_a_transport_like_any_other() {
    let host = Host::builder().agent(TestAgent).start().await.expect("the host starts");
    let mut connections = Vec::new();
    let mut connect = || {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (input, output) = tokio::io::split(theirs);
        let principal = Principal::new("memory", Scope::Admin);
        connections.push(tokio::spawn(stdio::serve(host.handle(), input, output, principal)));
        let (reader, writer) = tokio::io::split(ours);
        LineTransport::new(reader, writer)
    };
    let client = OfficialClient::over(connect(), "one").await;
    let other = OfficialClient::over(connect(), "two").await;
    let uris = client.create_session("memory").await;
    other.join(&uris.session).await;
    let turn = client.run_turn(&uris.chat, "t1", "/stream 1000 0 50").await;
    assert_eq!(markdown(&turn.response_parts).len(), 50_000);
    other.turn_end(&uris.chat, "t1").await;
    client.assert_equal_to_snapshots_of(other.client()).await;
    other.assert_equal_to_snapshots_of(client.client()).await;
    host.shutdown(Duration::from_secs(10)).await;
    for connection in connections {
        connection.await.expect("the connection ends with the host");
    }
}

#[tokio::test]
async fn a_quiet_client_on_a_pipe_is_not_taken_for_a_dead_one() {
    let limits = Limits {
        ping_interval: Duration::from_millis(20),
        ..Limits::default()
    };
    let builder = Host::builder().agent(TestAgent).limits(limits);
    let host = builder.start().await.expect("the host starts");
    let (ours, theirs) = tokio::io::duplex(4096);
    let (input, output) = tokio::io::split(theirs);
    tokio::spawn(stdio::serve(host.handle(), input, output, Principal::stdio()));
    let (reader, writer) = tokio::io::split(ours);
    let client = OfficialClient::over(LineTransport::new(reader, writer), "quiet").await;
    // Many intervals of saying nothing: a pipe has no pings to answer.
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.client().ping().await.expect("still there");
    host.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn more_requests_than_may_be_in_flight_are_all_answered_in_their_order() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    let limits = Limits {
        requests_in_flight: 1,
        ..Limits::default()
    };
    let builder = Host::builder().agent(TestAgent).limits(limits);
    let host = builder.start().await.expect("the host starts");
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::split(theirs);
    tokio::spawn(stdio::serve(host.handle(), input, output, Principal::stdio()));
    let (reader, mut writer) = tokio::io::split(ours);
    for id in 0..500 {
        let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
        writer.write_all(ping.as_bytes()).await.expect("sent");
    }
    let mut lines = tokio::io::BufReader::new(reader).lines();
    for id in 0..500 {
        let line = lines.next_line().await.expect("readable").expect("an answer");
        assert_eq!(line, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":null}}"));
    }
    host.shutdown(Duration::from_secs(10)).await;
}
