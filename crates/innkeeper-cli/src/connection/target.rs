//! Finds a host and opens a WebSocket to it.

use std::path::PathBuf;

use ahp::{Client, ClientConfig};
use ahp_ws::WebSocketTransport;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use url::Host;

use crate::args::ConnectArgs;
use crate::discovery::{DataDir, Endpoint, TokenFile};
use crate::failure::{Failure, Kind};

use super::unix_socket::UnixTransport;
use crate::connection::request_failure;

/// Snapshots of long chats exceed the library's own limit for frames.
const MAX_MESSAGE: usize = 256 << 20;

/// The address of a host, and the token for it.
pub(crate) struct Target {
    address: Address,
    token: Option<TokenFile>,
}

enum Address {
    Url(String),
    Unix(PathBuf),
}

impl Target {
    /// Finds the host that the arguments name, or the one that runs on the data directory.
    pub(crate) fn find(dir: &DataDir, args: &ConnectArgs) -> Result<Self, Failure> {
        let running = Endpoint::find(dir);
        let address = match (&args.url, &running) {
            (Some(url), _) => Address::parse(url),
            (None, Some(Endpoint { url: Some(url), .. })) => Address::Url(url.clone()),
            (None, Some(Endpoint { unix: Some(path), .. })) => Address::Unix(path.clone()),
            (None, _) => {
                return Err(Failure::new(
                    Kind::Unreachable,
                    format!("no host runs on the data directory {}", dir.path().display()),
                )
                .hint("start one with `innkeeper`, or name one with --url URL"));
            }
        };
        // The local token goes only to the host that wrote it, never to another --url.
        let token_file = match (&args.token_file, running) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(running)) if address.is(&running) => running.token_file,
            _ => None,
        };
        let token = match (&args.token_file, &token_file) {
            (Some(path), _) => Some(TokenFile::read_named(path)?),
            (None, path) => path.as_deref().map(TokenFile::read).transpose()?,
        };
        Ok(Self { address, token })
    }

    /// Returns the address without its query, which could have a token.
    pub(crate) fn name(&self) -> String {
        match &self.address {
            Address::Url(url) => url.split('?').next().unwrap_or_default().to_owned(),
            Address::Unix(path) => path.display().to_string(),
        }
    }

    /// Opens the connection, before the handshake of the protocol.
    pub(crate) async fn connect(&self, config: ClientConfig) -> Result<Client, Failure> {
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let client = match &self.address {
            Address::Url(url) => {
                let request = self.upgrade_request(url)?;
                let (stream, _) = tokio_tungstenite::connect_async_with_config(request, Some(limits), true)
                    .await
                    .map_err(|error| self.refused(error))?;
                Client::connect(WebSocketTransport::from_stream(stream), config).await
            }
            Address::Unix(path) => {
                let request = self.upgrade_request("ws://localhost/")?;
                let stream = UnixStream::connect(path)
                    .await
                    .map_err(|error| self.refused(WsError::Io(error)))?;
                let (stream, _) = tokio_tungstenite::client_async_with_config(request, stream, Some(limits))
                    .await
                    .map_err(|error| self.refused(error))?;
                Client::connect(UnixTransport::new(stream), config).await
            }
        };
        client.map_err(|error| request_failure("connect", error))
    }

    fn upgrade_request(&self, url: &str) -> Result<Request, Failure> {
        let mut request = url.into_client_request().map_err(|error| self.refused(error))?;
        if let Some(token) = &self.token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.secret()))
                .expect("invariant: a token file holds only characters allowed in headers");
            value.set_sensitive(true);
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        Ok(request)
    }

    fn refused(&self, error: WsError) -> Failure {
        let name = self.name();
        match error {
            WsError::Http(response) => self.refused_with(response.status()),
            WsError::Url(_) | WsError::HttpFormat(_) => {
                Failure::new(Kind::Usage, format!("`{name}` is not the address of a host"))
                    .hint("write it like ws://127.0.0.1:4747, wss://example.com or unix:/path/to/socket")
            }
            error => Failure::new(Kind::Unreachable, format!("no host responds at {name} ({error})"))
                .hint("start one with `innkeeper`, or correct the address"),
        }
    }

    fn refused_with(&self, status: StatusCode) -> Failure {
        let name = self.name();
        match (status, &self.token) {
            (StatusCode::UNAUTHORIZED, None) if self.address.has_token() => Failure::new(
                Kind::AccessRefused,
                format!("the host at {name} does not accept the token in its address"),
            )
            .hint("correct it, or name the host's own token file with --token-file FILE"),
            (StatusCode::UNAUTHORIZED, None) => {
                Failure::new(Kind::AccessRefused, format!("the host at {name} requires a token"))
                    .hint("name the file that holds it with --token-file FILE")
            }
            (StatusCode::UNAUTHORIZED, Some(token)) => Failure::new(
                Kind::AccessRefused,
                format!(
                    "the host at {name} does not accept the token in {}",
                    token.path().display()
                ),
            )
            .hint("name the host's own token file with --token-file FILE"),
            (StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS, _) => Failure::new(
                Kind::AccessRefused,
                format!("the host at {name} rejected the connection ({status})"),
            )
            .hint("wait a minute, then try again with the right token"),
            _ => Failure::new(
                Kind::Unreachable,
                format!("{name} responds, but is not a host or is overloaded ({status})"),
            )
            .hint("correct the address, or try again later"),
        }
    }
}

/// Returns whether an address is on this machine, so that its host has the same directories.
pub fn is_here(url: &str) -> bool {
    match Address::parse(url) {
        Address::Unix(_) => true,
        Address::Url(url) => match url::Url::parse(&url).as_ref().map(url::Url::host) {
            Ok(Some(Host::Domain(name))) => name == "localhost",
            Ok(Some(Host::Ipv4(address))) => address.is_loopback(),
            Ok(Some(Host::Ipv6(address))) => address.to_canonical().is_loopback(),
            Ok(None) | Err(_) => false,
        },
    }
}

impl Address {
    fn parse(url: &str) -> Self {
        match url.strip_prefix("unix:") {
            Some(path) => Self::Unix(PathBuf::from(path)),
            None => Self::Url(url.to_owned()),
        }
    }

    /// Returns whether the address has a token.
    fn has_token(&self) -> bool {
        let Self::Url(url) = self else { return false };
        let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let mut names = query.split('&').filter_map(|pair| pair.split_once('='));
        names.any(|(name, _)| name == "tkn" || name == "token")
    }

    fn is(&self, running: &Endpoint) -> bool {
        match self {
            Self::Url(url) => running.url.as_deref() == Some(url.strip_suffix('/').unwrap_or(url)),
            Self::Unix(path) => running.unix.as_deref() == Some(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known() {
        for here in [
            "ws://127.0.0.1:4747",
            "ws://localhost:1/",
            "ws://[::1]:4747/?token=x",
            "ws://[::ffff:127.0.0.1]:1",
            "unix:/run/inn.sock",
        ] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in [
            "wss://inn.test",
            "ws://192.0.2.1:4747",
            "ws://localhost.inn.test",
            "nonsense",
        ] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_rejected_token_in_the_address_is_not_requested_again() {
        let told = |url: &str| {
            let address = Address::parse(url);
            let target = Target { address, token: None };
            target.refused_with(StatusCode::UNAUTHORIZED).to_string()
        };
        assert!(told("ws://inn.test").contains("requires a token"));
        for url in ["ws://inn.test/?tkn=wrong", "ws://inn.test/?a=b&token=wrong"] {
            assert!(told(url).contains("does not accept the token in its address"), "{url}");
        }
    }
}
