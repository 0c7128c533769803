//! Subagents and background work, through the published client.

use std::sync::Arc;

use innkeeper_host::AgentError;
use innkeeper_host::agent::{Background, SubagentEnd, SubagentSpec, ToolResult};
use innkeeper_testkit::embedded::SessionFixture;
use serde_json::json;

/// The chats of the session besides the default one.
fn others(fixture: &SessionFixture) -> Vec<String> {
    let view = fixture.client.view();
    let session = view.session(&fixture.uris.session).expect("mirrored");
    let chats = session.chats.iter().map(|chat| chat.resource.clone());
    chats.filter(|chat| *chat != fixture.uris.chat).collect()
}

#[tokio::test]
async fn cht25_a_user_stops_one_subagent_and_its_parent_continues() {
    let fixture = SessionFixture::of(|_, events| async move {
        let mut call = events.tool("send").start().await?.run("Sends").await?;
        let subagent = call.subagent(SubagentSpec::new("Subagent", "Wait")).await?;
        let outcome = subagent
            .drive(|events| async move {
                events.text("waiting").await?;
                events.cancelled().await;
                Err(AgentError::Cancelled)
            })
            .await;
        assert_eq!(outcome, Ok(SubagentEnd::Stopped));
        call.complete(ToolResult::failed("Stopped", "a user stopped it"))
            .await?;
        events.text("I go on alone").await
    })
    .await;
    fixture.begin("go").await;
    fixture
        .client
        .until("the subagent has a chat", |view| {
            let session = view.session(&fixture.uris.session).expect("mirrored");
            session.chats.len() == 2
        })
        .await;
    let chat = others(&fixture).remove(0);
    fixture.client.subscribe(&chat).await;
    let active = |view: &innkeeper_testkit::official::View| {
        let chat = view.chat(&chat).expect("mirrored");
        chat.active_turn.as_ref().map(|turn| turn.id.clone())
    };
    fixture.client.until("it works", |view| active(view).is_some()).await;
    let turn = active(&fixture.client.view()).expect("it was just there");
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 0 });
    fixture.client.dispatch(&chat, cancel).await;
    assert_eq!(fixture.words().await, "I go on alone");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn cht24_a_guard_that_an_agent_keeps_shows_its_work_over_several_turns() {
    let kept: Arc<std::sync::Mutex<Option<Background>>> = Arc::default();
    let fixture = SessionFixture::of(move |turn, events| {
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
        let chat = view.chat(&fixture.uris.chat).expect("mirrored");
        let chat = serde_json::to_value(chat).expect("JSON");
        chat["backgroundWork"].as_array().map_or(0, Vec::len)
    };
    for (turn, text, shown) in [("t1", "start", 1), ("t2", "nothing", 1), ("t3", "stop", 0)] {
        fixture.client.run_turn(&fixture.uris.chat, turn, text).await;
        fixture.client.until(text, |view| work(view) == shown).await;
    }
    fixture.client.assert_converged().await;
}
