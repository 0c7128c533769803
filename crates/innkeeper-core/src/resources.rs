//! Access to files and other resources (RES-01, SEC-03).
//!
//! The core knows which resources a client may access, and never touches a file. It passes a request and the allowed
//! roots of its client to the resource service, which confines itself to these roots, because only the file system
//! knows where a path really leads (RES-17).

mod browsing;
mod containment;
pub mod content;
pub mod data_uri;
mod grants;
mod watches;

pub use browsing::BrowsePolicy;
pub(crate) use grants::Grants;
pub use grants::{Allow, GrantCommand, RequestPolicy, permission_denied};
pub(crate) use watches::Watches;
pub use watches::{ChangeKind, ResourceChange, WatchCommand, WatchInput, WatchSpec};

use crate::clients::access::Scope;
use crate::clients::client::Phase;
use crate::core::{Cx, Host};
use crate::effect::{McpCommand, ResourceCommand};
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::protocol::error::RpcError;
use crate::protocol::method_scopes::scope_of;
use crate::protocol::request::RequestId;

/// The scheme of resources of MCP servers, with its colon. Such a URI belongs to the host: clients that see the
/// session read through it the resources that a server of the session offers, and it never leads to a file.
pub const MCP_RESOURCES: &str = "mcp-resource:";

/// Whether a URI stands for something that an MCP server lets read.
pub fn is_of_mcp_server(uri: &str) -> bool {
    uri.get(..MCP_RESOURCES.len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(MCP_RESOURCES))
}

/// An operation on resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceOp {
    /// `resourceRead`.
    Read {
        /// The resource.
        uri: String,
        /// How its content is wanted; absent leaves it to the host (RES-02).
        encoding: Option<Encoding>,
    },
    /// `resourceWrite`.
    Write(Box<Write>),
    /// `resourceList`.
    List {
        /// The directory.
        uri: String,
    },
    /// `resourceCopy`.
    Copy(Box<Transfer>),
    /// `resourceMove`.
    Move(Box<Transfer>),
    /// `resourceDelete`.
    Delete {
        /// The resource.
        uri: String,
        /// Whether a directory goes with all that is in it (RES-11).
        recursive: bool,
    },
    /// `resourceResolve`.
    Resolve {
        /// The resource.
        uri: String,
        /// Whether a link stands for what it leads to (RES-12).
        follow: bool,
    },
    /// `resourceMkdir`.
    Mkdir {
        /// The directory to be.
        uri: String,
    },
    /// `innkeeper/importContent`, which is this host's own: stores a blob of a session that was imported.
    ImportBlob(Box<ImportBlob>),
}

/// The parameters of `innkeeper/importContent`: a blob that another host stored for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportBlob {
    /// The session's URI.
    pub session: String,
    /// The name that it had there, which says what it is.
    pub name: String,
    /// Its media type.
    pub content_type: Option<String>,
    /// When it was stored, in milliseconds since 1970.
    pub kept_ms: i64,
    /// The bytes.
    pub data: Vec<u8>,
}

/// How content is written down in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As text.
    Utf8,
    /// As base64.
    Base64,
}

/// The parameters of `resourceWrite`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The file.
    pub uri: String,
    /// The bytes.
    pub data: Vec<u8>,
    /// Whether there must be no such file yet (RES-04).
    pub create_only: bool,
    /// Where the bytes go (RES-05).
    pub mode: WriteMode,
    /// The position, counted as the mode says.
    pub position: u64,
    /// The version that the file must still have (RES-07).
    pub if_match: Option<String>,
}

/// Where written bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// After the first `position` bytes; the rest of the file is removed.
    Truncate,
    /// `position` bytes before the end.
    Append,
    /// Between the first `position` bytes and the others.
    Insert,
}

/// The parameters of `resourceCopy` and `resourceMove`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// From where.
    pub source: String,
    /// The destination.
    pub destination: String,
    /// Whether the destination must be free (RES-10).
    pub fail_if_exists: bool,
}

impl ResourceOp {
    /// The name on the wire.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Read { .. } => "resourceRead",
            Self::Write(_) => "resourceWrite",
            Self::List { .. } => "resourceList",
            Self::Copy(_) => "resourceCopy",
            Self::Move(_) => "resourceMove",
            Self::Delete { .. } => "resourceDelete",
            Self::Resolve { .. } => "resourceResolve",
            Self::Mkdir { .. } => "resourceMkdir",
            Self::ImportBlob(_) => "innkeeper/importContent",
        }
    }

    /// The URI of the blob that the operation is about, if it is one.
    fn blob_uri(&self) -> Option<&str> {
        let uris = match self {
            Self::Read { uri, .. }
            | Self::List { uri }
            | Self::Delete { uri, .. }
            | Self::Resolve { uri, .. }
            | Self::Mkdir { uri } => [uri, uri],
            Self::Write(write) => [&write.uri, &write.uri],
            Self::Copy(transfer) | Self::Move(transfer) => [&transfer.source, &transfer.destination],
            Self::ImportBlob(_) => return None,
        };
        let mut uris = uris.into_iter().map(String::as_str);
        uris.find(|uri| crate::protocol::uri::is_blob_uri(uri))
    }

    /// Bytes that it carries.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Write(write) => write.data.len(),
            Self::ImportBlob(keep) => keep.data.len(),
            _ => 0,
        }
    }

    /// The scope it needs: the view scope never writes.
    pub fn scope(&self) -> Scope {
        scope_of(self.method())
    }
}

/// A root that a client may access: a file, or a directory with everything in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedRoot {
    /// Its URI.
    pub uri: String,
    /// Whether the client may also write there.
    pub write: bool,
    /// Whether the URI must not lead through a symlink: otherwise a grant for one path could become one for another.
    pub exact: bool,
}

/// The sessions that a client sees: resources that they show can also be read, wherever they are (RES-03).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VisibleSessions {
    /// The sessions.
    pub sessions: Vec<ChannelId>,
    /// Whether the client has the scope drive.
    pub drives: bool,
}

/// A root that the configuration opens to every client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRoot {
    /// Its URI.
    pub uri: String,
    /// Whether clients that may drive also write there.
    pub write: bool,
}

impl Host {
    /// Passes an operation to the resource service.
    pub(crate) fn resource(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, op: Box<ResourceOp>) {
        let of_mcp_server = match &*op {
            ResourceOp::Read { uri, .. } | ResourceOp::Resolve { uri, .. } => is_of_mcp_server(uri),
            _ => false,
        };
        if of_mcp_server && self.config.serves_mcp {
            let (sessions, id) = (self.visible_sessions(conn), id.clone());
            return cx.emit(McpCommand::ReadResource { conn, id, op, sessions });
        }
        let kept = match &*op {
            ResourceOp::ImportBlob(keep) => Some(self.check_blob_import(keep)),
            _ => op.blob_uri().map(|_| self.check_blob_read(conn, &op)),
        };
        if let Some(outcome) = kept {
            return match outcome {
                Ok(reaches) => cx.emit(ResourceCommand::Perform {
                    conn,
                    id: id.clone(),
                    op,
                    reaches,
                    sight: VisibleSessions::default(),
                }),
                Err(error) => cx.answer(conn, id, Err(error)),
            };
        }
        if !self.config.serves_resources {
            let error = RpcError::method_not_found(op.method());
            return cx.answer(conn, id, Err(error));
        }
        let reaches = match &*op {
            ResourceOp::List { .. } | ResourceOp::Resolve { .. } => self.browsable_roots(cx, conn),
            _ => self.allowed_roots(cx, conn),
        };
        let sight = match op.scope() {
            Scope::View => self.visibility(conn),
            // A resource that a session shows can be read, not changed.
            Scope::Drive | Scope::Admin => VisibleSessions::default(),
        };
        cx.emit(ResourceCommand::Perform {
            conn,
            id: id.clone(),
            op,
            reaches,
            sight,
        });
    }

    fn visibility(&self, conn: ConnId) -> VisibleSessions {
        let scope = self.conns.get(&conn).map(|connection| connection.principal.scope);
        VisibleSessions {
            sessions: self.visible_sessions(conn),
            drives: scope >= Some(Scope::Drive),
        }
    }

    /// The sessions whose blobs a client may read: those that it sees. A blob is no file, so no grant is about it.
    ///
    /// The URI names the session that the blob was first stored for. A chat takes its blobs along when it moves, and
    /// an import may have another name, so the blob can be in any of them: its name identifies it.
    fn check_blob_read(&self, conn: ConnId, op: &ResourceOp) -> Result<Vec<AllowedRoot>, RpcError> {
        if !matches!(op, ResourceOp::Read { .. } | ResourceOp::Resolve { .. }) {
            let message = format!("{}: a blob of a session can only be read", op.method());
            return Err(permission_denied(message, None));
        }
        let seen = self.visible_sessions(conn);
        let uris = seen.iter().filter_map(|id| self.channels.get(*id));
        let reaches = uris.map(|channel| AllowedRoot {
            uri: channel.uri.to_string(),
            write: false,
            exact: true,
        });
        Ok(reaches.collect())
    }

    /// Whether a blob can be stored for a session: the session must exist, or the blob would never be removed.
    fn check_blob_import(&self, keep: &ImportBlob) -> Result<Vec<AllowedRoot>, RpcError> {
        let session = self.channels.find(&keep.session);
        match session.is_some_and(|id| self.sessions.contains_key(&id)) {
            true => Ok(Vec::new()),
            false => Err(RpcError::session_not_found(&keep.session)),
        }
    }

    /// Everything that the client on a connection may reach right now: what the configuration opens,
    /// where the sessions work that it listens to or takes part in, and what was granted to it.
    pub(crate) fn allowed_roots(&self, cx: &Cx<'_>, conn: ConnId) -> Vec<AllowedRoot> {
        let Some(connection) = self.conns.get(&conn) else {
            return Vec::new();
        };
        let Phase::Ready { client, .. } = &connection.phase else {
            return Vec::new();
        };
        let writes = connection.principal.scope >= Scope::Drive;
        let mut reaches = Vec::new();
        for root in &self.config.resource_roots {
            add(&mut reaches, &root.uri, writes && root.write, false);
        }
        for session in self
            .visible_sessions(conn)
            .iter()
            .filter_map(|id| self.sessions.get(id))
        {
            for directory in session.state.working_directories.iter().flatten() {
                add(&mut reaches, directory, writes, false);
            }
        }
        let now_ms = cx.now.wall.as_millisecond();
        for grant in self.grants.of(client, &connection.principal.name, now_ms) {
            add(&mut reaches, &grant.uri, writes && grant.write, true);
        }
        reaches
    }

    /// The sessions that the client on a connection uses, each once.
    fn visible_sessions(&self, conn: ConnId) -> Vec<ChannelId> {
        let Some(connection) = self.conns.get(&conn) else {
            return Vec::new();
        };
        let Phase::Ready { client, .. } = &connection.phase else {
            return Vec::new();
        };
        let mut sessions: Vec<ChannelId> = self.sessions_used(client, &connection.subscriptions).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    /// The sessions that a client listens to, or to a chat of, on this connection, and those it is an
    /// active client of.
    fn sessions_used<'a>(
        &'a self,
        client: &ClientId,
        subscriptions: &'a std::collections::HashSet<ChannelId>,
    ) -> impl Iterator<Item = ChannelId> + 'a {
        let members = self.clients.get(client).map(|client| &client.memberships);
        let listened = subscriptions
            .iter()
            .filter_map(|channel| match self.chats.get(channel) {
                Some(chat) => Some(chat.session),
                None => self.sessions.contains_key(channel).then_some(*channel),
            });
        members.into_iter().flatten().copied().chain(listened)
    }
}

/// Adds a root; one that exists already may become writable.
fn add(reaches: &mut Vec<AllowedRoot>, uri: &str, write: bool, exact: bool) {
    match reaches
        .iter_mut()
        .find(|reach| reach.uri == uri && reach.exact == exact)
    {
        Some(known) => known.write |= write,
        None => reaches.push(AllowedRoot {
            uri: uri.to_owned(),
            write,
            exact,
        }),
    }
}
