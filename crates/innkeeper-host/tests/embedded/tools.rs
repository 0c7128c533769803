//! Tool calls of an agent, as its code sees them and as clients do.

use std::time::Duration;

use innkeeper_host::AgentError;
use innkeeper_host::agent::{Confirmation, Invocation, Risk, ToolContent, ToolResult, Verdict};
use innkeeper_testkit::embedded::{SessionFixture, calls};
use serde_json::{Value, json};

fn editable() -> Confirmation {
    Confirmation {
        title: Some("Sure?".to_owned()),
        editable: true,
        ..Confirmation::default()
    }
}

/// Asks once and says what came of it.
async fn asking() -> SessionFixture {
    SessionFixture::of(|_, events| async move {
        let mut draft = events.tool("shell").start().await?;
        draft.input("{\"cmd\":\"ls\"}").await?;
        let invocation = Invocation::new("Runs `ls`").input("{\"cmd\":\"ls\"}");
        match draft.confirm(invocation, editable()).await? {
            Verdict::Approved(call, decision) => {
                let input = decision.edited_input.unwrap_or_else(|| "as it was".to_owned());
                call.complete(ToolResult::text("Ran it", "a.txt")).await?;
                let by = decision.by.expect("a user decided");
                events.text(format!("ran {input} for {}", by.as_str())).await
            }
            Verdict::Denied(decision) => {
                events
                    .text(format!("denied: {}", decision.remark.unwrap_or_default()))
                    .await
            }
        }
    })
    .await
}

#[tokio::test]
async fn tool01_a_call_streams_its_input_runs_shows_content_and_completes() {
    let fixture = SessionFixture::of(|_, events| async move {
        let mut draft = events
            .tool("read")
            .id("mine")
            .display_name("Read a file")
            .intention("Know what it says")
            .start()
            .await?;
        draft.input("{\"path\":").await?;
        draft.input("\"a\"}").await?;
        let mut call = draft.run("Reads a").await?;
        call.content(vec![ToolContent::Text("half".to_owned())]).await?;
        assert_eq!(call.id(), "mine");
        call.complete(ToolResult::text("Read a", "whole")).await
    })
    .await;
    fixture.begin("go").await;
    let call = calls(&fixture.end().await).remove(0);
    assert_eq!(call["status"], "completed");
    assert_eq!(call["toolCallId"], "mine");
    assert_eq!(call["displayName"], "Read a file");
    assert_eq!(call["toolInput"], "{\"path\":\"a\"}");
    assert_eq!(call["content"][0]["text"], "whole");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn tool05_an_approved_call_runs_and_its_agent_knows_the_decider() {
    let fixture = asking().await;
    fixture.begin("go").await;
    let call = fixture.call("pending-confirmation").await;
    fixture.decide(&call, true).await;
    assert_eq!(fixture.words().await, "ran as it was for first");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn tool06_an_agent_runs_the_edited_input() {
    let fixture = asking().await;
    fixture.begin("go").await;
    let call = fixture.call("pending-confirmation").await;
    let action = json!({
        "type": "chat/toolCallConfirmed", "approved": true, "editedToolInput": "{\"cmd\":\"pwd\"}",
    });
    fixture.about(&call, action).await;
    assert_eq!(fixture.words().await, "ran {\"cmd\":\"pwd\"} for first");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn tool07_a_denied_call_is_over_and_its_agent_hears_why() {
    let fixture = asking().await;
    fixture.begin("go").await;
    let call = fixture.call("pending-confirmation").await;
    let action = json!({
        "type": "chat/toolCallConfirmed", "approved": false, "reason": "denied", "reasonMessage": "not today",
    });
    fixture.about(&call, action).await;
    assert_eq!(fixture.words().await, "denied: not today");
    let call = calls(&fixture.end().await).remove(0);
    assert_eq!(call["status"], "cancelled");
    fixture.client.assert_converged().await;
}

/// An agent asks again in the middle of a run, and the second answer is for the second question
/// (TOOL-05).
#[tokio::test]
async fn tool05_a_running_call_asks_again_and_each_question_gets_its_own_answer() {
    let fixture = SessionFixture::of(|_, events| async move {
        let draft = events.tool("shell").start().await?;
        let invocation = Invocation::new("First").input("{\"cmd\":\"ls\"}");
        let first = draft.confirm(invocation, Confirmation::default()).await?;
        let Verdict::Approved(call, _) = first else {
            return events.text("too soon").await;
        };
        match call.confirm("Second", editable()).await? {
            Verdict::Approved(..) => events.text("twice").await,
            Verdict::Denied(_) => events.text("once").await,
        }
    })
    .await;
    fixture.begin("go").await;
    let call = fixture.call("pending-confirmation").await;
    fixture.decide(&call, true).await;
    fixture
        .client
        .until("it asks again", |view| {
            let chat = view.chat(&fixture.uris.chat).expect("mirrored");
            let text = serde_json::to_string(&chat.active_turn).expect("JSON");
            text.contains("Second") && text.contains("pending-confirmation")
        })
        .await;
    let call = fixture.call("pending-confirmation").await;
    assert_eq!(call["toolInput"], "{\"cmd\":\"ls\"}", "the input stays what it was");
    fixture.decide(&call, false).await;
    assert_eq!(fixture.words().await, "once");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn tool18_an_agents_verdict_arrives_during_a_confirmation() {
    let fixture = SessionFixture::of(|_, events| async move {
        let draft = events.tool("shell").start().await?;
        let judge = draft.risk_reporter();
        let confirmation = Confirmation {
            risk: Some(Risk::Assessing),
            ..editable()
        };
        let judging = async {
            let reason = "harmless".to_owned();
            judge.report(Risk::Assessed { reason, safety: 0.9 }).await
        };
        let asking = draft.confirm(Invocation::new("Runs it").input("{}"), confirmation);
        let (verdict, judged) = tokio::join!(asking, judging);
        judged?;
        match verdict? {
            Verdict::Approved(call, _) => call.complete(ToolResult::text("Ran", "ok")).await,
            Verdict::Denied(_) => Ok(()),
        }
    })
    .await;
    fixture.begin("go").await;
    fixture
        .client
        .until("the verdict is there", |view| {
            let chat = view.chat(&fixture.uris.chat).expect("mirrored");
            let text = serde_json::to_string(&chat.active_turn).expect("JSON");
            text.contains("harmless")
        })
        .await;
    let call = fixture.call("pending-confirmation").await;
    assert_eq!(call["editable"], true, "everything else stays as it was");
    fixture.decide(&call, true).await;
    fixture.end().await;
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn tool13_a_user_reviews_a_result_and_may_withhold_it() {
    for approved in [true, false] {
        let fixture = SessionFixture::of(|_, events| async move {
            let call = events.tool("read").start().await?.run("Reads").await?;
            let allowed = call.complete_reviewed(ToolResult::text("Read", "secret")).await?;
            events.text(allowed.to_string()).await
        })
        .await;
        fixture.begin("go").await;
        let call = fixture.call("pending-result-confirmation").await;
        let action = json!({ "type": "chat/toolCallResultConfirmed", "approved": approved });
        fixture.about(&call, action).await;
        assert_eq!(fixture.words().await, approved.to_string());
        fixture.client.assert_converged().await;
    }
}

#[tokio::test]
async fn tool21_ids_of_calls_are_unique_and_a_second_use_is_an_error_at_once() {
    let fixture = SessionFixture::of(|_, events| async move {
        let first = events.tool("a").id("same").start().await?;
        let second = events.tool("b").id("same").start().await;
        assert!(
            matches!(&second, Err(AgentError::Failed { kind, .. }) if kind == "duplicateToolCallId"),
            "{second:?}"
        );
        first.complete(ToolResult::text("Done", "first")).await?;
        let third = events.tool("c").id("same").start().await;
        assert!(third.is_err(), "also after the first is over");
        let empty = events.tool("d").id("").start().await;
        assert!(matches!(empty, Err(AgentError::Failed { kind, .. }) if kind == "badToolCallId"));
        let fresh = events.tool("e").start().await?;
        let other = events.tool("f").start().await?;
        assert_ne!(fresh.id(), other.id());
        Ok(())
    })
    .await;
    fixture.begin("go").await;
    let parts = fixture.end().await;
    assert!(parts.iter().all(|part| part["kind"] != "error"), "{parts:?}");
    assert_eq!(calls(&parts).len(), 3);
}

#[tokio::test]
async fn parallel_calls_wait_for_their_own_decisions() {
    let fixture = SessionFixture::of(|_, events| async move {
        let ask = |name: &'static str| {
            let events = events.clone();
            async move {
                let draft = events.tool(name).start().await?;
                let verdict = draft.confirm(name, Confirmation::default()).await?;
                Ok::<_, AgentError>(matches!(verdict, Verdict::Approved(..)))
            }
        };
        let (a, b, c) = tokio::join!(ask("a"), ask("b"), ask("c"));
        events.text(format!("{} {} {}", a?, b?, c?)).await
    })
    .await;
    fixture.begin("go").await;
    let asked = fixture.calls("pending-confirmation", 3).await;
    let named = |name: &str| -> &Value { asked.iter().find(|call| call["toolName"] == name).expect("asked") };
    fixture.decide(named("c"), true).await;
    fixture.decide(named("a"), true).await;
    fixture.decide(named("b"), false).await;
    assert_eq!(fixture.words().await, "true false true");
    fixture.client.assert_converged().await;
}

/// Calls that a policy approves do not wait for a user (TOOL-04), and nothing is lost when the
/// answer is there before the agent waits for it.
#[tokio::test]
async fn many_calls_in_a_row_lose_no_answer() {
    let fixture = SessionFixture::of(|_, events| async move {
        for _ in 0..200 {
            let call = events.tool("quick").start().await?.run("Runs").await?;
            call.complete(ToolResult::text("Ran", "ok")).await?;
        }
        Ok(())
    })
    .await;
    fixture.begin("go").await;
    let calls = calls(&fixture.end().await);
    assert_eq!(calls.len(), 200);
    assert!(calls.iter().all(|call| call["status"] == "completed"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    fixture.client.assert_converged().await;
}
