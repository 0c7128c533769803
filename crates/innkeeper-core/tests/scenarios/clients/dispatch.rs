//! `dispatchAction`: echo, refusal or silence (DSP).

use innkeeper_core::{Principal, Scope};
use serde_json::{Value, json};

use crate::harness::*;

/// A session with its owner and an observer, both on the session and its chat.
fn two_clients() -> (Stage, innkeeper_core::ConnId, innkeeper_core::ConnId, String) {
    let mut stage = Stage::new();
    let author = stage.client("author", &[]);
    let chat = stage.session(author, SESSION);
    for channel in [SESSION, &chat] {
        stage.subscribe(author, channel);
    }
    let observer = stage.client("observer", &[SESSION, &chat]);
    (stage, author, observer, chat)
}

/// Dispatches, and returns the reason why it was refused.
fn refusal(stage: &mut Stage, conn: innkeeper_core::ConnId, channel: &str, action: Value) -> String {
    stage.inbox(conn);
    stage.dispatch(conn, channel, 77, action.clone());
    let envelopes = stage.actions(conn);
    assert_eq!(envelopes.len(), 1, "{action} -> {envelopes:?}");
    assert_eq!(envelopes[0]["action"], action, "DSP-08: verbatim");
    envelopes[0]["rejectionReason"]
        .as_str()
        .unwrap_or_else(|| panic!("not refused: {}", envelopes[0]))
        .to_owned()
}

#[test]
fn e01_refusing_doing_nothing_and_ignoring_are_three_different_answers() {
    let (mut stage, author, _, _) = two_clients();
    stage.dispatch(author, "ahp-session:/nowhere", 1, title("x"));
    assert_eq!(
        stage.inbox(author),
        Vec::<Value>::new(),
        "DSP-05: an unknown channel is silence"
    );
    let removed = json!({ "type": "session/activeClientRemoved", "clientId": "author" });
    stage.dispatch(author, SESSION, 2, removed);
    let echo = stage.actions(author).remove(0);
    assert_eq!(
        echo["origin"],
        json!({ "clientId": "author", "clientSeq": 2 }),
        "DSP-15: a no-op is echoed"
    );
    assert!(echo.get("rejectionReason").is_none());
    let reason = refusal(&mut stage, author, SESSION, json!({ "type": "session/ready" }));
    assert_eq!(reason, "only the host may send session/ready");
}

#[test]
fn dsp03_an_accepted_action_reaches_every_subscriber_with_its_origin() {
    let (mut stage, author, observer, _) = two_clients();
    stage.dispatch(author, SESSION, 41, title("new"));
    let (mine, theirs) = (stage.actions(author), stage.actions(observer));
    assert_eq!(mine, theirs);
    assert_eq!(mine[0]["origin"], json!({ "clientId": "author", "clientSeq": 41 }));
    assert_eq!(mine[0]["action"], title("new"));
}

#[test]
fn dsp04_dsp12_e02_lesson12_a_rejection_goes_to_its_author_alone() {
    let (mut stage, author, observer, chat) = two_clients();
    let before = (stage.state(SESSION), stage.state(&chat));
    stage.dispatch(
        author,
        SESSION,
        5,
        json!({ "type": "session/defaultChatChanged", "defaultChat": "x:/y" }),
    );
    let refused = stage.actions(author);
    assert_eq!(refused[0]["origin"]["clientSeq"], 5);
    assert!(refused[0]["rejectionReason"].is_string());
    assert_eq!(stage.inbox(observer), Vec::<Value>::new());
    assert_eq!((stage.state(SESSION), stage.state(&chat)), before);
}

#[test]
fn dsp06_dsp07_actions_of_the_host_and_of_other_channels_are_refused() {
    let (mut stage, author, _, chat) = two_clients();
    let delta = json!({ "type": "chat/delta", "turnId": "t", "partId": "p", "content": "forged" });
    assert_eq!(
        refusal(&mut stage, author, &chat, delta),
        "only the host may send chat/delta"
    );
    let reason = refusal(
        &mut stage,
        author,
        SESSION,
        json!({ "type": "chat/isReadChanged", "isRead": true }),
    );
    assert_eq!(reason, "chat/isReadChanged does not belong on this kind of channel");
    let config = json!({ "type": "root/configChanged", "config": { "silenceLimitMinutes": "a" } });
    assert!(refusal(&mut stage, author, ROOT, config).contains("must be a number"));
}

#[test]
fn dsp07_renaming_a_chat_by_the_sessions_action_is_accepted() {
    let (mut stage, author, observer, chat) = two_clients();
    stage.dispatch(author, &chat, 9, title("my chat"));
    let mine = stage.actions(author);
    assert_eq!(mine[0]["channel"], chat.as_str());
    assert_eq!(mine[0]["origin"]["clientSeq"], 9);
    assert_eq!(
        stage.action_types(observer),
        ["session/chatUpdated", "session/titleChanged"],
        "E-08: it travels in the catalogue, and a session is renamed with its default chat"
    );
    assert_eq!(stage.state(SESSION)["chats"][0]["title"], "my chat");
    assert_eq!(stage.state(&chat)["title"], "my chat");
    assert_eq!(stage.state(SESSION)["title"], "my chat");
}

#[test]
fn dsp08_unknown_and_malformed_actions_are_told_apart_and_echoed_verbatim() {
    let (mut stage, author, _, chat) = two_clients();
    let unknown = json!({ "type": "x-mine/thing", "deep": [1, { "a": null }] });
    assert_eq!(
        refusal(&mut stage, author, SESSION, unknown),
        "unknown action type \"x-mine/thing\""
    );
    for (channel, action, field) in [
        (
            SESSION,
            json!({ "type": "session/titleChanged", "title": 5 }),
            "action.title",
        ),
        (SESSION, json!({ "type": "session/isReadChanged" }), "isRead"),
        (
            SESSION,
            json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "author" } }),
            "tools",
        ),
        (
            &chat,
            json!({ "type": "chat/turnStarted", "turnId": "t", "startedAt": "x", "message": {} }),
            "action.message",
        ),
        (
            &chat,
            json!({ "type": "chat/pendingMessageSet", "kind": "later", "id": "q", "message": {} }),
            "action.kind",
        ),
        (&chat, json!({ "title": "no type" }), "action.type"),
        (&chat, json!(5), "action: "),
        (&chat, json!(null), "action: "),
    ] {
        let reason = refusal(&mut stage, author, channel, action);
        assert!(
            reason.starts_with("malformed action: ") && reason.contains(field),
            "{field}: {reason}"
        );
    }
}

#[test]
fn dsp09_act03_a_client_speaks_for_itself_only() {
    let (mut stage, author, _, _) = two_clients();
    let reason = refusal(&mut stage, author, SESSION, announce("observer"));
    assert!(reason.contains("activeClient.clientId"), "{reason}");
    let removed = json!({ "type": "session/activeClientRemoved", "clientId": "observer" });
    assert!(refusal(&mut stage, author, SESSION, removed).contains("clientId"));
}

#[test]
fn dsp10_dsp11_a_non_subscriber_may_dispatch_and_gets_only_rejections() {
    let (mut stage, _, observer, chat) = two_clients();
    let outsider = stage.client("outsider", &[]);
    stage.dispatch(outsider, SESSION, 1, title("from outside"));
    assert_eq!(stage.inbox(outsider), Vec::<Value>::new());
    assert_eq!(stage.actions(observer)[0]["origin"]["clientId"], "outsider");
    let cancelled = json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": 1 });
    assert_eq!(refusal(&mut stage, outsider, &chat, cancelled), "no turn is running");
}

#[test]
fn dsp13_refusals_take_fresh_ascending_numbers() {
    let (mut stage, author, _, _) = two_clients();
    stage.dispatch(author, SESSION, 1, title("one"));
    stage.dispatch(author, SESSION, 2, json!({ "type": "nonsense" }));
    stage.dispatch(author, SESSION, 3, json!({ "type": "nonsense" }));
    stage.dispatch(author, SESSION, 4, title("two"));
    let seqs: Vec<_> = stage
        .actions(author)
        .iter()
        .map(|e| e["serverSeq"].as_u64().unwrap())
        .collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    assert_eq!(seqs.len(), 4);
}

#[test]
fn dsp15_e52_lesson11_an_announcement_that_repeats_itself_dies_out() {
    let (mut stage, author, observer, _) = two_clients();
    stage.dispatch(author, SESSION, 1, announce("author"));
    assert_eq!(stage.action_types(observer), ["session/activeClientSet"]);
    stage.inbox(author);
    // The reference client announces itself again after every message, its own echo included.
    let mut rounds = 0;
    let mut seq = 2;
    stage.dispatch(author, SESSION, seq, announce("author"));
    while !stage.actions(author).is_empty() {
        rounds += 1;
        assert!(rounds < 5, "a loop");
        seq += 1;
        stage.dispatch(author, SESSION, seq, announce("author"));
    }
    assert_eq!(rounds, 1, "one echo drains its queue, then silence");
    assert_eq!(stage.inbox(observer), Vec::<Value>::new());
    stage.dispatch(observer, SESSION, 1, title("something else changes"));
    stage.inbox(author);
    stage.dispatch(author, SESSION, 99, announce("author"));
    assert_eq!(stage.actions(author).len(), 1, "after a change it is echoed once more");
}

#[test]
fn dsp15_e52_two_clients_that_answer_their_own_echoes_die_out_too() {
    let (mut stage, author, observer, _) = two_clients();
    let mut seq = 0;
    let mut rounds = 0;
    stage.dispatch(author, SESSION, 100, announce("author"));
    stage.dispatch(observer, SESSION, 100, announce("observer"));
    loop {
        let heard = [(author, "author"), (observer, "observer")].map(|(conn, name)| (conn, name, stage.actions(conn)));
        if heard.iter().all(|(_, _, actions)| actions.is_empty()) {
            break;
        }
        rounds += 1;
        assert!(rounds < 10, "a loop");
        for (conn, name, actions) in heard {
            if !actions.is_empty() {
                seq += 1;
                stage.dispatch(conn, SESSION, seq, announce(name));
            }
        }
    }
}

#[test]
fn dsp18_clients_write_messages_of_their_user_only() {
    let (mut stage, author, _, chat) = two_clients();
    for kind in ["agent", "tool", "somethingNew"] {
        let forged = json!({ "text": "x", "origin": { "kind": kind } });
        for action in [
            json!({ "type": "chat/turnStarted", "turnId": "t", "startedAt": stage.now.rfc3339(), "message": forged }),
            json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": forged }),
            json!({ "type": "chat/draftChanged", "draft": forged }),
        ] {
            let reason = refusal(&mut stage, author, &chat, action);
            assert_eq!(reason, "clients write messages of kind user only");
        }
    }
}

#[test]
fn dsp20_a_fractional_duration_is_rounded_and_replaced_by_the_hosts_own() {
    let (mut stage, author, _, chat) = two_clients();
    stage.start_turn(author, &chat, "t");
    stage.pass(250);
    stage.inbox(author);
    stage.dispatch(
        author,
        &chat,
        2,
        json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": 12.5 }),
    );
    let envelope = stage.actions(author).remove(0);
    assert_eq!(envelope["action"]["type"], "chat/turnCancelled");
    assert_eq!(envelope["action"]["duration"], 250, "TURN-05");
}

#[test]
fn a_dispatch_beyond_the_scope_is_rejected_by_name() {
    let mut stage = Stage::new();
    let owner = stage.client("owner", &[]);
    let chat = stage.listed_session(owner, SESSION);
    let viewer = stage.connect_as(Principal::new("token:viewer", Scope::View));
    stage.initialize(viewer, "viewer", &["1.0.0"], &[SESSION]);
    for answer in [stage.create(viewer, "ahp-session:/two"), stage.dispose(viewer, SESSION)] {
        let (code, message) = error(&answer);
        assert_eq!(code, -32009);
        assert!(message.contains("drive") && message.contains("view"), "{message}");
    }
    let reason = refusal(&mut stage, viewer, SESSION, title("no"));
    assert_eq!(
        reason,
        "session/titleChanged needs the scope drive and this connection has view"
    );
    assert!(stage.subscribe(viewer, &chat).get("result").is_some());
    assert_eq!(
        stage.list(viewer, None, None)["result"]["items"][0]["resource"],
        SESSION
    );
}

#[test]
fn rejections_name_the_exceeded_limit() {
    let mut stage = Stage::with(innkeeper_core::CoreConfig {
        max_message_bytes: 10,
        max_title_bytes: 5,
        max_attachments: 0,
        ..Default::default()
    });
    let author = stage.client("author", &[]);
    let chat = stage.session(author, SESSION);
    assert!(refusal(&mut stage, author, SESSION, title("too long")).contains("at most 5 bytes"));
    let draft = |message: Value| json!({ "type": "chat/draftChanged", "draft": message });
    assert!(refusal(&mut stage, author, &chat, draft(message("far too long a text"))).contains("at most 10 bytes"));
    let mut with_attachment = message("hi");
    with_attachment["attachments"] = json!([{ "type": "simple", "label": "x" }]);
    assert!(refusal(&mut stage, author, &chat, draft(with_attachment)).contains("at most 0 attachments"));
}

#[test]
fn trap_16_numbers_the_types_let_through_do_not_get_through() {
    let (mut stage, author, _, _) = two_clients();
    let resized = json!({ "type": "terminal/resized", "cols": -5, "rows": 1 });
    let raw = serde_json::value::to_raw_value(&resized).expect("JSON");
    assert!(
        innkeeper_core::decode::decode_action(&raw).is_ok(),
        "the published type has no range"
    );
    stage.dispatch(author, SESSION, 1, resized);
    let echo = stage.actions(author).pop().expect("an answer");
    assert!(echo["rejectionReason"].is_string(), "{echo}");
}
