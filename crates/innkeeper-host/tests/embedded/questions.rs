//! Questions to users, and steering messages in the middle of a turn.

use std::time::Duration;

use innkeeper_host::agent::{AnswerValue, Choice, Form, Response};
use innkeeper_testkit::embedded::SessionFixture;
use serde_json::{Value, json};

#[tokio::test]
async fn inp07_a_form_with_every_kind_of_question_comes_back_as_it_was_answered() {
    let fixture = SessionFixture::of(|_, events| async move {
        let rooms = [Choice::new("garden", "Garden"), Choice::new("street", "Street")];
        let form = Form::new("Your stay")
            .text("name", "Name?")
            .required()
            .number("height", "Height?")
            .integer("nights", "Nights?")
            .boolean("pet", "Pet?")
            .one("room", "Room?", rooms.clone())
            .many("rooms", "Rooms?", rooms);
        let answer = events.ask(form).await?;
        assert_eq!(answer.response, Response::Accept);
        let values = &answer.values;
        assert_eq!(values["name"], AnswerValue::Text("Ada".to_owned()));
        assert_eq!(values["height"], AnswerValue::Number(1.75));
        assert_eq!(values["nights"], AnswerValue::Number(3.0));
        assert_eq!(values["pet"], AnswerValue::Boolean(true));
        let chosen = |ids: &[&str]| AnswerValue::Selected {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            freeform: Vec::new(),
        };
        assert_eq!(values["room"], chosen(&["garden"]));
        assert_eq!(values["rooms"], chosen(&["garden", "street"]));
        events.text("thank you").await
    })
    .await;
    fixture.begin("go").await;
    let request = fixture.question().await;
    assert_eq!(request["questions"].as_array().map(Vec::len), Some(6));
    assert_eq!(request["questions"][0]["required"], true);
    let submitted = |value: Value| json!({ "state": "submitted", "value": value });
    let action = json!({
        "type": "chat/inputCompleted", "requestId": request["id"], "response": "accept",
        "answers": {
            "name": submitted(json!({ "kind": "text", "value": "Ada" })),
            "height": submitted(json!({ "kind": "number", "value": 1.75 })),
            "nights": submitted(json!({ "kind": "number", "value": 3 })),
            "pet": submitted(json!({ "kind": "boolean", "value": true })),
            "room": submitted(json!({ "kind": "selected", "value": "garden" })),
            "rooms": submitted(json!({ "kind": "selected-many", "value": ["garden", "street"] })),
        },
    });
    fixture.client.dispatch(&fixture.uris.chat, action).await;
    assert_eq!(fixture.words().await, "thank you");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn inp08_a_user_opens_a_page_and_confirms_the_return() {
    for (response, expected) in [("accept", "Accept"), ("decline", "Decline"), ("cancel", "Cancel")] {
        let fixture = SessionFixture::of(|_, events| async move {
            let response = events.ask_url("Sign in there", "https://example.com/in").await?;
            events.text(format!("{response:?}")).await
        })
        .await;
        fixture.begin("go").await;
        let request = fixture.question().await;
        assert_eq!(request["url"], "https://example.com/in");
        let action = json!({ "type": "chat/inputCompleted", "requestId": request["id"], "response": response });
        fixture.client.dispatch(&fixture.uris.chat, action).await;
        assert_eq!(fixture.words().await, expected);
        fixture.client.assert_converged().await;
    }
}

async fn steer(fixture: &SessionFixture, id: &str, text: &str) {
    let message = json!({ "text": text, "origin": { "kind": "user" } });
    let action = json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": id, "message": message });
    fixture.client.dispatch(&fixture.uris.chat, action).await;
}

#[tokio::test]
async fn pend04_an_agent_receives_a_steering_message_once() {
    let fixture = SessionFixture::of(|_, events| async move {
        assert_eq!(events.steering().await?, None);
        events.text("listening ").await?;
        let heard = loop {
            if let Some(text) = events.steering().await? {
                break text;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(events.steering().await?, None, "it counts as heard");
        events.text(heard).await
    })
    .await;
    fixture.begin("go").await;
    fixture.client.running_text(&fixture.uris.chat, 1).await;
    steer(&fixture, "s1", "to the left").await;
    assert_eq!(fixture.words().await, "listening to the left");
    let chat = fixture
        .client
        .view()
        .chat(&fixture.uris.chat)
        .cloned()
        .expect("mirrored");
    assert!(chat.steering_message.is_none());
    fixture.client.assert_converged().await;
}

/// Giving up on a steering message in the very moment it comes loses no message (PEND-04).
#[tokio::test]
async fn pend04_a_steering_message_survives_a_dropped_wait() {
    let fixture = SessionFixture::of(|_, events| async move {
        events.text("listening ").await?;
        loop {
            // Polled once and dropped: the answer arrives when no caller waits for it.
            let dropped = tokio::time::timeout(Duration::ZERO, events.steering()).await;
            if let Ok(heard) = dropped
                && let Some(text) = heard?
            {
                return events.text(text).await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    fixture.begin("go").await;
    fixture.client.running_text(&fixture.uris.chat, 1).await;
    steer(&fixture, "s1", "to the right").await;
    assert_eq!(fixture.words().await, "listening to the right");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn inp01_a_question_that_is_given_up_is_taken_back() {
    let fixture = SessionFixture::of(|_, events| async move {
        let timeout = Duration::from_millis(50);
        let asked = tokio::time::timeout(timeout, events.ask(Form::new("Quickly!").text("word", "Which?"))).await;
        assert!(asked.is_err(), "no answer");
        events.text("never mind").await
    })
    .await;
    fixture.begin("go").await;
    let parts = fixture.end().await;
    assert_eq!(parts[0]["response"], "cancel", "{parts:?}");
    assert_eq!(parts[1]["content"], "never mind");
    fixture.client.assert_converged().await;
}
