//! Attachments: five kinds with their rules, and truncated chats.

use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown, turn_started};
use serde_json::{Value, json};

use crate::start_with_client;
use crate::turns::turn_details::pending;

fn with_attachments(turn_id: &str, attachments: Value) -> Value {
    let mut action = turn_started(turn_id, "/attachments");
    action["message"]["attachments"] = attachments;
    action
}

/// Runs `/attachments` and returns what the guide found, with the message as the host keeps it.
async fn attach(client: &OfficialClient, uris: &SessionUris, turn_id: &str, attachments: Value) -> (String, Value) {
    client
        .dispatch(&uris.chat, with_attachments(turn_id, attachments))
        .await;
    let turn = client.turn_end(&uris.chat, turn_id).await;
    let message = serde_json::to_value(&turn.message).expect("messages are JSON");
    (markdown(&turn.response_parts), message)
}

#[tokio::test]
async fn turn_17_attachments_of_all_five_kinds_reach_the_agent() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("attachments").await;
    client.run_turn(&uris.chat, "t0", "hello").await;
    let annotations = format!("{}/annotations", uris.session);
    for id in ["a", "b"] {
        let annotation = json!({
            "id": id, "origin": { "session": uris.session }, "resource": "file:///srv/a.txt", "resolved": false,
            "entries": [{ "id": "e", "text": format!("about {id}") }],
        });
        let set = json!({ "type": "annotations/set", "annotation": annotation });
        client.dispatch(&annotations, set).await;
    }
    let attachments = json!([
        { "type": "simple", "label": "note", "modelRepresentation": "remember the milk" },
        { "type": "simple", "label": "suggested", "_meta": { "command": "help" } },
        { "type": "embeddedResource", "label": "image", "data": "aGVsbG8h", "contentType": "image/png" },
        { "type": "resource", "label": "file", "uri": "file:///srv/a.txt" },
        {
            "type": "annotations", "label": "remarks", "resource": annotations, "annotationIds": ["a", "b"],
        },
        { "type": "chat", "label": "talk", "resource": uris.chat },
    ]);
    let (said, message) = attach(&client, &uris, "t1", attachments.clone()).await;
    assert_eq!(
        said,
        "With your message came:\n\n\
         - “note”, text of 17 characters\n\
         - “suggested”, something this host suggested\n\
         - “image”, image/png of about 6 bytes\n\
         - “file”, which is at `file:///srv/a.txt`\n\
         - “remarks”, 2 remarks on files\n    - file:///srv/a.txt: about a\n    - file:///srv/a.txt: about b\n\
         - “talk”, a chat of 1 turns\n"
    );
    // Every client sees them as they were sent, but for the chat, which now says where it ends (TURN-18).
    // The texts of annotations are stored with the message, because the annotations may change later.
    let mut expected = attachments;
    let remark = |id: &str| json!({ "file": "file:///srv/a.txt", "texts": [format!("about {id}")] });
    expected[4]["_meta"] = json!({ "innkeeper.remarks": [remark("a"), remark("b")] });
    expected[5]["endTurn"] = json!("t0");
    assert_eq!(message["attachments"], expected);
    // The count of annotations in the session's state has no action, so mirrors do not follow it.
}

#[tokio::test]
async fn turn_17_turn_19_attachments_that_mean_nothing_are_refused_by_name() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("refused").await;
    let busy = client.create_session("busy").await;
    client.start_turn(&busy.chat, "running", "/slow 600").await;
    client
        .until("the other chat is busy", |view| {
            view.chat(&busy.chat).is_some_and(|chat| chat.active_turn.is_some())
        })
        .await;
    let cases = [
        (
            json!({ "type": "simple", "label": "empty" }),
            "message.attachments[1] needs a modelRepresentation",
        ),
        (
            json!({ "type": "embeddedResource", "label": "x", "data": "???", "contentType": "image/png" }),
            "message.attachments[1] has data that is not base64",
        ),
        (
            json!({ "type": "embeddedResource", "label": "x", "data": "", "contentType": "image" }),
            "message.attachments[1] needs a contentType such as image/png",
        ),
        (
            json!({ "type": "resource", "label": "x", "uri": "a file" }),
            "message.attachments[1] has a uri that is not a valid URI",
        ),
        (
            json!({ "type": "annotations", "label": "x", "resource": "" }),
            "message.attachments[1] has a resource that is not a valid URI",
        ),
        (
            json!({ "type": "hologram", "label": "x" }),
            "message.attachments[1] is malformed or of an unknown kind",
        ),
        (
            json!({ "type": "chat", "label": "x", "resource": "ahp-chat:/nowhere" }),
            "message.attachments[1] names a chat that does not exist: \"ahp-chat:/nowhere\"",
        ),
        (
            json!({ "type": "chat", "label": "x", "resource": busy.chat, "endTurn": "never" }),
            "message.attachments[1] has an endTurn that its chat does not have: \"never\"",
        ),
        (
            json!({ "type": "chat", "label": "x", "resource": busy.chat, "endTurn": "running" }),
            "message.attachments[1] has an endTurn that is still running; wait for its end, or omit endTurn to attach what is complete",
        ),
    ];
    let good = json!({ "type": "simple", "label": "fine", "modelRepresentation": "fine" });
    for (number, (attachment, reason)) in cases.into_iter().enumerate() {
        client
            .dispatch(&uris.chat, with_attachments("t1", json!([good, attachment])))
            .await;
        assert_eq!(client.refusal(number + 1).await, reason);
    }
    assert!(client.view().chat(&uris.chat).expect("mirrored").turns.is_empty());
    // A chat in which nothing is complete yet can be attached, and brings nothing.
    let empty = json!([{ "type": "chat", "label": "so far", "resource": busy.chat }]);
    let (said, message) = attach(&client, &uris, "t1", empty).await;
    assert!(said.ends_with("- “so far”, a chat of 0 turns\n"), "{said}");
    assert!(message["attachments"][0].get("endTurn").is_none());
    client.assert_converged().await;
}

#[tokio::test]
async fn turn_18_an_attached_chat_is_fixed_at_the_attachment() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("here").await;
    let source = client.create_session("there").await;
    let attached = |end: Option<&str>| {
        let mut attachment = json!({ "type": "chat", "label": "talk", "resource": source.chat });
        if let Some(end) = end {
            attachment["endTurn"] = json!(end);
        }
        json!([attachment])
    };
    for turn_id in ["a", "b"] {
        client.run_turn(&source.chat, turn_id, "/stream 1").await;
    }
    let (said, _) = attach(&client, &uris, "t1", attached(Some("a"))).await;
    assert!(said.ends_with("a chat of 1 turns\n"), "{said}");
    let (said, message) = attach(&client, &uris, "t2", attached(None)).await;
    assert!(said.ends_with("a chat of 2 turns\n"), "{said}");
    assert_eq!(message["attachments"][0]["endTurn"], "b");

    // Attachments of queued messages are resolved on acceptance, not at the start of their turn.
    client.start_turn(&uris.chat, "t3", "/options").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    let mut queued = pending("queued", "q1", "/attachments");
    queued["message"]["attachments"] = attached(None);
    client.dispatch(&uris.chat, queued).await;
    client
        .until("it is queued and resolved", |view| {
            let queue = view.chat(&uris.chat).and_then(|chat| chat.queued_messages.clone());
            let queue = serde_json::to_value(queue).expect("JSON");
            queue[0]["message"]["attachments"][0]["endTurn"] == "b"
        })
        .await;
    client.run_turn(&source.chat, "c", "/stream 1").await;
    client.decide(&wait, json!({ "approved": false })).await;
    client
        .until("the queued message had its turn", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.turns.len() == 4)
        })
        .await;
    let turn = client.view().chat(&uris.chat).expect("mirrored").turns[3].clone();
    assert!(markdown(&turn.response_parts).ends_with("a chat of 2 turns\n"));

    // TURN-19: chats attached inside the attached chat are not followed.
    let nested = json!([{ "type": "chat", "label": "nested", "resource": uris.chat }]);
    let (said, _) = attach(&client, &source, "d", nested).await;
    assert!(said.ends_with("“nested”, a chat of 4 turns\n"), "{said}");
    client.assert_converged().await;
}
