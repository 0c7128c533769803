//! Files and other resources for clients (RES).
//!
//! The core decides which locations a client may reach; the implementation of [`Resources`] serves the request, and
//! nothing outside these locations. The host reads `data:` URIs itself (`resources/data_uri.rs`).

pub(crate) mod client_files;
mod content_type;
pub(crate) mod data_uri;
pub(crate) mod effects;
pub(crate) mod mcp_attachments;

use std::any::Any;
use std::fmt;

use async_trait::async_trait;
use innkeeper_core::Input;
use innkeeper_core::resources::WatchInput;
use tokio::sync::mpsc;

use crate::main_loop::Message;

pub use content_type::content_type;
pub use innkeeper_core::resources::{
    AllowedRoot, BrowsePolicy, ChangeKind, RequestPolicy, ResourceChange, ResourceRoot, Transfer, WatchSpec, Write,
    WriteMode, is_of_mcp_server,
};

/// Serves resources to clients.
///
/// Every operation is confined to `reaches`: what is not in one of them is
/// [`ResourceError::Outside`], however its URI is spelled and whichever symlinks lead there (RES-17).
#[async_trait]
pub trait Resources: Send + Sync + 'static {
    /// Whether it serves anything at all.
    fn serves(&self) -> bool {
        true
    }

    /// Reads a file of at most `most` bytes.
    async fn read(&self, reaches: &[AllowedRoot], uri: &str, most: usize) -> Result<Content, ResourceError>;

    /// Writes a file; a concurrent reader finds the old one or the new one, whole.
    async fn write(&self, reaches: &[AllowedRoot], write: Write) -> Result<(), ResourceError>;

    /// Lists a directory.
    async fn list(&self, reaches: &[AllowedRoot], uri: &str) -> Result<Vec<ResourceEntry>, ResourceError>;

    /// Copies a file or a directory.
    async fn copy(&self, reaches: &[AllowedRoot], transfer: Transfer) -> Result<(), ResourceError>;

    /// Moves a file or a directory.
    async fn rename(&self, reaches: &[AllowedRoot], transfer: Transfer) -> Result<(), ResourceError>;

    /// Deletes a file or a directory; one that is not empty only if `recursive`.
    async fn delete(&self, reaches: &[AllowedRoot], uri: &str, recursive: bool) -> Result<(), ResourceError>;

    /// Says what is there; a link stands for what it leads to only if `follow`.
    async fn resolve(&self, reaches: &[AllowedRoot], uri: &str, follow: bool) -> Result<ResourceInfo, ResourceError>;

    /// Makes a directory and those it is in; one that is there is fine.
    async fn make_directory(&self, reaches: &[AllowedRoot], uri: &str) -> Result<(), ResourceError>;

    /// Watches a file or a directory until what it returns is dropped.
    async fn watch(
        &self,
        reaches: &[AllowedRoot],
        spec: &WatchSpec,
        changes: ChangeSink,
    ) -> Result<Watching, ResourceError>;
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The content type, if known.
    pub content_type: Option<String>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceEntry {
    /// Its name there.
    pub name: String,
    /// The kind of the entry; for a symlink, that of its target.
    pub kind: EntryKind,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file, or anything else that is no directory.
    File,
    /// A directory.
    Directory,
}

/// The metadata of a resource (RES-12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceInfo {
    /// Where it really is, or where it was asked for if links were not followed.
    pub uri: String,
    /// The kind of the resource.
    pub kind: ResourceKind,
    /// How long it is, if it is a file.
    pub size: Option<u64>,
    /// When it last changed.
    pub modified: Option<jiff::Timestamp>,
    /// When it came into being.
    pub created: Option<jiff::Timestamp>,
    /// The content type, if known.
    pub content_type: Option<String>,
    /// Its version, different after every change of its content.
    pub etag: Option<String>,
}

/// The kind of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A link that was not followed.
    Symlink,
}

/// The reason why a request failed, as text for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// It is in no place that the client may reach, or not one it may write to; a grant would help.
    #[error("{uri} is not yours to {}: ask for it with resourceRequest", if *.write { "write" } else { "read" })]
    Outside {
        /// The resource that is out of reach.
        uri: String,
        /// Whether it is about writing.
        write: bool,
    },
    /// It is out of reach, and no grant would help.
    #[error("{0}")]
    Refused(String),
    /// Something is there already.
    #[error("{0}")]
    Exists(String),
    /// It is no longer what the client thinks it is.
    #[error("{0}")]
    Conflict(String),
    /// The request makes no sense.
    #[error("{field}: {problem}")]
    Invalid {
        /// The parameter.
        field: &'static str,
        /// The problem with it.
        problem: String,
    },
    /// The machine did not do it.
    #[error("{0}")]
    Failed(String),
}

/// Where what changes is reported to.
#[derive(Clone)]
pub struct ChangeSink {
    watch: u64,
    to: To,
}

#[derive(Clone)]
enum To {
    Host(mpsc::WeakSender<Message>),
    Channel(mpsc::Sender<Vec<ResourceChange>>),
}

impl fmt::Debug for ChangeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeSink")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

impl ChangeSink {
    pub(crate) fn new(watch: u64, inbox: mpsc::WeakSender<Message>) -> Self {
        Self {
            watch,
            to: To::Host(inbox),
        }
    }

    /// A sink without a host, for tests of an implementation.
    pub fn channel() -> (Self, mpsc::Receiver<Vec<ResourceChange>>) {
        let (sender, receiver) = mpsc::channel(1024);
        let to = To::Channel(sender);
        (Self { watch: 0, to }, receiver)
    }

    /// Reports changes, once the host has room for them. Says whether the host is still there.
    pub async fn send(&self, changes: Vec<ResourceChange>) -> bool {
        let watch = self.watch;
        match &self.to {
            To::Host(inbox) => match inbox.upgrade() {
                Some(inbox) => {
                    let input = Input::from(WatchInput::Changed { watch, changes });
                    inbox.send(Message::Core(input)).await.is_ok()
                }
                None => false,
            },
            To::Channel(sender) => sender.send(changes).await.is_ok(),
        }
    }
}

/// A watch that is set up. Dropped, it ends.
pub struct Watching {
    pub(crate) admitted_by: String,
    _guard: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").finish_non_exhaustive()
    }
}

impl Watching {
    /// A watch that `guard` keeps up; `admitted_by` is the URI of the place it lies in.
    pub fn new(admitted_by: &str, guard: impl Any + Send + Sync) -> Self {
        Self {
            admitted_by: admitted_by.to_owned(),
            _guard: Box::new(guard),
        }
    }
}

/// A host that serves nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoResources;

impl NoResources {
    fn nothing<T>() -> Result<T, ResourceError> {
        Err(ResourceError::NotFound("this host serves no resources".to_owned()))
    }
}

#[async_trait]
impl Resources for NoResources {
    fn serves(&self) -> bool {
        false
    }

    async fn read(&self, _: &[AllowedRoot], _: &str, _: usize) -> Result<Content, ResourceError> {
        Self::nothing()
    }

    async fn write(&self, _: &[AllowedRoot], _: Write) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn list(&self, _: &[AllowedRoot], _: &str) -> Result<Vec<ResourceEntry>, ResourceError> {
        Self::nothing()
    }

    async fn copy(&self, _: &[AllowedRoot], _: Transfer) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn rename(&self, _: &[AllowedRoot], _: Transfer) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn delete(&self, _: &[AllowedRoot], _: &str, _: bool) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn resolve(&self, _: &[AllowedRoot], _: &str, _: bool) -> Result<ResourceInfo, ResourceError> {
        Self::nothing()
    }

    async fn make_directory(&self, _: &[AllowedRoot], _: &str) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn watch(&self, _: &[AllowedRoot], _: &WatchSpec, _: ChangeSink) -> Result<Watching, ResourceError> {
        Self::nothing()
    }
}
