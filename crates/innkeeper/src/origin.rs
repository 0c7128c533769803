//! The origin of a web page, parsed once at the edge.

use std::str::FromStr;

use serde::Deserialize;

/// A web origin as browsers send it: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Origin(String);

impl Origin {
    /// Returns the origin's text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Browsers send origins in lower case and without a path; another form would never match.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._:[]".contains(c);
        let well_formed = text.split_once("://").is_some_and(|(scheme, host)| {
            !scheme.is_empty()
                && scheme.chars().all(|c| c.is_ascii_lowercase() || "+-.".contains(c))
                && !host.is_empty()
                && host.chars().all(plain)
        });
        match well_formed {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "`{text}` is not an origin; write scheme, host and port only, for instance https://example.com"
            )),
        }
    }
}

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_in_browser_form_are_accepted() {
        for text in [
            "https://example.com",
            "http://127.0.0.1:3000",
            "http://[::1]:1",
            "vscode-file://vscode-app",
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().as_str(), text);
        }
        for text in [
            "",
            "null",
            "*",
            "example.com",
            "https://example.com/",
            "https://Example.com",
            "https://*",
            "https://",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
