//! Below the protocol: the bytes of servers, as JSON-RPC messages.
//!
//! `message.rs` encodes and decodes messages, `peer.rs` matches answers with requests, `inbox.rs` bounds what a server
//! sends. `stdio.rs`, `http.rs` and `sse.rs` are the transports, `process.rs` is the process behind pipes.

mod client;
mod events;
mod failure;
mod http;
mod inbound_requests;
mod inbox;
mod json_rpc_peek;
mod line;
mod message;
mod param_headers;
mod peer;
mod process;
mod program;
mod sse;
mod stdio;
mod tail;

use std::sync::{Once, OnceLock};
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use url::Url;

pub(crate) use self::client::HttpClient;
pub(crate) use self::failure::{Challenged, HttpFailure};
pub(crate) use self::http::StreamableHttp;
pub(crate) use self::inbound_requests::InboundRequests;
pub(crate) use self::inbox::{Inbox, Received};
pub(crate) use self::message::{Message, NOT_UNDERSTOOD, RequestId, RpcError, TOO_LARGE};
pub(crate) use self::peer::{InFlight, Peer, RequestFailure, STATELESS_REVISION, Transport};
pub(crate) use self::process::Process;
pub(crate) use self::sse::SseTransport;
pub(crate) use self::stdio::StdioTransport;
use crate::engine::error::ConfigError;

const CONNECT_TIME: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 3;

/// Returns the HTTP client for remote servers.
#[cfg(test)]
pub(crate) fn http_client() -> Result<reqwest::Client, ConfigError> {
    http_client_for(&Url::parse("https://example.test").expect("an address"))
}

/// A client that is built once: building one is slow.
type OneClient = OnceLock<Result<reqwest::Client, ConfigError>>;

/// Returns the HTTP client for the address of a server. There are three.
pub(crate) fn http_client_for(address: &Url) -> Result<reqwest::Client, ConfigError> {
    static CLIENTS: [OneClient; 3] = [const { OnceLock::new() }; 3];
    client_of(&CLIENTS, address, || {
        Policy::custom(|attempt: Attempt<'_>| {
            // Tokens and requests stay with the server they are for (T16, T21).
            let first = attempt.previous().first().map(Url::origin);
            if attempt.previous().len() > MAX_REDIRECTS || first != Some(attempt.url().origin()) {
                attempt.stop()
            } else {
                attempt.follow()
            }
        })
    })
}

/// Returns the HTTP client for an address that gets secrets. It follows no redirects.
///
/// # Errors
///
/// When this machine cannot make encrypted connections.
pub fn http_client_without_redirects(address: &Url) -> Result<reqwest::Client, ConfigError> {
    static CLIENTS: [OneClient; 3] = [const { OnceLock::new() }; 3];
    client_of(&CLIENTS, address, Policy::none)
}

fn client_of(
    [out_there, here_with_tls, here_without_tls]: &[OneClient; 3],
    address: &Url,
    redirects: impl Fn() -> Policy,
) -> Result<reqwest::Client, ConfigError> {
    let is_here = match address.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    // Requests to this machine do not go through a proxy. Without TLS there is no need for the system's certificates, which
    // some machines lack.
    let here = || reqwest::Client::builder().no_proxy();
    let client = match (is_here, address.scheme()) {
        (false, _) => out_there.get_or_init(|| build(reqwest::Client::builder(), redirects())),
        (true, "http") => here_without_tls.get_or_init(|| build(here().tls_certs_only([]), redirects())),
        (true, _) => here_with_tls.get_or_init(|| build(here(), redirects())),
    };
    client.clone()
}

fn build(builder: reqwest::ClientBuilder, redirects: Policy) -> Result<reqwest::Client, ConfigError> {
    choose_cryptography();
    builder
        .user_agent(concat!("innkeeper/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIME)
        .retry(reqwest::retry::never())
        .redirect(redirects)
        .build()
        .map_err(|error| ConfigError::Http(error.without_url().to_string()))
}

/// Reqwest has no cryptography of its own: ring is used, unless the program has chosen another one.
fn choose_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
