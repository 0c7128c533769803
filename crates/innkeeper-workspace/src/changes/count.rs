//! Counts the files and lines that differ since a session began, for summaries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_host::changes::{ChangesetSource, ChangesetView, CountedChanges};

use super::Inner;
use super::compute::{self, Compared, full_path};
use super::diff::Extent;
use super::root::Root;
use super::snapshot::Snapshot;

impl Inner {
    /// Counts the changes until now. `None` before the first turn, and without a repository.
    pub(crate) async fn count(&self, session: &str, directories: &[String]) -> Option<CountedChanges> {
        let _in_use = self.in_use.read().await;
        self.points(session, |points| points.start().map(|_| ()))?;
        let view = ChangesetView {
            session: session.into(),
            directories: directories.to_vec(),
            source: ChangesetSource::Session,
            edits: Arc::default(),
            title: String::new(),
        };
        let directories = compute::directories(&view).ok()?;
        let compared = self.compared(&view, &directories).await.ok()?;
        self.count_compared(&compared, &directories).await
    }

    /// Counts the changes until some snapshots.
    pub(crate) async fn count_between(
        &self,
        session: &str,
        directories: &[PathBuf],
        snapshots: Vec<(Arc<Root>, Snapshot)>,
    ) -> Option<CountedChanges> {
        let mut compared = Vec::new();
        for (root, snapshot) in snapshots {
            let first = self.points(session, |points| Some(points.start()?.trees.get(&root.path).cloned()))?;
            compared.push(Compared {
                before: match first {
                    Some(first) => first,
                    None => root.first_tree(&self.git).await.ok()?,
                },
                after: snapshot.tree,
                is_live: true,
                omitted: snapshot.omitted,
                root,
            });
        }
        self.count_compared(&compared, directories).await
    }

    async fn count_compared(&self, compared: &[Compared], directories: &[PathBuf]) -> Option<CountedChanges> {
        if compared.is_empty() {
            return None;
        }
        let is_inside = |path: &Path| directories.iter().any(|directory| path.starts_with(directory));
        let mut counted = CountedChanges::default();
        for pair in compared {
            let (changes, _) = self.changes_between(pair, Extent::Shown).await.ok()?;
            for change in changes {
                let sides = || [&change.before, &change.after].into_iter().flatten();
                if !sides().any(|side| is_inside(&full_path(&pair.root, side))) {
                    continue;
                }
                counted.files += 1;
                if !sides().any(|side| pair.omitted.contains(&side.path)) {
                    let (added, removed) = change.lines.unwrap_or_default();
                    counted.additions += added;
                    counted.deletions += removed;
                }
            }
        }
        Some(counted)
    }
}
