//! The web app's files and the sign-in of browsers, and the attacks of web pages on both.

use std::process::Command;

use innkeeper_testkit::process::{HostProcess, TIMEOUT};
use innkeeper_testkit::raw::{Address, HttpAnswer, Incoming, RawClient, UPGRADE, get, http};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::{options, start};

/// Runs a command of the program on the host's data directory, and returns its standard output.
fn run(host: &HostProcess, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_innkeeper"))
        .args(arguments)
        .arg("--data")
        .arg(host.data_path(""))
        .env_clear()
        .env("HOME", host.path(""))
        .output()
        .expect("the command runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the code of a link on the last line of a command's output.
fn code_of(output: &str) -> String {
    let link = output.lines().last().expect("a link");
    let (_, code) = link.split_once("/#code=").expect("a code in the fragment");
    code.to_owned()
}

fn own_origin(address: &Address) -> String {
    format!("http://{}", address.authority())
}

async fn post(address: &Address, path: &str, headers: &[String], body: &Value) -> HttpAnswer {
    let body = body.to_string();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
        address.authority(),
        body.len()
    );
    for header in headers {
        request.push_str(&format!("{header}\r\n"));
    }
    http(address, &format!("{request}\r\n{body}")).await
}

async fn sign_in(address: &Address, origin: &str, code: &str) -> HttpAnswer {
    let headers = [format!("origin: {origin}")];
    post(address, "/web/sign-in", &headers, &json!({ "code": code })).await
}

/// Returns the cookie that a sign-in set, as a browser sends it back.
fn cookie_of(answer: &HttpAnswer) -> Option<String> {
    let header = answer
        .headers
        .iter()
        .find_map(|header| header.strip_prefix("set-cookie: "))?;
    Some(header.split(';').next().unwrap_or_default().to_owned())
}

/// A browser with a cookie. Header names are in lower case, but values are not, so the cookie is read as it was sent.
async fn signed_in(host: &HostProcess, arguments: &[&str]) -> String {
    let address = host.address();
    let body = json!({ "code": code_of(&run(host, arguments)) }).to_string();
    let request = format!(
        "POST /web/sign-in HTTP/1.1\r\nhost: {}\r\norigin: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        address.authority(),
        own_origin(address),
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(address.authority())
        .await
        .expect("accepted");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
        .await
        .expect("sent");
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer)
        .await
        .expect("answered");
    let line = answer
        .lines()
        .find(|line| line.to_lowercase().starts_with("set-cookie:"));
    let cookie = line
        .unwrap_or_else(|| panic!("no cookie in {answer}"))
        .split_once(": ")
        .expect("a header")
        .1;
    cookie.split(';').next().expect("a cookie").to_owned()
}

async fn connect(address: &Address, cookie: &str, origin: Option<&str>) -> Result<RawClient, u16> {
    let mut request = format!("ws://{}/", address.authority())
        .into_client_request()
        .expect("a request");
    request
        .headers_mut()
        .insert("cookie", cookie.parse().expect("a header"));
    if let Some(origin) = origin {
        request
            .headers_mut()
            .insert("origin", origin.parse().expect("a header"));
    }
    match RawClient::connect_with(address, request).await {
        Ok(client) => Ok(client),
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn page_is_served_with_a_strict_policy() {
    let host = start().await;
    let page = get(host.address(), "/", &[]).await;
    assert_eq!(page.status, 200);
    let header = |name: &str| {
        let prefix = format!("{name}: ");
        let found = page.headers.iter().find_map(|header| header.strip_prefix(&prefix));
        found.unwrap_or_else(|| panic!("no {name} in {page:?}")).to_owned()
    };
    let policy = header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{part} in {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(header("x-frame-options"), "deny");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    assert_eq!(header("cache-control"), "no-cache");
    assert_eq!(header("content-encoding"), "gzip");
    let asset = innkeeper_web::FILES
        .iter()
        .find(|file| file.is_immutable())
        .expect("an asset");
    let asset = get(host.address(), asset.path, &[]).await;
    assert!(
        asset
            .headers
            .contains(&"cache-control: public, max-age=31536000, immutable".to_owned())
    );
    for path in ["/assets/../index.html", "/assets/", "/etc/passwd", "/web/session"] {
        let answer = get(host.address(), path, &[]).await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[tokio::test]
async fn link_signs_one_browser_in() {
    let host = start().await;
    let address = host.address();
    let own = own_origin(address);
    let code = code_of(&run(&host, &["open", "--no-browser"]));
    let first = sign_in(address, &own, &code).await;
    assert_eq!((first.status, first.body.as_str()), (200, r#"{"scope":"admin"}"#));
    let cookie = first
        .headers
        .iter()
        .find(|header| header.starts_with("set-cookie: "))
        .expect("a cookie");
    for part in ["httponly", "samesite=strict", "path=/", "max-age=2592000"] {
        assert!(cookie.contains(part), "{part} in {cookie}");
    }
    let second = sign_in(address, &own, &code).await;
    assert_eq!((second.status, cookie_of(&second)), (401, None), "a link that was used");
}

#[tokio::test]
async fn cookie_connects_with_its_scope() {
    let host = start().await;
    let address = host.address();
    let own = own_origin(address);
    for (flags, scope, creates) in [
        (vec!["pair", "--view"], "view", false),
        (vec!["pair", "--drive"], "drive", true),
    ] {
        let cookie = signed_in(&host, &flags).await;
        let headers = [format!("origin: {own}"), format!("cookie: {cookie}")];
        let session = post(address, "/web/session", &headers, &json!({})).await;
        assert_eq!(session.body, json!({ "scope": scope }).to_string());
        let mut client = connect(address, &cookie, Some(&own)).await.expect("connected");
        client.initialize(scope, &["1.0.0"]).await.expect("initialized");
        let created = client
            .call("createSession", json!({ "channel": format!("ahp-session:/{scope}") }))
            .await;
        assert_eq!(created.is_ok(), creates, "{scope}: {created:?}");
    }
}

/// SameSite says nothing about other ports of this machine, so the origin decides.
#[tokio::test]
async fn cookie_counts_only_with_the_own_origin() {
    let host = start().await;
    let address = host.address();
    let cookie = signed_in(&host, &["open", "--no-browser"]).await;
    let port = address.authority().rsplit(':').next().expect("a port");
    for (origin, status) in [
        (None, 401),
        (Some("https://evil.test"), 403),
        (Some("null"), 403),
        (Some("http://127.0.0.1:1"), 403),
        (Some("http://127.0.0.1"), 403),
        (Some("vscode-file://vscode-app"), 401),
        (Some(&*format!("http://127.0.0.1:{port}.evil.test")), 403),
        (Some(&*format!("http://evil.test@127.0.0.1:{port}")), 403),
    ] {
        assert_eq!(
            connect(address, &cookie, origin).await.err(),
            Some(status),
            "{origin:?}"
        );
    }
    connect(address, &cookie, Some(&own_origin(address)))
        .await
        .expect("the own origin");
}

#[tokio::test]
async fn other_pages_cannot_sign_a_user_in_or_out() {
    let host = start().await;
    let address = host.address();
    let cookie = signed_in(&host, &["open", "--no-browser"]).await;
    let code = code_of(&run(&host, &["open", "--no-browser"]));
    for origin in ["https://evil.test", "null", "http://127.0.0.1:1"] {
        assert_eq!(sign_in(address, origin, &code).await.status, 403, "{origin}");
        let headers = [format!("origin: {origin}"), format!("cookie: {cookie}")];
        for path in ["/web/sign-out", "/web/session"] {
            assert_eq!(
                post(address, path, &headers, &json!({})).await.status,
                403,
                "{path} of {origin}"
            );
        }
    }
    // A form of another page sends no JSON, and an old browser might send no origin.
    let headers = [format!("cookie: {cookie}")];
    assert_eq!(post(address, "/web/sign-out", &headers, &json!({})).await.status, 403);
    connect(address, &cookie, Some(&own_origin(address)))
        .await
        .expect("still signed in");
    assert_eq!(
        sign_in(address, &own_origin(address), &code).await.status,
        200,
        "the code is not used up"
    );
}

#[tokio::test]
async fn guessing_codes_is_slowed_down() {
    let host = HostProcess::start(options().limit("failed_tokens_per_minute", 3)).await;
    let address = host.address();
    let own = own_origin(address);
    for _ in 0..3 {
        assert_eq!(sign_in(address, &own, "AAAAAAAAAAAAAAAAAAAAAA").await.status, 401);
    }
    assert_eq!(sign_in(address, &own, "AAAAAAAAAAAAAAAAAAAAAA").await.status, 429);
    let huge = post(
        address,
        "/web/sign-in",
        &[format!("origin: {own}")],
        &json!({ "code": "A".repeat(100_000) }),
    )
    .await;
    assert!(matches!(huge.status, 0 | 429), "{huge:?}");
}

#[tokio::test]
async fn revoked_device_loses_its_connection() {
    let host = start().await;
    let address = host.address();
    let own = own_origin(address);
    let cookie = signed_in(&host, &["pair", "--drive"]).await;
    let other = signed_in(&host, &["open", "--no-browser"]).await;
    let mut client = connect(address, &cookie, Some(&own)).await.expect("connected");
    client.initialize("phone", &["1.0.0"]).await.expect("initialized");
    let mut kept = connect(address, &other, Some(&own)).await.expect("connected");
    kept.initialize("laptop", &["1.0.0"]).await.expect("initialized");

    let listed: Vec<Value> = run(&host, &["devices", "list", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let phone = listed
        .iter()
        .find(|device| device["scope"] == "drive")
        .expect("the phone");
    run(&host, &["devices", "revoke", phone["id"].as_str().expect("an id")]);
    let ended = tokio::time::timeout(TIMEOUT, client.end()).await.expect("it ends");
    assert!(matches!(ended, Incoming::Closed(..) | Incoming::Broken(_)), "{ended:?}");
    assert_eq!(connect(address, &cookie, Some(&own)).await.err(), Some(401));
    kept.still_works().await;
    connect(address, &other, Some(&own))
        .await
        .expect("the other device stays");
}

#[tokio::test]
async fn signing_out_ends_the_cookie() {
    let host = start().await;
    let address = host.address();
    let own = own_origin(address);
    let cookie = signed_in(&host, &["open", "--no-browser"]).await;
    let headers = [format!("origin: {own}"), format!("cookie: {cookie}")];
    let answer = post(address, "/web/sign-out", &headers, &json!({})).await;
    assert!(
        answer.headers.iter().any(|header| header.contains("max-age=0")),
        "{answer:?}"
    );
    assert_eq!(post(address, "/web/session", &headers, &json!({})).await.status, 401);
    assert_eq!(connect(address, &cookie, Some(&own)).await.err(), Some(401));
}

#[tokio::test]
async fn devices_survive_a_restart() {
    let host = start().await;
    let cookie = signed_in(&host, &["open", "--no-browser"]).await;
    let waiting = code_of(&run(&host, &["pair", "--view"]));
    let host = host.kill_and_restart().await;
    let address = host.address();
    // The port is part of the cookie's name, and the restarted host may have another one.
    let secret = cookie.split_once('=').expect("a value").1;
    let port = address.authority().rsplit(':').next().expect("a port");
    let cookie = format!("innkeeper-{port}={secret}");
    connect(address, &cookie, Some(&own_origin(address)))
        .await
        .expect("still signed in");
    assert_eq!(sign_in(address, &own_origin(address), &waiting).await.status, 200);
}

#[tokio::test]
async fn page_works_without_signing_in_if_no_token_is_needed() {
    let host = HostProcess::start(options().flags(&["--no-auth"])).await;
    let address = host.address();
    let own = own_origin(address);
    let session = post(address, "/web/session", &[format!("origin: {own}")], &json!({})).await;
    assert_eq!(session.body, r#"{"scope":"admin"}"#);
    let upgrade: Vec<&str> = UPGRADE.iter().copied().chain(["origin: https://evil.test"]).collect();
    assert_eq!(get(address, "/", &upgrade).await.status, 403);
}

#[tokio::test]
async fn pair_prints_a_qr_code_and_the_rights() {
    let host = start().await;
    let printed = run(&host, &["pair", "--view", "--url", "https://inn.test/", "--days", "3"]);
    assert!(printed.contains("https://inn.test/#code="), "{printed}");
    assert!(printed.contains('█') || printed.contains('▀'), "{printed}");
}

/// Neither codes nor cookies are in the log (T1).
#[tokio::test]
async fn log_has_no_code_and_no_cookie() {
    let host = HostProcess::start(options().flags(&["--log", "trace"])).await;
    let address = host.address().clone();
    let code = code_of(&run(&host, &["open", "--no-browser"]));
    sign_in(&address, &own_origin(&address), &code).await;
    sign_in(&address, &own_origin(&address), "a-wrong-code-that-is-secret").await;
    let cookie = signed_in(&host, &["open", "--no-browser"]).await;
    let mut client = connect(&address, &cookie, Some(&own_origin(&address)))
        .await
        .expect("connected");
    client.initialize("logged", &["1.0.0"]).await.expect("initialized");
    host.terminate();
    let (_, log) = host.ended().await;
    let secret = cookie.split_once('=').expect("a value").1;
    for secret in [code.as_str(), "a-wrong-code-that-is-secret", secret] {
        assert!(!log.contains(secret), "{log}");
    }
}
