//! Finds the files of directories that fit a query: what Git ignores is ignored, nothing outside is seen, and it ends.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use innkeeper_std::{ConfinedRoot, IgnoreFiles, Walk, WalkEnd};

use crate::rank::{Query, Rank};

/// Maximum entries that one query visits in each of its directories.
const MAX_VISITED: usize = 200_000;

/// A file that fits what was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHit {
    /// Where it is.
    pub path: PathBuf,
    /// The directory it was found in.
    pub directory: PathBuf,
}

impl FileHit {
    /// Its path within the directory, with `/` on every system.
    pub fn label(&self) -> String {
        label(&self.path, &self.directory)
    }
}

/// Finds the files below some directories that fit a query, the best first. A match in the name ranks before one in the
/// path, and a shorter path before a longer one with the same score.
///
/// It blocks. It takes at most `budget`, visits at most 200,000 entries of each directory, and then returns the best
/// files that it has seen.
pub fn find_files(directories: &[PathBuf], query: &str, limit: usize, budget: Duration) -> Vec<FileHit> {
    let query = Query::new(query);
    let until = Instant::now() + budget;
    let mut best = Best::new(limit);
    let walk = Walk {
        // A subdirectory of a repository is searched as the repository says.
        ignore: IgnoreFiles::InsideAndAbove,
        max_entries: MAX_VISITED,
        is_over: &|| Instant::now() >= until,
    };
    for directory in directories {
        // The user chose the working directory, also if it is a symlink; symlinks below it may lead anywhere.
        let Ok(root) = ConfinedRoot::open(directory) else {
            continue;
        };
        let root = Arc::new(root);
        let Ok(start) = root.existing(Path::new("")) else {
            continue;
        };
        let end = walk.run(&start, &mut |found| {
            let is_file = || {
                let data = root.act(&found.relative, |dir, path| dir.metadata(path));
                data.is_ok_and(|data| data.is_file())
            };
            let path = directory.join(&found.relative);
            if let Some(rank) = query.rank(&label(&path, directory))
                && (!found.is_link || is_file())
            {
                best.offer(rank, &path, directory);
            }
            ControlFlow::Continue(())
        });
        if matches!(end, Ok(WalkEnd::Stopped)) {
            break;
        }
    }
    best.into_hits()
}

fn label(path: &Path, directory: &Path) -> String {
    let relative = path.strip_prefix(directory).unwrap_or(path);
    let parts: Vec<_> = relative
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    parts.join("/")
}

/// The best files so far, and no more of them than asked for.
struct Best {
    limit: usize,
    ranked: BTreeMap<(Rank, PathBuf), PathBuf>,
    /// Directories may lie in one another; a file is shown once, as part of the first.
    paths: HashSet<PathBuf>,
}

impl Best {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            ranked: BTreeMap::new(),
            paths: HashSet::new(),
        }
    }

    fn offer(&mut self, rank: Rank, path: &Path, directory: &Path) {
        let is_full = self.ranked.len() >= self.limit;
        let worst = self.ranked.last_key_value().map(|((rank, _), _)| rank);
        if is_full && worst.is_none_or(|worst| rank >= *worst) {
            return;
        }
        if !self.paths.insert(path.to_owned()) {
            return;
        }
        self.ranked.insert((rank, path.to_owned()), directory.to_owned());
        if self.ranked.len() > self.limit
            && let Some(((_, dropped), _)) = self.ranked.pop_last()
        {
            self.paths.remove(&dropped);
        }
    }

    fn into_hits(self) -> Vec<FileHit> {
        let ranked = self.ranked.into_iter();
        ranked
            .map(|((_, path), directory)| FileHit { path, directory })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LONG: Duration = Duration::from_secs(60);

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, "").expect("a file");
        }
        root
    }

    fn labels(root: &tempfile::TempDir, query: &str) -> Vec<String> {
        let directories = [root.path().to_owned()];
        let hits = find_files(&directories, query, 100, LONG);
        hits.iter().map(FileHit::label).collect()
    }

    #[test]
    fn ignored_files_are_left_out_and_dot_files_are_found() {
        let root = tree(&[
            "src/main.rs",
            "target/debug/main.rs",
            "sub/keep.rs",
            "sub/build/out.rs",
            ".github/ci.yml",
            ".git/config",
        ]);
        fs::write(root.path().join(".gitignore"), "target/\n").expect("a file");
        fs::write(root.path().join("sub/.gitignore"), "build\n").expect("a file");
        assert_eq!(labels(&root, "main"), ["src/main.rs"]);
        assert_eq!(labels(&root, "out"), Vec::<String>::new());
        assert_eq!(labels(&root, "config"), Vec::<String>::new());
        assert_eq!(labels(&root, "ci.yml"), [".github/ci.yml"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_nothing_outside() {
        use std::os::unix::fs::symlink;
        let outside = tree(&["secret.txt", "deep/secret.txt"]);
        let root = tree(&["inside.txt"]);
        let link = |target: &Path, name: &str| symlink(target, root.path().join(name)).expect("a link");
        link(&outside.path().join("secret.txt"), "secret.txt");
        link(outside.path(), "secret-directory");
        link(&root.path().join("inside.txt"), "inside-again.txt");
        link(root.path(), "secret-loop");
        link(Path::new("secret-nowhere"), "secret-dangling");
        assert_eq!(labels(&root, "secret"), Vec::<String>::new());
        assert_eq!(labels(&root, "inside"), ["inside.txt", "inside-again.txt"]);
    }

    #[test]
    fn the_best_of_many_are_kept_however_they_are_visited() {
        let files: Vec<String> = (0..300).map(|index| format!("d{}/x-{index}.txt", index % 7)).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let root = tree(&files);
        let directories = [root.path().to_owned()];
        let all = find_files(&directories, "x-", usize::MAX, LONG);
        assert_eq!(all.len(), 300);
        for limit in [0, 1, 10] {
            assert_eq!(find_files(&directories, "x-", limit, LONG), all[..limit], "{limit}");
        }
    }

    #[test]
    fn a_file_in_two_directories_is_found_once() {
        let root = tree(&["sub/one.txt"]);
        let directories = [root.path().to_owned(), root.path().join("sub")];
        let hits = find_files(&directories, "one", 10, LONG);
        assert_eq!(hits.len(), 1);
        assert_eq!(hits[0].directory, directories[0]);
    }

    #[test]
    fn a_zero_budget_finds_no_files() {
        let root = tree(&["a.txt"]);
        assert!(find_files(&[root.path().to_owned()], "", 10, Duration::ZERO).is_empty());
        assert!(find_files(&[PathBuf::from("/no/such/place")], "", 10, LONG).is_empty());
        assert!(find_files(&[], "", 10, LONG).is_empty());
    }
}
