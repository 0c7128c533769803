//! The last states of terminals, one file each, so that they outlive the host.
//!
//! A file is named after its session and its terminal. The oldest files are removed when there are too many.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use innkeeper_host::terminals::TerminalRecord;
use sha2::{Digest, Sha256};

/// The most files.
const MAX_FILES: usize = 2000;
/// How many files are removed at once, so that the directory is not read for every terminal.
const SURPLUS: usize = 100;
/// Bytes of a hash in a file name.
const HASH_BYTES: usize = 12;

/// The directory of the files.
#[derive(Debug)]
pub(crate) struct Records {
    directory: PathBuf,
}

impl Records {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Writes a state; a reader finds the old one or the new one.
    pub(crate) fn write(&self, record: &TerminalRecord) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let name = hash(&record.uri);
        let path = self
            .directory
            .join(format!("{}-{name}.json", owner(record.session.as_deref())));
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        serde_json::to_writer(&mut file, &*record.state)?;
        // A claim by another session gives the file another name.
        for other in self.find(&name) {
            if other != path {
                fs::remove_file(other)?;
            }
        }
        file.persist(path).map_err(|error| error.error)?;
        self.prune()
    }

    /// Reads a state, as JSON.
    pub(crate) fn read(&self, uri: &str) -> Option<Vec<u8>> {
        let path = self.find(&hash(uri)).into_iter().next()?;
        fs::read(path).ok()
    }

    /// Removes a state.
    pub(crate) fn remove(&self, uri: &str) {
        for path in self.find(&hash(uri)) {
            let _ = fs::remove_file(path);
        }
    }

    /// Removes all states of a session.
    pub(crate) fn remove_session(&self, session: &str) -> io::Result<()> {
        let removed = owner(Some(session));
        let mut files = self.files().into_iter().filter(|path| owner_of(path) == removed);
        files.try_for_each(fs::remove_file)
    }

    /// Removes the states of sessions that are gone.
    pub(crate) fn sweep(&self, sessions: impl FnOnce() -> Option<Vec<String>>) {
        // Listed first: a session that is created meanwhile has none of these.
        let files = self.files();
        let Some(sessions) = sessions() else { return };
        let sessions = sessions.iter().map(|session| Some(session.as_str()));
        let known: HashSet<String> = sessions.chain([None]).map(owner).collect();
        for path in files.iter().filter(|path| !known.contains(owner_of(path))) {
            let _ = fs::remove_file(path);
        }
    }

    fn find(&self, name: &str) -> Vec<PathBuf> {
        let end = format!("-{name}.json");
        let files = self.files().into_iter();
        files.filter(|path| file_name(path).ends_with(&end)).collect()
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return Vec::new();
        };
        let files = entries.flatten().map(|entry| entry.path());
        files.filter(|path| file_name(path).ends_with(".json")).collect()
    }

    /// Removes the oldest files.
    fn prune(&self) -> io::Result<()> {
        let files = self.files();
        if files.len() < MAX_FILES + SURPLUS {
            return Ok(());
        }
        let written = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified());
        let mut files: Vec<(SystemTime, PathBuf)> = files
            .into_iter()
            .map(|path| (written(&path).unwrap_or(SystemTime::UNIX_EPOCH), path))
            .collect();
        files.sort();
        for (_, path) in files.iter().take(files.len().saturating_sub(MAX_FILES)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns the part of a file's name that says which session it belongs to.
fn owner_of(path: &Path) -> &str {
    file_name(path).split_once('-').unwrap_or_default().0
}

fn owner(session: Option<&str>) -> String {
    session.map_or_else(|| "client".to_owned(), hash)
}

fn hash(uri: &str) -> String {
    let digest = Sha256::digest(uri);
    digest
        .iter()
        .take(HASH_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn record(uri: &str, session: Option<&str>, title: &str) -> TerminalRecord {
        let state = json!({
            "title": title, "content": [], "lifecycle": { "status": "exited" },
            "claim": { "kind": "client", "clientId": "c" },
        });
        TerminalRecord {
            uri: uri.into(),
            session: session.map(Into::into),
            state: Arc::new(serde_json::from_value(state).expect("a state")),
        }
    }

    fn title(bytes: Option<Vec<u8>>) -> Option<String> {
        let value: serde_json::Value = serde_json::from_slice(&bytes?).expect("JSON");
        Some(value["title"].as_str().expect("a title").to_owned())
    }

    #[test]
    fn the_last_state_is_found_by_its_uri() {
        let directory = tempfile::tempdir().expect("a directory");
        let records = Records::new(directory.path().join("terminals"));
        assert_eq!(records.read("ahp-terminal:/a"), None);
        records.write(&record("ahp-terminal:/a", None, "one")).expect("written");
        records
            .write(&record("ahp-terminal:/a", Some("s"), "two"))
            .expect("written");
        records
            .write(&record("ahp-terminal:/b", None, "other"))
            .expect("written");
        assert_eq!(title(records.read("ahp-terminal:/a")).as_deref(), Some("two"));
        assert_eq!(records.files().len(), 2, "a state replaces the one before");
        records.remove("ahp-terminal:/a");
        assert_eq!(records.read("ahp-terminal:/a"), None);
        assert_eq!(title(records.read("ahp-terminal:/b")).as_deref(), Some("other"));
    }

    #[test]
    fn states_are_removed_with_their_session() {
        let directory = tempfile::tempdir().expect("a directory");
        let records = Records::new(directory.path().into());
        records.write(&record("t:/a", Some("one"), "a")).expect("written");
        records.write(&record("t:/b", Some("two"), "b")).expect("written");
        records.remove_session("one").expect("removed");
        assert_eq!(
            (records.read("t:/a"), title(records.read("t:/b"))),
            (None, Some("b".to_owned()))
        );
    }

    #[test]
    fn a_sweep_removes_the_states_of_unknown_sessions_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let records = Records::new(directory.path().into());
        for (uri, session) in [("t:/a", Some("gone")), ("t:/b", Some("here")), ("t:/c", None)] {
            records.write(&record(uri, session, uri)).expect("written");
        }
        records.sweep(|| None);
        assert_eq!(records.files().len(), 3, "the sessions are unknown");
        records.sweep(|| Some(vec!["here".to_owned()]));
        assert_eq!(records.read("t:/a"), None);
        assert_eq!(title(records.read("t:/b")).as_deref(), Some("t:/b"));
        assert_eq!(title(records.read("t:/c")).as_deref(), Some("t:/c"));
    }

    #[test]
    fn the_oldest_states_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let records = Records::new(directory.path().into());
        for number in 0..MAX_FILES + SURPLUS {
            fs::write(directory.path().join(format!("client-{number}.json")), "{}").expect("written");
        }
        records.write(&record("t:/new", None, "new")).expect("written");
        assert_eq!(records.files().len(), MAX_FILES);
        assert!(records.read("t:/new").is_some());
    }
}
