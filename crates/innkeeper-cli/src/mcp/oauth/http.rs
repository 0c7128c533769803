//! Requests to authorization servers: encrypted or on this machine, bounded, and without redirects.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;
use url::{Host, Url};

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Largest response.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Parses an address to which secrets or users are sent.
pub(super) fn address(text: &str, what: &str) -> Result<Url, Failure> {
    let refused = |problem: &str| {
        let shown = one_line(text, 300);
        Failure::new(Kind::Rejected, format!("{what} is {shown}, which {problem}"))
            .hint("nothing was sent there; report it to the operator")
    };
    let url = Url::parse(text).map_err(|_| refused("is not a valid URL"))?;
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

/// A response.
pub(super) struct HttpResponse {
    pub(super) status: StatusCode,
    /// The body; null if it is not JSON.
    pub(super) json: Value,
}

/// Sends a GET request.
pub(super) async fn get(url: &Url) -> Result<HttpResponse, Failure> {
    let client = client(url)?;
    send(url, client.get(url.clone())).await
}

/// Posts a JSON document.
pub(super) async fn post_json(url: &Url, body: &Value) -> Result<HttpResponse, Failure> {
    let client = client(url)?;
    send(url, client.post(url.clone()).json(body)).await
}

/// Posts a form, with basic authentication if there is any.
pub(super) async fn post_form(
    url: &Url,
    fields: &[(&str, &str)],
    basic: Option<(&str, &str)>,
) -> Result<HttpResponse, Failure> {
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let mut request = client(url)?.post(url.clone());
    if let Some((name, password)) = basic {
        // Both are form-encoded before they are joined (RFC 6749, 2.3.1).
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

async fn send(url: &Url, request: RequestBuilder) -> Result<HttpResponse, Failure> {
    let failed = |why: &str| {
        let place = url.origin().ascii_serialization();
        Failure::new(Kind::Unreachable, format!("the authorization server {place} {why}"))
            .hint("try again later, or ask its operator")
    };
    let answering = async {
        let response = request.header("accept", "application/json").send().await;
        let response = response.map_err(|error| failed(&format!("cannot be reached ({})", reason(&error))))?;
        let status = response.status();
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| failed("ended its response too early"))?;
            if body.len() + piece.len() > MAX_RESPONSE_BYTES {
                return Err(failed("sent a response of more than 1 MiB"));
            }
            body.extend_from_slice(&piece);
        }
        let json = serde_json::from_slice(&body).unwrap_or_default();
        Ok(HttpResponse { status, json })
    };
    tokio::time::timeout(REQUEST_TIMEOUT, answering)
        .await
        .map_err(|_| failed("did not respond within 20 seconds"))?
}

/// Returns the innermost reason, which is the most precise, without the address, which may have secrets.
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
