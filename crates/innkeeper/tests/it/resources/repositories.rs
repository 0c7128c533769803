//! The Git repository of a session in its state, with real repositories.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{options, start_with_client};

/// A repository with one commit.
fn repository() -> TempDir {
    let directory = tempfile::Builder::new().prefix("inn").tempdir().expect("a directory");
    git(directory.path(), &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(directory.path().join("a.txt"), "one\n").expect("written");
    git(directory.path(), &["add", "."]);
    git(directory.path(), &["commit", "--quiet", "-m", "First"]);
    git(
        directory.path(),
        &["remote", "add", "origin", "git@github.com:me/inn.git"],
    );
    directory
}

fn git(directory: &Path, arguments: &[&str]) {
    let run = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("git runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

fn uri(directory: &TempDir) -> String {
    let path = std::fs::canonicalize(directory.path()).expect("there");
    format!("file://{}", path.display())
}

async fn until_git(client: &OfficialClient, session: &str, what: &str, holds: impl Fn(&Value) -> bool) {
    client
        .until(what, |view| {
            let meta = view.session(session).and_then(|session| session.meta.as_ref());
            meta.and_then(|meta| meta.get("git")).is_some_and(&holds)
        })
        .await;
}

#[tokio::test]
async fn a_session_shows_and_follows_its_branch_and_changes() {
    let (_host, client) = start_with_client().await;
    client.subscribe("ahp-root://").await;
    let repository = repository();
    let uris = client.create_session_in("git", &uri(&repository)).await;
    until_git(&client, &uris.session, "the branch is shown", |git| {
        git["branchName"] == "main"
    })
    .await;
    let shown = client.session(&uris.session).meta.expect("metadata");
    assert_eq!(shown["git"]["hasGitHubRemote"], true);
    assert_eq!(shown["git"]["uncommittedChanges"], 0);
    assert_eq!(shown["github"], json!({ "owner": "me", "repo": "inn" }));
    // A turn ended, and a file changed meanwhile.
    std::fs::write(repository.path().join("a.txt"), "one\ntwo\n").expect("written");
    std::fs::write(repository.path().join("new.txt"), "new\n").expect("written");
    client.run_turn(&uris.chat, "t1", "hello").await;
    until_git(&client, &uris.session, "changes are counted", |git| {
        git["uncommittedChanges"] == 2
    })
    .await;
    let listed = client.listed(&uris.session).await;
    let project = listed.project.expect("a project");
    assert_eq!(project.uri, uri(&repository));
    assert!(project.display_name.starts_with("inn"), "{project:?}");
    // They changed before the first turn, and so not in the session.
    let changes = listed.changes.expect("changes");
    assert_eq!(
        (changes.additions, changes.deletions, changes.files),
        (Some(0), Some(0), Some(0))
    );
    // A change by Git itself is seen without any activity in the session.
    git(repository.path(), &["checkout", "--quiet", "-b", "topic"]);
    until_git(&client, &uris.session, "the new branch is shown", |git| {
        git["branchName"] == "topic"
    })
    .await;
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn sessions_of_one_directory_agree_and_a_restarted_host_lists_it_unopened() {
    let host = HostProcess::start(options()).await;
    let client = OfficialClient::connect(host.address(), "first")
        .await
        .of_a_mortal_host();
    let repository = repository();
    let one = client.create_session_in("one", &uri(&repository)).await;
    let two = client.create_session_in("two", &uri(&repository)).await;
    for session in [&one.session, &two.session] {
        until_git(&client, session, "the branch is shown", |git| {
            git["branchName"] == "main"
        })
        .await;
    }
    client.run_turn(&one.chat, "t1", "hello").await;
    let host = host.stop().await.start().await;
    let client = OfficialClient::connect(host.address(), "second").await;
    let listed = client.listed(&one.session).await;
    assert_eq!(listed.meta.expect("metadata")["git"]["branchName"], "main");
    assert!(listed.project.is_some());
}

/// A program named `git` that notes each of its starts and then runs the real one.
struct CountedGit {
    directory: TempDir,
}

impl CountedGit {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = std::env::var("PATH").expect("a search path");
        let mut programs = std::env::split_paths(&path).map(|at| at.join("git"));
        let real = programs.find(|program| program.is_file()).expect("git is installed");
        let starts = directory.path().join("starts");
        let script = format!(
            "#!/bin/sh\necho started >> '{}'\nexec '{}' \"$@\"\n",
            starts.display(),
            real.display()
        );
        let program = directory.path().join("git");
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
        Self { directory }
    }

    /// The search path with this program in front.
    fn path(&self) -> String {
        let rest = std::env::var("PATH").expect("a search path");
        format!("{}:{rest}", self.directory.path().display())
    }

    fn starts(&self) -> usize {
        let noted = std::fs::read_to_string(self.directory.path().join("starts"));
        noted.unwrap_or_default().lines().count()
    }

    /// Waits until it was not started for a while, and returns how often it was.
    async fn at_rest(&self) -> usize {
        let mut before = self.starts();
        loop {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            let now = self.starts();
            if now == before {
                return now;
            }
            before = now;
        }
    }
}

#[tokio::test]
async fn lesson_38_listing_sessions_runs_no_version_control() {
    let counted = CountedGit::new();
    let host = HostProcess::start(options().environment("PATH", counted.path())).await;
    let client = OfficialClient::connect(host.address(), "first")
        .await
        .of_a_mortal_host();
    let repositories: Vec<TempDir> = (0..5).map(|_| repository()).collect();
    for (number, repository) in repositories.iter().enumerate() {
        let uris = client.create_session_in(&format!("s{number}"), &uri(repository)).await;
        until_git(&client, &uris.session, "the branch is shown", |git| {
            git["branchName"] == "main"
        })
        .await;
        client.run_turn(&uris.chat, "t1", "hello").await;
    }
    let opened = counted.at_rest().await;
    assert!(
        opened >= 5,
        "the program is the one that the host runs: {opened} starts"
    );

    let list = async |client: &OfficialClient| {
        let params = json!({ "channel": "ahp-root://" });
        let listed: Value = client.request("listSessions", params).await.expect("listed");
        let items = listed["items"].as_array().expect("items");
        assert_eq!(items.len(), 5);
        for item in items {
            assert_eq!(item["_meta"]["git"]["branchName"], "main", "{item}");
        }
    };
    // Sessions that are open.
    for _ in 0..20 {
        list(&client).await;
    }
    assert_eq!(counted.at_rest().await, opened);
    // Sessions that only the store has: a new host lists them without a look at their directories.
    let host = host.stop().await.start().await;
    let ended = counted.at_rest().await;
    let client = OfficialClient::connect(host.address(), "second").await;
    for _ in 0..20 {
        list(&client).await;
    }
    assert_eq!(counted.at_rest().await, ended);
}

#[tokio::test]
async fn a_directory_in_no_repository_shows_nothing() {
    let (_host, client) = start_with_client().await;
    let directory = tempfile::tempdir().expect("a directory");
    let uris = client.create_session_in("plain", &uri(&directory)).await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    assert_eq!(client.session(&uris.session).meta, None);
    let listed = client.listed(&uris.session).await;
    assert_eq!((listed.project, listed.changes, listed.meta), (None, None, None));
}
