//! What must not be seen: tokens, and values of configurations, wherever text is made for people.

use std::fmt;
use std::time::Duration;

use crate::config::{ServerConfig, Transport};

/// Shorter values are no secrets, and hiding them would make messages unreadable.
const SHORTEST: usize = 6;
const HIDDEN: &str = "[hidden]";

/// A token for a server, given by whoever signed in. It is shown nowhere (AUTH-12).
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    value: String,
    /// How long it is good for, from the moment it is set.
    pub expires_in: Option<Duration>,
    /// What it allows, as far as it was told.
    pub scopes: Option<Vec<String>>,
    /// Whether a server has accepted it before, so that a refusal means that it expired.
    pub has_worked: bool,
}

impl Token {
    /// A token that holds until the server says otherwise.
    pub fn new(value: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            expires_in: None,
            scopes: None,
            has_worked: false,
        }
    }

    pub(crate) fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("expires_in", &self.expires_in)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Takes secrets out of text.
#[derive(Clone, Default)]
pub(crate) struct Scrubber {
    /// Longest first, so that no part of a longer one is left.
    secrets: Vec<String>,
}

impl Scrubber {
    /// Knows the values that a configuration brings.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        let mut scrubber = Self::default();
        match &config.transport {
            Transport::Stdio(stdio) => {
                for (name, value) in &stdio.env {
                    // Where a plugin is helps to understand a message, and is no secret.
                    let is_place = name.ends_with("PLUGIN_ROOT") || name.ends_with("PLUGIN_DATA") || name == "PATH";
                    if let Some(value) = value.as_deref().filter(|_| !is_place) {
                        scrubber.add(value);
                    }
                }
            }
            Transport::Http(remote) | Transport::Sse(remote) => {
                for value in remote.headers.values() {
                    scrubber.add(value);
                    if let Some((_, credentials)) = value.split_once(' ') {
                        scrubber.add(credentials);
                    }
                }
                if let Ok(url) = url::Url::parse(&remote.url) {
                    scrubber.add(url.password().unwrap_or_default());
                    scrubber.add(url.query().unwrap_or_default());
                    for (_, value) in url.query_pairs() {
                        scrubber.add(&value);
                    }
                }
            }
        }
        scrubber
    }

    /// Knows one more, and every line of it, also as they are written in JSON.
    pub(crate) fn add(&mut self, secret: &str) {
        for part in std::iter::once(secret).chain(secret.lines()) {
            let part = part.trim();
            let quoted = serde_json::Value::from(part).to_string();
            let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
            for form in [part, escaped] {
                if part.len() >= SHORTEST && !self.secrets.iter().any(|known| known == form) {
                    self.secrets.push(form.to_owned());
                }
            }
        }
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// The text without them.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        text
    }
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrubber({} secrets)", self.secrets.len())
    }
}

/// An address without what may be secret in it: names, passwords, queries.
pub(crate) fn without_secrets(address: &str) -> String {
    match url::Url::parse(address) {
        Ok(mut url) => {
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.set_query(None);
            url.set_fragment(None);
            url.into()
        }
        Err(_) => "an address that cannot be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Remote, Stdio};

    #[test]
    fn auth12_a_token_is_not_shown() {
        let shown = format!("{:?}", Token::new("s3cr3t-token"));
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn values_of_the_environment_and_of_headers_are_hidden() {
        let mut stdio = Stdio::new("c", [""; 0]);
        stdio.env.insert("KEY".into(), Some("first-line\nsecond-line".into()));
        stdio.env.insert("LONGER".into(), Some("first-line-and-more".into()));
        stdio.env.insert("DEBUG".into(), Some("1".into()));
        let scrubber = Scrubber::of(&ServerConfig::new("a", Transport::Stdio(stdio)));
        let text = scrubber.scrub("1: first-line-and-more, first-line, second-line");
        assert_eq!(text, "1: [hidden], [hidden], [hidden]");

        // As it stands in JSON, too.
        let mut stdio = Stdio::new("c", [""; 0]);
        let value = r#"pass"word\with-more"#;
        stdio.env.insert("KEY".into(), Some(format!("{value}\nsecond-line")));
        let scrubber = Scrubber::of(&ServerConfig::new("a", Transport::Stdio(stdio)));
        let text = serde_json::json!({ "a": value, "b": format!("{value}\nsecond-line") }).to_string();
        assert_eq!(scrubber.scrub(&text), r#"{"a":"[hidden]","b":"[hidden]"}"#);
        assert_eq!(scrubber.scrub(value), "[hidden]");

        let mut remote = Remote::new("https://example.test/mcp?key=query-value");
        remote
            .headers
            .insert("Authorization".into(), "Bearer header-value".into());
        let scrubber = Scrubber::of(&ServerConfig::new("a", Transport::Http(remote)));
        assert_eq!(scrubber.scrub("header-value query-value"), "[hidden] [hidden]");
    }
}
