//! Decisions about tool calls: allowed clients, and allowed contents.

use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, decided_by, markdown, tool_calls_of};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use crate::{options, start_with_client};

/// A decision for one of the choices.
pub(crate) fn allow(option: &str) -> Value {
    json!({ "approved": true, "selectedOptionId": option })
}

/// Starts `/confirm`, gives one answer, and returns what the guide said and the call.
async fn confirm(
    client: &OfficialClient,
    chat: &str,
    session: &str,
    turn_id: &str,
    decision: Value,
) -> (String, Value) {
    client.start_turn(chat, turn_id, "/confirm").await;
    let wait = client.wait_for(session, "toolConfirmation").await;
    client.decide(&wait, decision).await;
    let turn = client.turn_end(chat, turn_id).await;
    let call = tool_calls_of(&turn).remove(0);
    (markdown(&turn.response_parts), call)
}

#[tokio::test]
async fn tool_04_tool_06_a_call_is_allowed_denied_or_given_another_input() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("confirm").await;
    let (chat, session) = (uris.chat.as_str(), uris.session.as_str());

    let (said, call) = confirm(&client, chat, session, "t1", json!({ "approved": true })).await;
    assert_eq!(said, "I rang the bell 3 times, because the client `first` said yes.");
    assert_eq!(
        (&call["status"], &call["confirmed"]),
        (&json!("completed"), &json!("user-action"))
    );

    let edited = json!({ "approved": true, "editedToolInput": "{\"times\": 5}" });
    let (said, call) = confirm(&client, chat, session, "t2", edited).await;
    assert!(said.starts_with("I rang the bell 5 times"), "{said}");
    assert_eq!(call["toolInput"], "{\"times\": 5}", "every client sees what really ran");

    let denied = json!({ "approved": false, "selectedOptionId": "deny", "reasonMessage": "the baby sleeps" });
    let (said, call) = confirm(&client, chat, session, "t3", denied).await;
    assert_eq!(said, "No bell, then: the client `first` said no (the baby sleeps).");
    assert_eq!(
        (&call["status"], &call["reason"]),
        (&json!("cancelled"), &json!("denied"))
    );

    let instead = json!({
        "approved": false,
        "userSuggestion": { "text": "knock softly", "origin": { "kind": "user" } },
    });
    let (said, call) = confirm(&client, chat, session, "t4", instead).await;
    assert!(said.ends_with("said no (knock softly)."), "{said}");
    assert_eq!(call["userSuggestion"]["text"], "knock softly");

    // The tool judges an edited input.
    let nonsense = json!({ "approved": true, "editedToolInput": "{\"times\": \"many\"}" });
    let (said, call) = confirm(&client, chat, session, "t5", nonsense).await;
    assert_eq!(said, "I could not make sense of the input you gave me.");
    assert_eq!(
        (&call["status"], &call["success"]),
        (&json!("completed"), &json!(false)),
        "TOOL-10"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn tool_08_e_22_a_confirmation_must_match_the_offered_options() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("misfits").await;
    client.start_turn(&uris.chat, "t1", "/options").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    for (number, (decision, reason)) in [
        (
            json!({ "approved": true, "selectedOptionId": "allow-session" }),
            "selectedOptionId: \"allow-session\" was not offered; choose one of: softly, loudly, later, never",
        ),
        (
            json!({ "approved": true, "selectedOptionId": "never" }),
            "selectedOptionId: \"Never again\" does not go with approved: true",
        ),
        (
            json!({ "approved": false, "selectedOptionId": "loudly" }),
            "selectedOptionId: \"Loudly\" does not go with approved: false",
        ),
        (
            json!({ "approved": true, "editedToolInput": "{\"times\": 100}" }),
            "editedToolInput: the input of this call cannot be edited",
        ),
        (
            json!({ "approved": false, "userSuggestion": { "text": "psst", "origin": { "kind": "agent" } } }),
            "userSuggestion: clients write messages of kind user only",
        ),
        (
            json!({ "approved": false, "reason": "result-denied" }),
            "reason: result-denied is for results; use chat/toolCallResultConfirmed",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        client.decide(&wait, decision).await;
        assert_eq!(client.refusal(number + 1).await, reason);
    }
    let mut unknown = wait.clone();
    unknown["toolCall"]["toolCallId"] = json!("unknown");
    client.decide(&unknown, json!({ "approved": true })).await;
    assert_eq!(client.refusal(7).await, "there is no such tool call in this turn");
    unknown["turnId"] = json!("t0");
    client.decide(&unknown, json!({ "approved": true })).await;
    assert_eq!(client.refusal(8).await, "the turn of this tool call is not running");
    // A rejected decision changes nothing: the question is unchanged.
    assert_eq!(client.wait_for(&uris.session, "toolConfirmation").await, wait);
    client.decide(&wait, allow("softly")).await;
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn tool_09_an_agents_own_choices_come_in_order_and_in_groups() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("options").await;
    for (turn_id, approved, choice) in [("t1", true, "loudly"), ("t2", false, "later")] {
        client.start_turn(&uris.chat, turn_id, "/options").await;
        let wait = client.wait_for(&uris.session, "toolConfirmation").await;
        assert_eq!(
            wait["toolCall"]["options"],
            json!([
                { "id": "softly", "label": "Softly", "kind": "approve", "group": 0 },
                { "id": "loudly", "label": "Loudly", "kind": "approve", "group": 0 },
                { "id": "later", "label": "Not now", "kind": "deny", "group": 1 },
                { "id": "never", "label": "Never again", "kind": "deny", "group": 1 },
            ])
        );
        let decision = json!({ "approved": approved, "selectedOptionId": choice });
        client.decide(&wait, decision).await;
        let turn = client.turn_end(&uris.chat, turn_id).await;
        assert_eq!(markdown(&turn.response_parts), format!("You chose *{choice}*."));
        assert_eq!(tool_calls_of(&turn)[0]["selectedOption"]["id"], choice);
    }
    // Such choices are the agent's to remember, not the host's.
    assert_eq!(client.view().setting(&uris.session, "approvedTools"), json!([]));
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_43_of_two_concurrent_decisions_one_wins_and_both_clients_see_it() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("race").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    let mut refusals = 0;
    for round in 1..=3 {
        let turn_id = format!("t{round}");
        client.start_turn(&uris.chat, &turn_id, "/confirm").await;
        let wait = client.wait_for(&uris.session, "toolConfirmation").await;
        other.wait_for(&uris.session, "toolConfirmation").await;
        tokio::join!(
            client.decide(&wait, json!({ "approved": true })),
            other.decide(&wait, json!({ "approved": false, "reasonMessage": "I am first" })),
        );
        let mine = client.turn_end(&uris.chat, &turn_id).await;
        let theirs = other.turn_end(&uris.chat, &turn_id).await;
        assert_eq!(mine, theirs);
        let call = tool_calls_of(&mine).remove(0);
        let (winner, loser) = match call["status"].as_str() {
            Some("completed") => (&client, &other),
            Some("cancelled") => (&other, &client),
            status => panic!("decided, but {status:?}"),
        };
        assert_eq!(decided_by(&call), Some(winner.client_id.as_str()));
        winner.caught_up().await;
        loser.caught_up().await;
        assert!(
            client.view().refusals.is_empty(),
            "to allow what was denied changes nothing"
        );
        let denials_too_late = usize::from(call["status"] == "completed");
        refusals += denials_too_late;
        assert_eq!(other.view().refusals.len(), refusals, "who said no in vain is told");
        let Some(reason) = other
            .view()
            .refusals
            .last()
            .filter(|_| denials_too_late == 1)
            .and_then(|told| told.rejection_reason.clone())
        else {
            continue;
        };
        // The reason depends on whether the turn was over already.
        assert!(
            reason.starts_with("this call is not waiting for a decision: ")
                || reason.starts_with("the turn of this tool call is not running"),
            "{reason}"
        );
    }
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn lesson_39_several_approvals_wait_at_once_and_are_answered_separately() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("parallel").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.subscribe(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/parallel 6").await;
    for who in [&client, &other] {
        who.until("six questions are there", |view| view.waits(&uris.session).len() == 6)
            .await;
    }
    let waits = other.view().waits(&uris.session);
    // In another order than they were asked in, and by two clients.
    for (index, wait) in waits.iter().enumerate().rev() {
        let who = if index % 2 == 0 { &client } else { &other };
        let approved = index % 3 != 0;
        who.decide(wait, json!({ "approved": approved })).await;
        let id = wait["id"].clone();
        client
            .until("the answered one is gone and no other", |view| {
                let left = view.waits(&uris.session);
                left.len() == index && left.iter().all(|left| left["id"] != id)
            })
            .await;
    }
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(
        markdown(&turn.response_parts),
        "4 of 6 errands were allowed and are done."
    );
    for (index, wait) in waits.iter().enumerate() {
        let calls = tool_calls_of(&turn);
        let call = calls
            .iter()
            .find(|call| call["toolCallId"] == wait["toolCall"]["toolCallId"]);
        let call = call.expect("the call is in the turn");
        let status = if index % 3 == 0 { "cancelled" } else { "completed" };
        assert_eq!(call["status"], status);
        let who = if index % 2 == 0 { "first" } else { "other" };
        assert_eq!(decided_by(call), Some(who));
    }
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn lesson_40_a_new_client_answers_an_earlier_question() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("before").await;
    client.start_turn(&uris.chat, "t1", "/confirm").await;
    let asked = client.wait_for(&uris.session, "toolConfirmation").await;
    // The client that requested it is disconnected.
    client.cut().await;
    let newcomer = OfficialClient::connect(host.address(), "newcomer").await;
    newcomer.join(&uris.session).await;
    let wait = newcomer.view().waits(&uris.session).remove(0);
    assert_eq!(wait["id"], asked["id"], "in the first snapshot of the session");
    let status = newcomer.view().chat(&uris.chat).expect("mirrored").status;
    assert_eq!(status & 24, 24, "input is needed (E-26)");
    newcomer.decide(&wait, allow("allow-once")).await;
    newcomer.turn_end(&uris.chat, "t1").await;
    let resumed = client.reconnect().await.expect("reconnect succeeds");
    assert!(
        matches!(resumed, ReconnectOutcome::Replay { actions: 1.., .. }),
        "{resumed:?}"
    );
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(decided_by(&tool_calls_of(&turn)[0]), Some("newcomer"));
    client.assert_converged().await;
    newcomer.assert_converged().await;
}

#[tokio::test]
async fn lesson_44_an_approval_is_answered_after_a_replay_or_a_snapshot() {
    for window in [8 << 20, 0] {
        let host = HostProcess::start(options().limit("replay_channel_bytes", window)).await;
        let mut client = OfficialClient::connect(host.address(), "first").await;
        let uris = client.create_session("back").await;
        let other = OfficialClient::connect(host.address(), "other").await;
        other.join(&uris.session).await;
        client.start_turn(&uris.chat, "t1", "/options").await;
        let wait = client.wait_for(&uris.session, "toolConfirmation").await;
        client.cut().await;
        let title = json!({ "type": "session/titleChanged", "title": "meanwhile" });
        other.dispatch(&uris.session, title).await;
        other.caught_up().await;
        let resumed = client.reconnect().await.expect("reconnect succeeds");
        assert_eq!(
            matches!(resumed, ReconnectOutcome::Replay { .. }),
            window > 0,
            "{resumed:?}"
        );
        assert_eq!(client.wait_for(&uris.session, "toolConfirmation").await, wait);
        client.decide(&wait, allow("softly")).await;
        let turn = client.turn_end(&uris.chat, "t1").await;
        assert_eq!(tool_calls_of(&turn)[0]["status"], "completed");
        other.turn_end(&uris.chat, "t1").await;
        client.assert_converged().await;
        other.assert_converged().await;
    }
}
