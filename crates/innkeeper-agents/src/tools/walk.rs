//! Walks a directory tree through directory handles, honouring ignore files.
//!
//! Directories are opened relative to their parents and symlinks are not followed, so the walk cannot leave the tree
//! even if it changes meanwhile. `.gitignore`, `.ignore` and `.git/info/exclude` apply, with or without a repository.
//! Ignore files above the working directory and the user's own do not apply, because they are outside. `.git` is
//! skipped.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use globset::{GlobBuilder, GlobMatcher};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use innkeeper_std::{Opened, open_regular, read_whole};

use super::blocking::CancelFlag;
use super::place::Place;

/// Maximum depth, which protects the stack.
const MAX_DEPTH: usize = 128;
/// Maximum bytes of an ignore file.
const MAX_IGNORE_FILE_BYTES: u64 = 256 << 10;
/// Prefix of the paths that ignore rules are matched against. It is never opened.
const TOP: &str = "/";

/// Parameters of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) include_ignored: bool,
    pub(super) max_entries: usize,
    pub(super) cancel: &'a CancelFlag,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// It is complete, or the visitor stopped it.
    Complete,
    /// There are too many entries.
    TooManyEntries,
    /// It timed out.
    TimedOut,
}

/// A visited file.
#[derive(Debug)]
pub(super) struct WalkEntry<'a> {
    /// Handle of its directory.
    pub(super) dir: &'a Dir,
    /// File name.
    pub(super) name: &'a Path,
    /// Path relative to the start.
    pub(super) relative: PathBuf,
    /// Whether it is a symlink.
    pub(super) is_link: bool,
}

impl Walk<'_> {
    /// Visits the files below a directory, sorted by name.
    pub(super) fn run(
        self,
        start: &Place,
        visit: &mut dyn FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
    ) -> Result<WalkEnd, String> {
        let dir = start.open_dir()?;
        let mut rules = Vec::new();
        if !self.include_ignored {
            // Ignore files of parent directories apply too.
            let mut above = PathBuf::new();
            rules.push(exclude_file(&start.root.dir));
            for name in &start.relative {
                if let Ok(dir) = start.root.dir.open_dir(non_empty(&above)) {
                    rules.push(ignore_files(&dir, &above));
                }
                above.push(name);
            }
        }
        let mut walker = Walker {
            walk: self,
            start: &start.relative,
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
    /// Start of the walk, relative to the working directory.
    start: &'a Path,
    seen: usize,
    /// Ignore rules from the top down. The deepest match decides.
    rules: Vec<Gitignore>,
    visit: &'a mut dyn FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
}

impl Walker<'_> {
    fn descend(&mut self, dir: &Dir, relative: &Path, depth: usize) -> ControlFlow<WalkEnd> {
        let from_top = self.start.join(relative);
        if !self.walk.include_ignored {
            self.rules.push(ignore_files(dir, &from_top));
        }
        let outcome = self.entries(dir, relative, depth);
        if !self.walk.include_ignored {
            self.rules.pop();
        }
        outcome
    }

    fn entries(&mut self, dir: &Dir, relative: &Path, depth: usize) -> ControlFlow<WalkEnd> {
        // Unreadable directories are skipped.
        let Ok(entries) = dir.entries() else {
            return ControlFlow::Continue(());
        };
        let mut names: Vec<(OsString, EntryKind)> = Vec::new();
        for entry in entries.flatten() {
            self.seen += 1;
            if self.seen > self.walk.max_entries {
                return ControlFlow::Break(WalkEnd::TooManyEntries);
            }
            if self.walk.cancel.should_stop() {
                return ControlFlow::Break(WalkEnd::TimedOut);
            }
            let Ok(kind) = entry.file_type() else { continue };
            let kind = match kind {
                kind if kind.is_dir() => EntryKind::Directory,
                kind if kind.is_symlink() => EntryKind::Link,
                kind if kind.is_file() => EntryKind::File,
                _ => continue,
            };
            names.push((entry.file_name(), kind));
        }
        names.sort();
        for (name, kind) in names {
            if self.walk.cancel.should_stop() {
                return ControlFlow::Break(WalkEnd::TimedOut);
            }
            let child = relative.join(&name);
            if (kind == EntryKind::Directory && name == ".git") || self.is_ignored(&child, kind == EntryKind::Directory)
            {
                continue;
            }
            if kind == EntryKind::Directory {
                if depth < MAX_DEPTH
                    && let Ok(below) = dir.open_dir(&name)
                {
                    self.descend(&below, &child, depth + 1)?;
                }
                continue;
            }
            let found = WalkEntry {
                dir,
                name: Path::new(&name),
                relative: child,
                is_link: kind == EntryKind::Link,
            };
            if (self.visit)(&found).is_break() {
                return ControlFlow::Break(WalkEnd::Complete);
            }
        }
        ControlFlow::Continue(())
    }

    fn is_ignored(&self, relative: &Path, is_dir: bool) -> bool {
        if self.walk.include_ignored {
            return false;
        }
        let path = Path::new(TOP).join(self.start).join(relative);
        let verdicts = self.rules.iter().rev().map(|rules| rules.matched(&path, is_dir));
        verdicts
            .into_iter()
            .find(|verdict| !verdict.is_none())
            .is_some_and(|verdict| verdict.is_ignore())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EntryKind {
    Directory,
    Link,
    File,
}

fn ignore_files(dir: &Dir, from_top: &Path) -> Gitignore {
    rules(dir, from_top, &[".gitignore", ".ignore"])
}

fn exclude_file(dir: &Dir) -> Gitignore {
    rules(dir, Path::new(""), &[".git/info/exclude"])
}

fn rules(dir: &Dir, from_top: &Path, files: &[&str]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(Path::new(TOP).join(from_top));
    let mut is_empty = true;
    for file in files {
        let Ok(Opened::File(opened)) = open_regular(dir, Path::new(file)) else {
            continue;
        };
        let Ok(Some(bytes)) = read_whole(opened, MAX_IGNORE_FILE_BYTES) else {
            continue;
        };
        for line in String::from_utf8_lossy(&bytes).lines() {
            // Invalid lines are skipped.
            is_empty &= builder.add_line(None, line).is_err();
        }
    }
    if is_empty {
        return Gitignore::empty();
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

fn non_empty(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

/// A glob for paths relative to the start of a walk.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    matcher: GlobMatcher,
    is_negated: bool,
}

impl PathPattern {
    /// Parses a glob. Without `/` it matches names in every directory, as users expect of `*.rs`.
    pub(super) fn parse(field: &str, pattern: &str) -> Result<Self, String> {
        let (is_negated, glob) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        if Path::new(glob).is_absolute() {
            return Err(format!(
                "`{field}` must be relative, not `{pattern}`: name the directory with `path`"
            ));
        }
        let glob = if glob.contains('/') {
            glob.to_owned()
        } else {
            format!("**/{glob}")
        };
        let built = GlobBuilder::new(&glob).literal_separator(true).build();
        let built = built.map_err(|error| format!("`{field}` is not a pattern: {}", error.kind()))?;
        Ok(Self {
            matcher: built.compile_matcher(),
            is_negated,
        })
    }

    pub(super) fn fits(&self, path: &Path) -> bool {
        self.matcher.is_match(path) != self.is_negated
    }
}
