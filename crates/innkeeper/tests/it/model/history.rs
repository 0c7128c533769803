//! The history that the model gets after a restart.

use innkeeper_testkit::model_server::{Api, ConversationPart, Reply, Script};
use innkeeper_testkit::official::{markdown, offer};
use serde_json::{Value, json};

use crate::model::support::{Setup, Stage, error_of, users};

/// A stage where one turn has read a file and another one has talked.
async fn with_two_turns(api: Api) -> Stage {
    let script = Script::by(
        |asked| match (asked.last_words().as_deref(), asked.last_results().len()) {
            (Some("What does it say?"), 0) => Reply::new().text("I look.").call("read_file", json!({ "path": "a" })),
            (Some("What does it say?"), _) => Reply::words("It says hello."),
            (other, _) => Reply::words(format!("You said {}", other.unwrap_or_default())),
        },
    );
    let stage = Setup::new(api).stage(script).await;
    stage.write("a", "hello there\n");
    stage.run_turn("t1", "What does it say?").await;
    stage.run_turn("t2", "Thank you.").await;
    stage
}

fn has_call(said: &[ConversationPart]) -> bool {
    said.iter()
        .any(|said| matches!(said, ConversationPart::Call { name, .. } if name == "read_file"))
}

fn has_result(said: &[ConversationPart], needle: &str) -> bool {
    said.iter()
        .any(|said| matches!(said, ConversationPart::Result { text, .. } if text.contains(needle)))
}

#[tokio::test]
async fn after_a_kill_the_model_knows_earlier_calls_and_results() {
    for api in Api::ALL {
        let stage = with_two_turns(api).await.kill_and_restart().await;
        let turn = stage.run_turn("t3", "Where were we?").await;
        assert_eq!(markdown(&turn.response_parts), "You said Where were we?");
        let asked = stage.last_asked();
        let said = asked.said();
        assert_eq!(users(&asked), ["What does it say?", "Thank you.", "Where were we?"]);
        assert!(has_call(&said), "{api:?}: {said:#?}");
        assert!(has_result(&said, "hello there"), "{said:#?}");
        assert!(
            said.iter()
                .any(|said| matches!(said, ConversationPart::Assistant(text) if text.contains("It says hello.")))
        );
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn forks_side_chats_and_truncated_chats_get_their_history() {
    for api in Api::ALL {
        let stage = with_two_turns(api).await;
        let chat = stage.uris.chat.as_str();
        let create = |uri: &str, kind: &str, turn: &str| {
            let source = json!({ "kind": kind, "chat": chat, "turnId": turn });
            (uri.to_owned(), json!({ "source": source }))
        };
        let (fork, source) = create("ahp-chat:/fork", "fork", "t1");
        stage.client.create_chat(&stage.uris.session, &fork, source).await;
        stage.client.run_turn(&fork, "f1", "In the fork.").await;
        let asked = stage.last_asked();
        assert_eq!(users(&asked), ["What does it say?", "In the fork."]);
        assert!(has_result(&asked.said(), "hello there"), "{asked:#?}");

        let (side, source) = create("ahp-chat:/side", "sideChat", "t2");
        stage.client.create_chat(&stage.uris.session, &side, source).await;
        stage.client.run_turn(&side, "s1", "Aside.").await;
        let heard = users(&stage.last_asked());
        assert!(
            heard[0].contains("What does it say?") && heard[0].contains("It says hello."),
            "{heard:#?}"
        );
        assert!(heard.last().is_some_and(|last| last.ends_with("Aside.")), "{heard:#?}");

        stage
            .client
            .dispatch(chat, json!({ "type": "chat/truncated", "turnId": "t1" }))
            .await;
        stage
            .client
            .until("the chat is cut short", |view| {
                view.chat(chat).is_some_and(|chat| chat.turns.len() == 1)
            })
            .await;
        stage.run_turn("t3", "Again.").await;
        let asked = stage.last_asked();
        assert_eq!(users(&asked), ["What does it say?", "Again."], "{api:?}");
        assert!(has_call(&asked.said()));
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn p4_a_turn_interrupted_by_a_kill_resumes_with_its_history() {
    for api in Api::ALL {
        let script = [
            Reply::words("Hello."),
            Reply::new().call("read_file", json!({ "path": "a" })),
            Reply::new().text("The first half").stall(),
            Reply::words(" and the rest."),
        ];
        let stage = Setup::new(api).stage(script).await;
        stage.write("a", "hello there\n");
        stage.run_turn("t1", "Hello.").await;
        stage.start_turn("t2", "Tell me.").await;
        stage.client.running_text(&stage.uris.chat, 14).await;
        let stage = stage.kill_and_restart().await;
        let turn = stage.turn_end("t2").await;
        assert!(error_of(&turn).is_some_and(|(.., resumable)| resumable), "{turn:#?}");
        let kept = markdown(&turn.response_parts);
        let turn = stage.resume("t2").await;
        assert_eq!(
            markdown(&turn.response_parts),
            format!("{kept} and the rest."),
            "{turn:#?}"
        );
        let asked = stage.last_asked();
        assert_eq!(
            users(&asked)[..2],
            ["Hello.", "Tell me."],
            "the user's message is there"
        );
        assert!(
            has_result(&asked.said(), "hello there"),
            "{api:?}: what was done is not done again"
        );
        let said = |said: &ConversationPart| matches!(said, ConversationPart::Assistant(text) if *text == kept);
        assert!(kept.is_empty() || asked.said().iter().any(said), "{:#?}", asked.said());
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_client_s_tool_with_an_odd_name_does_no_harm_after_a_restart() {
    let script = Script::by(
        |asked| match (asked.last_words().as_deref(), asked.last_results().len()) {
            (Some("Open it."), 0) => {
                let name = asked.tools().into_iter().find(|name| name.starts_with("editor_open"));
                Reply::new().call(name.expect("the tool is offered"), json!({}))
            }
            _ => Reply::words("Done."),
        },
    );
    let stage = Setup::new(Api::Messages).stage(script).await;
    stage
        .client
        .dispatch(&stage.uris.session, offer("first", &["editor.open!"]))
        .await;
    stage.start_turn("t1", "Open it.").await;
    let wait = stage.client.wait_for(&stage.uris.session, "toolClientExecution").await;
    let result = json!({ "result": { "success": true, "pastTenseMessage": "Opened it", "content": [] } });
    stage.client.answer(&wait, "chat/toolCallComplete", result).await;
    stage.turn_end("t1").await;
    let stage = stage.kill_and_restart().await;
    stage.run_turn("t2", "And now?").await;
    let names: Vec<Value> = stage
        .last_asked()
        .said()
        .into_iter()
        .filter_map(|said| match said {
            ConversationPart::Call { name, .. } => Some(json!(name)),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["editor_open_"], "only what providers take");
    stage.assert_in_order().await;
}
