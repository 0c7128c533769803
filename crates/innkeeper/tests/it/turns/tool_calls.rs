//! Tool calls from start to result, and everything they may wait for.

use ahp::ClientError;
use ahp_types::state::TurnState;
use innkeeper_testkit::official::{OfficialClient, markdown, tool_calls_of};
use serde_json::{Value, json};

use crate::start_with_client;

/// The kinds of actions that came about tool calls, repetitions left out.
fn steps(client: &OfficialClient, chat: &str) -> Vec<String> {
    let actions = client.view().actions_on(chat);
    let kinds = actions.iter().filter_map(|action| action["type"].as_str());
    let mut steps: Vec<String> = kinds
        .filter(|kind| kind.starts_with("chat/toolCall"))
        .map(str::to_owned)
        .collect();
    steps.dedup();
    steps
}

#[tokio::test]
async fn tool_01_tool_10_a_call_streams_input_runs_and_completes() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("tool").await;
    let turn = client.run_turn(&uris.chat, "t1", "/tool").await;
    assert_eq!(
        steps(&client, &uris.chat),
        [
            "chat/toolCallStart",
            "chat/toolCallDelta",
            "chat/toolCallReady",
            "chat/toolCallContentChanged",
            "chat/toolCallComplete"
        ]
    );
    // E-17: the start is the part; a second one would show the call twice.
    let calls = tool_calls_of(&turn);
    let [call] = calls.as_slice() else {
        panic!("one call was expected: {calls:?}");
    };
    assert_eq!(call["status"], "completed");
    assert_eq!(call["toolName"], "look_around");
    assert_eq!(call["toolInput"], r#"{"room": "lobby", "closely": true}"#);
    assert_eq!(
        (&call["success"], &call["confirmed"]),
        (&json!(true), &json!("not-needed"))
    );
    assert!(call.get("contributor").is_none(), "a tool of the host's own");
    assert_eq!(
        call["content"],
        json!([{ "type": "text", "text": "a desk with a bell\na guest book\ntwo armchairs by the fire" }])
    );
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
}

/// Returns one member of all actions of a kind, in order.
fn told<'a>(actions: &'a [Value], kind: &str, member: &str) -> Vec<&'a str> {
    let told = actions.iter().filter(|action| action["type"] == kind);
    told.filter_map(|action| action.pointer(member)?.as_str()).collect()
}

#[tokio::test]
async fn tool_01_a_plan_is_updated_and_shown_as_activity() {
    const STEPS: [&str; 4] = ["Sweep the hall", "Light the fire", "Lay the table", "Open the door"];
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("plan").await;
    let turn = client.run_turn(&uris.chat, "t1", "/plan").await;
    let actions = client.view().actions_on(&uris.chat);
    let lists = told(&actions, "chat/toolCallContentChanged", "/content/0/text");
    let done: Vec<_> = lists.iter().map(|list| list.matches("- [x] ").count()).collect();
    assert_eq!(done, [0, 1, 2, 3], "box by box");
    assert_eq!(told(&actions, "chat/activityChanged", "/activity"), STEPS);
    // TURN-16: subscribers of the session alone see it as well.
    let updates = client.view().actions_on(&uris.session);
    assert_eq!(told(&updates, "session/chatUpdated", "/changes/activity"), STEPS);
    let list = tool_calls_of(&turn)[0]["content"][0]["text"].clone();
    assert_eq!(list.as_str().map(|list| list.matches("- [x] ").count()), Some(4));
    assert_eq!(client.view().chat(&uris.chat).expect("mirrored").activity, None);
    client.assert_converged().await;
}

#[tokio::test]
async fn tool_18_a_risk_assessment_changes_only_the_pending_call() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("judge").await;
    client.start_turn(&uris.chat, "t1", "/confirm").await;
    client
        .until("the judge has an opinion, on the chat and on the session", |view| {
            let waits = view.waits(&uris.session);
            let shown = waits.first().map(|wait| wait["toolCall"]["riskAssessment"].clone());
            let calls = view.tool_calls(&uris.chat);
            let known = calls.first().map(|call| call["riskAssessment"].clone());
            shown == known && known.is_some_and(|known| known["status"] == "complete")
        })
        .await;
    let actions = client.view().actions_on(&uris.chat);
    let asked = actions.iter().find(|action| action["type"] == "chat/toolCallReady");
    let asked = asked.expect("the question came before the verdict");
    assert_eq!(asked["riskAssessment"], json!({ "status": "loading", "kind": "judge" }));
    let judged = client.call_in(&uris.chat, "pending-confirmation").await;
    assert_eq!(judged["riskAssessment"]["reason"], "It is loud, but nothing breaks.");
    assert_eq!(judged["riskAssessment"]["safety"], 0.8);
    let offered = judged["options"].as_array().into_iter().flatten();
    let offered: Vec<_> = offered.map(|option| option["id"].clone()).collect();
    assert_eq!(offered, ["allow-once", "allow-session", "allow-session-every", "deny"]);
    assert_eq!(judged["toolInput"], "{\"times\":3}");
    for member in ["confirmationTitle", "editable", "options", "invocationMessage"] {
        assert_eq!(judged[member], asked[member], "the question itself is the same");
    }
    client.assert_converged().await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn tool_04_e_18_a_result_is_confirmed_before_the_model_gets_it() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("result").await;
    for (number, approved, status, said) in [
        (1, true, "completed", "Thank you for letting me read it"),
        (2, false, "cancelled", "You kept the guest book to yourself"),
    ] {
        let turn_id = format!("t{number}");
        client.start_turn(&uris.chat, &turn_id, "/result").await;
        let pending = client.call_in(&uris.chat, "pending-result-confirmation").await;
        assert!(
            pending["content"][0]["text"]
                .as_str()
                .is_some_and(|text| text.contains("quiet night"))
        );
        let wait = client.wait_for(&uris.session, "toolConfirmation").await;
        assert_eq!(wait["toolCall"]["status"], "pending-result-confirmation");
        // Deciding about the call once more is not deciding about its result.
        client.decide(&wait, json!({ "approved": true })).await;
        assert_eq!(
            client.refusal(number).await,
            "this call is not waiting for a decision: its result waits for a decision"
        );
        client
            .answer(&wait, "chat/toolCallResultConfirmed", json!({ "approved": approved }))
            .await;
        let turn = client.turn_end(&uris.chat, &turn_id).await;
        let call = &tool_calls_of(&turn)[0];
        assert_eq!(call["status"], status, "{call}");
        if !approved {
            assert_eq!(call["reason"], "result-denied");
            assert!(call.get("content").is_none(), "the result is withheld: {call}");
        }
        assert!(markdown(&turn.response_parts).starts_with(said));
        client.nothing_waits(&uris.session).await;
    }
    client.assert_converged().await;
}

fn sign_in(resource: &str, token: &str) -> Value {
    json!({ "channel": "ahp-root://", "resource": resource, "token": token })
}

#[tokio::test]
async fn tool_14_tool_15_a_call_waits_for_a_sign_in() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("auth").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.subscribe(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/auth").await;
    let call = client.call_in(&uris.chat, "auth-required").await;
    assert_eq!(
        call["contributor"],
        json!({ "kind": "mcp", "customizationId": "tour-guest-book" })
    );
    let resource = "https://guest-book.example.com";
    let wait = other.wait_for(&uris.session, "toolAuthentication").await;
    assert_eq!(wait["toolCall"]["auth"]["resource"]["resource"], resource);
    client.assert_converged().await;
    other.assert_converged().await;

    // A token for something else goes nowhere, and is not repeated in the answer (AUTH-12).
    let wrong: Result<Value, ClientError> = other
        .request("authenticate", sign_in("https://elsewhere.example.com", "t0p-secret"))
        .await;
    let wrong = wrong.expect_err("refused").to_string();
    assert!(
        wrong.contains("nothing on this host asks to sign in to this resource"),
        "{wrong}"
    );
    assert!(!wrong.contains("t0p-secret"), "{wrong}");
    // AUTH-05: an empty token takes one back; the call goes on waiting.
    let empty: Value = other
        .request("authenticate", sign_in(resource, ""))
        .await
        .expect("accepted");
    assert_eq!(empty, json!({}));
    // E-25: nothing can have succeeded meanwhile.
    let success = json!({ "result": { "success": true, "pastTenseMessage": "Read it" } });
    other.answer(&wait, "chat/toolCallComplete", success).await;
    assert_eq!(
        other.refusal(1).await,
        "result.success: a call that waits for a user to sign in cannot succeed"
    );
    assert_eq!(client.call_in(&uris.chat, "auth-required").await, call);

    let granted: Value = other
        .request("authenticate", sign_in(resource, "t0p-secret"))
        .await
        .expect("accepted");
    assert_eq!(granted, json!({}));
    let turn = client.turn_end(&uris.chat, "t1").await;
    let call = &tool_calls_of(&turn)[0];
    assert_eq!((&call["status"], &call["success"]), (&json!("completed"), &json!(true)));
    other.nothing_waits(&uris.session).await;
    // AUTH-12: the token is nowhere but with the agent.
    for who in [&client, &other] {
        let seen = format!("{:?}", who.view().actions);
        assert!(!seen.contains("t0p-secret"));
        who.assert_converged().await;
    }
    assert!(!host.log().contains("t0p-secret"));
}

#[tokio::test]
async fn tool_12_any_client_ends_a_pending_sign_in() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("give-up").await;
    client.start_turn(&uris.chat, "t1", "/auth").await;
    client.call_in(&uris.chat, "auth-required").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    let shown = other.call_in(&uris.chat, "auth-required").await;
    assert_eq!(shown["auth"]["resource"]["resource"], "https://guest-book.example.com");
    let wait = other.wait_for(&uris.session, "toolAuthentication").await;
    let failed =
        json!({ "result": { "success": false, "pastTenseMessage": "Gave up", "error": { "message": "no key" } } });
    other.answer(&wait, "chat/toolCallComplete", failed).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    let call = &tool_calls_of(&turn)[0];
    assert_eq!(
        (&call["status"], &call["success"]),
        (&json!("completed"), &json!(false))
    );
    assert_eq!(markdown(&turn.response_parts), "Then the guest book stays locked.");
    other.nothing_waits(&uris.session).await;
    other.turn_end(&uris.chat, "t1").await;
    // E-41: the published types read such a call from a snapshot as something unknown, which no action changes any
    // more. A client that subscribed while it waited needs a fresh snapshot; earlier subscribers do not.
    other.subscribe(&uris.chat).await;
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn auth_04_one_token_serves_every_request_for_its_resource() {
    let (_host, client) = start_with_client().await;
    let one = client.create_session("one").await;
    let two = client.create_session("two").await;
    for uris in [&one, &two] {
        client.start_turn(&uris.chat, "t1", "/auth").await;
        client.wait_for(&uris.session, "toolAuthentication").await;
    }
    let resource = "https://guest-book.example.com";
    let granted: Value = client
        .request("authenticate", sign_in(resource, "t0p-secret"))
        .await
        .expect("accepted");
    assert_eq!(granted, json!({}));
    for uris in [&one, &two] {
        let turn = client.turn_end(&uris.chat, "t1").await;
        assert_eq!(tool_calls_of(&turn)[0]["success"], true);
    }
    // The host keeps it for MCP servers that need it later; a token without a request is rejected.
    let elsewhere = sign_in("https://elsewhere.example.com", "t0p-secret");
    let refused: Result<Value, ClientError> = client.request("authenticate", elsewhere).await;
    refused.expect_err("nothing waits for it");
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_41_an_approval_three_subagents_deep_is_answered_in_the_session() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("subagents").await;
    let phone = OfficialClient::connect(host.address(), "phone").await;
    phone.subscribe(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/subagent 3").await;
    let wait = phone.wait_for(&uris.session, "toolConfirmation").await;
    assert_eq!(wait["toolCall"]["toolName"], "ring_bell");
    let asking = wait["chat"].as_str().expect("a chat").to_owned();
    assert_ne!(asking, uris.chat, "a subagent asks, not the guide");
    // Every level says where the next one is: content of the call that sent it, and an entry in the catalogue.
    let mut chat = uris.chat.clone();
    for level in 1..=3 {
        let call = client.call_in(&chat, "running").await;
        let subagent = &call["content"][0];
        assert_eq!((&subagent["type"], level), (&json!("subagent"), level), "{call}");
        chat = subagent["resource"].as_str().expect("a chat").to_owned();
        client.subscribe(&chat).await;
    }
    assert_eq!(chat, asking);
    let listed = phone.view().session(&uris.session).map(|session| session.chats.len());
    assert_eq!(listed, Some(4), "three subagents and the guide");
    phone
        .decide(&wait, json!({ "approved": true, "selectedOptionId": "allow-once" }))
        .await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts), "3 subagents later, everything is done.");
    client
        .until("the last subagent is done", |view| {
            let chat = view.chat(&asking).expect("mirrored");
            chat.turns.len() == 1 && markdown(&chat.turns[0].response_parts).contains("The bell was rung.")
        })
        .await;
    phone.nothing_waits(&uris.session).await;
    client.assert_converged().await;
    phone.assert_converged().await;
}

#[tokio::test]
async fn lesson_47_after_stop_during_a_tool_the_session_is_usable_again() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("stop").await;
    client.offer(&uris.session, &["open"]).await;
    let cancel = |turn_id: &str| json!({ "type": "chat/turnCancelled", "turnId": turn_id, "duration": 0 });
    // While it runs, while it asks, while its result waits, while it waits for a key, and while a subagent asks.
    for (turn_id, text, status) in [
        ("t1", "/client-tool open", "running"),
        ("t2", "/confirm", "pending-confirmation"),
        ("t3", "/result", "pending-result-confirmation"),
        ("t4", "/auth", "auth-required"),
        ("t5", "/subagent 2", "running"),
    ] {
        client.start_turn(&uris.chat, turn_id, text).await;
        client.call_in(&uris.chat, status).await;
        client.dispatch(&uris.chat, cancel(turn_id)).await;
        let turn = client.turn_end(&uris.chat, turn_id).await;
        assert_eq!(turn.state, TurnState::Cancelled);
        for call in tool_calls_of(&turn) {
            // TURN-06: ended with the turn, without an action of its own.
            assert_eq!(
                (&call["status"], &call["reason"]),
                (&json!("cancelled"), &json!("skipped")),
                "{text}"
            );
        }
        client.nothing_waits(&uris.session).await;
        client
            .until("the session shows no activity", |view| {
                let session = view.session(&uris.session).expect("mirrored");
                session.chats.iter().all(|chat| chat.status & 8 == 0)
            })
            .await;
    }
    let turn = client.run_turn(&uris.chat, "t6", "/tool").await;
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
}
