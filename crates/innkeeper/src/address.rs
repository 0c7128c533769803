//! The address to listen on, parsed once at the edge.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::Deserialize;

/// An address and port to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ListenAddress(SocketAddr);

impl ListenAddress {
    /// The default address.
    pub(crate) const DEFAULT: Self = Self(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4747));

    /// Returns the address for the socket.
    pub(crate) fn socket_addr(self) -> SocketAddr {
        self.0
    }

    /// Returns whether only processes of this machine can reach the address.
    pub(crate) fn is_loopback(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("`{text}` is not an address and port; write for instance 127.0.0.1:4747, [::1]:4747 or :0");
        // A bare port means loopback, not every interface, which is the safe reading.
        if let Some(port) = text.strip_prefix(':').or_else(|| text.strip_prefix("localhost:")) {
            let port = port.parse().map_err(|_| wrong())?;
            return Ok(Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        text.parse().map(Self).map_err(|_| wrong())
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Returns the WebSocket URL under which a client on this machine reaches a listener bound to `bound`.
pub(crate) fn local_url(bound: SocketAddr) -> String {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("ws://{}", SocketAddr::new(ip, bound.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_documented_spellings() {
        for (text, expected) in [
            ("127.0.0.1:4747", "127.0.0.1:4747"),
            ("[::1]:0", "[::1]:0"),
            (":0", "127.0.0.1:0"),
            ("localhost:99", "127.0.0.1:99"),
            ("0.0.0.0:1", "0.0.0.0:1"),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.socket_addr().to_string(), expected);
        }
        for text in ["", "4747", "127.0.0.1", "example.com:1", ":70000", "::1:80:"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn knows_loopback_in_all_its_forms() {
        for (text, loopback) in [
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("192.168.1.2:1", false),
            ("[::ffff:10.0.0.1]:1", false),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn wildcard_addresses_become_reachable_urls() {
        for (bound, url) in [
            ("0.0.0.0:7", "ws://127.0.0.1:7"),
            ("[::]:7", "ws://[::1]:7"),
            ("127.0.0.1:7", "ws://127.0.0.1:7"),
        ] {
            assert_eq!(local_url(bound.parse().unwrap()), url);
        }
    }
}
