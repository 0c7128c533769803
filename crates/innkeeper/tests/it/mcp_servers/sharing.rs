//! Shared servers: sessions of one workspace share a process, which ends with the last of them.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, TestSession, options};

async fn open(settings: &str) -> Inn {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("plain") });
    Inn::open_with(place, servers, options().setting(settings)).await
}

async fn dispose(inn: &Inn, room: &TestSession<'_>) {
    let params = json!({ "channel": room.uris.session });
    let gone: Value = inn.client.request("disposeSession", params).await.expect("disposed of");
    assert_eq!(gone, Value::Null);
    inn.client.view().forget(&room.uris.session);
    inn.client.view().forget(&room.uris.chat);
}

async fn echoes(room: &TestSession<'_>, turn: &str) {
    let (words, _) = room.call(turn, r#"odd echo {"text": "hello"}"#).await;
    assert!(words.contains("hello"), "{words}");
}

#[tokio::test]
async fn sessions_of_one_workspace_share_a_process_until_the_last_one_ends() {
    let inn = open("").await;
    let first = inn.ready_room("one", "odd").await;
    let second = inn.room("two").await;
    second.server_is("odd", "ready").await;
    echoes(&first, "t1").await;
    echoes(&second, "t1").await;
    assert_eq!(inn.place.pids().len(), 1, "one process for both");
    dispose(&inn, &first).await;
    echoes(&second, "t2").await;
    assert_eq!(inn.place.living(), 1);
    dispose(&inn, &second).await;
    inn.place.until_living(0).await;
    // It starts again for the next session.
    let third = inn.room("three").await;
    third.server_is("odd", "ready").await;
    echoes(&third, "t1").await;
    assert_eq!(inn.place.pids().len(), 2);
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn isolated_sessions_have_a_process_each() {
    let inn = open("[mcp]\nisolate = true").await;
    let first = inn.ready_room("one", "odd").await;
    let second = inn.room("two").await;
    second.server_is("odd", "ready").await;
    echoes(&first, "t1").await;
    echoes(&second, "t1").await;
    assert_eq!((inn.place.pids().len(), inn.place.living()), (2, 2));
    dispose(&inn, &first).await;
    inn.place.until_living(1).await;
    echoes(&second, "t2").await;
}

#[tokio::test]
async fn one_session_never_has_the_same_server_twice() {
    let inn = open("").await;
    // The same once more, in a file that other programs read.
    inn.place
        .declare(".cursor/mcp.json", &json!({ "odd": inn.place.odd("plain") }));
    let room = inn.ready_room("one", "odd").await;
    let state = inn.client.view().session(&room.uris.session).cloned();
    let list = json!(state.and_then(|state| state.customizations));
    let servers = list.as_array().into_iter().flatten();
    let servers = servers.filter(|entry| entry["type"] == "mcpServer");
    assert_eq!(
        servers.count(),
        1,
        "the first file wins, as a warning of the second one says"
    );
    // A start request for a running server restarts it.
    room.demand("odd", "Start").await;
    room.demand("odd", "Start").await;
    room.client.caught_up().await;
    room.server_is("odd", "ready").await;
    echoes(&room, "t1").await;
    assert_eq!(inn.place.living(), 1, "{:?}", inn.place.pids());
}

#[tokio::test]
async fn cus08_every_scope_switches_servers_off_and_on() {
    let inn = open("").await;
    let first = inn.ready_room("one", "odd").await;
    let second = inn.room("two").await;
    second.server_is("odd", "ready").await;
    // One session does without, the other one does not.
    first
        .switch("odd", json!([{ "kind": "session", "enabled": false }]))
        .await;
    first.server_is("odd", "stopped").await;
    echoes(&second, "t1").await;
    assert_eq!(inn.place.living(), 1);
    first
        .switch("odd", json!([{ "kind": "session", "enabled": true }]))
        .await;
    first.server_is("odd", "ready").await;
    assert_eq!(inn.place.pids().len(), 1, "it was there all the time");
    // The enablement for a whole workspace, and for the whole host.
    let workspace = |enabled| json!([{ "kind": "workspace", "uri": inn.place.uri(), "enabled": enabled }]);
    let global = |enabled| json!([{ "kind": "global", "enabled": enabled }]);
    for (count, (off, on)) in [(workspace(false), workspace(true)), (global(false), global(true))]
        .into_iter()
        .enumerate()
    {
        // A decision of the session would override it.
        first.switch("odd", off).await;
        for room in [&first, &second] {
            room.server_is("odd", "stopped").await;
        }
        inn.place.until_living(0).await;
        first.switch("odd", on).await;
        for room in [&first, &second] {
            room.server_is("odd", "ready").await;
        }
        echoes(&second, &format!("on-{count}")).await;
        assert_eq!(inn.place.living(), 1);
    }
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn a_server_of_a_manifest_runs_and_shows_its_position() {
    let place = TestDirectory::new();
    let plugin = place.beside("kit");
    std::fs::create_dir_all(plugin.join(".claude-plugin")).expect("made");
    let manifest = json!({ "name": "kit", "mcpServers": { "inline": place.odd("plain") } });
    let text = serde_json::to_string_pretty(&manifest).expect("JSON");
    std::fs::write(plugin.join(".claude-plugin/plugin.json"), text).expect("written");
    let setting = format!("[customizations]\nplugins = [{:?}]", plugin.display().to_string());
    let inn = Inn::open_with(place, json!({}), options().setting(&setting)).await;
    let room = inn.room("one").await;
    // A configured server needs no trust.
    let server = room.server_is("inline", "ready").await;
    assert!(server["range"]["start"].is_object(), "CUS: {server}");
    assert!(server["uri"].as_str().is_some_and(|uri| uri.ends_with("plugin.json")));
    let (words, call) = room.call("t1", r#"inline echo {"text": "hello"}"#).await;
    assert!(words.contains("hello"), "{words}");
    assert_eq!(call["contributor"]["customizationId"], server["id"]);
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn files_of_mcp_servers_have_the_users_umask() {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("saving") });
    let inn = Inn::open(place, servers).await;
    let room = inn.ready_room("one", "odd").await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode();
    let own = inn.place.beside("own");
    std::fs::write(&own, "mine").expect("written");
    let theirs = inn.place.beside("theirs");
    room.call("t1", &format!("odd save {}", json!({ "path": theirs })))
        .await;
    // The host's own umask, which closes its files to others, is not theirs.
    assert_eq!(mode(&theirs), mode(&own));
}
