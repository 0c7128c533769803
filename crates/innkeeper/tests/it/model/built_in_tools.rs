//! The agent's built-in tools, and calls that cannot be executed.

use innkeeper_testkit::model_server::{Api, Reply};
use innkeeper_testkit::official::{markdown, tool_calls_of};
use serde_json::{Value, json};

use crate::model::support::{Setup, Stage};

/// Answers a question as a client does.
async fn answer(stage: &Stage, response: &str, value: Option<Value>) -> Value {
    let wait = stage.client.wait_for(&stage.uris.session, "chatInput").await;
    let answers = value.map(|value| json!({ "answer": { "state": "submitted", "value": value } }));
    let mut action = json!({
        "type": "chat/inputCompleted",
        "requestId": wait["request"]["id"],
        "response": response,
    });
    if let Some(answers) = answers {
        action["answers"] = answers;
    }
    stage.client.dispatch(&stage.uris.chat, action).await;
    wait
}

/// Lets the model ask and a user answer. Returns the question and the result for the model.
async fn asked(input: Value, response: &str, value: Option<Value>) -> (Value, String) {
    let script = [Reply::new().call("ask_user", input), Reply::words("I see.")];
    let stage = Setup::new(Api::Messages).stage(script).await;
    stage.start_turn("t1", "Ask me.").await;
    let wait = answer(&stage, response, value).await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "I see.");
    let told = stage.last_asked().last_results().remove(0);
    stage.assert_in_order().await;
    (wait, told)
}

#[tokio::test]
async fn ask_user_asks_a_text_question() {
    let said = json!({ "kind": "text", "value": "Ada" });
    let (wait, told) = asked(json!({ "question": "Who are you?" }), "accept", Some(said)).await;
    assert_eq!(wait["request"]["questions"][0]["kind"], "text");
    assert!(wait.to_string().contains("Who are you?"));
    assert_eq!(told, "The user answered: Ada");
}

#[tokio::test]
async fn ask_user_offers_answers_and_takes_others() {
    let input = json!({ "question": "Tea or coffee?", "options": ["tea", "coffee"] });
    let chosen = json!({ "kind": "selected", "value": "tea" });
    let (wait, told) = asked(input.clone(), "accept", Some(chosen)).await;
    assert_eq!(wait["request"]["questions"][0]["kind"], "single-select");
    assert_eq!(told, "The user answered: tea");

    let input = json!({ "question": "What else?", "options": ["milk", "sugar"], "multiple": true });
    let chosen = json!({ "kind": "selected-many", "value": ["milk"], "freeformValues": ["honey"] });
    let (wait, told) = asked(input, "accept", Some(chosen)).await;
    assert_eq!(wait["request"]["questions"][0]["kind"], "multi-select");
    assert_eq!(told, "The user answered: milk, honey");
}

#[tokio::test]
async fn ask_user_takes_no_for_an_answer() {
    let (_, told) = asked(json!({ "question": "Why?" }), "decline", None).await;
    assert!(told.contains("does not want to answer"), "{told}");
}

#[tokio::test]
async fn update_plan_shows_a_checklist_and_activity() {
    let plan = |first: &str, second: &str| json!({ "steps": [{ "step": "Look", "status": first }, { "step": "Leap", "status": second }] });
    let script = [
        Reply::new().call("update_plan", plan("in_progress", "pending")),
        Reply::new()
            .text("Looked.")
            .stall()
            .call("update_plan", plan("done", "done")),
        Reply::words(" Done.").stall(),
    ];
    let stage = Setup::new(Api::Responses).stage(script).await;
    stage.start_turn("t1", "Go.").await;
    stage.client.running_text(&stage.uris.chat, 7).await;
    assert_eq!(stage.client.chat(&stage.uris.chat).activity.as_deref(), Some("Look"));
    stage.server.go_on();
    stage.client.running_text(&stage.uris.chat, 13).await;
    stage
        .client
        .until("nothing is being done", |view| {
            let chat = view.chat(&stage.uris.chat).expect("mirrored");
            chat.active_turn.is_some() && chat.activity.as_deref().unwrap_or_default().is_empty()
        })
        .await;
    stage.server.go_on();
    let turn = stage.turn_end("t1").await;
    let calls = tool_calls_of(&turn);
    assert_eq!(calls[0]["content"][0]["text"], "- [ ] **Look**\n- [ ] Leap\n");
    assert_eq!(calls[1]["content"][0]["text"], "- [x] Look\n- [x] Leap\n");
    assert_eq!(stage.last_asked().last_results(), ["Plan: 2 of 2 steps done"]);
    stage.assert_in_order().await;
}

#[tokio::test]
async fn mistakes_of_the_model_are_sent_back_and_shown_as_failed() {
    for api in Api::ALL {
        let script = [
            Reply::new()
                .call("teleport", json!({ "to": "the moon" }))
                .call_with_text("read_file", "{\"path\": ")
                .call_with_text("read_file", "")
                .call("update_plan", json!({ "steps": [] }))
                .call("ask_user", json!({}))
                .call("delegate", json!({ "title": "T" })),
            Reply::words("Sorry."),
        ];
        let stage = Setup::new(api).stage(script).await;
        let turn = stage.run_turn("t1", "Do something.").await;
        assert_eq!(markdown(&turn.response_parts), "Sorry.", "{turn:#?}");
        let results = stage.last_asked().last_results();
        let needles = ["no such tool", "not valid JSON", "path", "empty", "question", "task"];
        assert_eq!(results.len(), needles.len(), "{api:?}: {results:#?}");
        for (result, needle) in results.iter().zip(needles) {
            assert!(result.contains(needle), "{api:?}: {needle} in {result}");
        }
        assert!(
            results[0].contains("read_file"),
            "the model is told what there is: {}",
            results[0]
        );
        for call in tool_calls_of(&turn) {
            assert_eq!(
                (&call["status"], &call["success"]),
                (&json!("completed"), &json!(false)),
                "{call:#}"
            );
        }
        stage.assert_in_order().await;
    }
}
