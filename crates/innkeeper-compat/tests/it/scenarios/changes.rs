//! Changed files and annotations: each version follows a view, reviews, discards lines, and writes remarks.

use std::path::{Path, PathBuf};
use std::process::Command;

use innkeeper_compat::client::CompatClient;
use innkeeper_compat::version::Version;
use innkeeper_compat::words::{Uris, merge};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Stage;
use super::host::directory_param;

/// More files than the host sends one by one.
const MANY: usize = 40;

/// A Git repository with one commit.
pub(crate) struct Repository {
    _folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) uri: String,
}

impl Repository {
    /// Commits a file with thirty lines.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let root = folder.path().canonicalize().expect("there");
        let repository = Self {
            uri: format!("file://{}", root.display()),
            _folder: folder,
            root,
        };
        repository.write("lines.txt", &lines());
        git(&repository.root, &["init", "--quiet", "--initial-branch=main"]);
        git(&repository.root, &["config", "user.name", "Test"]);
        git(&repository.root, &["config", "user.email", "test@example.org"]);
        git(&repository.root, &["add", "."]);
        git(&repository.root, &["commit", "--quiet", "-m", "First"]);
        repository
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.root.join(name), text).expect("written");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join(name)).expect("a file")
    }
}

fn git(directory: &Path, arguments: &[&str]) {
    let run = Command::new("git").args(arguments).current_dir(directory).output();
    let run = run.expect("git runs");
    assert!(
        run.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
}

fn lines() -> String {
    (0..30).map(|number| format!("{number}\n")).collect()
}

/// Waits until a view is computed and shows these files in any order.
pub(crate) async fn shows(client: &CompatClient, view: &str, expected: &[&str]) {
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    client
        .until(&format!("{view} shows {expected:?}"), |seen| {
            let Some(state) = seen.states.get(view).filter(|state| state["status"] == "ready") else {
                return false;
            };
            let files = state["files"].as_array().into_iter().flatten();
            let mut names: Vec<&str> = files
                .filter_map(|file| file["id"].as_str()?.rsplit('/').next())
                .collect();
            names.sort_unstable();
            names == expected
        })
        .await;
}

/// A turn that adds a line to a file, which the client approves.
async fn edit(client: &CompatClient, uris: &Uris, turn: &str, words: &str) {
    client.start_turn(uris, turn, &format!("/edit {words}")).await;
    let call = client.call_in(uris, "pending-confirmation").await;
    let decision = json!({ "approved": true, "confirmed": "user-action" });
    client
        .about_call(uris, turn, &call, "toolCallConfirmed", decision)
        .await;
    client.turn_end(uris, turn).await;
}

/// The id of a file in a view.
fn file(client: &CompatClient, view: &str, name: &str) -> String {
    let state = client.state(view);
    let mut files = state["files"].as_array().into_iter().flatten();
    let file = files.find(|file| file["id"].as_str().is_some_and(|id| id.ends_with(name)));
    let id = file.and_then(|file| file["id"].as_str());
    id.unwrap_or_else(|| panic!("no {name} in {state}")).to_owned()
}

/// The target of an operation on whole lines: numbers of lines up to 0.3, positions since.
fn target(version: Version, resource: &str, start: u64, end: u64) -> Value {
    let range = match version.has_chats() {
        true => json!({ "start": { "line": start, "character": 0 }, "end": { "line": end, "character": 0 } }),
        false => json!({ "start": start, "end": end }),
    };
    json!({ "kind": "range", "resource": resource, "range": range })
}

pub(crate) async fn follows_changed_files(stage: &mut Stage) {
    let (client, version) = (&stage.client, stage.version);
    let repository = Repository::new();
    let changed = lines().replace("\n3\n", "\nthree\n").replace("\n20\n", "\ntwenty\n");
    repository.write("lines.txt", &changed);
    let uris = stage.session_with(directory_param(version, &repository.uri)).await;
    let view = format!("{}/changeset/uncommitted", uris.session);
    // The first content arrives after the snapshot, which shows a view that is being computed.
    client.subscribe(&view).await;
    shows(client, &view, &["lines.txt"]).await;
    client.assert_converged("the first content of a view").await;
    edit(client, &uris, "t1", "made.txt one").await;
    shows(client, &view, &["lines.txt", "made.txt"]).await;
    client.assert_converged("a file that a turn made").await;

    let newest = stage.connect(Version::V1_0, "newest").await;
    newest.join(&uris.session).await;
    newest.subscribe(&view).await;
    shows(&newest, &view, &["lines.txt", "made.txt"]).await;
    let invoke = |operation: &str, target: Value| {
        let mut params = json!({ "channel": view, "operationId": operation });
        if !target.is_null() {
            params["target"] = target;
        }
        params
    };
    let lines_file = file(client, &view, "/lines.txt");
    let some_lines = target(version, &lines_file, 20, 21);
    client
        .request("invokeChangesetOperation", invoke("discard", some_lines))
        .await;
    assert_eq!(repository.read("lines.txt"), lines().replace("\n3\n", "\nthree\n"));
    let one_file = json!({ "kind": "resource", "resource": lines_file });
    client
        .request("invokeChangesetOperation", invoke("discard", one_file))
        .await;
    for reader in [client, &newest] {
        shows(reader, &view, &["made.txt"]).await;
    }
    client.assert_converged("discarded changes").await;
    let unknown = client
        .refused("invokeChangesetOperation", invoke("unknown", Value::Null))
        .await;
    assert!(unknown.message.contains("unknown"), "{unknown:?}");

    // So many files are one action, and one file less another.
    let names: Vec<String> = (0..MANY).map(|number| format!("{number:02}.txt")).collect();
    names.iter().for_each(|name| repository.write(name, "x\n"));
    let mut expected: Vec<&str> = names.iter().map(String::as_str).chain(["made.txt"]).collect();
    for reader in [client, &newest] {
        shows(reader, &view, &expected).await;
    }
    client.assert_converged("many files").await;
    std::fs::remove_file(repository.root.join("00.txt")).expect("removed");
    expected.retain(|name| *name != "00.txt");
    shows(client, &view, &expected).await;
    client.assert_converged("a file less").await;
    newest.assert_converged("many files").await;
}

pub(crate) async fn reviews_files(stage: &mut Stage) {
    let (client, version) = (&stage.client, stage.version);
    let repository = Repository::new();
    repository.write("lines.txt", "changed\n");
    let uris = stage.session_with(directory_param(version, &repository.uri)).await;
    let view = format!("{}/changeset/uncommitted", uris.session);
    client.subscribe(&view).await;
    shows(client, &view, &["lines.txt"]).await;
    let newest = stage.connect(Version::V1_0, "newest").await;
    newest.join(&uris.session).await;
    newest.subscribe(&view).await;
    shows(&newest, &view, &["lines.txt"]).await;
    let id = file(client, &view, "/lines.txt");
    for (author, is_reviewed) in [(client, true), (&newest, false), (&newest, true)] {
        let (kind, member) = match author.version {
            Version::V0_5_2 => ("changeset/filesReviewedChanged", "fileIds"),
            _ => ("changeset/filesReviewChanged", "files"),
        };
        let action = json!({ "type": kind, member: [id], "reviewed": is_reviewed });
        author.dispatch(&view, action).await;
        for reader in [client, &newest] {
            reader
                .until("the review is shown", |seen| {
                    (seen.states[&view]["files"][0]["reviewed"] == true) == is_reviewed
                })
                .await;
        }
        client.assert_converged("a review").await;
    }
    newest.assert_converged("reviews").await;
}

pub(crate) async fn annotates(stage: &mut Stage) {
    let (client, version) = (&stage.client, stage.version);
    let uris = stage.session().await;
    client.run_turn(&uris, "t1", "/stream 1").await;
    let channel = format!("{}/annotations", uris.session);
    client.subscribe(&channel).await;
    let newest = stage.connect(Version::V1_0, "newest").await;
    newest.join(&uris.session).await;
    newest.subscribe(&channel).await;
    let both = [client, &newest];
    let see = async |what: &str, holds: &dyn Fn(&Value) -> bool| {
        for reader in both {
            reader.until(what, |seen| holds(&seen.states[&channel])).await;
        }
        client.assert_converged(what).await;
    };
    let origin = json!({ "session": uris.session, "chat": uris.chat, "turnId": "t1" });
    // Up to 0.8 an annotation belongs to a turn.
    let of_turn = |turn: &str| match (version.has_error_parts(), turn) {
        (false, turn) => json!({ "turnId": turn }),
        (true, "") => json!({ "origin": { "session": uris.session } }),
        (true, _) => json!({ "origin": origin }),
    };
    let annotation = |id: &str, turn: Value| {
        let range = json!({ "start": { "line": 1, "character": 0 }, "end": { "line": 2, "character": 4 } });
        let mut annotation = json!({ "id": id, "resource": "file:///notes.md", "range": range, "resolved": false,
            "entries": [{ "id": "e1", "text": "Why?" }] });
        merge(&mut annotation, turn);
        json!({ "type": "annotations/set", "annotation": annotation })
    };
    client.dispatch(&channel, annotation("a", of_turn("t1"))).await;
    see("an annotation", &|state| state["annotations"][0]["id"] == "a").await;
    assert_eq!(newest.state(&channel)["annotations"][0]["origin"], origin);
    let no_turn = json!({ "origin": { "session": uris.session } });
    newest.dispatch(&channel, annotation("b", no_turn.clone())).await;
    see("an annotation of no turn", &|state| {
        state["annotations"][1]["id"] == "b"
    })
    .await;

    for (author, entry, text) in [
        (client, "e2", json!("Because.")),
        (&newest, "e3", json!({ "markdown": "*Ah.*" })),
    ] {
        let action =
            json!({ "type": "annotations/entrySet", "annotationId": "a", "entry": { "id": entry, "text": text } });
        author.dispatch(&channel, action).await;
        see("an answer", &|state| {
            let entries = state["annotations"][0]["entries"].as_array().into_iter().flatten();
            entries.last().is_some_and(|last| last["id"] == entry)
        })
        .await;
    }
    let removed = json!({ "type": "annotations/entryRemoved", "annotationId": "a", "entryId": "e1" });
    client.dispatch(&channel, removed).await;
    see("an entry less", &|state| {
        state["annotations"][0]["entries"][0]["id"] == "e2"
    })
    .await;

    let updated = |more: Value| {
        let mut action = json!({ "type": "annotations/updated", "annotationId": "a" });
        merge(&mut action, more);
        action
    };
    client.dispatch(&channel, updated(json!({ "resolved": true }))).await;
    see("a resolved annotation", &|state| {
        state["annotations"][0]["resolved"] == true
    })
    .await;
    assert_eq!(newest.state(&channel)["annotations"][0]["origin"], origin, "it stays");
    newest.dispatch(&channel, updated(no_turn)).await;
    client
        .dispatch(&channel, updated(json!({ "resource": "file:///other.md" })))
        .await;
    see("a moved annotation", &|state| {
        state["annotations"][0]["resource"] == "file:///other.md"
    })
    .await;
    assert_eq!(newest.state(&channel)["annotations"][0]["origin"].get("turnId"), None);
    client.dispatch(&channel, updated(of_turn("t1"))).await;
    client.caught_up().await;
    newest.caught_up().await;
    assert_eq!(newest.state(&channel)["annotations"][0]["origin"], origin);

    // An annotation that the host does not know is not changed, and its author hears why.
    let rejection = client
        .rejected(
            &channel,
            json!({ "type": "annotations/removed", "annotationId": "unknown" }),
        )
        .await;
    assert!(
        rejection["rejectionReason"]
            .as_str()
            .is_some_and(|reason| reason.contains("unknown"))
    );
    client
        .dispatch(&channel, json!({ "type": "annotations/removed", "annotationId": "a" }))
        .await;
    see("an annotation less", &|state| {
        state["annotations"].as_array().is_some_and(|all| all.len() == 1)
    })
    .await;
    newest.assert_converged("annotations").await;
}
