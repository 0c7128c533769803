//! `WWW-Authenticate` headers of refusals (RFC 6750, RFC 9728).

use super::{SignInReason, TokenHistory};

/// Longer headers are not read.
const MAX_BYTES: usize = 16 << 10;

/// A refusal of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// True for a 403: signed in, but not for this.
    pub(crate) is_forbidden: bool,
    /// The requested scopes.
    pub(crate) scopes: Option<Vec<String>>,
    /// The address of the resource metadata.
    pub(crate) resource_metadata: Option<String>,
    /// `invalid_token`, `insufficient_scope`, …
    pub(crate) error: Option<String>,
    /// The description for users.
    pub(crate) description: Option<String>,
}

impl Challenge {
    /// Reads the header.
    pub(crate) fn parse(header: &str, is_forbidden: bool) -> Self {
        let mut challenge = Self {
            is_forbidden,
            ..Self::default()
        };
        for (name, value) in bearer_parameters(header) {
            match name.as_str() {
                "scope" => {
                    let scopes: Vec<_> = value.split_ascii_whitespace().map(str::to_owned).collect();
                    challenge.scopes = Some(scopes).filter(|scopes| !scopes.is_empty());
                }
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "error" => challenge.error = Some(value),
                "error_description" => challenge.description = Some(value),
                _ => {}
            }
        }
        challenge
    }

    /// A 403 asks for a sign-in only if the server says so.
    pub(crate) fn can_be_met(&self) -> bool {
        !self.is_forbidden || self.error.as_deref() == Some("insufficient_scope")
    }

    /// Returns why a sign-in is needed, given the history of the token that was sent.
    pub(crate) fn reason(&self, token: TokenHistory) -> SignInReason {
        if self.is_forbidden || self.error.as_deref() == Some("insufficient_scope") {
            return SignInReason::InsufficientScope;
        }
        match token {
            TokenHistory::None => SignInReason::Required,
            TokenHistory::Used => SignInReason::Expired,
            // Servers write "invalid or expired" about either, so their words do not count.
            TokenHistory::Untried => SignInReason::Refused,
        }
    }
}

/// Returns the parameters of the `Bearer` challenge among possibly several.
fn bearer_parameters(header: &str) -> Vec<(String, String)> {
    let mut reader = Reader {
        rest: header.get(..header.len().min(MAX_BYTES)).unwrap_or_default(),
    };
    let mut parameters = Vec::new();
    let mut is_bearer = false;
    loop {
        reader.skip(|c| c == ',' || c.is_ascii_whitespace());
        let word = reader.word();
        if word.is_empty() {
            // A stray character: go on after it.
            if reader.next().is_none() {
                return parameters;
            }
            continue;
        }
        let name_end = reader.rest;
        reader.skip(|c| c.is_ascii_whitespace());
        if reader.rest.starts_with('=') && !word.is_empty() {
            reader.next();
            reader.skip(|c| c.is_ascii_whitespace());
            let value = reader.value();
            if is_bearer {
                parameters.push((word.to_ascii_lowercase(), value));
            }
        } else {
            // A word without a value begins another challenge.
            reader.rest = name_end;
            is_bearer = word.eq_ignore_ascii_case("bearer");
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn skip(&mut self, what: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(what);
    }

    fn word(&mut self) -> &'a str {
        let end = self
            .rest
            .find(|c: char| c == '=' || c == ',' || c == '"' || c.is_ascii_whitespace())
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn value(&mut self) -> String {
        if !self.rest.starts_with('"') {
            return self.word().to_owned();
        }
        self.next();
        let mut value = String::new();
        while let Some(c) = self.next() {
            match c {
                '"' => break,
                '\\' => value.extend(self.next()),
                c => value.push(c),
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed() {
        let header = r#"Basic realm="x", Bearer realm="mcp, \"quoted\"", error="insufficient_scope", scope="files:read  files:write", resource_metadata="https://a.test/.well-known/oauth-protected-resource", error_description="Grant more", Digest nonce=1, scope="other""#;
        let challenge = Challenge::parse(header, true);
        assert_eq!(
            challenge.scopes.as_deref(),
            Some(&["files:read".to_owned(), "files:write".to_owned()][..])
        );
        assert_eq!(challenge.description.as_deref(), Some("Grant more"));
        assert!(
            challenge
                .resource_metadata
                .as_deref()
                .unwrap()
                .ends_with("oauth-protected-resource")
        );
        assert!(challenge.can_be_met());
    }

    #[test]
    fn the_reason_depends_on_the_history_of_the_token() {
        let refused = Challenge::parse("Bearer", false);
        assert_eq!(refused.reason(TokenHistory::None), SignInReason::Required);
        assert_eq!(refused.reason(TokenHistory::Used), SignInReason::Expired);
        assert_eq!(refused.reason(TokenHistory::Untried), SignInReason::Refused);
        let forbidden = Challenge::parse("bearer ERROR=insufficient_scope", true);
        assert_eq!(forbidden.reason(TokenHistory::Used), SignInReason::InsufficientScope);
        assert!(!Challenge::parse("", true).can_be_met(), "a plain 403 is a no");
    }

    proptest::proptest! {
        #[test]
        fn any_header_can_be_read(header in ".{0,200}") {
            let _ = Challenge::parse(&header, false);
        }
    }
}
