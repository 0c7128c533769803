//! Several tool calls in one response: reads run in parallel, changes in sequence.

use innkeeper_testkit::model_server::{Api, Reply};
use innkeeper_testkit::official::{markdown, tool_calls_of};
use serde_json::json;

use crate::model::support::Setup;

#[tokio::test]
async fn harmless_calls_run_at_the_same_time() {
    // Neither subagent gets a response before both have asked, so they cannot run in sequence.
    let script = innkeeper_testkit::model_server::Script::by(|asked| match asked.last_words().as_deref() {
        Some("Look left." | "Look right.") => Reply::words("Nothing there.").stall_first(),
        _ if asked.last_results().is_empty() => Reply::new()
            .call("delegate", json!({ "title": "Left", "task": "Look left." }))
            .call("delegate", json!({ "title": "Right", "task": "Look right." })),
        _ => Reply::words("Nothing on either side."),
    });
    let stage = Setup::new(Api::Responses).stage(script).await;
    stage.start_turn("t1", "Look around.").await;
    stage.server.until_asked(3).await;
    stage
        .client
        .until("both calls run", |view| {
            let calls = view.tool_calls(&stage.uris.chat);
            calls.len() == 2 && calls.iter().all(|call| call["status"] == "running")
        })
        .await;
    stage.server.go_on();
    stage.server.go_on();
    let turn = stage.turn_end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "Nothing on either side.");
    stage.assert_in_order().await;
}

#[tokio::test]
async fn calls_that_change_something_run_one_after_the_other_in_their_order() {
    for api in Api::ALL {
        let script = [
            Reply::new()
                .call("run_command", json!({ "command": "echo one >> log" }))
                .call("read_file", json!({ "path": "log" }))
                .call("run_command", json!({ "command": "echo two >> log" })),
            Reply::words("Done."),
        ];
        let stage = Setup::new(api).stage(script).await;
        stage.start_turn("t1", "Write.").await;
        let wait = stage.client.wait_for(&stage.uris.session, "toolConfirmation").await;
        // The second command is not even asked about while the first waits.
        assert_eq!(stage.client.view().waits(&stage.uris.session).len(), 1);
        assert!(wait["toolCall"]["toolInput"].to_string().contains("one"), "{wait:#}");
        stage.approve().await;
        let second = stage.approve().await;
        assert!(
            second["toolCall"]["toolInput"].to_string().contains("two"),
            "{second:#}"
        );
        stage.turn_end("t1").await;
        assert_eq!(stage.read("log"), "one\ntwo\n");
        let results = stage.last_asked().last_results();
        assert_eq!(results.len(), 3);
        // The read happened between the two.
        assert!(
            results[1].contains("one") && !results[1].contains("two"),
            "{results:#?}"
        );
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_denied_call_tells_the_model_why_and_it_goes_on() {
    let script = [
        Reply::new().call("run_command", json!({ "command": "rm notes" })),
        Reply::words("Then I leave them."),
    ];
    let stage = Setup::new(Api::Messages).stage(script).await;
    stage.write("notes", "mine");
    stage.start_turn("t1", "Tidy up.").await;
    stage
        .decide(json!({ "approved": false, "reasonMessage": "I need my notes" }))
        .await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "Then I leave them.");
    let results = stage.last_asked().last_results();
    assert!(
        results[0].contains("denied") && results[0].contains("I need my notes"),
        "{results:?}"
    );
    assert_eq!(stage.read("notes"), "mine");
    stage.assert_in_order().await;
}

#[tokio::test]
async fn an_edited_input_is_executed() {
    let script = [
        Reply::new().call("run_command", json!({ "command": "echo model > said" })),
        Reply::words("Done."),
    ];
    let stage = Setup::new(Api::Chat).stage(script).await;
    stage.start_turn("t1", "Say it.").await;
    let edited = json!({ "command": "echo user > said; echo user" }).to_string();
    stage
        .decide(json!({ "approved": true, "editedToolInput": edited }))
        .await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(stage.read("said"), "user\n");
    assert_eq!(tool_calls_of(&turn)[0]["toolInput"], edited);
    let results = stage.last_asked().last_results();
    assert!(results[0].contains("user"), "{results:?}");
    stage.assert_in_order().await;
}
