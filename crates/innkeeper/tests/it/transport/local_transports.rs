//! Local transports: a Unix socket, and standard input and output.

use std::os::unix::fs::PermissionsExt as _;

use innkeeper_testkit::official::{LineTransport, OfficialClient, SocketTransport, markdown};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::options;

#[tokio::test]
async fn t_6_the_unix_socket_is_private_and_needs_no_token() {
    let host = HostProcess::start(options().flags(&["--unix", "inn.sock"])).await;
    let path = host.path("inn.sock");
    let mode = std::fs::metadata(&path)
        .expect("the socket exists")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner may connect");
    let stream = UnixStream::connect(&path).await.expect("connected");
    let request = "ws://localhost/".into_client_request().expect("a request");
    let (socket, _) = tokio_tungstenite::client_async(request, stream)
        .await
        .expect("upgraded");
    let client = OfficialClient::over(SocketTransport(socket), "unix").await;
    let uris = client.create_session("unix").await;
    client.run_turn(&uris.chat, "t1", "/stream 100").await;
    // The same host, seen through its other door.
    let tcp = OfficialClient::connect(host.address(), "tcp").await;
    tcp.join(&uris.session).await;
    tcp.run_turn(&uris.chat, "t2", "from the other door").await;
    client.turn_end(&uris.chat, "t2").await;
    client.assert_equal_to_snapshots_of(tcp.client()).await;
    tcp.assert_converged().await;

    let stream = UnixStream::connect(&path).await.expect("connected");
    let mut page = "ws://localhost/".into_client_request().expect("a request");
    page.headers_mut()
        .insert("origin", "https://evil.test".parse().expect("a header"));
    assert!(RawClient::over(stream, page).await.is_err(), "web pages stay out");

    host.terminate();
    let kept = path.clone();
    let (status, _) = host.ended().await;
    assert!(status.success());
    assert!(!kept.exists(), "the socket is removed");
}

#[tokio::test]
async fn stdio_speaks_one_message_per_line_with_the_published_client() {
    let (host, stdin, stdout) = HostProcess::start_on_stdio(options()).await;
    let client = OfficialClient::over(LineTransport::new(stdout, stdin), "parent").await;
    let uris = client.create_session("pipes").await;
    let turn = client.run_turn(&uris.chat, "t1", "/stream 500 0 100").await;
    assert_eq!(markdown(&turn.response_parts).len(), 50_000);
    let turn = client.run_turn(&uris.chat, "t2", "several\nlines\nhere").await;
    assert_eq!(turn.message.text, "several\nlines\nhere");
    client.assert_equal_to_snapshots_of(client.client()).await;
    // Closing the input ends the host.
    client.client().shutdown().await;
    let (status, _) = host.ended().await;
    assert!(status.success());
}

#[tokio::test]
async fn stdio_answers_bad_lines_and_prints_nothing_else_on_standard_output() {
    let (host, mut stdin, stdout) = HostProcess::start_on_stdio(options()).await;
    let mut lines = BufReader::new(stdout).lines();
    let input = "\n  \r\n{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\r\nnonsense\n[]\n\u{e9}\n";
    stdin.write_all(input.as_bytes()).await.expect("written");
    stdin.write_all(b"\xff\xfe\n").await.expect("written");
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "clientId": "lines", "protocolVersions": ["1.0.0"] },
    });
    stdin
        .write_all(format!("{initialize}\n").as_bytes())
        .await
        .expect("written");
    let mut answers = Vec::new();
    for _ in 0..6 {
        let line = lines.next_line().await.expect("readable").expect("a line");
        answers.push(serde_json::from_str::<Value>(&line).expect("JSON"));
    }
    // Errors of the reader may overtake responses of the main loop.
    let answer = |id: Value| answers.iter().find(|answer| answer["id"] == id).expect("answered");
    assert_eq!(
        *answer(json!("a")),
        json!({ "jsonrpc": "2.0", "id": "a", "result": null })
    );
    assert_eq!(answer(json!(1))["result"]["protocolVersion"], "1.0.0");
    let codes: Vec<_> = answers
        .iter()
        .filter_map(|answer| answer["error"]["code"].as_i64())
        .collect();
    assert_eq!(codes, [-32700, -32600, -32700, -32700]);
    drop(stdin);
    assert_eq!(lines.next_line().await.expect("readable"), None, "and then silence");
    let (status, log) = host.ended().await;
    assert!(status.success(), "{log}");
}
