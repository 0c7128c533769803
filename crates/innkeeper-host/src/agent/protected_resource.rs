//! Resources of an agent for which users have to sign in.

use ahp_types::state::ProtectedResourceMetadata;

/// A resource that takes a token, such as the API of a model: an OAuth 2.0 protected resource as in RFC 9728 (AUTH-02).
///
/// Clients see it in the agent's description and send a token with `authenticate`. The agent gets the token of the
/// client that it works for, with [`ChatContext::token`](super::ChatContext::token) and
/// [`TurnInput::token`](super::TurnInput::token).
///
/// ```
/// use innkeeper_host::AgentInfo;
/// use innkeeper_host::agent::ProtectedResource;
///
/// let api = ProtectedResource::new("https://api.example.com/v1")
///     .name("Example API")
///     .documentation("https://example.com/keys")
///     .scopes(["chat"]);
/// let info = AgentInfo::new("clerk", "Clerk", "Keeps the books.").with_protected_resource(api);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ProtectedResource(ProtectedResourceMetadata);

impl ProtectedResource {
    /// Creates a resource that the agent cannot work without, by its URL. Until a user has signed in, creating a
    /// session is answered with `AuthRequired`.
    pub fn new(resource: impl Into<String>) -> Self {
        Self(ProtectedResourceMetadata {
            resource: resource.into(),
            resource_name: None,
            authorization_servers: None,
            jwks_uri: None,
            scopes_supported: None,
            bearer_methods_supported: None,
            resource_signing_alg_values_supported: None,
            resource_documentation: None,
            resource_policy_uri: None,
            resource_tos_uri: None,
            required: Some(true),
        })
    }

    /// Sets the name that users see.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.resource_name = Some(name.into());
        self
    }

    /// Sets the address of a page that tells users how to get a token.
    #[must_use]
    pub fn documentation(mut self, url: impl Into<String>) -> Self {
        self.0.resource_documentation = Some(url.into());
        self
    }

    /// The scopes that a token may grant.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.0.scopes_supported = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// A server that gives out tokens; there may be several.
    #[must_use]
    pub fn authorization_server(mut self, url: impl Into<String>) -> Self {
        self.0.authorization_servers.get_or_insert_default().push(url.into());
        self
    }

    /// Sets the address of the operator's page about the use of data.
    #[must_use]
    pub fn policy(mut self, url: impl Into<String>) -> Self {
        self.0.resource_policy_uri = Some(url.into());
        self
    }

    /// Its terms of service.
    #[must_use]
    pub fn terms(mut self, url: impl Into<String>) -> Self {
        self.0.resource_tos_uri = Some(url.into());
        self
    }

    /// The agent works without, for instance with a key of its own; a token of a client's own takes
    /// precedence.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.0.required = Some(false);
        self
    }

    /// Anything else that RFC 9728 knows.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ProtectedResourceMetadata)) -> Self {
        change(&mut self.0);
        self
    }

    pub(super) fn into_wire(self) -> ProtectedResourceMetadata {
        self.0
    }
}
