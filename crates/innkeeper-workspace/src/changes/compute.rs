//! Computes a view: finds the repositories, takes snapshots, compares trees.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_host::changes::{ChangedFile, ChangedSide, ChangesetSource, ChangesetView, ComputedChangeset, FileNote};
use innkeeper_host::contents::content;

use super::diff::{self, Extent, MAX_FILES, TreeChange, TreeEntry};
use super::root::Root;
use super::{Inner, Tree, edits, operations};
use crate::git::GitError;
use crate::uri;

/// The mode of a symlink in a tree.
const SYMLINK: &str = "120000";
/// The mode of a submodule in a tree.
const SUBMODULE: &str = "160000";

/// The two trees of a work tree that a view compares.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    pub(crate) root: Arc<Root>,
    pub(crate) before: String,
    pub(crate) after: String,
    /// Whether the second one is the work tree as it is now.
    pub(crate) is_live: bool,
    /// The paths of files in it that are represented by a line about them.
    pub(crate) omitted: Vec<Vec<u8>>,
}

/// The tree before and the tree after.
type Sides = (Option<String>, Option<Tree>);

impl Inner {
    /// Computes a view, and remembers which contents clients may read.
    pub(crate) async fn compute(&self, view: &ChangesetView) -> Result<ComputedChangeset, String> {
        let _in_use = self.in_use.read().await;
        let directories = directories(view)?;
        let compared = self.compared(view, &directories).await?;
        let mut computed = ComputedChangeset::default();
        let mut total = 0;
        for pair in &compared {
            let (changes, count) = self.changes_between(pair, Extent::Shown).await?;
            total += count;
            for change in changes {
                computed.files.extend(self.shown(view, pair, &directories, change));
            }
        }
        let unversioned = edits::unversioned(&self.git, view, &compared).await;
        computed
            .files
            .extend(edits::changes(view, &*self.contents, &unversioned).await);
        if total > MAX_FILES {
            let notice = format!("{total} files differ; the first {MAX_FILES} are shown");
            tracing::info!(notice);
            computed.notice = Some(notice);
            computed.files.truncate(MAX_FILES);
        }
        let is_committed = match view.source {
            ChangesetSource::Branch => self.is_committed(&compared).await?,
            _ => computed.files.is_empty(),
        };
        let stored = self.stored_files(&view.session);
        computed.operations = operations::offered(view, &compared, &computed, is_committed, &stored);
        Ok(computed)
    }

    /// Whether the last commit of the first repository has everything that is in the work tree now.
    async fn is_committed(&self, compared: &[Compared]) -> Result<bool, String> {
        let Some(pair) = compared.first() else {
            return Ok(true);
        };
        let head = pair
            .root
            .head_tree(&self.git)
            .await
            .map_err(|error| error.to_string())?;
        Ok(head == pair.after)
    }

    /// Describes the changes that a commit would make: the lines of `git diff --numstat`, and as much of the patch as
    /// there is room for.
    pub(crate) async fn describe(&self, view: &ChangesetView, max_bytes: usize) -> Option<String> {
        let _in_use = self.in_use.read().await;
        // A branch also has changes that are committed already.
        let view = ChangesetView {
            source: ChangesetSource::Uncommitted,
            ..view.clone()
        };
        let compared = self.compared(&view, &directories(&view).ok()?).await.ok()?;
        let pair = compared.first()?;
        let work_tree = self.work_tree(&pair.root);
        let state = work_tree.state.lock().await;
        let base = ["diff-tree", "-r", "--no-ext-diff", "--no-textconv", "-M"];
        let patch = |kind: &'static str| {
            let mut arguments = base.to_vec();
            arguments.extend([kind, &pair.before, &pair.after]);
            arguments
        };
        let (numbers, patch) = (patch("--numstat"), patch("--patch"));
        let numbers = self.git.run(state.store().call(&pair.root), &numbers).await.ok()?;
        // A patch that is too long for Git's own bound is left out.
        let patch = self
            .git
            .run(state.store().call(&pair.root), &patch)
            .await
            .unwrap_or_default();
        let (numbers, patch) = (String::from_utf8_lossy(&numbers), String::from_utf8_lossy(&patch));
        let text = format!("{numbers}\n{patch}");
        (!numbers.is_empty()).then(|| innkeeper_std::text::truncate(&text, max_bytes).into_owned())
    }

    /// The trees that a view compares, by work tree.
    pub(crate) async fn compared(
        &self,
        view: &ChangesetView,
        directories: &[PathBuf],
    ) -> Result<Vec<Compared>, String> {
        let mut roots = Root::all(&self.git, directories).await?;
        self.add_nested(&mut roots, directories, &self.recorded(view)).await;
        let mut compared = Vec::new();
        let mut next = 0;
        // Snapshots find further repositories.
        while let Some(root) = roots.get(next).cloned() {
            next += 1;
            let root = Arc::new(root);
            // A snapshot does not wait for the other side.
            let (sides, now) = match view.source {
                ChangesetSource::Uncommitted | ChangesetSource::Branch => {
                    let (sides, now) = tokio::join!(self.sides(view, &root), self.snapshot(&root));
                    (sides, Some(now))
                }
                _ => (self.sides(view, &root).await, None),
            };
            let Some((before, after)) = sides? else {
                continue;
            };
            let failed = |error: GitError| error.to_string();
            let before = match before {
                Some(before) => before,
                None => root.first_tree(&self.git).await.map_err(failed)?,
            };
            let is_live = after == Some(Tree::Now);
            let (after, omitted) = match after {
                Some(Tree::Now) => {
                    let snapshot = match now {
                        Some(now) => now?,
                        None => self.snapshot(&root).await?,
                    };
                    self.add_nested(&mut roots, directories, &snapshot.nested).await;
                    (snapshot.tree, snapshot.omitted)
                }
                Some(Tree::Stored(tree)) => (tree, Vec::new()),
                None => (root.empty_tree(&self.git).await.map_err(failed)?, Vec::new()),
            };
            compared.push(Compared {
                root,
                before,
                after,
                is_live,
                omitted,
            });
        }
        Ok(compared)
    }

    /// Adds the repositories that are inside of others and in some directories.
    pub(crate) async fn add_nested(&self, roots: &mut Vec<Root>, directories: &[PathBuf], nested: &[PathBuf]) {
        let is_inside = |path: &&PathBuf| directories.iter().any(|directory| path.starts_with(directory));
        let nested: Vec<PathBuf> = nested.iter().filter(is_inside).cloned().collect();
        Root::add_nested(&self.git, roots, &nested).await;
    }

    /// The work trees of which a view compares recorded trees.
    fn recorded(&self, view: &ChangesetView) -> Vec<PathBuf> {
        self.points(&view.session, |points| {
            let points = match &view.source {
                ChangesetSource::Uncommitted | ChangesetSource::Branch => [None, None],
                ChangesetSource::Session => [points.start(), None],
                ChangesetSource::Turn { turn } => [points.before(turn), points.after(turn)],
                ChangesetSource::Turns { original, modified } => [points.after(original), points.after(modified)],
            };
            let points = points.into_iter().flatten();
            points.flat_map(|point| point.trees.keys().cloned()).collect()
        })
    }

    /// The trees that a view compares in one work tree. There is no first or second one if the work tree did not exist
    /// then, and neither if it existed at neither time.
    async fn sides(&self, view: &ChangesetView, root: &Arc<Root>) -> Result<Option<Sides>, String> {
        let failed = |error: GitError| format!("git cannot read the repository: {error}");
        let now = Some(Tree::Now);
        let sides = match &view.source {
            ChangesetSource::Uncommitted => (Some(root.head_tree(&self.git).await.map_err(failed)?), now),
            ChangesetSource::Branch => (Some(root.base_tree(&self.git).await.map_err(failed)?), now),
            ChangesetSource::Session => {
                let start = self.points(&view.session, |points| {
                    points.start().map(|start| start.trees.get(&root.path).cloned())
                });
                match start {
                    Some(tree) => (tree, now),
                    // No turn has run yet.
                    None => (Some(self.snapshot(root).await?.tree), now),
                }
            }
            ChangesetSource::Turn { turn } => {
                let before = self.point_before(view, turn, root)?;
                (before, self.point_after(view, turn, root)?)
            }
            ChangesetSource::Turns { original, modified } => {
                let before = match self.point_after(view, original, root)? {
                    Some(Tree::Now) => Some(self.snapshot(root).await?.tree),
                    Some(Tree::Stored(tree)) => Some(tree),
                    None => None,
                };
                (before, self.point_after(view, modified, root)?)
            }
        };
        Ok(Some(sides).filter(|sides| *sides != (None, None)))
    }

    fn point_before(&self, view: &ChangesetView, turn: &str, root: &Root) -> Result<Option<String>, String> {
        let found = self.points(&view.session, |points| {
            points.before(turn).map(|point| point.trees.get(&root.path).cloned())
        });
        found.ok_or_else(|| not_recorded(turn))
    }

    fn point_after(&self, view: &ChangesetView, turn: &str, root: &Root) -> Result<Option<Tree>, String> {
        self.points(&view.session, |points| {
            if !points.has_turn(turn) {
                return Err(not_recorded(turn));
            }
            Ok(match points.after(turn) {
                Some(point) => point.trees.get(&root.path).cloned().map(Tree::Stored),
                None => Some(Tree::Now),
            })
        })
    }

    /// Compares the trees of a pair.
    pub(crate) async fn changes_between(
        &self,
        pair: &Compared,
        extent: Extent,
    ) -> Result<(Vec<TreeChange>, usize), String> {
        let work_tree = self.work_tree(&pair.root);
        let mut state = work_tree.state.lock().await;
        let (store, counts) = state.parts();
        let compared = diff::compare(&self.git, &pair.root, store, counts, &pair.before, &pair.after, extent).await;
        compared.map_err(|error| format!("git cannot compare the files: {error}"))
    }

    /// A changed file as the protocol shows it, if it is in the directories of the view.
    fn shown(
        &self,
        view: &ChangesetView,
        pair: &Compared,
        directories: &[PathBuf],
        change: TreeChange,
    ) -> Option<ChangedFile> {
        let is_inside = |side: &TreeEntry| {
            let path = full_path(&pair.root, side);
            directories.iter().any(|directory| path.starts_with(directory))
        };
        let sides = [change.before.as_ref(), change.after.as_ref()];
        if !sides.iter().flatten().any(|side| is_inside(side)) {
            return None;
        }
        let is_omitted = change
            .after
            .as_ref()
            .is_some_and(|side| pair.omitted.contains(&side.path));
        let has_mode = |mode: &str| sides.iter().flatten().any(|side| side.mode == mode);
        let is_submodule = has_mode(SUBMODULE);
        let lines = change.lines.filter(|_| !is_omitted);
        let note = FileNote {
            is_binary: lines.is_none() && !is_submodule,
            is_symlink: has_mode(SYMLINK),
            is_omitted,
            is_submodule,
        };
        Some(ChangedFile {
            before: change.before.as_ref().and_then(|side| self.side(view, pair, side)),
            after: change.after.as_ref().and_then(|side| self.side(view, pair, side)),
            added: lines.map(|(added, _)| added),
            removed: lines.map(|(_, removed)| removed),
            note,
        })
    }

    fn side(&self, view: &ChangesetView, pair: &Compared, side: &TreeEntry) -> Option<ChangedSide> {
        let uri = uri::from_path(&full_path(&pair.root, side))?;
        let content = match side.mode == SUBMODULE {
            true => content::inline(format!("Subproject commit {}\n", side.id).as_bytes(), &uri),
            false => {
                self.publish(&view.session, &side.id, &pair.root);
                content::change(&side.id, &uri)
            }
        };
        Some(ChangedSide {
            uri,
            content,
            size: None,
            version: side.id.clone(),
            mode: Some(side.mode.clone()),
        })
    }
}

pub(crate) fn full_path(root: &Root, side: &TreeEntry) -> PathBuf {
    root.path.join(OsStr::from_bytes(&side.path))
}

/// The directories of a view on this machine, without symlinks, as Git names them.
pub(crate) fn directories(view: &ChangesetView) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for directory in &view.directories {
        let Some(path) = uri::to_path(directory) else {
            continue;
        };
        match std::fs::canonicalize(&path) {
            Ok(path) => found.push(path),
            Err(error) => return Err(format!("the directory {} cannot be read ({error})", path.display())),
        }
    }
    Ok(found)
}

fn not_recorded(turn: &str) -> String {
    let shown: String = turn.chars().take(64).collect();
    format!("the files of the turn {shown} were not recorded: it ran before this host recorded files, or elsewhere")
}
