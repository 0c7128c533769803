//! The views that sessions and chats offer, with real Git.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ahp_types::state::ChangesetStatus;
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use super::{Changeset, approved, edit, git, path, read, repository, uri};
use crate::{options, start_with_client};

/// The kinds and templates of a list of views.
fn offered(views: &Value) -> Vec<(String, String)> {
    let views = views.as_array().cloned().unwrap_or_default();
    let text = |view: &Value, field: &str| view[field].as_str().unwrap_or_default().to_owned();
    assert!(
        views.iter().all(|view| !text(view, "label").is_empty()),
        "every view has a label"
    );
    views
        .iter()
        .map(|view| (text(view, "changeKind"), text(view, "uriTemplate")))
        .collect()
}

#[tokio::test]
async fn chg01_chg02_chg03_every_offered_view_shows_its_changes() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    git(repository.path(), &["checkout", "--quiet", "-b", "topic"]);
    std::fs::write(path(&repository).join("earlier.txt"), "x\n").expect("written");
    git(repository.path(), &["add", "."]);
    git(repository.path(), &["commit", "--quiet", "-m", "Earlier"]);
    std::fs::write(path(&repository).join("dirty.txt"), "x\n").expect("written");
    let uris = client.create_session_in("catalogue", &uri(&repository)).await;
    edit(&client, &uris, "t1", "a.txt two").await;
    // A command changes files as well as a tool does.
    approved(&client, &uris, "t2", "/terminal printf 'x\\ny\\n' > made.txt; rm a.txt").await;
    client
        .until("views are offered", |view| {
            let session = view.session(&uris.session);
            session
                .and_then(|session| session.changesets.as_ref())
                .is_some_and(|views| views.len() == 5)
        })
        .await;
    let session = serde_json::to_value(client.session(&uris.session)).expect("JSON");
    let chat = serde_json::to_value(client.chat(&uris.chat)).expect("JSON");
    let views = [offered(&session["changesets"]), offered(&chat["changesets"])].concat();
    let kinds: Vec<&str> = views.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "uncommitted",
            "session",
            "branch",
            "turn",
            "compare-turns",
            "turn",
            "compare-turns"
        ]
    );
    for (kind, template) in &views {
        let expanded = template
            .replace("{turnId}", "t2")
            .replace("{originalTurnId}", "t1")
            .replace("{modifiedTurnId}", "t2");
        assert!(
            !expanded.contains('{'),
            "{template} has a variable that the protocol lacks"
        );
        let mut view = Changeset::subscribe(&client, expanded).await;
        let expected: &[(&str, i64, i64)] = match kind.as_str() {
            "uncommitted" => &[("a.txt", 0, 1), ("dirty.txt", 1, 0), ("made.txt", 2, 0)],
            "session" => &[("a.txt", 0, 1), ("made.txt", 2, 0)],
            "branch" => &[
                ("a.txt", 0, 1),
                ("dirty.txt", 1, 0),
                ("earlier.txt", 1, 0),
                ("made.txt", 2, 0),
            ],
            _ => &[("a.txt", 0, 2), ("made.txt", 2, 0)],
        };
        view.shows(expected).await;
    }
    // The first turn is still what it was.
    let mut first = Changeset::subscribe(&client, format!("{}/changeset/turn/t1", uris.chat)).await;
    first.shows(&[("a.txt", 1, 0)]).await;
}

#[tokio::test]
async fn chg08_every_kind_of_file_is_shown_and_read_on_both_sides() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let top = path(&repository);
    let write = |name: &str, bytes: &[u8]| std::fs::write(top.join(name), bytes).expect("written");
    write("moved.txt", "line\n".repeat(20).as_bytes());
    write("gone.txt", b"gone\n");
    write("run.sh", b"#!/bin/sh\n");
    write("pixels", &[0, 1, 2, 255]);
    git(&top, &["add", "."]);
    git(&top, &["commit", "--quiet", "-m", "More"]);
    std::fs::rename(top.join("moved.txt"), top.join("new name.txt")).expect("renamed");
    std::fs::remove_file(top.join("gone.txt")).expect("removed");
    std::fs::set_permissions(top.join("run.sh"), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    write("pixels", &[0, 9, 9, 255]);
    symlink("a.txt", top.join("link")).expect("a symlink");
    std::fs::write(top.join(std::ffi::OsStr::from_bytes(b"odd\xff.txt")), "odd\n").expect("written");
    let uris = client.create_session_in("kinds", &uri(&repository)).await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/uncommitted", uris.session)).await;
    let state = view.until("six files", |state| state.files.len() == 6).await.clone();
    let find = |end: &str| {
        let mut files = state.files.iter();
        files
            .find(|file| file.id.ends_with(end))
            .unwrap_or_else(|| panic!("{end}: {state:?}"))
    };
    let meta = |end: &str, key: &str| {
        let meta = find(end).meta.clone().unwrap_or_default();
        meta.get(&format!("innkeeper.{key}")).cloned().unwrap_or_default()
    };
    let moved = &find("new%20name.txt").edit;
    let former = &moved.before.as_ref().expect("a side").uri;
    assert!(former.ends_with("/moved.txt"), "{former}");
    assert!(find("gone.txt").edit.after.is_none(), "a deletion has one side");
    assert_eq!(meta("run.sh", "modes"), json!(["100644", "100755"]));
    assert_eq!(
        (meta("pixels", "binary"), meta("link", "symlink")),
        (json!(true), json!(true))
    );
    assert!(find("pixels").edit.diff.is_none(), "there are no lines to count");
    let contents = [
        ("new%20name.txt", Some("line\n".repeat(20)), Some("line\n".repeat(20))),
        ("gone.txt", Some("gone\n".to_owned()), None),
        ("run.sh", Some("#!/bin/sh\n".to_owned()), Some("#!/bin/sh\n".to_owned())),
        ("link", None, Some("a.txt".to_owned())),
        ("odd%FF.txt", None, Some("odd\n".to_owned())),
    ];
    for (end, before, after) in contents {
        let edit = &find(end).edit;
        for (side, expected) in [(&edit.before, before), (&edit.after, after)] {
            let content = side.as_ref().map(|side| side.content.uri.clone());
            assert_eq!(content.is_some(), expected.is_some(), "{end}");
            if let (Some(content), Some(expected)) = (content, expected) {
                assert_eq!(read(&client, &content).await["data"], expected, "{end}");
            }
        }
    }
    let pixels = find("pixels").edit.before.as_ref().expect("a side").content.uri.clone();
    let pixels = read(&client, &pixels).await;
    assert_eq!(
        (&pixels["encoding"], &pixels["data"]),
        (&json!("base64"), &json!("AAEC/w=="))
    );
    // A client that does not see the session cannot read its contents.
    let stranger = OfficialClient::connect(_host.address(), "stranger").await;
    let content = find("link").edit.after.as_ref().expect("a side").content.uri.clone();
    let (code, _) = stranger
        .refused("resourceRead", json!({ "channel": "ahp-root://", "uri": content }))
        .await;
    assert!(code < 0, "{code}");
}

#[tokio::test]
async fn chg06_chg12_chg13_one_edit_is_one_action_and_ends_its_review() {
    let (host, client) = start_with_client().await;
    let repository = repository();
    let write = |name: &str, text: &str| std::fs::write(path(&repository).join(name), text).expect("written");
    write("a.txt", "1\n");
    write("b.txt", "1\n");
    let uris = client.create_session_in("review", &uri(&repository)).await;
    let channel = format!("{}/changeset/uncommitted", uris.session);
    let mut view = Changeset::subscribe(&client, channel.clone()).await;
    view.shows(&[("a.txt", 1, 1), ("b.txt", 1, 0)]).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    other.join(&uris.session).await;
    let mut others = Changeset::subscribe(&other, channel.clone()).await;
    let files: Vec<String> = view.state.files.iter().map(|file| file.id.clone()).collect();
    let unknown = "file:///no/such/file".to_owned();
    let marked = [files.clone(), vec![unknown]].concat();
    client
        .dispatch(
            &channel,
            json!({ "type": "changeset/filesReviewChanged", "files": marked, "reviewed": true }),
        )
        .await;
    let all = |state: &ahp_types::state::ChangesetState| state.files.iter().all(|file| file.reviewed == Some(true));
    others.until("both are reviewed", all).await;
    view.until("both are reviewed", all).await;
    let before = client.view().actions_on(&channel).len();
    write("b.txt", "1\n2\n");
    view.shows(&[("a.txt", 1, 1), ("b.txt", 2, 0)]).await;
    let reviewed = |view: &Changeset<'_>| -> Vec<bool> {
        view.state
            .files
            .iter()
            .map(|file| file.reviewed == Some(true))
            .collect()
    };
    assert_eq!(
        reviewed(&view),
        [true, false],
        "the changed file is to be looked at again"
    );
    let later: Vec<Value> = client.view().actions_on(&channel).split_off(before);
    let kinds: Vec<&str> = later.iter().filter_map(|action| action["type"].as_str()).collect();
    assert!(kinds.contains(&"changeset/fileSet"), "{kinds:?}");
    assert!(!kinds.contains(&"changeset/contentChanged"), "{kinds:?}");
    // A review is kept over a restart of the client, and of the view.
    drop(others);
    let third = OfficialClient::connect(host.address(), "third").await;
    third.join(&uris.session).await;
    let mut again = Changeset::subscribe(&third, channel).await;
    again.shows(&[("a.txt", 1, 1), ("b.txt", 2, 0)]).await;
    assert_eq!(reviewed(&again), [true, false]);
}

/// A Git that notes what it is asked, and that takes long to compare while there is a file `slow` beside it.
fn noting_git(directory: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let real = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|all| std::env::split_paths(&all).collect::<Vec<_>>());
    let real = real
        .map(|directory| directory.join("git"))
        .find(|git| git.is_file())
        .expect("git");
    let (programs, log) = (directory.join("bin"), directory.join("log"));
    std::fs::create_dir(&programs).expect("a directory");
    let script = format!(
        "#!/bin/sh\nfor word in \"$@\"; do case $word in -*|*=*) ;; *) echo \"$word\" >> '{}'; break;; esac; done\n\
         if [ \"$word\" = diff-tree ] && [ -e '{}' ]; then sleep 1; fi\nexec '{}' \"$@\"\n",
        log.display(),
        directory.join("slow").display(),
        real.display()
    );
    let program = programs.join("git");
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    (programs, log)
}

/// A host that finds Git in a directory.
async fn start_with_git(programs: std::path::PathBuf) -> HostProcess {
    let paths = [
        vec![programs],
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
    ]
    .concat();
    let search = std::env::join_paths(paths).expect("paths");
    HostProcess::start(options().environment("PATH", search)).await
}

#[tokio::test]
async fn chg04_chg05_only_newer_clients_hear_that_a_view_is_recomputed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (programs, _) = noting_git(directory.path());
    let host = start_with_git(programs).await;
    let client = OfficialClient::connect(host.address(), "new").await;
    let repository = repository();
    let uris = client.create_session_in("slow", &uri(&repository)).await;
    let channel = format!("{}/changeset/uncommitted", uris.session);
    let mut old = RawClient::connect(host.address()).await;
    old.initialize("old", &["0.9.0"]).await.expect("initialized");
    for channel in [&uris.session, &channel] {
        old.call("subscribe", json!({ "channel": channel }))
            .await
            .expect("subscribed");
    }
    let mut view = Changeset::subscribe(&client, channel.clone()).await;
    view.shows(&[]).await;
    std::fs::write(directory.path().join("slow"), "").expect("written");
    std::fs::write(path(&repository).join("a.txt"), "1\n").expect("written");
    view.until("it is recomputed", |state| state.status == ChangesetStatus::Recomputing)
        .await;
    view.shows(&[("a.txt", 1, 1)]).await;
    old.notification("the file", |message| {
        message["params"]["channel"] == channel && message["params"]["action"]["type"] == "changeset/fileSet"
    })
    .await;
    let is_recomputing = |message: &Value| message["params"]["action"]["status"] == "recomputing";
    assert!(!old.has_notification(is_recomputing));
}

#[tokio::test]
async fn ses17_changes_of_commands_and_operations_count_too() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let uris = client.create_session_in("on-disk", &uri(&repository)).await;
    let run = async |turn: &str, command: &str| {
        client
            .start_turn(&uris.chat, turn, &format!("/terminal {command}"))
            .await;
        let wait = client.wait_for(&uris.session, "toolConfirmation").await;
        client.decide(&wait, json!({ "approved": true })).await;
        client.turn_end(&uris.chat, turn).await;
    };
    let counts = async |expected: (i64, i64, i64)| {
        let begun = std::time::Instant::now();
        loop {
            let listed = client.listed(&uris.session).await;
            let counted = listed.changes.clone().unwrap_or_default();
            let counted = (counted.files, counted.additions, counted.deletions);
            if counted == (Some(expected.0), Some(expected.1), Some(expected.2)) {
                break;
            }
            assert!(
                begun.elapsed() < std::time::Duration::from_secs(60),
                "{expected:?}: {listed:?}"
            );
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    run("t1", "echo two >> a.txt; echo x > new.txt").await;
    counts((2, 2, 0)).await;
    run("t2", "echo three >> a.txt; rm new.txt").await;
    counts((1, 2, 0)).await;
    let mut view = Changeset::subscribe(&client, format!("{}/changeset/session", uris.session)).await;
    view.shows(&[("a.txt", 2, 0)]).await;
    view.invoke("discard", json!({})).await.expect("reverted");
    counts((0, 0, 0)).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn chg06_git_computes_nothing_while_no_client_looks() {
    let directory = tempfile::tempdir().expect("a directory");
    let (programs, log) = noting_git(directory.path());
    let host = start_with_git(programs).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let repository = repository();
    let uris = client.create_session_in("idle", &uri(&repository)).await;
    client
        .until("views are offered", |view| {
            view.session(&uris.session)
                .is_some_and(|session| session.changesets.is_some())
        })
        .await;
    let asked = |word: &str| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.lines().filter(|line| *line == word).count()
    };
    assert!(asked("rev-parse") > 0, "the host runs this Git");
    let write = |number: usize| {
        let file = path(&repository).join(format!("{number}.txt"));
        std::fs::write(file, "x\n").expect("written");
    };
    (0..50).for_each(write);
    // Long enough for a watch that should not be there.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!((asked("write-tree"), asked("diff-tree")), (0, 0), "no client looks");
    // Two clients and two views share the watch, and a burst of edits is computed a few times.
    let second = OfficialClient::connect(host.address(), "second").await;
    second.join(&uris.session).await;
    let channel = format!("{}/changeset/uncommitted", uris.session);
    let mut view = Changeset::subscribe(&client, channel.clone()).await;
    let mut same = Changeset::subscribe(&second, channel.clone()).await;
    view.until("computed", |state| state.files.len() == 50).await;
    same.until("computed", |state| state.files.len() == 50).await;
    let before = asked("write-tree");
    assert!(before > 0);
    (50..250).for_each(write);
    view.until("all", |state| state.files.len() == 250).await;
    same.until("all", |state| state.files.len() == 250).await;
    let times = asked("write-tree") - before;
    assert!(times < 100, "200 edits were computed {times} times");
    // After the last subscriber has left, and the time for one that returns is over, no edit is looked at.
    for client in [&client, &second] {
        client.unsubscribe(&channel).await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(13)).await;
    let before = asked("write-tree");
    (250..260).for_each(write);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(asked("write-tree"), before, "no client looks any more");
}

#[tokio::test]
async fn ses17_summaries_of_sessions_and_chats_count_changes() {
    let (_host, client) = start_with_client().await;
    let repository = repository();
    let uris = client.create_session_in("counted", &uri(&repository)).await;
    edit(&client, &uris, "t1", "a.txt two").await;
    edit(&client, &uris, "t2", "a.txt three").await;
    edit(&client, &uris, "t3", "b.txt one").await;
    client
        .until("the chat's entry counts", |view| {
            let session = view.session(&uris.session);
            let chat = session.and_then(|session| session.chats.first().cloned());
            let changes = chat.and_then(|chat| chat.changes);
            changes.is_some_and(|changes| (changes.files, changes.additions) == (Some(2), Some(3)))
        })
        .await;
    let begun = std::time::Instant::now();
    loop {
        let listed = client.listed(&uris.session).await;
        let of_session = listed.changes.clone().unwrap_or_default();
        let of_chat = listed
            .chats
            .clone()
            .unwrap_or_default()
            .first()
            .and_then(|chat| chat.changes.clone());
        let of_chat = of_chat.unwrap_or_default();
        let counts = (of_session.files, of_session.additions, of_session.deletions);
        if counts == (Some(2), Some(3), Some(0)) && of_chat.files == Some(2) {
            break;
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{listed:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn chg05_clients_of_0_9_follow_review_and_change_files() {
    let (host, client) = start_with_client().await;
    let repository = repository();
    let write = |name: &str, text: &str| std::fs::write(path(&repository).join(name), text).expect("written");
    write("a.txt", "1\n");
    let uris = client.create_session_in("older", &uri(&repository)).await;
    let mut old = RawClient::connect(host.address()).await;
    old.initialize("old", &["0.9.0"]).await.expect("initialized");
    let channel = format!("{}/changeset/uncommitted", uris.session);
    for channel in [&uris.session, &channel] {
        old.call("subscribe", json!({ "channel": channel }))
            .await
            .expect("subscribed");
    }
    let is_on = |message: &Value, kind: &str| {
        message["params"]["channel"] == channel && message["params"]["action"]["type"] == kind
    };
    let content = old
        .notification("the content", |message| is_on(message, "changeset/contentChanged"))
        .await;
    let file = content["params"]["action"]["files"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert!(file.ends_with("/a.txt"), "{content}");
    let review = json!({ "type": "changeset/filesReviewChanged", "files": [file], "reviewed": true });
    old.dispatch(&channel, 1, review).await;
    old.notification("its echo", |message| {
        is_on(message, "changeset/filesReviewChanged") && message["params"]["origin"]["clientId"] == "old"
    })
    .await;
    write("a.txt", "2\n");
    old.notification("the file", |message| is_on(message, "changeset/fileSet"))
        .await;
    let discard =
        json!({ "channel": channel, "operationId": "discard", "target": { "kind": "resource", "resource": file } });
    let done = old.call("invokeChangesetOperation", discard).await.expect("discarded");
    assert!(
        done["message"].as_str().is_some_and(|text| text.contains("Undo")),
        "{done}"
    );
    old.notification("it is gone", |message| is_on(message, "changeset/fileRemoved"))
        .await;
    let text = std::fs::read_to_string(path(&repository).join("a.txt")).expect("a file");
    assert_eq!(text, "one\n");
}
