//! Snapshots of work trees: the id of a tree with the files as they are on disk.
//!
//! A snapshot is taken with an index and an object directory of the host's own, so that neither the index nor the
//! objects of the repository change, and a lock in the repository does not matter. The index remembers sizes and times
//! of files, so that only changed files are read again. All sessions in a work tree share both.
//!
//! Cost is bounded: a file that is too large, that cannot be read, or that exceeds the bytes of one snapshot is
//! represented by a line about it. So is a pipe, socket or device in the place of a file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::collect::{Pause, remove_objects};
use super::root::Root;
use crate::git::{Git, GitCall, GitError};

/// Largest file whose content is stored.
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum bytes of contents that one snapshot stores.
const MAX_NEW_BYTES: u64 = 1 << 30;
/// A store that has grown by more bytes is collected.
const MAX_GROWTH: u64 = 512 << 20;
/// Maximum files that one snapshot looks at.
const MAX_FILES: usize = 100_000;
/// Maximum bytes of a list of files that Git does not know.
const MAX_LIST: usize = 32 << 20;

/// The files of the host for one work tree.
#[derive(Debug)]
pub(crate) struct SnapshotStore {
    directory: PathBuf,
    /// The index of the repository that the own one was copied from.
    seeded_from: Option<(i64, i64, u64, u64)>,
    /// The tree of the own index, until that changes.
    tree: Option<String>,
    /// The ids of lines that represent files, by path: size and time of the file, and the id.
    omitted: HashMap<Vec<u8>, ((u64, i64), String)>,
    /// The bytes that were stored since objects were collected.
    grown: u64,
}

/// A work tree at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The id of the tree.
    pub(crate) tree: String,
    /// The paths of the files that are represented by a line about them.
    pub(crate) omitted: Vec<Vec<u8>>,
    /// The directories in it that are repositories of their own and no submodules: Git shows nothing of them.
    pub(crate) nested: Vec<PathBuf>,
}

impl SnapshotStore {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            seeded_from: None,
            tree: None,
            omitted: HashMap::new(),
            grown: 0,
        }
    }

    /// The object directory, for commands that read snapshots.
    pub(crate) fn objects(&self) -> PathBuf {
        self.directory.join("objects")
    }

    fn index(&self) -> PathBuf {
        self.directory.join("index")
    }

    /// A command of Git that finds the objects of snapshots, and writes objects there.
    pub(crate) fn call<'a>(&self, root: &'a Root) -> GitCall<'a> {
        GitCall::new(&root.path, &root.settings)
            .with("GIT_OBJECT_DIRECTORY", self.objects())
            .with("GIT_LITERAL_PATHSPECS", "1")
    }

    fn index_call<'a>(&self, root: &'a Root) -> GitCall<'a> {
        self.call(root).with("GIT_INDEX_FILE", self.index())
    }

    /// Takes a snapshot.
    pub(crate) async fn take(&mut self, git: &Git, root: &Root) -> Result<Snapshot, String> {
        match self.try_to_take(git, root).await {
            Ok(snapshot) => Ok(snapshot),
            // A file changed while it was read, or the own index is damaged: once more from the beginning.
            Err(first) => {
                tracing::debug!(problem = first, "a snapshot failed");
                self.seeded_from = None;
                self.try_to_take(git, root).await
            }
        }
    }

    async fn try_to_take(&mut self, git: &Git, root: &Root) -> Result<Snapshot, String> {
        self.prepare(git, root).await?;
        let changed = ["diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty"];
        let new = ["ls-files", "-z", "--others", "--exclude-standard"];
        let mut list = self.index_call(root);
        list.max_output = MAX_LIST;
        let (changed, new) = tokio::join!(git.run(self.index_call(root), &changed), git.run(list, &new));
        let new = match new {
            Err(GitError::TooMuch) => {
                return Err("there are too many files that Git does not know; add them to .gitignore".to_owned());
            }
            new => new.map_err(problem)?,
        };
        let changed = changed.map_err(problem)?;
        let (mut paths, removed) = changed_paths(&changed);
        let new = new.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let (nested, new): (Vec<&[u8]>, Vec<&[u8]>) = new.partition(|path| path.ends_with(b"/"));
        paths.extend(new.into_iter().map(<[u8]>::to_vec));
        let count = paths.len() + removed.len();
        if count > MAX_FILES {
            return Err(format!(
                "{count} files differ from what Git knows, and at most {MAX_FILES} are compared; add files that do \
                 not matter to .gitignore"
            ));
        }
        if count > 0 {
            self.tree = None;
            self.update(git, root, paths, removed).await?;
        }
        let tree = match self.tree.take() {
            Some(known) => known,
            None => {
                let arguments = ["write-tree", "--missing-ok"];
                let tree = git.run(self.index_call(root), &arguments).await.map_err(problem)?;
                String::from_utf8_lossy(&tree).trim_end().to_owned()
            }
        };
        self.tree = Some(tree.clone());
        let mut omitted: Vec<Vec<u8>> = self.omitted.keys().cloned().collect();
        omitted.sort_unstable();
        let nested = nested.into_iter().filter_map(|path| path.strip_suffix(b"/"));
        let nested = nested.map(|path| root.path.join(OsStr::from_bytes(path)));
        let nested = nested.filter(|path| path.join(".git").exists()).collect();
        Ok(Snapshot { tree, omitted, nested })
    }

    /// Makes the object directory, and copies the index of the repository if it changed.
    async fn prepare(&mut self, git: &Git, root: &Root) -> Result<(), String> {
        let source = root.git_directory.join("index");
        let about = fs::metadata(&source).ok();
        let modified = about.as_ref().and_then(|about| about.modified().ok());
        let found = about.map(|about| (about.mtime(), about.mtime_nsec(), about.size(), about.ino()));
        if self.seeded_from == Some(found.unwrap_or_default()) && self.index().exists() {
            return Ok(());
        }
        let failed = |error: io::Error| format!("the host cannot store snapshots ({error})");
        let info = self.objects().join("info");
        fs::create_dir_all(&info).map_err(failed)?;
        let mut alternate = root.common.join("objects").into_os_string().as_bytes().to_vec();
        alternate.push(b'\n');
        fs::write(info.join("alternates"), alternate).map_err(failed)?;
        let copy = self.directory.join("index.new");
        self.omitted.clear();
        self.tree = None;
        match found {
            Some(_) => {
                fs::copy(&source, &copy).map_err(failed)?;
                // Git compares times in seconds. It reads files that changed in the second in which the index was
                // written, so the copy needs the time of the original.
                if let Some(modified) = modified {
                    let copied = File::options().write(true).open(&copy);
                    copied
                        .and_then(|copied| copied.set_modified(modified))
                        .map_err(failed)?;
                }
                fs::rename(&copy, self.index()).map_err(failed)?;
            }
            None => {
                let _ = fs::remove_file(self.index());
                let arguments = ["read-tree", "--empty"];
                git.run(self.index_call(root), &arguments).await.map_err(problem)?;
            }
        }
        self.seeded_from = Some(found.unwrap_or_default());
        Ok(())
    }

    /// Brings changed files into the index.
    async fn update(
        &mut self,
        git: &Git,
        root: &Root,
        paths: Vec<Vec<u8>>,
        removed: Vec<Vec<u8>>,
    ) -> Result<(), String> {
        let top = root.path.clone();
        let sorted = tokio::task::spawn_blocking(move || Sorted::new(&top, paths));
        let sorted = sorted.await.map_err(|_| "looking at changed files failed".to_owned())?;
        self.grown = self.grown.saturating_add(sorted.bytes);
        let mut new_lines: Vec<(Vec<u8>, (u64, i64))> = Vec::new();
        for (path, about) in sorted.omitted {
            if self.omitted.get(&path).is_none_or(|(known, _)| *known != about) {
                new_lines.push((path, about));
            }
        }
        for path in sorted.stored.iter().chain(&removed) {
            self.omitted.remove(path);
        }
        let updated = update_index(git, || self.index_call(root), &removed, &sorted.stored).await;
        updated.map_err(problem)?;
        if !new_lines.is_empty() {
            self.store_lines(git, root, new_lines).await?;
        }
        Ok(())
    }

    /// Represents files by lines about them.
    async fn store_lines(&mut self, git: &Git, root: &Root, files: Vec<(Vec<u8>, (u64, i64))>) -> Result<(), String> {
        let failed = |error: io::Error| format!("the host cannot store snapshots ({error})");
        let directory = self.directory.join("lines");
        fs::create_dir_all(&directory).map_err(failed)?;
        let mut names = Vec::new();
        for (number, (_, (size, modified))) in files.iter().enumerate() {
            let name = directory.join(number.to_string());
            let line = format!("(The host did not store this file: it has {size} bytes. Time: {modified}.)\n");
            fs::write(&name, line).map_err(failed)?;
            names.extend_from_slice(name.as_os_str().as_bytes());
            names.push(b'\n');
        }
        let arguments = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
        let ids = git
            .run(self.call(root).input(names), &arguments)
            .await
            .map_err(problem)?;
        let ids = String::from_utf8_lossy(&ids);
        let mut input = Vec::new();
        for ((path, about), id) in files.into_iter().zip(ids.lines()) {
            input.extend_from_slice(format!("100644 {id} 0\t").as_bytes());
            input.extend_from_slice(&path);
            input.push(0);
            self.omitted.insert(path, (about, id.to_owned()));
        }
        let arguments = ["update-index", "-z", "--index-info"];
        let call = self.index_call(root).input(input);
        git.run(call, &arguments).await.map_err(problem)?;
        let _ = fs::remove_dir_all(&directory);
        Ok(())
    }
}

impl SnapshotStore {
    /// Whether it is worth while to collect objects.
    pub(crate) fn has_grown(&self) -> bool {
        self.grown > MAX_GROWTH
    }

    /// Removes all objects but those of some trees, some others, and those of the index. Returns how many were removed.
    pub(crate) async fn collect(
        &mut self,
        git: &Git,
        root: &Root,
        mut trees: HashSet<String>,
        mut objects: HashSet<String>,
        pause: Pause,
    ) -> Result<u64, String> {
        self.grown = 0;
        if self.seeded_from.is_some() {
            let entries = git.run(self.index_call(root), &["ls-files", "-s", "-z"]).await;
            let entries = entries.map_err(problem)?;
            let id =
                |entry: &[u8]| Some(String::from_utf8_lossy(entry.split(|byte| *byte == b' ').nth(1)?).into_owned());
            objects.extend(entries.split(|byte| *byte == 0).filter_map(id));
            trees.extend(self.tree.clone());
        }
        if !trees.is_empty() {
            let mut input = trees.into_iter().collect::<Vec<_>>().join("\n").into_bytes();
            input.push(b'\n');
            let arguments = [
                "rev-list",
                "--objects",
                "--no-object-names",
                "--ignore-missing",
                "--missing=allow-any",
            ];
            let arguments: Vec<&str> = arguments.into_iter().chain(["--stdin"]).collect();
            let found = git
                .run(self.call(root).input(input), &arguments)
                .await
                .map_err(problem)?;
            objects.extend(String::from_utf8_lossy(&found).lines().map(str::to_owned));
        }
        let directory = self.objects();
        let removing = tokio::task::spawn_blocking(move || {
            // It ends with the removal, also if nothing waits for that any more.
            let _pause = pause;
            remove_objects(&directory, &objects)
        });
        removing
            .await
            .map_err(|_| "the directory of objects cannot be read".to_owned())
    }
}

/// Brings files into an index. Those that are gone come first, because a directory, a file or a symlink may have taken
/// the place of another: Git refuses to look for a file beyond a symlink.
pub(crate) async fn update_index<'a>(
    git: &Git,
    call: impl Fn() -> GitCall<'a>,
    removed: &[Vec<u8>],
    stored: &[Vec<u8>],
) -> Result<(), GitError> {
    let remove = ["update-index", "-z", "--force-remove", "--stdin"].as_slice();
    let store = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"].as_slice();
    for (arguments, paths) in [(remove, removed), (store, stored)] {
        if paths.is_empty() {
            continue;
        }
        let mut input = paths.join(&0);
        input.push(0);
        git.run(call().input(input), arguments).await?;
    }
    Ok(())
}

fn problem(error: GitError) -> String {
    format!("git cannot read the files: {error}")
}

/// The paths of `git diff-files -z --raw`: those of files, and those where no file is any more.
fn changed_paths(answer: &[u8]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut fields = answer.split(|byte| *byte == 0);
    let mut paths: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
    while let (Some(about), Some(path)) = (fields.next(), fields.next()) {
        // A conflict has several entries.
        let is_removed = paths.entry(path.to_vec()).or_insert(true);
        *is_removed &= about.ends_with(b" D");
    }
    let (removed, changed): (Vec<_>, Vec<_>) = paths.into_iter().partition(|(_, is_removed)| *is_removed);
    let paths = |entries: Vec<(Vec<u8>, bool)>| entries.into_iter().map(|(path, _)| path).collect();
    (paths(changed), paths(removed))
}

/// Changed files, by what is done about them.
#[derive(Debug, Default)]
struct Sorted {
    /// Git reads them, or notes that they are gone.
    stored: Vec<Vec<u8>>,
    /// Lines represent them; with size and time.
    omitted: Vec<(Vec<u8>, (u64, i64))>,
    /// The size of the files that are stored.
    bytes: u64,
}

impl Sorted {
    fn new(top: &Path, paths: Vec<Vec<u8>>) -> Self {
        let mut sorted = Self::default();
        let mut room = MAX_NEW_BYTES;
        for path in paths {
            let full = top.join(OsStr::from_bytes(&path));
            let about = fs::symlink_metadata(&full);
            match about {
                Ok(about) if !is_storable(&full, &about, &mut room) => {
                    let modified = about
                        .mtime()
                        .saturating_mul(1_000_000_000)
                        .saturating_add(about.mtime_nsec());
                    sorted.omitted.push((path, (about.len(), modified)));
                }
                // Removed files, symlinks and submodules, too.
                _ => sorted.stored.push(path),
            }
        }
        sorted.bytes = MAX_NEW_BYTES - room;
        sorted
    }
}

fn is_storable(path: &Path, about: &Metadata, room: &mut u64) -> bool {
    if !about.is_file() {
        // Git stores no pipes, sockets and devices.
        return about.is_symlink() || about.is_dir();
    }
    if about.len() > MAX_FILE_BYTES || about.len() > *room || File::open(path).is_err() {
        return false;
    }
    *room -= about.len();
    true
}
