//! JSON-RPC errors with the codes AHP defines (ERR-01).

use ahp_types::errors::AuthRequiredErrorData;
use ahp_types::state::ProtectedResourceMetadata;
use innkeeper_dialects::Offer;
use serde_json::{Value, json};

use crate::clients::credentials::names;

/// The codes the host sends. `-32006` is reserved and never sent (ERR-02).
pub mod code {
    pub use ahp_types::errors::ahp_error_codes::{
        ALREADY_EXISTS, AUTH_REQUIRED, CONFLICT, NOT_FOUND, PERMISSION_DENIED, PROVIDER_NOT_FOUND,
        SESSION_ALREADY_EXISTS, SESSION_NOT_FOUND, TURN_IN_PROGRESS, UNSUPPORTED_PROTOCOL_VERSION,
    };
    pub use ahp_types::errors::json_rpc_error_codes::{
        INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    };
}

/// The error half of a response: a code for programs and a sentence for users.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// One of [`code`].
    pub code: i32,
    /// The problem and the remedy; never a stack, an internal path or a secret (ERR-07).
    pub message: String,
    /// The typed detail some codes require (ERR-03).
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// `-32602` naming the parameter at fault.
    pub fn invalid_params(field: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(code::INVALID_PARAMS, format!("params.{field}: {problem}"))
    }

    /// `-32600`: the message is JSON but not a request we can answer otherwise.
    pub fn invalid_request(problem: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, problem)
    }

    /// `-32601`: an empty success would make the client wait forever.
    pub fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(128).collect();
        Self::new(
            code::METHOD_NOT_FOUND,
            format!("this host does not implement the method {shown:?}"),
        )
    }

    /// `-32001`: no such session or chat (ERR-05).
    pub fn session_not_found(uri: &str) -> Self {
        Self::new(
            code::SESSION_NOT_FOUND,
            format!("there is no session or chat {uri:?} on this host; listSessions lists those that exist"),
        )
    }

    /// `-32009`: the connection's scope does not reach this far.
    pub fn needs_scope(what: &str, needed: crate::Scope, held: crate::Scope) -> Self {
        Self::new(
            code::PERMISSION_DENIED,
            format!("{what} needs the scope {needed:?} and this connection's credential has {held:?}; connect with a credential of a wider scope")
                .replace("Admin", "admin").replace("Drive", "drive").replace("View", "view"),
        )
    }

    /// `-32007`: an agent needs tokens, with everything a client has to know to get them (AUTH-08).
    /// The data is an object, never a bare array.
    pub fn auth_required(agent: &str, resources: Vec<ProtectedResourceMetadata>) -> Self {
        let message = format!(
            "{agent} needs a token for {}; send it with authenticate and try again",
            names(&resources)
        );
        let data = AuthRequiredErrorData { resources };
        Self {
            code: code::AUTH_REQUIRED,
            message,
            data: serde_json::to_value(data).ok(),
        }
    }

    /// `-32005` with the versions we speak (NEG-05).
    pub fn unsupported_version(offer: &Offer) -> Self {
        let offered = match offer {
            Offer::List(offered) => offered.join(", "),
            Offer::Number(number) => number.to_string(),
        };
        let supported = innkeeper_dialects::supported();
        Self {
            code: code::UNSUPPORTED_PROTOCOL_VERSION,
            message: format!(
                "none of the offered protocol versions ({offered}) is supported; this host speaks {}",
                supported.join(", ")
            ),
            data: Some(json!({ "supportedVersions": supported })),
        }
    }
}
