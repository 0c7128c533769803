//! Distinguishes public internet addresses from others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true unless the address is local, private or reserved.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_reserved = matches!(
        (a, b, c),
        // This network, shared address space, protocol assignments, benchmarks, reserved.
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) | (240..=255, ..)
    );
    !(is_reserved
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Judge an embedded IPv4 address as such.
    if let Some(address) = address.to_ipv4_mapped() {
        return is_public_v4(address);
    }
    match address.segments() {
        [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => is_public_v4(embedded(high, low)),
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Teredo, documentation.
        [0x2001, 0, ..] | [0x2001, 0xDB8, ..] => false,
        // The only allocated range of global unicast addresses.
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_internet_addresses_are_public() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        for public in ["8.8.8.8", "93.184.215.14", "2606:4700::1111", "64:ff9b::808:808"] {
            assert!(is_public(address(public)), "{public}");
        }
        for private in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
        ] {
            assert!(!is_public(address(private)), "{private}");
        }
    }
}
