//! Clients in use, and the versions that they offer.

use crate::version::Version;

/// A client that is in use.
#[derive(Debug, Clone, Copy)]
pub struct KnownClient {
    /// Its name, and the releases that offer these versions.
    pub name: &'static str,
    /// The versions that it offers. A client that offers one of several versions does so by its release.
    pub versions: &'static [Version],
    /// Whether it offers all of them at once.
    pub offers_all: bool,
}

/// The clients in use. [`Version::ALL`] stands for libraries with a release for every version.
pub const KNOWN_CLIENTS: &[KnownClient] = &[
    one("VS Code 1.135 and later", &[Version::V1_0]),
    one("VS Code 1.134", &[Version::V0_8]),
    one("VS Code 1.131 to 1.133", &[Version::V0_7]),
    one("VS Code 1.129, 1.130", &[Version::V0_6]),
    one("VS Code 1.128, WSL extension 0.104", &[Version::V0_5_1]),
    one("VS Code 1.127", &[Version::V0_5_0]),
    one("VS Code 1.125, 1.126", &[Version::V0_4]),
    one("VS Code 1.124", &[Version::V0_3]),
    one(
        "VS Code CLI (`code agent …`)",
        &[
            Version::V0_7,
            Version::V0_6,
            Version::V0_4,
            Version::V0_3,
            Version::V0_1,
        ],
    ),
    one("ahpx 0.5 (Node)", &[Version::V0_5_2, Version::V0_5_0]),
    one("Swift example app `AHPApp`", &[Version::V0_2]),
    KnownClient {
        name: "Swift and Go SDK 0.8",
        versions: &[
            Version::V0_8,
            Version::V0_7,
            Version::V0_6,
            Version::V0_5_2,
            Version::V0_5_1,
        ],
        offers_all: true,
    },
    one("Rust SDK (`ahp` crates)", &Version::ALL),
    one("Agent Console", &[Version::V0_9]),
    one("`ahpc`, `ahpapp`", &[Version::V0_9]),
    one("agent-host-protocol-ui", &[Version::V1_0]),
];

const fn one(name: &'static str, versions: &'static [Version]) -> KnownClient {
    KnownClient {
        name,
        versions,
        offers_all: false,
    }
}

/// The clients that speak a version with this host: it confirms the highest version of an offer.
pub fn clients_of(version: Version) -> impl Iterator<Item = &'static str> {
    let speaks = move |client: &&KnownClient| match client.offers_all {
        true => client.versions.iter().max() == Some(&version),
        false => client.versions.contains(&version),
    };
    KNOWN_CLIENTS.iter().filter(speaks).map(|client| client.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_a_client() {
        for version in Version::ALL {
            assert!(clients_of(version).count() > 0, "{version}");
        }
        assert!(clients_of(Version::V0_2).any(|name| name.contains("AHPApp")));
        assert!(clients_of(Version::V0_8).any(|name| name.starts_with("Swift and Go SDK")));
        assert!(!clients_of(Version::V0_7).any(|name| name.starts_with("Swift and Go SDK")));
    }
}
