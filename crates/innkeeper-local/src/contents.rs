//! What tools gave back and no turn has room for, in files of the host's own.
//!
//! One directory per session, one file per content, both under names that are hashes: neither can lead anywhere
//! else. A file has the media type in its first line. It is written aside, synced and renamed, so that it is there
//! as a whole or not at all, whatever ends the process.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use innkeeper_host::{ClosedSessions, Content, ContentLimits, Contents};
use sha2::{Digest as _, Sha256};

/// How files that are being written end.
const UNFINISHED: &str = ".new";
/// Longest first line of a file.
const MAX_TYPE_BYTES: usize = 256;

/// Contents in a directory that only the host uses.
#[derive(Debug, Clone)]
pub struct KeptContents {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    limits: ContentLimits,
    /// What there is, the oldest first; `None` until somebody wants to know. Held while files come and go.
    index: Mutex<Option<Vec<Entry>>>,
    closed: ClosedSessions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    at: SystemTime,
    session: String,
    name: String,
    bytes: u64,
}

impl KeptContents {
    /// Contents in a directory, which is made when it is needed.
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

    /// Removes what was kept for a session, without a host.
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

    /// Removes what was kept for sessions that are gone: a process that ends in the middle of a disposal leaves
    /// it behind. `sessions` says which there are, and is asked after looking at what is kept, so that what comes
    /// meanwhile stays; `None` says that nobody knows.
    pub async fn sweep(&self, sessions: impl FnOnce() -> Option<Vec<String>> + Send + 'static) {
        let swept = self.do_it(move |inner| {
            let mut index = inner.lock();
            let entries = match index.as_mut() {
                Some(entries) => entries,
                None => index.insert(scan(&inner.directory)?),
            };
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
                tracing::info!(
                    directory = session,
                    "what was kept for a session that is gone is removed"
                );
                fs::remove_dir_all(inner.directory.join(session)).or_else(fine_if_gone)
            })
        });
        if let Err(problem) = swept.await {
            tracing::warn!(problem, "what is kept for sessions could not be looked through");
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
impl Contents for KeptContents {
    async fn keep(&self, session: &str, name: &str, content: Content) -> Result<(), String> {
        let most = self.room();
        if u64::try_from(content.bytes.len()).unwrap_or(u64::MAX) > most {
            return Err(format!("a session may keep {most} bytes"));
        }
        self.inner.closed.check(session)?;
        let (session, name) = (session.to_owned(), name.to_owned());
        self.do_it(move |inner| inner.keep(&session, name, &content)).await
    }

    async fn read(&self, session: &str, name: &str) -> Result<Option<Content>, String> {
        if !is_name(name) {
            return Ok(None);
        }
        let path = self.inner.directory.join(key_of(session)).join(name);
        self.do_it(move |_| read(&path)).await
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
            tracing::warn!(problem, "what was kept for a session that is gone could not be removed");
        }
    }
}

impl Inner {
    fn keep(&self, session: &str, name: String, content: &Content) -> io::Result<()> {
        if !is_name(&name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut index = self.lock();
        // Looked at under the lock: what is written before a session is closed is there when it is forgotten, and
        // nothing is written later.
        self.closed.check(session).map_err(io::Error::other)?;
        let session = key_of(session);
        let entries = match index.as_mut() {
            Some(entries) => entries,
            None => index.insert(scan(&self.directory)?),
        };
        let place = self.directory.join(&session);
        DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
        let bytes = write(&place, &name, content)?;
        entries.retain(|entry| (entry.session.as_str(), entry.name.as_str()) != (&*session, &*name));
        entries.push(Entry {
            at: SystemTime::now(),
            session: session.clone(),
            name,
            bytes,
        });
        let limits = self.limits;
        self.drop_oldest(entries, limits.session_bytes, |entry| entry.session == session);
        self.drop_oldest(entries, limits.total_bytes, |_| true);
        Ok(())
    }

    /// Makes room among some of what is kept. What was kept last stays.
    fn drop_oldest(&self, entries: &mut Vec<Entry>, most: u64, among: impl Fn(&Entry) -> bool) {
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
                tracing::warn!(%error, "a content that is kept no more could not be removed");
            }
            false
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Entry>>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fine_if_gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// A name for a session that is fit for a directory, whatever its URI is.
fn key_of(session: &str) -> String {
    let hash = Sha256::digest(session.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What is there; what was not finished when a process ended goes.
fn scan(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let sessions = match fs::read_dir(directory) {
        Ok(sessions) => sessions,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(entries),
        Err(error) => return Err(error),
    };
    for session in sessions.flatten() {
        let Ok(files) = fs::read_dir(session.path()) else {
            continue;
        };
        for file in files.flatten() {
            let (Ok(name), Ok(about)) = (file.file_name().into_string(), file.metadata()) else {
                continue;
            };
            if !is_name(&name) {
                if name.ends_with(UNFINISHED) {
                    // Somebody else would have to write into this directory for it to fail.
                    let _ = fs::remove_file(file.path());
                }
                continue;
            }
            entries.push(Entry {
                at: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                session: session.file_name().to_string_lossy().into_owned(),
                name,
                bytes: about.len(),
            });
        }
    }
    entries.sort_by_key(|entry| entry.at);
    Ok(entries)
}

fn write(place: &Path, name: &str, content: &Content) -> io::Result<u64> {
    let unfinished = place.join(format!("{name}{UNFINISHED}"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let content_type = content.content_type.as_deref().unwrap_or_default();
    let is_plain = content_type.len() < MAX_TYPE_BYTES && !content_type.contains(char::is_control);
    let first_line = format!("{}\n", if is_plain { content_type } else { "" });
    let written = file
        .write_all(first_line.as_bytes())
        .and_then(|()| file.write_all(&content.bytes))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&unfinished, place.join(name)))
        // The name has to be as safe as what it names, and so has the directory's.
        .and_then(|()| File::open(place)?.sync_all())
        .and_then(|()| place.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all()));
    if let Err(error) = written {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    Ok(u64::try_from(first_line.len() + content.bytes.len()).unwrap_or(u64::MAX))
}

fn read(path: &Path) -> io::Result<Option<Content>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(end) = bytes.iter().take(MAX_TYPE_BYTES).position(|byte| *byte == b'\n') else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is damaged"));
    };
    let rest = bytes.split_off(end + 1);
    bytes.pop();
    let content_type = String::from_utf8(bytes).ok().filter(|text| !text.is_empty());
    Ok(Some(Content {
        bytes: rest,
        content_type,
    }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const NAMES: [&str; 4] = ["aa", "bb", "cc", "dd"];

    fn kept(directory: &Path, session_bytes: u64, total_bytes: u64) -> KeptContents {
        let limits = ContentLimits {
            session_bytes,
            total_bytes,
        };
        KeptContents::new(directory.join("contents"), limits)
    }

    fn content(text: &str) -> Content {
        Content {
            bytes: text.as_bytes().to_vec(),
            content_type: Some("text/plain".to_owned()),
        }
    }

    async fn there(contents: &KeptContents, session: &str) -> Vec<&'static str> {
        let mut there = Vec::new();
        for name in NAMES {
            if contents.read(session, name).await.unwrap().is_some() {
                there.push(name);
            }
        }
        there
    }

    #[tokio::test]
    async fn res03_what_is_kept_is_read_by_a_later_life_and_only_by_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let contents = kept(directory.path(), 1000, 1000);
        contents.keep("s", "aa", content("one\ntwo")).await.unwrap();
        // A life that ended in the middle leaves nothing that counts.
        let place = directory.path().join("contents").join(key_of("s"));
        fs::write(place.join("bb.new"), "x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place), mode(&place.join("aa"))), (0o700, 0o600));
        let later = kept(directory.path(), 1000, 1000);
        assert_eq!(later.read("s", "aa").await, Ok(Some(content("one\ntwo"))));
        assert_eq!(later.read("other", "aa").await, Ok(None));
        assert_eq!(later.read("s", "../../secret").await, Ok(None));
        later.keep("s", "cc", content("x")).await.unwrap();
        assert!(!place.join("bb.new").exists());
        later.forget("s").await;
        assert!(there(&later, "s").await.is_empty() && !place.exists());
    }

    #[tokio::test]
    async fn p2_what_a_disposal_left_behind_is_swept() {
        let directory = tempfile::tempdir().unwrap();
        let contents = kept(directory.path(), 1000, 1000);
        for session in ["s", "t"] {
            contents.keep(session, "aa", content("one")).await.unwrap();
        }
        let later = kept(directory.path(), 1000, 1000);
        later.sweep(|| None).await;
        assert_eq!(there(&later, "t").await, ["aa"], "nobody knows");
        later.sweep(|| Some(vec!["s".to_owned()])).await;
        assert_eq!((there(&later, "s").await.len(), there(&later, "t").await.len()), (1, 0));
    }

    #[tokio::test]
    async fn p2_what_comes_after_the_end_of_its_session_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let contents = kept(directory.path(), 1000, 1000);
        contents.open("s");
        contents.keep("s", "aa", content("one")).await.unwrap();
        contents.close("s");
        contents.forget("s").await;
        let refused = contents.keep("s", "bb", content("late")).await.unwrap_err();
        assert!(refused.contains("its session is gone"), "{refused}");
        assert!(!directory.path().join("contents").join(key_of("s")).exists());
        // A session of the same URI begins anew.
        contents.open("s");
        contents.keep("s", "cc", content("new")).await.unwrap();
        assert_eq!(there(&contents, "s").await, ["cc"]);
    }

    #[tokio::test]
    async fn f17_beyond_the_bounds_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let contents = kept(directory.path(), 50, 70);
        for name in ["aa", "bb", "cc"] {
            contents.keep("s", name, content("0123456789")).await.unwrap();
        }
        assert_eq!(there(&contents, "s").await, ["bb", "cc"]);
        // Another session counts for itself, but not for all of them together.
        contents.keep("t", "dd", content("0123456789")).await.unwrap();
        assert_eq!(there(&contents, "t").await, ["dd"]);
        contents.keep("t", "aa", content("0123456789")).await.unwrap();
        assert_eq!(there(&contents, "s").await, ["cc"]);
        let too_much = contents.keep("s", "dd", content(&"x".repeat(60))).await;
        assert!(too_much.unwrap_err().contains("50 bytes"));
    }
}
