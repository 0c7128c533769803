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
    /// What every customization has.
    pub about: About,
    /// How to reach it.
    pub transport: Transport,
    /// What `${…}` in it stands for besides the environment, such as the root of its plugin.
    pub variables: BTreeMap<String, String>,
    /// Whether people trust it, so that what it says about its own tools counts: without, every call
    /// is asked about, whatever its hints say.
    pub is_trusted: bool,
    /// Whether it has a process of its own for each session.
    pub is_isolated: bool,
    /// Asked before every start, if not everybody may start it (P12).
    pub permission: Permission,
}

/// Whether a server may be started: it may run only what people said yes to (P12).
#[async_trait]
pub trait StartPermission: Send + Sync + 'static {
    /// Whether people let it run as it is now. May read files, and block.
    ///
    /// # Errors
    ///
    /// Why it may not run, and what people can do about it.
    fn check(&self) -> Result<(), String>;

    /// Waits until people may have decided something since the last check.
    async fn decided(&self);

    /// Waits until people have taken back that it may run, for one that runs. What only became of its files
    /// meanwhile matters when it is started again.
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
        /// What its environment has besides a minimal base; `None` takes a variable away.
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
    /// The client that people have registered with the authorization server.
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
