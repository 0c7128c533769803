//! Chooses the version of a connection from the offer in its `initialize`.

use serde_json::Value;

use crate::version::Version;

/// The versions that an `initialize` offers.
#[derive(Debug, Clone, PartialEq)]
pub enum Offer {
    /// `protocolVersions`, from 0.2 on.
    List(Vec<String>),
    /// `protocolVersion`, an integer, in 0.1.
    Number(i64),
}

/// The version of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The version that it is served in.
    pub version: Version,
    /// The chosen one as the client wrote it: `"0.6.4"`, or `1`.
    pub shown: Value,
}

/// Chooses the highest offered version that this host speaks (NEG-02); `None` if there is none. A malformed entry is an
/// error of the whole call (NEG-04).
///
/// A published client may be patched without a new version of the protocol, so an unknown patch of a 0.x counts as the
/// newest published one of that minor. Among 0.5.x the patches differ and are exact as far as they were published.
pub fn negotiate(offer: &Offer) -> Result<Option<Chosen>, String> {
    match offer {
        // The only number that 0.1 ever had.
        Offer::Number(1) => Ok(Some(Chosen {
            version: Version::V0_1,
            shown: 1.into(),
        })),
        Offer::Number(_) => Ok(None),
        Offer::List(offered) => highest(offered),
    }
}

/// The versions that this host speaks, the newest first: ranges where all patches are served alike.
pub fn supported() -> Vec<&'static str> {
    vec![
        "^1.0.0", "^0.9.0", "^0.8.0", "^0.7.0", "^0.6.0", "0.5.2", "0.5.1", "0.5.0", "^0.4.0", "^0.3.0", "^0.2.0",
        "^0.1.0",
    ]
}

fn highest(offered: &[String]) -> Result<Option<Chosen>, String> {
    let mut best: Option<(Number, Version, &str)> = None;
    for text in offered {
        let number = Number::parse(text).ok_or_else(|| format!("Invalid protocol version: {text}"))?;
        if let Some(version) = number.served_as()
            && best.is_none_or(|(highest, ..)| number > highest)
        {
            best = Some((number, version, text));
        }
    }
    Ok(best.map(|(_, version, text)| Chosen {
        version,
        shown: text.into(),
    }))
}

/// `MAJOR.MINOR.PATCH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Number(u64, u64, u64);

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(digits);
        let number = Self(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(number)
    }

    fn served_as(self) -> Option<Version> {
        let version = match self {
            Self(1, ..) => Version::V1_0,
            Self(0, 9, _) => Version::V0_9,
            Self(0, 8, _) => Version::V0_8,
            Self(0, 7, _) => Version::V0_7,
            Self(0, 6, _) => Version::V0_6,
            Self(0, 5, 0) => Version::V0_5_0,
            Self(0, 5, 1) => Version::V0_5_1,
            Self(0, 5, _) => Version::V0_5_2,
            Self(0, 4, _) => Version::V0_4,
            Self(0, 3, _) => Version::V0_3,
            Self(0, 2, _) => Version::V0_2,
            Self(0, 1, _) => Version::V0_1,
            _ => return None,
        };
        Some(version)
    }
}

/// A decimal number without leading zeros.
fn digits(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(offered: &[&str]) -> Result<Option<(Version, Value)>, String> {
        let offer = Offer::List(offered.iter().map(|text| (*text).to_owned()).collect());
        negotiate(&offer).map(|chosen| chosen.map(|chosen| (chosen.version, chosen.shown)))
    }

    #[test]
    fn neg02_the_highest_common_version_is_chosen_and_shown_as_offered() {
        assert_eq!(list(&["0.8.0", "1.0.0"]), Ok(Some((Version::V1_0, "1.0.0".into()))));
        assert_eq!(
            list(&["2.0.0", "0.7.0", "0.5.2"]),
            Ok(Some((Version::V0_7, "0.7.0".into())))
        );
        assert_eq!(list(&["0.6.4"]), Ok(Some((Version::V0_6, "0.6.4".into()))));
        assert_eq!(list(&["1.7.3"]), Ok(Some((Version::V1_0, "1.7.3".into()))));
    }

    #[test]
    fn neg02_the_patches_of_0_5_differ() {
        assert_eq!(list(&["0.5.0"]), Ok(Some((Version::V0_5_0, "0.5.0".into()))));
        assert_eq!(list(&["0.5.1", "0.5.0"]), Ok(Some((Version::V0_5_1, "0.5.1".into()))));
        assert_eq!(list(&["0.5.2"]), Ok(Some((Version::V0_5_2, "0.5.2".into()))));
        assert_eq!(list(&["0.5.9"]), Ok(Some((Version::V0_5_2, "0.5.9".into()))));
    }

    #[test]
    fn every_published_version_is_chosen_alone() {
        for version in Version::ALL {
            assert_eq!(list(&[version.as_str()]), Ok(Some((version, version.as_str().into()))));
        }
    }

    #[test]
    fn the_number_of_0_1_is_one() {
        let chosen = negotiate(&Offer::Number(1)).unwrap().unwrap();
        assert_eq!((chosen.version, chosen.shown), (Version::V0_1, 1.into()));
        assert_eq!(negotiate(&Offer::Number(2)), Ok(None));
    }

    #[test]
    fn neg05_nothing_in_common_is_none() {
        assert_eq!(list(&[]), Ok(None));
        assert_eq!(list(&["2.0.0", "0.0.1", "0.10.0"]), Ok(None));
    }

    #[test]
    fn neg04_a_malformed_entry_fails_the_whole_offer() {
        for bad in [
            "1.0",
            "1.0.0.0",
            "^1.0.0",
            "01.0.0",
            "1.0.0-rc",
            "",
            "1..0",
            "1.0.99999999999999999999",
        ] {
            let problem = list(&["1.0.0", bad]).unwrap_err();
            assert!(problem.ends_with(bad), "{problem}");
        }
    }
}
