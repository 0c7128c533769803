//! Cancelling a turn at any point. The next turn works, and its request is valid for providers.

use ahp_types::state::TurnState;
use innkeeper_testkit::model_server::{Api, ConversationPart, Reply};
use innkeeper_testkit::official::markdown;
use serde_json::json;

use crate::model::support::{Setup, Stage, users};

/// Cancels the first turn and has a second one answered.
async fn cancel_and_go_on(stage: &Stage) {
    stage.client.cancel_turn(&stage.uris.chat, "t1").await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(turn.state, TurnState::Cancelled);
    let turn = stage.run_turn("t2", "And now?").await;
    assert_eq!(markdown(&turn.response_parts), "Here I am.", "{turn:#?}");
    let heard = users(&stage.last_asked());
    assert_eq!(
        (heard.first(), heard.last()),
        (Some(&"Begin.".to_owned()), Some(&"And now?".to_owned()))
    );
    stage.assert_in_order().await;
}

fn after() -> Reply {
    Reply::words("Here I am.")
}

#[tokio::test]
async fn cancelling_a_turn_hangs_up_on_a_streaming_model() {
    for api in Api::ALL {
        let script = [Reply::new().text("I begin and").stall().text(" end."), after()];
        let stage = Setup::new(api).stage(script).await;
        stage.start_turn("t1", "Begin.").await;
        stage.client.running_text(&stage.uris.chat, 11).await;
        stage.client.cancel_turn(&stage.uris.chat, "t1").await;
        stage.server.until_hung_up(0).await;
        cancel_and_go_on(&stage).await;
        // The history has the text that users have seen.
        let said = stage.last_asked().said();
        assert!(
            said.contains(&ConversationPart::Assistant("I begin and".into())),
            "{api:?}: {said:?}"
        );
    }
}

#[tokio::test]
async fn a_turn_is_cancelled_while_the_model_writes_a_call() {
    for api in Api::ALL {
        let script = [
            Reply::new()
                .text("Hm.")
                .call("list_directory", json!({ "path": "." }))
                .stall(),
            after(),
        ];
        let stage = Setup::new(api).stage(script).await;
        stage.start_turn("t1", "Begin.").await;
        stage.client.call_in(&stage.uris.chat, "streaming").await;
        cancel_and_go_on(&stage).await;
    }
}

#[tokio::test]
async fn a_turn_is_cancelled_before_the_first_byte_of_an_answer() {
    let stage = Setup::new(Api::Responses)
        .stage([Reply::words("late").stall_first(), after()])
        .await;
    stage.start_turn("t1", "Begin.").await;
    stage.server.until_asked(1).await;
    stage.client.cancel_turn(&stage.uris.chat, "t1").await;
    stage.server.until_hung_up(0).await;
    cancel_and_go_on(&stage).await;
}

#[tokio::test]
async fn a_turn_is_cancelled_in_the_pause_before_another_try() {
    let script = [
        Reply::new().refuse(529, "overloaded_error", "busy").retry_after(50),
        after(),
    ];
    let stage = Setup::new(Api::Messages).stage(script).await;
    stage.start_turn("t1", "Begin.").await;
    stage
        .client
        .until("users see the pause", |view| {
            let activity = view.chat(&stage.uris.chat).and_then(|chat| chat.activity.clone());
            activity.is_some_and(|activity| activity.contains("Trying again in"))
        })
        .await;
    cancel_and_go_on(&stage).await;
    assert_eq!(stage.client.chat(&stage.uris.chat).activity.unwrap_or_default(), "");
}

#[tokio::test]
async fn cancelling_a_turn_kills_a_running_command_with_its_children() {
    let script = [
        Reply::new()
            .call("run_command", json!({ "command": "echo first > a" }))
            .call(
                "run_command",
                json!({ "command": "echo $$ > pid; sleep 1000 & sleep 1000" }),
            ),
        after(),
    ];
    let stage = Setup::new(Api::Chat).stage(script).await;
    stage.start_turn("t1", "Begin.").await;
    stage.approve().await;
    stage.approve().await;
    let pid = stage.directory.path().join("pid");
    let group: i32 = loop {
        if let Ok(Ok(pid)) = std::fs::read_to_string(&pid).map(|text| text.trim().parse()) {
            break pid;
        }
        tokio::task::yield_now().await;
    };
    stage.client.cancel_turn(&stage.uris.chat, "t1").await;
    // The members of a group can be seen as long as one of them is there.
    while is_there(group) {
        tokio::task::yield_now().await;
    }
    cancel_and_go_on(&stage).await;
    // The model learns that the first command ran, and that the result of the second is unknown.
    let results: Vec<String> = stage
        .last_asked()
        .said()
        .into_iter()
        .filter_map(|said| match said {
            ConversationPart::Result { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    assert!(!results[0].contains("There is no result"), "{results:?}");
    assert!(results[1].contains("There is no result"), "{results:?}");
}

/// Whether a process group has members that are not waiting to be buried.
fn is_there(group: i32) -> bool {
    let processes = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    let mut stats = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    stats.any(|stat| {
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = after_name.split_whitespace();
        let state = fields.next();
        let its_group = fields.nth(1).and_then(|field| field.parse().ok());
        its_group == Some(group) && state != Some("Z")
    })
}

#[tokio::test]
async fn a_turn_is_cancelled_during_a_confirmation() {
    let script = [
        Reply::new().call("run_command", json!({ "command": "echo no > a" })),
        after(),
    ];
    let stage = Setup::new(Api::Messages).stage(script).await;
    stage.start_turn("t1", "Begin.").await;
    stage.client.wait_for(&stage.uris.session, "toolConfirmation").await;
    cancel_and_go_on(&stage).await;
    assert!(!stage.directory.path().join("a").exists());
    stage.client.nothing_waits(&stage.uris.session).await;
}

#[tokio::test]
async fn a_turn_is_cancelled_while_the_model_asks_a_question() {
    let script = [
        Reply::new().call("ask_user", json!({ "question": "Which one?" })),
        after(),
    ];
    let stage = Setup::new(Api::Responses).stage(script).await;
    stage.start_turn("t1", "Begin.").await;
    stage.client.wait_for(&stage.uris.session, "chatInput").await;
    cancel_and_go_on(&stage).await;
    stage.client.nothing_waits(&stage.uris.session).await;
}
