//! Operations of clients on files, and attempts to reach others.

mod closed_roots;
mod confinement;
mod links;
mod names;
mod permissions;
mod races;
mod watching;
mod whole;
mod writing;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use innkeeper_host::resources::{AllowedRoot, ChangeKind, Transfer, WatchSpec, Write, WriteMode};
use innkeeper_host::resources::{ChangeSink, EntryKind, ResourceError, ResourceKind, Resources};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{LocalResources, MAX_AT_ONCE, ResourceLimits};
use crate::uri::from_path;

/// A project that a client works in, and secrets beside it.
struct Fixture {
    dir: TempDir,
    resources: LocalResources,
}

fn scene() -> Fixture {
    scene_in(TempDir::new().expect("a directory"))
}

/// The same in a directory of the test's choice.
fn scene_in(dir: TempDir) -> Fixture {
    let root = fs::canonicalize(dir.path()).expect("there");
    fs::create_dir_all(root.join("project/src")).expect("a directory");
    fs::create_dir_all(root.join("outside/deep")).expect("a directory");
    fs::create_dir_all(root.join("project/.inn")).expect("a directory");
    fs::write(root.join("project/src/main.rs"), "fn main() {}").expect("a file");
    fs::write(root.join("project/.inn/token"), "hush").expect("a file");
    fs::write(root.join("outside/secret"), "hush").expect("a file");
    let limits = ResourceLimits {
        bytes: 1000,
        entries: 20,
        watched_directories: 10,
        watched_entries: 100,
    };
    let resources = LocalResources::new(limits, &[root.join("project/.inn")]);
    Fixture { dir, resources }
}

impl Fixture {
    fn path(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("there").join(path)
    }

    fn uri(&self, path: &str) -> String {
        from_path(&self.path(path)).expect("absolute")
    }

    fn reach(&self, path: &str, write: bool, exact: bool) -> Vec<AllowedRoot> {
        let uri = self.uri(path);
        vec![AllowedRoot { uri, write, exact }]
    }

    /// The working directory of a session that the client drives.
    fn project(&self) -> Vec<AllowedRoot> {
        self.reach("project", true, false)
    }

    async fn read(&self, reaches: &[AllowedRoot], uri: &str) -> Result<String, ResourceError> {
        let content = self.resources.read(reaches, uri, 1000).await?;
        Ok(String::from_utf8_lossy(&content.bytes).into_owned())
    }

    async fn write(&self, path: &str, data: &str) -> Result<(), ResourceError> {
        self.resources.write(&self.project(), self.writing(path, data)).await
    }

    fn writing(&self, path: &str, data: &str) -> Write {
        Write {
            uri: self.uri(path),
            data: data.into(),
            create_only: false,
            mode: WriteMode::Truncate,
            position: 0,
            if_match: None,
        }
    }

    fn transfer(&self, source: &str, destination: &str) -> Transfer {
        Transfer {
            source: self.uri(source),
            destination: self.uri(destination),
            fail_if_exists: false,
        }
    }
}

fn is_denied<T>(outcome: &Result<T, ResourceError>) -> bool {
    matches!(
        outcome,
        Err(ResourceError::Outside { .. } | ResourceError::Refused(_) | ResourceError::Invalid { .. })
    )
}
