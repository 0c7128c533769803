//! Which directories are followed for their Git repositories, and for which sessions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use innkeeper_core::repository::RepositoryState;
use innkeeper_core::{ChannelId, Effect, Input, Now};
use tokio::sync::Notify;

use crate::main_loop::task::HostTask;
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

    /// Asks for another look at the directory of a session.
    pub(crate) fn look_again(&self, session: ChannelId) {
        let directory = self.sessions.get(&session);
        if let Some(followed) = directory.and_then(|directory| self.directories.get(directory)) {
            followed.again.notify_one();
        }
    }

    /// Ends the follow of a session, and that of its directory with the last of its sessions.
    pub(crate) fn forget(&mut self, session: ChannelId) {
        let Some(directory) = self.sessions.remove(&session) else {
            return;
        };
        if let Some(followed) = self.directories.get_mut(&directory) {
            followed.sessions.remove(&session);
            if followed.sessions.is_empty() {
                self.directories.remove(&directory);
            }
        }
    }
}

impl HostTask {
    pub(crate) fn follow_repository(&mut self, session: ChannelId, directory: &str) {
        let directory: Arc<str> = directory.into();
        self.repositories.forget(session);
        self.repositories.sessions.insert(session, Arc::clone(&directory));
        if let Some(followed) = self.repositories.directories.get_mut(&directory) {
            followed.sessions.insert(session);
            // What was seen last may be old, and this session has not been told of it.
            followed.again.notify_one();
            return;
        }
        let number = self.repositories.next;
        self.repositories.next += 1;
        let again = Arc::new(Notify::new());
        let sink = RepositorySink::new(Arc::clone(&directory), number, self.inbox.clone());
        let following = self.repositories.finder.follow(&directory, Arc::clone(&again), sink);
        let followed = FollowedDirectory {
            number,
            sessions: BTreeSet::from([session]),
            again,
            _following: following,
        };
        self.repositories.directories.insert(directory, followed);
    }

    /// Tells the core what was seen, for every session in the directory.
    pub(crate) fn repository_seen(
        &mut self,
        now: Now,
        directory: &str,
        number: u64,
        state: Option<Box<RepositoryState>>,
        effects: &mut Vec<Effect>,
    ) {
        let followed = self.repositories.directories.get(directory);
        let Some(followed) = followed.filter(|followed| followed.number == number) else {
            return;
        };
        for session in followed.sessions.clone() {
            let seen = Input::RepositorySeen {
                session,
                directory: directory.to_owned(),
                state: state.clone(),
            };
            self.handle_input(now, seen, effects);
        }
    }
}
