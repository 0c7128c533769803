//! What can go wrong over HTTP.

use std::fmt;

use crate::engine::auth::{Challenge, TokenHistory};

/// Why an HTTP request did not work.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum HttpFailure {
    /// Somebody has to sign in.
    #[error("signing in is needed")]
    Challenged(Box<Challenged>),
    /// The answer is larger than anything that is taken.
    #[error("the answer is too large")]
    TooLarge,
    /// The server said no.
    #[error("it answered with HTTP status {status}{}", .said.as_deref().map(|said| format!(": {said}")).unwrap_or_default())]
    Status {
        /// The status.
        status: u16,
        /// What it said, if that was short and text.
        said: Option<String>,
    },
    /// The answer is no MCP.
    #[error("it answered with something that is not MCP ({0}): check the address")]
    NotMcp(String),
    /// No answer at all.
    #[error("{0}")]
    Connection(String),
}

/// A refusal, and the token it was given for.
#[derive(Clone)]
pub(crate) struct Challenged {
    pub(crate) challenge: Challenge,
    /// What was known of the token when it was sent.
    pub(crate) token: TokenHistory,
    /// Which token it was.
    pub(crate) generation: u64,
}

impl fmt::Debug for Challenged {
    /// Others write errors to the log. What a server says stands where people sign in, and not there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenged")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl From<reqwest::Error> for HttpFailure {
    /// Tells the last cause, which says most, and never the address, which may hold secrets.
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
