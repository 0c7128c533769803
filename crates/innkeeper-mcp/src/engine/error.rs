//! What can go wrong with a request to a server, in words for people.

use std::time::Duration;

use serde_json::Value;

use crate::engine::auth::SignIn;

/// Why a request to a server failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not run, so that nothing was sent.
    #[error("the MCP server `{server}` is not running: {why}")]
    NotRunning {
        /// Which.
        server: String,
        /// What it does instead, and what to do.
        why: String,
    },
    /// It ended, or the connection to it did, while the request was under way.
    #[error("the MCP server `{server}` ended before it answered: {why}")]
    Ended {
        /// Which.
        server: String,
        /// What is known about it.
        why: String,
    },
    /// It could not be reached, or what came back was no MCP.
    #[error("the MCP server `{server}` cannot be reached: {why}")]
    Unreachable {
        /// Which.
        server: String,
        /// What is known about it.
        why: String,
    },
    /// It answered with an error of the protocol.
    #[error("the MCP server `{server}` refused: {message}")]
    Refused {
        /// Which.
        server: String,
        /// The code of JSON-RPC.
        code: i64,
        /// What it says.
        message: String,
        /// What it adds.
        data: Option<Value>,
    },
    /// It took too long. The server was told to stop.
    #[error("the MCP server `{server}` did not answer within {} s, and was told to stop: ask for less at once, or \
             give calls more time", time.as_secs())]
    TimeOver {
        /// Which.
        server: String,
        /// How long it had.
        time: Duration,
    },
    /// Whoever asked does not want it any more. The server was told to stop.
    #[error("the request was cancelled")]
    Cancelled,
    /// Somebody has to sign in first, and nobody did in time; what Apps want does not wait.
    #[error("the MCP server `{server}` wants somebody to sign in first, and nobody did: sign in, then try again")]
    SignInNeeded {
        /// Which.
        server: String,
        /// What for.
        sign_in: Box<SignIn>,
    },
    /// The answer is larger than anything that is taken.
    #[error("the answer of the MCP server `{server}` is too large and was left out: ask for less")]
    TooLarge {
        /// Which.
        server: String,
    },
    /// The answer is not what the protocol says.
    #[error("the answer of the MCP server `{server}` cannot be understood: {why}")]
    NotUnderstood {
        /// Which.
        server: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server does not offer it, or the caller was not allowed it.
    #[error("the MCP server `{server}` does not offer `{what}`")]
    NotOffered {
        /// Which.
        server: String,
        /// A method, or a tool.
        what: String,
    },
}

/// Why a configuration cannot be run at all.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The address is none.
    #[error("the address `{0}` cannot be used: give an `https` or `http` address")]
    Address(String),
    /// A header is none.
    #[error("the header `{0}` cannot be sent: its name or its value has characters that headers cannot have")]
    Header(String),
    /// No HTTP client could be made.
    #[error("no HTTPS connection can be made on this machine: {0}")]
    Http(String),
}

/// Why a token was not taken.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the token is for `{given}`, but this server is `{expected}`: tokens are sent to their own server only")]
pub struct WrongResource {
    /// What the token is for.
    pub given: String,
    /// What the server is.
    pub expected: String,
}
