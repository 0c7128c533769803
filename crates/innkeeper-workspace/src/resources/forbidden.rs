//! Paths that no client reaches, whatever root they are below.
//!
//! The host's own data has its tokens, and with these a client would be the host's admin. The files with which the
//! operating system shows processes and devices belong to no project: the environment of a process has its keys.

use std::path::{Path, PathBuf};

use innkeeper_host::resources::ResourceError;
use innkeeper_std::{FollowedPath, canonical_prefix, follow};

/// Directories that are out of bounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forbidden {
    own: Vec<PathBuf>,
    /// The links by which the host comes to its own data.
    links: Vec<PathBuf>,
}

/// Where the operating system shows what is not files.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Where it keeps files in memory; a place that was opened there is one of files.
const IN_MEMORY: &str = "/dev/shm";

impl Forbidden {
    /// The paths need not exist yet: a path that the host creates later, or that another program could create in its
    /// stead, is forbidden from the start.
    pub(crate) fn new(own: &[PathBuf]) -> Self {
        let mut forbidden = Self::default();
        for path in own {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let FollowedPath { links, end } = follow(&path);
            add(&mut forbidden.own, canonical_prefix(&end));
            // By the names that the host will use, too.
            add(&mut forbidden.own, end);
            add(&mut forbidden.own, path);
            for link in links {
                add(&mut forbidden.links, link);
            }
        }
        forbidden
    }

    /// Whether something, reached from a place, is out of bounds.
    pub(crate) fn has(&self, root: &Path, path: &Path) -> bool {
        let is_own = self.own.iter().any(|own| path.starts_with(own));
        let is_in_memory = root.starts_with(IN_MEMORY) && path.starts_with(IN_MEMORY);
        let is_system = cfg!(unix) && SYSTEM.iter().any(|system| path.starts_with(system));
        is_own || (is_system && !is_in_memory)
    }

    /// Whether something that is out of bounds, or a link that leads to it, lies in a directory or is this
    /// itself, so that it can neither go nor be replaced: the host would find other data the next time it
    /// starts, or none.
    pub(crate) fn is_within(&self, path: &Path) -> bool {
        let mut needed = self.own.iter().chain(&self.links);
        needed.any(|needed| needed.starts_with(path))
    }

    pub(crate) fn check(&self, root: &Path, path: &Path) -> Result<(), ResourceError> {
        if self.has(root, path) {
            return Err(ResourceError::Refused(
                "this path belongs to the host or the operating system, and is not served to clients".to_owned(),
            ));
        }
        Ok(())
    }
}

fn add(paths: &mut Vec<PathBuf>, path: PathBuf) {
    if !paths.contains(&path) {
        paths.push(path);
    }
}
