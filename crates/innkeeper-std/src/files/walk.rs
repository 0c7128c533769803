//! Walks through a tree, handle by handle, without what its ignore files exclude.
//!
//! Directories are opened through the handles of the directories above them, and symlinks are not followed, so the walk
//! stays inside whatever happens to the tree meanwhile. `.gitignore` and `.ignore` count whether or not there is a
//! repository, as does `.git/info/exclude`. Ignore files above the root are outside and count only on request; those of
//! the user do not count. Directories of version control are left out.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::confined::ConfinedPath;
use super::open::{Opened, open_child, open_regular, read_whole};
use super::resolve::or_dot;

/// Deepest tree that is walked. It keeps a malicious one from filling the stack.
const MAX_DEPTH: usize = 128;
/// Longest ignore file that counts.
const MAX_IGNORE_BYTES: u64 = 256 << 10;
/// The directories that version control keeps its own files in.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// The options of a walk.
#[derive(Clone, Copy)]
pub struct Walk<'a> {
    /// Which files are left out.
    pub ignore: IgnoreFiles,
    /// Maximum entries that are looked at.
    pub max_entries: usize,
    /// Asked before each entry whether the walk should stop.
    pub is_over: &'a dyn Fn() -> bool,
}

/// The ignore files that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreFiles {
    /// None: ignored files are visited, too.
    None,
    /// Those below the root.
    Inside,
    /// Also those in the directories above the root. Nothing but these files is read there.
    InsideAndAbove,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkEnd {
    /// It saw everything, or the visitor had enough.
    Complete,
    /// There were more entries than allowed.
    TooMany,
    /// `is_over` said so.
    Stopped,
}

/// A file on the way.
#[derive(Debug)]
pub struct WalkedFile<'a> {
    /// The directory it is in.
    pub dir: &'a Dir,
    /// Its name there.
    pub name: &'a Path,
    /// Its path from the start of the walk.
    pub relative: PathBuf,
    /// Whether it is a symlink.
    pub is_link: bool,
}

impl Walk<'_> {
    /// Visits the files below a directory in the order of their names, until the visitor breaks.
    ///
    /// # Errors
    ///
    /// When the directory cannot be opened. Directories below it that cannot be read are passed over.
    pub fn run(
        self,
        start: &ConfinedPath,
        visit: &mut dyn FnMut(&WalkedFile<'_>) -> ControlFlow<()>,
    ) -> io::Result<WalkEnd> {
        let dir = start.open_dir()?;
        let mut rules = Vec::new();
        let root = start.root();
        if self.ignore == IgnoreFiles::InsideAndAbove {
            let mut above: Vec<&Path> = root.canonical().ancestors().skip(1).collect();
            above.reverse();
            for path in above {
                if let Ok(dir) = Dir::open_ambient_dir(path, ambient_authority()) {
                    rules.push(exclude_file(&dir, path));
                    rules.push(ignore_files(&dir, path));
                }
            }
        }
        if self.ignore != IgnoreFiles::None {
            // The directories between the root and the start count as well.
            let mut above = PathBuf::new();
            rules.push(exclude_file(root.dir(), root.canonical()));
            for name in start.relative() {
                if let Ok(dir) = root.dir().open_dir(or_dot(&above)) {
                    rules.push(ignore_files(&dir, &root.canonical().join(&above)));
                }
                above.push(name);
            }
        }
        let mut walker = Walker {
            walk: self,
            start: start.canonical(),
            seen: 0,
            rules,
            visit,
        };
        Ok(match walker.descend(&dir, Path::new(""), 0) {
            ControlFlow::Continue(()) => WalkEnd::Complete,
            ControlFlow::Break(end) => end,
        })
    }
}

struct Walker<'a> {
    walk: Walk<'a>,
    /// The full path of the start of the walk, which ignore rules are matched against.
    start: PathBuf,
    seen: usize,
    /// Ignore rules from the top down; the deepest that matches decides.
    rules: Vec<Gitignore>,
    visit: &'a mut dyn FnMut(&WalkedFile<'_>) -> ControlFlow<()>,
}

impl Walker<'_> {
    fn descend(&mut self, dir: &Dir, relative: &Path, depth: usize) -> ControlFlow<WalkEnd> {
        if self.walk.ignore == IgnoreFiles::None {
            return self.entries(dir, relative, depth);
        }
        self.rules.push(ignore_files(dir, &self.start.join(relative)));
        let outcome = self.entries(dir, relative, depth);
        self.rules.pop();
        outcome
    }

    fn entries(&mut self, dir: &Dir, relative: &Path, depth: usize) -> ControlFlow<WalkEnd> {
        let Ok(entries) = dir.entries() else {
            return ControlFlow::Continue(());
        };
        let mut names: Vec<(OsString, Kind)> = Vec::new();
        for entry in entries.flatten() {
            self.seen += 1;
            if self.seen > self.walk.max_entries {
                return ControlFlow::Break(WalkEnd::TooMany);
            }
            if (self.walk.is_over)() {
                return ControlFlow::Break(WalkEnd::Stopped);
            }
            let Ok(kind) = entry.file_type() else { continue };
            let kind = match kind {
                kind if kind.is_dir() => Kind::Directory,
                kind if kind.is_symlink() => Kind::Link,
                kind if kind.is_file() => Kind::File,
                _ => continue,
            };
            names.push((entry.file_name(), kind));
        }
        names.sort();
        for (name, kind) in names {
            if (self.walk.is_over)() {
                return ControlFlow::Break(WalkEnd::Stopped);
            }
            let child = relative.join(&name);
            let is_directory = kind == Kind::Directory;
            let is_version_control = VERSION_CONTROL.iter().any(|known| name == *known);
            if is_version_control || self.is_ignored(&child, is_directory) {
                continue;
            }
            if is_directory {
                if depth < MAX_DEPTH
                    && let Ok(below) = open_child(dir, Path::new(&name))
                {
                    self.descend(&below, &child, depth + 1)?;
                }
                continue;
            }
            let found = WalkedFile {
                dir,
                name: Path::new(&name),
                relative: child,
                is_link: kind == Kind::Link,
            };
            if (self.visit)(&found).is_break() {
                return ControlFlow::Break(WalkEnd::Complete);
            }
        }
        ControlFlow::Continue(())
    }

    fn is_ignored(&self, relative: &Path, is_dir: bool) -> bool {
        if self.walk.ignore == IgnoreFiles::None {
            return false;
        }
        let path = self.start.join(relative);
        let mut verdicts = self.rules.iter().rev().map(|rules| rules.matched(&path, is_dir));
        let decided = verdicts.find(|verdict| !verdict.is_none());
        decided.is_some_and(|verdict| verdict.is_ignore())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Directory,
    Link,
    File,
}

fn ignore_files(dir: &Dir, path: &Path) -> Gitignore {
    rules(dir, path, &[".gitignore", ".ignore"])
}

fn exclude_file(dir: &Dir, path: &Path) -> Gitignore {
    rules(dir, path, &[".git/info/exclude"])
}

/// Reads ignore files of a directory. The path is compared, and nothing is opened by it.
fn rules(dir: &Dir, path: &Path, files: &[&str]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(path);
    let mut is_empty = true;
    for file in files {
        let Ok(Opened::File(opened)) = open_regular(dir, Path::new(file)) else {
            continue;
        };
        let Ok(Some(bytes)) = read_whole(opened, MAX_IGNORE_BYTES) else {
            continue;
        };
        for line in String::from_utf8_lossy(&bytes).lines() {
            // An invalid line ignores nothing.
            is_empty &= builder.add_line(None, line).is_err();
        }
    }
    if is_empty {
        return Gitignore::empty();
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::super::confined::ConfinedRoot;
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        temp
    }

    fn walk(root: &Path, start: &str, ignore: IgnoreFiles, max_entries: usize) -> (Vec<String>, WalkEnd) {
        let root = Arc::new(ConfinedRoot::open(root).expect("opened"));
        let start = root.existing(Path::new(start)).expect("there");
        let walk = Walk {
            ignore,
            max_entries,
            is_over: &|| false,
        };
        let mut files = Vec::new();
        let end = walk.run(&start, &mut |found| {
            files.push(found.relative.to_string_lossy().into_owned());
            ControlFlow::Continue(())
        });
        (files, end.expect("walked"))
    }

    #[test]
    fn ignore_files_count_at_their_own_level() {
        let temp = tree(&[
            (".gitignore", "target/\n*.log\n"),
            ("inner/.gitignore", "!keep.log\n"),
            ("inner/deep/a.rs", ""),
            ("inner/deep/keep.log", ""),
            ("inner/deep/other.log", ""),
            ("inner/target/b.rs", ""),
            ("inner/.git/config", ""),
        ]);
        let root = temp.path();
        let all = |ignore, start| walk(root, start, ignore, 100).0;
        assert_eq!(
            all(IgnoreFiles::Inside, "inner"),
            [".gitignore", "deep/a.rs", "deep/keep.log"]
        );
        assert_eq!(all(IgnoreFiles::Inside, "inner/deep"), ["a.rs", "keep.log"]);
        assert_eq!(all(IgnoreFiles::None, "inner/deep"), ["a.rs", "keep.log", "other.log"]);
        let inner = root.join("inner");
        let of_inner = |ignore| walk(&inner, "", ignore, 100).0;
        assert_eq!(
            of_inner(IgnoreFiles::Inside).len(),
            5,
            "files above the root are outside"
        );
        assert_eq!(
            of_inner(IgnoreFiles::InsideAndAbove),
            [".gitignore", "deep/a.rs", "deep/keep.log"]
        );
    }

    #[test]
    fn symlinks_are_named_and_not_followed() {
        let temp = tree(&[("inside/a", ""), ("outside/secret", "")]);
        symlink("../outside", temp.path().join("inside/link")).expect("a link");
        let (files, end) = walk(&temp.path().join("inside"), "", IgnoreFiles::None, 100);
        assert_eq!(
            (files, end),
            (vec!["a".to_owned(), "link".to_owned()], WalkEnd::Complete)
        );
    }

    #[test]
    fn a_walk_ends_at_its_limit() {
        let temp = tree(&[("a", ""), ("b", ""), ("c", "")]);
        assert_eq!(walk(temp.path(), "", IgnoreFiles::None, 2).1, WalkEnd::TooMany);
        assert_eq!(walk(temp.path(), "", IgnoreFiles::None, 3).1, WalkEnd::Complete);
    }
}
