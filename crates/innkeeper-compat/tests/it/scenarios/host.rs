//! The host and its sessions: the handshake, the root, lists, settings, customizations, errors.

use innkeeper_compat::client::{Failure, View};
use innkeeper_compat::version::Version;
use innkeeper_compat::words::merge;
use serde_json::{Value, json};

use super::Stage;

/// The first frame of the published client, byte for byte.
fn first_frame(version: Version, client_id: &str) -> String {
    if !version.has_channels() {
        return format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":1,"clientId":"{client_id}","initialSubscriptions":["{}"]}}}}"#,
            version.root()
        );
    }
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"channel":"ahp-root://","protocolVersions":["{}"],"clientId":"{client_id}","initialSubscriptions":["ahp-root://"]}}}}"#,
        version.number()
    )
}

pub(crate) async fn greets(stage: &mut Stage) {
    let client = &stage.client;
    let sent = client.view().sent[0].clone();
    assert_eq!(sent, first_frame(stage.version, &client.id));
    let answer = client.view().received[0].clone();
    assert_eq!(answer["id"], 1);
    assert_eq!(
        answer["result"]["protocolVersion"],
        stage.version.confirmed(),
        "as offered"
    );
    assert_eq!(answer["result"]["snapshots"][0]["resource"], stage.version.root());
    client.assert_converged("the handshake").await;
}

pub(crate) async fn sees_the_root(stage: &mut Stage) {
    let client = &stage.client;
    let root = stage.version.root();
    let state = client.state(root);
    let agents = state["agents"].as_array().expect("agents");
    assert!(agents.iter().any(|agent| agent["provider"] == "tour"), "{state}");
    for minutes in [90, 60] {
        let change = json!({ "type": "root/configChanged", "config": { "silenceLimitMinutes": minutes } });
        client.dispatch(root, change).await;
        client
            .until("the setting is changed", |view| {
                view.states[root]["config"]["values"]["silenceLimitMinutes"] == minutes
            })
            .await;
        client.assert_converged("a setting of the host").await;
    }
    // The root is subscribed to again by name.
    client.subscribe(root).await;
    client.assert_converged("the root").await;
}

/// The announcements of this kind, in the words of this version.
fn announced(version: Version, view: &View, name: &str) -> Vec<Value> {
    if version.has_channels() {
        let announced = view.notifications(&format!("root/{name}"));
        return announced.into_iter().cloned().collect();
    }
    let all = view.notifications("notification").into_iter();
    let notifications = all.map(|params| params["notification"].clone());
    notifications
        .filter(|notification| notification["type"] == format!("notify/{name}"))
        .collect()
}

fn assert_summary(version: Version, summary: &Value) {
    for time in ["createdAt", "modifiedAt"] {
        match version.has_active_clients() {
            true => assert!(summary[time].is_string(), "{time} of {summary}"),
            false => assert!(
                summary[time].as_u64().is_some_and(|ms| ms > 1_700_000_000_000),
                "{time} of {summary}"
            ),
        }
    }
    assert!(summary["provider"].is_string() && summary["title"].is_string() && summary["status"].is_u64());
}

pub(crate) async fn lists(stage: &mut Stage) {
    let client = &stage.client;
    let version = stage.version;
    let uris = stage.session().await;
    let witness = stage.connect(version, "witness").await;
    client.run_turn(&uris, "t1", "/stream 2").await;
    let listed = client.list_sessions().await;
    let summary = listed
        .iter()
        .find(|summary| summary["resource"] == uris.session.as_str());
    assert_summary(version, summary.expect("it is listed"));
    let is_ours = |summary: &Value| summary["resource"] == uris.session.as_str();
    client
        .until("the session is announced", |view| {
            announced(version, view, "sessionAdded")
                .iter()
                .any(|params| is_ours(&params["summary"]))
        })
        .await;
    let added = announced(version, &client.view(), "sessionAdded");
    let added = added
        .iter()
        .find(|params| is_ours(&params["summary"]))
        .expect("just seen");
    assert_summary(version, &added["summary"]);
    assert_eq!(added.get("channel").is_some(), version.has_channels(), "{added}");
    client
        .dispatch(
            &uris.session,
            json!({ "type": "session/titleChanged", "title": "A new name" }),
        )
        .await;
    witness
        .until("the new name is announced", |view| {
            let changed = announced(version, view, "sessionSummaryChanged");
            changed
                .iter()
                .any(|params| params["session"] == uris.session.as_str() && params["changes"]["title"] == "A new name")
        })
        .await;
    witness.assert_converged("announcements").await;
}

pub(crate) async fn pages_the_list(stage: &mut Stage) {
    let client = &stage.client;
    for number in 0..3 {
        let uris = client.create_session(&format!("paged-{number}"), json!({})).await;
        client.run_turn(&uris, "t", "/stream 1").await;
    }
    let all = client.list_sessions().await.len();
    let (mut seen, mut cursor) = (0, Value::Null);
    loop {
        let mut params = json!({ "channel": "ahp-root://", "limit": 2 });
        if cursor.is_string() {
            params["cursor"] = cursor;
        }
        let page = client.request("listSessions", params).await;
        seen += page["items"].as_array().expect("items").len();
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, all);
}

pub(crate) async fn renames_reads_and_archives(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let session = &uris.session;
    client
        .dispatch(session, json!({ "type": "session/titleChanged", "title": "Lamps" }))
        .await;
    client.assert_converged("a new title").await;
    assert_eq!(client.summary(session)["title"], "Lamps");
    let status = || client.summary(session)["status"].as_u64().unwrap_or_default();
    for (member, bit) in [("isRead", 32), ("isArchived", 64)] {
        for flag in [true, false, true] {
            let mut action = json!({ "type": format!("session/{member}Changed") });
            action[member] = flag.into();
            client.dispatch(session, action).await;
            client.caught_up().await;
            assert_eq!(status() & bit != 0, flag, "{member}");
            client.assert_converged(member).await;
        }
    }
    client
        .dispatch(
            session,
            json!({ "type": "session/isArchivedChanged", "isArchived": false }),
        )
        .await;
    // A turn that the reader starts, and one that another client starts.
    client.run_turn(&uris, "t1", "/stream 2").await;
    client.assert_converged("a turn in a session that is read").await;
    let newest = stage.connect(Version::V1_0, "newest").await;
    let theirs = newest.join(session).await;
    newest.run_turn(&theirs, "t2", "/stream 2").await;
    client.turn_end(&uris, "t2").await;
    client.assert_converged("a turn of another client").await;
}

pub(crate) async fn configures(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session_with(json!({ "config": { "mood": "grumpy" } })).await;
    let values = || client.state(&uris.session)["config"]["values"].clone();
    assert_eq!(values()["mood"], "grumpy");
    let change = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    client.dispatch(&uris.session, change).await;
    client.caught_up().await;
    assert_eq!(
        (&values()["autoApprove"], &values()["mood"]),
        (&json!("autoApprove"), &json!("grumpy"))
    );
    client.assert_converged("a setting").await;
    let turn = client.run_turn(&uris, "t1", "/confirm").await;
    assert_eq!(turn["state"], "complete", "nothing was asked");
    client.assert_converged("a tool that is approved by a setting").await;
    let bad = json!({ "type": "session/configChanged", "config": { "mood": "sleepy" } });
    let rejection = client.rejected(&uris.session, bad).await;
    assert!(
        rejection["rejectionReason"]
            .as_str()
            .expect("a reason")
            .contains("mood"),
        "{rejection}"
    );
    let mut params = stage.version.connection_params();
    merge(&mut params, json!({ "provider": "tour", "config": {} }));
    let resolved = client.request("resolveSessionConfig", params.clone()).await;
    assert_eq!(resolved["values"]["mood"], "cheerful");
    merge(&mut params, json!({ "property": "topic", "query": "ri" }));
    let found = client.request("sessionConfigCompletions", params).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(2), "{found}");
}

pub(crate) async fn chooses_a_model(stage: &mut Stage) {
    let client = &stage.client;
    let choose = |id: &str| json!({ "type": "session/modelChanged", "model": { "id": id } });
    let created = client
        .create_session("created-with-a-model", json!({ "model": { "id": "tour" } }))
        .await;
    assert_eq!(
        client.summary(&created.session)["model"]["id"],
        "tour",
        "as it was created"
    );
    // The agent of a session is newer than its model.
    if stage.version.has_channels() {
        let both = json!({ "model": { "id": "tour" }, "agent": { "uri": "file:///agents/cook.md" } });
        let created = client.create_session("created-with-both", both).await;
        let summary = client.summary(&created.session);
        assert_eq!(summary["model"]["id"], "tour", "{summary}");
        assert_eq!(summary["agent"]["uri"], "file:///agents/cook.md", "{summary}");
        client.assert_converged("a session with a model and an agent").await;
    }
    let uris = stage.session().await;
    let witness = stage.connect(stage.version, "witness").await;
    witness.join(&uris.session).await;
    let rejection = client.rejected(&uris.session, choose("unknown")).await;
    assert_eq!(rejection["action"]["type"], "session/modelChanged", "{rejection}");
    // While a turn runs, a choice counts for the next one.
    client.start_turn(&uris, "t1", "/confirm").await;
    let call = client.call_in(&uris, "pending-confirmation").await;
    let client_seq = client.dispatch(&uris.session, choose("tour")).await;
    client.caught_up().await;
    assert_eq!(client.summary(&uris.session)["model"], Value::Null, "deferred");
    let decision = json!({ "approved": true });
    client
        .about_call(&uris, "t1", &call, "toolCallConfirmed", decision)
        .await;
    client.turn_end(&uris, "t1").await;
    for who in [client, &witness] {
        who.until("the model is shown", |view| {
            view.states[&uris.session]["summary"]["model"]["id"] == "tour"
        })
        .await;
        who.assert_converged("a model").await;
    }
    // The list has it, and other clients hear of it: with the session, or as a change of it.
    let listed = client.list_sessions().await;
    let is_ours = |summary: &Value| summary["resource"] == uris.session.as_str();
    let listed = listed.iter().find(|summary| is_ours(summary));
    assert_eq!(listed.expect("it is listed")["model"]["id"], "tour");
    witness
        .until("the model is announced", |view| {
            let has_model = |summary: &Value| summary["model"]["id"] == "tour";
            let added = announced(stage.version, view, "sessionAdded");
            let changed = announced(stage.version, view, "sessionSummaryChanged");
            let mut added = added.iter().map(|params| &params["summary"]);
            let mut changed = changed
                .iter()
                .filter(|params| params["session"] == uris.session.as_str());
            added.any(|summary| is_ours(summary) && has_model(summary))
                || changed.any(|params| has_model(&params["changes"]))
        })
        .await;
    let is_echo = |params: &&Value| {
        params["action"]["type"] == "session/modelChanged" && params.get("rejectionReason").is_none_or(Value::is_null)
    };
    let echo = client.view().actions().find(is_echo).cloned().expect("an echo");
    assert_eq!(echo["origin"]["clientSeq"], client_seq, "{echo}");
    // The same choice once more changes nothing, and is echoed.
    let client_seq = client.dispatch(&uris.session, choose("tour")).await;
    client
        .until("it is echoed", |view| {
            view.actions()
                .any(|params| is_echo(&params) && params["origin"]["clientSeq"] == client_seq)
        })
        .await;
    client.run_turn(&uris, "t2", "/stream 1").await;
    client.assert_converged("a turn with a model").await;
    if stage.version.has_channels() {
        let agent = json!({ "type": "session/agentChanged", "agent": { "uri": "file:///agents/cook.md" } });
        client.dispatch(&uris.session, agent).await;
        client
            .until("the agent is shown", |view| {
                view.states[&uris.session]["summary"]["agent"]["uri"] == "file:///agents/cook.md"
            })
            .await;
        client.assert_converged("an agent").await;
        client
            .dispatch(&uris.session, json!({ "type": "session/agentChanged" }))
            .await;
        client
            .until("no agent is shown", |view| {
                view.states[&uris.session]["summary"]["agent"].is_null()
            })
            .await;
        client.assert_converged("no agent").await;
    }
}

pub(crate) async fn works_in_a_directory(stage: &mut Stage) {
    let client = &stage.client;
    let folder = tempfile::tempdir().expect("a directory");
    let uri = format!("file://{}", folder.path().canonicalize().expect("there").display());
    let uris = stage.session_with(directory_param(stage.version, &uri)).await;
    let summary = client.summary(&uris.session);
    match stage.version.has_directories() {
        true => assert_eq!(summary["workingDirectories"], json!([uri])),
        false => assert_eq!(summary["workingDirectory"], json!(uri)),
    }
    client.assert_converged("a directory").await;
    if stage.version.has_directories() {
        let other = tempfile::tempdir().expect("a directory");
        let other = format!("file://{}", other.path().canonicalize().expect("there").display());
        let set = json!({ "type": "session/workingDirectorySet", "directory": other });
        client.dispatch(&uris.session, set).await;
        client.assert_converged("a second directory").await;
        let removed = json!({ "type": "session/workingDirectoryRemoved", "directory": other });
        client.dispatch(&uris.session, removed).await;
        client.assert_converged("one directory").await;
    }
}

/// The param of `createSession` that names a directory.
pub(super) fn directory_param(version: Version, uri: &str) -> Value {
    match version.has_directories() {
        true => json!({ "workingDirectories": [uri] }),
        false => json!({ "workingDirectory": uri }),
    }
}

pub(crate) async fn toggles_customizations(stage: &mut Stage) {
    let client = &stage.client;
    let version = stage.version;
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().canonicalize().expect("there");
    for name in ["one", "two"] {
        let skill = root.join(format!(".claude/skills/{name}"));
        std::fs::create_dir_all(&skill).expect("created");
        let text = format!("---\nname: {name}\ndescription: Does it.\n---\nDo it.\n");
        std::fs::write(skill.join("SKILL.md"), text).expect("written");
    }
    let uri = format!("file://{}", root.display());
    let uris = stage.session_with(directory_param(version, &uri)).await;
    let session = &uris.session;
    let find = |state: &Value| -> Option<Value> {
        let entries = state["customizations"].as_array()?.iter();
        let mut skills = entries.filter(|entry| entry.to_string().contains(".claude/skills"));
        skills.next().cloned()
    };
    let entry = client
        .find("the skills are found", |view| {
            find(&view.states[session]).filter(|entry| !entry.to_string().contains("\"loading\""))
        })
        .await;
    client.assert_converged("customizations").await;
    for enabled in [false, true] {
        let action = if version.has_enablement() {
            let enablement = [json!({ "kind": "session", "enabled": enabled })];
            json!({ "type": "session/customizationToggled", "id": entry["id"], "enablement": enablement })
        } else if version.has_channels() {
            json!({ "type": "session/customizationToggled", "id": entry["id"], "enabled": enabled })
        } else {
            let uri = &entry["customization"]["uri"];
            json!({ "type": "session/customizationToggled", "uri": uri, "enabled": enabled })
        };
        client.dispatch(session, action).await;
        client
            .until("the switch is shown", |view| {
                find(&view.states[session]).is_some_and(|entry| is_enabled(&entry) == enabled)
            })
            .await;
        client.assert_converged("a switched customization").await;
    }
}

/// Whether a customization is on, in any version: a list of scopes, or one flag.
fn is_enabled(entry: &Value) -> bool {
    match entry["enablement"].as_array() {
        Some(scopes) => scopes.first().is_none_or(|scope| scope["enabled"] == true),
        None => entry["enabled"] != false,
    }
}

pub(crate) async fn disposes(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.run_turn(&uris, "t1", "/stream 1").await;
    let witness = stage.connect(stage.version, "witness").await;
    client.unsubscribe(&uris.session).await;
    if uris.chat != uris.session {
        client.unsubscribe(&uris.chat).await;
    }
    assert_eq!(client.dispose(&uris.session).await, Ok(Value::Null));
    witness
        .until("the end is announced", |view| {
            let removed = announced(stage.version, view, "sessionRemoved");
            removed.iter().any(|params| params["session"] == uris.session.as_str())
        })
        .await;
    match client.try_subscribe(&uris.session).await {
        Err(Failure::Refused(refusal)) => assert_eq!(refusal.code, -32001, "{refusal:?}"),
        other => panic!("a session that is gone: {other:?}"),
    }
    let listed = client.list_sessions().await;
    assert!(
        listed
            .iter()
            .all(|summary| summary["resource"] != uris.session.as_str())
    );
    client.assert_converged("a disposed session").await;
}

pub(crate) async fn is_refused(stage: &mut Stage) {
    let client = &stage.client;
    let version = stage.version;
    let uris = stage.session().await;
    let unknown = client.refused("no/suchMethod", version.connection_params()).await;
    assert_eq!(unknown.code, -32601);
    let missing = version.about("session", "ahp-session:/missing");
    for method in ["disposeSession", "fetchTurns"] {
        assert_eq!(client.refused(method, missing.clone()).await.code, -32001, "{method}");
    }
    let twice = client
        .refused("createSession", version.about("session", &uris.session))
        .await;
    assert_eq!(twice.code, -32003, "{twice:?}");
    let mut stranger = version.about("session", "ahp-session:/stranger");
    merge(&mut stranger, json!({ "provider": "unknown" }));
    assert_eq!(client.refused("createSession", stranger).await.code, -32002);
    assert_eq!(
        client.refused("createSession", json!({ "provider": 3 })).await.code,
        -32602
    );

    // A rejected action comes back as it was sent, on the channel it was sent to, with its number and a reason.
    let mut action = version.turn_cancelled("no-such-turn");
    let client_seq = client.dispatch(&uris.chat, action.clone()).await;
    let rejection = client.rejection(client_seq).await;
    if version.has_channels() {
        assert_eq!(rejection["channel"], uris.chat.as_str());
    } else {
        action["session"] = uris.session.as_str().into();
        assert!(rejection.get("channel").is_none());
    }
    assert_eq!(rejection["action"], action, "verbatim");
    assert!(
        rejection["rejectionReason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty())
    );
    // An action of the host is not a client's to dispatch.
    let mut host_action = json!({ "type": version.of_chat("turnComplete"), "turnId": "t1" });
    if version.has_times() {
        host_action["duration"] = 0.into();
    }
    let rejection = client.rejected(&uris.chat, host_action.clone()).await;
    assert_eq!(rejection["action"]["type"], host_action["type"]);
    client.assert_converged("refusals").await;
}

pub(crate) async fn names_its_session(stage: &mut Stage) {
    let client = &stage.client;
    // As VS Code and the clients of 0.1 name them.
    let session = "tour:/5f1b6e0a-3c39-4c1e-9a51-0c9d8e7f6a5b";
    let created = client
        .request("createSession", stage.version.about("session", session))
        .await;
    assert_eq!(created, Value::Null);
    let uris = client.join(session).await;
    client.ready(session).await;
    client.run_turn(&uris, "t1", "/stream 3").await;
    client.assert_converged("a session with another scheme").await;
}

pub(crate) async fn uses_files(stage: &mut Stage) {
    let client = &stage.client;
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().canonicalize().expect("there");
    std::fs::write(root.join("notes.md"), "hello\n").expect("written");
    let uri = format!("file://{}", root.display());
    stage.session_with(directory_param(stage.version, &uri)).await;
    let params = |more: Value| {
        let mut params = stage.version.connection_params();
        merge(&mut params, more);
        params
    };
    let listed = client.request("resourceList", params(json!({ "uri": uri }))).await;
    assert_eq!(listed["entries"][0]["name"], "notes.md", "{listed}");
    let file = format!("{uri}/notes.md");
    let read = client.request("resourceRead", params(json!({ "uri": file }))).await;
    assert_eq!(read["data"], "hello\n");
    let written = json!({ "uri": format!("{uri}/new.txt"), "data": "new", "encoding": "utf-8" });
    client.request("resourceWrite", params(written)).await;
    assert_eq!(std::fs::read_to_string(root.join("new.txt")).expect("written"), "new");
    let outside = client
        .refused("resourceRead", params(json!({ "uri": "file:///etc/shadow" })))
        .await;
    assert!([-32008, -32009].contains(&outside.code), "{outside:?}");
}

pub(crate) async fn completes(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let params = json!({ "channel": uris.chat, "kind": "userMessage", "text": "/stre", "offset": 5 });
    let found = client.request("completions", params).await;
    let items = found["items"].as_array().expect("items");
    let is_stream = |item: &Value| {
        item["insertText"]
            .as_str()
            .is_some_and(|text| text.starts_with("/stream"))
    };
    assert!(items.iter().any(is_stream), "{found}");
}
