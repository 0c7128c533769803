//! Workers and background work, through the published client.

use std::sync::Arc;

use ahp_types::state::TurnState;
use innkeeper_host::{AgentError, Background, Host, ToolResult, TourAgent, WorkerEnd, WorkerSpec};
use innkeeper_testkit::official::markdown;
use serde_json::{Value, json};

use crate::scripted::Scene;

/// The chats of the session besides the default one.
fn others(scene: &Scene) -> Vec<String> {
    let view = scene.client.view();
    let session = view.session(&scene.uris.session).expect("mirrored");
    let chats = session.chats.iter().map(|chat| chat.resource.clone());
    chats.filter(|chat| *chat != scene.uris.chat).collect()
}

/// What the session waits for, as JSON.
async fn needed(scene: &Scene) -> Value {
    scene
        .client
        .until("somebody is needed", |view| {
            let session = view.session(&scene.uris.session).expect("mirrored");
            session.input_needed.as_ref().is_some_and(|needed| !needed.is_empty())
        })
        .await;
    let session = scene.client.view().session(&scene.uris.session).cloned();
    let needed = session
        .and_then(|session| session.input_needed)
        .expect("it was just there");
    serde_json::to_value(&needed[0]).expect("JSON")
}

#[tokio::test]
async fn cht12_ses18_helpers_below_one_another_ask_through_their_session() {
    let scene = Scene::with(Host::builder().agent(TourAgent::new())).await;
    scene.begin("/subagent 3").await;
    let request = needed(&scene).await;
    assert_eq!(others(&scene).len(), 3);
    let chat = request["chat"].as_str().expect("the chat that asks").to_owned();
    assert_ne!(chat, scene.uris.chat);
    let action = json!({
        "type": "chat/toolCallConfirmed", "approved": true, "turnId": request["turnId"],
        "toolCallId": request["toolCall"]["toolCallId"],
    });
    scene.client.dispatch(&chat, action).await;
    assert_eq!(scene.words().await, "3 helpers later, everything is done.");
    for chat in others(&scene) {
        scene.client.subscribe(&chat).await;
        let turn = scene.client.view().chat(&chat).expect("mirrored").turns[0].clone();
        assert_eq!(turn.state, TurnState::Complete);
        assert!(markdown(&turn.response_parts).ends_with("Done."));
    }
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn cht13_helpers_that_would_be_too_deep_are_refused_in_words() {
    let scene = Scene::with(Host::builder().agent(TourAgent::new())).await;
    scene.begin("/subagent 32").await;
    let words = scene.words().await;
    assert!(words.starts_with("No helper could be sent: "), "{words}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn cht25_cancelling_a_turn_cancels_its_helpers_at_every_depth() {
    let scene = Scene::with(Host::builder().agent(TourAgent::new())).await;
    scene.begin("/subagent 2").await;
    needed(&scene).await;
    scene.cancel().await;
    for chat in others(&scene) {
        scene.client.subscribe(&chat).await;
        scene
            .client
            .until("the helper is cancelled", |view| {
                let chat = view.chat(&chat).expect("mirrored");
                chat.turns.last().is_some_and(|turn| turn.state == TurnState::Cancelled)
            })
            .await;
    }
    let turn = scene.client.run_turn(&scene.uris.chat, "t2", "hello").await;
    assert_eq!(turn.state, TurnState::Complete);
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn cht25_people_stop_one_helper_and_its_parent_goes_on() {
    let scene = Scene::of(|_, events| async move {
        let mut call = events.tool("send").start().await?.run("Sends").await?;
        let worker = call.worker(WorkerSpec::new("Helper", "Wait")).await?;
        let outcome = worker
            .drive(|events| async move {
                events.text("waiting").await?;
                events.cancelled().await;
                Err(AgentError::Cancelled)
            })
            .await;
        assert_eq!(outcome, Ok(WorkerEnd::Stopped));
        call.complete(ToolResult::failed("Stopped", "somebody stopped it"))
            .await?;
        events.text("I go on alone").await
    })
    .await;
    scene.begin("go").await;
    scene
        .client
        .until("the helper has a chat", |view| {
            let session = view.session(&scene.uris.session).expect("mirrored");
            session.chats.len() == 2
        })
        .await;
    let chat = others(&scene).remove(0);
    scene.client.subscribe(&chat).await;
    let active = |view: &innkeeper_testkit::official::View| {
        let chat = view.chat(&chat).expect("mirrored");
        chat.active_turn.as_ref().map(|turn| turn.id.clone())
    };
    scene.client.until("it works", |view| active(view).is_some()).await;
    let turn = active(&scene.client.view()).expect("it was just there");
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 0 });
    scene.client.dispatch(&chat, cancel).await;
    assert_eq!(scene.words().await, "I go on alone");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn cht24_what_is_left_running_is_shown_until_it_is_over() {
    let scene = Scene::with(Host::builder().agent(TourAgent::new())).await;
    scene.begin("/background 1").await;
    scene.end().await;
    let work = |view: &innkeeper_testkit::official::View| {
        let chat = view.chat(&scene.uris.chat).expect("mirrored");
        let chat = serde_json::to_value(chat).expect("JSON");
        chat["backgroundWork"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(work(&scene.client.view()), 2, "the plants and the night watch");
    scene.client.until("both are over", |view| work(view) == 0).await;
    let watch = others(&scene).remove(0);
    scene.client.subscribe(&watch).await;
    let turn = scene.client.view().chat(&watch).expect("mirrored").turns[0].clone();
    assert_eq!(turn.state, TurnState::Complete);
    assert_eq!(markdown(&turn.response_parts), "All is quiet. Good morning.");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn cht24_a_guard_that_an_agent_keeps_shows_its_work_over_several_turns() {
    let kept: Arc<std::sync::Mutex<Option<Background>>> = Arc::default();
    let scene = Scene::of(move |turn, events| {
        let kept = Arc::clone(&kept);
        async move {
            if turn.text == "start" {
                let background = events.background("Server", "serve").await?;
                *kept.lock().expect("no panic") = Some(background);
            } else if turn.text == "stop" {
                drop(kept.lock().expect("no panic").take());
            }
            Ok(())
        }
    })
    .await;
    let work = |view: &innkeeper_testkit::official::View| {
        let chat = view.chat(&scene.uris.chat).expect("mirrored");
        let chat = serde_json::to_value(chat).expect("JSON");
        chat["backgroundWork"].as_array().map_or(0, Vec::len)
    };
    for (turn, text, shown) in [("t1", "start", 1), ("t2", "nothing", 1), ("t3", "stop", 0)] {
        scene.client.run_turn(&scene.uris.chat, turn, text).await;
        scene.client.until(text, |view| work(view) == shown).await;
    }
    scene.client.assert_converged().await;
}

/// A fork remembers what was said before it, and nothing else (CHT-05).
#[tokio::test]
async fn trc05_cht05_the_tour_remembers_exactly_the_history_it_is_given() {
    let scene = Scene::with(Host::builder().agent(TourAgent::new())).await;
    let chat = &scene.uris.chat;
    scene.client.run_turn(chat, "t1", "good evening").await;
    scene.client.run_turn(chat, "t2", "good night").await;
    let fork = json!({
        "channel": scene.uris.session, "chat": "ahp-chat:/fork",
        "source": { "kind": "fork", "chat": chat, "turnId": "t1" },
    });
    let created: Value = scene.client.request("createChat", fork).await.expect("forked");
    assert_eq!(created, Value::Null);
    scene.client.subscribe("ahp-chat:/fork").await;
    let turn = scene.client.run_turn("ahp-chat:/fork", "f1", "do you remember?").await;
    assert_eq!(
        markdown(&turn.response_parts),
        "I remember that you said:\n\n- good evening\n"
    );
    let truncate = json!({ "type": "chat/truncated", "turnId": "t1" });
    scene.client.dispatch(chat, truncate).await;
    let turn = scene.client.run_turn(chat, "t3", "do you remember?").await;
    assert_eq!(
        markdown(&turn.response_parts),
        "I remember that you said:\n\n- good evening\n"
    );
    scene.client.assert_converged().await;
}
