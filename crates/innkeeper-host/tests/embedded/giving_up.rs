//! An agent's waits and leftovers: when its turn is cancelled, when it drops its handles, and when it panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ahp_types::state::TurnState;
use innkeeper_host::agent::{Confirmation, Form, ToolResult};
use innkeeper_host::{AgentError, EventSink, TurnInput};
use innkeeper_testkit::embedded::{SessionFixture, calls};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Waits for the thing that the message names.
async fn wait(turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
    let draft = |name| events.tool(name);
    match turn.text.as_str() {
        "confirm" => {
            let draft = draft("shell").start().await?;
            draft.confirm("Runs", Confirmation::default()).await.map(drop)
        }
        "review" => {
            let call = draft("read").start().await?.run("Reads").await?;
            call.complete_reviewed(ToolResult::text("Read", "x")).await.map(drop)
        }
        "ask" => events.ask(Form::new("Well?").text("a", "What?")).await.map(drop),
        "url" => events.ask_url("Look", "https://example.com").await.map(drop),
        "client" => {
            let tool = turn.client_tools.first().expect("the client offers one");
            events.call_client_tool(tool, "{}").await.map(drop)
        }
        other => panic!("no such wait: {other}"),
    }
}

const WAITS: [&str; 5] = ["confirm", "review", "ask", "url", "client"];

#[tokio::test]
async fn turn06_every_wait_ends_with_its_turn_when_that_is_cancelled() {
    for what in WAITS {
        let (sender, mut ended) = mpsc::unbounded_channel();
        let fixture = SessionFixture::of(move |turn, events| {
            let sender = sender.clone();
            async move {
                let outcome = wait(turn, events.clone()).await;
                let after = events.text("more").await;
                let _ = sender.send((outcome.clone(), after));
                outcome
            }
        })
        .await;
        fixture.offer_tools(&fixture.client, &["open"]).await;
        fixture.begin(what).await;
        until_waiting(&fixture, what).await;
        fixture.cancel().await;
        let (outcome, after) = tokio::time::timeout(Duration::from_secs(5), ended.recv())
            .await
            .expect("the wait ends at once")
            .expect("reported");
        assert_eq!(outcome, Err(AgentError::Cancelled), "{what}");
        assert_eq!(after, Err(AgentError::Cancelled), "{what}");
        let session = fixture
            .client
            .view()
            .session(&fixture.uris.session)
            .cloned()
            .expect("mirrored");
        assert!(session.input_needed.is_none_or(|needed| needed.is_empty()), "{what}");
        fixture.client.assert_converged().await;
    }
}

async fn until_waiting(fixture: &SessionFixture, what: &str) {
    fixture
        .client
        .until(&format!("{what} waits"), |view| {
            let session = view.session(&fixture.uris.session).expect("mirrored");
            session.input_needed.as_ref().is_some_and(|needed| !needed.is_empty())
        })
        .await;
}

#[tokio::test]
async fn p_9_a_panic_beside_a_wait_ends_the_turn_and_releases_everything() {
    for what in WAITS {
        let fixture = SessionFixture::of(|turn, events| async move {
            let dying = async {
                // Only once the wait is there to be seen.
                tokio::time::sleep(Duration::from_millis(50)).await;
                panic!("asked for by the test");
            };
            tokio::join!(wait(turn, events), dying).0
        })
        .await;
        fixture.offer_tools(&fixture.client, &["open"]).await;
        fixture.begin(what).await;
        let turn = fixture.client.turn_end(&fixture.uris.chat, "t1").await;
        assert_eq!(turn.state, TurnState::Error, "{what}");
        let session = fixture
            .client
            .view()
            .session(&fixture.uris.session)
            .cloned()
            .expect("mirrored");
        assert!(session.input_needed.is_none_or(|needed| needed.is_empty()), "{what}");
        fixture.client.assert_converged().await;
    }
}

#[tokio::test]
async fn a_dropped_call_fails_in_every_stage() {
    let fixture = SessionFixture::of(|_, events| async move {
        drop(events.tool("draft").start().await?);
        drop(events.tool("running").start().await?.run("Runs").await?);
        let draft = events.tool("asked").start().await?;
        let asking = draft.confirm("Asks", Confirmation::default());
        let given_up = tokio::time::timeout(Duration::from_millis(50), asking).await;
        assert!(given_up.is_err(), "no answer");
        events.text("and on it goes").await
    })
    .await;
    fixture.begin("go").await;
    assert_eq!(fixture.words().await, "and on it goes");
    let calls = calls(&fixture.end().await);
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!(call["status"], "completed", "{call}");
        assert_eq!(call["success"], false, "{call}");
        let error = call["error"].to_string();
        assert!(error.contains("dropped this call"), "{call}");
    }
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn a_late_answer_to_a_question_that_was_given_up_disturbs_nothing() {
    let fixture = SessionFixture::of(|_, events| async move {
        let first = events.ask(Form::new("First?").text("a", "What?"));
        let given_up = tokio::time::timeout(Duration::from_millis(50), first).await;
        assert!(given_up.is_err(), "no answer in time");
        let second = events.ask(Form::new("Second?").text("a", "What?")).await?;
        events.text(format!("{:?}", second.values.get("a"))).await
    })
    .await;
    fixture.begin("go").await;
    let questions = |view: &innkeeper_testkit::official::View| -> Vec<Value> {
        let chat = view.chat(&fixture.uris.chat).expect("mirrored");
        let turn = serde_json::to_value(&chat.active_turn).expect("JSON");
        let parts = turn["responseParts"].as_array().cloned().unwrap_or_default();
        parts
            .into_iter()
            .filter(|part| part["kind"] == "inputRequest")
            .collect()
    };
    fixture
        .client
        .until("both are asked", |view| questions(view).len() == 2)
        .await;
    let asked = questions(&fixture.client.view());
    for (part, words) in asked.iter().zip(["late", "right"]) {
        let answer = json!({ "state": "submitted", "value": { "kind": "text", "value": words } });
        let action = json!({
            "type": "chat/inputCompleted", "requestId": part["request"]["id"], "response": "accept",
            "answers": { "a": answer },
        });
        fixture.client.dispatch(&fixture.uris.chat, action).await;
    }
    assert_eq!(fixture.words().await, "Some(Text(\"right\"))");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn waits_in_a_detached_task_of_an_agent_end_with_its_turn() {
    let (sender, mut ended) = mpsc::unbounded_channel();
    let left = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&left);
    let fixture = SessionFixture::of(move |_, events| {
        let (sender, count) = (sender.clone(), Arc::clone(&count));
        async move {
            let draft = events.tool("shell").start().await?;
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let outcome = draft.confirm("Runs", Confirmation::default()).await;
                let _ = sender.send(outcome.map(drop));
            });
            // Long enough to be asked, and gone before any client answers.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(())
        }
    })
    .await;
    fixture.begin("go").await;
    let turn = fixture.client.turn_end(&fixture.uris.chat, "t1").await;
    assert_eq!(turn.state, TurnState::Complete);
    let outcome = tokio::time::timeout(Duration::from_secs(5), ended.recv()).await;
    assert_eq!(outcome.expect("at once"), Some(Err(AgentError::Cancelled)));
    assert_eq!(left.load(Ordering::SeqCst), 1);
    fixture.client.assert_converged().await;
}
