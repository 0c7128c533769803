//! Broken repositories, files that change while they are read, and very much to show: clear states, bounded cost.

use ahp_types::state::{ChangesetOperationStatus, ChangesetStatus};
use innkeeper_testkit::official::OfficialClient;
use serde_json::json;

use super::{Changeset, git, path, read, repository, uri};
use crate::start_with_client;

#[tokio::test]
async fn chg04_broken_repositories_and_vanished_directories_recover() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let top = path(&repository);
    std::fs::write(top.join("a.txt"), "1\n").expect("written");
    let uris = client.create_session_in("broken", &uri(&repository)).await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    view.shows(&[("a.txt", 1, 1)]).await;
    let head = std::fs::read(top.join(".git/HEAD")).expect("a file");
    std::fs::write(top.join(".git/HEAD"), "garbage").expect("damage");
    let broken = view
        .until("an error", |state| state.status == ChangesetStatus::Error)
        .await;
    let message = &broken.error.as_ref().expect("a cause").message;
    assert!(message.contains("git cannot read the repository"), "{message}");
    assert_eq!(broken.files.len(), 1, "the files stay");
    std::fs::write(top.join(".git/HEAD"), head).expect("repaired");
    view.until("it recovers", |state| {
        state.status == ChangesetStatus::Ready && state.error.is_none()
    })
    .await;
    // The directory is moved away and comes back.
    let away = top.with_file_name(format!("{}-away", top.file_name().expect("a name").display()));
    std::fs::rename(&top, &away).expect("moved away");
    let gone = view
        .until("an error", |state| state.status == ChangesetStatus::Error)
        .await;
    let message = &gone.error.as_ref().expect("a cause").message;
    assert!(message.contains("cannot be read"), "{message}");
    std::fs::rename(&away, &top).expect("back");
    view.shows(&[("a.txt", 1, 1)]).await;
}

#[tokio::test]
async fn chg09_an_operation_on_a_locked_repository_fails_and_says_why() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let top = path(&repository);
    std::fs::write(top.join("a.txt"), "1\n").expect("written");
    std::fs::write(top.join(".git/index.lock"), "").expect("a lock");
    let uris = client.create_session_in("locked", &uri(&repository)).await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    view.shows(&[("a.txt", 1, 1)]).await;
    let message = json!({ "_meta": { "message": "Locked" } });
    let (code, problem) = view.invoke("commit", message.clone()).await.expect_err("locked");
    assert!(code == -32011 && problem.contains("index.lock"), "{code} {problem}");
    view.until("the operation shows it", |state| {
        let mut operations = state.operations.iter().flatten();
        operations.any(|it| it.id == "commit" && it.status == ChangesetOperationStatus::Error && it.error.is_some())
    })
    .await;
    assert_eq!(git(&top, &["rev-list", "--count", "HEAD"]), "1");
    std::fs::remove_file(top.join(".git/index.lock")).expect("unlocked");
    view.invoke("commit", message).await.expect("committed");
    view.shows(&[]).await;
    let commit = view.state.operations.iter().flatten().find(|it| it.id == "commit");
    assert!(commit.is_some_and(|it| it.error.is_none()), "{commit:?}");
}

#[tokio::test]
async fn chg08_a_file_that_changes_all_the_time_is_shown_as_it_ends() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let top = path(&repository);
    let uris = client.create_session_in("busy", &uri(&repository)).await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    view.shows(&[]).await;
    let file = top.join("busy.txt");
    let writing = tokio::task::spawn_blocking(move || {
        for round in 0..400 {
            std::fs::write(&file, "x\n".repeat(1 + round % 7 * 1000)).expect("written");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::fs::write(&file, "the\nlast\nlines\n").expect("written");
    });
    view.until("the file is there", |state| !state.files.is_empty()).await;
    writing.await.expect("written");
    view.shows(&[("busy.txt", 3, 0)]).await;
    let content = view.state.files[0]
        .edit
        .after
        .as_ref()
        .expect("a side")
        .content
        .uri
        .clone();
    assert_eq!(read(&client, &content).await["data"], "the\nlast\nlines\n");
}

#[tokio::test]
async fn ten_thousand_changes_and_a_huge_file_are_shown_within_bounds() {
    let (host, client) = start_with_client().await;
    let repository = repository();
    let top = path(&repository);
    let huge = std::fs::File::create(top.join("huge")).expect("a file");
    huge.set_len(2 << 30).expect("a sparse file");
    let uris = client.create_session_in("much", &uri(&repository)).await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    let state = view.until("the huge file", |state| state.files.len() == 1).await;
    let file = &state.files[0];
    assert!(
        file.meta
            .as_ref()
            .is_some_and(|meta| meta.contains_key("innkeeper.omitted")),
        "{file:?}"
    );
    let content = file.edit.after.as_ref().expect("a side").content.uri.clone();
    let line = read(&client, &content).await;
    assert!(
        line["data"]
            .as_str()
            .is_some_and(|text| text.contains("2147483648 bytes")),
        "{line}"
    );
    let (code, problem) = view
        .invoke("discard", json!({}))
        .await
        .expect_err("it cannot be stored");
    assert!(code == -32011 && problem.contains("too large"), "{code} {problem}");
    std::fs::remove_file(top.join("huge")).expect("removed");
    for number in 0..10_050 {
        let directory = top.join(format!("many/{}", number % 100));
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join(number.to_string()), "x\n").expect("written");
    }
    view.until("the first 10,000", |state| {
        state.files.len() == 10_000 && state.status == ChangesetStatus::Ready
    })
    .await;
    let told = view.state.operations.iter().flatten().find(|it| it.id == "commit");
    let told = told.and_then(|it| it.description.clone()).unwrap_or_default();
    assert!(told.contains("10050 files differ"), "{told}");
    // Another client is served meanwhile, and a commit has all of them.
    let other = OfficialClient::connect(host.address(), "other").await;
    other.create_session("elsewhere").await;
    view.invoke("commit", json!({ "_meta": { "message": "Many" } }))
        .await
        .expect("committed");
    assert_eq!(git(&top, &["status", "--porcelain"]), "");
    view.shows(&[]).await;
}
