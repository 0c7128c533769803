//! Files of a directory that may be components: by ending, one level or several.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::components::gather::Gathering;
use crate::limits::MAX_DEPTH;
use crate::note::Code;
use crate::read::scan_root::{PathKind, ReadError, label};

/// A file that a walk found.
#[derive(Debug)]
pub(crate) struct Listed {
    /// From the root of the container.
    pub(crate) path: PathBuf,
    /// The path without symlinks.
    pub(crate) real: PathBuf,
    /// The directories between the location and the file.
    pub(crate) folders: Vec<String>,
    /// The name of the file.
    pub(crate) name: String,
}

/// Lists the files below a directory whose names match, sorted by name, down to a maximum depth. Hidden files are left
/// out: they belong to editors.
pub(crate) fn files(
    gathering: &mut Gathering<'_>,
    directory: &Path,
    levels: usize,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<Listed> {
    let mut found = Vec::new();
    let real = gathering.root.real(directory);
    let mut visited = HashSet::from([real.clone()]);
    walk(
        gathering,
        &Step {
            path: directory.to_owned(),
            real,
            folders: Vec::new(),
            levels,
            is_cut_off: levels > 0,
        },
        &is_wanted,
        &mut visited,
        &mut found,
    );
    found
}

struct Step {
    path: PathBuf,
    real: PathBuf,
    folders: Vec<String>,
    levels: usize,
    /// Whether deeper files belong here too and are left out only for their depth.
    is_cut_off: bool,
}

fn walk(
    gathering: &mut Gathering<'_>,
    step: &Step,
    is_wanted: &impl Fn(&str) -> bool,
    visited: &mut HashSet<PathBuf>,
    found: &mut Vec<Listed>,
) {
    let entries = match gathering.root.list(&step.path) {
        Ok(entries) => entries,
        Err(ReadError::Missing) => return,
        Err(refusal) => return gathering.refuse(&refusal, &label(&step.path)),
    };
    for entry in entries {
        let Some(name) = visible_name(&entry.name) else {
            continue;
        };
        let path = step.path.join(&entry.name);
        let is_file_name = is_wanted(&name);
        let may_be_too_deep = step.levels == 0 && step.is_cut_off;
        if !is_file_name && ((step.levels == 0 && !may_be_too_deep) || !entry.may_be_directory) {
            continue;
        }
        let real = if entry.is_link {
            gathering.root.real(&path)
        } else {
            step.real.join(&entry.name)
        };
        match gathering.root.look(&path) {
            PathKind::Directory if step.levels > 0 => {
                // A symlink to a parent would be an endless walk.
                if visited.contains(&real) {
                    continue;
                }
                if entry.is_link {
                    visited.insert(real.clone());
                }
                let mut folders = step.folders.clone();
                folders.push(name);
                let deeper = Step {
                    path,
                    real,
                    folders,
                    levels: step.levels - 1,
                    is_cut_off: step.is_cut_off,
                };
                walk(gathering, &deeper, is_wanted, visited, found);
            }
            PathKind::File if is_file_name => found.push(Listed {
                path,
                real,
                folders: step.folders.clone(),
                name,
            }),
            PathKind::Directory if may_be_too_deep && !visited.contains(&real) => {
                note_depth(gathering, &path, is_wanted)
            }
            PathKind::Outside => gathering.refuse(&ReadError::Outside, &label(&path)),
            PathKind::Special if is_file_name => gathering.refuse(&ReadError::Special, &label(&path)),
            PathKind::Directory if is_file_name => gathering.refuse(&ReadError::NotAFile, &label(&path)),
            _ => {}
        }
    }
}

/// Adds a note if a directory is too deep and has matching files (P16).
fn note_depth(gathering: &mut Gathering<'_>, directory: &Path, is_wanted: &impl Fn(&str) -> bool) {
    let entries = gathering.root.list(directory).unwrap_or_default();
    let mut names = entries
        .iter()
        .filter_map(|entry| Some((visible_name(&entry.name)?, entry.may_be_directory)));
    if names.any(|(name, may_be_directory)| may_be_directory || is_wanted(&name)) {
        gathering.notes.warn(
            Code::Limit,
            &label(directory),
            format!("is more than {MAX_DEPTH} directories deep and is not read: move it up"),
        );
    }
}

/// A name for users, unless the file is hidden.
fn visible_name(name: &OsStr) -> Option<String> {
    let name = name.to_string_lossy();
    (!name.starts_with('.')).then(|| name.into_owned())
}

/// Whether a file name has an ending, ignoring case.
pub(crate) fn ends_with(name: &str, ending: &str) -> bool {
    stem(name, &[ending]).is_some()
}

/// The name of a file without its first matching ending, ignoring case.
pub(crate) fn stem<'n>(name: &'n str, endings: &[&str]) -> Option<&'n str> {
    endings.iter().find_map(|ending| {
        let cut = name.len().checked_sub(ending.len()).filter(|cut| *cut > 0)?;
        let (stem, tail) = (name.get(..cut)?, name.get(cut..)?);
        tail.eq_ignore_ascii_case(ending).then_some(stem)
    })
}

/// Whether a file documents a directory, and is no component.
pub(crate) fn is_readme(name: &str) -> bool {
    name.eq_ignore_ascii_case("README.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_lose_the_first_ending_that_fits() {
        assert_eq!(stem("a.agent.md", &[".agent.md", ".md"]), Some("a"));
        assert_eq!(stem("UP.MD", &[".agent.md", ".md"]), Some("UP"));
        assert_eq!(stem(".md", &[".md"]), None);
        assert_eq!(stem("é.md", &[".agent.md", ".md"]), Some("é"));
    }
}
