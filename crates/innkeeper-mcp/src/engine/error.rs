//! The errors of requests to a server, with messages for users.

use std::time::Duration;

use serde_json::Value;

use crate::engine::auth::SignIn;

/// Why a request to a server failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server does not run, and nothing was sent.
    #[error("the MCP server `{server}` is not running: {why}")]
    NotRunning {
        /// The server.
        server: String,
        /// Its state, and what to do.
        why: String,
    },
    /// The server or the connection ended during the request.
    #[error("the MCP server `{server}` ended before it answered: {why}")]
    Ended {
        /// The server.
        server: String,
        /// The reason, as far as it is known.
        why: String,
    },
    /// The server could not be reached, or its answer was not MCP.
    #[error("the MCP server `{server}` cannot be reached: {why}")]
    Unreachable {
        /// The server.
        server: String,
        /// The reason, as far as it is known.
        why: String,
    },
    /// The server answered with a protocol error.
    #[error("the MCP server `{server}` refused: {message}")]
    Refused {
        /// The server.
        server: String,
        /// The JSON-RPC code.
        code: i64,
        /// The message.
        message: String,
        /// The data.
        data: Option<Value>,
    },
    /// The request took too long. The server was told to stop.
    #[error("the MCP server `{server}` did not answer within {} s, and was told to stop: ask for less at once, or \
             give calls more time", time.as_secs())]
    TimeOver {
        /// The server.
        server: String,
        /// The timeout.
        time: Duration,
    },
    /// The caller cancelled the request. The server was told to stop.
    #[error("the request was cancelled")]
    Cancelled,
    /// A sign-in is needed, and none came in time. Requests of Apps do not wait for one.
    #[error("the MCP server `{server}` needs a sign-in, and no user signed in: sign in, then try again")]
    SignInNeeded {
        /// The server.
        server: String,
        /// The sign-in.
        sign_in: Box<SignIn>,
    },
    /// The answer exceeds the bound.
    #[error("the answer of the MCP server `{server}` is too large and was left out: ask for less")]
    TooLarge {
        /// The server.
        server: String,
    },
    /// The answer is not what the protocol says.
    #[error("the answer of the MCP server `{server}` cannot be understood: {why}")]
    NotUnderstood {
        /// The server.
        server: String,
        /// The reason.
        why: String,
    },
    /// The server does not offer it, or the caller may not use it.
    #[error("the MCP server `{server}` does not offer `{what}`")]
    NotOffered {
        /// The server.
        server: String,
        /// The method, or the tool.
        what: String,
    },
}

/// Why a configuration cannot be run.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The address is invalid.
    #[error("the address `{0}` cannot be used: give an `https` or `http` address")]
    Address(String),
    /// A header is invalid.
    #[error("the header `{0}` cannot be sent: its name or its value has characters that headers cannot have")]
    Header(String),
    /// No HTTP client could be built.
    #[error("no HTTPS connection can be made on this machine: {0}")]
    Http(String),
}

/// Why a token was refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the token is for `{given}`, but this server is `{expected}`: tokens are sent to their own server only")]
pub struct WrongResource {
    /// The resource of the token.
    pub given: String,
    /// The resource of the server.
    pub expected: String,
}
