//! `fetch_url`: only if enabled, only public addresses, and only after confirmation.

use innkeeper_agents::tools::{FetchSettings, ToolSettings, standard_tools};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::tools::harness::ToolHarness;

async fn harness(allow_private_addresses: bool) -> ToolHarness {
    ToolHarness::with(ToolSettings {
        fetch: Some(FetchSettings {
            allow_private_addresses,
        }),
        ..ToolSettings::default()
    })
    .await
}

/// Starts a server that answers every request alike, and returns its address.
async fn server(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            let _ = connection.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

fn page(media_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn fetch_exists_only_if_enabled() {
    let names = |settings| -> Vec<String> { standard_tools(settings).iter().map(|tool| tool.spec().name).collect() };
    assert!(!names(ToolSettings::default()).contains(&"fetch_url".to_owned()));
    let settings = ToolSettings {
        fetch: Some(FetchSettings::default()),
        ..ToolSettings::default()
    };
    assert!(names(settings).contains(&"fetch_url".to_owned()));
}

#[tokio::test]
async fn a_fetch_needs_confirmation_or_an_approval() {
    let url = server(page(
        "text/html",
        "<h1>Rooms</h1><script>no()</script><p>A warm bed.</p>",
    ))
    .await;
    let harness = harness(true).await;
    let call = harness.ask("fetch_url", json!({ "url": url })).await;
    let rules = &call["_meta"]["innkeeper.approval"]["rules"];
    assert!(
        rules["allow-session"]
            .as_str()
            .is_some_and(|rule| rule.starts_with("fetch(http://127.0.0.1:")),
        "{rules}"
    );
    let answer = harness.approve(&call).await;
    assert!(!answer.is_error, "{}", answer.text);
    assert!(
        answer.text.contains("Rooms") && answer.text.contains("A warm bed."),
        "{}",
        answer.text
    );
    assert!(!answer.text.contains("no()"));
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn local_and_private_addresses_are_rejected() {
    let harness = harness(false).await;
    for url in [
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
    ] {
        let problem = harness.problem("fetch_url", json!({ "url": url })).await;
        assert!(problem.contains("private network"), "{url}: {problem}");
    }
    let url = server(page("text/plain", "hush"))
        .await
        .replace("127.0.0.1", "localhost");
    let answer = harness.approved("fetch_url", json!({ "url": url })).await;
    assert!(
        answer.is_error && answer.text.contains("private network"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn only_text_pages_are_fetched() {
    let harness = harness(true).await;
    for (url, expected) in [
        ("file:///etc/passwd", "must begin with `http:`"),
        ("ftp://example.com/", "must begin with `http:`"),
        ("http://me:secret@example.com/", "must not have a user"),
        ("nonsense", "not an address"),
    ] {
        let problem = harness.problem("fetch_url", json!({ "url": url })).await;
        assert!(problem.contains(expected), "{url}: {problem}");
    }
    let url = server(page("image/png", "png")).await;
    let answer = harness.approved("fetch_url", json!({ "url": url })).await;
    assert!(answer.is_error && answer.text.contains("not text"), "{}", answer.text);
    let url = server(page("text/plain", &"x".repeat(1 << 20))).await;
    let answer = harness.approved("fetch_url", json!({ "url": url })).await;
    assert!(
        answer.text.len() < 300_000 && answer.text.contains("only the first"),
        "{}",
        answer.text.len()
    );
}

#[tokio::test]
async fn redirects_to_another_origin_are_not_followed() {
    let target = server(page("text/plain", "hush")).await;
    let moved = format!("HTTP/1.1 302 Found\r\nlocation: {target}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let url = server(moved).await;
    let harness = harness(true).await;
    let answer = harness.approved("fetch_url", json!({ "url": url })).await;
    assert!(
        answer.text.contains(&format!("has moved to {target}/")),
        "{}",
        answer.text
    );
    assert!(!answer.text.contains("hush"));
}
