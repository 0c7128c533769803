//! The answers of Git, read without IO. Output that cannot be parsed is passed over: a row without a number is better than no row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use innkeeper_host::repositories::{GitHubRepository, RepositoryChanges};

/// Maximum new files whose paths are kept.
const MAX_NEW_FILES: usize = 1024;
/// How many bytes are looked at to tell text from anything else, as Git does.
const TEXT_SAMPLE: usize = 8000;

/// The settings of a repository that matter here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// By the name of a remote, where it is fetched from.
    remotes: BTreeMap<String, String>,
    /// The filters that the repository itself declares.
    own_filters: BTreeSet<String>,
}

impl Config {
    /// Reads `git config --null --show-scope --list`.
    pub(crate) fn parse(answer: &[u8]) -> Self {
        let mut config = Self::default();
        let mut fields = answer.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
            let (key, value) = entry.split_once('\n').unwrap_or((&entry, ""));
            let Some((section, rest)) = key.split_once('.') else {
                continue;
            };
            // The part in the middle may have dots of its own.
            let Some((name, variable)) = rest.rsplit_once('.') else {
                continue;
            };
            match (section, variable) {
                ("remote", "url") => {
                    config
                        .remotes
                        .entry(name.to_owned())
                        .or_insert_with(|| value.to_owned());
                }
                // Those of the system and of the user are theirs, as that of Git LFS mostly is.
                ("filter", _) if !matches!(&*scope, "system" | "global") => {
                    config.own_filters.insert(name.to_owned());
                }
                _ => {}
            }
        }
        config
    }

    /// Settings under which no filter of the repository runs; `None` if that cannot be said on a command line.
    pub(crate) fn without_own_filters(&self) -> Option<Vec<String>> {
        let mut settings = Vec::new();
        for name in &self.own_filters {
            if name.contains(['=', '\n', '\0']) {
                return None;
            }
            for (variable, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                settings.push(format!("filter.{name}.{variable}={value}"));
            }
        }
        Some(settings)
    }

    /// Whether any remote is on GitHub.
    pub(super) fn has_github_remote(&self) -> bool {
        self.remotes.values().any(|url| github(url).is_some())
    }

    /// The repository on GitHub that this one is a clone of: that of `origin`, else that of the first remote.
    pub(super) fn github(&self) -> Option<GitHubRepository> {
        let first = || self.remotes.values().find_map(|url| github(url));
        self.github_of("origin").or_else(first)
    }

    /// The repository on GitHub behind a remote.
    pub(super) fn github_of(&self, remote: &str) -> Option<GitHubRepository> {
        github(self.remotes.get(remote)?)
    }
}

/// The repository that an address of GitHub names, in any of the forms in which it is written.
fn github(url: &str) -> Option<GitHubRepository> {
    let after_host = match url.split_once("://") {
        Some(("https" | "http" | "ssh" | "git" | "git+ssh", rest)) => {
            let (authority, path) = rest.split_once('/')?;
            let host = authority.rsplit('@').next().unwrap_or(authority);
            let host = host.split(':').next().unwrap_or(host);
            is_github(host).then_some(path)?
        }
        Some(_) => return None,
        // The form of ssh: `user@host:path`.
        None => {
            let (authority, path) = url.split_once(':')?;
            let host = authority.rsplit('@').next().unwrap_or(authority);
            is_github(host).then_some(path)?
        }
    };
    let mut names = after_host.trim_matches('/').split('/');
    let (owner, repo) = (names.next()?, names.next()?);
    let repo = repo.strip_suffix(".git").unwrap_or(repo);
    let is_whole = names.next().is_none() && !owner.is_empty() && !repo.is_empty();
    is_whole.then(|| GitHubRepository {
        owner: owner.to_owned(),
        repo: repo.to_owned(),
    })
}

fn is_github(host: &str) -> bool {
    ["github.com", "www.github.com", "ssh.github.com"]
        .iter()
        .any(|known| host.eq_ignore_ascii_case(known))
}

/// The branch and what is changed in the work tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// `None` while no branch is checked out.
    pub(super) branch: Option<String>,
    pub(super) upstream: Option<String>,
    pub(super) ahead: Option<u64>,
    pub(super) behind: Option<u64>,
    pub(super) has_commits: bool,
    /// How many files differ from the last commit, new ones included.
    pub(super) changed: u64,
    /// How many of them Git does not know yet.
    pub(super) untracked: u64,
    /// The first of those.
    pub(super) new_files: Vec<PathBuf>,
}

impl Status {
    /// Reads `git status --porcelain=v2 --branch -z --no-renames`.
    pub(super) fn parse(answer: &[u8]) -> Self {
        let mut status = Self::default();
        for entry in answer.split(|byte| *byte == 0) {
            match entry {
                [b'#', b' ', header @ ..] => status.header(&String::from_utf8_lossy(header)),
                [b'?', b' ', path @ ..] => {
                    status.changed += 1;
                    status.untracked += 1;
                    if status.new_files.len() < MAX_NEW_FILES {
                        status.new_files.extend(path_of(path));
                    }
                }
                [b'1' | b'2' | b'u', b' ', ..] => status.changed += 1,
                _ => {}
            }
        }
        status
    }

    fn header(&mut self, header: &str) {
        let Some((name, value)) = header.split_once(' ') else {
            return;
        };
        match name {
            "branch.oid" => self.has_commits = value != "(initial)",
            "branch.head" => self.branch = (value != "(detached)").then(|| value.to_owned()),
            "branch.upstream" => self.upstream = Some(value.to_owned()),
            "branch.ab" => {
                let mut numbers = value.split(' ');
                self.ahead = numbers.next().and_then(|ahead| ahead.strip_prefix('+')?.parse().ok());
                self.behind = numbers.next().and_then(|behind| behind.strip_prefix('-')?.parse().ok());
            }
            _ => {}
        }
    }
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(std::ffi::OsStr::from_bytes(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Reads `git diff --numstat -z --no-renames`. A file that is not text counts as changed, without lines.
pub(super) fn numstat(answer: &[u8]) -> RepositoryChanges {
    let mut changes = RepositoryChanges::default();
    for entry in answer.split(|byte| *byte == 0) {
        let mut fields = entry.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(deleted), Some(_)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
        changes.additions = changes.additions.saturating_add(number(added).unwrap_or_default());
        changes.deletions = changes.deletions.saturating_add(number(deleted).unwrap_or_default());
        changes.files = changes.files.saturating_add(1);
    }
    changes
}

/// Returns true for text, as Git sees it.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    !bytes.get(..TEXT_SAMPLE).unwrap_or(bytes).contains(&0)
}

/// How many lines a new file adds; none if it is no text.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    if !is_text(bytes) {
        return 0;
    }
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
    let has_open_end = bytes.last().is_some_and(|last| *last != b'\n');
    u64::try_from(ends)
        .unwrap_or(u64::MAX)
        .saturating_add(u64::from(has_open_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_github_are_known_in_every_form() {
        for url in [
            "https://github.com/me/inn",
            "https://github.com/me/inn.git",
            "https://user:secret@github.com/me/inn.git/",
            "git@github.com:me/inn.git",
            "ssh://git@github.com/me/inn.git",
            "ssh://git@ssh.github.com:443/me/inn.git",
            "git://GitHub.com/me/inn",
        ] {
            let found = github(url).unwrap_or_else(|| panic!("{url} is on GitHub"));
            assert_eq!((found.owner.as_str(), found.repo.as_str()), ("me", "inn"), "{url}");
        }
        for url in [
            "https://gitlab.com/me/inn",
            "https://github.com.evil.example/me/inn",
            "https://example.org/github.com/me/inn",
            "https://github.com/me",
            "/srv/github.com/me/inn",
            "ext::sh -c github.com/me/inn",
            "",
        ] {
            assert_eq!(github(url), None, "{url}");
        }
    }

    #[test]
    fn a_configuration_has_remotes_and_the_filters_of_the_repository_alone() {
        let answer = "global\0filter.lfs.clean\ngit-lfs clean\0local\0core.bare\nfalse\0local\0remote.origin.url\n\
                      git@github.com:me/inn.git\0local\0remote.a.b.url\nhttps://example.org/x\0local\0filter.e.v.clean\nrm\0\
                      worktree\0filter.w.process\nrm\0";
        let config = Config::parse(answer.as_bytes());
        assert_eq!(config.remotes.keys().collect::<Vec<_>>(), ["a.b", "origin"]);
        assert_eq!(config.own_filters.iter().collect::<Vec<_>>(), ["e.v", "w"]);
        let settings = config.without_own_filters().expect("names for a command line");
        assert!(settings.contains(&"filter.e.v.clean=".to_owned()), "{settings:?}");
        assert!(settings.contains(&"filter.w.required=false".to_owned()), "{settings:?}");
        assert!(config.has_github_remote());
        let tricky = Config::parse(b"local\0filter.a=b.clean\nrm\0");
        assert_eq!(tricky.without_own_filters(), None);
    }

    #[test]
    fn a_status_has_the_branch_and_the_number_of_changes() {
        let answer = "# branch.oid 1234\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0\
                      1 .M N... 100644 100644 100644 a b src/x.rs\0u UU N... 1 2 3 4 a b c merged\0? new file\0";
        let status = Status::parse(answer.as_bytes());
        assert_eq!(status.branch.as_deref(), Some("main"));
        assert_eq!(status.upstream.as_deref(), Some("origin/main"));
        assert_eq!((status.ahead, status.behind), (Some(2), Some(1)));
        assert_eq!((status.changed, status.untracked), (3, 1));
        assert_eq!(status.new_files, [PathBuf::from("new file")]);
        let detached = Status::parse(b"# branch.oid 1234\0# branch.head (detached)\0");
        assert_eq!((detached.branch, detached.has_commits), (None, true));
        assert!(!Status::parse(b"# branch.oid (initial)\0# branch.head main\0").has_commits);
    }

    #[test]
    fn numbers_of_lines_are_added_up() {
        let changes = numstat(b"3\t1\tsrc/x.rs\0-\t-\timage.png\0");
        assert_eq!((changes.additions, changes.deletions, changes.files), (3, 1, 2));
        assert_eq!(numstat(b""), RepositoryChanges::default());
        assert_eq!([count_lines(b""), count_lines(b"a"), count_lines(b"a\nb\n")], [0, 1, 2]);
        assert_eq!(count_lines(b"a\0b\n"), 0);
    }
}
