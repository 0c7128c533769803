//! The directories that a scan depended on.
//!
//! A scan looks into directories, some of which do not exist. Every change of its result happens in one of them: a file is
//! added, removed or written, also behind a symlink. So a watcher has to watch these directories and no others.
//!
//! Directories are identified by their paths without symlinks. The operating system watches directories and not paths: of
//! two paths that lead to one directory it names only one in its events.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symlinks on the path to one directory, as in operating systems.
const MAX_HOPS: usize = 40;
/// Maximum number of components that are resolved, of the path and of all symlinks on it.
const MAX_STEPS: usize = 4_096;

/// The directories that a scan listed or opened, whether they exist or not, without symlinks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    directories: BTreeSet<PathBuf>,
    /// The symlinks on their paths, whose targets may change.
    links: BTreeSet<PathBuf>,
}

impl Footprint {
    /// Adds directories, by the paths by which they were reached.
    pub(crate) fn extend(&mut self, directories: impl IntoIterator<Item = PathBuf>) {
        let mut known = HashMap::new();
        for directory in directories {
            let real = self.resolve(&directory, &mut known);
            self.directories.insert(real);
        }
    }

    /// Adds another footprint.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.directories.extend(other.directories.iter().cloned());
        self.links.extend(other.links.iter().cloned());
    }

    /// Resolves the symlinks of a path, also of one that does not exist: a broken symlink is valid as soon as its
    /// target exists. Records the symlinks on the path.
    fn resolve(&mut self, path: &Path, known: &mut HashMap<PathBuf, PathBuf>) -> PathBuf {
        let mut budget = LookupBudget::default();
        let (mut way, mut real) = (PathBuf::new(), PathBuf::new());
        for part in path.components() {
            way.push(part);
            if let Some(known) = known.get(&way) {
                real.clone_from(known);
                continue;
            }
            real = self.enter(real, part, &mut budget);
            known.insert(way.clone(), real.clone());
        }
        real
    }

    /// Resolves one more component after a path without symlinks. Not recursive: the author of symlinks decides how
    /// long the chain is, and must not decide how much stack it takes.
    fn enter(&mut self, mut real: PathBuf, part: Component<'_>, budget: &mut LookupBudget) -> PathBuf {
        let mut ahead = vec![part.as_os_str().to_owned()];
        while let Some(part) = ahead.pop() {
            match Path::new(&part).components().next() {
                Some(Component::ParentDir) => {
                    real.pop();
                }
                Some(Component::Normal(name)) => {
                    real.push(name);
                    if !budget.step() {
                        continue;
                    }
                    let Ok(target) = fs::read_link(&real) else {
                        continue;
                    };
                    self.links.insert(real.clone());
                    if !budget.hop() {
                        return real; // It leads nowhere, for the operating system too.
                    }
                    real.pop();
                    ahead.extend(target.components().rev().map(|part| part.as_os_str().to_owned()));
                }
                Some(Component::RootDir | Component::Prefix(_)) => real.push(&part),
                Some(Component::CurDir) | None => {}
            }
        }
        real
    }

    /// The directories to watch, none of them recursively: existing ones, the nearest existing parent of each missing
    /// one, and the parents of each, where it can be replaced.
    pub fn watch_points(&self) -> BTreeSet<PathBuf> {
        let mut points = BTreeSet::new();
        for directory in &self.directories {
            if let Some(nearest) = directory.ancestors().find(|path| path.is_dir()) {
                add_with_those_above(&mut points, nearest);
            }
        }
        for directory in self.links.iter().filter_map(|link| link.parent()) {
            if directory.is_dir() {
                add_with_those_above(&mut points, directory);
            }
        }
        points
    }

    /// Whether a path is directly inside a directory that was read.
    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.directories.contains(parent))
    }

    /// Whether a change at a path can change the result of a scan. The parents of the footprint are watched too, and
    /// most changes there do not matter.
    pub fn concerns(&self, path: &Path) -> bool {
        self.is_inside(path) || has_below(&self.directories, path) || has_below(&self.links, path)
    }
}

/// The remaining budget for resolving one path. One count for the whole path: symlinks to paths with
/// links in them would multiply.
struct LookupBudget {
    hops: usize,
    steps: usize,
}

impl Default for LookupBudget {
    fn default() -> Self {
        Self {
            hops: MAX_HOPS,
            steps: MAX_STEPS,
        }
    }
}

impl LookupBudget {
    fn hop(&mut self) -> bool {
        take_one(&mut self.hops)
    }

    fn step(&mut self) -> bool {
        take_one(&mut self.steps)
    }
}

fn take_one(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

/// How many parents of a directory are watched. Where the system watches whole trees, the topmost parent would watch
/// everything.
const LEVELS_ABOVE: usize = if cfg!(target_os = "macos") { 1 } else { usize::MAX };

fn add_with_those_above(points: &mut BTreeSet<PathBuf>, directory: &Path) {
    for above in directory.ancestors().take(LEVELS_ABOVE.saturating_add(1)) {
        // Those above this one are there already, too.
        if points.contains(above) && above != directory {
            break;
        }
        points.insert(above.to_owned());
    }
}

/// Whether one of the paths is this one, or below it.
fn has_below(paths: &BTreeSet<PathBuf>, path: &Path) -> bool {
    let mut from = paths.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
    from.next().is_some_and(|directory| directory.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_outside_the_footprint_do_not_matter() {
        let mut footprint = Footprint::default();
        let temp = tempfile::tempdir().unwrap();
        let srv = fs::canonicalize(temp.path()).unwrap();
        footprint.extend(["p/.github/skills", "p"].map(|path| srv.join(path)));
        for path in ["p/x", "p", "", "p/.github", "p/.github/skills/new"] {
            assert!(footprint.concerns(&srv.join(path)), "{path}");
        }
        for path in ["q", "p/.github/x", "p/.github/skills/new/deep"] {
            assert!(!footprint.concerns(&srv.join(path)), "{path}");
        }
    }

    /// Two ways to one directory are one directory, and so are two ways to one that is not there yet.
    #[cfg(unix)]
    #[test]
    fn directories_are_known_by_where_they_really_are() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        fs::create_dir(root.join("store")).unwrap();
        for (link, target) in [
            ("link", "store"),
            ("nowhere", "link/../store/new"),
            ("itself", "itself"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let mut footprint = Footprint::default();
        footprint.extend(["link", "store", "nowhere/deep", "itself"].map(|path| root.join(path)));
        assert!(footprint.concerns(&root.join("store/file")));
        assert!(footprint.concerns(&root.join("store/new")));
        assert!(footprint.concerns(&root.join("link")), "it may lead elsewhere tomorrow");
        assert!(!footprint.concerns(&root.join("other")));
        let points = footprint.watch_points();
        assert!(points.contains(&root) && points.contains(&root.join("store")));
        assert!(!points.contains(&root.join("link")), "one directory is watched once");
    }

    /// Each part of a way can be a link to another way: that must not multiply.
    #[cfg(unix)]
    #[test]
    fn links_made_to_be_slow_are_not() {
        let temp = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("a/a/a/a/a/a/a/a", temp.path().join("a")).unwrap();
        let mut footprint = Footprint::default();
        footprint.extend([temp.path().join("a/a/a/a")]);
        assert_eq!(footprint.directories.len(), 1);
    }

    /// A link may be as long as a path may be, and lead through itself: the author of a workspace
    /// decides that, and not how much stack it takes.
    #[cfg(unix)]
    #[test]
    fn links_through_themselves_take_no_stack() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let target = "x/".repeat(2_000);
        std::os::unix::fs::symlink(&target, root.join("x")).unwrap();
        // Each one leads to the next, and then through as many directories as fit.
        for number in 0..60 {
            let target = format!("y{}/{}", number + 1, "d/".repeat(1_990));
            std::os::unix::fs::symlink(target, root.join(format!("y{number}"))).unwrap();
        }
        for link in ["x", "y0"] {
            std::os::unix::fs::symlink(link, root.join(format!(".{link}"))).unwrap();
        }
        let ways = [".x/skills", ".y0/skills"].map(|way| root.join(way));
        let looking = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || {
            let mut footprint = Footprint::default();
            footprint.extend(ways);
            footprint
        });
        let footprint = looking.unwrap().join().unwrap();
        assert_eq!(footprint.directories.len(), 2);
        assert!(footprint.concerns(&root.join("x")) && footprint.concerns(&root.join(".y0")));
    }
}
