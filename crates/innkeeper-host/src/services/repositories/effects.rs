//! Which directories are followed for their Git repositories, and for which sessions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use innkeeper_core::{ChannelId, RepositoryCommand};
use tokio::sync::Notify;

use crate::main_loop::handles::LoopHandles;
use crate::services::customizations::Following;
use crate::services::repositories::{Repositories, RepositorySink};

/// The directories that are followed. Sessions in one directory share one follow.
pub(crate) struct FollowedRepositories {
    finder: Arc<dyn Repositories>,
    directories: HashMap<Arc<str>, FollowedDirectory>,
    sessions: HashMap<ChannelId, Arc<str>>,
    next: u64,
}

struct FollowedDirectory {
    number: u64,
    sessions: BTreeSet<ChannelId>,
    /// Asks for another look.
    again: Arc<Notify>,
    _following: Following,
}

impl FollowedRepositories {
    pub(crate) fn new(finder: Arc<dyn Repositories>) -> Self {
        Self {
            finder,
            directories: HashMap::new(),
            sessions: HashMap::new(),
            next: 0,
        }
    }

    /// Ends every follow, because the core is replaced.
    pub(crate) fn clear(&mut self) {
        self.directories.clear();
        self.sessions.clear();
    }

    pub(crate) fn perform(&mut self, handles: &LoopHandles, command: RepositoryCommand) {
        match command {
            RepositoryCommand::Follow { session, directory } => self.follow(handles, session, &directory),
            RepositoryCommand::Refresh { session } => self.refresh(session),
            RepositoryCommand::Unfollow { session } => self.unfollow(session),
        }
    }

    /// Reads the state of the repository of a session again.
    fn refresh(&self, session: ChannelId) {
        let directory = self.sessions.get(&session);
        if let Some(followed) = directory.and_then(|directory| self.directories.get(directory)) {
            followed.again.notify_one();
        }
    }

    /// Ends the follow of a session, and that of its directory with the last of its sessions.
    fn unfollow(&mut self, session: ChannelId) {
        let Some(directory) = self.sessions.remove(&session) else {
            // The session follows no directory.
            return;
        };
        if let Some(followed) = self.directories.get_mut(&directory) {
            followed.sessions.remove(&session);
            if followed.sessions.is_empty() {
                self.directories.remove(&directory);
            }
        }
    }

    /// Follows the repository around the primary directory of a session.
    fn follow(&mut self, handles: &LoopHandles, session: ChannelId, directory: &str) {
        let directory: Arc<str> = directory.into();
        self.unfollow(session);
        self.sessions.insert(session, Arc::clone(&directory));
        if let Some(followed) = self.directories.get_mut(&directory) {
            followed.sessions.insert(session);
            // The last report may be old, and this session has not received it.
            followed.again.notify_one();
            return;
        }
        let number = self.next;
        self.next += 1;
        let again = Arc::new(Notify::new());
        let sink = RepositorySink::new(Arc::clone(&directory), number, handles.weak_inbox());
        let following = self.finder.follow(&directory, Arc::clone(&again), sink);
        let followed = FollowedDirectory {
            number,
            sessions: BTreeSet::from([session]),
            again,
            _following: following,
        };
        self.directories.insert(directory, followed);
    }

    /// Returns the sessions that a report about a directory is for. A report of a follow that has ended is for none.
    pub(crate) fn sessions_in(&self, directory: &str, number: u64) -> Vec<ChannelId> {
        let followed = self.directories.get(directory);
        let followed = followed.filter(|followed| followed.number == number);
        followed.map_or_else(Vec::new, |followed| followed.sessions.iter().copied().collect())
    }
}
