//! What nobody reaches through the host, whatever place it lies in.
//!
//! The host's own data has its tokens: whoever reads them is the host's admin. And what the operating
//! system shows of processes and devices are no files of a project, unless a place was opened in it.

use std::fs;
use std::path::{Path, PathBuf};

use innkeeper_host::ResourceError;

/// Directories that are out of bounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forbidden {
    own: Vec<PathBuf>,
}

/// Where the operating system shows what is not files.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

impl Forbidden {
    pub(crate) fn new(own: &[PathBuf]) -> Self {
        let canonical = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        Self {
            own: own.iter().map(canonical).collect(),
        }
    }

    /// Whether something, reached from a place, is out of bounds.
    pub(crate) fn has(&self, root: &Path, path: &Path) -> bool {
        let is_own = self.own.iter().any(|own| path.starts_with(own));
        let is_system = |system: &&str| path.starts_with(system) && !root.starts_with(system);
        is_own || (cfg!(unix) && SYSTEM.iter().any(is_system))
    }

    /// Whether something that is out of bounds lies in a directory, so that it cannot go as a whole.
    pub(crate) fn is_within(&self, path: &Path) -> bool {
        self.own.iter().any(|own| own.starts_with(path))
    }

    pub(crate) fn check(&self, root: &Path, path: &Path) -> Result<(), ResourceError> {
        if self.has(root, path) {
            return Err(ResourceError::Refused(
                "this is the host's own or the operating system's, and served to nobody".to_owned(),
            ));
        }
        Ok(())
    }
}
