//! What nobody reaches through the host, whatever place it lies in.
//!
//! The host's own data has its tokens: whoever reads them is the host's admin. And what the operating
//! system shows of processes and devices are no files of a project, unless a place was opened in it.

use std::fs;
use std::path::{Component, Path, PathBuf};

use innkeeper_host::ResourceError;

/// Directories that are out of bounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forbidden {
    own: Vec<PathBuf>,
    /// The links by which the host comes to its own data.
    links: Vec<PathBuf>,
}

/// Most links that the way to the host's own data is followed through, as the operating system does.
const MAX_LINKS: usize = 40;

/// Where the operating system shows what is not files.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

impl Forbidden {
    pub(crate) fn new(own: &[PathBuf]) -> Self {
        let canonical = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let mut links = Vec::new();
        for link in own.iter().flat_map(|path| links_on_the_way(path)) {
            if !links.contains(&link) {
                links.push(link);
            }
        }
        Self {
            own: own.iter().map(canonical).collect(),
            links,
        }
    }

    /// Whether something, reached from a place, is out of bounds.
    pub(crate) fn has(&self, root: &Path, path: &Path) -> bool {
        let is_own = self.own.iter().any(|own| path.starts_with(own));
        let is_system = |system: &&str| path.starts_with(system) && !root.starts_with(system);
        is_own || (cfg!(unix) && SYSTEM.iter().any(is_system))
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
                "this is the host's own or the operating system's, and served to nobody".to_owned(),
            ));
        }
        Ok(())
    }
}

/// Finds the links that a path leads through, each by the one path to it that has no other link in it.
fn links_on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut here = PathBuf::new();
    let mut rest = path.to_owned();
    loop {
        let mut parts = rest.components();
        match parts.next() {
            None => return links,
            Some(Component::ParentDir) => drop(here.pop()),
            Some(part) => here.push(part),
        }
        let left = parts.as_path().to_owned();
        rest = match fs::read_link(&here) {
            Ok(target) if links.len() < MAX_LINKS => {
                links.push(here.clone());
                here.pop();
                target.join(left)
            }
            _ => left,
        };
    }
}
