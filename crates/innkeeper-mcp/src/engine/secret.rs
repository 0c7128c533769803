//! Hides secrets in text for users: tokens, and values of configurations.

use std::fmt;
use std::time::Duration;

use crate::engine::config::{ServerConfig, Transport};

/// Shorter values are no secrets, and hiding them would make messages unreadable.
const SHORTEST: usize = 6;
const HIDDEN: &str = "[hidden]";

/// A token for a server. It is never shown (AUTH-12).
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    value: String,
    /// The lifetime, from the moment it is set.
    pub expires_in: Option<Duration>,
    /// The granted scopes, if they are known.
    pub scopes: Option<Vec<String>>,
    /// True if a server has accepted it before, so that a refusal means that it expired.
    pub has_worked: bool,
}

impl Token {
    /// Returns a token that is valid until the server says otherwise.
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

/// Removes secrets from text.
#[derive(Clone, Default)]
pub(crate) struct Scrubber {
    /// Longest first, so that no part of a longer one is left.
    secrets: Vec<String>,
}

impl Scrubber {
    /// Returns a scrubber for the values of a configuration.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        let mut scrubber = Self::default();
        match &config.transport {
            Transport::Stdio(stdio) => {
                for (name, value) in &stdio.env {
                    // The path of a plugin helps to understand a message, and is no secret.
                    let is_place = name.ends_with("PLUGIN_ROOT") || name.ends_with("PLUGIN_DATA") || name == "PATH";
                    if let Some(value) = value.as_deref().filter(|_| !is_place) {
                        scrubber.add(value);
                    }
                }
                for secret in secrets_of_arguments(&stdio.args) {
                    scrubber.add(secret);
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
                    keys_of_path(url.path()).for_each(|key| scrubber.add(key));
                    for (_, value) in url.query_pairs() {
                        scrubber.add(&value);
                    }
                }
            }
        }
        scrubber
    }

    /// Adds a value and each of its lines, also in the form that they have in JSON.
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

    /// Returns the text without the secrets.
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

/// Returns an address without user, password and query.
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

/// Returns the scheme and host of an address: a path may contain a key as well as a query.
pub(crate) fn scheme_and_host(address: &str) -> String {
    match url::Url::parse(address) {
        Ok(url) if url.has_host() => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
        }
        _ => "an address that cannot be read".to_owned(),
    }
}

/// Returns the name of a program without its directory and arguments.
pub(crate) fn program_name(command: &str) -> &str {
    let program = command.split_whitespace().next().unwrap_or_default();
    let name = program.rsplit(['/', '\\']).next();
    name.filter(|name| !name.is_empty()).unwrap_or("(none)")
}

/// Returns the parts of a path that look like keys and not like words.
fn keys_of_path(path: &str) -> impl Iterator<Item = &str> {
    const SHORTEST_KEY: usize = 8;
    const LONGEST_WORD: usize = 20;
    let has_both =
        |part: &str| part.contains(|c: char| c.is_ascii_digit()) && part.contains(|c: char| c.is_ascii_alphabetic());
    path.split(['/', '?', '&', '=', '#'])
        .filter(move |part| part.len() > LONGEST_WORD || part.len() >= SHORTEST_KEY && has_both(part))
}

/// Returns the arguments of a program that may be keys: values of options whose names say so, and the part of an address
/// after the host.
fn secrets_of_arguments(args: &[String]) -> Vec<&str> {
    const NAMES: [&str; 7] = ["key", "token", "secret", "password", "auth", "credential", "header"];
    let is_named = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.starts_with('-') && NAMES.iter().any(|part| name.contains(part))
    };
    let mut secrets = Vec::new();
    let mut is_value = false;
    for arg in args {
        match arg.split_once('=') {
            Some((name, value)) if is_named(name) => secrets.push(value),
            _ if is_value && !arg.starts_with('-') => secrets.push(arg),
            _ => {}
        }
        is_value = is_named(arg) && !arg.contains('=');
        let behind = arg.split_once("://").map(|(_, rest)| rest);
        let path = behind.and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
        secrets.extend(path.into_iter().flat_map(keys_of_path));
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::config::{Remote, Stdio};

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

        // As it is written in JSON, too.
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

    #[test]
    fn keys_in_arguments_and_addresses_are_hidden() {
        let args = [
            "--api-key",
            "first-key-1",
            "--token=second-key",
            "-v",
            "plain-argument",
            "https://example.test/third-key-3/sse?x=1",
        ];
        let config = ServerConfig::new("a", Transport::Stdio(Stdio::new("/opt/bin/serve", args)));
        let scrubber = Scrubber::of(&config);
        assert_eq!(
            scrubber.scrub("first-key-1 second-key plain-argument https://example.test/third-key-3/sse?x=1"),
            "[hidden] [hidden] plain-argument https://example.test/[hidden]/sse?x=1"
        );
        let remote = Remote::new("https://example.test/hook/fourth-key-4/mcp");
        let scrubber = Scrubber::of(&ServerConfig::new("a", Transport::Http(remote)));
        assert_eq!(
            scrubber.scrub("no such path: /hook/fourth-key-4/mcp"),
            "no such path: /hook/[hidden]/mcp"
        );
        assert_eq!(scrubber.scrub("no such user: fourth-key-4"), "no such user: [hidden]");
    }

    #[test]
    fn users_see_the_program_name_and_the_host_only() {
        for (command, shown) in [
            ("/home/me/.keys/serve", "serve"),
            ("npx -y mcp-remote https://a.test/key", "npx"),
            ("C:\\tools\\serve.exe", "serve.exe"),
            ("", "(none)"),
        ] {
            assert_eq!(program_name(command), shown);
        }
        assert_eq!(
            scheme_and_host("https://u:p@a.test:8443/key/mcp?k=1"),
            "https://a.test:8443"
        );
        assert_eq!(scheme_and_host("ws://a.test/key"), "ws://a.test");
        assert_eq!(scheme_and_host("nonsense"), "an address that cannot be read");
    }
}
