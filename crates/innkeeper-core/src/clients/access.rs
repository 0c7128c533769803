//! Access control: principals and the three scopes.
//!
//! AHP has no authorisation of its own, and a `clientId` is not an identity. A principal is
//! what the transport proved: a token, a Unix peer, or the parent process on stdio.

use std::fmt;
use std::sync::Arc;

/// The right of a principal. Each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Subscribe, list and read.
    View,
    /// Also create sessions and dispatch actions.
    Drive,
    /// Also change the host.
    Admin,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::View => "view",
            Self::Drive => "drive",
            Self::Admin => "admin",
        })
    }
}

/// An authenticated peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// A label that is equal for equal credentials, such as `token:default` or `uid:1000`.
    pub name: Arc<str>,
    /// The scope of the credential.
    pub scope: Scope,
}

impl Principal {
    /// Names a principal.
    pub fn new(name: &str, scope: Scope) -> Self {
        Self {
            name: name.into(),
            scope,
        }
    }

    /// The process that started us and owns our stdin and stdout.
    pub fn stdio() -> Self {
        Self::new("stdio", Scope::Admin)
    }
}
