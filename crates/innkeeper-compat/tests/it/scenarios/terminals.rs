//! Terminals: each version opens one, types, shares it with a client of the newest version, and sees its end.

use innkeeper_compat::client::{CompatClient, View};
use innkeeper_compat::version::Version;
use innkeeper_compat::words::merge;
use serde_json::{Value, json};

use super::Stage;

/// Returns the output of a terminal.
fn text(view: &View, uri: &str) -> String {
    let state = view.states.get(uri);
    let content = state.and_then(|state| state["content"].as_array());
    let parts = content.into_iter().flatten();
    let texts = parts.filter_map(|part| part["value"].as_str().or_else(|| part["output"].as_str()));
    texts.collect()
}

async fn shows(client: &CompatClient, uri: &str, expected: &str) {
    client
        .until(&format!("{uri} shows {expected:?}"), |view| {
            text(view, uri).contains(expected)
        })
        .await;
}

/// Types into a terminal.
async fn types(client: &CompatClient, uri: &str, line: &str) -> i64 {
    let input = json!({ "type": "terminal/input", "data": format!("{line}\r") });
    client.dispatch(uri, input).await
}

/// Returns the entry of a terminal in the list of the root.
fn listed(view: &View, root: &str, uri: &str) -> Option<Value> {
    let terminals = view.states.get(root)?["terminals"].as_array()?;
    terminals.iter().find(|info| info["resource"] == uri).cloned()
}

/// Returns the exit code in a state or an entry of the list: since 0.9 it is part of the lifecycle.
fn exit_code(version: Version, state: &Value) -> Option<i64> {
    match version >= Version::V0_9 {
        true => state["lifecycle"]["exitCode"].as_i64(),
        false => state["exitCode"].as_i64(),
    }
}

pub(crate) async fn uses_a_terminal(stage: &mut Stage) {
    let (client, version) = (&stage.client, stage.version);
    let root = version.root();
    let uris = stage.session().await;
    let newest = stage.connect(Version::V1_0, "newest").await;
    let uri = "ahp-terminal:/of-this-version";
    let mut params = version.about("terminal", uri);
    let claim = json!({ "kind": "client", "clientId": client.id });
    merge(
        &mut params,
        json!({ "claim": claim, "name": "mine", "cols": 100, "rows": 30 }),
    );
    assert_eq!(client.request("createTerminal", params.clone()).await, Value::Null);
    client
        .until("it is listed", |view| listed(view, root, uri).is_some())
        .await;
    client.subscribe(uri).await;
    newest.subscribe(uri).await;
    let state = client.state(uri);
    assert_eq!((&state["title"], &state["cols"]), (&json!("mine"), &json!(100)));
    types(client, uri, "echo to''gether").await;
    for reader in [client, &newest] {
        shows(reader, uri, "together\r\n").await;
    }
    // The other client cannot type before the terminal is shared with the session.
    let refused = types(&newest, uri, "echo intr''uder").await;
    newest.rejection(refused).await;
    let mut claim = json!({ "kind": "session", "session": uris.session });
    if version >= Version::V0_9 {
        claim["chat"] = uris.chat.as_str().into();
    }
    client
        .dispatch(uri, json!({ "type": "terminal/claimed", "claim": claim }))
        .await;
    newest
        .until("it is shared", |view| {
            view.states[uri]["claim"]["kind"] == "session" && view.states[uri]["claim"]["chat"].is_string()
        })
        .await;
    types(&newest, uri, "echo sha''red").await;
    shows(client, uri, "shared\r\n").await;
    client.assert_converged("a shared terminal").await;
    for action in [
        json!({ "type": "terminal/resized", "cols": 90, "rows": 20 }),
        json!({ "type": "terminal/titleChanged", "title": "renamed" }),
        json!({ "type": "terminal/cleared" }),
    ] {
        client.dispatch(uri, action).await;
    }
    client.caught_up().await;
    client
        .until("the list has the title", |view| {
            listed(view, root, uri).is_some_and(|info| info["title"] == "renamed")
        })
        .await;
    // The reports of programs, whose sequences are not part of the text, and the end.
    types(client, uri, "printf '\\033]633;C\\007out\\033]633;D;4\\007'; cd /usr").await;
    client
        .until("a command is detected", |view| {
            let content = view.states[uri]["content"].as_array();
            let mut parts = content.into_iter().flatten();
            parts.any(|part| part["type"] == "command" && part["exitCode"] == 4 && part["output"] == "out")
        })
        .await;
    client.assert_converged("a command").await;
    types(client, uri, "echo the l''ast; exit 3").await;
    client
        .until("it has ended", |view| {
            let state = exit_code(version, &view.states[uri]) == Some(3);
            let info = listed(view, root, uri).and_then(|info| exit_code(version, &info));
            state && info == Some(3)
        })
        .await;
    assert!(text(&client.view(), uri).contains("the last\r\n"));
    client.assert_converged("the end of a terminal").await;
    newest.assert_converged("the end of a terminal").await;
    client.unsubscribe(uri).await;
    newest.unsubscribe(uri).await;
    let params = version.about("terminal", uri);
    assert_eq!(client.request("disposeTerminal", params.clone()).await, Value::Null);
    client
        .until("it is not listed", |view| listed(view, root, uri).is_none())
        .await;
    client.refused("disposeTerminal", params).await;
    client.assert_converged("the end of a list").await;
}

pub(crate) async fn watches_a_command(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let turn = client.run_turn(&uris, "t1", "/terminal").await;
    let calls = turn["responseParts"].as_array().into_iter().flatten();
    let mut contents = calls
        .filter_map(|part| part["toolCall"]["content"].as_array())
        .flatten();
    let terminal = contents.find(|content| content["type"] == "terminal");
    let uri = terminal.and_then(|terminal| terminal["resource"].as_str());
    let uri = uri.unwrap_or_else(|| panic!("{}: no terminal in {turn}", client.name()));
    client.subscribe(uri).await;
    assert_eq!(exit_code(stage.version, &client.state(uri)), Some(3));
    assert!(text(&client.view(), uri).contains("Room 3 is ready.\r\n"));
    client.assert_converged("the terminal of a command").await;
}
