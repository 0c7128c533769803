//! Replaces files all at once, and undoes it.
//!
//! The files as they are now are stored first, durably. Then each file is written aside and renamed into place. If one
//! of them fails, those before it are brought back.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use innkeeper_host::changes::{OperationError, OperationOutcome};

use super::file::{FileContent, FilePath};
use super::stored::{Direction, StoredFiles};

/// A file and its next content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) file: FilePath,
    /// The content that the next one was computed from: if the file has another one by then, nothing is replaced.
    pub(super) expected: FileContent,
    pub(super) next: FileContent,
}

impl Replacement {
    fn is_removal(&self) -> bool {
        self.next == FileContent::Absent
    }
}

/// Replaces files.
pub(super) async fn replace(
    stored: StoredFiles,
    replacements: Vec<Replacement>,
) -> Result<OperationOutcome, OperationError> {
    let replacing = tokio::task::spawn_blocking(move || {
        let count = replacements.len();
        replace_now(&stored, replacements, Direction::Undo)?;
        stored.clear(Direction::Redo);
        let files = if count == 1 { "file was" } else { "files were" };
        Ok(OperationOutcome {
            message: format!("{count} {files} set back; “Undo” brings back what was there."),
        })
    });
    match replacing.await {
        Ok(outcome) => outcome,
        Err(_) => Err(OperationError::Failed("the files could not be replaced".to_owned())),
    }
}

/// Replaces files, and stores what they were for an operation of this direction.
fn replace_now(
    stored: &StoredFiles,
    mut replacements: Vec<Replacement>,
    direction: Direction,
) -> Result<(), OperationError> {
    if replacements.is_empty() {
        return Err(OperationError::Conflict("there is nothing to set back".to_owned()));
    }
    // A directory is emptied before a file takes its place, and a file is removed before a directory does.
    replacements.sort_by(|one, other| {
        let removals = other.is_removal().cmp(&one.is_removal());
        removals.then_with(|| other.file.path().cmp(one.file.path()))
    });
    let removals = replacements.iter().filter(|it| it.is_removal());
    let removed: HashSet<&Path> = removals.map(|it| it.file.path()).collect();
    let mut former = Vec::new();
    for replacement in &replacements {
        let file = &replacement.file;
        let refused = |problem: String| {
            OperationError::Conflict(format!("{} cannot be set back: {problem}", file.path().display()))
        };
        let now = file.read().map_err(|error| refused(error.to_string()))?;
        if now != replacement.expected {
            return Err(OperationError::Conflict(format!(
                "{} changed in the meantime; look at it and try again",
                file.path().display()
            )));
        }
        let obstacle = match replacement.is_removal() {
            true => None,
            false => file.obstacle(&removed),
        };
        if let Some(obstacle) = obstacle {
            return Err(refused(obstacle));
        }
        former.push((file, now));
    }
    let generation = stored.store(direction, &former).map_err(|error| {
        OperationError::Failed(format!(
            "the files could not be stored first, so nothing changed ({error})"
        ))
    })?;
    for (index, replacement) in replacements.iter().enumerate() {
        if let Err(error) = replacement.file.write(&replacement.next) {
            for (file, content) in former.iter().take(index + 1).rev() {
                let _ = file.write(content);
            }
            let _ = fs::remove_dir_all(&generation);
            let problem = format!(
                "{} cannot be written ({error}); nothing changed",
                replacement.file.path().display()
            );
            return Err(OperationError::Failed(problem));
        }
    }
    Ok(())
}

/// Brings back the files of the latest replacement, or of the latest undo.
pub(super) async fn bring_back(stored: StoredFiles, direction: Direction) -> Result<OperationOutcome, OperationError> {
    let undoing = tokio::task::spawn_blocking(move || bring_back_now(&stored, direction));
    match undoing.await {
        Ok(outcome) => outcome,
        Err(_) => Err(OperationError::Failed("the files could not be brought back".to_owned())),
    }
}

fn bring_back_now(stored: &StoredFiles, direction: Direction) -> Result<OperationOutcome, OperationError> {
    let mut generation = stored.latest(direction)?;
    let mut replacements = Vec::new();
    for (file, next) in std::mem::take(&mut generation.files) {
        let expected = file.read().map_err(|error| {
            OperationError::Conflict(format!("{} cannot be replaced: {error}", file.path().display()))
        })?;
        replacements.push(Replacement { file, expected, next });
    }
    replacements.retain(|replacement| replacement.expected != replacement.next);
    let count = replacements.len();
    if count > 0 {
        // The present files are stored in turn, so that this can be reversed.
        replace_now(stored, replacements, direction.other())?;
    }
    generation.remove();
    let files = if count == 1 { "file was" } else { "files were" };
    let reverse = match direction {
        Direction::Undo => "Redo",
        Direction::Redo => "Undo",
    };
    Ok(OperationOutcome {
        message: format!("{count} {files} brought back; “{reverse}” reverses that."),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    fn content(text: &str) -> FileContent {
        FileContent::File {
            bytes: text.as_bytes().to_vec(),
            is_executable: false,
        }
    }

    /// A directory with files, and the stored ones beside it.
    struct TestFiles {
        _directory: tempfile::TempDir,
        work: PathBuf,
        stored: StoredFiles,
    }

    impl TestFiles {
        fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let work = directory.path().join("w");
            fs::create_dir_all(&work).expect("a directory");
            for (name, text) in files {
                let path = work.join(name);
                fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
                fs::write(path, text).expect("a file");
            }
            Self {
                stored: StoredFiles::new(&directory.path().join("s")),
                _directory: directory,
                work,
            }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.work.join(name)
        }

        fn read(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.path(name)).ok()
        }

        fn replacement(&self, name: &str, next: FileContent) -> Replacement {
            let file = FilePath::new(self.path(name), [self.work.as_path()].into_iter());
            let expected = file.read().expect("readable");
            Replacement { file, expected, next }
        }

        fn replace(&self, replacements: &[Replacement]) -> Result<(), OperationError> {
            replace_now(&self.stored, replacements.to_vec(), Direction::Undo)
        }

        fn undo(&self) {
            bring_back_now(&self.stored, Direction::Undo).expect("undone");
        }
    }

    #[test]
    fn chg11_a_replacement_is_complete_or_absent_and_can_be_undone() {
        let files = TestFiles::new(&[("a", "one"), ("b", "two")]);
        // Something changed since: refused before anything is touched.
        let mut stale = files.replacement("a", FileContent::Absent);
        stale.expected = content("other");
        assert!(matches!(files.replace(&[stale]), Err(OperationError::Conflict(_))));
        assert!(!files.stored.has(Direction::Undo));
        // One that cannot be written: its name is too long.
        let failing = [
            files.replacement("z", content("x")),
            files.replacement("a", FileContent::Absent),
            files.replacement(&format!("b.d/{}", "x".repeat(300)), content("x")),
        ];
        let error = files.replace(&failing).expect_err("not possible");
        assert!(error.message().contains("nothing changed"), "{error:?}");
        assert_eq!(files.read("a").as_deref(), Some("one"));
        assert!(!files.path("z").exists() && !files.stored.has(Direction::Undo));
        // One that works: changed, removed, new.
        let working = [
            files.replacement("a", content("ONE")),
            files.replacement("b", FileContent::Absent),
            files.replacement("d/e", FileContent::Symlink(b"../a".to_vec())),
        ];
        files.replace(&working).expect("it works");
        let state = || {
            let link = fs::read_link(files.path("d/e")).ok();
            (files.read("a"), files.path("b").exists(), link)
        };
        let after = (Some("ONE".to_owned()), false, Some(PathBuf::from("../a")));
        assert_eq!(state(), after);
        files.undo();
        assert_eq!(state(), (Some("one".to_owned()), true, None));
        assert!(!files.path("d").exists());
        bring_back_now(&files.stored, Direction::Redo).expect("redone");
        assert_eq!(state(), after);
        files.undo();
        assert_eq!(state(), (Some("one".to_owned()), true, None));
    }

    #[test]
    fn chg11_replacements_are_undone_one_after_the_other() {
        let files = TestFiles::new(&[("a", "0")]);
        for number in 1..=15 {
            let next = [files.replacement("a", content(&number.to_string()))];
            files.replace(&next).expect("replaced");
        }
        for number in (5..15).rev() {
            files.undo();
            assert_eq!(files.read("a"), Some(number.to_string()));
        }
        let refused = bring_back_now(&files.stored, Direction::Undo).expect_err("the older ones are gone");
        assert!(refused.message().contains("nothing to bring back"), "{refused:?}");
        for number in 6..=15 {
            bring_back_now(&files.stored, Direction::Redo).expect("redone");
            assert_eq!(files.read("a"), Some(number.to_string()));
        }
    }

    #[test]
    fn chg11_files_and_directories_take_each_others_place() {
        let files = TestFiles::new(&[("a/b/c", "c"), ("a/d", "d"), ("e", "e")]);
        let swap = [
            files.replacement("a", content("A")),
            files.replacement("a/b/c", FileContent::Absent),
            files.replacement("a/d", FileContent::Absent),
            files.replacement("e", FileContent::Absent),
            files.replacement("e/f/g", content("g")),
        ];
        fs::create_dir(files.path("a/empty")).expect("a directory");
        files.replace(&swap).expect("swapped");
        assert_eq!(
            (files.read("a").as_deref(), files.read("e/f/g").as_deref()),
            (Some("A"), Some("g"))
        );
        files.undo();
        assert_eq!(
            (files.read("a/b/c").as_deref(), files.read("e").as_deref()),
            (Some("c"), Some("e"))
        );
        // A file that no replacement knows is not lost.
        fs::write(files.path("a/other"), "x").expect("a file");
        let refused = files.replace(&swap).expect_err("in the way");
        assert!(
            refused.message().contains("a directory now, with other in it"),
            "{refused:?}"
        );
        let refused = files.replace(&[files.replacement("e/f/g", content("g"))]);
        let refused = refused.expect_err("in the way");
        assert!(refused.message().contains("e is a file now"), "{refused:?}");
        assert_eq!(
            (files.read("a/b/c").as_deref(), files.read("e").as_deref()),
            (Some("c"), Some("e"))
        );
    }

    #[test]
    fn chg11_nothing_is_written_beyond_a_symlink() {
        let files = TestFiles::new(&[("elsewhere/b", "other"), ("tree/a", "a")]);
        let root = files.path("tree");
        symlink(files.path("elsewhere"), root.join("sub")).expect("a symlink");
        let at = |name: &str| FilePath::new(root.join(name), [root.as_path()].into_iter());
        assert_eq!(at("sub/b").read().expect("readable"), FileContent::Absent);
        let back = Replacement {
            file: at("sub/b"),
            expected: FileContent::Absent,
            next: content("b"),
        };
        let refused = files.replace(std::slice::from_ref(&back)).expect_err("in the way");
        assert!(refused.message().contains("sub is a symlink now"), "{refused:?}");
        // A symlink that comes at the last moment.
        at("sub/b").write(&content("b")).expect_err("not followed");
        at("sub/b").write(&FileContent::Absent).expect("there is no such file");
        assert_eq!(files.read("elsewhere/b").as_deref(), Some("other"));
        let removed = Replacement {
            file: at("sub"),
            expected: at("sub").read().expect("readable"),
            next: FileContent::Absent,
        };
        files.replace(&[back, removed]).expect("the symlink makes way");
        assert_eq!(files.read("tree/sub/b").as_deref(), Some("b"));
        files.undo();
        assert_eq!(fs::read_link(root.join("sub")).ok(), Some(files.path("elsewhere")));
        assert_eq!(files.read("elsewhere/b").as_deref(), Some("other"));
    }

    #[test]
    fn chg11_empty_directories_go_but_never_the_root() {
        let files = TestFiles::new(&[("new/deep/x", "x")]);
        files
            .replace(&[files.replacement("new/deep/x", FileContent::Absent)])
            .expect("removed");
        assert!(files.work.exists() && !files.path("new").exists());
        files.undo();
        assert_eq!(files.read("new/deep/x").as_deref(), Some("x"));
    }
}
