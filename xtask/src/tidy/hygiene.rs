//! Text that no file of the repository may hold: traces of one machine, registries, unfinished work, and retries of
//! tests.

use super::Finding;

const PATH_RULE: &str = "machine-path";
const REGISTRY_RULE: &str = "registry-host";
const UNFINISHED_RULE: &str = "unfinished";
const RETRY_RULE: &str = "retries";

/// The configuration of test runs.
const TEST_RUNS: &str = ".config/nextest.toml";

// The patterns are put together from halves, so that this file does not break its own rules.

/// Folders that exist on the author's machine.
const MACHINE_FOLDERS: &[&str] = &[concat!("/wo", "rk"), concat!("/ro", "ot")];

/// Folders that hold one folder per user.
const HOME_FOLDERS: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// User names that examples may use.
const SAMPLE_USERS: &[&str] = &["alice", "bob", "me", "user", "you"];

const REGISTRY_HOSTS: &[&str] = &[concat!("crates", ".io"), concat!("npmjs", ".org")];

const UNFINISHED: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[ign", "ore"),
];

/// Everything the rules look for, including the registries that this workspace's lock file names.
pub(super) struct Banned {
    registry_hosts: Vec<String>,
}

impl Banned {
    /// Prepares the rules for a workspace with the given lock file.
    pub(super) fn with_registries_of(lock_file: &str) -> Self {
        let known = REGISTRY_HOSTS.iter().map(|host| (*host).to_owned());
        let locked = lock_file
            .lines()
            .filter_map(|line| line.trim().strip_prefix("source = \""))
            .filter(|source| source.starts_with("registry+") || source.starts_with("sparse+"))
            .filter_map(|source| source.split_once("://"))
            .filter_map(|(_, rest)| rest.split(['/', '"', ':']).next())
            // The public index has its git mirror on a host that is no registry.
            .filter(|host| *host != "github.com")
            .map(str::to_owned);
        let mut registry_hosts: Vec<String> = known.chain(locked).collect();
        registry_hosts.sort();
        registry_hosts.dedup();
        Self { registry_hosts }
    }

    /// Checks one text file.
    pub(super) fn check(&self, path: &str, text: &str) -> Vec<Finding> {
        // The lock file is cargo's, corpora are whatever bytes the fuzzer found interesting, and the built web app has
        // the words of its libraries.
        let foreign = ["fuzz/corpus/", "crates/innkeeper-web/dist/"];
        if path == "Cargo.lock"
            || path.ends_with("/Cargo.lock")
            || foreign.iter().any(|folder| path.starts_with(folder))
        {
            return Vec::new();
        }
        let mut findings = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let mut report = |rule, what, remedy: &str| {
                findings.push(Finding {
                    path: path.to_owned(),
                    line: index + 1,
                    rule,
                    what,
                    remedy: remedy.to_owned(),
                });
            };
            if let Some(folder) = machine_path(line) {
                report(
                    PATH_RULE,
                    format!("a path of one machine, below {folder}"),
                    "make it relative, take it as a parameter, or use a made-up folder such as /srv/project",
                );
            }
            if let Some(host) = self.registry_hosts.iter().find(|host| line.contains(host.as_str())) {
                report(
                    REGISTRY_RULE,
                    format!("names the package registry {host}"),
                    "leave the choice of registry to cargo's configuration; link to docs.rs or the repository",
                );
            }
            if path == TEST_RUNS && line.trim_start().starts_with("retries") {
                report(
                    RETRY_RULE,
                    "retries hide flaky tests".to_owned(),
                    "find the cause, or delete the test and say so",
                );
            }
            if let Some(marker) = UNFINISHED.iter().find(|marker| has_marker(line, marker)) {
                report(
                    UNFINISHED_RULE,
                    format!("`{marker}` marks unfinished work"),
                    "finish it, delete it, or open an issue and leave the code whole without it",
                );
            }
        }
        findings
    }
}

fn machine_path(line: &str) -> Option<&'static str> {
    let machine = MACHINE_FOLDERS
        .iter()
        .find(|folder| path_starts(line, folder).any(|rest| !rest.starts_with(|c: char| is_path_word(c))));
    let home = HOME_FOLDERS.iter().find(|folder| {
        path_starts(line, folder).any(|rest| {
            let end = rest.find(|c: char| !is_path_word(c)).unwrap_or(rest.len());
            end > 0 && !SAMPLE_USERS.contains(&&rest[..end])
        })
    });
    machine.or(home).copied()
}

/// Returns what follows the folder, wherever it is the beginning of a path.
fn path_starts<'a>(line: &'a str, folder: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(folder)
        .filter(|(start, _)| !line[..*start].ends_with(|c: char| is_path_word(c) || ")}>".contains(c)))
        .map(|(start, _)| &line[start + folder.len()..])
}

fn is_path_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Returns whether a line holds the marker as a word of its own.
fn has_marker(line: &str, marker: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(marker).any(|(start, _)| {
        let inside_name = marker.starts_with(is_name) && line[..start].ends_with(is_name);
        let goes_on = marker.ends_with(is_name) && line[start + marker.len()..].starts_with(is_name);
        !inside_name && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<&'static str> {
        let lock_file = "source = \"sparse+https://packages.example.net/index\"\n\
                         source = \"registry+https://github.com/a/b\"\n";
        let findings = Banned::with_registries_of(lock_file).check("a.md", text);
        findings.into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn ordinary_paths_pass() {
        for line in [
            "cd crates/innkeeper && ls /tmp/a /srv/project",
            concat!("a/ro", "ot/b and {base}/wo", "rk and /ro", "oted"),
            concat!("ahp-ro", "ot:// and file:///ho", "me/alice/project"),
        ] {
            assert!(rules(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn machine_paths_fail() {
        for line in [
            concat!("cd /wo", "rk/main"),
            concat!("`/ro", "ot`"),
            concat!("file:///wo", "rk/x"),
            concat!("see /ho", "me/karl/x"),
            concat!("/Us", "ers/karl"),
        ] {
            assert_eq!(rules(line), [PATH_RULE], "{line}");
        }
    }

    #[test]
    fn registries_fail_outside_the_lock_file() {
        assert!(rules("see https://docs.rs/ahp and https://github.com/a/b").is_empty());
        assert_eq!(rules(concat!("see crates", ".io")), [REGISTRY_RULE]);
        assert_eq!(rules("index = packages.example.net"), [REGISTRY_RULE]);
        let line = concat!("source = \"registry+https://index.crates", ".io/\"");
        let banned = Banned::with_registries_of("");
        assert!(banned.check("Cargo.lock", line).is_empty());
    }

    #[test]
    fn unfinished_work_fails() {
        assert!(rules("mktemp /tmp/a.XXXXXX; a todo list; #[expect(x)]").is_empty());
        for line in [
            concat!("todo", "!()"),
            concat!("unimplemented", "!(\"later\")"),
            concat!("// FIX", "ME later"),
            concat!("// XX", "X: odd"),
            concat!("#[ign", "ore]"),
            concat!("#[ign", "ore = \"slow\"]"),
        ] {
            assert_eq!(rules(line), [UNFINISHED_RULE], "{line}");
        }
    }

    #[test]
    fn retries_of_tests_fail() {
        let banned = Banned::with_registries_of("");
        let found = |path, text| banned.check(path, text).len();
        assert_eq!(found(TEST_RUNS, "# There are no retries.\nretries = 2\n"), 1);
        assert_eq!(found(TEST_RUNS, "fail-fast = false\n"), 0);
        assert_eq!(found("docs/dev/testing.md", "retries = 2\n"), 0);
    }

    #[test]
    fn findings_name_the_line() {
        let text = concat!("fine\n\nFIX", "ME\n");
        assert_eq!(Banned::with_registries_of("").check("a", text)[0].line, 3);
    }
}
