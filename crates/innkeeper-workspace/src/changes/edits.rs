//! Changes to files that Git does not know, because they are outside of repositories or ignored: those that tools of
//! the session recorded.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use imara_diff::{Algorithm, Diff, InternedInput};
use innkeeper_host::changes::{ChangedFile, ChangedSide, ChangesetSource, ChangesetView, FileNote, RecordedEdit};
use innkeeper_host::contents::content::ContentUri;
use innkeeper_host::contents::{Contents, content_name};

use super::compute::Compared;
use crate::git::{Git, GitCall};
use crate::repository::parsed::is_text;
use crate::uri;

/// Largest file whose lines are compared.
const MAX_COMPARED: u64 = 4 << 20;

/// A file before and after, as far as the recorded edits tell.
#[derive(Debug, PartialEq, Eq)]
struct Pair<'a> {
    file: &'a str,
    /// The URI of the content before; `None` if the file did not exist.
    before: Option<&'a str>,
    after: After<'a>,
}

/// The state of a file after some edits.
#[derive(Debug, PartialEq, Eq)]
enum After<'a> {
    /// As it is now.
    Now,
    /// As a later edit found it; `None` if it did not exist.
    Stored(Option<&'a str>),
}

/// The files of recorded edits that the compared trees do not have: those outside of the work trees, and ignored ones.
pub(crate) async fn unversioned(git: &Git, view: &ChangesetView, compared: &[Compared]) -> HashSet<PathBuf> {
    let mut unversioned = HashSet::new();
    // The files of each work tree, by their names in it.
    let mut inside: Vec<HashMap<Vec<u8>, PathBuf>> = vec![HashMap::new(); compared.len()];
    for pair in pairs(&view.source, &view.edits) {
        let Some(path) = uri::to_path(pair.file) else {
            continue;
        };
        // Git names files without symlinks on the way to them.
        let real = match (path.parent().map(fs::canonicalize), path.file_name()) {
            (Some(Ok(parent)), Some(name)) => parent.join(name),
            _ => path.clone(),
        };
        let around = compared.iter().enumerate();
        let around = around.filter_map(|(index, pair)| Some((index, real.strip_prefix(&pair.root.path).ok()?)));
        match around.min_by_key(|(_, name)| name.as_os_str().len()) {
            Some((index, name)) => drop(inside[index].insert(name.as_os_str().as_bytes().to_vec(), path)),
            None => drop(unversioned.insert(path)),
        }
    }
    for (pair, mut files) in compared.iter().zip(inside) {
        if files.is_empty() {
            continue;
        }
        let mut input = files.keys().cloned().collect::<Vec<_>>().join(&0);
        input.push(0);
        let call = GitCall::new(&pair.root.path, &pair.root.settings).input(input);
        // It fails if there is none.
        let ignored = git
            .run(call, &["check-ignore", "-z", "--stdin"])
            .await
            .unwrap_or_default();
        let ignored = ignored.split(|byte| *byte == 0);
        unversioned.extend(ignored.filter_map(|name| files.remove(name)));
    }
    unversioned
}

/// Computes the changes of a view to some files.
pub(crate) async fn changes(
    view: &ChangesetView,
    contents: &dyn Contents,
    unversioned: &HashSet<PathBuf>,
) -> Vec<ChangedFile> {
    let mut files = Vec::new();
    for pair in pairs(&view.source, &view.edits) {
        let Some(path) = uri::to_path(pair.file).filter(|path| unversioned.contains(path)) else {
            continue;
        };
        let before = match pair.before {
            Some(content) => Some(stored(view, contents, pair.file, content).await),
            None => None,
        };
        let after = match pair.after {
            After::Now => now(pair.file, &path),
            After::Stored(Some(content)) => Some(stored(view, contents, pair.file, content).await),
            After::Stored(None) => None,
        };
        files.extend(changed(before, after));
    }
    files
}

/// The first state of each file in the span of a view, and the last.
fn pairs<'a>(source: &ChangesetSource, edits: &'a [RecordedEdit]) -> Vec<Pair<'a>> {
    let position = |turn: &str| edits.iter().position(|edit| edit.turn == turn);
    let end_of = |turn: &str| edits.iter().rposition(|edit| edit.turn == turn).map(|last| last + 1);
    // Edits of one turn are adjacent unless turns of two chats ran at the same time.
    let span = match source {
        ChangesetSource::Session => Some((0, edits.len())),
        // Without Git there are no commits.
        ChangesetSource::Uncommitted | ChangesetSource::Branch => None,
        ChangesetSource::Turn { turn } => position(turn).zip(end_of(turn)),
        ChangesetSource::Turns { original, modified } => end_of(modified).map(|end| {
            let from = end_of(original).unwrap_or_default();
            (from.min(end), end.max(from))
        }),
    };
    let Some((from, to)) = span else {
        return Vec::new();
    };
    let only = match source {
        ChangesetSource::Turn { turn } => Some(turn.as_str()),
        _ => None,
    };
    let mut pairs: Vec<Pair<'a>> = Vec::new();
    let mut known: HashMap<&str, ()> = HashMap::new();
    for edit in edits.get(from..to).unwrap_or_default() {
        let is_meant = only.is_none_or(|turn| edit.turn == turn);
        if !is_meant || known.insert(&edit.file, ()).is_some() {
            continue;
        }
        let is_later = |later: &&RecordedEdit| later.file == edit.file && only.is_none_or(|turn| later.turn != turn);
        let later = edits.get(to..).unwrap_or_default().iter().find(is_later);
        pairs.push(Pair {
            file: &edit.file,
            before: edit.before.as_deref(),
            after: match later {
                Some(later) => After::Stored(later.before.as_deref()),
                None => After::Now,
            },
        });
    }
    pairs
}

/// A side, and its bytes if they are available.
type Side = (ChangedSide, Option<Vec<u8>>);

async fn stored(view: &ChangesetView, contents: &dyn Contents, file: &str, content: &str) -> Side {
    let bytes = match ContentUri::parse(content) {
        Some(ContentUri::Inline(bytes)) => Some(bytes),
        Some(ContentUri::Blob(name)) => read(contents, &view.session, &name).await,
        Some(ContentUri::OfSession { session, name }) => read(contents, &session, &name).await,
        Some(ContentUri::Change(_)) | None => None,
    };
    let side = ChangedSide {
        uri: file.to_owned(),
        content: content.to_owned(),
        size: bytes.as_ref().and_then(|bytes| u64::try_from(bytes.len()).ok()),
        version: bytes
            .as_ref()
            .map_or_else(|| content.to_owned(), |bytes| content_name(bytes, None)),
        mode: None,
    };
    (side, bytes)
}

async fn read(contents: &dyn Contents, session: &str, name: &str) -> Option<Vec<u8>> {
    let content = contents.read(session, name).await.ok().flatten()?;
    Some(content.bytes)
}

/// A file as it is now; `None` if it is gone.
fn now(file: &str, path: &Path) -> Option<Side> {
    let about = fs::metadata(path).ok().filter(|about| about.is_file())?;
    let bytes = (about.len() <= MAX_COMPARED).then(|| fs::read(path).ok()).flatten();
    let version = match &bytes {
        Some(bytes) => content_name(bytes, None),
        None => format!("{}-{:?}", about.len(), about.modified().ok()),
    };
    let side = ChangedSide {
        uri: file.to_owned(),
        content: file.to_owned(),
        size: Some(about.len()),
        version,
        mode: None,
    };
    Some((side, bytes))
}

fn changed(before: Option<Side>, after: Option<Side>) -> Option<ChangedFile> {
    let version = |side: &Option<Side>| side.as_ref().map(|(side, _)| side.version.clone());
    // A file that is as it was, or that came and went.
    if version(&before) == version(&after) {
        return None;
    }
    let bytes = |side: &Option<Side>| match side {
        Some((_, bytes)) => bytes.clone(),
        None => Some(Vec::new()),
    };
    let texts = bytes(&before).zip(bytes(&after));
    let texts = texts.filter(|(before, after)| is_text(before) && is_text(after));
    let lines = texts.as_ref().map(|(before, after)| {
        let input = InternedInput::new(before.as_slice(), after.as_slice());
        let diff = Diff::compute(Algorithm::Histogram, &input);
        (u64::from(diff.count_additions()), u64::from(diff.count_removals()))
    });
    Some(ChangedFile {
        before: before.map(|(side, _)| side),
        after: after.map(|(side, _)| side),
        added: lines.map(|(added, _)| added),
        removed: lines.map(|(_, removed)| removed),
        note: FileNote {
            is_binary: lines.is_none(),
            ..FileNote::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(turn: &str, file: &str, before: Option<&str>) -> RecordedEdit {
        RecordedEdit {
            turn: turn.to_owned(),
            file: file.to_owned(),
            before: before.map(str::to_owned),
        }
    }

    #[test]
    fn chg02_without_git_views_come_from_recorded_edits() {
        let edits = [
            edit("t1", "a", None),
            edit("t1", "b", Some("b0")),
            edit("t2", "a", Some("a1")),
            edit("t3", "a", Some("a2")),
        ];
        let told = |source: ChangesetSource| -> Vec<(String, Option<String>, String)> {
            let pairs = pairs(&source, &edits);
            let tell = |pair: Pair<'_>| {
                let after = match pair.after {
                    After::Now => "now".to_owned(),
                    After::Stored(content) => content.unwrap_or("nothing").to_owned(),
                };
                (pair.file.to_owned(), pair.before.map(str::to_owned), after)
            };
            pairs.into_iter().map(tell).collect()
        };
        let row = |file: &str, before: Option<&str>, after: &str| {
            (file.to_owned(), before.map(str::to_owned), after.to_owned())
        };
        let turn = |turn: &str| ChangesetSource::Turn { turn: turn.to_owned() };
        assert_eq!(
            told(ChangesetSource::Session),
            [row("a", None, "now"), row("b", Some("b0"), "now")]
        );
        assert_eq!(told(turn("t1")), [row("a", None, "a1"), row("b", Some("b0"), "now")]);
        assert_eq!(told(turn("t2")), [row("a", Some("a1"), "a2")]);
        assert_eq!(told(turn("t3")), [row("a", Some("a2"), "now")]);
        assert_eq!(told(turn("no")), []);
        let turns = ChangesetSource::Turns {
            original: "t1".to_owned(),
            modified: "t3".to_owned(),
        };
        assert_eq!(told(turns), [row("a", Some("a1"), "now")]);
        assert_eq!(told(ChangesetSource::Uncommitted), []);
    }
}
