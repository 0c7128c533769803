//! Differences between agents that clients do not see, each named after the agent that has it.

use std::time::Duration;

use innkeeper_acp::AcpTimes;
use innkeeper_testkit::official::markdown;
use serde_json::json;

use crate::support::{Agency, calls, error_of, notices};

#[tokio::test]
async fn gemini_asks_about_a_call_that_it_has_not_announced() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    stage.begin("t1", "unannounced").await;
    let call = stage.call("pending-confirmation").await;
    assert_eq!(call["displayName"], "Ring the bell");
    assert_eq!(call["toolInput"], r#"{"command":"ring"}"#);
    stage.decide("t1", &call, true, None).await;
    let turn = stage.end("t1").await;
    assert_eq!(calls(&turn)[0]["status"], "completed");
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn codex_leaves_a_call_open_after_a_cancel() {
    let agency = Agency::new("codex");
    let stage = agency.open().await;
    stage.begin("t1", "slow").await;
    stage.call("running").await;
    stage.client.cancel_turn(&stage.uris.chat, "t1").await;
    let turn = stage.end("t1").await;
    assert_eq!(calls(&turn)[0]["status"], "cancelled");
    assert_eq!(stage.words("t2", "say again").await, "again");
    assert_eq!(agency.noted("starts").len(), 1);
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn codex_leaves_a_call_open_at_the_end_of_its_turn() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let turn = stage.turn("t1", "open").await;
    let call = calls(&turn).remove(0);
    assert_eq!(call["status"], "completed");
    assert_eq!(call["success"], false, "{call}");
}

#[tokio::test]
async fn codex_ends_its_turn_when_a_call_is_refused() {
    let agency = Agency::new("codex");
    let stage = agency.open().await;
    stage.begin("t1", "ask").await;
    let call = stage.call("pending-confirmation").await;
    stage.decide("t1", &call, false, None).await;
    let turn = stage.end("t1").await;
    assert_eq!(serde_json::to_value(turn.state).expect("JSON"), json!("complete"));
    assert!(notices(&turn).contains("because a tool call was refused"), "{turn:?}");
}

/// Gemini and Qwen break off the running prompt when another one comes. The answer to a cancelled prompt is awaited.
#[tokio::test]
async fn gemini_and_qwen_never_get_a_second_prompt_while_one_runs() {
    let agency = Agency::new("second-prompt-fatal,slow-cancel");
    let stage = agency.open().await;
    for round in 0..2 {
        let id = format!("t{round}");
        stage.begin(&id, "slow").await;
        stage.call("running").await;
        stage.client.cancel_turn(&stage.uris.chat, &id).await;
        stage.end(&id).await;
        let said = stage.words(&format!("u{round}"), "say next").await;
        assert_eq!(said, "next", "late words belong to no turn");
    }
    assert_eq!(agency.noted("starts").len(), 1);
}

#[tokio::test]
async fn vibe_echoes_the_message() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    assert_eq!(stage.words("t1", "echo me").await, "heard you");
}

#[tokio::test]
async fn kilo_announces_a_call_as_pending_after_it_began() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let turn = stage.turn("t1", "late-pending").await;
    assert_eq!(calls(&turn)[0]["status"], "completed");
    assert_eq!(calls(&turn)[0]["success"], true);
}

#[tokio::test]
async fn claude_streams_an_error_and_reports_it_again() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let turn = stage.turn("t1", "say-and-fail").await;
    assert_eq!(markdown(&turn.response_parts), "API Error: 529 overloaded");
    assert_eq!(
        error_of(&turn)["error"]["message"],
        "Scripted stopped with the error above."
    );
}

#[tokio::test]
async fn kimi_and_pi_end_a_turn_without_a_word() {
    let agency = Agency::new("no-usage");
    let stage = agency.open().await;
    let turn = stage.turn("t1", "empty").await;
    assert!(notices(&turn).contains("without an answer"), "{turn:?}");
    assert!(turn.usage.is_none());
}

#[tokio::test]
async fn copilot_counts_tokens_since_its_process_started() {
    let agency = Agency::new("copilot");
    let stage = agency.open().await;
    for id in ["t1", "t2", "t3"] {
        let usage = stage.turn(id, "say hi").await.usage.expect("usage");
        assert_eq!((usage.input_tokens, usage.output_tokens), (Some(100), Some(10)), "{id}");
    }
}

/// Every agent waits for the answer to its permission request, also after a cancel.
#[tokio::test]
async fn a_cancel_answers_open_permission_requests() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    stage.begin("t1", "ask").await;
    stage.call("pending-confirmation").await;
    stage.client.cancel_turn(&stage.uris.chat, "t1").await;
    stage.end("t1").await;
    assert_eq!(stage.words("t2", "say next").await, "next");
    assert_eq!(agency.noted("starts").len(), 1, "the agent answered and goes on");
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn goose_counts_its_last_model_call_only() {
    let agency = Agency::new("goose");
    let stage = agency.open().await;
    let usage = stage.turn("t1", "say hi").await.usage.expect("usage");
    let meta = usage.meta.expect("fields");
    assert_eq!(meta["innkeeper.acp"]["usageScope"], "lastCall");
}

#[tokio::test]
async fn goose_withdraws_a_question() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    stage.begin("t1", "withdraw").await;
    stage.call("pending-confirmation").await;
    let turn = stage.end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "-32800");
    stage.client.nothing_waits(&stage.uris.session).await;
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn claude_and_kimi_ask_with_a_form() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    stage.begin("t1", "form").await;
    let wait = stage.client.wait_for(&stage.uris.session, "chatInput").await;
    let question = &wait["request"]["questions"][0];
    assert_eq!(question["id"], "pet", "{wait}");
    let answer = json!({ "state": "submitted", "value": { "kind": "selected", "value": "cat" } });
    let action = json!({ "type": "chat/inputCompleted", "requestId": wait["request"]["id"], "response": "accept",
                         "answers": { "pet": answer } });
    stage.client.dispatch(&stage.uris.chat, action).await;
    let turn = stage.end("t1").await;
    assert_eq!(
        markdown(&turn.response_parts),
        r#"{"action":"accept","content":{"pet":"cat"}}"#
    );
}

/// The agent of the former adapter, and Hermes, go silent after a cancel.
#[tokio::test]
async fn zed_codex_never_answers_a_cancelled_prompt() {
    let times = AcpTimes {
        cancel: Duration::from_millis(300),
        ..AcpTimes::default()
    };
    let agency = Agency::new("never-cancel,load").with_times(times);
    let stage = agency.open().await;
    assert_eq!(stage.words("t1", "say one").await, "one");
    stage.begin("t2", "slow").await;
    stage.call("running").await;
    stage.client.cancel_turn(&stage.uris.chat, "t2").await;
    stage.end("t2").await;
    assert_eq!(stage.words("t3", "recall").await, "1 messages, told 0: say one");
    assert_eq!(agency.noted("starts").len(), 2);
}
