//! Git repositories that sessions work in: the trait that reads them.

pub(crate) mod effects;

use std::fmt;
use std::sync::Arc;

pub use innkeeper_core::repository::{GitHubRepository, RepositoryChanges, RepositoryState};
use tokio::sync::{Notify, mpsc};

use crate::main_loop::Message;
use crate::main_loop::message::SessionMessage;
use crate::services::customizations::Following;

/// Looks at the Git repositories of working directories.
pub trait Repositories: Send + Sync + 'static {
    /// Whether it looks at any.
    fn serves(&self) -> bool {
        true
    }

    /// Follows the repository around a directory, which is a URI, until the returned value is dropped: reports its
    /// state once it is known, whenever `again` asks for it, and when it notices a change. A directory that is in no
    /// repository is reported as that. One follow serves every session that works in the directory.
    fn follow(&self, directory: &str, again: Arc<Notify>, sink: RepositorySink) -> Following;
}

/// A host that looks at no repositories.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRepositories;

impl Repositories for NoRepositories {
    fn serves(&self) -> bool {
        false
    }

    fn follow(&self, _: &str, _: Arc<Notify>, _: RepositorySink) -> Following {
        Following::new(())
    }
}

/// The receiver of the state of one directory's repository.
#[derive(Clone)]
pub struct RepositorySink {
    directory: Arc<str>,
    /// Which of the follows of the directory it is: reports of an older one are dropped.
    number: u64,
    /// Weak, because the host keeps the follow: it must end when every handle of the host is gone.
    inbox: mpsc::WeakSender<Message>,
}

impl RepositorySink {
    pub(crate) fn new(directory: Arc<str>, number: u64, inbox: mpsc::WeakSender<Message>) -> Self {
        Self {
            directory,
            number,
            inbox,
        }
    }

    /// Reports the state of the repository, or `None`. Waits while the host is busy; `false` means that the host is
    /// gone.
    pub async fn seen(&self, state: Option<RepositoryState>) -> bool {
        let seen = SessionMessage::RepositorySeen {
            directory: Arc::clone(&self.directory),
            number: self.number,
            state: state.map(Box::new),
        };
        match self.inbox.upgrade() {
            Some(inbox) => inbox.send(seen.into()).await.is_ok(),
            None => false,
        }
    }
}

impl fmt::Debug for RepositorySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepositorySink")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}
