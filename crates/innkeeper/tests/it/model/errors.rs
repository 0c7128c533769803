//! Provider errors: the message for the user, and how a turn resumes.

use ahp_types::state::TurnState;
use innkeeper_testkit::model_server::{Api, ConversationPart, Ending, Reply};
use innkeeper_testkit::official::markdown;
use serde_json::json;

use crate::model::support::{Setup, error_of, notices, users};

#[tokio::test]
async fn each_kind_of_failure_is_an_error_part_with_a_message() {
    let failures = [
        (Reply::new().refuse(401, "invalid_api_key", "bad key"), "auth", true),
        (
            Reply::new().refuse(429, "insufficient_quota", "no money left"),
            "quota",
            true,
        ),
        (
            Reply::new()
                .refuse(429, "rate_limit_exceeded", "slow down")
                .retry_after(3600),
            "rateLimited",
            true,
        ),
        (
            Reply::new().refuse(400, "invalid_request_error", "what is this?"),
            "badRequest",
            false,
        ),
        (
            Reply::new().refuse(404, "model_not_found", "no such model"),
            "noModel",
            false,
        ),
        (
            Reply::new().refuse(400, "context_length_exceeded", "prompt is too long"),
            "contextLength",
            false,
        ),
        (
            Reply::new().error(200, "<html>Welcome!</html>"),
            "malformedAnswer",
            false,
        ),
    ];
    let script: Vec<Reply> = failures.iter().map(|(reply, ..)| reply.clone()).collect();
    let stage = Setup::new(Api::Chat)
        .stage(innkeeper_testkit::model_server::Script::in_order(script))
        .await;
    for (number, (_, kind, can_go_on)) in failures.iter().enumerate() {
        let turn = stage.run_turn(&format!("t{number}"), "Hello?").await;
        let (told, message, resumable) = error_of(&turn).unwrap_or_else(|| panic!("{kind}: {turn:#?}"));
        assert_eq!((told.as_str(), resumable), (*kind, *can_go_on), "{message}");
        assert_eq!(turn.state, TurnState::Error);
        assert!(
            message.ends_with(['.', ')']) && message.len() > 30,
            "a sentence: {message}"
        );
    }
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_broken_stream_keeps_its_text_and_resumes() {
    for api in Api::ALL {
        let script = [
            Reply::new()
                .text("The first half of it and a lost rest")
                .deltas([5])
                .cut_after(6),
            Reply::words(" and the second."),
        ];
        let stage = Setup::new(api).stage(script).await;
        let turn = stage.run_turn("t1", "Tell me.").await;
        let (kind, _, resumable) = error_of(&turn).expect("an error");
        assert_eq!((kind.as_str(), resumable), ("interrupted", true));
        let heard = markdown(&turn.response_parts);
        assert!(
            heard.starts_with("The f") && !heard.contains("hears"),
            "{api:?}: {heard}"
        );
        let turn = stage.resume("t1").await;
        assert_eq!(turn.state, TurnState::Complete, "{turn:#?}");
        assert_eq!(markdown(&turn.response_parts), format!("{heard} and the second."));
        let said = stage.last_asked().said();
        assert_eq!(said[0], ConversationPart::User("Tell me.".into()), "{api:?}");
        assert_eq!(said[1], ConversationPart::Assistant(heard));
        assert!(
            matches!(&said[2], ConversationPart::User(text) if text.contains("Go on")),
            "{said:?}"
        );
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_stream_error_is_reported_and_the_turn_resumes() {
    for api in Api::ALL {
        let script = [
            Reply::new().text("So far").fail("overloaded_error", "busy"),
            Reply::words(", so good."),
        ];
        let stage = Setup::new(api).stage(script).await;
        let turn = stage.run_turn("t1", "Go.").await;
        let (_, _, resumable) = error_of(&turn).expect("an error");
        assert!(resumable, "{api:?}: {turn:#?}");
        let turn = stage.resume("t1").await;
        assert_eq!(markdown(&turn.response_parts), "So far, so good.");
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn tries_are_shown_while_they_last_and_gone_afterwards() {
    let script = [
        Reply::new().refuse(503, "server_error", "out of order"),
        Reply::words("Better now.").stall(),
    ];
    let stage = Setup::new(Api::Responses).stage(script).await;
    stage.start_turn("t1", "Hello?").await;
    stage
        .client
        .until("another try is announced", |view| {
            let activity = view.chat(&stage.uris.chat).and_then(|chat| chat.activity.clone());
            activity.is_some_and(|activity| activity.contains("(2 of 5)"))
        })
        .await;
    stage
        .client
        .until("the announcement is gone", |view| {
            let chat = view.chat(&stage.uris.chat).expect("mirrored");
            chat.active_turn.is_some() && chat.activity.as_deref().unwrap_or_default().is_empty()
        })
        .await;
    stage.server.go_on();
    let turn = stage.turn_end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "Better now.");
    assert_eq!(stage.server.requests().len(), 2);
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_turn_that_failed_without_output_resumes_with_its_message() {
    let script = [
        Reply::words("Hello."),
        Reply::new().refuse(402, "insufficient_quota", "no money"),
        Reply::words("Three."),
    ];
    let stage = Setup::new(Api::Chat).stage(script).await;
    stage.run_turn("t1", "Hello.").await;
    let turn = stage.run_turn("t2", "How many?").await;
    assert!(error_of(&turn).is_some_and(|(.., resumable)| resumable), "{turn:#?}");
    let turn = stage.resume("t2").await;
    assert_eq!(markdown(&turn.response_parts), "Three.");
    assert_eq!(users(&stage.last_asked()), ["Hello.", "How many?"]);
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_turn_that_failed_between_calls_resumes_with_their_results() {
    for api in Api::ALL {
        let script = [
            Reply::new().text("I look.").call("read_file", json!({ "path": "a" })),
            Reply::new().refuse(402, "insufficient_quota", "no money"),
            Reply::words(" It says hello."),
        ];
        let stage = Setup::new(api).stage(script).await;
        stage.write("a", "hello\n");
        stage.run_turn("t1", "What does it say?").await;
        let turn = stage.resume("t1").await;
        assert_eq!(markdown(&turn.response_parts), "I look. It says hello.", "{turn:#?}");
        assert!(stage.last_asked().last_results()[0].contains("hello"));
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_refusal_ends_the_turn_with_its_text() {
    for api in Api::ALL {
        let script = [
            Reply::new().ending(Ending::Refused(Some("I cannot help with that".into()))),
            Reply::words("Gladly."),
        ];
        let stage = Setup::new(api).stage(script).await;
        let turn = stage.run_turn("t1", "Do harm.").await;
        let (kind, message, resumable) = error_of(&turn).unwrap_or_else(|| panic!("{api:?}: {turn:#?}"));
        assert_eq!((kind.as_str(), resumable), ("refused", false), "{message}");
        let turn = stage.run_turn("t2", "Do good.").await;
        assert_eq!(markdown(&turn.response_parts), "Gladly.");
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn responses_that_are_too_long_or_empty_get_a_notice() {
    for api in Api::ALL {
        let script = [
            Reply::new().text("On and on").ending(Ending::Length),
            Reply::new().reasoning("I think, but say nothing."),
            Reply::new(),
            Reply::words("Here."),
        ];
        let stage = Setup::new(api).stage(script).await;
        for (turn, needle) in [
            ("t1", "reached the token limit"),
            ("t2", "without text"),
            ("t3", "without text"),
        ] {
            let turn = stage.run_turn(turn, "Talk.").await;
            assert_eq!(turn.state, TurnState::Complete, "{api:?}: {turn:#?}");
            assert!(
                notices(&turn).iter().any(|notice| notice.contains(needle)),
                "{api:?}: {turn:#?}"
            );
        }
        let turn = stage.run_turn("t4", "Talk.").await;
        assert_eq!(markdown(&turn.response_parts), "Here.");
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_pause_is_no_end() {
    let script = [
        Reply::new().text("First").ending(Ending::Paused),
        Reply::words(", then second."),
    ];
    let stage = Setup::new(Api::Messages).stage(script).await;
    let turn = stage.run_turn("t1", "Count.").await;
    assert_eq!(markdown(&turn.response_parts), "First, then second.");
    assert_eq!(stage.server.requests().len(), 2);
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn a_model_that_never_ends_is_called_at_most_as_often_as_configured() {
    let script = innkeeper_testkit::model_server::Script::by(|_| Reply::new().call("list_directory", json!({})));
    let stage = Setup::new(Api::Chat)
        .models("titles = false\nrounds_per_turn = 3")
        .stage(script)
        .await;
    let turn = stage.run_turn("t1", "Go.").await;
    let (kind, message, resumable) = error_of(&turn).expect("an error");
    assert_eq!((kind.as_str(), resumable), ("tooManyRounds", true), "{message}");
    assert_eq!(stage.server.requests().len(), 3);
    stage.resume("t1").await;
    assert_eq!(stage.server.requests().len(), 6);
    stage.assert_in_order().await;
}
