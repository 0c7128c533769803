//! Credentials of an agent. They are never shown, logged, persisted or sent to clients (AUTH-12).

/// A token on its way to an agent.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// A token for a resource, handed to an agent that asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The protected resource, as its agent names it.
    pub resource: String,
    /// The token.
    pub token: Secret,
    /// Scopes of the token, if its giver knows them (AUTH-11).
    pub scopes: Option<Vec<String>>,
}
