//! Access control before the first message of the protocol.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::{Address, RawClient, UPGRADE, get, http};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::{options, start};

/// Asks for the upgrade with these headers besides the usual ones.
async fn upgrade(address: &Address, path: &str, headers: &[&str]) -> u16 {
    let headers: Vec<&str> = UPGRADE.iter().chain(headers).copied().collect();
    // An accepted upgrade stays open, so only its first line is read.
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n", address.authority());
    for header in headers {
        request.push_str(&format!("{header}\r\n"));
    }
    request.push_str("\r\n");
    let mut stream = tokio::net::TcpStream::connect(address.authority())
        .await
        .expect("the host accepts the connection");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
        .await
        .expect("the request is taken");
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("an answer");
    let status = std::str::from_utf8(&first[9..]).expect("a status").parse();
    status.expect("a number")
}

#[tokio::test]
async fn the_token_is_taken_from_the_header_and_from_both_queries() {
    let host = start().await;
    let address = host.address();
    let token = address.token.clone().expect("a token");
    assert_eq!(token.len(), 43, "256 bits in base64url");
    assert_eq!(
        upgrade(address, "/", &[&format!("authorization: Bearer {token}")]).await,
        101
    );
    assert_eq!(
        upgrade(address, "/", &[&format!("authorization: bearer {token}")]).await,
        101
    );
    assert_eq!(upgrade(address, &format!("/?tkn={token}"), &[]).await, 101);
    assert_eq!(upgrade(address, &format!("/?a=b&token={token}"), &[]).await, 101);
    let mut request = format!("{}/", address.url).into_client_request().expect("a request");
    let header = format!("Bearer {token}").parse().expect("a header");
    request.headers_mut().insert("authorization", header);
    let mut raw = RawClient::connect_with(address, request).await.expect("accepted");
    raw.initialize("header", &["1.0.0"]).await.expect("initialized");
}

/// (AUTH-01)
#[tokio::test]
async fn t_5_a_wrong_token_gets_401_without_detail_and_then_429() {
    let host = HostProcess::start(options().limit("failed_tokens_per_minute", 4)).await;
    let address = host.address();
    let token = address.token.clone().expect("a token");
    let almost = format!("{}x", &token[..42]);
    let client = OfficialClient::connect(address, "already-in").await;
    for wrong in [
        "/".to_owned(),
        "/?tkn=".to_owned(),
        format!("/?tkn={almost}"),
        format!("/?token={}", token.to_uppercase()),
    ] {
        let answer = get(address, &wrong, &UPGRADE).await;
        assert_eq!((answer.status, answer.body.as_str()), (401, ""), "{wrong}");
        assert!(
            !answer.headers.iter().any(|header| header.contains("token")),
            "{answer:?}"
        );
    }
    let answer = get(address, "/?tkn=again", &UPGRADE).await;
    assert_eq!((answer.status, answer.body.as_str()), (429, ""));
    // A client that holds the right token is not locked out by one that does not.
    let late = OfficialClient::connect(address, "late").await;
    late.client().ping().await.expect("let in");
    // Health is no secret, and who is in stays in.
    assert_eq!(get(address, "/healthz", &[]).await.status, 200);
    client.client().ping().await.expect("unaffected");
}

#[tokio::test]
async fn t_2_web_pages_are_refused_unless_their_origin_is_listed_exactly() {
    let host = HostProcess::start(options().flags(&["--allow-origin", "https://inn.test"])).await;
    let address = host.address();
    let bearer = format!("authorization: Bearer {}", address.token.as_deref().expect("a token"));
    for (origin, status) in [
        ("https://inn.test", 101),
        ("vscode-file://vscode-app", 101),
        ("vscode-file://vscode-app.evil.test", 403),
        ("vscode-webview://vscode-app", 403),
        ("https://inn.test.evil.test", 403),
        ("https://evil.test", 403),
        ("http://inn.test", 403),
        ("https://inn.test:8443", 403),
        ("null", 403),
        ("", 403),
        ("http://localhost", 403),
    ] {
        let header = format!("origin: {origin}");
        assert_eq!(upgrade(address, "/", &[&bearer, &header]).await, status, "{origin:?}");
    }
    let answer = get(address, "/healthz", &["origin: https://evil.test"]).await;
    assert_eq!(answer.status, 403, "every route");
    let own = format!("origin: http://{}", address.authority());
    let plain = start().await;
    let answer = get(plain.address(), "/healthz", &[&own]).await;
    assert_eq!(answer.status, 403, "an empty list means no web page");
    let desktop = "origin: vscode-file://vscode-app";
    assert_eq!(
        upgrade(plain.address(), "/", &[desktop]).await,
        401,
        "VS Code on the desktop needs nothing but the token"
    );
    assert!(!answer.headers.iter().any(|header| header.starts_with("access-control")));
}

#[tokio::test]
async fn t_3_a_foreign_host_name_is_421_and_none_at_all_is_400() {
    let host = HostProcess::start(options().flags(&["--allow-host", "inn.test"])).await;
    let address = host.address();
    let port = address.authority().rsplit(':').next().expect("a port").to_owned();
    for (name, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("LOCALHOST:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        (format!("inn.test:{port}"), 200),
        ("inn.test".to_owned(), 200),
        (format!("evil.test:{port}"), 421),
        ("localhost:1".to_owned(), 421),
        (format!("0.0.0.0:{port}"), 421),
        (format!("localhost.evil.test:{port}"), 421),
        (String::new(), 421),
    ] {
        for path in ["/healthz", "/version"] {
            let answer = http(address, &format!("GET {path} HTTP/1.1\r\nhost: {name}\r\n\r\n")).await;
            assert_eq!(answer.status, status, "{name:?}");
        }
    }
    assert_eq!(http(address, "GET /healthz HTTP/1.1\r\n\r\n").await.status, 400);
    let token = address.token.as_deref().expect("a token");
    let rebound = format!(
        "GET /?tkn={token} HTTP/1.1\r\nhost: evil.test\r\n{}\r\n\r\n",
        UPGRADE.join("\r\n")
    );
    assert_eq!(http(address, &rebound).await.status, 421, "even with the token");
}

#[tokio::test]
async fn http_routes_respond_with_the_documented_status() {
    let host = start().await;
    let address = host.address();
    let bearer = format!("authorization: Bearer {}", address.token.as_deref().expect("a token"));
    let health = get(address, "/healthz", &[]).await;
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let ready = get(address, "/readyz", &[]).await;
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    let version = get(address, "/version", &[]).await;
    assert_eq!(version.status, 200);
    let version: Value = serde_json::from_str(&version.body).expect("JSON");
    assert_eq!(version["name"], "innkeeper");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let protocol = version["protocol"].as_array().expect("a list");
    assert_eq!((&protocol[0], protocol.len()), (&json!("^1.0.0"), 12));

    let page = get(address, "/", &[]).await;
    assert_eq!(page.status, 200, "the web app needs no credential");
    assert!(
        page.headers
            .contains(&"content-type: text/html; charset=utf-8".to_owned()),
        "{page:?}"
    );
    let old = [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 8",
        "sec-websocket-key: AAAA",
        &bearer,
    ];
    let old = get(address, "/", &old).await;
    assert_eq!(old.status, 400);
    assert!(old.headers.contains(&"sec-websocket-version: 13".to_owned()), "{old:?}");
    assert_eq!(get(address, "/nowhere", &[&bearer]).await.status, 404);
    let posted = format!(
        "POST / HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n",
        address.authority()
    );
    assert_eq!(http(address, &posted).await.status, 405);
    assert_eq!(http(address, "nonsense\r\n\r\n").await.status, 400);
}

#[tokio::test]
async fn a_host_without_tokens_accepts_every_local_client() {
    let host = HostProcess::start(options().flags(&["--no-auth"])).await;
    assert_eq!(host.address().token, None);
    let client = OfficialClient::connect(host.address(), "newcomer").await;
    let uris = client.create_session("open").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.assert_converged().await;
    // Web pages are kept out all the same.
    assert_eq!(upgrade(host.address(), "/", &["origin: https://evil.test"]).await, 403);
}

#[tokio::test]
async fn p_10_the_token_never_shows_in_the_log_even_at_trace() {
    let host = HostProcess::start(options().flags(&["--log", "trace"])).await;
    let address = host.address().clone();
    let token = address.token.clone().expect("a token");
    let client = OfficialClient::connect(&address, "logged").await;
    let uris = client.create_session("log").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    let wrong = "wrong-but-secret-all-the-same";
    assert_eq!(upgrade(&address, &format!("/?tkn={wrong}"), &[]).await, 401);
    assert_eq!(
        upgrade(&address, "/", &[&format!("authorization: Bearer {wrong}")]).await,
        401
    );
    assert_eq!(
        upgrade(&address, "/", &[&format!("authorization: Bearer {token}")]).await,
        101
    );
    assert_eq!(upgrade(&address, &format!("/?token={token}"), &[]).await, 101);
    let mut raw = RawClient::initialized(&address, "raw").await;
    raw.call("subscribe", json!({ "channel": format!("ahp-session:/{token}") }))
        .await
        .expect_err("unknown");
    host.terminate();
    let (status, log) = host.ended().await;
    assert!(status.success());
    assert!(
        log.contains("TRACE") || log.contains("DEBUG") || log.contains("INFO"),
        "{log}"
    );
    for secret in [token.as_str(), wrong] {
        assert!(!log.contains(secret), "{log}");
    }
}
