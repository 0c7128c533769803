//! Browsing directories without a grant, as a folder picker does (RES-01).
//!
//! A connection with the admin scope lists directories and resolves files and directories anywhere, and watches them,
//! which tells no more than listing again and again. It reads the content of a file only where it reaches it anyway: in
//! the working directories of its sessions, in what the configuration opens and in what it was granted. Serving is still
//! confined by whoever serves: the host's own tokens and keys are listed for nobody.

use super::{Reach, add};
use crate::clients::access::Scope;
use crate::core::{Cx, Host};
use crate::ids::ConnId;

/// The place that every file of this machine is in.
const EVERYTHING: &str = "file:///";

/// Who may look through the directories of this machine without asking first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BrowsePolicy {
    /// No connection: directories outside of sessions have to be granted like everything else.
    Deny,
    /// Connections with the admin scope.
    #[default]
    Admin,
}

impl Host {
    /// What the client on a connection may list, resolve and watch: what it may reach, and everything if it may browse.
    pub(super) fn reaches_to_browse(&self, cx: &Cx<'_>, conn: ConnId) -> Vec<Reach> {
        let mut reaches = self.reaches(cx, conn);
        if self.may_browse(conn) {
            add(&mut reaches, EVERYTHING, false, false);
        }
        reaches
    }

    /// The directory in which a client starts to look for one to work in. A client that may create no session has no
    /// use for it, and need not learn the name of the user.
    pub(crate) fn offered_directory(&self, conn: ConnId) -> Option<&str> {
        let scope = self.conns.get(&conn)?.principal.scope;
        let directory = self.config.default_directory.as_deref();
        directory.filter(|_| scope >= Scope::Drive)
    }

    fn may_browse(&self, conn: ConnId) -> bool {
        let scope = self.conns.get(&conn).map(|connection| connection.principal.scope);
        match self.config.resource_browsing {
            BrowsePolicy::Deny => false,
            BrowsePolicy::Admin => scope >= Some(Scope::Admin),
        }
    }
}
