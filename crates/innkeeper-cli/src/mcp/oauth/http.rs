//! Requests to authorization servers: encrypted or on this machine, bounded, and without redirects.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;
use url::{Host, Url};

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

/// How long a server may take to answer.
const TIME: Duration = Duration::from_secs(20);
/// Most of an answer that is read.
const MOST_BYTES: usize = 1 << 20;

/// Reads an address that secrets may be sent to, or that people may be sent to with them.
pub(super) fn address(text: &str, what: &str) -> Result<Url, Failure> {
    let refused = |problem: &str| {
        let shown = one_line(text, 300);
        Failure::new(Kind::Rejected, format!("{what} is {shown}, which {problem}"))
            .hint("nothing was sent there; tell whoever runs it")
    };
    let url = Url::parse(text).map_err(|_| refused("is no address"))?;
    if url.host().is_none() {
        return Err(refused("names no host"));
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        _ => return Err(refused("is neither encrypted (https) nor on this machine")),
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(refused("has a user name, a password or a fragment in it"));
    }
    Ok(url)
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Null, if it is not JSON.
    pub(super) json: Value,
}

/// Gets a document.
pub(super) async fn get(url: &Url) -> Result<Answer, Failure> {
    let client = client(url)?;
    send(url, client.get(url.clone())).await
}

/// Sends a JSON document.
pub(super) async fn post_json(url: &Url, body: &Value) -> Result<Answer, Failure> {
    let client = client(url)?;
    send(url, client.post(url.clone()).json(body)).await
}

/// Sends a form, with a name and a password in a header if there are any.
pub(super) async fn post_form(
    url: &Url,
    fields: &[(&str, &str)],
    basic: Option<(&str, &str)>,
) -> Result<Answer, Failure> {
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let mut request = client(url)?.post(url.clone());
    if let Some((name, password)) = basic {
        // Both are encoded as in a form before they are put together (RFC 6749, 2.3.1).
        let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        request = request.basic_auth(encoded(name), Some(encoded(password)));
    }
    let request = request
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body);
    send(url, request).await
}

/// Builds a client that follows no redirects: they could carry secrets to another server.
fn client(url: &Url) -> Result<reqwest::Client, Failure> {
    // Reqwest comes without a cryptography. This fails only if one was installed before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("innkeeper/", env!("CARGO_PKG_VERSION")))
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none());
    // Requests to this machine bypass proxies. Without TLS they need no certificates, which some systems lack.
    let builder = match (is_loopback(url), url.scheme()) {
        (false, _) => builder,
        (true, "http") => builder.no_proxy().tls_certs_only([]),
        (true, _) => builder.no_proxy(),
    };
    builder.build().map_err(|error| {
        let problem = error.without_url();
        Failure::new(Kind::Unexpected, format!("no HTTP client can be built ({problem})"))
    })
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

async fn send(url: &Url, request: RequestBuilder) -> Result<Answer, Failure> {
    let failed = |why: &str| {
        let place = url.origin().ascii_serialization();
        Failure::new(Kind::Unreachable, format!("the authorization server {place} {why}"))
            .hint("try again later, or ask whoever runs it")
    };
    let answering = async {
        let response = request.header("accept", "application/json").send().await;
        let response = response.map_err(|error| failed(&format!("cannot be reached ({})", reason(&error))))?;
        let status = response.status();
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| failed("broke off its answer"))?;
            if body.len() + piece.len() > MOST_BYTES {
                return Err(failed("answered with more than anybody reads"));
            }
            body.extend_from_slice(&piece);
        }
        let json = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Answer { status, json })
    };
    tokio::time::timeout(TIME, answering)
        .await
        .map_err(|_| failed("did not answer in time"))?
}

/// The innermost reason, which says most; never the address, which may hold secrets.
fn reason(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match error.is_connect() || error.is_timeout() {
        true => one_line(&innermost.to_string(), 200),
        false => "the request failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t16_nothing_is_sent_without_encryption_to_another_machine() {
        for good in [
            "https://a.test/token",
            "http://127.0.0.1:8/token",
            "http://localhost/x",
            "http://[::1]:9",
        ] {
            assert!(address(good, "it").is_ok(), "{good}");
        }
        for bad in [
            "http://a.test/token",
            "ftp://127.0.0.1/",
            "javascript:alert(1)",
            "https://me:pw@a.test/",
            "https://a.test/#x",
            "/token",
        ] {
            assert!(address(bad, "it").is_err(), "{bad}");
        }
    }
}
