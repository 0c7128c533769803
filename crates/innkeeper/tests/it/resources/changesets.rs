//! Changesets, annotations and isolated sessions of the real program, with real Git and the published client.

mod annotations;
mod faults;
mod operations;
mod views;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ahp::reducers::apply_action_to_changeset;
use ahp_types::actions::StateAction;
use ahp_types::state::{ChangesetFile, ChangesetState, ChangesetStatus};
use innkeeper_testkit::official::{OfficialClient, SessionUris};
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::resources::files::ask;
use crate::start_with_client;

/// A repository with one commit.
fn repository() -> TempDir {
    let directory = tempfile::Builder::new().prefix("inn").tempdir().expect("a directory");
    git(directory.path(), &["init", "--quiet", "--initial-branch=main"]);
    git(directory.path(), &["config", "user.name", "Test"]);
    git(directory.path(), &["config", "user.email", "test@example.org"]);
    std::fs::write(directory.path().join("a.txt"), "one\n").expect("written");
    git(directory.path(), &["add", "."]);
    git(directory.path(), &["commit", "--quiet", "-m", "First"]);
    directory
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let run = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("git runs");
    assert!(
        run.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8_lossy(&run.stdout).trim_end().to_owned()
}

fn path(directory: &TempDir) -> std::path::PathBuf {
    std::fs::canonicalize(directory.path()).expect("there")
}

fn uri(directory: &TempDir) -> String {
    format!("file://{}", path(directory).display())
}

/// A changeset as a client sees it: the snapshot, and all actions since, through the published reducer.
struct Changeset<'a> {
    client: &'a OfficialClient,
    uri: String,
    state: ChangesetState,
    applied: usize,
}

impl<'a> Changeset<'a> {
    async fn subscribe(client: &'a OfficialClient, uri: String) -> Self {
        let applied = client.view().actions_on(&uri).len();
        let answer: Value = client
            .request("subscribe", json!({ "channel": uri }))
            .await
            .expect("subscribed");
        let state = serde_json::from_value(answer["snapshot"]["state"].clone()).expect("a state");
        Self {
            client,
            uri,
            state,
            applied,
        }
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&ChangesetState) -> bool) -> &ChangesetState {
        let begun = Instant::now();
        while !holds(&self.state) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what}: {:?}", self.state);
            tokio::time::sleep(Duration::from_millis(20)).await;
            let actions = self.client.view().actions_on(&self.uri);
            for action in actions.into_iter().skip(self.applied) {
                self.applied += 1;
                let action: StateAction = serde_json::from_value(action).expect("an action");
                apply_action_to_changeset(&mut self.state, &action);
            }
        }
        &self.state
    }

    /// Waits for these files, each with its added and removed lines.
    async fn shows(&mut self, expected: &[(&str, i64, i64)]) {
        let mut expected: Vec<(String, i64, i64)> = expected
            .iter()
            .map(|(name, added, removed)| ((*name).to_owned(), *added, *removed))
            .collect();
        expected.sort_unstable();
        let wanted = expected.clone();
        let holds = move |state: &ChangesetState| {
            let mut shown: Vec<(String, i64, i64)> = state.files.iter().map(lines_of).collect();
            shown.sort_unstable();
            state.status == ChangesetStatus::Ready && shown == wanted
        };
        self.until(&format!("{expected:?}"), holds).await;
    }

    async fn invoke(&self, operation: &str, more: Value) -> Result<Value, (i64, String)> {
        let mut params = json!({ "channel": self.uri, "operationId": operation });
        params
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        match self.client.request("invokeChangesetOperation", params.clone()).await {
            Ok(result) => Ok(result),
            Err(_) => Err(self.client.refused("invokeChangesetOperation", params).await),
        }
    }
}

/// A turn of the tour that adds a line to a file, with the user's approval.
async fn edit(client: &OfficialClient, uris: &SessionUris, turn: &str, words: &str) {
    approved(client, uris, turn, &format!("/edit {words}")).await;
}

/// A turn of the tour that asks once, and gets the user's approval.
async fn approved(client: &OfficialClient, uris: &SessionUris, turn: &str, text: &str) {
    client.start_turn(&uris.chat, turn, text).await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    client.turn_end(&uris.chat, turn).await;
}

async fn read(client: &OfficialClient, content: &str) -> Value {
    ask(client, "resourceRead", json!({ "uri": content })).await
}

fn lines_of(file: &ChangesetFile) -> (String, i64, i64) {
    let name = file.id.rsplit('/').next().unwrap_or_default().to_owned();
    let diff = file.edit.diff.clone().unwrap_or_default();
    (name, diff.added.unwrap_or(-1), diff.removed.unwrap_or(-1))
}

#[tokio::test]
async fn chg04_chg08_a_turn_of_the_tour_shows_up_in_every_view() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let uris = client.create_session_in("edits", &uri(&repository)).await;
    client
        .until("the view of a draft is advertised", |view| {
            let session = view.session(&uris.session);
            session
                .and_then(|session| session.changesets.as_ref())
                .is_some_and(|views| views.len() == 1)
        })
        .await;
    let mut uncommitted = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    uncommitted.shows(&[]).await;
    client.start_turn(&uris.chat, "t1", "/edit a.txt two").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    client.turn_end(&uris.chat, "t1").await;
    uncommitted.shows(&[("a.txt", 1, 0)]).await;
    // A change by anything else on the machine is seen without a turn.
    std::fs::write(path(&repository).join("new.txt"), "x\ny\n").expect("written");
    uncommitted.shows(&[("a.txt", 1, 0), ("new.txt", 2, 0)]).await;
    let mut turn = Changeset::subscribe(&client, format!("{}/changeset/turn/t1", uris.session)).await;
    turn.shows(&[("a.txt", 1, 0)]).await;
    let edit = &turn.state.files[0].edit;
    for (side, expected) in [(&edit.before, "one\n"), (&edit.after, "one\ntwo\n")] {
        let content = &side.as_ref().expect("a side").content.uri;
        let read = ask(&client, "resourceRead", json!({ "uri": content })).await;
        assert_eq!(read["data"], expected);
    }
    let reverted = turn.invoke("revert", json!({})).await.expect("reverted");
    assert!(
        reverted["message"]
            .as_str()
            .is_some_and(|text| text.contains("1 file was set back")),
        "{reverted}"
    );
    assert_eq!(
        std::fs::read_to_string(path(&repository).join("a.txt")).expect("a file"),
        "one\n"
    );
    uncommitted.shows(&[("new.txt", 2, 0)]).await;
    let meta = json!({ "_meta": { "message": "Add a file" } });
    uncommitted.invoke("commit", meta).await.expect("committed");
    uncommitted.shows(&[]).await;
    assert_eq!(git(repository.path(), &["log", "-1", "--format=%s"]), "Add a file");
    assert_eq!(git(repository.path(), &["status", "--porcelain"]), "");
    let (code, _) = uncommitted.invoke("explode", json!({})).await.expect_err("unknown");
    assert_eq!(code, -32602);
}

#[tokio::test]
async fn ann01_ann08_the_tour_reviews_and_its_remarks_come_with_a_message() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let uris = client.create_session_in("review", &uri(&repository)).await;
    let channel = format!("{}/annotations", uris.session);
    client.run_turn(&uris.chat, "t1", "/review a.txt").await;
    let answer: Value = client
        .request("subscribe", json!({ "channel": channel }))
        .await
        .expect("subscribed");
    let annotations = &answer["snapshot"]["state"]["annotations"];
    assert_eq!(annotations.as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(annotations[0]["origin"]["turnId"], "t1");
    client
        .until("the summary counts them", |view| {
            let session = view.session(&uris.session);
            session.is_some()
        })
        .await;
    let listed = client.listed(&uris.session).await;
    let counts = listed.annotations.expect("counts");
    assert_eq!((counts.annotation_count, counts.entry_count), (2, 2));
    let attached = json!({ "type": "annotations", "label": "review", "resource": channel });
    let mut action = innkeeper_testkit::official::turn_started("t2", "/attachments");
    action["message"]["attachments"] = json!([attached]);
    client.dispatch(&uris.chat, action).await;
    let turn = client.turn_end(&uris.chat, "t2").await;
    let said = innkeeper_testkit::official::markdown(&turn.response_parts);
    assert!(said.contains("a.txt, line 1: A good **first line**."), "{said}");
}

#[tokio::test]
async fn an_isolated_session_leaves_the_folder_alone() {
    let (host, client) = start_with_client().await;
    let repository = repository();
    let params = json!({ "workingDirectories": [uri(&repository)], "config": { "isolation": "worktree" } });
    let uris = client.create_session_with("isolated", params).await;
    let session = client.session(&uris.session);
    let directory = session.working_directories.expect("directories")[0].clone();
    assert!(directory.contains(".worktrees/"), "{directory}");
    client.start_turn(&uris.chat, "t1", "/edit a.txt two").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    client.turn_end(&uris.chat, "t1").await;
    assert_eq!(
        std::fs::read_to_string(path(&repository).join("a.txt")).expect("a file"),
        "one\n"
    );
    let worktree = std::path::PathBuf::from(directory.strip_prefix("file://").expect("a file"));
    assert!(git(&worktree, &["branch", "--show-current"]).starts_with("innkeeper/"));
    let mut changes = Changeset::subscribe(&client, format!("{}/changeset/session", uris.session)).await;
    changes.shows(&[("a.txt", 1, 0)]).await;
    changes.invoke("apply", json!({})).await.expect("applied");
    assert_eq!(
        std::fs::read_to_string(path(&repository).join("a.txt")).expect("a file"),
        "one\ntwo\n"
    );
    // The worktree is removed on request alone.
    let _: Value = client
        .request("disposeSession", json!({ "channel": uris.session }))
        .await
        .expect("disposed");
    assert!(worktree.exists());
    // A folder that is in no repository cannot be isolated, and the session says so.
    let plain = tempfile::tempdir().expect("a directory");
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let session = "ahp-session:/no-git";
    let create =
        json!({ "channel": session, "workingDirectories": [uri(&plain)], "config": { "isolation": "worktree" } });
    raw.call("createSession", create).await.expect("created");
    let begun = Instant::now();
    loop {
        let state = raw
            .call("subscribe", json!({ "channel": session }))
            .await
            .expect("subscribed");
        let error = state["snapshot"]["state"]["creationError"]["message"].clone();
        if error.as_str().is_some_and(|text| text.contains("in no Git repository")) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{state}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let _ = std::fs::remove_dir_all(worktree.parent().expect("a parent"));
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_commit_leaves_git_intact() {
    for round in 0..4u64 {
        let (host, client) = start_with_client().await;
        let client = client.of_a_mortal_host();
        let repository = repository();
        for number in 0..200 {
            std::fs::write(repository.path().join(format!("{number}.txt")), "x\n".repeat(50)).expect("written");
        }
        let uris = client.create_session_in("killed", &uri(&repository)).await;
        let mut changes = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
        changes.until("computed", |state| state.files.len() == 200).await;
        let params = json!({ "channel": changes.uri, "operationId": "commit" });
        let committing = client.request::<Value>("invokeChangesetOperation", params);
        let killing = async {
            tokio::time::sleep(Duration::from_millis(10 + 25 * round)).await;
            host.kill().await
        };
        let _ = tokio::join!(tokio::time::timeout(Duration::from_secs(20), committing), killing);
        // The command of Git that ran at that moment ends by itself.
        let begun = Instant::now();
        while repository.path().join(".git/index.lock").exists() && begun.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        git(repository.path(), &["fsck", "--strict"]);
        let commits = git(repository.path(), &["rev-list", "--count", "HEAD"]);
        let open = git(repository.path(), &["status", "--porcelain"]).lines().count();
        let is_whole = (commits == "1" && open == 200) || (commits == "2" && open == 0);
        assert!(is_whole, "round {round}: {commits} commits, {open} open files");
    }
}

#[tokio::test]
async fn innkeeper_changes_prints_the_changes_of_a_session() {
    let (host, client) = start_with_client().await;
    let repository = repository();
    let uris = client.create_session_in("printed", &uri(&repository)).await;
    client.start_turn(&uris.chat, "t1", "/edit a.txt two").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    client.turn_end(&uris.chat, "t1").await;
    let printed = |arguments: &[&str]| {
        let mut all = vec!["changes"];
        all.extend(arguments);
        let run = Command::new(env!("CARGO_BIN_EXE_innkeeper"))
            .args(&all)
            .arg("--data")
            .arg(host.data_path(""))
            .output()
            .expect("the program runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).expect("text")
    };
    let printed_now = printed(&["printed"]);
    assert_eq!(printed_now, "M a.txt  +1 -0\n1 file, +1 -0\n");
    let diff = printed(&["printed", "--turn", "1", "--diff"]);
    assert!(diff.ends_with("\nM a.txt\n@@ -1,1 +1,2 @@\n one\n+two\n"), "{diff}");
}
