//! Malformed model responses: invented tool names, truncated calls, refusals with tool calls.

use innkeeper_testkit::model_server::{Api, Ending, Reply, Script};
use innkeeper_testkit::official::{markdown, tool_calls_of};
use serde_json::json;

use crate::model::support::{Setup, error_of};

#[tokio::test]
async fn a_name_of_the_model_s_own_making_does_not_stop_the_chat() {
    for api in Api::ALL {
        let script = Script::by(|asked| match asked.last_results().first() {
            None => Reply::new().call("functions.read it", json!({ "path": "a" })),
            Some(told) => Reply::words(told.clone()),
        });
        let stage = Setup::new(api).stage(script).await;
        let turn = stage.run_turn("t1", "Read it.").await;
        let said = markdown(&turn.response_parts);
        assert!(said.contains("there is no such tool"), "{api:?}: {said}");
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_call_that_was_cut_before_its_input_began_does_not_run() {
    for api in Api::ALL {
        let script = Script::by(|asked| match asked.last_results().first() {
            None => Reply::new().call_with_text("list_directory", "").ending(Ending::Length),
            Some(told) => Reply::words(told.clone()),
        });
        let stage = Setup::new(api).stage(script).await;
        let turn = stage.run_turn("t1", "Look around.").await;
        let said = markdown(&turn.response_parts);
        assert!(said.contains("smaller pieces"), "{api:?}: {said}");
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_model_that_will_not_answer_does_not_act_either() {
    let script = Script::by(|_| {
        let reply = Reply::new().call("list_directory", json!({}));
        reply.ending(Ending::Refused(Some("Not this.".into())))
    });
    let stage = Setup::new(Api::Messages).stage(script).await;
    let turn = stage.run_turn("t1", "Look around.").await;
    let (kind, message, _) = error_of(&turn).expect("a refusal");
    assert_eq!(kind, "refused", "{message}");
    assert_eq!(stage.server.requests().len(), 1);
    for call in tool_calls_of(&turn) {
        assert_ne!(call["success"], true, "{call:#}");
    }
    stage.assert_in_order().await;
}

#[tokio::test]
async fn the_effort_that_is_shown_is_the_one_that_is_sent() {
    let provider = "keyless = true\nmodels = [{ id = \"deep\", effort = true }]";
    let script = Script::by(|_| Reply::words("Yes."));
    let stage = Setup::new(Api::Chat).provider(provider).stage(script).await;
    stage.run_turn("t1", "Hello?").await;
    assert_eq!(stage.last_asked().body["reasoning_effort"], "medium");
    stage.assert_in_order().await;
}
