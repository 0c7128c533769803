//! Folders: at most so many source files side by side, so that a reader finds a file by its name.

use std::collections::BTreeMap;

use super::Finding;
use super::ratchet::Scoped;

const RULE: &str = "crowded-folder";

const MAX_FILES: usize = 20;

/// Checks how many Rust files each folder holds. Each file too many is a finding.
pub(super) fn check<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<Scoped> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths.filter(|path| path.ends_with(".rs")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder).or_default() += 1;
    }
    let too_many = |(folder, count): (&'a str, usize)| (MAX_FILES..count).map(move |_| (folder, count));
    let scoped = |(folder, count): (&str, usize)| Scoped {
        scope: folder.to_owned(),
        finding: Finding {
            path: folder.to_owned(),
            line: 1,
            rule: RULE,
            what: format!("{count} source files side by side, at most {MAX_FILES} are allowed"),
            remedy: "group files that belong together into folders".to_owned(),
        },
    };
    folders.into_iter().flat_map(too_many).map(scoped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_by_folder() {
        let paths = |count| {
            (0..count)
                .map(|number| format!("crates/a/src/f{number}.rs"))
                .collect::<Vec<_>>()
        };
        let check = |paths: Vec<String>| check(paths.iter().map(String::as_str)).len();
        assert_eq!(check(paths(MAX_FILES)), 0);
        assert_eq!(check(paths(MAX_FILES + 2)), 2);
        let deeper = paths(MAX_FILES)
            .into_iter()
            .chain(["crates/a/src/b/c.rs".to_owned(), "crates/a/src/a.md".to_owned()]);
        assert_eq!(check(deeper.collect()), 0);
    }
}
