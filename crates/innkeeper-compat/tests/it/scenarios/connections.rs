//! Clients and connections: tools of clients, activity, lost connections, restarts.

use innkeeper_compat::client::CompatClient;
use innkeeper_compat::version::Version;
use innkeeper_compat::words::{answer_text, tool_calls};
use serde_json::{Value, json};

use super::Stage;

/// Has the tool `open` of a client executed.
const CALL: &str = r#"/client-tool open {"path": "a.txt"}"#;

/// The client that a call belongs to.
fn owner(version: Version, call: &Value) -> &Value {
    match version.has_messages() {
        true => &call["contributor"]["clientId"],
        false => &call["toolClientId"],
    }
}

/// The result of a client tool.
fn result(text: &str) -> Value {
    json!({
        "result": { "success": true, "pastTenseMessage": "Opened it", "content": [{ "type": "text", "text": text }] }
    })
}

async fn activate(client: &CompatClient, session: &str, tools: &[&str]) {
    let entry = client.version.active_client(&client.id, tools);
    client.dispatch(session, client.version.activated(entry)).await;
    client
        .until("the client is active with its tools", |view| {
            let active = active_client(client, &view.states[session]);
            active.is_some_and(|active| {
                let names = active["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
                names.iter().map(|tool| &tool["name"]).eq(tools.iter().copied())
            })
        })
        .await;
}

/// The client's own entry.
fn active_client(client: &CompatClient, state: &Value) -> Option<Value> {
    let is_own = |entry: &&Value| entry["clientId"] == client.id.as_str();
    match client.version.has_active_clients() {
        true => state["activeClients"].as_array()?.iter().find(is_own).cloned(),
        false => Some(&state["activeClient"]).filter(is_own).cloned(),
    }
}

pub(crate) async fn owns_a_tool(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    activate(client, &uris.session, &["open"]).await;
    client.assert_converged("an active client").await;
    for (turn, is_own) in [("t1", true), ("t2", false)] {
        let newest = stage.connect(Version::V1_0, &format!("newest-{turn}")).await;
        let theirs = newest.join(&uris.session).await;
        match is_own {
            true => client.start_turn(&uris, turn, CALL).await,
            false => newest.start_turn(&theirs, turn, CALL).await,
        };
        let call = client.call_in(&uris, "running").await;
        assert_eq!(owner(stage.version, &call), client.id.as_str(), "{call}");
        client.assert_converged("a call of the client's tool").await;
        let piece = json!({ "content": [{ "type": "text", "text": "opening" }] });
        client
            .about_call(&uris, turn, &call, "toolCallContentChanged", piece)
            .await;
        client.assert_converged("a piece of the result").await;
        client
            .about_call(&uris, turn, &call, "toolCallComplete", result("opened a.txt"))
            .await;
        let ended = client.turn_end(&uris, turn).await;
        assert!(answer_text(&ended).contains("opened a.txt"), "{ended}");
        assert_eq!(tool_calls(&ended)[0]["success"], true);
        client.assert_converged("a result of the client").await;
        newest.turn_end(&theirs, turn).await;
        newest.assert_converged("a result of the client").await;
    }
    // Another client reports nothing about it.
    let other = stage.connect(stage.version, "other").await;
    let theirs = other.join(&uris.session).await;
    client.start_turn(&uris, "t3", CALL).await;
    let call = other.call_in(&theirs, "running").await;
    let forged = other
        .about_call(&theirs, "t3", &call, "toolCallComplete", result("forged"))
        .await;
    let rejection = other.rejection(forged).await;
    assert_eq!(rejection["action"]["type"], stage.version.of_chat("toolCallComplete"));
    client
        .about_call(&uris, "t3", &call, "toolCallComplete", result("opened"))
        .await;
    client.turn_end(&uris, "t3").await;
    client.assert_converged("a forged result").await;
    other.assert_converged("a forged result").await;
}

pub(crate) async fn becomes_active_and_leaves(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let watcher = stage.connect(stage.version, "watcher").await;
    watcher.join(&uris.session).await;
    for tools in [&["open"][..], &["open", "close"], &[]] {
        activate(client, &uris.session, tools).await;
        client.assert_converged("an active client").await;
        watcher.assert_converged("an active client").await;
    }
    let second = stage.connect(stage.version, "second").await;
    second.join(&uris.session).await;
    activate(&second, &uris.session, &["third"]).await;
    for who in [client, &watcher, &second] {
        who.assert_converged("a second active client").await;
    }
    second
        .dispatch(&uris.session, stage.version.deactivated(&second.id))
        .await;
    second.caught_up().await;
    for who in [client, &watcher, &second] {
        who.assert_converged("a client that left").await;
    }
    client
        .dispatch(&uris.session, stage.version.deactivated(&client.id))
        .await;
    client
        .until("no client is active", |view| {
            active_client(client, &view.states[&uris.session]).is_none()
        })
        .await;
    for who in [client, &watcher, &second] {
        who.assert_converged("no active client").await;
    }
    // A client is active from the beginning, and its session works.
    let entry = stage.version.active_client(&client.id, &["open"]);
    let born = client
        .create_session("born-active", json!({ "activeClient": entry }))
        .await;
    assert!(active_client(client, &client.state(&born.session)).is_some());
    client.assert_converged("active from the beginning").await;
}

pub(crate) async fn changes_its_tools(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let tools = |names: &[&str]| stage.version.active_client("", names)["tools"].clone();
    let change = |names: &[&str]| json!({ "type": "session/activeClientToolsChanged", "tools": tools(names) });
    // Without an active client there is nothing to change.
    client.rejected(&uris.session, change(&["open"])).await;
    activate(client, &uris.session, &["open"]).await;
    client.dispatch(&uris.session, change(&["open", "close"])).await;
    client
        .until("the new tools are shown", |view| {
            let active = active_client(client, &view.states[&uris.session]);
            active.is_some_and(|active| active["tools"].as_array().is_some_and(|tools| tools.len() == 2))
        })
        .await;
    let active = active_client(client, &client.state(&uris.session)).expect("active");
    assert_eq!(active["displayName"], "A client", "everything else stays");
    client.assert_converged("new tools").await;
}

pub(crate) async fn leaves_a_channel(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.run_turn(&uris, "t1", "/stream 1").await;
    client.unsubscribe(&uris.session).await;
    if uris.chat != uris.session {
        client.unsubscribe(&uris.chat).await;
    }
    client.caught_up().await;
    let seen = client.view().actions().count();
    let newest = stage.connect(Version::V1_0, "newest").await;
    let theirs = newest.join(&uris.session).await;
    newest.run_turn(&theirs, "t2", "/stream 5").await;
    client.caught_up().await;
    let about_it = |params: &&Value| params.to_string().contains("stream 5") || params.to_string().contains("\"t2\"");
    assert_eq!(
        client.view().actions().skip(seen).filter(about_it).count(),
        0,
        "nothing of it any more"
    );
    let uris = client.join(&uris.session).await;
    assert_eq!(client.state(&uris.chat)["turns"].as_array().map(Vec::len), Some(2));
    client.assert_converged("a channel that is joined again").await;
}

/// Comes back after a cut. Only versions from 0.9 on get a replay.
async fn come_back(client: &CompatClient) {
    let reconnected = client.reconnect().await;
    let reconnected = reconnected.unwrap_or_else(|error| panic!("{}: reconnect: {error:?}", client.name()));
    if !client.version.has_error_parts() {
        assert_eq!(
            reconnected["type"], "snapshot",
            "a group of actions may have been cut in half"
        );
    }
}

pub(crate) async fn reconnects(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let newest = stage.connect(Version::V1_0, "newest").await;
    let theirs = newest.join(&uris.session).await;

    client.cut().await;
    come_back(client).await;
    client.assert_converged("a cut in silence").await;

    // In the middle of a stream, after more and more of it.
    client.start_turn(&uris, "t1", "/stream 60 5 16").await;
    for deltas in [1, 5, 20] {
        client
            .until("some of the stream is there", |view| {
                let turn = &view.states[&uris.chat]["activeTurn"];
                answer_text(turn).len() >= deltas * 16 || turn.is_null()
            })
            .await;
        client.cut().await;
        come_back(client).await;
    }
    let turn = client.turn_end(&uris, "t1").await;
    assert_eq!(answer_text(&turn).len(), 960);
    client.assert_converged("cuts in a stream").await;

    // While a call waits; another client approves it meanwhile.
    client.start_turn(&uris, "t2", "/confirm").await;
    let call = newest.call_in(&theirs, "pending-confirmation").await;
    client.call_in(&uris, "pending-confirmation").await;
    client.cut().await;
    newest
        .about_call(&theirs, "t2", &call, "toolCallConfirmed", json!({ "approved": true }))
        .await;
    newest.turn_end(&theirs, "t2").await;
    come_back(client).await;
    client.turn_end(&uris, "t2").await;
    client.assert_converged("a cut while a call waits").await;

    // While a question is open; it is answered after the cut.
    client.start_turn(&uris, "t3", "/ask url").await;
    let request = client.question(&uris).await;
    client.cut().await;
    come_back(client).await;
    client.assert_converged("a cut while a question is open").await;
    let kind = client.version.of_chat("inputCompleted");
    let completed = json!({ "type": kind, "requestId": request["id"], "response": "accept" });
    client.dispatch(&uris.chat, completed).await;
    client.turn_end(&uris, "t3").await;

    // Many things happen while the client is away.
    client.cut().await;
    newest.run_turn(&theirs, "t4", "/error resumable").await;
    newest
        .dispatch(&theirs.chat, json!({ "type": "chat/turnResume", "turnId": "t4" }))
        .await;
    newest.at_rest(&theirs).await;
    newest
        .dispatch(&theirs.chat, json!({ "type": "chat/truncated", "turnId": "t2" }))
        .await;
    newest
        .dispatch(
            &theirs.session,
            json!({ "type": "session/titleChanged", "title": "Meanwhile" }),
        )
        .await;
    newest
        .dispatch(&theirs.chat, json!({ "type": "chat/isReadChanged", "isRead": true }))
        .await;
    newest.caught_up().await;
    come_back(client).await;
    assert_eq!(client.summary(&uris.session)["title"], "Meanwhile");
    client.assert_converged("an absence").await;
}

pub(crate) async fn survives_a_restart(stage: &mut Stage) {
    let uris = stage.session().await;
    stage.client.run_turn(&uris, "t1", "/stream 5").await;
    stage.client.start_turn(&uris, "t2", "/slow 30").await;
    stage
        .client
        .until("the turn runs", |view| {
            view.states[&uris.chat]["activeTurn"].is_object()
        })
        .await;
    stage.client.caught_up().await;
    stage.restart().await;
    stage.client.cut().await;
    come_back(&stage.client).await;
    let client = &stage.client;
    client.ready(&uris.session).await;
    client.at_rest(&uris).await;
    client.assert_converged("a restart").await;
    client.run_turn(&uris, "t3", "/stream 5").await;
    client.assert_converged("a turn after a restart").await;
}
