//! Computes what files become when changes are discarded or a turn is reverted.

use std::path::{Path, PathBuf};

use imara_diff::{Algorithm, Diff, InternedInput};
use innkeeper_host::changes::{ChangedSide, ChangesetView, OperationError, OperationTarget};
use innkeeper_host::contents::content::ContentUri;

use super::file::{FileContent, FilePath};
use super::replace::Replacement;
use crate::changes::compute::{Compared, full_path};
use crate::changes::diff::{Extent, TreeEntry};
use crate::changes::{Inner, edits};
use crate::git::GitCall;
use crate::uri;

/// Largest file of a repository that an operation reads.
const MAX_OBJECT: usize = 1 << 30;

/// A changed file of an operation.
#[derive(Debug)]
pub(super) struct OperationFile {
    /// The work tree, by its position; `None` for a file outside of repositories.
    pub(super) pair: Option<usize>,
    pub(super) before: Option<Side>,
    pub(super) after: Option<Side>,
    /// Whether the content after is the file as it is now.
    pub(super) is_live: bool,
    /// Whether the content after is not stored.
    pub(super) is_omitted: bool,
}

/// One side of it.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) path: PathBuf,
    /// The path in its work tree.
    pub(super) name: Vec<u8>,
    /// The id of the object or of the stored content.
    content: String,
    mode: String,
}

impl OperationFile {
    fn path(&self) -> &Path {
        let side = self.after.as_ref().or(self.before.as_ref());
        side.map_or_else(|| Path::new(""), |side| &side.path)
    }
}

/// The files that an operation is about.
pub(super) async fn files(
    inner: &Inner,
    view: &ChangesetView,
    compared: &[Compared],
    directories: &[PathBuf],
    target: Option<&OperationTarget>,
) -> Result<Vec<OperationFile>, OperationError> {
    let mut files = Vec::new();
    for (index, pair) in compared.iter().enumerate() {
        let (changes, _) = inner
            .changes_between(pair, Extent::All)
            .await
            .map_err(OperationError::Conflict)?;
        let side = |entry: &TreeEntry| Side {
            path: full_path(&pair.root, entry),
            name: entry.path.clone(),
            content: entry.id.clone(),
            mode: entry.mode.clone(),
        };
        let found = changes.iter().map(|change| OperationFile {
            pair: Some(index),
            before: change.before.as_ref().map(side),
            after: change.after.as_ref().map(side),
            is_live: pair.is_live,
            is_omitted: change
                .after
                .as_ref()
                .is_some_and(|side| pair.omitted.contains(&side.path)),
        });
        let is_inside = |file: &OperationFile| {
            let mut sides = [&file.before, &file.after].into_iter().flatten();
            sides.any(|side| directories.iter().any(|directory| side.path.starts_with(directory)))
        };
        files.extend(found.filter(is_inside));
    }
    let unversioned = edits::unversioned(&inner.git, view, compared).await;
    for edit in edits::changes(view, &*inner.contents, &unversioned).await {
        let side = |side: &ChangedSide| {
            let path = uri::to_path(&side.uri)?;
            let content = side.content.clone();
            Some(Side {
                path,
                name: Vec::new(),
                content,
                mode: "100644".to_owned(),
            })
        };
        let is_live = edit.after.as_ref().is_none_or(|after| after.content == after.uri);
        files.push(OperationFile {
            pair: None,
            before: edit.before.as_ref().and_then(side),
            after: edit.after.as_ref().and_then(side),
            is_live,
            is_omitted: false,
        });
    }
    if let Some(target) = target {
        let wanted = uri::to_path(&target.resource);
        files.retain(|file| {
            let mut sides = [&file.before, &file.after].into_iter().flatten();
            sides.any(|side| Some(&side.path) == wanted.as_ref())
        });
        if files.is_empty() {
            return Err(OperationError::Conflict("the file does not differ any more".to_owned()));
        }
    }
    Ok(files)
}

/// The replacements that undo changes, below some directories that stay.
pub(super) async fn replacements(
    inner: &Inner,
    view: &ChangesetView,
    compared: &[Compared],
    files: Vec<OperationFile>,
    roots: &[PathBuf],
    target: Option<&OperationTarget>,
) -> Result<Vec<Replacement>, OperationError> {
    let located = |path: PathBuf| FilePath::new(path, roots.iter().map(PathBuf::as_path));
    let mut replacements = Vec::new();
    for file in files {
        let shown = file.path().display().to_string();
        if file.is_omitted {
            let problem = format!(
                "{shown} is too large or cannot be read, so the host has no copy of it; change or remove it yourself"
            );
            return Err(OperationError::Conflict(problem));
        }
        if [&file.before, &file.after]
            .into_iter()
            .flatten()
            .any(|side| side.mode == "160000")
        {
            let problem = format!("{shown} is a submodule; use git to move it to another commit");
            return Err(OperationError::Conflict(problem));
        }
        let before = content_of(inner, view, compared, &file, file.before.as_ref()).await?;
        let after = content_of(inner, view, compared, &file, file.after.as_ref()).await?;
        let failed = |error: std::io::Error| OperationError::Conflict(format!("{shown} cannot be read: {error}"));
        // Where the file is now: a renamed file is at its new path.
        let path = file.path().to_owned();
        let file_path = located(path.clone());
        let now = file_path.read().map_err(failed)?;
        let next = match target.and_then(|target| Some((target, target.lines?))) {
            Some((target, lines)) => part_of(&before, &now, target.is_before, lines)
                .ok_or_else(|| OperationError::Conflict(format!("no change of {shown} touches these lines")))?,
            None if file.is_live || now == after => before.clone(),
            None => merged(inner, view, &now, &after, &before).await.ok_or_else(|| {
                OperationError::Conflict(format!(
                    "{shown} was changed again in the same place, so this cannot be undone by itself; edit it yourself"
                ))
            })?,
        };
        let former = file
            .before
            .as_ref()
            .map(|side| side.path.clone())
            .filter(|former| *former != path);
        match former {
            // The old path gets the old content, and the new path is removed.
            Some(former) => {
                let former = located(former);
                replacements.push(Replacement {
                    expected: former.read().map_err(failed)?,
                    file: former,
                    next,
                });
                replacements.push(Replacement {
                    file: file_path,
                    expected: now,
                    next: FileContent::Absent,
                });
            }
            None => replacements.push(Replacement {
                file: file_path,
                expected: now,
                next,
            }),
        }
    }
    replacements.retain(|replacement| replacement.expected != replacement.next);
    Ok(replacements)
}

/// Reads one side of a file.
async fn content_of(
    inner: &Inner,
    view: &ChangesetView,
    compared: &[Compared],
    file: &OperationFile,
    side: Option<&Side>,
) -> Result<FileContent, OperationError> {
    let Some(side) = side else {
        return Ok(FileContent::Absent);
    };
    let pair = file.pair.and_then(|index| compared.get(index));
    let bytes = match pair {
        Some(pair) => {
            let work_tree = inner.work_tree(&pair.root);
            let read = inner.read_object(&work_tree, &side.content, MAX_OBJECT).await;
            read.map(Some)
        }
        None => match ContentUri::parse(&side.content) {
            Some(ContentUri::Inline(bytes)) => Ok(Some(bytes)),
            Some(ContentUri::Blob(name)) => {
                let found = inner.contents.read(&view.session, &name).await;
                found.map(|found| found.map(|it| it.bytes))
            }
            _ => Ok(std::fs::read(&side.path).ok()),
        },
    };
    let Some(bytes) = bytes.map_err(OperationError::Conflict)? else {
        let problem = format!("the former content of {} is not stored any more", side.path.display());
        return Err(OperationError::Conflict(problem));
    };
    Ok(match side.mode.as_str() {
        "120000" => FileContent::Symlink(bytes),
        mode => FileContent::File {
            bytes,
            is_executable: mode == "100755",
        },
    })
}

/// Undoes the changes that touch some lines; `None` if there are none, or if it is not text.
fn part_of(before: &FileContent, now: &FileContent, is_before: bool, lines: (u64, u64)) -> Option<FileContent> {
    let text = |content: &FileContent| match content {
        FileContent::Absent => Some(String::new()),
        FileContent::File { bytes, .. } => String::from_utf8(bytes.clone()).ok(),
        FileContent::Symlink(_) => None,
    };
    let (old, new) = (text(before)?, text(now)?);
    let input = InternedInput::new(old.as_str(), new.as_str());
    let diff = Diff::compute(Algorithm::Histogram, &input);
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut result = String::new();
    let mut position = 0;
    let mut found = false;
    for hunk in diff.hunks() {
        let span = if is_before { &hunk.before } else { &hunk.after };
        // A removal has no lines after it: it is touched by the line that it was before.
        let (first, end) = (
            u64::from(span.start),
            u64::from(span.end).max(u64::from(span.start) + 1),
        );
        let is_meant = first < lines.1 && lines.0 < end;
        let index = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
        let (from, to) = (index(hunk.after.start), index(hunk.after.end));
        result.extend(new.get(position..from)?.iter().copied());
        match is_meant {
            true => {
                found = true;
                result.extend(
                    old.get(index(hunk.before.start)..index(hunk.before.end))?
                        .iter()
                        .copied(),
                );
            }
            false => result.extend(new.get(from..to)?.iter().copied()),
        }
        position = to;
    }
    result.extend(new.get(position..)?.iter().copied());
    let is_executable = matches!(
        now,
        FileContent::File {
            is_executable: true,
            ..
        }
    );
    found.then(|| FileContent::File {
        bytes: result.into_bytes(),
        is_executable,
    })
}

/// Undoes a change under later changes to the same file; `None` if they overlap.
async fn merged(
    inner: &Inner,
    view: &ChangesetView,
    now: &FileContent,
    base: &FileContent,
    other: &FileContent,
) -> Option<FileContent> {
    let bytes = |content: &FileContent| match content {
        FileContent::File { bytes, .. } => Some(bytes.clone()),
        FileContent::Absent | FileContent::Symlink(_) => None,
    };
    let texts = [bytes(now)?, bytes(base)?, bytes(other)?];
    let directory = inner.session_directory(&view.session).join("merge");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).ok()?;
    let names = ["now", "base", "other"];
    for (name, text) in names.iter().zip(texts) {
        std::fs::write(directory.join(name), text).ok()?;
    }
    let arguments = ["merge-file", "-p", "--quiet", "now", "base", "other"];
    let result = inner.git.run(GitCall::new(&directory, &[]), &arguments).await;
    let _ = std::fs::remove_dir_all(&directory);
    let is_executable = matches!(
        now,
        FileContent::File {
            is_executable: true,
            ..
        }
    );
    Some(FileContent::File {
        bytes: result.ok()?,
        is_executable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> FileContent {
        FileContent::File {
            bytes: text.as_bytes().to_vec(),
            is_executable: false,
        }
    }

    #[test]
    fn chg10_a_range_undoes_the_changes_that_it_touches() {
        let before = file("a\nb\nc\nd\ne\nf\n");
        let now = file("A\nb\nc\nnew\nd\nf\n");
        let undo = |is_before, lines| part_of(&before, &now, is_before, lines);
        assert_eq!(undo(false, (0, 1)), Some(file("a\nb\nc\nnew\nd\nf\n")));
        assert_eq!(undo(false, (3, 4)), Some(file("A\nb\nc\nd\nf\n")), "an added line");
        assert_eq!(
            undo(true, (4, 5)),
            Some(file("A\nb\nc\nnew\nd\ne\nf\n")),
            "a removed line, as it was"
        );
        assert_eq!(
            undo(false, (5, 6)),
            Some(file("A\nb\nc\nnew\nd\ne\nf\n")),
            "the line it was before"
        );
        assert_eq!(undo(false, (1, 2)), None);
        assert_eq!(undo(false, (0, 99)), Some(before.clone()));
        assert_eq!(
            part_of(&file("x"), &FileContent::Symlink(b"y".to_vec()), false, (0, 1)),
            None
        );
        assert_eq!(
            part_of(&FileContent::Absent, &file("x\n"), false, (0, 1)),
            Some(file(""))
        );
    }
}
