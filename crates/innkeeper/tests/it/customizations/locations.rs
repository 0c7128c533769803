//! Directories are read and watched once, however many sessions share them.

use std::fs;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use crate::customizations::support::{
    Workspace, entries, entry, known, names, session_in, until_entries, until_listed, until_names, uri_of,
};
use crate::{options, start_with_client};

/// Returns how many directories a host watches, and with how many watchers.
fn watches(host: &HostProcess) -> (usize, usize) {
    let folder = format!("/proc/{}/fdinfo", host.pid());
    let (mut watches, mut watchers) = (0, 0);
    for info in fs::read_dir(folder).expect("the process runs").flatten() {
        let text = fs::read_to_string(info.path()).unwrap_or_default();
        let count = text.lines().filter(|line| line.starts_with("inotify ")).count();
        watches += count;
        watchers += usize::from(count > 0);
    }
    (watches, watchers)
}

/// Waits until it watches as much as is said.
async fn until_watches(host: &HostProcess, expected: (usize, usize)) {
    let deadline = tokio::time::Instant::now() + innkeeper_testkit::process::TIMEOUT;
    while watches(host) != expected {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{:?}, not {expected:?}",
            watches(host)
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn d51_d67_two_sessions_share_one_watcher_and_the_last_to_leave_stops_it() {
    let (host, client) = start_with_client().await;
    // Global directories are watched from the start, and listed after that.
    client.subscribe("ahp-root://").await;
    until_listed(&client, "the home", |listed| !listed.is_empty()).await;
    let without = watches(&host);
    let workspace = Workspace::new();
    workspace.skill("a");
    let one = session_in(&client, "one", &workspace).await;
    let with = watches(&host);
    assert_eq!(
        with.1,
        without.1 + 1,
        "one watcher for the workspace: {without:?} {with:?}"
    );
    let two = session_in(&client, "two", &workspace).await;
    assert_eq!(watches(&host), with, "and the second session needs none");
    for session in [&one.session, &two.session] {
        let disposed: Result<Value, _> = client.request("disposeSession", json!({ "channel": session })).await;
        disposed.expect("disposed");
    }
    until_watches(&host, without).await;
}

#[tokio::test]
async fn d50_a_workspace_that_is_the_home_is_published_once() {
    let (host, client) = start_with_client().await;
    let home = fs::canonicalize(host.path("")).expect("there");
    let uri = uri_of(&home.components().collect::<std::path::PathBuf>());
    let uris = client.create_session_in("home", &uri).await;
    known(&client, &uris.session).await;
    let all = entries(&client, &uris.session);
    let mut places: Vec<_> = all
        .iter()
        .map(|entry| (entry["uri"].to_string(), entry["contents"].to_string()))
        .collect();
    places.sort();
    let count = places.len();
    places.dedup();
    assert_eq!(places.len(), count, "{all:#?}");
    assert!(all.iter().any(|entry| entry["name"] == ".claude/skills"));
    assert!(all.iter().any(|entry| entry["name"] == "~/.copilot/skills"));
    client.assert_converged().await;
}

#[tokio::test]
async fn b3_a_shadowed_customization_names_the_one_that_shadows_it() {
    let (host, client) = start_with_client().await;
    let workspace = Workspace::new();
    workspace.skill("same");
    crate::customizations::support::write(
        &host.path(".claude/skills/same/SKILL.md"),
        &crate::customizations::support::skill("same", "The user's."),
    );
    let uris = session_in(&client, "shadows", &workspace).await;
    until_names(&client, &uris.session, "~/.claude/skills", &["same"]).await;
    let winner = crate::customizations::support::child(&client, &uris.session, ".claude/skills", "same");
    let loser = crate::customizations::support::child(&client, &uris.session, "~/.claude/skills", "same");
    assert_eq!(loser["_meta"]["innkeeper.shadowedBy"], winner["id"], "{loser:#}");
    assert_eq!(winner.get("_meta"), None);
    fs::remove_dir_all(workspace.path(".claude/skills/same")).expect("deleted");
    crate::customizations::support::until_entry(&client, &uris.session, "~/.claude/skills", "is free", |entry| {
        entry["children"][0].get("_meta").is_none()
    })
    .await;
    client.assert_converged().await;
}

/// The skills in the `.claude/skills` of each working directory.
fn skills_of(entries: &[Value]) -> Vec<Vec<String>> {
    let of_workspaces = entries.iter().filter(|entry| entry["name"] == ".claude/skills");
    of_workspaces.map(names).collect()
}

async fn until_skills(client: &OfficialClient, session: &str, expected: &[&[&str]]) {
    let what = format!("have {expected:?} in the working directories");
    until_entries(client, session, &what, |entries| skills_of(entries) == expected).await;
}

#[tokio::test]
async fn several_directories_of_a_session_are_all_read_and_one_more_can_come() {
    let (_host, client) = start_with_client().await;
    let (first, second) = (Workspace::new(), Workspace::new());
    first.skill("a");
    second.skill("b");
    let create = json!({ "workingDirectories": [first.uri(), second.uri()] });
    let uris = client.create_session_with("several", create).await;
    known(&client, &uris.session).await;
    assert_eq!(skills_of(&entries(&client, &uris.session)), [["a"], ["b"]]);
    let third = Workspace::new();
    third.skill("c");
    let one_more = json!({ "type": "session/workingDirectorySet", "directory": third.uri() });
    client.dispatch(&uris.session, one_more).await;
    until_skills(&client, &uris.session, &[&["a"], &["b"], &["c"]]).await;
    // It is followed like the others, and goes with its directory.
    third.skill("d");
    until_skills(&client, &uris.session, &[&["a"], &["b"], &["c", "d"]]).await;
    let one_less = json!({ "type": "session/workingDirectoryRemoved", "directory": second.uri() });
    client.dispatch(&uris.session, one_less).await;
    until_skills(&client, &uris.session, &[&["a"], &["c", "d"]]).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn a_host_without_customizations_shows_none() {
    let host = HostProcess::start(options().setting("customizations.enabled = false")).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let workspace = Workspace::new();
    workspace.skill("a");
    let uris = client.create_session_in("none", &workspace.uri()).await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    assert_eq!(client.session(&uris.session).customizations, None);
    let root = serde_json::to_value(client.view().root()).expect("JSON");
    assert!(!root.to_string().contains("customizations"), "{root}");
}

#[tokio::test]
async fn d59_a_workspace_that_is_deleted_and_made_anew_is_read_anew() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    workspace.write(
        "project/.claude/skills/a/SKILL.md",
        &crate::customizations::support::skill("a", "A."),
    );
    let uris = client
        .create_session_in("anew", &format!("{}/project", workspace.uri()))
        .await;
    known(&client, &uris.session).await;
    until_names(&client, &uris.session, ".claude/skills", &["a"]).await;
    fs::remove_dir_all(workspace.path("project")).expect("deleted");
    until_names(&client, &uris.session, ".claude/skills", &[]).await;
    workspace.write(
        "project/.claude/skills/b/SKILL.md",
        &crate::customizations::support::skill("b", "B."),
    );
    until_names(&client, &uris.session, ".claude/skills", &["b"]).await;
    assert_eq!(
        entry(&client, &uris.session, ".claude/skills")["load"]["kind"],
        "loaded"
    );
    client.assert_converged().await;
}
