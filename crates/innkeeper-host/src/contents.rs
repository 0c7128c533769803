//! What tools gave back and no turn has room for: kept beside the session, and read by whoever sees it (RES-03).
//!
//! A turn shows the beginning and the end, and says where the whole is: at a URI of the host's own, which
//! `resourceRead` serves. It is there before anybody is told of it, and goes with its session.

mod closed;
mod memory;

use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_core::uri;
use sha2::{Digest as _, Sha256};

pub use self::closed::ClosedSessions;
pub use self::memory::MemoryContents;
use crate::resources::{Content, ResourceError};

/// How many bytes of a hash make a name: enough that nobody finds two contents with the same one.
const NAME_BYTES: usize = 16;

/// Keeps what tools gave back.
///
/// There are bounds, per session and for all of them together; beyond, what is oldest goes.
#[async_trait]
pub trait Contents: Send + Sync + 'static {
    /// Keeps something for a session, as safely as the session itself. What has the same name is the same.
    ///
    /// # Errors
    ///
    /// Why it was not kept, in words for people.
    async fn keep(&self, session: &str, name: &str, content: Content) -> Result<(), String>;

    /// What was kept; `None` if it is not there any more, or never was.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, in words for people.
    async fn read(&self, session: &str, name: &str) -> Result<Option<Content>, String>;

    /// The most bytes that a session can keep.
    fn room(&self) -> u64;

    /// There is a session of this URI, perhaps again. Comes before it keeps anything.
    fn open(&self, session: &str);

    /// The session is gone for good: nothing is kept for it from now on, whatever is still under way. What was
    /// kept is removed by [`Contents::forget`], which comes next.
    fn close(&self, session: &str);

    /// Removes what was kept for a session that is gone.
    async fn forget(&self, session: &str);
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentLimits {
    /// Most bytes for one session.
    pub session_bytes: u64,
    /// Most bytes for all of them together.
    pub total_bytes: u64,
}

/// Where something is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) uri: String,
    pub(crate) size: u64,
}

/// What is kept for one session.
#[derive(Clone)]
pub(crate) struct SessionContents {
    contents: Arc<dyn Contents>,
    session: Arc<str>,
    /// The most that can be read in one piece: what is longer nobody could open.
    most: usize,
}

impl SessionContents {
    pub(crate) fn new(contents: Arc<dyn Contents>, session: Arc<str>, most: usize) -> Self {
        contents.open(&session);
        Self {
            contents,
            session,
            most,
        }
    }

    /// The most bytes of one content.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// The most bytes of the whole session.
    pub(crate) fn room(&self) -> usize {
        usize::try_from(self.contents.room()).unwrap_or(usize::MAX)
    }

    /// Keeps something; or says why it was not.
    pub(crate) async fn keep(&self, bytes: Vec<u8>, content_type: Option<String>) -> Result<Reference, String> {
        if bytes.len() > self.most {
            return Err(format!("it has more than {} bytes", self.most));
        }
        let name = name_of(&bytes, content_type.as_deref());
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let content = Content { bytes, content_type };
        self.contents.keep(&self.session, &name, content).await?;
        Ok(Reference {
            uri: uri::kept_content(&self.session, &name),
            size,
        })
    }
}

/// The same content has the same name, and nobody guesses it who has not seen it.
fn name_of(bytes: &[u8], content_type: Option<&str>) -> String {
    let mut hash = Sha256::new();
    hash.update(content_type.unwrap_or_default());
    hash.update([0]);
    hash.update(bytes);
    let hash = hash.finalize();
    hash.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what is kept behind a URI; the core has looked whether the client may.
pub(crate) async fn read(contents: &dyn Contents, uri: &str) -> Result<Content, ResourceError> {
    let gone = || {
        ResourceError::NotFound(
            "this result is not kept any more: the host keeps the latest results of a session, and these were older. \
             Call the tool again to get them"
                .to_owned(),
        )
    };
    let (session, name) = uri::session_of_content(uri).ok_or_else(gone)?;
    let read = contents.read(&session, name).await.map_err(ResourceError::Failed)?;
    read.ok_or_else(gone)
}
