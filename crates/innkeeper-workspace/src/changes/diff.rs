//! The difference of two trees: which files, how they changed, and how many lines.

use std::collections::HashMap;

use super::root::Root;
use super::snapshot::SnapshotStore;
use crate::git::{Git, GitError};

/// Maximum files of one changeset.
pub(crate) const MAX_FILES: usize = 10_000;
/// With fewer files than this whose lines are not known yet, only those are counted.
const MAX_NAMED: usize = 200;
/// Most counts that are remembered.
const MAX_COUNTS: usize = 100_000;

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeChange {
    /// The side before; `None` for a new file.
    pub(crate) before: Option<TreeEntry>,
    /// The side after; `None` for a deleted file.
    pub(crate) after: Option<TreeEntry>,
    /// Added and removed lines; `None` if the file is not text.
    pub(crate) lines: Option<(u64, u64)>,
}

/// One side of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    pub(crate) path: Vec<u8>,
    pub(crate) mode: String,
    pub(crate) id: String,
}

/// Line counts by the ids of both sides.
#[derive(Debug, Default)]
pub(crate) struct LineCounts {
    known: HashMap<(String, String), Option<(u64, u64)>>,
}

impl LineCounts {
    fn key(change: &TreeChange) -> (String, String) {
        let id = |side: &Option<TreeEntry>| side.as_ref().map(|side| side.id.clone()).unwrap_or_default();
        (id(&change.before), id(&change.after))
    }

    fn add(&mut self, changes: &[TreeChange]) {
        if self.known.len() > MAX_COUNTS {
            self.known.clear();
        }
        for change in changes {
            self.known.insert(Self::key(change), change.lines);
        }
    }
}

/// The files of a comparison that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The first [`MAX_FILES`], with their lines.
    Shown,
    /// All of them, without lines.
    All,
}

/// Compares two trees. Returns the changes, and how many there are.
pub(crate) async fn compare(
    git: &Git,
    root: &Root,
    store: &SnapshotStore,
    counts: &mut LineCounts,
    before: &str,
    after: &str,
    extent: Extent,
) -> Result<(Vec<TreeChange>, usize), GitError> {
    if before == after {
        return Ok((Vec::new(), 0));
    }
    let mut arguments = vec!["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M"];
    arguments.extend(["--no-ext-diff", "--no-textconv"]);
    // The first time all lines are counted, in the same run.
    if extent == Extent::Shown && counts.known.is_empty() {
        arguments.push("--numstat");
    }
    arguments.extend([before, after]);
    let answer = git.run(store.call(root), &arguments).await?;
    let (mut changes, numbers) = parse_raw(&answer);
    let total = changes.len();
    if extent == Extent::All {
        return Ok((changes, total));
    }
    changes.truncate(MAX_FILES);
    if !numbers.is_empty() {
        count_lines(&mut changes, &parse_numstat(numbers));
        counts.add(&changes);
        return Ok((changes, total));
    }
    let mut unknown = 0;
    for change in &mut changes {
        match counts.known.get(&LineCounts::key(change)) {
            Some(lines) => change.lines = *lines,
            None => unknown += 1,
        }
    }
    if unknown == 0 {
        return Ok((changes, total));
    }
    let is_named = unknown <= MAX_NAMED;
    let mut arguments: Vec<Vec<u8>> = ["diff-tree", "-r", "-z", "--numstat", "--no-ext-diff", "--no-textconv"]
        .iter()
        .map(|argument| argument.as_bytes().to_vec())
        .collect();
    arguments.extend([b"-M".to_vec(), before.into(), after.into(), b"--".to_vec()]);
    if is_named {
        for change in changes
            .iter()
            .filter(|change| !counts.known.contains_key(&LineCounts::key(change)))
        {
            let sides = [&change.before, &change.after];
            arguments.extend(sides.iter().filter_map(|side| Some(side.as_ref()?.path.clone())));
        }
    }
    use std::os::unix::ffi::OsStrExt as _;
    let arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(|it| std::ffi::OsStr::from_bytes(it)).collect();
    let numbers = git.run(store.call(root), &arguments).await?;
    count_lines(&mut changes, &parse_numstat(&numbers));
    counts.add(&changes);
    Ok((changes, total))
}

fn count_lines(changes: &mut [TreeChange], numbers: &HashMap<Vec<u8>, Option<(u64, u64)>>) {
    for change in changes {
        let side = change.after.as_ref().or(change.before.as_ref());
        if let Some(lines) = side.and_then(|side| numbers.get(&side.path)) {
            change.lines = *lines;
        }
    }
}

/// Reads `git diff-tree -z --raw`, and returns the answer behind it: that of `--numstat`, if it was asked for.
fn parse_raw(answer: &[u8]) -> (Vec<TreeChange>, &[u8]) {
    let mut changes = Vec::new();
    let mut rest = answer;
    while let Some((head, after_head)) = rest.strip_prefix(b":").and_then(field) {
        let Some((first, after_first)) = field(after_head) else {
            break;
        };
        rest = after_first;
        let parts: Vec<&str> = std::str::from_utf8(head).unwrap_or_default().split(' ').collect();
        let [old_mode, new_mode, old_id, new_id, status] = parts.as_slice() else {
            continue;
        };
        let second = match status.starts_with(['R', 'C']).then(|| field(rest)).flatten() {
            Some((second, after_second)) => {
                rest = after_second;
                second
            }
            None => first,
        };
        let entry = |path: &[u8], mode: &str, id: &str| {
            (mode != "000000").then(|| TreeEntry {
                path: path.to_vec(),
                mode: mode.to_owned(),
                id: id.to_owned(),
            })
        };
        changes.push(TreeChange {
            before: entry(first, old_mode, old_id),
            after: entry(second, new_mode, new_id),
            lines: None,
        });
    }
    (changes, rest)
}

/// The bytes before the next zero, and those behind it.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Reads `git diff-tree -z --numstat`: lines by the path after the change.
fn parse_numstat(answer: &[u8]) -> HashMap<Vec<u8>, Option<(u64, u64)>> {
    let mut numbers = HashMap::new();
    let mut fields = answer.split(|byte| *byte == 0);
    while let Some(entry) = fields.next() {
        let mut parts = entry.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(removed), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        // A rename has both paths in fields of their own.
        let path = match path.is_empty() {
            true => fields.nth(1).unwrap_or_default(),
            false => path,
        };
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
        numbers.insert(path.to_vec(), number(added).zip(number(removed)));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chg08_renames_deletions_modes_and_odd_names_are_read() {
        let zero = "0".repeat(40);
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let mut raw = Vec::new();
        raw.extend_from_slice(format!(":100644 100755 {a} {b} M\0run.sh\0").as_bytes());
        raw.extend_from_slice(format!(":100644 000000 {a} {zero} D\0gone\0").as_bytes());
        raw.extend_from_slice(format!(":000000 120000 {zero} {b} A\0").as_bytes());
        raw.extend_from_slice(b"li\xffnk\0");
        raw.extend_from_slice(format!(":100644 100644 {a} {b} R086\0old name\0new name\0").as_bytes());
        raw.extend_from_slice(b"1\t2\tgone\0");
        let (changes, rest) = parse_raw(&raw);
        assert_eq!(rest, b"1\t2\tgone\0", "the answer of --numstat");
        assert_eq!(changes.len(), 4);
        assert_eq!(changes[0].after.as_ref().map(|side| side.mode.as_str()), Some("100755"));
        assert!(changes[1].after.is_none() && changes[1].before.is_some());
        assert_eq!(
            changes[2].after.as_ref().map(|side| side.path.as_slice()),
            Some(&b"li\xffnk"[..])
        );
        let path =
            |side: &Option<TreeEntry>| String::from_utf8_lossy(&side.as_ref().expect("a side").path).into_owned();
        assert_eq!(
            (path(&changes[3].before), path(&changes[3].after)),
            ("old name".into(), "new name".into())
        );
        let numbers = parse_numstat(b"3\t1\trun.sh\0-\t-\tpixels\x002\t0\t\0old name\0new name\0");
        assert_eq!(numbers[&b"run.sh"[..]], Some((3, 1)));
        assert_eq!(numbers[&b"pixels"[..]], None);
        assert_eq!(numbers[&b"new name"[..]], Some((2, 0)));
        assert_eq!(parse_raw(b"garbage\0:1 2\0").0, []);
        assert_eq!(parse_raw(b":1 2\0a\0:").0, []);
    }
}
