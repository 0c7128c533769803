//! The tour agent, through the published client.

use innkeeper_agents::tour::TourAgent;
use innkeeper_host::Host;
use innkeeper_testkit::embedded::{SessionFixture, calls};
use serde_json::{Value, json};

mod customizations;
mod requests;
mod subagents;

async fn tour() -> SessionFixture {
    SessionFixture::with(Host::builder().agent(TourAgent::new())).await
}

#[tokio::test]
async fn the_tour_calls_a_tool_and_ticks_off_a_plan() {
    for (command, call_count, content) in [("/tool", 1, "two armchairs"), ("/plan", 1, "- [x] Open the door")] {
        let fixture = tour().await;
        fixture.begin(command).await;
        let calls = calls(&fixture.end().await);
        assert_eq!(calls.len(), call_count);
        assert_eq!(calls[0]["status"], "completed");
        let text = calls[0]["content"][0]["text"].as_str().expect("text");
        assert!(text.contains(content), "{text}");
        fixture.client.assert_converged().await;
    }
}

#[tokio::test]
async fn the_tour_asks_before_it_rings_and_names_the_deciding_client() {
    let fixture = tour().await;
    fixture.begin("/confirm").await;
    let call = fixture.call("pending-confirmation").await;
    let action = json!({ "type": "chat/toolCallConfirmed", "approved": true, "editedToolInput": "{\"times\": 2}" });
    fixture.about(&call, action).await;
    let words = fixture.words().await;
    assert_eq!(words, "I rang the bell 2 times, because the client `first` said yes.");
    let call = calls(&fixture.end().await).remove(0);
    assert_eq!(call["content"][0]["text"], "ding ding");
}

#[tokio::test]
async fn tool03_the_tour_asks_once_more_in_the_middle_of_a_run() {
    for approved in [true, false] {
        let fixture = tour().await;
        fixture.begin("/confirm again").await;
        let call = fixture.call("pending-confirmation").await;
        assert_eq!(call["confirmationTitle"], "Ring the bell?");
        fixture.decide(&call, true).await;
        let chat = &fixture.uris.chat;
        let asks_again = |view: &innkeeper_testkit::official::View| {
            let calls = view.tool_calls(chat);
            calls
                .last()
                .is_some_and(|call| call["confirmationTitle"] == "No answer. Ring again?")
        };
        fixture.client.until("the running call asks again", asks_again).await;
        let call = fixture.call("pending-confirmation").await;
        assert_eq!(
            call["invocationMessage"],
            json!({ "markdown": "Rings the bell once more" })
        );
        fixture.decide(&call, approved).await;
        let expected = match approved {
            true => "I rang the bell 2 times, because the client `first` said yes.",
            false => "I rang once, and leave it at that.",
        };
        assert_eq!(fixture.words().await, expected);
        fixture.client.assert_converged().await;
    }
}

#[tokio::test]
async fn tool19_the_tour_marks_its_calls_for_clients_that_present_them() {
    let fixture = tour().await;
    fixture.begin("/tool").await;
    let call = calls(&fixture.end().await).remove(0);
    assert_eq!(call["_meta"]["toolKind"], "search");
    let streamed = fixture.client.view().actions_on(&fixture.uris.chat);
    let is_announced = |action: &Value| {
        action["type"] == "chat/toolCallDelta" && action["invocationMessage"] == "Looking around the lobby"
    };
    assert!(streamed.iter().any(is_announced), "{streamed:?}");

    let fixture = tour().await;
    fixture.begin("/subagent").await;
    fixture
        .client
        .until("a subagent asks", |view| !view.waits(&fixture.uris.session).is_empty())
        .await;
    let call = fixture.client.view().tool_calls(&fixture.uris.chat).remove(0);
    let shown = call["content"][0]["resource"].clone();
    assert_eq!(call["_meta"]["toolKind"], "subagent");
    assert_eq!(call["_meta"]["subagentChatUri"], shown, "{call}");
    assert_eq!(call["_meta"]["subagentAgentName"], "subagent");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn tool09_the_tour_offers_choices_of_its_own_in_two_groups() {
    let fixture = tour().await;
    fixture.begin("/options").await;
    let call = fixture.call("pending-confirmation").await;
    let groups: Vec<&Value> = call["options"]
        .as_array()
        .expect("options")
        .iter()
        .map(|option| &option["group"])
        .collect();
    assert_eq!(groups, [&json!(0), &json!(0), &json!(1), &json!(1)]);
    let action = json!({ "type": "chat/toolCallConfirmed", "approved": true, "selectedOptionId": "loudly" });
    fixture.about(&call, action).await;
    assert_eq!(fixture.words().await, "You chose *loudly*.");
}

#[tokio::test]
async fn the_tour_runs_errands_side_by_side() {
    let fixture = tour().await;
    fixture.begin("/parallel 3").await;
    let asked = fixture.calls("pending-confirmation", 3).await;
    for (call, approved) in asked.iter().zip([true, false, true]) {
        fixture.decide(call, approved).await;
    }
    assert_eq!(fixture.words().await, "2 of 3 errands were allowed and are done.");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn the_tour_shows_a_result_first_and_asks_questions() {
    let fixture = tour().await;
    fixture.begin("/result").await;
    let call = fixture.call("pending-result-confirmation").await;
    let action = json!({ "type": "chat/toolCallResultConfirmed", "approved": false });
    fixture.about(&call, action).await;
    assert!(fixture.words().await.contains("kept the guest book to yourself"));

    let fixture = tour().await;
    fixture.begin("/ask").await;
    let request = fixture.question().await;
    let name = json!({ "state": "submitted", "value": { "kind": "text", "value": "Ada" } });
    let action = json!({
        "type": "chat/inputCompleted", "requestId": request["id"], "response": "accept", "answers": { "name": name },
    });
    fixture.client.dispatch(&fixture.uris.chat, action).await;
    assert_eq!(fixture.words().await, "Thank you. I wrote down:\n\n- name: Ada\n");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn the_tour_runs_a_client_tool_or_lists_the_known_ones() {
    let fixture = tour().await;
    fixture.offer_tools(&fixture.client, &["open"]).await;
    fixture.begin("/client-tool open {\"file\": 1}").await;
    let call = fixture.call("running").await;
    let content = json!([{ "type": "text", "text": "opened" }]);
    let result = json!({ "success": true, "pastTenseMessage": "Opened", "content": content });
    let action = json!({ "type": "chat/toolCallComplete", "result": result });
    fixture.about(&call, action).await;
    assert_eq!(fixture.words().await, "Your client says: opened");
    let turn = fixture
        .client
        .run_turn(&fixture.uris.chat, "t2", "/client-tool close")
        .await;
    let words = innkeeper_testkit::official::markdown(&turn.response_parts);
    assert_eq!(words, "No client offers a tool called `close`; there are `open`.");
}

#[tokio::test]
async fn the_tour_repeats_steering_messages_and_lists_attachments() {
    let fixture = tour().await;
    fixture.begin("/steer 30").await;
    fixture.client.running_text(&fixture.uris.chat, 1).await;
    let message = json!({ "text": "enough", "origin": { "kind": "user" } });
    let action = json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": "s1", "message": message });
    fixture.client.dispatch(&fixture.uris.chat, action).await;
    let words = fixture.words().await;
    assert!(
        words.ends_with("You said: enough\n\nI have stopped listening."),
        "{words}"
    );
    let turn = fixture.client.run_turn(&fixture.uris.chat, "t2", "/attachments").await;
    let words = innkeeper_testkit::official::markdown(&turn.response_parts);
    assert_eq!(words, "Nothing came with your message.");
}

#[tokio::test]
async fn the_tour_remembers_earlier_messages() {
    let fixture = tour().await;
    fixture.client.run_turn(&fixture.uris.chat, "t1", "good evening").await;
    let turn = fixture
        .client
        .run_turn(&fixture.uris.chat, "t2", "do you remember?")
        .await;
    let words = innkeeper_testkit::official::markdown(&turn.response_parts);
    assert_eq!(words, "I remember that you said:\n\n- good evening\n");
}
