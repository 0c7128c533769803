//! Files of sessions beside the store: contents of tool results, records of changes, and last states of terminals.

use std::io;
use std::path::{Path, PathBuf};

use innkeeper_cli::discovery::DataDir;
use innkeeper_store::{Archive, FILE_NAME, Mode};
use innkeeper_terminals::LocalTerminals;
use innkeeper_workspace::{BlobStore, LocalChanges};

/// Directory in the data directory with the contents of sessions.
pub(crate) const CONTENTS: &str = "contents";

/// Directory in the data directory with snapshots of work trees and the checkpoints of sessions.
pub(crate) const CHANGES: &str = "changes";

/// Directory in the data directory with the last states of terminals.
pub(crate) const TERMINALS: &str = "terminals";

/// Removes the files of a session from a directory.
type Removal = fn(&Path, &str) -> io::Result<()>;

/// Removes the files of a session that is gone for good, without a host. Returns the directories in which some are left,
/// with the reason.
pub(crate) fn remove(dir: &DataDir, session: &str) -> Vec<(PathBuf, io::Error)> {
    let directories: [(&str, Removal); 3] = [
        (CONTENTS, BlobStore::remove),
        (CHANGES, LocalChanges::remove),
        (TERMINALS, LocalTerminals::remove_session),
    ];
    let removed = directories.map(|(name, remove)| {
        let directory = dir.file(name);
        remove(&directory, session).err().map(|error| (directory, error))
    });
    removed.into_iter().flatten().collect()
}

/// Removes the files of sessions that are gone, while a host runs.
pub(crate) async fn sweep(dir: &DataDir, contents: &BlobStore, changes: &LocalChanges) {
    let sessions = || {
        let store = dir.file(FILE_NAME);
        move || persisted_sessions(&store)
    };
    contents.sweep(sessions()).await;
    changes.sweep(sessions()).await;
    let (directory, sessions) = (dir.file(TERMINALS), sessions());
    let sweeping = tokio::task::spawn_blocking(move || LocalTerminals::sweep(&directory, sessions));
    if sweeping.await.is_err() {
        tracing::warn!("the directory of terminals could not be swept");
    }
}

/// Returns the URIs of all persisted sessions, if they can be read. A deleted session is one of them until its deletion
/// can no longer be undone.
fn persisted_sessions(store: &Path) -> Option<Vec<String>> {
    Archive::open(store, Mode::ReadOnly).ok()?.session_uris().ok()
}
