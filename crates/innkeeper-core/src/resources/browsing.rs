//! Browsing directories without a grant, as a folder picker does (RES-01).
//!
//! A connection with the admin scope lists directories, resolves files and directories anywhere, and watches them,
//! which reveals no more than listing repeatedly. It reads the content of a file only where it has access anyway: in
//! the working directories of its sessions, in the configured roots and in its grants. The resource service still
//! confines every request: the host's own tokens and keys are never listed.

use super::{AllowedRoot, add};
use crate::clients::access::Scope;
use crate::core::{Cx, Host};
use crate::ids::ConnId;

/// The root that contains every file of this machine.
const EVERYTHING: &str = "file:///";

/// Which clients may browse the directories of this machine without a grant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BrowsePolicy {
    /// No connection: directories outside of sessions have to be granted like everything else.
    Deny,
    /// Connections with the admin scope.
    #[default]
    Admin,
}

impl Host {
    /// The roots that the client on a connection may list, resolve and watch: its allowed roots, and everything if it
    /// may browse.
    pub(super) fn browsable_roots(&self, cx: &Cx<'_>, conn: ConnId) -> Vec<AllowedRoot> {
        let mut reaches = self.allowed_roots(cx, conn);
        if self.may_browse(conn) {
            add(&mut reaches, EVERYTHING, false, false);
        }
        reaches
    }

    /// The directory in which a client's folder picker starts. A client that cannot create sessions does not need it,
    /// and should not learn the name of the user.
    pub(crate) fn offered_directory(&self, conn: ConnId) -> Option<&str> {
        let scope = self.conns.get(&conn)?.principal.scope;
        let directory = self.config.default_directory.as_deref();
        directory.filter(|_| scope >= Scope::Drive)
    }

    pub(super) fn may_browse(&self, conn: ConnId) -> bool {
        let scope = self.conns.get(&conn).map(|connection| connection.principal.scope);
        match self.config.resource_browsing {
            BrowsePolicy::Deny => false,
            BrowsePolicy::Admin => scope >= Some(Scope::Admin),
        }
    }
}
