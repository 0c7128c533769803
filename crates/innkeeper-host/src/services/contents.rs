//! Results of tools that no turn has room for: stored beside the session, and read by clients that see it (RES-03).
//!
//! A turn shows the beginning and the end, and refers to the whole with a URI of the host's own, which `resourceRead`
//! serves. The blob is stored before the reference is published, and is removed with its session.

mod closed_sessions;
pub(crate) mod effects;
mod memory;
mod references;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
pub use innkeeper_core::content;
use innkeeper_core::content::ContentUri;
use innkeeper_core::resources::{AllowedRoot, ImportBlob};
use innkeeper_core::uri;
use sha2::{Digest as _, Sha256};
use tokio::sync::RwLock;

pub use self::closed_sessions::ClosedSessions;
pub use self::memory::MemoryContents;
pub(crate) use self::references::names_in;
use crate::services::changes::Changes;
use crate::services::resources::{Content, ResourceError};

/// The bytes of a hash that make a name: enough to make collisions infeasible.
const NAME_BYTES: usize = 16;
/// Maximum length of a stored media type.
const MAX_TYPE_BYTES: usize = 255;

/// Stores blobs: content of tool results that exceeds the limit of a turn.
///
/// There are limits per session and for all sessions together. Beyond the limits the oldest blobs are evicted.
#[async_trait]
pub trait Contents: Send + Sync + 'static {
    /// Stores a blob for a session, as durably as the session itself. Blobs of the same name have the same content.
    ///
    /// # Errors
    ///
    /// Fails with the reason, as a sentence for users.
    async fn keep(&self, session: &str, name: &str, content: Content) -> Result<(), String>;

    /// Returns a blob. `None` if it was evicted or never stored.
    ///
    /// # Errors
    ///
    /// Fails with the reason, as a sentence for users.
    async fn read(&self, session: &str, name: &str) -> Result<Option<Content>, String>;

    /// Imports a blob with its original time. Returns false if the limits evicted it at once.
    ///
    /// # Errors
    ///
    /// Fails with the reason, as a sentence for users.
    async fn restore(&self, session: &str, name: &str, content: Content, kept: SystemTime) -> Result<bool, String>;

    /// Copies the named blobs of one session to another, the oldest first. Missing names are skipped. A blob is
    /// removed with the last session that has it.
    ///
    /// # Errors
    ///
    /// Fails with the reason if not all of it was stored, as a sentence for users.
    async fn share(&self, from: &str, names: Vec<String>, to: &str) -> Result<(), String> {
        for name in names {
            if let Some(content) = self.read(from, &name).await? {
                self.keep(to, &name, content).await?;
            }
        }
        Ok(())
    }

    /// The most bytes that a session can keep.
    fn room(&self) -> u64;

    /// There is a session of this URI, perhaps again. Comes before it keeps anything.
    fn open(&self, session: &str);

    /// The session is disposed: nothing is stored for it from now on, also not by work in progress. Its contents are
    /// removed by [`Contents::forget`], which comes next.
    fn close(&self, session: &str);

    /// Removes what was kept for a session that is gone.
    async fn forget(&self, session: &str);
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentLimits {
    /// Maximum bytes for one session.
    pub session_bytes: u64,
    /// Maximum bytes for all of them together.
    pub total_bytes: u64,
}

/// The location and size of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) uri: String,
    pub(crate) size: u64,
}

/// The contents of one session.
#[derive(Clone)]
pub(crate) struct SessionContents {
    contents: Arc<dyn Contents>,
    session: Arc<str>,
    /// The most that can be read in one piece: longer content could not be opened.
    most: usize,
    /// Locked by the task that removes the blobs of an earlier session with the same URI: they go before new ones come.
    order: Arc<RwLock<()>>,
}

impl fmt::Debug for SessionContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionContents")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl SessionContents {
    pub(crate) fn new(contents: Arc<dyn Contents>, session: Arc<str>, most: usize, order: Arc<RwLock<()>>) -> Self {
        contents.open(&session);
        Self {
            contents,
            session,
            most,
            order,
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
        let (name, size) = self.store(bytes, content_type).await?;
        Ok(Reference {
            uri: uri::blob_uri(&self.session, &name),
            size,
        })
    }

    /// Keeps the content of a file, under a URI with the path of that file; or says why it was not.
    pub(crate) async fn keep_file(
        &self,
        file: &str,
        bytes: Vec<u8>,
        content_type: Option<String>,
    ) -> Result<Reference, String> {
        let (name, size) = self.store(bytes, content_type).await?;
        let uri = content::blob(&name, file);
        Ok(Reference { uri, size })
    }

    /// Returns the name that something was kept under, and its size.
    async fn store(&self, bytes: Vec<u8>, content_type: Option<String>) -> Result<(String, u64), String> {
        if bytes.len() > self.most {
            return Err(format!("it has more than {} bytes", self.most));
        }
        // A type that cannot be stored must not be part of the name either.
        let content_type = content_type.filter(|text| is_type(text));
        let name = content_name(&bytes, content_type.as_deref());
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let content = Content { bytes, content_type };
        let _place = self.order.read().await;
        self.contents.keep(&self.session, &name, content).await?;
        Ok((name, size))
    }
}

/// Whether a media type is kept with its content.
fn is_type(text: &str) -> bool {
    text.len() <= MAX_TYPE_BYTES && !text.contains(char::is_control)
}

/// Returns the name of a content. The same content has the same name, and the name cannot be guessed without the
/// content.
pub fn content_name(bytes: &[u8], content_type: Option<&str>) -> String {
    let mut hash = Sha256::new();
    hash.update(content_type.unwrap_or_default());
    hash.update([0]);
    hash.update(bytes);
    let hash = hash.finalize();
    hash.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what is kept behind a URI, for a client that sees these sessions.
///
/// A session that the URI names comes first. It may be gone, or the chat that refers to it may have moved: what
/// another session has under the same name is the same.
pub(crate) async fn read(
    stored: StoredContents<'_>,
    uri: &str,
    seen: &[AllowedRoot],
    max_bytes: usize,
) -> Result<Content, ResourceError> {
    let contents = stored.contents;
    let (first, name) = match ContentUri::parse(uri) {
        Some(ContentUri::Change(name)) => return read_change(stored.changes, &name, seen, max_bytes).await,
        Some(ContentUri::Inline(bytes)) => {
            let content_type = match std::str::from_utf8(&bytes) {
                Ok(_) => "text/plain",
                Err(_) => "application/octet-stream",
            };
            let content_type = Some(content_type.to_owned());
            return Ok(Content { bytes, content_type });
        }
        Some(ContentUri::OfSession { session, name }) => (Some(session), name),
        Some(ContentUri::Blob(name)) => (None, name),
        None => {
            let problem = format!("{uri:.200} does not name a blob of this host");
            return Err(ResourceError::NotFound(problem));
        }
    };
    let is_first = |session: &&AllowedRoot| first.as_ref().is_some_and(|first| session.uri == *first);
    let (named, others): (Vec<&AllowedRoot>, Vec<&AllowedRoot>) = seen.iter().partition(is_first);
    let is_seen = if first.is_some() {
        !named.is_empty()
    } else {
        !seen.is_empty()
    };
    let mut failed = None;
    for session in named.into_iter().chain(others) {
        match contents.read(&session.uri, &name).await {
            Ok(Some(content)) => return Ok(content),
            Ok(None) => {}
            Err(problem) => failed = Some(problem),
        }
    }
    Err(match failed {
        Some(problem) => ResourceError::Failed(problem),
        None if is_seen => ResourceError::NotFound(
            "this content is not kept any more: the host keeps the latest contents of a session, and this was older. \
             Call the tool again to get the result of a tool; what a file was before a change is gone"
                .to_owned(),
        ),
        None => ResourceError::Refused(
            "this belongs to a session that this client does not see; subscribe to the session first".to_owned(),
        ),
    })
}

/// Where the contents of the host's own URIs are.
#[derive(Clone, Copy)]
pub(crate) struct StoredContents<'a> {
    pub(crate) contents: &'a dyn Contents,
    pub(crate) changes: &'a dyn Changes,
}

/// Reads one side of a changed file, for a client that sees these sessions.
async fn read_change(
    changes: &dyn Changes,
    name: &str,
    seen: &[AllowedRoot],
    max_bytes: usize,
) -> Result<Content, ResourceError> {
    for session in seen {
        match changes.read(&session.uri, name, max_bytes).await {
            Ok(Some(content)) => return Ok(content),
            Ok(None) => {}
            Err(problem) => return Err(ResourceError::Failed(problem)),
        }
    }
    Err(match seen.is_empty() {
        true => ResourceError::Refused(
            "this belongs to a session that this client does not see; subscribe to the session first".to_owned(),
        ),
        false => ResourceError::NotFound(
            "no open changeset refers to this content; subscribe to the changeset to read its files".to_owned(),
        ),
    })
}

/// Keeps something that came with a session from elsewhere. Returns whether there was room for it.
pub(crate) async fn import(contents: &dyn Contents, keep: ImportBlob, most: usize) -> Result<bool, ResourceError> {
    let ImportBlob {
        session,
        name,
        content_type,
        kept_ms,
        data: bytes,
    } = keep;
    let size = bytes.len();
    if size > most {
        let problem = format!("it has {size} bytes, and this host reads at most {most} of one resource");
        return Err(ResourceError::Conflict(problem));
    }
    if content_type.as_deref().is_some_and(|text| !is_type(text)) {
        let problem =
            format!("its media type is not valid: it has more than {MAX_TYPE_BYTES} bytes, or control characters");
        return Err(ResourceError::Conflict(problem));
    }
    if content_name(&bytes, content_type.as_deref()) != name {
        let problem = "its content does not match the hash in its name, so it was changed on the way".to_owned();
        return Err(ResourceError::Conflict(problem));
    }
    if u64::try_from(size).unwrap_or(u64::MAX) > contents.room() {
        return Ok(false);
    }
    // An invalid timestamp counts as the oldest.
    let kept = Duration::from_millis(u64::try_from(kept_ms).unwrap_or_default());
    let kept = SystemTime::UNIX_EPOCH.checked_add(kept);
    let kept = kept.unwrap_or(SystemTime::UNIX_EPOCH);
    let content = Content { bytes, content_type };
    let restored = contents.restore(&session, &name, content, kept).await;
    restored.map_err(ResourceError::Failed)
}
