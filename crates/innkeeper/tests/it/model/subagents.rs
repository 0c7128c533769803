//! Subagents that the model starts with a tool call.

use ahp_types::state::TurnState;
use innkeeper_testkit::model_server::{Api, Reply, Script};
use innkeeper_testkit::official::{markdown, tool_calls_of};
use serde_json::json;

use crate::model::support::{Setup, Stage};

/// The chats of subagents, subscribed to.
async fn subagents(stage: &Stage, count: usize) -> Vec<String> {
    stage
        .client
        .until("the subagents are there", |view| {
            view.catalogue(&stage.uris.session).len() == count + 1
        })
        .await;
    let chats = stage.client.view().catalogue(&stage.uris.session)[1..].to_vec();
    for chat in &chats {
        stage.client.subscribe(chat).await;
    }
    chats
}

#[tokio::test]
async fn a_subagent_has_its_own_chat_and_reports_its_last_message() {
    for api in Api::ALL {
        let script = Script::by(|asked| {
            let results = asked.last_results();
            match (asked.said().first(), results.first().map(String::as_str)) {
                (Some(said), None) if is_task(said) => Reply::new()
                    .text("On it.")
                    .call("run_command", json!({ "command": "echo from the subagent" })),
                (Some(said), Some(_)) if is_task(said) => Reply::words("The command said hello."),
                (_, None) => Reply::new().call("delegate", json!({ "title": "Run it", "task": "Run the command." })),
                (_, Some(report)) => Reply::words(format!("Reported: {report}")),
            }
        });
        let stage = Setup::new(api).stage(script).await;
        stage.start_turn("t1", "Have it run.").await;
        let chats = subagents(&stage, 1).await;
        let wait = stage.approve().await;
        assert_eq!(wait["chat"], json!(chats[0]), "the subagent asks in its own chat");
        let turn = stage.turn_end("t1").await;
        assert_eq!(markdown(&turn.response_parts), "Reported: The command said hello.");
        let calls = tool_calls_of(&turn);
        assert!(
            calls[0]["content"].to_string().contains(&chats[0]),
            "the call names its subagent: {:#}",
            calls[0]
        );
        let subagent = stage.client.chat(&chats[0]);
        assert_eq!(subagent.turns.len(), 1);
        assert_eq!(subagent.turns[0].state, TurnState::Complete);
        assert_eq!(
            markdown(&subagent.turns[0].response_parts),
            "On it.The command said hello."
        );
        assert!(subagent.turns[0].usage.is_some(), "a subagent has its own cost");
        let requests = stage.server.requests();
        let of_subagent = requests
            .iter()
            .find(|asked| asked.said().first().is_some_and(is_task))
            .expect("asked");
        assert!(
            of_subagent.system().contains("You are a subagent"),
            "{}",
            of_subagent.system()
        );
        assert!(
            !of_subagent.tools().contains(&"ask_user".to_owned()),
            "no user reads along"
        );
        assert!(
            !of_subagent.tools().contains(&"delegate".to_owned()),
            "subagents start no subagents"
        );
        stage.assert_in_order().await;
    }
}

fn is_task(said: &innkeeper_testkit::model_server::ConversationPart) -> bool {
    matches!(said, innkeeper_testkit::model_server::ConversationPart::User(text) if text == "Run the command.")
}

#[tokio::test]
async fn the_model_sees_failed_and_stopped_subagents() {
    let script = Script::by(
        |asked| match (asked.last_words().as_deref(), asked.last_results().len()) {
            (Some("Fail."), _) => Reply::new().refuse(400, "invalid_request_error", "no"),
            (Some("Dawdle."), _) => Reply::words("late").stall_first(),
            (_, 0) => Reply::new()
                .call("delegate", json!({ "title": "Failing", "task": "Fail." }))
                .call("delegate", json!({ "title": "Dawdling", "task": "Dawdle." })),
            _ => Reply::words("Neither."),
        },
    );
    let stage = Setup::new(Api::Messages).stage(script).await;
    stage.start_turn("t1", "Send two.").await;
    let chats = subagents(&stage, 2).await;
    let titled = |title: &str| {
        let found = chats.iter().find(|chat| stage.client.chat(chat).title == title);
        found.unwrap_or_else(|| panic!("a chat with the title {title}")).clone()
    };
    let (failing, dawdling) = (titled("Failing"), titled("Dawdling"));
    stage
        .client
        .until("one has failed", |view| {
            view.chat(&failing)
                .is_some_and(|chat| chat.turns.first().is_some_and(|turn| turn.state == TurnState::Error))
        })
        .await;
    stage.server.until_asked(3).await;
    let running = stage.client.chat(&dawdling).active_turn.expect("it dawdles").id;
    stage.client.cancel_turn(&dawdling, &running).await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "Neither.");
    let results = stage.last_asked().last_results();
    assert!(results[0].contains("no"), "{results:?}");
    assert!(results[1].contains("stopped"), "{results:?}");
    for call in tool_calls_of(&turn) {
        assert_eq!(call["success"], false, "{call:#}");
    }
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_subagent_has_no_tool_to_start_another() {
    let script = Script::by(|asked| match asked.last_results().first() {
        None => Reply::new().call("delegate", json!({ "title": "Deeper", "task": "Go deeper." })),
        Some(report) => Reply::words(report.clone()),
    });
    let stage = Setup::new(Api::Chat).stage(script).await;
    let turn = stage.run_turn("t1", "Dig.").await;
    let said = markdown(&turn.response_parts);
    assert!(said.contains("there is no such tool"), "{said}");
    assert_eq!(
        stage.server.requests().len(),
        4,
        "two of the agent, two of its one subagent"
    );
    stage.assert_in_order().await;
}

#[tokio::test]
async fn cancelling_a_turn_cancels_its_subagents() {
    let script = Script::by(|asked| match asked.last_words().as_deref() {
        Some("Dawdle.") => Reply::words("late").stall_first(),
        Some("And now?") => Reply::words("Here I am."),
        _ => Reply::new().call("delegate", json!({ "title": "Dawdling", "task": "Dawdle." })),
    });
    let stage = Setup::new(Api::Responses).stage(script).await;
    stage.start_turn("t1", "Begin.").await;
    let chats = subagents(&stage, 1).await;
    stage.server.until_asked(2).await;
    stage.client.cancel_turn(&stage.uris.chat, "t1").await;
    stage.server.until_hung_up(1).await;
    stage
        .client
        .until("the subagent is cancelled", |view| {
            let chat = view.chat(&chats[0]).expect("mirrored");
            chat.turns
                .first()
                .is_some_and(|turn| turn.state == TurnState::Cancelled)
        })
        .await;
    let turn = stage.run_turn("t2", "And now?").await;
    assert_eq!(markdown(&turn.response_parts), "Here I am.");
    stage.assert_in_order().await;
}
