//! The reference of the session channel of 0.2: what clients send, with the members of its tables, and what they get.

use serde_json::{Value, json};

use super::reader::Reader;
use crate::start;

const VERSION: &str = "0.2.0";

/// The bits of `SessionStatus`.
const IDLE: u64 = 1;
const INPUT_NEEDED: u64 = (1 << 3) | (1 << 4);
const IS_READ: u64 = 1 << 5;
const IS_ARCHIVED: u64 = 1 << 6;

fn turn_started(turn: &str, text: &str) -> Value {
    json!({ "type": "session/turnStarted", "turnId": turn, "userMessage": { "text": text } })
}

fn status(state: &Value) -> u64 {
    state["summary"]["status"].as_u64().expect("a number")
}

fn turns(state: &Value) -> Vec<&str> {
    let turns = state["turns"].as_array().expect("turns").iter();
    turns.filter_map(|turn| turn["id"].as_str()).collect()
}

impl Reader {
    async fn run(&mut self, turn: &str, text: &str) {
        self.does(turn_started(turn, text)).await;
        self.ended(turn).await;
    }

    /// Waits for a call of a turn that asks, and returns its id.
    async fn asks(&mut self, turn: &str) -> Value {
        let ready = self
            .action_with("session/toolCallReady", |action| {
                action["turnId"] == turn && action.get("confirmed").is_none()
            })
            .await;
        ready["toolCallId"].clone()
    }

    /// The tool call of a completed turn.
    async fn call_of(&mut self, turn: &str) -> Value {
        let state = self.state().await;
        let turns = state["turns"].as_array().expect("turns");
        let turn = turns.iter().find(|known| known["id"] == turn).expect("the turn");
        let mut parts = turn["responseParts"].as_array().expect("parts").iter();
        let call = parts.find(|part| part["kind"] == "toolCall").expect("a call");
        call["toolCall"].clone()
    }
}

#[tokio::test]
async fn messages_of_0_2_wait_in_the_queue_and_steer_the_turn() {
    let host = start().await;
    let mut reader = Reader::create(&host, VERSION, "reader", "ahp-session:/pending", json!({})).await;
    let set = |kind: &str, id: &str, text: &str| json!({ "type": "session/pendingMessageSet", "kind": kind, "id": id, "userMessage": { "text": text } });
    reader.does(turn_started("t1", "/steer 60")).await;
    reader.does(set("queued", "q1", "/stream 1")).await;
    reader.does(set("queued", "q2", "/stream 2")).await;
    reader.does(set("queued", "q3", "/stream 3")).await;
    // "If a message with the given id already exists it is updated in place."
    reader.does(set("queued", "q1", "/stream 4")).await;
    reader
        .does(json!({ "type": "session/pendingMessageRemoved", "kind": "queued", "id": "q3" }))
        .await;
    // "IDs not present in the current queue are ignored", and those that are absent from the order come last.
    let reordered = json!({ "type": "session/queuedMessagesReordered", "order": ["q2", "gone"] });
    let echo = reader.dispatch(reordered).await;
    assert_eq!(echo["action"]["order"], json!(["q2", "q1"]), "{echo}");
    let state = reader.state().await;
    assert_eq!(
        state["queuedMessages"],
        json!([
            { "id": "q2", "userMessage": { "text": "/stream 2" } },
            { "id": "q1", "userMessage": { "text": "/stream 4" } },
        ])
    );
    // The host removes the steering message when it injects it.
    reader.does(set("steering", "s1", "to the left")).await;
    reader
        .action_with("session/pendingMessageRemoved", |action| {
            action["kind"] == "steering" && action["id"] == "s1"
        })
        .await;
    reader.does(set("steering", "s2", "enough")).await;
    reader.ended("t1").await;
    let mut started = Vec::new();
    for (id, text) in [("q2", "/stream 2"), ("q1", "/stream 4")] {
        let turn = reader
            .action_with("session/turnStarted", |action| action["queuedMessageId"] == id)
            .await;
        assert_eq!(turn["userMessage"]["text"], text, "{turn}");
        let turn = turn["turnId"].as_str().expect("an id").to_owned();
        reader.ended(&turn).await;
        started.push(turn);
    }
    // "If the session is idle when a queued message is set, the server SHOULD immediately … start a new turn."
    reader.dispatch(set("queued", "q4", "/stream 1")).await;
    let turn = reader
        .action_with("session/turnStarted", |action| action["queuedMessageId"] == "q4")
        .await;
    let turn = turn["turnId"].as_str().expect("an id").to_owned();
    reader.ended(&turn).await;
    started.push(turn);
    let state = reader.state().await;
    assert_eq!(turns(&state)[1..], started);
    assert!(state["turns"][0].to_string().contains("You said: to the left"));
    assert!(state.get("steeringMessage").is_none_or(Value::is_null), "{state}");
}

#[tokio::test]
async fn a_session_of_0_2_is_read_archived_and_cut_short() {
    let host = start().await;
    let mut reader = Reader::create(&host, VERSION, "reader", "ahp-session:/history", json!({})).await;
    for turn in ["t1", "t2", "t3"] {
        reader.run(turn, "/stream 1").await;
    }
    for (is_set, flags) in [(true, IS_READ | IS_ARCHIVED), (false, 0)] {
        reader
            .does(json!({ "type": "session/isReadChanged", "isRead": is_set }))
            .await;
        reader
            .does(json!({ "type": "session/isArchivedChanged", "isArchived": is_set }))
            .await;
        assert_eq!(status(&reader.state().await), IDLE | flags);
    }
    // "All turns after that turn are removed and the specified turn is kept."
    reader
        .does(json!({ "type": "session/truncated", "turnId": "t2" }))
        .await;
    assert_eq!(turns(&reader.state().await), ["t1", "t2"]);
    // "If there is an active turn it is silently dropped and the session status returns to idle."
    reader.does(turn_started("t4", "/slow 60")).await;
    reader
        .does(json!({ "type": "session/truncated", "turnId": "t1" }))
        .await;
    let state = reader.state().await;
    assert_eq!((turns(&state), status(&state)), (vec!["t1"], IDLE), "{state}");
    assert!(state.get("activeTurn").is_none_or(Value::is_null), "{state}");
    // "If turnId is omitted, all turns are removed", and a new message may follow.
    reader.does(json!({ "type": "session/truncated" })).await;
    assert!(turns(&reader.state().await).is_empty());
    reader.run("t5", "/stream 1").await;
    reader.does(turn_started("t6", "/slow 60")).await;
    reader
        .does(json!({ "type": "session/turnCancelled", "turnId": "t6" }))
        .await;
    let state = reader.state().await;
    assert_eq!(turns(&state), ["t5", "t6"]);
    assert_eq!(
        [&state["turns"][0]["state"], &state["turns"][1]["state"]],
        ["complete", "cancelled"]
    );
}

#[tokio::test]
async fn questions_of_0_2_are_answered_by_hand() {
    let host = start().await;
    let mut reader = Reader::create(&host, VERSION, "reader", "ahp-session:/questions", json!({})).await;
    reader.does(turn_started("t1", "/ask")).await;
    let request = reader.action("session/inputRequested").await["request"].clone();
    let questions = request["questions"].as_array().expect("questions");
    let kinds: Vec<&Value> = questions.iter().map(|question| &question["kind"]).collect();
    assert_eq!(
        kinds,
        ["text", "number", "integer", "boolean", "single-select", "multi-select"]
    );
    assert!(questions[4]["options"][0]["label"].is_string(), "{request}");
    let state = reader.state().await;
    assert_eq!(state["inputRequests"], json!([request]));
    assert_eq!(status(&state) & INPUT_NEEDED, INPUT_NEEDED);

    let changed = |answer: Value| {
        let mut action =
            json!({ "type": "session/inputAnswerChanged", "requestId": request["id"], "questionId": "name" });
        if !answer.is_null() {
            action["answer"] = answer;
        }
        action
    };
    let text = |state: &str, value: &str| json!({ "state": state, "value": { "kind": "text", "value": value } });
    reader.does(changed(text("draft", "Ad"))).await;
    let answers = reader.state().await["inputRequests"][0]["answers"].clone();
    assert_eq!(answers, json!({ "name": text("draft", "Ad") }));
    reader
        .does(changed(json!({ "state": "skipped", "freeformValues": ["later"] })))
        .await;
    // "Dispatching with answer: undefined removes that question's answer draft."
    reader.does(changed(Value::Null)).await;
    let answers = reader.state().await["inputRequests"][0]["answers"].clone();
    assert!(answers.get("name").is_none(), "{answers}");
    reader.does(changed(text("submitted", "Ada"))).await;
    let submitted =
        |kind: &str, value: Value| json!({ "state": "submitted", "value": { "kind": kind, "value": value } });
    let answers = json!({
        "name": text("submitted", "Ada"),
        "height": submitted("number", json!(1.75)),
        "pet": submitted("boolean", json!(false)),
        "room": submitted("selected", json!("garden")),
        "meals": submitted("selected-many", json!(["breakfast", "supper"])),
    });
    reader
        .does(json!({ "type": "session/inputCompleted", "requestId": request["id"], "response": "accept", "answers": answers }))
        .await;
    reader.ended("t1").await;
    let state = reader.state().await;
    let said = state["turns"][0].to_string();
    for answer in [
        "name: Ada",
        "height: 1.75",
        "pet: no",
        "room: garden",
        "meals: breakfast, supper",
    ] {
        assert!(said.contains(answer), "{answer} in {said}");
    }
    assert!(state["inputRequests"].as_array().is_none_or(Vec::is_empty), "{state}");
    for (turn, response, said) in [
        ("t2", "decline", "You would rather not say"),
        ("t3", "cancel", "Another time"),
    ] {
        reader.does(turn_started(turn, "/ask")).await;
        let request = reader.action("session/inputRequested").await["request"]["id"].clone();
        reader
            .does(json!({ "type": "session/inputCompleted", "requestId": request, "response": response }))
            .await;
        reader.ended(turn).await;
        let state = reader.state().await;
        assert!(state["turns"].to_string().contains(said), "{response}");
    }
}

#[tokio::test]
async fn tool_calls_of_0_2_are_approved_denied_and_reviewed() {
    let host = start().await;
    let mut reader = Reader::create(&host, VERSION, "reader", "ahp-session:/calls", json!({})).await;
    let confirmed = |turn: &str, call: &Value, more: Value| {
        let mut action = json!({ "type": "session/toolCallConfirmed", "turnId": turn, "toolCallId": call });
        innkeeper_compat::words::merge(&mut action, more);
        action
    };
    // session/toolCallConfirmed (approved), with an edited input and with an option.
    reader.does(turn_started("t1", "/confirm")).await;
    let call = reader.asks("t1").await;
    let edited = json!({ "approved": true, "confirmed": "user-action", "editedToolInput": "{\"times\": 5}" });
    reader.does(confirmed("t1", &call, edited)).await;
    reader.ended("t1").await;
    let call = reader.call_of("t1").await;
    assert_eq!(
        (&call["status"], &call["confirmed"], &call["toolInput"]),
        (&json!("completed"), &json!("user-action"), &json!("{\"times\": 5}"))
    );
    reader.does(turn_started("t2", "/options")).await;
    let call = reader.asks("t2").await;
    let chosen = json!({ "approved": true, "confirmed": "user-action", "selectedOptionId": "loudly" });
    reader.does(confirmed("t2", &call, chosen)).await;
    reader.ended("t2").await;
    assert_eq!(reader.call_of("t2").await["selectedOption"]["id"], "loudly");
    // session/toolCallConfirmed (denied), with what the user suggests instead.
    for (turn, reason) in [("t3", "denied"), ("t4", "skipped")] {
        reader.does(turn_started(turn, "/confirm")).await;
        let call = reader.asks(turn).await;
        let denied = json!({
            "approved": false, "reason": reason, "userSuggestion": { "text": "whisper" }, "reasonMessage": "the baby sleeps",
        });
        reader.does(confirmed(turn, &call, denied)).await;
        reader.ended(turn).await;
        let call = reader.call_of(turn).await;
        assert_eq!(
            [&call["status"], &call["reason"], &call["reasonMessage"]],
            ["cancelled", reason, "the baby sleeps"],
            "{call}"
        );
        assert_eq!(call["userSuggestion"], json!({ "text": "whisper" }));
    }
    // session/toolCallComplete with requiresResultConfirmation, and session/toolCallResultConfirmed.
    for (turn, approved) in [("t5", true), ("t6", false)] {
        reader.does(turn_started(turn, "/result")).await;
        let complete = reader
            .action_with("session/toolCallComplete", |action| action["turnId"] == turn)
            .await;
        assert_eq!(complete["requiresResultConfirmation"], true, "{complete}");
        for member in ["success", "pastTenseMessage"] {
            assert!(complete["result"].get(member).is_some(), "{member} in {complete}");
        }
        reader
            .does(json!({
                "type": "session/toolCallResultConfirmed", "turnId": turn, "toolCallId": complete["toolCallId"],
                "approved": approved,
            }))
            .await;
        reader.ended(turn).await;
        let call = reader.call_of(turn).await;
        match approved {
            true => assert_eq!(call["status"], "completed", "{call}"),
            false => assert_eq!(
                [&call["status"], &call["reason"]],
                ["cancelled", "result-denied"],
                "{call}"
            ),
        }
    }
    // "The server SHOULD reject this action if the dispatching client does not match toolClientId."
    reader.does(turn_started("t7", "/confirm")).await;
    let call = reader.asks("t7").await;
    let forged = json!({
        "type": "session/toolCallComplete", "turnId": "t7", "toolCallId": call,
        "result": { "success": true, "pastTenseMessage": "Rang it" },
    });
    let answer = reader.dispatch(forged.clone()).await;
    assert_eq!(answer["action"], forged);
    assert!(answer["rejectionReason"].is_string(), "{answer}");
}

#[tokio::test]
async fn streamed_actions_of_0_2_have_the_members_of_the_reference() {
    let host = start().await;
    let mut reader = Reader::create(&host, VERSION, "reader", "ahp-session:/streamed", json!({})).await;
    for (turn, text) in [
        ("t1", "/reason about it"),
        ("t2", "/tool"),
        ("t3", "/usage"),
        ("t4", "/stream 2"),
    ] {
        reader.run(turn, text).await;
    }
    reader.does(turn_started("t5", "/error")).await;
    let error = reader.action("session/error").await;
    assert!(error["error"]["message"].is_string(), "{error}");
    for (kind, members) in [
        ("session/responsePart", &["turnId", "part"][..]),
        ("session/reasoning", &["turnId", "partId", "content"]),
        ("session/delta", &["turnId", "partId", "content"]),
        (
            "session/toolCallStart",
            &["turnId", "toolCallId", "toolName", "displayName"],
        ),
        ("session/toolCallDelta", &["turnId", "toolCallId", "content"]),
        ("session/toolCallReady", &["turnId", "toolCallId", "invocationMessage"]),
        ("session/toolCallContentChanged", &["turnId", "toolCallId", "content"]),
        ("session/usage", &["turnId", "usage"]),
    ] {
        let action = reader.action(kind).await;
        for member in members {
            assert!(action.get(member).is_some(), "{member} in {action}");
        }
    }
    // A turn, an error, and parts with the members of the tables.
    let state = reader.state().await;
    for turn in state["turns"].as_array().expect("turns") {
        for member in ["id", "userMessage", "responseParts", "state"] {
            assert!(turn.get(member).is_some(), "{member} in {turn}");
        }
        for part in turn["responseParts"].as_array().expect("parts") {
            let member = match part["kind"].as_str().expect("a kind") {
                "markdown" | "reasoning" => "content",
                "toolCall" => "toolCall",
                other => panic!("{other}: {part}"),
            };
            assert!(part.get(member).is_some(), "{member} in {part}");
        }
    }
    let last = &state["turns"][4];
    assert_eq!(last["state"], "error");
    assert_eq!(last["error"]["message"], error["error"]["message"], "{last}");
}

#[tokio::test]
async fn a_session_of_0_2_is_created_with_everything_there_is() {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("notes.md"), "x").expect("written");
    let directory = format!("file://{}", folder.path().canonicalize().expect("there").display());
    let host = start().await;
    let session = "ahp-session:/created";
    let client =
        |id: &str, tool: &str| json!({ "clientId": id, "displayName": "VS Code", "tools": [{ "name": tool }] });
    let all = json!({
        "provider": "tour", "model": { "id": "tour" }, "workingDirectory": directory,
        "config": { "autoApprove": "autoApprove" }, "activeClient": client("reader", "open"),
    });
    let mut reader = Reader::create(&host, VERSION, "reader", session, all).await;
    let state = reader.state().await;
    let summary = &state["summary"];
    assert_eq!(
        (&summary["resource"], &summary["provider"], &summary["workingDirectory"]),
        (&json!(session), &json!("tour"), &json!(directory))
    );
    assert_eq!(summary["model"], json!({ "id": "tour" }), "{summary}");
    assert_eq!(state["config"]["values"]["autoApprove"], "autoApprove", "{state}");
    // "Equivalent to dispatching a session/activeClientChanged action immediately after creation."
    assert_eq!(state["activeClient"]["clientId"], "reader", "{state}");
    assert_eq!(state["activeClient"]["tools"], json!([{ "name": "open" }]));
    let other = json!({ "channel": "ahp-session:/other", "activeClient": client("not me", "open") });
    let refused = reader.client.call("createSession", other).await;
    let refused = refused.expect_err("the clientId must be that of initialize");
    assert_eq!(refused.code, -32602, "{refused:?}");

    // "channel: the session URI the completion is being requested for."
    let params = json!({ "kind": "userMessage", "channel": session, "text": "look at @no", "offset": 11 });
    let found = reader.client.call("completions", params).await.expect("answered");
    let attachment = &found["items"][0]["attachment"];
    assert_eq!(
        (&attachment["type"], &attachment["uri"]),
        (&json!("resource"), &json!(format!("{directory}/notes.md"))),
        "{found}"
    );
    // "The client MUST preserve every property of _meta … when sending the user message."
    let message = json!({ "text": "look at @notes.md", "attachments": [attachment] });
    reader
        .does(json!({ "type": "session/turnStarted", "turnId": "t1", "userMessage": message }))
        .await;
    reader.ended("t1").await;
    let state = reader.state().await;
    let shown = &state["turns"][0]["userMessage"]["attachments"][0];
    assert_eq!(
        (&shown["label"], &shown["uri"], &shown["_meta"]),
        (&attachment["label"], &attachment["uri"], &attachment["_meta"])
    );

    // "The server SHOULD reject if another client is already active": this host has several active clients, takes the
    // second one too, and shows to each its own entry.
    let mut second = Reader::connect(&host, VERSION, "second", session, Value::Null).await;
    let shown = second.state().await["activeClient"].clone();
    assert_eq!(shown["clientId"], "reader", "{shown}");
    // "The server SHOULD reject if the dispatching client is not the current active client."
    let tools = json!({ "type": "session/activeClientToolsChanged", "tools": [{ "name": "shut" }] });
    let answer = second.dispatch(tools.clone()).await;
    assert!(answer["rejectionReason"].is_string(), "{answer}");
    second
        .does(json!({ "type": "session/activeClientChanged", "activeClient": client("second", "close") }))
        .await;
    assert_eq!(second.state().await["activeClient"]["clientId"], "second");
    reader.does(tools).await;
    let shown = reader.state().await["activeClient"].clone();
    assert_eq!(
        (&shown["clientId"], &shown["tools"]),
        (&json!("reader"), &json!([{ "name": "shut" }]))
    );
    let released = json!({ "type": "session/activeClientChanged", "activeClient": null });
    let echo = second.dispatch(released.clone()).await;
    assert_eq!(
        echo["action"]["activeClient"]["clientId"], "reader",
        "the other one: {echo}"
    );
    reader.does(released).await;
    let state = reader.state().await;
    assert!(state.get("activeClient").is_none_or(Value::is_null), "{state}");
}

/// "The server SHOULD automatically dispatch this action with activeClient: null when the active client disconnects."
#[tokio::test]
async fn the_active_client_of_0_2_is_unset_when_it_disconnects() {
    let host = innkeeper_testkit::process::HostProcess::start(crate::options().limit("grace_ms", 100)).await;
    let session = "ahp-session:/gone";
    let mut reader = Reader::create(&host, VERSION, "reader", session, json!({})).await;
    let mut leaver = Reader::connect(&host, VERSION, "leaver", session, Value::Null).await;
    leaver.state().await;
    let active = json!({ "clientId": "leaver", "tools": [{ "name": "open" }] });
    leaver
        .does(json!({ "type": "session/activeClientChanged", "activeClient": active }))
        .await;
    reader
        .action_with("session/activeClientChanged", |action| {
            action["activeClient"]["clientId"] == "leaver"
        })
        .await;
    reader
        .does(turn_started("t1", r#"/client-tool open {"path": "a.txt"}"#))
        .await;
    let call = reader.action("session/toolCallStart").await;
    assert_eq!(call["toolClientId"], "leaver", "{call}");
    drop(leaver);
    let unset = reader
        .action_with("session/activeClientChanged", |action| action["activeClient"].is_null())
        .await;
    assert_eq!(unset.get("activeClient"), Some(&Value::Null), "{unset}");
    // "Dispatch this action with result.success = false and an appropriate error."
    let complete = reader.action("session/toolCallComplete").await;
    assert_eq!(complete["result"]["success"], false, "{complete}");
    assert!(complete["result"]["error"]["message"].is_string(), "{complete}");
    reader.ended("t1").await;
}
