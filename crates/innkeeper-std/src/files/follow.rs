//! Paths compared with paths: where they lead, whether or not something is there.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Most symlinks that a path is followed through, as operating systems do.
const MAX_LINKS: usize = 40;
/// Maximum names that are looked up for one path, those of the symlinks included.
const MAX_STEPS: usize = 4_096;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedPath {
    /// The symlinks on the way, each by its path without other symlinks.
    pub links: Vec<PathBuf>,
    /// The path without symlinks.
    pub end: PathBuf,
}

/// Follows the symlinks of a path that need not exist. Only for comparisons: files are opened through handles.
pub fn follow(path: &Path) -> FollowedPath {
    let mut links = Vec::new();
    let mut end = PathBuf::new();
    let names = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    // A list and no recursion: the author of the symlinks must not decide how much stack they take.
    let mut ahead = names(path);
    let mut steps = 0;
    while let Some(part) = ahead.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => drop(end.pop()),
            Some(Component::Normal(name)) => {
                end.push(name);
                steps += 1;
                if steps <= MAX_STEPS
                    && links.len() < MAX_LINKS
                    && let Ok(target) = fs::read_link(&end)
                {
                    links.push(end.clone());
                    end.pop();
                    ahead.extend(names(&target));
                }
            }
            Some(Component::RootDir | Component::Prefix(_)) => end.push(&part),
            Some(Component::CurDir) | None => {}
        }
    }
    FollowedPath { links, end }
}

/// The path as the operating system spells it, as far as it exists.
pub fn canonical_prefix(path: &Path) -> PathBuf {
    let mut known = path.ancestors().filter_map(|part| {
        let canonical = fs::canonicalize(part).ok()?;
        let rest = path.strip_prefix(part).ok()?;
        Some(canonical.components().chain(rest.components()).collect())
    });
    known.next().unwrap_or_else(|| path.to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_where_nothing_exists() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(temp.path()).expect("there");
        symlink("missing", root.join("one")).expect("a link");
        symlink(root.join("one/deep"), root.join("two")).expect("a link");
        let followed = follow(&root.join("two/../file"));
        assert_eq!(followed.end, root.join("missing/file"));
        assert_eq!(followed.links, [root.join("two"), root.join("one")]);
        assert_eq!(canonical_prefix(&root.join("no/such/file")), root.join("no/such/file"));
    }

    #[test]
    fn a_loop_ends() {
        let temp = tempfile::tempdir().expect("a directory");
        symlink("loop", temp.path().join("loop")).expect("a link");
        assert_eq!(follow(&temp.path().join("loop")).links.len(), MAX_LINKS);
    }
}
