//! Turns: text, tools, queues, failures, and the history.

use innkeeper_compat::client::CompatClient;
use innkeeper_compat::version::Version;
use innkeeper_compat::words::{Uris, answer_text, merge, tool_calls, turn_error, user_text};
use serde_json::{Value, json};

use super::Stage;

pub(crate) async fn talks(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let client_seq = client.start_turn(&uris, "t1", "/stream 20 2 16").await;
    let turn = client.turn_end(&uris, "t1").await;
    assert_eq!(answer_text(&turn).len(), 320);
    assert_eq!(
        (user_text(&turn), &turn["state"]),
        ("/stream 20 2 16", &json!("complete"))
    );
    client.assert_converged("a streamed answer").await;
    // The echo has the type that was dispatched, and no other action of the same number has an origin.
    let started = client.action(&client.version.of_chat("turnStarted")).await;
    assert_eq!(
        started["origin"],
        json!({ "clientId": client.id, "clientSeq": client_seq }),
        "an author finds its own action"
    );
    let same_number = |params: &&Value| params["serverSeq"] == started["serverSeq"] && params["origin"].is_object();
    assert_eq!(client.view().actions().filter(same_number).count(), 1);

    let turn = client.run_turn(&uris, "t2", "/reason because it is so").await;
    let parts = turn["responseParts"].as_array().expect("parts");
    assert!(parts.iter().any(|part| part["kind"] == "reasoning"), "{turn}");
    client.assert_converged("reasoning").await;
    let turn = client.run_turn(&uris, "t3", "/usage").await;
    assert!(turn["usage"]["outputTokens"].as_u64().is_some(), "{turn}");
    client.assert_converged("usage").await;
    let turn = client.run_turn(&uris, "t4", "Good evening").await;
    assert!(answer_text(&turn).contains("You wrote 2 words"), "{turn}");
    client.assert_converged("talk").await;
    let status = client.summary(&uris.session)["status"].as_u64().expect("a status");
    assert_eq!(status & 8, 0, "nothing runs");
}

pub(crate) async fn runs_a_tool(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let turn = client.run_turn(&uris, "t1", "/tool").await;
    let calls = tool_calls(&turn);
    assert_eq!((calls.len(), &calls[0]["status"]), (1, &json!("completed")), "{turn}");
    assert_eq!(calls[0]["toolName"], "look_around");
    assert!(
        calls[0]["content"][0]["text"]
            .as_str()
            .expect("text")
            .contains("two armchairs"),
        "{turn}"
    );
    client.assert_converged("a tool").await;
    client.run_turn(&uris, "t2", "/plan").await;
    client.assert_converged("a plan").await;
}

pub(crate) async fn attaches(stage: &mut Stage) {
    let client = &stage.client;
    let version = stage.version;
    let uris = stage.session().await;
    let attachments = match version.has_channels() {
        true => json!([
            { "type": "simple", "label": "note", "modelRepresentation": "remember the milk" },
            { "type": "embeddedResource", "label": "image", "data": "aGVsbG8h", "contentType": "image/png" },
            { "type": "resource", "label": "main", "uri": "file:///inn/main.rs" },
        ]),
        false => json!([{ "type": "file", "uri": "file:///inn/main.rs", "displayName": "main" }]),
    };
    let mut action = version.turn_started("t1", "/attachments");
    action[version.message_member()]["attachments"] = attachments.clone();
    client.dispatch(&uris.chat, action).await;
    let turn = client.turn_end(&uris, "t1").await;
    let said = answer_text(&turn);
    assert!(said.contains("“main”, which is at `file:///inn/main.rs`"), "{said}");
    let shown = &turn[version.message_member()]["attachments"];
    assert_eq!(
        shown.as_array().map(Vec::len),
        attachments.as_array().map(Vec::len),
        "{turn}"
    );
    if version.has_channels() {
        assert!(said.contains("“note”, text of 17 characters"), "{said}");
    } else {
        assert_eq!(shown, &attachments, "as the client wrote it");
    }
    client.assert_converged("attachments").await;
}

pub(crate) async fn reads_a_long_answer(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let turn = client.run_turn(&uris, "t1", "/long 8").await;
    let parts = turn["responseParts"].as_array().expect("parts");
    let reference = parts.iter().find(|part| part["kind"] == "contentRef");
    let reference = reference.unwrap_or_else(|| panic!("a reference is in {turn}"));
    let mut params = stage.version.connection_params();
    merge(&mut params, json!({ "uri": reference["uri"] }));
    let read = client.request("resourceRead", params).await;
    assert!(
        read["data"].as_str().is_some_and(|data| data.len() >= 8 << 10),
        "{read}"
    );
    client.assert_converged("a long answer").await;
}

pub(crate) async fn queues(stage: &mut Stage) {
    let client = &stage.client;
    let version = stage.version;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/confirm").await;
    let call = client.call_in(&uris, "pending-confirmation").await;
    for (id, text) in [("a", "/usage"), ("b", "one"), ("c", "two")] {
        client.dispatch(&uris.chat, version.pending("queued", id, text)).await;
    }
    client
        .dispatch(&uris.chat, version.pending("queued", "b", "edited"))
        .await;
    client.assert_converged("queued messages").await;
    let order = json!({ "type": version.of_chat("queuedMessagesReordered"), "order": ["c", "b", "a"] });
    client.dispatch(&uris.chat, order).await;
    client.assert_converged("a new order").await;
    let removed = json!({ "type": version.of_chat("pendingMessageRemoved"), "kind": "queued", "id": "a" });
    client.dispatch(&uris.chat, removed).await;
    client.assert_converged("one message less").await;
    let queue = client.state(&uris.chat)["queuedMessages"].clone();
    let ids: Vec<_> = queue
        .as_array()
        .expect("a queue")
        .iter()
        .map(|entry| &entry["id"])
        .collect();
    assert_eq!(ids, ["c", "b"]);
    assert_eq!(queue[1][version.message_member()]["text"], "edited");
    client
        .about_call(&uris, "t1", &call, "toolCallConfirmed", json!({ "approved": true }))
        .await;
    client
        .until("both queued messages have become turns", |view| {
            view.states[&uris.chat]["turns"]
                .as_array()
                .is_some_and(|turns| turns.len() == 3)
        })
        .await;
    client.at_rest(&uris).await;
    let turns = client.state(&uris.chat)["turns"].clone();
    assert_eq!((user_text(&turns[1]), user_text(&turns[2])), ("two", "edited"));
    client.assert_converged("queued turns").await;
}

pub(crate) async fn steers(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/steer 10").await;
    client
        .dispatch(&uris.chat, stage.version.pending("steering", "s1", "enough"))
        .await;
    let turn = client.turn_end(&uris, "t1").await;
    assert!(answer_text(&turn).contains("You said: enough"), "{turn}");
    client.assert_converged("steering").await;
}

pub(crate) async fn cancels(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/slow 30").await;
    client
        .until("the turn runs", |view| {
            view.states[&uris.chat]["activeTurn"].is_object()
        })
        .await;
    client.assert_converged("a running turn").await;
    client.dispatch(&uris.chat, stage.version.turn_cancelled("t1")).await;
    let turn = client.turn_end(&uris, "t1").await;
    assert_eq!(turn["state"], "cancelled");
    client.assert_converged("a cancelled turn").await;
    // The next turn is not affected.
    client.run_turn(&uris, "t2", "/stream 3").await;
    client.assert_converged("the next turn").await;
}

pub(crate) async fn fails(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    let turn = client.run_turn(&uris, "t1", "/error").await;
    assert_eq!(turn["state"], "error");
    let error = turn_error(stage.version, &turn);
    assert!(error["message"].is_string() && error["errorType"].is_string(), "{turn}");
    client.assert_converged("a failed turn").await;
    client.run_turn(&uris, "t2", "/stream 3").await;
    client.assert_converged("a turn after a failure").await;
}

pub(crate) async fn sees_a_resumed_turn(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.run_turn(&uris, "t0", "/stream 2").await;
    let failed = client.run_turn(&uris, "t1", "/error resumable").await;
    assert_eq!(failed["state"], "error");
    client.assert_converged("a failed turn").await;
    let resume = json!({ "type": "chat/turnResume", "turnId": "t1" });
    let newest = stage.connect(Version::V1_0, "newest").await;
    let theirs = newest.join(&uris.session).await;
    match stage.version.has_error_parts() {
        true => client.dispatch(&uris.chat, resume).await,
        false => newest.dispatch(&theirs.chat, resume).await,
    };
    client
        .until("the resumed turn ends well", |view| {
            let turns = &view.states[&uris.chat]["turns"];
            turns[1]["state"] == "complete" && turns[1]["id"] == "t1"
        })
        .await;
    if !stage.version.has_error_parts() {
        let turn = client.turn_end(&uris, "t1").await;
        assert_eq!(
            turn_error(stage.version, &turn),
            Value::Null,
            "it ended well in the end"
        );
    }
    client.assert_converged("a resumed turn").await;
}

/// A conversation of these turns.
async fn with_turns(client: &CompatClient, uris: &Uris, count: usize) {
    for number in 1..=count {
        let text = format!("/stream 1 0 {}", 4 + number);
        client.run_turn(uris, &format!("t{number}"), &text).await;
    }
}

fn ids(turns: &Value) -> Vec<&str> {
    let turns = turns.as_array().expect("turns").iter();
    turns.filter_map(|turn| turn["id"].as_str()).collect()
}

pub(crate) async fn truncates(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    with_turns(client, &uris, 3).await;
    let kind = stage.version.of_chat("truncated");
    client
        .dispatch(&uris.chat, json!({ "type": kind, "turnId": "t1" }))
        .await;
    client
        .until("one turn is left", |view| {
            ids(&view.states[&uris.chat]["turns"]) == ["t1"]
        })
        .await;
    client.assert_converged("truncation").await;
    client.dispatch(&uris.chat, json!({ "type": kind })).await;
    client
        .until("no turn is left", |view| {
            ids(&view.states[&uris.chat]["turns"]).is_empty()
        })
        .await;
    client.assert_converged("truncation of everything").await;
    client.run_turn(&uris, "t4", "/stream 1").await;
    client.assert_converged("a turn after it").await;
}

pub(crate) async fn forks_a_session(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    with_turns(client, &uris, 3).await;
    let fork = json!({ "fork": { "session": uris.session, "turnId": "t2" } });
    let forked = client.create_session("forked", fork).await;
    let turns = client.state(&forked.chat)["turns"].clone();
    let original = client.state(&uris.chat)["turns"].clone();
    assert_eq!(turns.as_array().map(Vec::len), Some(2), "up to t2: {turns}");
    for number in 0..2 {
        assert_eq!(answer_text(&turns[number]), answer_text(&original[number]));
        assert_eq!(user_text(&turns[number]), user_text(&original[number]));
    }
    client.run_turn(&forked, "f1", "/stream 2").await;
    assert_eq!(
        ids(&client.state(&uris.chat)["turns"]),
        ["t1", "t2", "t3"],
        "the original"
    );
    client.assert_converged("a fork").await;
    let mut params = stage.version.about("session", "ahp-session:/forked-badly");
    merge(
        &mut params,
        json!({ "fork": { "session": uris.session, "turnId": "none" } }),
    );
    let refusal = client.refused("createSession", params).await;
    assert_eq!(refusal.code, -32602, "{refusal:?}");
}

pub(crate) async fn forks_a_chat(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    with_turns(client, &uris, 3).await;
    let chat = "ahp-chat:/forked-chat".to_owned();
    let mut source = json!({ "chat": uris.chat, "turnId": "t2" });
    if stage.version.has_directories() {
        source["kind"] = "fork".into();
    }
    let params = json!({ "channel": uris.session, "chat": chat, "source": source });
    assert_eq!(client.request("createChat", params).await, Value::Null);
    client
        .until("the catalogue has both chats", |view| {
            view.states[&uris.session]["chats"]
                .as_array()
                .is_some_and(|chats| chats.len() == 2)
        })
        .await;
    client.subscribe(&chat).await;
    let forked = Uris {
        session: uris.session.clone(),
        chat: chat.clone(),
    };
    assert_eq!(client.state(&chat)["turns"].as_array().map(Vec::len), Some(2));
    client.run_turn(&forked, "f1", "/stream 2").await;
    client.assert_converged("another chat").await;
    client.unsubscribe(&chat).await;
    assert_eq!(
        client.request("disposeChat", json!({ "channel": chat })).await,
        Value::Null
    );
    client
        .until("one chat is left", |view| {
            view.states[&uris.session]["chats"]
                .as_array()
                .is_some_and(|chats| chats.len() == 1)
        })
        .await;
    client.assert_converged("a chat less").await;
}

pub(crate) async fn fetches_turns_before(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    with_turns(client, &uris, 5).await;
    let fetch = async |more: Value| {
        let mut params = stage.version.about("session", &uris.chat);
        merge(&mut params, more);
        client.request("fetchTurns", params).await
    };
    let page = fetch(json!({ "limit": 2 })).await;
    assert_eq!(
        (ids(&page["turns"]), &page["hasMore"]),
        (vec!["t4", "t5"], &json!(true))
    );
    let page = fetch(json!({ "before": "t4", "limit": 2 })).await;
    assert_eq!(
        (ids(&page["turns"]), &page["hasMore"]),
        (vec!["t2", "t3"], &json!(true))
    );
    let page = fetch(json!({ "before": "t2", "limit": 2 })).await;
    assert_eq!((ids(&page["turns"]), &page["hasMore"]), (vec!["t1"], &json!(false)));
    let folded = client.state(&uris.chat)["turns"][0].clone();
    for (member, value) in folded.as_object().expect("a turn") {
        assert_eq!(&page["turns"][0][member], value, "{member} as in the state");
    }
    let page = fetch(json!({})).await;
    assert_eq!(ids(&page["turns"]), ["t1", "t2", "t3", "t4", "t5"]);
    client.assert_converged("pages").await;
}

pub(crate) async fn fetches_turns_by_cursor(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    with_turns(client, &uris, 5).await;
    let reader = stage.connect(stage.version, "reader").await;
    let view = json!({ "channel": uris.chat, "view": { "turns": 2 } });
    reader.subscribe_with(&uris.chat, view).await;
    let mut pages = 0;
    while let Some(cursor) = reader.state(&uris.chat)["turnsNextCursor"].as_str().map(str::to_owned) {
        assert_eq!(
            ids(&reader.state(&uris.chat)["turns"])[0],
            if pages == 0 { "t4" } else { "t2" }
        );
        let params = json!({ "channel": uris.chat, "cursor": cursor });
        assert_eq!(reader.request("fetchTurns", params).await, json!({}));
        reader
            .until("the page is there", |view| {
                view.states[&uris.chat]["turnsNextCursor"] != cursor.as_str()
            })
            .await;
        pages += 1;
        assert!(pages < 5);
    }
    assert_eq!(ids(&reader.state(&uris.chat)["turns"]), ["t1", "t2", "t3", "t4", "t5"]);
    reader.assert_converged("all pages").await;
}

pub(crate) async fn follows_a_subagent(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/subagent").await;
    let subagent = client
        .find("the call shows the subagent's conversation", |view| {
            let parts = view.states[&uris.chat]["activeTurn"]["responseParts"]
                .as_array()?
                .clone();
            let contents = parts.iter().filter_map(|part| part["toolCall"]["content"].as_array());
            let mut contents = contents.flatten();
            let subagent = contents.find(|content| content["type"] == "subagent")?;
            subagent["resource"].as_str().map(str::to_owned)
        })
        .await;
    client.subscribe(&subagent).await;
    let theirs = Uris {
        session: uris.session.clone(),
        chat: subagent.clone(),
    };
    let call = client.call_in(&theirs, "pending-confirmation").await;
    client.assert_converged("a subagent that asks").await;
    let turn = client.state(&subagent)["activeTurn"]["id"]
        .as_str()
        .expect("a turn")
        .to_owned();
    client
        .about_call(&theirs, &turn, &call, "toolCallConfirmed", json!({ "approved": true }))
        .await;
    let ended = client.turn_end(&uris, "t1").await;
    assert_eq!(ended["state"], "complete", "{ended}");
    client.assert_converged("a subagent that is done").await;
}
