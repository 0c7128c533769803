//! The services of a host that work with the files of its machine: resources, `@` completions, repositories, blobs.
//!
//! [`Workspace`] finds the files that `@` completes to. Start with `find.rs`: a walk that knows
//! what Git ignores, stays within its directories, and ends in time; `rank.rs` decides which of the
//! files are shown, and `uri.rs` turns `file:` URIs into paths and back.
//!
//! [`LocalResources`] serves files to clients, confined to what each may reach; start with
//! `resources.rs`.
//!
//! [`LocalRepositories`] looks at the Git repositories that sessions work in; start with `repository.rs`.
//!
//! [`LocalChanges`] computes which files sessions and turns changed; start with `changes.rs`.
//!
//! [`BlobStore`] keeps what tools gave back and no turn has room for.

#![warn(missing_docs)]

mod changes;
mod contents;
mod find;
mod git;
mod rank;
mod repository;
mod resources;
mod uri;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::completions::{Files, FoundFile};
use tokio::sync::Semaphore;

pub use changes::LocalChanges;
pub use contents::BlobStore;
pub use find::{FileHit, find_files};
pub use repository::LocalRepositories;
pub use resources::{LocalResources, ResourceLimits};

/// The longest time that a completion takes.
const BUDGET: Duration = Duration::from_millis(300);
/// How many look through directories at the same time; the others wait for their turn.
const MAX_WALKS: usize = 4;

/// The files of the working directories on this machine.
///
/// ```
/// use innkeeper_host::completions::Files;
/// use innkeeper_workspace::Workspace;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let here = std::env::current_dir().unwrap();
/// let here = format!("file://{}", here.display());
/// let found = Workspace::new().find(&[here], "cargo", 10).await;
/// assert!(found.iter().any(|file| file.label == "Cargo.toml"));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Workspace {
    budget: Duration,
    walks: Arc<Semaphore>,
}

impl Workspace {
    /// Searches for at most 300 milliseconds, so that a user who types does not wait.
    pub fn new() -> Self {
        Self::with_budget(BUDGET)
    }

    /// Looks for at most this long, and shows what it found until then.
    pub fn with_budget(budget: Duration) -> Self {
        Self {
            budget,
            walks: Arc::new(Semaphore::new(MAX_WALKS)),
        }
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Files for Workspace {
    async fn check_directory(&self, uri: &str) -> Result<(), String> {
        let Some(path) = uri::to_path(uri) else {
            return Err("is not the URI of a directory on this host".to_owned());
        };
        let looking = tokio::task::spawn_blocking(move || std::fs::metadata(path));
        match looking.await {
            Ok(Ok(found)) if found.is_dir() => Ok(()),
            Ok(Ok(_)) => Err("is a file; a session works in a directory".to_owned()),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Err("there is no such directory on this host; create it, or choose another".to_owned())
            }
            Ok(Err(error)) => Err(format!("cannot be opened: {error}")),
            Err(error) => Err(format!("the check failed: {error}")),
        }
    }

    async fn find(&self, directories: &[String], query: &str, limit: usize) -> Vec<FoundFile> {
        let directories: Vec<PathBuf> = directories.iter().filter_map(|uri| uri::to_path(uri)).collect();
        if directories.is_empty() {
            return Vec::new();
        }
        let Ok(permit) = Arc::clone(&self.walks).acquire_owned().await else {
            return Vec::new();
        };
        let several = directories.len() > 1;
        let (query, budget) = (query.to_owned(), self.budget);
        let walk = tokio::task::spawn_blocking(move || {
            // Kept until the walk is over, also when the caller stopped waiting.
            let _permit = permit;
            find_files(&directories, &query, limit, budget)
        });
        match walk.await {
            Ok(hits) => hits.iter().filter_map(|hit| found(hit, several)).collect(),
            Err(error) => {
                tracing::warn!(%error, "looking for files failed");
                Vec::new()
            }
        }
    }
}

fn found(hit: &FileHit, several: bool) -> Option<FoundFile> {
    let directory = hit.directory.file_name().unwrap_or(hit.directory.as_os_str());
    Some(FoundFile {
        uri: uri::from_path(&hit.path)?,
        label: hit.label(),
        description: several.then(|| directory.to_string_lossy().into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cmp01_files_are_found_by_uri_and_come_back_as_uris() {
        let one = tempfile::Builder::new()
            .prefix("one with space")
            .tempdir()
            .expect("a directory");
        let two = tempfile::tempdir().expect("a directory");
        std::fs::write(one.path().join("größe 100%.md"), "").expect("a file");
        std::fs::write(two.path().join("grimm.md"), "").expect("a file");
        let uris: Vec<String> = [one.path(), two.path()]
            .into_iter()
            .filter_map(uri::from_path)
            .collect();
        assert!(uris[0].contains("one%20with%20space"), "{uris:?}");
        let workspace = Workspace::with_budget(Duration::from_secs(30));
        let found = workspace.find(&uris, "GR", 10).await;
        let labels: Vec<&str> = found.iter().map(|file| file.label.as_str()).collect();
        assert_eq!(labels, ["grimm.md", "größe 100%.md"]);
        assert!(found[1].uri.ends_with("/gr%C3%B6%C3%9Fe%20100%25.md"), "{found:?}");
        let name = two.path().file_name().map(|name| name.to_string_lossy().into_owned());
        assert_eq!(found[0].description, name, "several directories are told apart");
        let alone = workspace.find(&uris[1..], "gr", 10).await;
        assert_eq!(alone[0].description, None);
    }

    #[tokio::test]
    async fn cmp01_missing_directories_are_skipped() {
        let uris = [
            "https://example.org/x",
            "file://elsewhere/x",
            "file:///no/such/directory",
            "x",
        ];
        let uris: Vec<String> = uris.into_iter().map(str::to_owned).collect();
        assert!(Workspace::new().find(&uris, "", 10).await.is_empty());
    }
}
