//! Steering messages that arrive while the model works.

use innkeeper_testkit::model_server::{Api, Reply};
use innkeeper_testkit::official::{markdown, steering};
use serde_json::json;

use crate::model::support::{Setup, Stage, users};

async fn steer(stage: &Stage, text: &str) {
    stage.client.dispatch(&stage.uris.chat, steering("s1", text)).await;
    stage
        .client
        .until("the message waits", |view| {
            view.chat(&stage.uris.chat)
                .is_some_and(|chat| chat.steering_message.is_some())
        })
        .await;
}

#[tokio::test]
async fn pend04_steering_between_calls_is_in_the_next_request_exactly_once() {
    for api in Api::ALL {
        let script = [
            Reply::new().text("Looking.").stall().call("list_directory", json!({})),
            Reply::new().call("list_directory", json!({})),
            Reply::words("In French, then."),
        ];
        let stage = Setup::new(api).stage(script).await;
        stage.start_turn("t1", "What is here?").await;
        stage.client.running_text(&stage.uris.chat, 8).await;
        steer(&stage, "Answer in French.").await;
        stage.server.go_on();
        let turn = stage.turn_end("t1").await;
        assert_eq!(markdown(&turn.response_parts), "Looking.In French, then.");
        let requests = stage.server.requests();
        let heard: Vec<Vec<String>> = requests.iter().map(users).collect();
        assert_eq!(
            heard,
            [
                vec!["What is here?"],
                vec!["What is here?", "Answer in French."],
                vec!["What is here?", "Answer in French."]
            ],
            "{api:?}"
        );
        assert!(stage.client.chat(&stage.uris.chat).steering_message.is_none());
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn pend04_steering_during_the_last_answer_makes_the_model_go_on() {
    let script = [
        Reply::new().text("It is done.").stall().text(" Bye."),
        Reply::words("Also tested."),
    ];
    let stage = Setup::new(Api::Messages).stage(script).await;
    stage.start_turn("t1", "Do it.").await;
    stage.client.running_text(&stage.uris.chat, 8).await;
    steer(&stage, "Test it, too.").await;
    stage.server.go_on();
    let turn = stage.turn_end("t1").await;
    assert!(markdown(&turn.response_parts).ends_with("Also tested."), "{turn:#?}");
    assert_eq!(users(&stage.last_asked()), ["Do it.", "Test it, too."]);
    assert!(stage.client.chat(&stage.uris.chat).steering_message.is_none());

    // After a restart the model still knows: the chat's own history does not have these words.
    let stage = stage.kill_and_restart().await;
    stage.run_turn("t2", "And now?").await;
    assert_eq!(users(&stage.last_asked())[..2], ["Do it.", "Test it, too."]);
    stage.client.assert_converged().await;
}
