//! Which directories a scan depended on, and with that, where something must happen before another
//! scan can find something else.
//!
//! A scan looks into directories, some of which do not exist. Whatever would change its outcome
//! happens in one of them: a file comes, goes or is written, also behind a link. So these, and
//! nothing else, are what a watcher has to watch.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// The directories that a scan listed or looked into, whether they exist or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    directories: BTreeSet<PathBuf>,
}

impl Footprint {
    pub(crate) fn extend(&mut self, directories: impl IntoIterator<Item = PathBuf>) {
        self.directories.extend(directories);
    }

    /// The directories to watch, none of them recursively: those that exist, for each that does not
    /// the nearest one above it that does, and the one above each, where it can be replaced.
    pub fn watch_points(&self) -> BTreeSet<PathBuf> {
        let mut points = BTreeSet::new();
        for directory in &self.directories {
            let Some(nearest) = directory.ancestors().find(|path| path.is_dir()) else {
                continue;
            };
            points.insert(nearest.to_owned());
            if let Some(parent) = nearest.parent() {
                points.insert(parent.to_owned());
            }
        }
        points
    }

    /// Whether something that happened at a path can change the outcome of a scan. The directories
    /// above the footprint are watched too, and most of what happens there is of no interest.
    pub fn concerns(&self, path: &Path) -> bool {
        let is_inside = path.parent().is_some_and(|parent| self.directories.contains(parent));
        is_inside || self.has_below(path)
    }

    /// Whether a directory of the footprint is the path, or below it.
    fn has_below(&self, path: &Path) -> bool {
        let mut from = self
            .directories
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        from.next().is_some_and(|directory| directory.starts_with(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_beside_the_footprint_is_of_no_interest() {
        let mut footprint = Footprint::default();
        footprint.extend(["/srv/p/.github/skills", "/srv/p"].map(PathBuf::from));
        for path in [
            "/srv/p/x",
            "/srv/p",
            "/srv",
            "/srv/p/.github",
            "/srv/p/.github/skills/new",
        ] {
            assert!(footprint.concerns(Path::new(path)), "{path}");
        }
        for path in ["/srv/q", "/srv/p/.github/x", "/srv/p/.github/skills/new/deep"] {
            assert!(!footprint.concerns(Path::new(path)), "{path}");
        }
    }
}
