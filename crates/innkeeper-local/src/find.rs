//! Looking through directories: what Git ignores is ignored, nothing outside is seen, and it ends.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ignore::{DirEntry, Walk, WalkBuilder};

use crate::rank::{Query, Rank};

/// Most entries that one look-up visits, in all its directories together.
const MAX_VISITED: usize = 200_000;
/// Deepest directory that is looked into.
const MAX_DEPTH: usize = 64;
/// Where version control keeps its own files; people never mean those.
const NOT_FOR_PEOPLE: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

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

/// Finds the files under some directories whose path fits what was typed, the best first: a name
/// that starts with it, a name that contains it, a path that contains it, a path that has its
/// letters in order; of equals the shorter one.
///
/// It blocks. It looks for at most `budget`, and at most at 200,000 entries, and then returns the
/// best of what it has seen.
pub fn find_files(directories: &[PathBuf], query: &str, limit: usize, budget: Duration) -> Vec<FileHit> {
    let query = Query::new(query);
    let until = Instant::now() + budget;
    let mut best = Best::new(limit);
    let mut visited = 0;
    for directory in directories {
        // A link as a working directory is meant; one within it may lead anywhere.
        let Ok(root) = directory.canonicalize() else {
            continue;
        };
        for entry in walk(directory) {
            visited += 1;
            if visited > MAX_VISITED || Instant::now() >= until {
                return best.into_hits();
            }
            // What cannot be read is not shown.
            let Ok(entry) = entry else {
                continue;
            };
            if is_file_within(&entry, &root)
                && let Some(rank) = query.rank(&label(entry.path(), directory))
            {
                best.offer(rank, entry.path(), directory);
            }
        }
    }
    best.into_hits()
}

fn walk(directory: &Path) -> Walk {
    WalkBuilder::new(directory)
        // Dot files are files: .github/workflows is as good a place as any.
        .hidden(false)
        // A .gitignore says what it says even where `git init` was never run.
        .require_git(false)
        // What one person's machine ignores in general is no property of the project.
        .git_global(false)
        .follow_links(false)
        .max_depth(Some(MAX_DEPTH))
        // Should the walk end early, it ends at the same place every time.
        .sort_by_file_name(|one, other| one.cmp(other))
        .filter_entry(|entry| entry.depth() == 0 || !NOT_FOR_PEOPLE.iter().any(|name| entry.file_name() == *name))
        .build()
}

/// Whether an entry is a file that lies within the directory. A link to a file is one if it leads
/// to a place within it.
fn is_file_within(entry: &DirEntry, root: &Path) -> bool {
    let Some(kind) = entry.file_type() else {
        return false;
    };
    if !kind.is_symlink() {
        return kind.is_file();
    }
    let target = entry.path().canonicalize();
    target.is_ok_and(|target| target.starts_with(root) && target.is_file())
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
    fn what_git_ignores_is_not_found_and_dot_files_are() {
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
    fn without_time_there_is_nothing_and_no_harm() {
        let root = tree(&["a.txt"]);
        assert!(find_files(&[root.path().to_owned()], "", 10, Duration::ZERO).is_empty());
        assert!(find_files(&[PathBuf::from("/no/such/place")], "", 10, LONG).is_empty());
        assert!(find_files(&[], "", 10, LONG).is_empty());
    }
}
