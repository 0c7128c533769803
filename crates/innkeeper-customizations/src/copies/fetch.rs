//! Reads a plugin from its client, file by file, with limits for everything that a client decides.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use innkeeper_host::ClientId;
use innkeeper_host::customizations::{ClientEntry, ClientFiles, ClientPlugin};
use innkeeper_host::reverse_requests::ClientRequestError;
use tokio::task::JoinSet;

use super::names;

/// Timeout of a copy.
const TIME: Duration = Duration::from_secs(60);
/// Maximum number of files.
const MAX_FILES: usize = 2_000;
/// Maximum number of directories.
const MAX_DIRECTORIES: usize = 1_000;
/// Maximum number of entries of one directory.
const MAX_ENTRIES: usize = 2_000;
/// Maximum depth of directories.
const MAX_DEPTH: usize = 12;
/// Maximum bytes of one file.
const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum bytes of all files together.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of files that are requested at once.
const AT_ONCE: usize = 4;
/// First wait before an overloaded client is asked again. It doubles each time.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// Longest wait.
const MAX_BUSY_PAUSE: Duration = Duration::from_secs(2);

/// Why a plugin was not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The reason, for users.
    pub(crate) why: String,
    /// Whether the client is only disconnected, and may return.
    pub(crate) is_away: bool,
}

impl Failure {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            is_away: false,
        }
    }

    fn of(name: &str, error: &ClientRequestError) -> Self {
        let is_away = matches!(
            error,
            ClientRequestError::NotConnected(_) | ClientRequestError::Disconnected
        );
        let why = match is_away {
            true => format!("{error}; it is tried again once the client is back"),
            false => format!("{name}: {error}"),
        };
        Self { why, is_away }
    }
}

/// Copies all files of a plugin into an empty directory.
pub(super) async fn fetch(files: &ClientFiles, plugin: &ClientPlugin, into: &Path) -> Result<(), Failure> {
    match tokio::time::timeout(TIME, Fetch::new(files, plugin, into).run()).await {
        Ok(done) => done,
        Err(_) => Err(Failure::new(format!(
            "it did not arrive within {} seconds: publish it again, or make it smaller",
            TIME.as_secs()
        ))),
    }
}

struct Fetch<'a> {
    files: &'a ClientFiles,
    client: &'a ClientId,
    directories: VecDeque<Source>,
    reads: JoinSet<Result<usize, Failure>>,
    n_directories: usize,
    n_files: usize,
    n_bytes: usize,
}

/// A file or directory of the plugin.
#[derive(Debug, Clone)]
struct Source {
    uri: String,
    /// The target path.
    path: PathBuf,
    /// Its path in the plugin, for users.
    name: String,
    depth: usize,
}

impl Source {
    fn below(&self, name: &str) -> Self {
        Self {
            uri: names::below(&self.uri, name),
            path: self.path.join(name),
            name: match self.name.as_str() {
                "." => name.to_owned(),
                directory => format!("{directory}/{name}"),
            },
            depth: self.depth + 1,
        }
    }
}

impl<'a> Fetch<'a> {
    fn new(files: &'a ClientFiles, plugin: &'a ClientPlugin, into: &Path) -> Self {
        let root = Source {
            uri: plugin.uri.clone(),
            path: into.to_owned(),
            name: ".".to_owned(),
            depth: 0,
        };
        Self {
            files,
            client: &plugin.client,
            directories: VecDeque::from([root]),
            reads: JoinSet::new(),
            n_directories: 0,
            n_files: 0,
            n_bytes: 0,
        }
    }

    async fn run(mut self) -> Result<(), Failure> {
        while let Some(directory) = self.directories.pop_front() {
            self.n_directories += 1;
            if self.n_directories > MAX_DIRECTORIES {
                return Err(Failure::new(format!("it has more than {MAX_DIRECTORIES} directories")));
            }
            let listed = patiently(|| self.files.list(self.client, &directory.uri, MAX_ENTRIES)).await;
            let listed = listed.map_err(|error| Failure::of(&directory.name, &error))?;
            self.take_in(&directory, listed).await?;
        }
        while let Some(read) = self.reads.join_next().await {
            self.count(read)?;
        }
        Ok(())
    }

    /// Queues directories, and requests files.
    async fn take_in(&mut self, directory: &Source, listed: Vec<ClientEntry>) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        for ClientEntry { name, is_directory } in listed {
            if !names::is_plain(&name) {
                let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
                let why = format!("{} lists `{shown}`, which is not a valid file name", directory.name);
                return Err(Failure::new(why));
            }
            if names::is_left_out(&name) {
                continue;
            }
            if !seen.insert(name.clone()) {
                return Err(Failure::new(format!("{} lists `{name}` twice", directory.name)));
            }
            let place = directory.below(&name);
            if !is_directory {
                self.ask_for(place).await?;
                continue;
            }
            if place.depth > MAX_DEPTH {
                let why = format!("{} is nested more than {MAX_DEPTH} directories deep", place.name);
                return Err(Failure::new(why));
            }
            tokio::fs::create_dir(&place.path)
                .await
                .map_err(|error| cannot_keep(&error))?;
            self.directories.push_back(place);
        }
        Ok(())
    }

    async fn ask_for(&mut self, place: Source) -> Result<(), Failure> {
        self.n_files += 1;
        if self.n_files > MAX_FILES {
            return Err(Failure::new(format!("it has more than {MAX_FILES} files")));
        }
        if self.reads.len() >= AT_ONCE
            && let Some(read) = self.reads.join_next().await
        {
            self.count(read)?;
        }
        let (files, client) = (self.files.clone(), self.client.clone());
        self.reads.spawn(async move {
            let content = patiently(|| files.read(&client, &place.uri, MAX_FILE_BYTES)).await;
            let content = content.map_err(|error| Failure::of(&place.name, &error))?;
            let written = write(&place.path, &content.bytes).await;
            written.map_err(|error| cannot_keep(&error))?;
            Ok(content.bytes.len())
        });
        Ok(())
    }

    fn count(&mut self, read: Result<Result<usize, Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
        self.n_bytes += read.map_err(|_| Failure::new("it cannot be read"))??;
        if self.n_bytes > MAX_BYTES {
            return Err(Failure::new(format!("it has more than {MAX_BYTES} bytes")));
        }
        Ok(())
    }
}

/// Sends a request to a client, and again if the client is overloaded: the files copied so far are worth the wait,
/// which counts for the timeout of the copy.
async fn patiently<T, Asking>(ask: impl Fn() -> Asking) -> Result<T, ClientRequestError>
where
    Asking: Future<Output = Result<T, ClientRequestError>>,
{
    let mut pause = BUSY_PAUSE;
    loop {
        match ask().await {
            Err(ClientRequestError::Busy) => tokio::time::sleep(pause).await,
            answer => return answer,
        }
        pause = pause.saturating_mul(2).min(MAX_BUSY_PAUSE);
    }
}

/// Writes a file. The protocol does not say which files are executable, but hooks and servers of plugins start them by
/// their paths. So a file that begins like a program becomes executable.
async fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    tokio::fs::write(path, bytes).await?;
    #[cfg(unix)]
    if is_program(bytes) {
        use std::os::unix::fs::PermissionsExt as _;
        tokio::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).await?;
    }
    Ok(())
}

#[cfg(unix)]
fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(b"#!") || bytes.starts_with(b"\x7fELF")
}

fn cannot_keep(error: &std::io::Error) -> Failure {
    Failure::new(format!(
        "its copy cannot be stored ({}): check the data directory",
        error.kind()
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn p20_a_client_that_is_asked_too_much_is_asked_again_for_the_same_file() {
        let asked = AtomicUsize::new(0);
        let answer = patiently(async || match asked.fetch_add(1, Ordering::Relaxed) {
            0..8 => Err(ClientRequestError::Busy),
            _ => Ok("the file"),
        });
        assert_eq!(answer.await, Ok("the file"));
        let answer: Result<(), _> = patiently(async || Err(ClientRequestError::Disconnected)).await;
        assert!(Failure::of("x", &answer.unwrap_err()).is_away);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn p20_programs_of_a_plugin_can_be_started_and_nothing_else() {
        use std::os::unix::fs::PermissionsExt as _;

        let temp = tempfile::tempdir().unwrap();
        for (name, bytes, mode) in [
            ("check.sh", b"#!/bin/sh\n".as_slice(), Some(0o700)),
            ("server", b"\x7fELF\x02", Some(0o700)),
            ("SKILL.md", b"# Not a program\n", None),
            ("empty", b"", None),
        ] {
            let path = temp.path().join(name);
            write(&path, bytes).await.unwrap();
            let found = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode.unwrap_or(found & 0o666), found, "{name}");
        }
    }
}
