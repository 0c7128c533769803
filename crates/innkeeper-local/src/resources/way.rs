//! Where a path leads, and through which links.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Most links that a path is followed through, as the operating system does.
const MAX_LINKS: usize = 40;

/// The way that a path leads.
#[derive(Debug)]
pub(crate) struct Way {
    /// The links on it, each by the one path to it that has no other link in it.
    pub(crate) links: Vec<PathBuf>,
    /// Where it ends, without links, whether or not something is there.
    pub(crate) end: PathBuf,
}

/// Follows a path. Only for comparisons: files are opened through handles.
pub(crate) fn follow(path: &Path) -> Way {
    let mut links = Vec::new();
    let mut here = PathBuf::new();
    let mut rest = path.to_owned();
    loop {
        let mut parts = rest.components();
        match parts.next() {
            None => return Way { links, end: here },
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
