//! Conversations that exceed the context window.

use ahp_types::state::ResponsePart;
use innkeeper_testkit::model_server::{Api, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::markdown;
use serde_json::{Value, json};

use crate::model::support::{Setup, Stage, asks_for_summary, notices, users};

/// The long response of the model to everything.
fn long_answer() -> String {
    "So it is. ".repeat(800)
}

/// About eight thousand tokens by our count, of which the tools and the prompt take some.
const SMALL: &str =
    "keyless = true\nmodels = [{ id = \"scripted\", context_window = 16000, max_output_tokens = 1000 }]";

/// The provider counts as we do.
fn talk(asked: &ReceivedRequest) -> Reply {
    let count = u32::try_from(asked.body.to_string().len() / 4).expect("not that long");
    if asks_for_summary(asked) {
        Reply::words("They talked about the weather.").usage(count, 10, 0)
    } else {
        Reply::words(long_answer()).usage(count, 2000, 0)
    }
}

/// Talks until the conversation is shortened; the number of the last turn.
async fn talk_until_shortened(stage: &Stage) -> usize {
    for number in 0..20 {
        let turn = stage
            .run_turn(&format!("t{number}"), &format!("Question number {number}?"))
            .await;
        if let Some(notice) = notices(&turn).first() {
            assert!(
                notice.contains("was summarised") && notice.contains("verbatim"),
                "{notice}"
            );
            return number;
        }
    }
    panic!("the conversation was never shortened");
}

/// Checks that users can read the summary that replaces the compacted history.
async fn assert_summary_is_shown(stage: &Stage) {
    let chat = stage.client.chat(&stage.uris.chat);
    let mut parts = chat.turns.iter().flat_map(|turn| &turn.response_parts);
    let summary = parts.find_map(|part| match part {
        ResponsePart::ContentRef(part) => Some(part.clone()),
        _ => None,
    });
    let summary = summary.expect("a part that refers to it");
    assert!(summary.uri.ends_with("/summary.md"), "{summary:?}");
    assert_eq!(summary.content_type.as_deref(), Some("text/markdown"));
    let params = json!({ "channel": "ahp-root://", "uri": summary.uri });
    let read: Value = stage.client.request("resourceRead", params).await.expect("kept");
    assert_eq!(read["data"], "They talked about the weather.");
}

/// Checks that a request has every user message once and unchanged.
fn assert_all_words(asked: &ReceivedRequest, last: usize) {
    let heard = users(asked).join("\n");
    for number in 0..=last {
        let count = heard.matches(&format!("Question number {number}?")).count();
        assert_eq!(count, 1, "question {number} in {heard}");
    }
}

fn asked_in_chat(stage: &Stage) -> Vec<ReceivedRequest> {
    let requests = stage.server.requests().into_iter();
    requests.filter(|asked| !asks_for_summary(asked)).collect()
}

#[tokio::test]
async fn compaction_is_shown_and_keeps_user_messages() {
    for api in Api::ALL {
        let stage = Setup::new(api).provider(SMALL).stage(Script::by(talk)).await;
        let shortened = talk_until_shortened(&stage).await;
        assert_summary_is_shown(&stage).await;
        for number in shortened + 1..shortened + 8 {
            stage
                .run_turn(&format!("t{number}"), &format!("Question number {number}?"))
                .await;
        }
        for (number, asked) in asked_in_chat(&stage).iter().enumerate() {
            assert_all_words(asked, number);
            assert!(
                asked.body.to_string().len() < 16_000 * 4,
                "request {number} is too long"
            );
        }
        let last = stage.last_asked();
        assert!(users(&last)[0].contains("They talked about the weather."), "{api:?}");
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn after_a_kill_the_summary_is_still_there_and_so_are_the_turns_after_it() {
    let stage = Setup::new(Api::Messages).provider(SMALL).stage(Script::by(talk)).await;
    let last = talk_until_shortened(&stage).await;
    let before = stage.last_asked();
    let stage = stage.kill_and_restart().await;
    let next = last + 1;
    stage
        .run_turn(&format!("t{next}"), &format!("Question number {next}?"))
        .await;
    let first = stage
        .server
        .requests()
        .into_iter()
        .find(|asked| asked.number > before.number)
        .expect("asked");
    assert!(!asks_for_summary(&first), "what was summarised is not summarised again");
    assert!(
        users(&first)[0].contains("They talked about the weather."),
        "{:#?}",
        users(&first)
    );
    assert_all_words(&first, next);
    stage.assert_in_order().await;
}

#[tokio::test]
async fn without_a_summary_room_is_made_all_the_same() {
    let script = Script::by(|asked| {
        if asks_for_summary(asked) {
            Reply::new().refuse(500, "server_error", "no summaries today")
        } else {
            talk(asked)
        }
    });
    let stage = Setup::new(Api::Chat).provider(SMALL).stage(script).await;
    let shortened = talk_until_shortened(&stage).await;
    for number in shortened + 1..shortened + 6 {
        stage
            .run_turn(&format!("t{number}"), &format!("Question number {number}?"))
            .await;
    }
    for (number, asked) in asked_in_chat(&stage).iter().enumerate() {
        assert_all_words(asked, number);
        assert!(
            asked.body.to_string().len() < 16_000 * 4,
            "request {number} is too long"
        );
    }
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_provider_that_says_it_is_too_long_is_believed() {
    for api in Api::ALL {
        // The context window is smaller than configured.
        let script = Script::by(|asked| {
            if !asks_for_summary(asked) && asked.body.to_string().len() > 40_000 {
                return Reply::new().refuse(
                    400,
                    "context_length_exceeded",
                    "prompt is too long: 9 tokens > 8 maximum",
                );
            }
            talk(asked)
        });
        let stage = Setup::new(api).stage(script).await;
        let last = talk_until_shortened(&stage).await;
        let turn = stage.client.chat(&stage.uris.chat).turns.pop().expect("a turn");
        assert_eq!(markdown(&turn.response_parts), long_answer(), "{api:?}");
        assert_all_words(&stage.last_asked(), last);
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn users_can_request_compaction() {
    let stage = Setup::new(Api::Responses).stage(Script::by(talk)).await;
    let turn = stage.run_turn("c0", "/compact").await;
    assert_eq!(markdown(&turn.response_parts), "There is nothing to compact yet.");
    for number in 0..3 {
        stage
            .run_turn(&format!("t{number}"), &format!("Question number {number}?"))
            .await;
    }
    let turn = stage.run_turn("c1", "/compact").await;
    assert!(
        notices(&turn)[0].starts_with("The beginning of the conversation was summarised"),
        "{turn:#?}"
    );
    assert!(turn.usage.is_some(), "a summary has its cost");
    stage.run_turn("t3", "Question number 3?").await;
    let asked = stage.last_asked();
    assert!(
        users(&asked)[0].contains("They talked about the weather."),
        "{:#?}",
        users(&asked)
    );
    assert_all_words(&asked, 3);
    assert!(!asked.body.to_string().contains("/compact"), "that was for us");

    let stage = stage.kill_and_restart().await;
    stage.run_turn("t4", "Question number 4?").await;
    let asked = stage.last_asked();
    assert_all_words(&asked, 4);
    assert!(!asked.body.to_string().contains("/compact"), "not even after a restart");
    stage.assert_in_order().await;
}
