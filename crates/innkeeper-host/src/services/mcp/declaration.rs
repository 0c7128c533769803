//! How a server is started, as it was found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Trust, TrustDecision, TrustQuestion};
use crate::services::customizations::About;

/// A server as its configuration declares it. Nothing of it is shown to clients but what its
/// customization shows. `Debug` leaves out values that may be secrets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerDeclaration {
    /// The fields of every customization.
    pub about: About,
    /// How to reach it.
    pub transport: Transport,
    /// The values of `${…}` in it beside the environment, such as the root of its plugin.
    pub variables: BTreeMap<String, String>,
    /// Whether the user trusts it, so that its hints about its own tools count: otherwise every call needs a
    /// confirmation, whatever its hints are.
    pub is_trusted: bool,
    /// Whether it has a process of its own for each session.
    pub is_isolated: bool,
    /// Checked before every start, if the server needs the user's trust (P12).
    pub permission: Permission,
}

/// The permission to start a server: it may run only what a user trusted (P12).
#[async_trait]
pub trait StartPermission: Send + Sync + 'static {
    /// Checks that a user trusts it as it is now. May read files, and block.
    ///
    /// # Errors
    ///
    /// Fails with the reason and the remedy for users.
    fn check(&self) -> Result<(), String>;

    /// Waits until a user may have decided since the last check.
    async fn decided(&self);

    /// Waits until a user withdraws the permission of a running server. Changes of its files matter only when it is
    /// started again.
    async fn withdrawn(&self);

    /// The decision of users about it as it is now, or the question that a session asks them. May read files.
    ///
    /// # Errors
    ///
    /// Why they cannot be asked in a session, and what to do instead.
    async fn trust(&self) -> Result<Trust, String>;

    /// Persists what users decided about exactly what a question showed.
    ///
    /// # Errors
    ///
    /// When it is no longer what the question showed, or when the decision cannot be persisted. Nothing was decided
    /// then.
    async fn decide(&self, question: &TrustQuestion, decision: TrustDecision) -> Result<(), String>;
}

/// A [`StartPermission`], or none if none is needed.
#[derive(Clone, Default)]
pub struct Permission(pub Option<Arc<dyn StartPermission>>);

// It is about what the rest of a declaration says: two that say the same need the same permission.
impl PartialEq for Permission {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "needed" } else { "not needed" })
    }
}

/// How to reach a server.
#[derive(Clone, PartialEq)]
pub enum Transport {
    /// A process, spoken to over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables that its environment has beside a minimal base; `None` removes a variable.
        env: BTreeMap<String, Option<String>>,
        /// A file with more of it.
        env_file: Option<PathBuf>,
        /// Where it runs; in the session's first directory, if it is not said.
        cwd: Option<PathBuf>,
    },
    /// An address that speaks streamable HTTP.
    Http(Remote),
    /// An address that speaks the older HTTP with server-sent events.
    Sse(Remote),
}

impl Default for Transport {
    fn default() -> Self {
        Self::Stdio {
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            env_file: None,
            cwd: None,
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, cwd, env, .. } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("cwd", cwd)
                .field("env", &env.keys().collect::<Vec<_>>())
                .finish_non_exhaustive(),
            Self::Http(remote) => f.debug_tuple("Http").field(remote).finish(),
            Self::Sse(remote) => f.debug_tuple("Sse").field(remote).finish(),
        }
    }
}

/// An address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Remote {
    /// The address.
    pub url: String,
    /// Headers for every request.
    pub headers: BTreeMap<String, String>,
    /// The client id that is registered with the authorization server.
    pub oauth_client_id: Option<String>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auth12_nothing_that_may_be_a_secret_is_printed() {
        let secret = || "hunter2".to_owned();
        let stdio = Transport::Stdio {
            command: "serve".to_owned(),
            args: vec![secret()],
            env: BTreeMap::from_iter([("KEY".to_owned(), Some(secret()))]),
            env_file: None,
            cwd: None,
        };
        let http = Transport::Http(Remote {
            url: format!("https://me:{}@example.com", secret()),
            headers: BTreeMap::from_iter([("Authorization".to_owned(), secret())]),
            oauth_client_id: None,
        });
        for transport in [stdio, http] {
            assert!(!format!("{transport:?}").contains("hunter2"));
        }
    }
}
