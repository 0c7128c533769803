//! Whole messages down and up the ladder.

use serde_json::json;

use super::*;
use crate::state;

fn message(channel: &str, action: Value, origin: Option<(&str, i64)>) -> Vec<u8> {
    let mut params = json!({ "channel": channel, "action": action, "serverSeq": 7 });
    if let Some((client_id, client_seq)) = origin {
        params["origin"] = json!({ "clientId": client_id, "clientSeq": client_seq });
    }
    json!({ "jsonrpc": "2.0", "method": "action", "params": params })
        .to_string()
        .into_bytes()
}

fn down(translator: &mut Translator, channel: &str, action: Value, origin: Option<(&str, i64)>) -> Vec<Value> {
    let messages = translator.down_action(&message(channel, action, origin), None);
    let params = |message: &Vec<u8>| serde_json::from_slice::<Value>(message).unwrap()["params"].take();
    messages.iter().map(params).collect()
}

fn dispatch(translator: &mut Translator, channel: &str, client_seq: i64, action: Value) -> Up {
    let params = json!({ "channel": channel, "clientSeq": client_seq, "action": action });
    translator.up_notification("dispatchAction", params, 0)
}

fn text(translator: &mut Translator, text: Value) -> Option<Value> {
    let shown = translator.down_text(text.to_string().as_bytes())?;
    Some(serde_json::from_slice(&shown).unwrap())
}

fn shown_as_session(version: Version, is_read: bool) -> Translator {
    let mut translator = Translator::new(version, "me");
    translator.shows_chat_as("chat:1", "session:1", is_read);
    translator
}

#[test]
fn a_turn_of_0_2_goes_up_and_comes_back_in_its_own_words() {
    let mut translator = shown_as_session(Version::V0_2, false);
    let own = json!({ "type": "session/turnStarted", "turnId": "t", "userMessage": { "text": "hi" } });
    let up = dispatch(&mut translator, "session:1", 4, own.clone());
    let message = json!({ "text": "hi", "origin": { "kind": "user" } });
    let action = json!({ "type": "chat/turnStarted", "turnId": "t", "startedAt": "1970-01-01T00:00:00.000Z",
        "message": message });
    let params = json!({ "channel": "chat:1", "clientSeq": 4, "action": action });
    let method = "dispatchAction".to_owned();
    assert_eq!(up, Up::Forward { method, params });

    let echo = down(&mut translator, "chat:1", action, Some(("me", 4)));
    let origin = json!({ "clientId": "me", "clientSeq": 4 });
    let expected = json!({ "type": "session/turnStarted", "turnId": "t", "startedAt": "1970-01-01T00:00:00.000Z",
        "userMessage": { "text": "hi" } });
    let envelope = json!({ "channel": "session:1", "action": expected, "serverSeq": 7, "origin": origin });
    assert_eq!(echo[0].to_string(), envelope.to_string());
}

#[test]
fn the_actions_of_a_group_share_the_number_and_only_one_has_an_author() {
    let mut translator = shown_as_session(Version::V0_3, true);
    let own = json!({ "type": "session/turnStarted", "turnId": "t", "message": { "text": "hi" } });
    dispatch(&mut translator, "session:1", 1, own);
    let action = json!({ "type": "chat/turnStarted", "turnId": "t", "message": { "text": "hi" } });
    let group = down(&mut translator, "chat:1", action, Some(("me", 1)));
    assert_eq!(group.len(), 2);
    assert_eq!(group[1]["action"]["type"], "session/isReadChanged");
    assert!(group.iter().all(|envelope| envelope["serverSeq"] == 7));
    assert!(group[0].get("origin").is_some() && group[1].get("origin").is_none());
}

#[test]
fn an_own_action_that_changes_nothing_visible_comes_back_verbatim() {
    let mut translator = Translator::new(Version::V0_4, "me");
    let own = json!({ "type": "session/activeClientChanged", "activeClient": null, "x": 1 });
    dispatch(&mut translator, "session:1", 9, own.clone());
    let removed = json!({ "type": "session/activeClientRemoved", "clientId": "me" });
    let bytes = message("session:1", removed.clone(), Some(("me", 9)));
    // Another client is shown before and after.
    let before = json!({ "activeClients": [{ "clientId": "other" }] });
    let echo = translator.down_action(&bytes, Some(&before));
    let echo: Value = serde_json::from_slice(&echo[0]).unwrap();
    assert_eq!(echo["params"]["action"], own);
    assert_eq!(echo["params"]["origin"]["clientSeq"], 9);
    assert!(
        translator.down_action(&bytes, Some(&before)).is_empty(),
        "the dispatch is over"
    );
}

#[test]
fn actions_of_others_that_change_nothing_visible_are_not_sent() {
    let mut translator = Translator::new(Version::V0_8, "me");
    let read = json!({ "type": "chat/isReadChanged", "isRead": true });
    assert!(down(&mut translator, "chat:1", read, Some(("other", 1))).is_empty());
}

#[test]
fn a_rejection_has_the_clients_own_action_and_channel() {
    let mut translator = shown_as_session(Version::V0_2, false);
    let own = json!({ "type": "session/turnStarted", "turnId": "t", "userMessage": { "text": "hi" } });
    dispatch(&mut translator, "session:1", 4, own.clone());
    let rejection = json!({ "jsonrpc": "2.0", "method": "action", "params": {
        "channel": "chat:1", "action": { "type": "chat/turnStarted" }, "serverSeq": 8,
        "origin": { "clientId": "me", "clientSeq": 4 }, "rejectionReason": "a turn is running" } });
    let expected = json!({ "jsonrpc": "2.0", "method": "action", "params": {
        "channel": "session:1", "action": own, "serverSeq": 8,
        "origin": { "clientId": "me", "clientSeq": 4 }, "rejectionReason": "a turn is running" } });
    assert_eq!(
        text(&mut translator, rejection).unwrap().to_string(),
        expected.to_string()
    );
}

#[test]
fn a_dispatch_that_cannot_be_done_is_rejected_with_a_reason() {
    let mut translator = Translator::new(Version::V0_3, "me");
    let tools = json!({ "type": "session/activeClientToolsChanged", "tools": [] });
    let up = dispatch(&mut translator, "session:1", 3, tools.clone());
    let Up::Reject {
        channel,
        client_seq,
        action,
        reason,
    } = up
    else {
        panic!("{up:?}");
    };
    assert_eq!((channel.as_str(), client_seq, action), ("session:1", 3, tools));
    assert!(reason.contains("not active"), "{reason}");
}

#[test]
fn changed_tools_complete_the_entry_that_the_client_has() {
    let mut translator = Translator::new(Version::V0_2, "me");
    let plugin = json!({ "id": "p", "uri": "file:p", "name": "p", "enabled": true });
    let client = json!({ "clientId": "me", "tools": [], "customizations": [plugin],
        "systemMessageTransform": { "sections": ["tone"] } });
    let active = json!({ "type": "session/activeClientChanged", "activeClient": client });
    dispatch(&mut translator, "session:1", 1, active);
    let tools = json!({ "type": "session/activeClientToolsChanged", "tools": [{ "name": "t" }] });
    let Up::Forward { params, .. } = dispatch(&mut translator, "session:1", 2, tools) else {
        panic!("not forwarded");
    };
    let plugin = json!({ "id": "p", "uri": "file:p", "name": "p", "type": "plugin" });
    let client = json!({ "clientId": "me", "tools": [{ "name": "t" }], "customizations": [plugin],
        "systemMessageTransform": { "sections": ["tone"] } });
    assert_eq!(
        params["action"],
        json!({ "type": "session/activeClientSet", "activeClient": client })
    );
}

#[test]
fn changed_tools_complete_the_entry_of_a_snapshot_after_a_reconnect() {
    let mut translator = Translator::new(Version::V0_4, "me");
    let state = json!({ "activeClients": [{ "clientId": "me", "displayName": "Me", "tools": [] }] });
    translator.shows_session("session:1", state.as_object().unwrap());
    let tools = json!({ "type": "session/activeClientToolsChanged", "tools": [1] });
    let Up::Forward { params, .. } = dispatch(&mut translator, "session:1", 2, tools) else {
        panic!("not forwarded");
    };
    let client = json!({ "clientId": "me", "displayName": "Me", "tools": [1] });
    assert_eq!(params["action"]["activeClient"], client);
}

#[test]
fn actions_on_their_way_keep_the_name_of_a_session_that_the_client_left() {
    for version in [Version::V0_1, Version::V0_3] {
        let mut translator = shown_as_session(version, false);
        let subject = if version.has_channels() { "channel" } else { "resource" };
        translator.up_notification("unsubscribe", json!({ subject: "session:1" }), 0);
        let delta = json!({ "type": "chat/delta", "turnId": "t", "partId": "p", "content": "x" });
        let shown = down(&mut translator, "chat:1", delta.clone(), None);
        assert!(!shown[0].to_string().contains("chat:1"), "{version}: {}", shown[0]);
        assert!(shown[0].to_string().contains("session:1"), "{version}: {}", shown[0]);
        assert!(translator.streamed_head(&message("chat:1", delta, None)).is_some());
    }
}

#[test]
fn messages_of_0_1_have_no_channels() {
    let mut translator = shown_as_session(Version::V0_1, false);
    let delta = json!({ "type": "chat/delta", "turnId": "t", "partId": "p", "content": "x" });
    let expected = json!({ "action": { "type": "session/delta", "session": "session:1", "turnId": "t", "partId": "p",
        "content": "x" }, "serverSeq": 7 });
    assert_eq!(
        down(&mut translator, "chat:1", delta, None)[0].to_string(),
        expected.to_string()
    );

    let params = json!({ "clientSeq": 1, "action": { "type": "session/truncated", "session": "session:1" } });
    let up = translator.up_notification("dispatchAction", params, 0);
    let method = "dispatchAction".to_owned();
    let params = json!({ "clientSeq": 1, "action": { "type": "chat/truncated" }, "channel": "chat:1" });
    assert_eq!(up, Up::Forward { method, params });
}

#[test]
fn methods_of_0_1_may_have_no_parameters() {
    let mut translator = Translator::new(Version::V0_1, "me");
    let up = translator.up_request("1", "listSessions", Value::Null);
    assert_eq!(up, ("listSessions".to_owned(), json!({ "channel": "ahp-root://" })));
}

#[test]
fn results_are_translated_by_the_method_of_their_request() {
    let mut translator = Translator::new(Version::V0_4, "me");
    translator.up_request("\"\\u0061\"", "listSessions", json!({ "channel": "ahp-root://" }));
    let response = json!({ "jsonrpc": "2.0", "id": "a", "result": { "items": [{ "createdAt": "1970-01-01T00:00:01Z",
        "modifiedAt": "1970-01-01T00:00:02Z", "workingDirectories": ["w"], "chats": [] }] } });
    let shown = text(&mut translator, response.clone()).unwrap();
    let expected = json!({ "items": [{ "createdAt": 1000, "modifiedAt": 2000, "workingDirectory": "w" }] });
    assert_eq!(shown["result"], expected);
    assert_eq!(
        text(&mut translator, response.clone()),
        Some(response),
        "the request is over"
    );
}

#[test]
fn turns_before_a_turn_have_the_words_of_their_version() {
    let mut translator = shown_as_session(Version::V0_2, false);
    let params = json!({ "channel": "session:1", "before": "t9", "limit": 2 });
    let up = translator.up_request("5", "fetchTurns", params);
    let params = json!({ "channel": "chat:1", "before": "t9", "limit": 2 });
    assert_eq!(up, ("innkeeper/fetchTurnsBefore".to_owned(), params));
    let turn = json!({ "id": "t8", "message": { "text": "hi", "origin": { "kind": "user" } }, "state": "error",
        "responseParts": [{ "kind": "error", "error": { "message": "m" } }] });
    let response = json!({ "jsonrpc": "2.0", "id": 5, "result": { "turns": [turn], "hasMore": true } });
    let turn = json!({ "id": "t8", "userMessage": { "text": "hi" }, "state": "error", "responseParts": [],
        "error": { "message": "m" } });
    let shown = text(&mut translator, response).unwrap();
    assert_eq!(shown["result"], json!({ "turns": [turn], "hasMore": true }));
}

#[test]
fn summaries_in_notifications_have_the_words_of_their_version() {
    let added = || {
        json!({ "jsonrpc": "2.0", "method": "root/sessionAdded", "params": { "channel": "ahp-root://",
            "summary": { "resource": "s", "createdAt": "1970-01-01T00:00:01Z", "workingDirectories": ["w", "x"] } } })
    };
    let summary = json!({ "resource": "s", "createdAt": 1000, "workingDirectory": "w" });
    let shown = text(&mut Translator::new(Version::V0_4, "me"), added()).unwrap();
    assert_eq!(shown["params"]["summary"], summary);
    let shown = text(&mut Translator::new(Version::V0_1, "me"), added()).unwrap();
    let expected = json!({ "jsonrpc": "2.0", "method": "notification",
        "params": { "notification": { "type": "notify/sessionAdded", "summary": summary } } });
    assert_eq!(shown, expected);
}

#[test]
fn progress_is_not_sent_to_versions_without_it() {
    let progress = || json!({ "jsonrpc": "2.0", "method": "root/progress", "params": { "progress": 1 } });
    assert_eq!(
        text(&mut Translator::new(Version::V0_5_0, "me"), progress()),
        Some(progress())
    );
    assert_eq!(text(&mut Translator::new(Version::V0_4, "me"), progress()), None);
}

#[test]
fn requests_of_the_host_do_not_reach_0_1() {
    let read = || json!({ "jsonrpc": "2.0", "id": 1, "method": "resourceRead", "params": { "uri": "u" } });
    assert_eq!(text(&mut Translator::new(Version::V0_2, "me"), read()), Some(read()));
    assert_eq!(text(&mut Translator::new(Version::V0_1, "me"), read()), None);
}

#[test]
fn the_activity_of_a_chat_is_lost_in_0_4_alone() {
    let activity = || json!({ "type": "chat/activityChanged", "activity": "a" });
    assert_eq!(
        down(&mut Translator::new(Version::V0_5_0, "me"), "chat:1", activity(), None).len(),
        1
    );
    assert!(down(&mut Translator::new(Version::V0_4, "me"), "chat:1", activity(), None).is_empty());
    let shown = down(&mut shown_as_session(Version::V0_3, false), "chat:1", activity(), None);
    assert_eq!(
        shown[0]["action"],
        json!({ "type": "session/activityChanged", "activity": "a" })
    );
    let chat = |version: Version| {
        let mut chat = json!({ "status": 1, "activity": "a" });
        state::chat(version, chat.as_object_mut().unwrap());
        chat
    };
    assert!(chat(Version::V0_5_0).get("activity").is_some());
    assert!(chat(Version::V0_4).get("activity").is_none());
}

#[test]
fn a_session_of_0_2_is_shown_together_with_its_chat() {
    let session = json!({ "provider": "p", "title": "t", "status": 33, "workingDirectories": ["w"], "lifecycle": "ready",
        "activeClients": [{ "clientId": "me", "tools": [] }], "chats": [{ "resource": "chat:1" }],
        "defaultChat": "chat:1" });
    let question = json!({ "kind": "inputRequest", "request": { "id": "q" } });
    let chat = json!({ "resource": "chat:1", "title": "t", "status": 24, "modifiedAt": "x",
        "activeTurn": { "id": "t1", "startedAt": "x", "message": { "text": "hi", "origin": { "kind": "user" } },
            "responseParts": [question] } });
    let around = Around {
        resource: "session:1".into(),
        created_at: "1970-01-01T00:00:01Z".into(),
        modified_at: "1970-01-01T00:00:02Z".into(),
        own_client_id: "me".into(),
    };
    let mut shown = session;
    let (Value::Object(state), Value::Object(chat)) = (&mut shown, chat) else {
        panic!("objects");
    };
    state::session_with_chat(Version::V0_2, state, chat, &around);
    let expected = json!({
        "summary": { "resource": "session:1", "provider": "p", "title": "t", "status": 32 | 24, "createdAt": 1000,
            "modifiedAt": 2000, "workingDirectory": "w" },
        "lifecycle": "ready",
        "activeClient": { "clientId": "me", "tools": [] },
        "activeTurn": { "id": "t1", "startedAt": "x", "userMessage": { "text": "hi" }, "responseParts": [] },
        "inputRequests": [{ "id": "q" }],
    });
    assert_eq!(shown.to_string(), expected.to_string());
}

#[test]
fn malformed_messages_pass_on_to_the_core() {
    for version in Version::ALL {
        let mut translator = Translator::new(version, "me");
        for params in [
            Value::Null,
            json!([]),
            json!("x"),
            json!({ "clientSeq": "x" }),
            json!({ "action": [] }),
        ] {
            let up = translator.up_notification("dispatchAction", params, 0);
            assert!(matches!(up, Up::Forward { .. }), "{up:?}");
        }
    }
}

#[test]
fn nothing_changes_for_1_0() {
    let mut translator = Translator::new(Version::V1_0, "me");
    let action = json!({ "type": "session/chatsReordered", "chats": [] });
    let bytes = message("session:1", action, None);
    assert_eq!(translator.down_action(&bytes, None), [bytes]);
}

#[test]
fn streamed_output_with_another_head_is_the_message_that_the_ladder_makes() {
    for version in [Version::V0_1, Version::V0_2, Version::V0_3] {
        let mut translator = Translator::new(version, "me");
        translator.shows_chat_as("chat:other", "session:other", false);
        translator.shows_chat_as("chat:1", "session:\\1", false);
        for kind in ["chat/delta", "chat/reasoning"] {
            let action = json!({ "type": kind, "turnId": "t", "partId": "p", "content": "a \"quoted\"\nline" });
            let message = message("chat:1", action, None);
            let (head, replaced) = translator.streamed_head(&message).unwrap();
            let reheaded = [&head, &message[replaced..]].concat();
            let translated = translator.down_action(&message, None);
            let parsed = |message: &[u8]| serde_json::from_slice::<Value>(message).unwrap();
            assert_eq!(parsed(&reheaded), parsed(&translated[0]));
        }
    }
}

#[test]
fn streamed_output_of_chats_that_are_not_shown_keeps_its_head() {
    let translator = shown_as_session(Version::V0_2, false);
    let action = || json!({ "type": "chat/delta", "turnId": "t", "partId": "p", "content": "x" });
    assert!(translator.streamed_head(&message("chat:1", action(), None)).is_some());
    assert_eq!(translator.streamed_head(&message("chat:10", action(), None)), None);
    assert_eq!(translator.streamed_head(&message("chat:1\\", action(), None)), None);
    let newer = Translator::new(Version::V0_4, "me");
    assert_eq!(newer.streamed_head(&message("chat:1", action(), None)), None);
}

#[test]
fn members_keep_their_order_in_both_directions() {
    let members = r#"{"zebra":{"y":1,"x":2},"apple":3,"mango":[{"b":1,"a":2}]}"#;
    let values: Value = serde_json::from_str(members).unwrap();
    for version in Version::ALL {
        let mut translator = shown_as_session(version, false);
        let changed = json!({ "type": "session/configChanged", "config": values });
        let shown = down(&mut translator, "session:1", changed.clone(), None);
        assert_eq!(shown[0]["action"]["config"].to_string(), members, "{version}");
        let meta = json!({ "type": "session/metaChanged", "_meta": values });
        let shown = down(&mut translator, "session:1", meta, None);
        assert_eq!(shown[0]["action"]["_meta"].to_string(), members, "{version}");

        let mut own = changed;
        if !version.has_channels() {
            own["session"] = "session:1".into();
        }
        let Up::Forward { params, .. } = dispatch(&mut translator, "session:1", 1, own) else {
            panic!("{version} changes settings");
        };
        assert_eq!(params["action"]["config"].to_string(), members, "{version}");

        let mut session = json!({ "title": "t", "status": 1, "config": { "schema": values, "values": values } });
        let session = session.as_object_mut().unwrap();
        let around = Around::default();
        match version.session_is_chat() {
            true => state::session_with_chat(version, session, Object::new(), &around),
            false => state::session(version, session, &around),
        }
        let config = format!(r#"{{"schema":{members},"values":{members}}}"#);
        assert_eq!(session["config"].to_string(), config, "{version}");
    }
}
