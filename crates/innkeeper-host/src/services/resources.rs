//! Files and other resources, as clients reach them (RES).
//!
//! The core says which places a client may reach; whoever implements [`Resources`] does what was
//! asked, and nothing outside these places. `data:` URIs need nobody: the host reads them itself
//! (`resources/data_uri.rs`).

pub(crate) mod client_files;
mod content_type;
pub(crate) mod data_uri;
pub(crate) mod effects;
pub(crate) mod mcp_attachments;

use std::any::Any;
use std::fmt;

use async_trait::async_trait;
use innkeeper_core::Input;
use innkeeper_core::resource::WatchInput;
use tokio::sync::mpsc;

use crate::main_loop::Message;

pub use content_type::content_type;
pub use innkeeper_core::resource::{
    BrowsePolicy, ChangeKind, Reach, RequestPolicy, ResourceChange, ResourceRoot, Transfer, WatchSpec, Write,
    WriteMode, is_of_mcp_server,
};

/// Serves resources to clients.
///
/// Every operation is confined to `reaches`: what is not in one of them is
/// [`ResourceError::Outside`], however its URI is spelled and whatever links lead there (RES-17).
#[async_trait]
pub trait Resources: Send + Sync + 'static {
    /// Whether it serves anything at all.
    fn serves(&self) -> bool {
        true
    }

    /// Reads a file of at most `most` bytes.
    async fn read(&self, reaches: &[Reach], uri: &str, most: usize) -> Result<Content, ResourceError>;

    /// Writes a file; whoever reads it at the same time finds the old one or the new one, whole.
    async fn write(&self, reaches: &[Reach], write: Write) -> Result<(), ResourceError>;

    /// Lists a directory.
    async fn list(&self, reaches: &[Reach], uri: &str) -> Result<Vec<Entry>, ResourceError>;

    /// Copies a file or a directory.
    async fn copy(&self, reaches: &[Reach], transfer: Transfer) -> Result<(), ResourceError>;

    /// Moves a file or a directory.
    async fn rename(&self, reaches: &[Reach], transfer: Transfer) -> Result<(), ResourceError>;

    /// Deletes a file or a directory; one that is not empty only if `recursive`.
    async fn delete(&self, reaches: &[Reach], uri: &str, recursive: bool) -> Result<(), ResourceError>;

    /// Says what is there; a link stands for what it leads to only if `follow`.
    async fn resolve(&self, reaches: &[Reach], uri: &str, follow: bool) -> Result<ResourceInfo, ResourceError>;

    /// Makes a directory and those it is in; one that is there is fine.
    async fn make_directory(&self, reaches: &[Reach], uri: &str) -> Result<(), ResourceError>;

    /// Watches a file or a directory until what it returns is dropped.
    async fn watch(&self, reaches: &[Reach], spec: &WatchSpec, changes: ChangeSink) -> Result<Watching, ResourceError>;
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What they are, if known.
    pub content_type: Option<String>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name there.
    pub name: String,
    /// What it is; a link is what it leads to.
    pub kind: EntryKind,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file, or anything else that is no directory.
    File,
    /// A directory.
    Directory,
}

/// What is known of a resource without reading it (RES-12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceInfo {
    /// Where it really is, or where it was asked for if links were not followed.
    pub uri: String,
    /// What it is.
    pub kind: ResourceKind,
    /// How long it is, if it is a file.
    pub size: Option<u64>,
    /// When it last changed.
    pub modified: Option<jiff::Timestamp>,
    /// When it came into being.
    pub created: Option<jiff::Timestamp>,
    /// What it contains, if known.
    pub content_type: Option<String>,
    /// Its version, different after every change of its content.
    pub etag: Option<String>,
}

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A link that was not followed.
    Symlink,
}

/// Why something was not done, in words for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// It is in no place that the client may reach, or not one it may write to; a grant would help.
    #[error("{uri} is not yours to {}: ask for it with resourceRequest", if *.write { "write" } else { "read" })]
    Outside {
        /// What is out of reach.
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
        /// What is wrong with it.
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

    async fn read(&self, _: &[Reach], _: &str, _: usize) -> Result<Content, ResourceError> {
        Self::nothing()
    }

    async fn write(&self, _: &[Reach], _: Write) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn list(&self, _: &[Reach], _: &str) -> Result<Vec<Entry>, ResourceError> {
        Self::nothing()
    }

    async fn copy(&self, _: &[Reach], _: Transfer) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn rename(&self, _: &[Reach], _: Transfer) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn delete(&self, _: &[Reach], _: &str, _: bool) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn resolve(&self, _: &[Reach], _: &str, _: bool) -> Result<ResourceInfo, ResourceError> {
        Self::nothing()
    }

    async fn make_directory(&self, _: &[Reach], _: &str) -> Result<(), ResourceError> {
        Self::nothing()
    }

    async fn watch(&self, _: &[Reach], _: &WatchSpec, _: ChangeSink) -> Result<Watching, ResourceError> {
        Self::nothing()
    }
}
