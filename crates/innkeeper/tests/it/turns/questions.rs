//! Questions: asked in the turn, shown on the session, answered together.

use ahp_types::state::{ResponsePart, Turn, TurnState};
use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown};
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::start_with_client;

/// Starts `/ask` and returns the question as the session shows it.
async fn asked(client: &OfficialClient, uris: &SessionUris, turn_id: &str, text: &str) -> Value {
    client.start_turn(&uris.chat, turn_id, text).await;
    client.wait_for(&uris.session, "chatInput").await
}

fn draft(wait: &Value, question: &str, value: Value) -> Value {
    json!({
        "type": "chat/inputAnswerChanged",
        "requestId": wait["request"]["id"],
        "questionId": question,
        "answer": { "state": "draft", "value": value },
    })
}

fn completed(wait: &Value, response: &str, answers: Value) -> Value {
    json!({
        "type": "chat/inputCompleted",
        "requestId": wait["request"]["id"],
        "response": response,
        "answers": answers,
    })
}

fn submitted(value: Value) -> Value {
    json!({ "state": "submitted", "value": value })
}

/// The question part of a turn, as JSON.
fn part(turn: &Turn) -> Value {
    let parts = turn.response_parts.iter();
    let mut questions = parts.filter(|part| matches!(part, ResponsePart::InputRequest(_)));
    let part = questions.next().expect("the turn has a question");
    serde_json::to_value(part).expect("parts are JSON")
}

#[tokio::test]
async fn inp_07_inp_06_all_six_kinds_are_asked_and_answered() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("six").await;
    let wait = asked(&client, &uris, "t1", "/ask").await;
    let questions = wait["request"]["questions"].as_array().expect("questions");
    let kinds: Vec<_> = questions.iter().map(|question| question["kind"].as_str()).collect();
    assert_eq!(
        kinds,
        ["text", "number", "integer", "boolean", "single-select", "multi-select"].map(Some)
    );
    assert_eq!(
        (&questions[0]["id"], &questions[0]["required"]),
        (&json!("name"), &json!(true))
    );
    let status = client.view().chat(&uris.chat).expect("mirrored").status;
    assert_eq!(status & 24, 24, "input is needed (INP-03)");
    let answers = json!({
        "name": submitted(json!({ "kind": "text", "value": "Ada" })),
        "height": submitted(json!({ "kind": "number", "value": 1.75 })),
        "nights": submitted(json!({ "kind": "number", "value": 3 })),
        "pet": submitted(json!({ "kind": "boolean", "value": false })),
        "room": submitted(json!({ "kind": "selected", "value": "garden" })),
        "meals": submitted(json!({ "kind": "selected-many", "value": ["breakfast", "supper"] })),
    });
    client
        .dispatch(&uris.chat, completed(&wait, "accept", answers.clone()))
        .await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    let said = markdown(&turn.response_parts);
    for line in [
        "- name: Ada\n",
        "- height: 1.75\n",
        "- nights: 3\n",
        "- pet: no\n",
        "- room: garden\n",
        "- meals: breakfast, supper\n",
    ] {
        assert!(said.contains(line), "{line:?} in {said:?}");
    }
    // INP-04: the part stays where it was, with the response and the answers.
    let part = part(&turn);
    assert_eq!(part["response"], "accept");
    assert_eq!(part["request"]["answers"]["name"], answers["name"]);
    client.nothing_waits(&uris.session).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn inp_04_inp_09_drafts_are_shared_by_clients_and_merged_into_the_answer() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("drafts").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    let wait = asked(&client, &uris, "t1", "/ask").await;
    other.wait_for(&uris.session, "chatInput").await;
    let name = |text: &str| json!({ "kind": "text", "value": text });
    client.dispatch(&uris.chat, draft(&wait, "name", name("Ad"))).await;
    client.dispatch(&uris.chat, draft(&wait, "name", name("Ada"))).await;
    let pet = json!({ "kind": "boolean", "value": true });
    other.dispatch(&uris.chat, draft(&wait, "pet", pet)).await;
    for who in [&client, &other] {
        who.until("both drafts are seen, on the session too", |view| {
            let shown = view.waits(&uris.session);
            let answers = shown.first().map(|wait| wait["request"]["answers"].clone());
            answers.is_some_and(|answers| {
                answers["name"]["value"]["value"] == "Ada" && answers["pet"]["value"]["value"] == true
            })
        })
        .await;
        who.assert_converged().await;
    }
    // A draft is taken back by leaving the answer out.
    let clear = json!({
        "type": "chat/inputAnswerChanged", "requestId": wait["request"]["id"], "questionId": "pet",
    });
    client.dispatch(&uris.chat, clear).await;
    other
        .until("the draft is gone", |view| {
            view.waits(&uris.session)[0]["request"]["answers"].get("pet").is_none()
        })
        .await;
    let nights = json!({ "nights": submitted(json!({ "kind": "number", "value": 2 })) });
    other.dispatch(&uris.chat, completed(&wait, "accept", nights)).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(
        markdown(&turn.response_parts),
        "Thank you. I wrote down:\n\n- name: Ada\n- nights: 2\n"
    );
    other.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn inp_05_invalid_answers_are_rejected_and_the_first_completion_wins() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("misfits").await;
    let wait = asked(&client, &uris, "t1", "/ask").await;
    let cases = [
        (
            draft(&wait, "name", json!({ "kind": "number", "value": 1 })),
            "answer of question \"name\": this question takes text",
        ),
        (
            draft(&wait, "nights", json!({ "kind": "number", "value": 1.5 })),
            "answer of question \"nights\": this question takes a whole number",
        ),
        (
            draft(&wait, "room", json!({ "kind": "selected", "value": "attic" })),
            "answer of question \"room\": \"attic\" is not one of the options",
        ),
        (
            draft(&wait, "meals", json!({ "kind": "selected", "value": "lunch" })),
            "answer of question \"meals\": this question takes a list of its options",
        ),
        (
            draft(&wait, "shoes", json!({ "kind": "text", "value": "41" })),
            "there is no question \"shoes\" in this request",
        ),
        (
            completed(
                &wait,
                "accept",
                json!({ "pet": submitted(json!({ "kind": "text", "value": "a cat" })) }),
            ),
            "answers[\"pet\"]: this question takes true or false",
        ),
    ];
    for (number, (action, reason)) in cases.into_iter().enumerate() {
        client.dispatch(&uris.chat, action).await;
        assert_eq!(client.refusal(number + 1).await, reason);
    }
    // A subscriber of the session alone may answer; the second answer comes too late.
    let phone = OfficialClient::connect(host.address(), "phone").await;
    phone.subscribe(&uris.session).await;
    let shown = phone.wait_for(&uris.session, "chatInput").await;
    assert_eq!(shown, wait, "what was refused left no trace");
    let ada = json!({ "name": submitted(json!({ "kind": "text", "value": "Ada" })) });
    phone.dispatch(&uris.chat, completed(&shown, "accept", ada)).await;
    phone.dispatch(&uris.chat, completed(&shown, "cancel", json!({}))).await;
    assert_eq!(
        phone.refusal(1).await,
        "no such question is open: it was answered already, or its turn is over"
    );
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(part(&turn)["response"], "accept");
    client.assert_converged().await;
    phone.assert_converged().await;
}

#[tokio::test]
async fn inp_06_inp_08_decline_and_cancel_are_distinct_for_forms_and_pages() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("responses").await;
    for (number, (text, response, said)) in [
        ("/ask", "decline", "You would rather not say. That is fine."),
        ("/ask", "cancel", "Another time, then."),
        ("/ask url", "accept", "Thank you for signing."),
        ("/ask url", "decline", "You did not want to sign. That is fine."),
        ("/ask url", "cancel", "Another time, then."),
    ]
    .into_iter()
    .enumerate()
    {
        let turn_id = format!("t{number}");
        let wait = asked(&client, &uris, &turn_id, text).await;
        if text == "/ask url" {
            assert_eq!(wait["request"]["url"], "https://example.com/guest-book");
            assert!(wait["request"].get("questions").is_none());
        }
        let mut action = completed(&wait, response, Value::Null);
        action.as_object_mut().expect("an object").remove("answers");
        client.dispatch(&uris.chat, action).await;
        let turn = client.turn_end(&uris.chat, &turn_id).await;
        assert_eq!(markdown(&turn.response_parts), said);
        assert_eq!(part(&turn)["response"], response);
        client.nothing_waits(&uris.session).await;
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn turn_07_a_question_is_abandoned_when_its_turn_ends() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("abandoned").await;
    let wait = asked(&client, &uris, "t1", "/ask").await;
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
    client.dispatch(&uris.chat, cancel).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(turn.state, TurnState::Cancelled);
    assert!(part(&turn).get("response").is_none(), "no user answered it");
    client.nothing_waits(&uris.session).await;
    client.dispatch(&uris.chat, completed(&wait, "accept", json!({}))).await;
    assert_eq!(
        client.refusal(1).await,
        "no such question is open: it was answered already, or its turn is over"
    );
    let turn = client.run_turn(&uris.chat, "t2", "hello").await;
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
}

#[tokio::test]
async fn inp_09_a_question_outlives_the_connection_of_its_client() {
    let (_host, mut client) = start_with_client().await;
    let uris = client.create_session("patient").await;
    let wait = asked(&client, &uris, "t1", "/ask").await;
    let half = draft(&wait, "name", json!({ "kind": "text", "value": "half a na" }));
    client.dispatch(&uris.chat, half).await;
    client.caught_up().await;
    client.cut().await;
    client.reconnect().await.expect("reconnect succeeds");
    let again = client.wait_for(&uris.session, "chatInput").await;
    assert_eq!(again["request"]["answers"]["name"]["value"]["value"], "half a na");
    client
        .dispatch(&uris.chat, completed(&again, "accept", json!({})))
        .await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert!(markdown(&turn.response_parts).contains("- name: half a na\n"));
    client.assert_converged().await;
}

/// JavaScript shows no difference; readers of the text and schema checks for integers do.
#[tokio::test]
async fn inp_07_numbers_in_answers_are_written_as_their_client_wrote_them() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("numbers").await;
    let wait = asked(&client, &uris, "t1", "/ask").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    raw.call_for_text("subscribe", json!({ "channel": uris.chat })).await;
    let nights = draft(&wait, "nights", json!({ "kind": "number", "value": 3 }));
    client.dispatch(&uris.chat, nights).await;
    let height = draft(&wait, "height", json!({ "kind": "text", "value": "2.5" }));
    client.dispatch(&uris.chat, height).await;
    client.caught_up().await;
    let channel = json!({ "channel": uris.chat });
    let mut other = RawClient::initialized(host.address(), "other").await;
    let snapshot = other.call_for_text("subscribe", channel).await;
    for wanted in [r#"{"kind":"number","value":3}"#, r#"{"kind":"number","value":2.5}"#] {
        assert!(snapshot.contains(wanted), "{wanted} in {snapshot}");
    }
    client.dispatch(&uris.chat, completed(&wait, "cancel", json!({}))).await;
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
}
