//! Looks at real repositories, hostile ones among them.

use std::fs;
use std::path::Path;
use std::process::Command;

use innkeeper_host::repositories::RepositoryState;

use super::scan::scan;
use crate::git::Git;

/// A repository with one commit, as Git makes it.
struct Repository {
    directory: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self {
            directory: tempfile::Builder::new().prefix("inn").tempdir().expect("a directory"),
        };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.write("a.txt", "one\ntwo\n");
        repository.git(&["add", "."]);
        repository.commit();
        repository
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    fn git(&self, arguments: &[&str]) {
        self.asked(arguments);
    }

    fn asked(&self, arguments: &[&str]) -> String {
        let run = Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
            .args(arguments)
            .current_dir(self.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .expect("git runs");
        assert!(
            run.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
        String::from_utf8_lossy(&run.stdout).trim_end().to_owned()
    }

    fn commit(&self) {
        self.git(&["commit", "--quiet", "-m", "More"]);
    }

    async fn look_from(&self, directory: &str) -> Option<RepositoryState> {
        scan(&git(), &self.path().join(directory)).await.map(|seen| seen.state)
    }

    async fn scan(&self) -> RepositoryState {
        self.look_from("").await.expect("a repository")
    }
}

fn git() -> Git {
    let own = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")];
    let environment = innkeeper_std::needed_variables(std::env::vars_os()).map(|(name, value)| (name.into(), value));
    Git::new(
        environment
            .chain(own.map(|(name, value)| (name.into(), value.into())))
            .collect(),
    )
}

#[tokio::test]
async fn a_repository_has_a_branch_and_the_number_of_uncommitted_changes() {
    let repository = Repository::new();
    let clean = repository.scan().await;
    assert_eq!(clean.branch.as_deref(), Some("main"));
    assert_eq!((clean.uncommitted, clean.has_github_remote), (Some(0), false));
    let changes = clean.changes.expect("counted");
    assert_eq!((changes.additions, changes.deletions, changes.files), (0, 0, 0));
    repository.write("a.txt", "one\n2\n3\n");
    repository.write("deep/new.txt", "a\nb\nc");
    let changed = repository.look_from("deep").await.expect("from any directory in it");
    let changes = changed.changes.expect("counted");
    assert_eq!((changes.additions, changes.deletions, changes.files), (2 + 3, 1, 2));
    assert_eq!(changed.uncommitted, Some(2));
    let real = fs::canonicalize(repository.path()).expect("a path");
    assert!(changed.project_uri.ends_with(&*real.to_string_lossy()), "{changed:?}");
    assert_eq!(
        Some(changed.project_name.as_str()),
        real.file_name().and_then(|name| name.to_str())
    );
}

#[tokio::test]
async fn a_repository_knows_its_upstream_its_base_and_its_place_on_github() {
    let upstream = Repository::new();
    let repository = Repository::new();
    let there = upstream.path().to_string_lossy().into_owned();
    repository.git(&["remote", "add", "origin", &there]);
    repository.git(&["fetch", "--quiet", "origin"]);
    repository.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    repository.git(&["reset", "--quiet", "--hard", "origin/main"]);
    repository.git(&["checkout", "--quiet", "-b", "topic", "--no-track"]);
    repository.write("b.txt", "b\n");
    repository.git(&["add", "."]);
    repository.commit();
    repository.git(&["remote", "set-url", "origin", "git@github.com:me/inn.git"]);
    let seen = repository.scan().await;
    assert_eq!(
        (seen.branch.as_deref(), seen.base_branch.as_deref()),
        (Some("topic"), Some("main"))
    );
    assert_eq!(
        (seen.upstream.as_deref(), seen.outgoing),
        (None, Some(1)),
        "it would be pushed"
    );
    let github = seen.github.expect("a place on GitHub");
    assert_eq!((github.owner.as_str(), github.repo.as_str()), ("me", "inn"));
    assert!(seen.has_github_remote);
    repository.git(&["branch", "--quiet", "--set-upstream-to=origin/main"]);
    let seen = repository.scan().await;
    assert_eq!(seen.upstream.as_deref(), Some("origin/main"));
    assert_eq!((seen.outgoing, seen.incoming), (Some(1), Some(0)));
    assert_eq!(seen.github_head_owner.as_deref(), Some("me"));
}

#[tokio::test]
async fn a_repository_without_commits_and_one_without_a_branch_are_repositories() {
    let new = Repository {
        directory: tempfile::tempdir().expect("a directory"),
    };
    new.git(&["init", "--quiet", "--initial-branch=first"]);
    new.write("staged.txt", "a\n");
    new.git(&["add", "."]);
    let seen = new.scan().await;
    assert_eq!(seen.branch.as_deref(), Some("first"));
    assert_eq!(
        seen.changes.map(|changes| (changes.additions, changes.files)),
        Some((1, 1))
    );
    let detached = Repository::new();
    detached.git(&["checkout", "--quiet", "--detach"]);
    assert_eq!(detached.scan().await.branch, None);
}

#[tokio::test]
async fn a_work_tree_belongs_to_the_project_that_it_was_added_to() {
    let repository = Repository::new();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let tree = elsewhere.path().join("topic");
    repository.git(&["worktree", "add", "--quiet", "-b", "topic", &tree.to_string_lossy()]);
    let seen = scan(&git(), &tree).await.expect("a repository").state;
    assert_eq!(seen.branch.as_deref(), Some("topic"));
    assert_eq!(seen.project_uri, repository.scan().await.project_uri);
}

#[tokio::test]
async fn without_a_repository_or_git_there_is_no_status() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(scan(&git(), directory.path()).await.is_none());
    assert!(scan(&git(), &directory.path().join("gone")).await.is_none());
    let repository = Repository::new();
    let without_git = Git::new(vec![("PATH".into(), "/nonexistent".into())]);
    assert!(scan(&without_git, repository.path()).await.is_none());
}

/// Every program that a repository can name writes a mark when it runs.
#[cfg(unix)]
#[tokio::test]
async fn t15_nothing_that_a_hostile_repository_names_is_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let repository = Repository::new();
    let marks = tempfile::tempdir().expect("a directory");
    let evil = |name: &str| {
        let script = marks.path().join(name);
        let mark = marks.path().join(format!("{name}.ran"));
        fs::write(&script, format!("#!/bin/sh\ntouch '{}'\ncat\n", mark.display())).expect("a script");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions");
        script.to_string_lossy().into_owned()
    };
    let settings = [
        ("core.fsmonitor", evil("fsmonitor")),
        ("core.pager", evil("pager")),
        ("core.sshCommand", evil("ssh")),
        ("core.askPass", evil("askpass")),
        ("diff.external", evil("diff")),
        ("diff.evil.command", evil("driver")),
        ("diff.evil.textconv", evil("textconv")),
        ("filter.evil.clean", evil("clean")),
        ("filter.evil.process", evil("process")),
        ("core.alternateRefsCommand", evil("refs")),
        ("core.repositoryFormatVersion", "1".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
        ("remote.origin.url", "ssh://evil.invalid/x".to_owned()),
        ("remote.origin.promisor", "true".to_owned()),
    ];
    let object = repository.asked(&["rev-parse", "HEAD:a.txt"]);
    let hook = repository.path().join(".git/hooks/post-index-change");
    fs::create_dir_all(hook.parent().expect("a parent")).expect("directories");
    fs::copy(evil("hook"), &hook).expect("a hook");
    for (key, value) in &settings {
        repository.git(&["config", key, value]);
    }
    repository.write(".gitattributes", "* filter=evil diff=evil\n");
    repository.write("a.txt", "changed\n");
    let seen = repository.scan().await;
    let changes = seen.changes.expect("counted");
    assert_eq!((changes.additions, changes.deletions, changes.files), (1 + 1, 2, 2));
    // The content of the last commit is missing, so Git would have to fetch it.
    let (fan, name) = object.split_at(2);
    fs::remove_file(repository.path().join(".git/objects").join(fan).join(name)).expect("an object");
    let seen = repository.scan().await;
    assert_eq!(seen.branch.as_deref(), Some("main"), "it is looked at all the same");
    assert_eq!(seen.uncommitted, Some(2));
    let ran = fs::read_dir(marks.path()).expect("marks").filter_map(Result::ok);
    let ran: Vec<String> = ran
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(!ran.iter().any(|name| name.ends_with(".ran")), "{ran:?}");
}
