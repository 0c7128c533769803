//! Approvals and questions.

use innkeeper_compat::words::{answer_text, tool_calls, turn_error};
use serde_json::{Value, json};

use super::Stage;

pub(crate) async fn approves(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/confirm").await;
    let call = client.call_in(&uris, "pending-confirmation").await;
    let status = client.state(&uris.chat);
    let status = status
        .get("status")
        .unwrap_or_else(|| &status["summary"]["status"])
        .as_u64();
    assert_eq!(status.map(|status| status & 24), Some(24), "input is needed");
    client.assert_converged("an approval that is asked for").await;
    // The verdict about the risk arrives while the user decides.
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    client.assert_converged("a verdict about the risk").await;
    let approved = json!({ "approved": true, "confirmed": "user-action" });
    client
        .about_call(&uris, "t1", &call, "toolCallConfirmed", approved)
        .await;
    let turn = client.turn_end(&uris, "t1").await;
    assert!(answer_text(&turn).contains("I rang the bell 3 times"), "{turn}");
    let call = &tool_calls(&turn)[0];
    assert_eq!(
        (&call["status"], &call["confirmed"]),
        (&json!("completed"), &json!("user-action"))
    );
    client.assert_converged("an approved tool").await;

    client.start_turn(&uris, "t2", "/confirm").await;
    let call = client.call_in(&uris, "pending-confirmation").await;
    let edited = json!({ "approved": true, "editedToolInput": "{\"times\": 5}" });
    client.about_call(&uris, "t2", &call, "toolCallConfirmed", edited).await;
    let turn = client.turn_end(&uris, "t2").await;
    assert!(answer_text(&turn).contains("I rang the bell 5 times"), "{turn}");
    client.assert_converged("edited input").await;
}

pub(crate) async fn denies(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/confirm").await;
    let call = client.call_in(&uris, "pending-confirmation").await;
    let mut denied = json!({ "approved": false, "reason": "denied", "reasonMessage": "the baby sleeps" });
    denied["userSuggestion"] = stage.version.message("whisper");
    client.about_call(&uris, "t1", &call, "toolCallConfirmed", denied).await;
    let turn = client.turn_end(&uris, "t1").await;
    let call = &tool_calls(&turn)[0];
    assert_eq!(
        (&call["status"], &call["reason"], &call["reasonMessage"]),
        (&json!("cancelled"), &json!("denied"), &json!("the baby sleeps")),
        "{turn}"
    );
    assert_eq!(call["userSuggestion"]["text"], "whisper");
    assert!(answer_text(&turn).contains("No bell, then"), "{turn}");
    client.assert_converged("a denied tool").await;
}

pub(crate) async fn chooses_an_option(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/options").await;
    let call = client.call_in(&uris, "pending-confirmation").await;
    assert_eq!(call["options"].as_array().map(Vec::len), Some(4), "{call}");
    client.assert_converged("choices").await;
    let chosen = json!({ "approved": true, "selectedOptionId": "loudly" });
    client.about_call(&uris, "t1", &call, "toolCallConfirmed", chosen).await;
    let turn = client.turn_end(&uris, "t1").await;
    assert!(answer_text(&turn).contains("You chose *loudly*"), "{turn}");
    assert_eq!(tool_calls(&turn)[0]["selectedOption"]["id"], "loudly");
    client.assert_converged("a choice").await;
}

pub(crate) async fn confirms_again(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/confirm again").await;
    let call = client.call_in(&uris, "pending-confirmation").await;
    client
        .about_call(&uris, "t1", &call, "toolCallConfirmed", json!({ "approved": true }))
        .await;
    let again = client
        .find("it asks again", |view| {
            let parts = view.states[&uris.chat]["activeTurn"]["responseParts"].as_array()?;
            let mut calls = parts.iter().map(|part| &part["toolCall"]);
            let call = calls.find(|call| call["status"] == "pending-confirmation")?;
            let is_second = call["invocationMessage"].to_string().contains("once more");
            is_second.then(|| call.clone())
        })
        .await;
    client.assert_converged("a second question").await;
    client
        .about_call(&uris, "t1", &again, "toolCallConfirmed", json!({ "approved": true }))
        .await;
    let turn = client.turn_end(&uris, "t1").await;
    assert!(answer_text(&turn).contains("I rang the bell 2 times"), "{turn}");
    client.assert_converged("a second approval").await;
}

pub(crate) async fn reviews_a_result(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    for (turn, approved, said) in [("t1", true, "a quiet night"), ("t2", false, "kept the guest book")] {
        client.start_turn(&uris, turn, "/result").await;
        let call = client.call_in(&uris, "pending-result-confirmation").await;
        client.assert_converged("a result to review").await;
        let review = json!({ "approved": approved });
        client
            .about_call(&uris, turn, &call, "toolCallResultConfirmed", review)
            .await;
        let turn = client.turn_end(&uris, turn).await;
        assert!(answer_text(&turn).contains(said), "{turn}");
        client.assert_converged("a reviewed result").await;
    }
}

pub(crate) async fn decides_in_parallel(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/parallel 4").await;
    let calls = client
        .find("four calls wait", |view| {
            let parts = view.states[&uris.chat]["activeTurn"]["responseParts"].as_array()?;
            let waiting = |call: &&Value| call["status"] == "pending-confirmation";
            let calls = parts.iter().map(|part| &part["toolCall"]).filter(waiting);
            let calls: Vec<Value> = calls.cloned().collect();
            (calls.len() == 4).then_some(calls)
        })
        .await;
    client.assert_converged("four approvals").await;
    for (number, call) in calls.iter().enumerate() {
        let decision = match number % 2 == 0 {
            true => json!({ "approved": true }),
            false => json!({ "approved": false, "reason": "denied" }),
        };
        client
            .about_call(&uris, "t1", call, "toolCallConfirmed", decision)
            .await;
    }
    let turn = client.turn_end(&uris, "t1").await;
    assert!(answer_text(&turn).contains("2 of 4 errands"), "{turn}");
    client.assert_converged("four decisions").await;
}

fn submitted(value: Value) -> Value {
    json!({ "state": "submitted", "value": value })
}

pub(crate) async fn answers_every_kind(stage: &mut Stage) {
    let client = &stage.client;
    let version = stage.version;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/ask").await;
    let request = client.question(&uris).await;
    let kinds: Vec<_> = request["questions"]
        .as_array()
        .expect("questions")
        .iter()
        .map(|question| &question["kind"])
        .collect();
    assert_eq!(
        kinds,
        ["text", "number", "integer", "boolean", "single-select", "multi-select"]
    );
    client.assert_converged("a question").await;
    let draft = json!({
        "type": version.of_chat("inputAnswerChanged"), "requestId": request["id"], "questionId": "name",
        "answer": { "state": "draft", "value": { "kind": "text", "value": "Ad" } },
    });
    client.dispatch(&uris.chat, draft).await;
    client.assert_converged("a draft").await;
    let answers = json!({
        "name": submitted(json!({ "kind": "text", "value": "Ada" })),
        "height": submitted(json!({ "kind": "number", "value": 1.75 })),
        "nights": submitted(json!({ "kind": "number", "value": 3 })),
        "pet": submitted(json!({ "kind": "boolean", "value": false })),
        "room": submitted(json!({ "kind": "selected", "value": "garden" })),
        "meals": submitted(json!({ "kind": "selected-many", "value": ["breakfast", "supper"] })),
    });
    let completed = json!({
        "type": version.of_chat("inputCompleted"), "requestId": request["id"], "response": "accept", "answers": answers,
    });
    client.dispatch(&uris.chat, completed).await;
    let turn = client.turn_end(&uris, "t1").await;
    let said = answer_text(&turn);
    for line in [
        "name: Ada",
        "height: 1.75",
        "nights: 3",
        "pet: no",
        "room: garden",
        "meals: breakfast, supper",
    ] {
        assert!(said.contains(line), "{line:?} in {said:?}");
    }
    let parts = turn["responseParts"].as_array().expect("parts");
    let kept = parts.iter().filter(|part| part["kind"] == "inputRequest").count();
    assert_eq!(kept, usize::from(version.keeps_answers()), "{turn}");
    assert_eq!(turn_error(version, &turn), Value::Null);
    client.assert_converged("answers").await;
}

pub(crate) async fn declines(stage: &mut Stage) {
    let client = &stage.client;
    let version = stage.version;
    let uris = stage.session().await;
    for (turn, response, said) in [
        ("t1", "decline", "would rather not say"),
        ("t2", "cancel", "Another time"),
    ] {
        client.start_turn(&uris, turn, "/ask").await;
        let request = client.question(&uris).await;
        let completed =
            json!({ "type": version.of_chat("inputCompleted"), "requestId": request["id"], "response": response });
        client.dispatch(&uris.chat, completed).await;
        let turn = client.turn_end(&uris, turn).await;
        assert!(answer_text(&turn).contains(said), "{turn}");
        client.assert_converged(response).await;
    }
    // A turn that is cancelled takes its question along.
    client.start_turn(&uris, "t3", "/ask").await;
    client.question(&uris).await;
    client.dispatch(&uris.chat, version.turn_cancelled("t3")).await;
    client.turn_end(&uris, "t3").await;
    client.assert_converged("a question of a cancelled turn").await;
}

pub(crate) async fn visits_a_page(stage: &mut Stage) {
    let client = &stage.client;
    let uris = stage.session().await;
    client.start_turn(&uris, "t1", "/ask url").await;
    let request = client.question(&uris).await;
    assert_eq!(request["url"], "https://example.com/guest-book");
    let completed = json!({
        "type": stage.version.of_chat("inputCompleted"), "requestId": request["id"], "response": "accept",
    });
    client.dispatch(&uris.chat, completed).await;
    let turn = client.turn_end(&uris, "t1").await;
    assert!(answer_text(&turn).contains("Thank you for signing"), "{turn}");
    client.assert_converged("a visited page").await;
}
