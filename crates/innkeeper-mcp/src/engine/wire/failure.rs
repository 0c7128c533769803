//! Failures of HTTP requests.

use std::fmt;

use crate::engine::auth::{Challenge, TokenHistory};

/// Why an HTTP request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum HttpFailure {
    /// A sign-in is needed.
    #[error("signing in is needed")]
    Challenged(Box<Challenged>),
    /// The answer exceeds the bound.
    #[error("the answer is too large")]
    TooLarge,
    /// The server refused with a status.
    #[error("it answered with HTTP status {status}{}", .said.as_deref().map(|said| format!(": {said}")).unwrap_or_default())]
    Status {
        /// The status.
        status: u16,
        /// The message, if it is short text.
        said: Option<String>,
    },
    /// The answer is not MCP.
    #[error("it answered with something that is not MCP ({0}): check the address")]
    NotMcp(String),
    /// There was no answer.
    #[error("{0}")]
    Connection(String),
}

/// A refusal, and the token that was sent.
#[derive(Clone)]
pub(crate) struct Challenged {
    pub(crate) challenge: Challenge,
    /// The history of the token.
    pub(crate) token: TokenHistory,
    /// The generation of the token.
    pub(crate) generation: u64,
}

impl fmt::Debug for Challenged {
    /// Errors are logged. The description of a server is shown at the sign-in, and not there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenged")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl From<reqwest::Error> for HttpFailure {
    /// Names the last cause, which says most, and never the address, which may contain secrets.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let what = if error.is_connect() {
            "no connection could be made"
        } else if error.is_timeout() {
            "it took too long"
        } else {
            "the connection broke"
        };
        Self::Connection(format!("{what} ({cause})"))
    }
}
