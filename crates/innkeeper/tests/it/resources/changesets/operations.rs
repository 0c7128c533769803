//! The operations of views through the published client: each says what it does, and what it removes can be restored.

use ahp_types::state::{ChangesetOperation, ChangesetOperationStatus, ChangesetState};
use innkeeper_testkit::model_server::{Api, Reply, Script};
use serde_json::{Value, json};

use super::{Changeset, edit, git, path, repository, uri};
use crate::model::support::Setup;
use crate::start_with_client;

fn operation<'a>(state: &'a ChangesetState, id: &str) -> &'a ChangesetOperation {
    let mut all = state.operations.iter().flatten();
    all.find(|operation| operation.id == id)
        .unwrap_or_else(|| panic!("{id}: {state:?}"))
}

fn range(file: &str, first: u64, end: u64) -> Value {
    let position = |line: u64| json!({ "line": line, "character": 0 });
    let range = json!({ "start": position(first), "end": position(end) });
    json!({ "target": { "kind": "range", "resource": file, "range": range } })
}

#[tokio::test]
async fn chg09_chg10_chg11_discarded_lines_files_and_everything_come_back() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let top = path(&repository);
    let lines: String = (0..30).map(|number| format!("{number}\n")).collect();
    std::fs::write(top.join("lines.txt"), &lines).expect("written");
    git(&top, &["add", "."]);
    git(&top, &["commit", "--quiet", "-m", "Lines"]);
    let changed = lines.replace("\n3\n", "\nthree\n").replace("\n20\n", "\ntwenty\n");
    std::fs::write(top.join("lines.txt"), &changed).expect("written");
    std::fs::write(top.join("a.txt"), "other\n").expect("written");
    std::fs::write(top.join("new.txt"), "new\n").expect("written");
    let uris = client.create_session_in("discard", &uri(&repository)).await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    let all = [("a.txt", 1, 1), ("lines.txt", 2, 2), ("new.txt", 1, 0)];
    view.shows(&all).await;
    let discard = operation(&view.state, "discard").clone();
    let question = serde_json::to_string(&discard.confirmation).expect("JSON");
    assert!(
        question.contains("Undo"),
        "a destructive operation says how to undo it: {question}"
    );
    assert_eq!(discard.status, ChangesetOperationStatus::Idle);
    let file = |name: &str| format!("{}/{name}", uri(&repository));
    let text = |name: &str| std::fs::read_to_string(top.join(name)).ok();
    // Lines.
    view.invoke("discard", range(&file("lines.txt"), 20, 21))
        .await
        .expect("discarded");
    assert_eq!(text("lines.txt"), Some(lines.replace("\n3\n", "\nthree\n")));
    view.shows(&[("a.txt", 1, 1), ("lines.txt", 1, 1), ("new.txt", 1, 0)])
        .await;
    view.invoke("undo-discard", json!({})).await.expect("undone");
    assert_eq!(text("lines.txt"), Some(changed.clone()));
    view.shows(&all).await;
    // A file.
    let target = json!({ "target": { "kind": "resource", "resource": file("new.txt") } });
    view.invoke("discard", target).await.expect("discarded");
    assert_eq!(text("new.txt"), None);
    view.shows(&all[..2]).await;
    view.invoke("undo-discard", json!({})).await.expect("undone");
    assert_eq!(text("new.txt").as_deref(), Some("new\n"));
    // Everything.
    view.shows(&all).await;
    view.invoke("discard", json!({})).await.expect("discarded");
    assert_eq!(git(&top, &["status", "--porcelain"]), "");
    view.until("nothing is left to discard", |state| {
        let mut operations = state.operations.iter().flatten();
        operations.any(|it| it.id == "discard" && it.status == ChangesetOperationStatus::Disabled)
    })
    .await;
    let (code, message) = view.invoke("discard", json!({})).await.expect_err("disabled");
    assert!(
        code == -32011 && message.contains("nothing has changed"),
        "{code} {message}"
    );
    view.invoke("undo-discard", json!({})).await.expect("undone");
    view.shows(&all).await;
    assert_eq!(text("lines.txt"), Some(changed));
    // A target of the wrong kind, and a file that is not in the view.
    let wrong = json!({ "target": { "kind": "resource", "resource": file("a.txt") } });
    let (code, _) = view.invoke("commit", wrong).await.expect_err("a wrong target");
    assert_eq!(code, -32602);
    let absent = json!({ "target": { "kind": "resource", "resource": file("absent") } });
    let (code, _) = view.invoke("discard", absent).await.expect_err("no such file");
    assert_eq!(code, -32602);
}

#[tokio::test]
async fn chg11_stage_branch_and_commit_with_the_message_of_the_agent() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let top = path(&repository);
    let uris = client.create_session_in("commit", &uri(&repository)).await;
    edit(&client, &uris, "t1", "a.txt two").await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    view.shows(&[("a.txt", 1, 0)]).await;
    view.invoke("stage", json!({})).await.expect("staged");
    assert_eq!(git(&top, &["diff", "--cached", "--name-only"]), "a.txt");
    let branch = json!({ "_meta": { "name": "feature/guests" } });
    view.invoke("create-branch", branch).await.expect("created");
    assert_eq!(git(&top, &["branch", "--show-current"]), "feature/guests");
    view.shows(&[("a.txt", 1, 0)]).await;
    // The client gives no message, so the agent of the session writes one.
    let done = view.invoke("commit", json!({})).await.expect("committed");
    assert!(
        done["message"]
            .as_str()
            .is_some_and(|text| text.contains("Change a.txt")),
        "{done}"
    );
    assert_eq!(git(&top, &["log", "-1", "--format=%s"]), "Change a.txt");
    assert_eq!(git(&top, &["status", "--porcelain"]), "");
    view.shows(&[]).await;
    // The view of the branch still has it.
    let mut branch = Changeset::subscribe(&client, format!("{}/changeset/branch", uris.session)).await;
    branch.shows(&[("a.txt", 1, 0)]).await;
}

#[tokio::test]
async fn chg11_staged_files_outside_of_the_view_are_not_committed() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let top = path(&repository);
    std::fs::create_dir(top.join("part")).expect("a directory");
    std::fs::write(top.join("part/b.txt"), "b\n").expect("written");
    std::fs::write(top.join("a.txt"), "staged\n").expect("written");
    git(&top, &["add", "a.txt"]);
    let uris = client
        .create_session_in("part", &format!("{}/part", uri(&repository)))
        .await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    view.shows(&[("b.txt", 1, 0)]).await;
    let (code, message) = view.invoke("commit", json!({})).await.expect_err("a.txt is staged");
    assert!(code == -32011 && message.contains("a.txt"), "{code} {message}");
    assert_eq!(git(&top, &["rev-list", "--count", "HEAD"]), "1");
    git(&top, &["reset", "--quiet"]);
    view.shows(&[("b.txt", 1, 0)]).await;
    view.invoke("commit", json!({})).await.expect("committed");
    assert_eq!(git(&top, &["status", "--porcelain"]), " M a.txt");
}

#[tokio::test]
async fn chg11_files_of_submodules_are_shown_discarded_and_left_out_of_commits() {
    let (_host, client) = start_with_client().await;
    let (library, repository) = (repository(), repository());
    let top = path(&repository);
    let library = path(&library).display().to_string();
    let add = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &library,
        "vendored",
    ];
    git(&top, &add);
    git(&top, &["commit", "--quiet", "-m", "Submodule"]);
    std::fs::write(top.join("vendored/a.txt"), "changed\n").expect("written");
    std::fs::write(top.join("a.txt"), "changed\n").expect("written");
    let uris = client.create_session_in("submodule", &uri(&repository)).await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    view.shows(&[("a.txt", 1, 1), ("a.txt", 1, 1)]).await;
    let done = view
        .invoke("commit", json!({ "_meta": { "message": "Main" } }))
        .await
        .expect("committed");
    let told = done["message"].as_str().unwrap_or_default();
    assert!(told.contains("1 file in another repository was left out"), "{told}");
    assert_eq!(git(&top, &["log", "-1", "--format=%s"]), "Main");
    view.shows(&[("a.txt", 1, 1)]).await;
    let left = view.state.files[0].id.clone();
    assert!(left.ends_with("/vendored/a.txt"), "{left}");
    view.invoke("discard", json!({})).await.expect("discarded");
    view.shows(&[]).await;
    assert_eq!(git(&top.join("vendored"), &["status", "--porcelain"]), "");
    // A submodule at another commit is one entry, which can be committed.
    let vendored = top.join("vendored");
    git(&vendored, &["config", "user.name", "Test"]);
    git(&vendored, &["config", "user.email", "test@example.org"]);
    git(&vendored, &["commit", "--quiet", "--allow-empty", "-m", "Next"]);
    view.until("the submodule moved", |state| {
        let meta = state
            .files
            .first()
            .and_then(|file| file.meta.clone())
            .unwrap_or_default();
        meta.contains_key("innkeeper.submodule")
    })
    .await;
    view.invoke("commit", json!({ "_meta": { "message": "Move" } }))
        .await
        .expect("committed");
    assert_eq!(git(&top, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn chg11_a_model_suggests_the_message_of_a_commit() {
    let script = Script::by(|asked| match asked.system().contains("message of a Git commit") {
        true => Reply::words("Greet the guests\n\nThey are new here."),
        false => Reply::words("Hello."),
    });
    let stage = Setup::new(Api::Chat).stage(script).await;
    let top = stage.directory.path();
    git(top, &["init", "--quiet", "--initial-branch=main"]);
    git(top, &["config", "user.name", "Test"]);
    git(top, &["config", "user.email", "test@example.org"]);
    stage.run_turn("t1", "hello").await;
    stage.write("guests.txt", "Ada\n");
    let channel = format!("{}/changeset/uncommitted", stage.uris.session);
    let mut view = Changeset::subscribe(&stage.client, channel).await;
    view.shows(&[("guests.txt", 1, 0)]).await;
    view.invoke("commit", json!({})).await.expect("committed");
    assert_eq!(
        git(top, &["log", "-1", "--format=%B"]),
        "Greet the guests\n\nThey are new here."
    );
    let asked = stage.last_asked();
    assert!(
        asked.last_words().is_some_and(|words| words.contains("+Ada")),
        "{asked:?}"
    );
}
