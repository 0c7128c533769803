//! Blobs on disk: tool results that are too long for a turn, and files as they were before a change.
//!
//! One directory per session, one file per content, both under names that are hashes: neither can lead anywhere
//! else. A file has the media type in its first line. It is written aside, synced and renamed, so that it is there
//! as a whole or not at all, whatever ends the process.

mod files;

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use innkeeper_host::contents::{ClosedSessions, ContentLimits, Contents};
use innkeeper_host::resources::Content;
use innkeeper_std::sync::{Mutex, MutexGuard};

use self::files::{fine_if_gone, is_name, key_of, scan};

/// Blobs in a directory that only the host uses.
#[derive(Debug, Clone)]
pub struct BlobStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    limits: ContentLimits,
    /// The index, the oldest blob first; `None` before the first use. Locked while files are added and removed.
    index: Mutex<Option<Vec<BlobEntry>>>,
    closed: ClosedSessions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct BlobEntry {
    at: SystemTime,
    session: String,
    name: String,
    bytes: u64,
}

impl BlobStore {
    /// Blobs in a directory, which is created on first use.
    pub fn new(directory: PathBuf, limits: ContentLimits) -> Self {
        Self {
            inner: Arc::new(Inner {
                directory,
                limits,
                index: Mutex::default(),
                closed: ClosedSessions::default(),
            }),
        }
    }

    /// Removes the blobs of a session, without a host.
    ///
    /// # Errors
    ///
    /// When something is left.
    pub fn remove(directory: &Path, session: &str) -> io::Result<()> {
        match fs::remove_dir_all(directory.join(key_of(session))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Lists the blobs of a session without a host, the latest first: names and times.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn list(directory: &Path, session: &str) -> io::Result<Vec<(String, SystemTime)>> {
        let mut files: Vec<(String, SystemTime)> = match fs::read_dir(directory.join(key_of(session))) {
            Ok(files) => files
                .flatten()
                .filter_map(|file| {
                    let name = file.file_name().into_string().ok()?;
                    let at = file.metadata().and_then(|about| about.modified()).ok()?;
                    is_name(&name).then_some((name, at))
                })
                .collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        files.sort_by(|(one, at), (other, later)| later.cmp(at).then_with(|| one.cmp(other)));
        Ok(files)
    }

    /// Reads a blob of a session, without a host. `None` if it was evicted.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn look(directory: &Path, session: &str, name: &str) -> io::Result<Option<Content>> {
        match is_name(name) {
            true => files::read(&directory.join(key_of(session)).join(name)),
            false => Ok(None),
        }
    }

    /// Removes the blobs of deleted sessions, which a process that ends during a disposal leaves behind. `sessions`
    /// returns the existing sessions. It runs after the directory is listed, so new blobs survive. `None` means
    /// unknown: nothing is removed.
    pub async fn sweep(&self, sessions: impl FnOnce() -> Option<Vec<String>> + Send + 'static) {
        let swept = self.do_it(move |inner| {
            let mut index = inner.lock();
            let entries = inner.entries(&mut index)?;
            if entries.is_empty() {
                return Ok(());
            }
            let Some(sessions) = sessions() else {
                return Ok(());
            };
            let keys: HashSet<String> = sessions.iter().map(|session| key_of(session)).collect();
            let mut gone: HashSet<String> = HashSet::new();
            entries.retain(|entry| {
                let stays = keys.contains(&entry.session);
                if !stays {
                    gone.insert(entry.session.clone());
                }
                stays
            });
            gone.iter().try_for_each(|session| {
                tracing::info!(directory = session, "blobs of a disposed session are removed");
                fs::remove_dir_all(inner.directory.join(session)).or_else(fine_if_gone)
            })
        });
        if let Err(problem) = swept.await {
            tracing::warn!(problem, "the directory of blobs could not be listed");
        }
    }

    async fn do_it<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Inner) -> io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let inner = Arc::clone(&self.inner);
        match tokio::task::spawn_blocking(move || what(&inner)).await {
            Ok(done) => done.map_err(|error| format!("the host's disk refused it ({error})")),
            Err(_) => Err("it failed; the host's log says more".to_owned()),
        }
    }
}

#[async_trait]
impl Contents for BlobStore {
    async fn keep(&self, session: &str, name: &str, content: Content) -> Result<(), String> {
        let most = self.room();
        if u64::try_from(content.bytes.len()).unwrap_or(u64::MAX) > most {
            return Err(format!("a session may keep {most} bytes"));
        }
        self.inner.closed.check(session)?;
        let (session, name) = (session.to_owned(), name.to_owned());
        let kept = self.do_it(move |inner| inner.keep(&session, name, &content, None));
        kept.await.map(|_| ())
    }

    async fn restore(&self, session: &str, name: &str, content: Content, kept: SystemTime) -> Result<bool, String> {
        if u64::try_from(content.bytes.len()).unwrap_or(u64::MAX) > self.room() {
            return Ok(false);
        }
        let (session, name) = (session.to_owned(), name.to_owned());
        self.do_it(move |inner| inner.keep(&session, name, &content, Some(kept)))
            .await
    }

    async fn share(&self, from: &str, names: Vec<String>, to: &str) -> Result<(), String> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.do_it(move |inner| inner.share(&from, &names, &to)).await
    }

    async fn read(&self, session: &str, name: &str) -> Result<Option<Content>, String> {
        if !is_name(name) {
            return Ok(None);
        }
        let path = self.inner.directory.join(key_of(session)).join(name);
        self.do_it(move |_| files::read(&path)).await
    }

    fn room(&self) -> u64 {
        self.inner.limits.session_bytes.min(self.inner.limits.total_bytes)
    }

    fn open(&self, session: &str) {
        self.inner.closed.open(session);
    }

    fn close(&self, session: &str) {
        self.inner.closed.close(session);
    }

    async fn forget(&self, session: &str) {
        let session = session.to_owned();
        let forgotten = self.do_it(move |inner| {
            let mut index = inner.lock();
            if let Some(entries) = index.as_mut() {
                let key = key_of(&session);
                entries.retain(|entry| entry.session != key);
            }
            Self::remove(&inner.directory, &session)
        });
        if let Err(problem) = forgotten.await {
            tracing::warn!(problem, "blobs of a disposed session could not be removed");
        }
    }
}

impl Inner {
    /// Keeps something, as old as it is or as the latest. Returns whether there was room for it.
    fn keep(&self, session: &str, name: String, content: &Content, kept: Option<SystemTime>) -> io::Result<bool> {
        if !is_name(&name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut index = self.lock();
        // Looked at under the lock: what is written before a session is closed is there when it is forgotten, and
        // nothing is written later.
        self.closed.check(session).map_err(io::Error::other)?;
        let session = key_of(session);
        let entries = self.entries(&mut index)?;
        let now = SystemTime::now();
        let at = match kept {
            Some(kept) => kept.min(now),
            // A clock that was set back must not make the latest the first to go.
            None => entries.last().map_or(now, |last| last.at.max(now)),
        };
        let place = self.place(&session)?;
        let bytes = files::write(&place, &name, content, at)?;
        let entry = BlobEntry {
            at,
            session: session.clone(),
            name,
            bytes,
        };
        add(entries, entry.clone());
        self.make_room(entries, &session);
        Ok(entries.contains(&entry))
    }

    /// Gives one session what another one has: the same files under second names, which are as old as the first.
    fn share(&self, from: &str, names: &[String], to: &str) -> io::Result<()> {
        let mut index = self.lock();
        self.closed.check(to).map_err(io::Error::other)?;
        let (from, to) = (key_of(from), key_of(to));
        let entries = self.entries(&mut index)?;
        let names: HashSet<&String> = names.iter().collect();
        let wanted = |entry: &&BlobEntry| entry.session == from && names.contains(&entry.name);
        let found: Vec<BlobEntry> = entries.iter().filter(wanted).cloned().collect();
        if found.is_empty() || from == to {
            return Ok(());
        }
        let place = self.place(&to)?;
        for entry in found {
            let source = self.directory.join(&from).join(&entry.name);
            match fs::hard_link(&source, place.join(&entry.name)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Not every file system has second names.
                Err(_) => match files::read(&source)? {
                    Some(content) => drop(files::write(&place, &entry.name, &content, entry.at)?),
                    None => continue,
                },
            }
            let session = to.clone();
            add(entries, BlobEntry { session, ..entry });
        }
        files::sync(&place)?;
        self.make_room(entries, &to);
        Ok(())
    }

    /// Returns the index.
    fn entries<'a>(&self, index: &'a mut Option<Vec<BlobEntry>>) -> io::Result<&'a mut Vec<BlobEntry>> {
        match index {
            Some(entries) => Ok(entries),
            None => Ok(index.insert(scan(&self.directory)?)),
        }
    }

    /// The directory of a session, which is there then.
    fn place(&self, session: &str) -> io::Result<PathBuf> {
        let place = self.directory.join(session);
        DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
        Ok(place)
    }

    fn make_room(&self, entries: &mut Vec<BlobEntry>, session: &str) {
        let limits = self.limits;
        self.drop_oldest(entries, limits.session_bytes, |entry| entry.session == session);
        self.drop_oldest(entries, limits.total_bytes, |_| true);
    }

    /// Makes room among some of what is kept. The latest blob stays.
    fn drop_oldest(&self, entries: &mut Vec<BlobEntry>, most: u64, among: impl Fn(&BlobEntry) -> bool) {
        let mut total: u64 = entries
            .iter()
            .filter(|entry| among(entry))
            .map(|entry| entry.bytes)
            .sum();
        let last = entries.len().saturating_sub(1);
        let mut number = 0;
        entries.retain(|entry| {
            let is_last = number == last;
            number += 1;
            if total <= most || is_last || !among(entry) {
                return true;
            }
            total -= entry.bytes;
            let path = self.directory.join(&entry.session).join(&entry.name);
            if let Err(error) = fs::remove_file(&path).or_else(fine_if_gone) {
                tracing::warn!(%error, "an old blob could not be removed");
            }
            false
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<BlobEntry>>> {
        self.index.lock()
    }
}

/// Adds what is kept in its place, by age.
fn add(entries: &mut Vec<BlobEntry>, entry: BlobEntry) {
    entries.retain(|other| (&other.session, &other.name) != (&entry.session, &entry.name));
    let place = entries.partition_point(|other| other.at <= entry.at);
    entries.insert(place, entry);
}

#[cfg(test)]
mod tests;
