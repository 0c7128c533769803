//! Errors of model providers, with messages for users.

mod classify;
mod messages;

use std::time::Duration;

use innkeeper_host::agent::Secret;

pub(crate) use classify::{Failure, classify, retry_after};
pub(crate) use messages::quote;

/// An error of a model provider.
///
/// The message names the cause, the consequence and the remedy. It never contains a key: text of the provider is
/// redacted before it is quoted (AUTH-12).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Message for the user.
    pub message: String,
    /// How long the provider asks to wait, if it says.
    pub retry_after: Option<Duration>,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The key is missing or wrong.
    Auth,
    /// The account has no credit or quota left.
    Quota,
    /// Too many requests.
    RateLimited,
    /// The provider is overloaded.
    Overloaded,
    /// The provider failed.
    Server,
    /// The key is valid but not allowed to do this.
    Forbidden,
    /// The conversation exceeds the context window.
    ContextLength,
    /// The provider rejects the request.
    BadRequest,
    /// The provider cannot be reached.
    Network,
    /// The answer ended early.
    Interrupted,
    /// The answer cannot be parsed.
    Malformed,
    /// The provider refuses to answer.
    Refused,
    /// The provider has no such model.
    NoModel,
}

impl ErrorKind {
    /// Returns true if the same request may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Overloaded | Self::Server | Self::Network
        )
    }

    /// Returns true if the turn can be resumed, because the request itself is not at fault.
    pub fn is_resumable(self) -> bool {
        self.is_transient() || matches!(self, Self::Interrupted)
    }
}

/// The provider of a request: what error messages mention, and what they must not contain.
#[derive(Debug, Clone, Default)]
pub struct Provider {
    /// Host name.
    pub host: String,
    /// Id of the requested model.
    pub model: String,
    /// The key and other values to redact.
    pub secrets: Vec<Secret>,
    /// Whether a key was sent.
    pub has_key: bool,
}

impl Provider {
    /// Builds an error that quotes the provider's message, if there is one.
    pub(crate) fn error(&self, kind: ErrorKind, detail: &str) -> ProviderError {
        ProviderError {
            kind,
            message: messages::message(self, kind, &self.quote(detail)),
            retry_after: None,
        }
    }

    /// Redacts and shortens a message of the provider.
    pub(crate) fn quote(&self, detail: &str) -> String {
        quote(detail, &self.secrets)
    }
}
