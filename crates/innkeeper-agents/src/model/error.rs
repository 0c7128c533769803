//! What goes wrong with a model provider, in words for the people who see it.

mod classify;
mod messages;

use std::time::Duration;

use innkeeper_host::Secret;

pub(crate) use classify::{Failure, classify, retry_after};
pub(crate) use messages::quote;

/// Why a provider gave no answer, or not all of it.
///
/// The message says what happened, what it means and what to do. It never holds a key: whatever a
/// provider says is blotted before it is quoted (AUTH-12).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What sort of failure it is.
    pub kind: ErrorKind,
    /// What people are told.
    pub message: String,
    /// How long the provider asks to wait, if it says.
    pub retry_after: Option<Duration>,
}

/// The sorts of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The key is missing, wrong, or may not do this.
    Auth,
    /// The account has nothing left to spend.
    Quota,
    /// Too many requests for now.
    RateLimited,
    /// The provider has too much to do.
    Overloaded,
    /// The provider failed.
    Server,
    /// The key is known and may not do this.
    Forbidden,
    /// The conversation is longer than the model can read.
    ContextLength,
    /// The provider does not take the request as it is.
    BadRequest,
    /// The provider could not be reached.
    Network,
    /// The answer broke off.
    Interrupted,
    /// The answer cannot be understood.
    Malformed,
    /// The provider will not answer this.
    Refused,
    /// The provider has no such model.
    NoModel,
}

impl ErrorKind {
    /// Whether asking the same again a little later can help.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Overloaded | Self::Server | Self::Network
        )
    }

    /// Whether the turn can be gone on with: nothing is wrong with the request itself.
    pub fn is_resumable(self) -> bool {
        self.is_transient() || matches!(self, Self::Interrupted)
    }
}

/// Who is asked: what errors say of it, and what they must never say.
#[derive(Debug, Clone, Default)]
pub struct Provider {
    /// The host's name.
    pub host: String,
    /// The model that is asked for.
    pub model: String,
    /// The key, and whatever else must not be seen.
    pub secrets: Vec<Secret>,
    /// Whether a key was sent.
    pub has_key: bool,
}

impl Provider {
    /// An error in our words, with the provider's own where there are any.
    pub(crate) fn error(&self, kind: ErrorKind, said: &str) -> ProviderError {
        ProviderError {
            kind,
            message: messages::message(self, kind, &self.quote(said)),
            retry_after: None,
        }
    }

    /// A provider's words, fit to be shown.
    pub(crate) fn quote(&self, said: &str) -> String {
        quote(said, &self.secrets)
    }
}
