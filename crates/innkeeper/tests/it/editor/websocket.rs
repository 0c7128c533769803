//! Editors over WebSocket.

use std::io;
use std::process::Stdio;

use agent_client_protocol::v1::schema::StopReason;
use futures_util::{SinkExt as _, StreamExt as _, future};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::client::{AcpEditor, command};
use super::host;

/// Starts the endpoint and returns its address.
async fn endpoint(data: &std::path::Path) -> (Child, String) {
    let mut command = command(data, &["--listen", "127.0.0.1:0", "--provider", "scripted"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = lines.next_line().await.expect("readable").expect("a line");
    let start = line.find("ws://").expect("an address");
    let address = line[start..].split(',').next().expect("an address").to_owned();
    (child, address)
}

async fn status(address: &str, headers: &[(&'static str, String)]) -> u16 {
    let mut request = address.into_client_request().expect("an address");
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header"));
    }
    match tokio_tungstenite::connect_async(request).await {
        Ok(_) => 101,
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn an_editor_connects_over_websocket_with_the_token_of_the_host() {
    let work = tempfile::tempdir().expect("a directory");
    let host = host(work.path()).await;
    let (_child, address) = endpoint(&host.data_path(".")).await;
    let token = host.address().token.clone().expect("a token");
    let bearer = ("authorization", format!("Bearer {token}"));
    let elsewhere = address.replace("/acp", "/other");
    for (expected, address, headers) in [
        (401, &address, vec![]),
        (401, &address, vec![("authorization", "Bearer wrong".to_owned())]),
        (
            403,
            &address,
            vec![bearer.clone(), ("origin", "http://localhost".to_owned())],
        ),
        (404, &elsewhere, vec![bearer.clone()]),
        (101, &address, vec![bearer.clone()]),
    ] {
        assert_eq!(status(address, &headers).await, expected, "{headers:?}");
    }
    let mut request = address.into_client_request().expect("an address");
    request
        .headers_mut()
        .insert(bearer.0, bearer.1.parse().expect("a header"));
    let (socket, _) = tokio_tungstenite::connect_async(request).await.expect("a connection");
    let (outgoing, incoming) = socket.split();
    let outgoing = outgoing.sink_map_err(io::Error::other);
    let outgoing = outgoing.with(|line: String| future::ready(Ok::<_, io::Error>(Message::text(line))));
    let incoming = incoming.filter_map(|frame| {
        future::ready(match frame {
            Ok(Message::Text(text)) => Some(Ok(text.to_string())),
            Ok(_) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        })
    });
    let editor = AcpEditor::connect(outgoing, incoming, None).await;
    let session = editor.new_session(work.path()).await.session_id.to_string();
    let answer = editor.begin(&session, "say over the wire").await.expect("an end");
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    assert_eq!(editor.text("agent_message_chunk"), "over the wire");
}

#[tokio::test]
async fn editors_are_served_on_loopback_only() {
    let work = tempfile::tempdir().expect("a directory");
    let output = command(work.path(), &["--listen", "0.0.0.0:0"])
        .output()
        .await
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("loopback"));
}
