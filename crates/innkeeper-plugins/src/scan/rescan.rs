//! Repeated scans of the same sources.

use std::path::PathBuf;

use crate::scan::Sources;
use crate::scan::parts::Parts;
use crate::tree::Tree;

/// Sources that are read repeatedly. Only changed parts are read again. A [`TreeWatcher`](crate::TreeWatcher) does this
/// by itself; this is for callers that know the changes.
///
/// ```
/// # let temp = tempfile::tempdir().unwrap();
/// # let workspace = temp.path().canonicalize().unwrap();
/// use innkeeper_plugins::{Rescan, Sources};
///
/// let mut rescan = Rescan::new(Sources {
///     workspaces: vec![workspace.clone()],
///     ..Sources::default()
/// });
/// let before = rescan.scan();
///
/// std::fs::write(workspace.join("AGENTS.md"), "Be kind.\n").unwrap();
/// assert_eq!(rescan.scan(), before, "no change was reported");
/// rescan.forget([workspace.join("AGENTS.md")]);
/// assert_ne!(rescan.scan(), before);
/// ```
#[derive(Debug)]
pub struct Rescan {
    sources: Sources,
    parts: Parts,
}

impl Rescan {
    /// Nothing is read yet.
    pub fn new(sources: Sources) -> Self {
        Self {
            sources,
            parts: Parts::default(),
        }
    }

    /// Reads the parts that are not cached. It blocks, so call it where blocking is allowed.
    pub fn scan(&mut self) -> Tree {
        self.parts.scan(&self.sources)
    }

    /// Something happened at these paths, which have no links in them. Parts that depended on them are read
    /// again by the next scan.
    pub fn forget(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.parts.forget(&paths.into_iter().collect());
    }

    /// Everything is read again by the next scan.
    pub fn forget_all(&mut self) {
        self.parts.forget_all();
    }
}
