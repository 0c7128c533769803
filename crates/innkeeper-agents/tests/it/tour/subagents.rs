//! Subagents, background work and remembered history of the tour agent.

use ahp_types::state::TurnState;
use innkeeper_testkit::embedded::SessionFixture;
use innkeeper_testkit::official::{View, markdown};
use serde_json::{Value, json};

use super::tour;

/// Returns the chats of the session besides the default one.
fn others(fixture: &SessionFixture) -> Vec<String> {
    let view = fixture.client.view();
    let session = view.session(&fixture.uris.session).expect("mirrored");
    let chats = session.chats.iter().map(|chat| chat.resource.clone());
    chats.filter(|chat| *chat != fixture.uris.chat).collect()
}

/// Returns the input that the session needs, as JSON.
async fn needed(fixture: &SessionFixture) -> Value {
    fixture
        .client
        .until("input is needed", |view| {
            let session = view.session(&fixture.uris.session).expect("mirrored");
            session.input_needed.as_ref().is_some_and(|needed| !needed.is_empty())
        })
        .await;
    let session = fixture.client.view().session(&fixture.uris.session).cloned();
    let needed = session
        .and_then(|session| session.input_needed)
        .expect("it was just there");
    serde_json::to_value(&needed[0]).expect("JSON")
}

#[tokio::test]
async fn cht12_ses18_nested_subagents_ask_through_their_session() {
    let fixture = tour().await;
    fixture.begin("/subagent 3").await;
    let request = needed(&fixture).await;
    assert_eq!(others(&fixture).len(), 3);
    let chat = request["chat"].as_str().expect("the chat that asks").to_owned();
    assert_ne!(chat, fixture.uris.chat);
    let action = json!({
        "type": "chat/toolCallConfirmed", "approved": true, "turnId": request["turnId"],
        "toolCallId": request["toolCall"]["toolCallId"],
    });
    fixture.client.dispatch(&chat, action).await;
    assert_eq!(fixture.words().await, "3 subagents later, everything is done.");
    for chat in others(&fixture) {
        fixture.client.subscribe(&chat).await;
        let turn = fixture.client.view().chat(&chat).expect("mirrored").turns[0].clone();
        assert_eq!(turn.state, TurnState::Complete);
        assert!(markdown(&turn.response_parts).ends_with("Done."));
    }
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn cht13_subagents_nested_too_deeply_are_refused() {
    let fixture = tour().await;
    fixture.begin("/subagent 32").await;
    let words = fixture.words().await;
    assert!(words.starts_with("No subagent could be started: "), "{words}");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn cht25_cancelling_a_turn_cancels_its_subagents_at_every_depth() {
    let fixture = tour().await;
    fixture.begin("/subagent 2").await;
    needed(&fixture).await;
    fixture.cancel().await;
    for chat in others(&fixture) {
        fixture.client.subscribe(&chat).await;
        fixture
            .client
            .until("the subagent is cancelled", |view| {
                let chat = view.chat(&chat).expect("mirrored");
                chat.turns.last().is_some_and(|turn| turn.state == TurnState::Cancelled)
            })
            .await;
    }
    let turn = fixture.client.run_turn(&fixture.uris.chat, "t2", "hello").await;
    assert_eq!(turn.state, TurnState::Complete);
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn cht24_background_work_is_shown_until_it_ends() {
    let fixture = tour().await;
    fixture.begin("/background 1").await;
    fixture.end().await;
    let work = |view: &View| {
        let chat = view.chat(&fixture.uris.chat).expect("mirrored");
        let chat = serde_json::to_value(chat).expect("JSON");
        chat["backgroundWork"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(work(&fixture.client.view()), 2, "the plants and the night watch");
    fixture.client.until("both are over", |view| work(view) == 0).await;
    let watch = others(&fixture).remove(0);
    fixture.client.subscribe(&watch).await;
    let turn = fixture.client.view().chat(&watch).expect("mirrored").turns[0].clone();
    assert_eq!(turn.state, TurnState::Complete);
    assert_eq!(markdown(&turn.response_parts), "All is quiet. Good morning.");
    fixture.client.assert_converged().await;
}

/// A fork remembers the messages before it, and nothing else (CHT-05).
#[tokio::test]
async fn trc05_cht05_the_tour_remembers_exactly_the_history_it_is_given() {
    let fixture = tour().await;
    let chat = &fixture.uris.chat;
    fixture.client.run_turn(chat, "t1", "good evening").await;
    fixture.client.run_turn(chat, "t2", "good night").await;
    let fork = json!({
        "channel": fixture.uris.session, "chat": "ahp-chat:/fork",
        "source": { "kind": "fork", "chat": chat, "turnId": "t1" },
    });
    let created: Value = fixture.client.request("createChat", fork).await.expect("forked");
    assert_eq!(created, Value::Null);
    fixture.client.subscribe("ahp-chat:/fork").await;
    let turn = fixture
        .client
        .run_turn("ahp-chat:/fork", "f1", "do you remember?")
        .await;
    assert_eq!(
        markdown(&turn.response_parts),
        "I remember that you said:\n\n- good evening\n"
    );
    let truncate = json!({ "type": "chat/truncated", "turnId": "t1" });
    fixture.client.dispatch(chat, truncate).await;
    let turn = fixture.client.run_turn(chat, "t3", "do you remember?").await;
    assert_eq!(
        markdown(&turn.response_parts),
        "I remember that you said:\n\n- good evening\n"
    );
    fixture.client.assert_converged().await;
}
