//! Apps of MCP servers ask the model of their session to write, and users decide (MCP-15).

use ahp_types::state::Turn;
use innkeeper_testkit::official::{OfficialClient, View, markdown};
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, TestSession};

const METHOD: &str = "sampling/createMessage";

/// A session with a server that has apps, and a client that shows them.
struct AppSampling<'a> {
    room: TestSession<'a>,
    view: OfficialClient,
    channel: Value,
}

async fn open() -> Inn {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("app") });
    Inn::open(place, servers).await
}

impl<'a> AppSampling<'a> {
    async fn new(inn: &'a Inn) -> Self {
        let room = inn.ready_room("one", "odd").await;
        let view = OfficialClient::connect_with_apps(inn.host.address(), "view").await;
        let uris = view.join(&room.uris.session).await;
        let beside = TestSession { client: &view, uris };
        let channel = beside.server("odd")["channel"].clone();
        Self { room, view, channel }
    }

    fn params(&self, words: &str) -> Value {
        let message = json!({ "role": "user", "content": { "type": "text", "text": words } });
        json!({ "channel": self.channel, "messages": [message], "maxTokens": 50 })
    }

    async fn question(&self) -> Value {
        self.room.client.wait_for(&self.room.uris.session, "chatInput").await
    }

    async fn answer(&self, question: &Value, response: &str, answers: Value) {
        let action = json!({
            "type": "chat/inputCompleted", "requestId": question["request"]["id"], "response": response,
            "answers": answers,
        });
        self.room.client.dispatch(&self.room.uris.chat, action).await;
    }

    /// The turn that was started for the latest request, when it is over.
    async fn app_turn(&self, number: usize) -> Turn {
        let chat = &self.room.uris.chat;
        let find = |view: &View| {
            let turns = &view.chat(chat)?.turns;
            let mut turns = turns.iter().filter(|turn| turn.id.starts_with("app-"));
            turns.nth(number).cloned()
        };
        let client = self.room.client;
        client
            .until("the turn of the app is over", |view| find(view).is_some())
            .await;
        let found = find(&client.view());
        found.expect("a turn that is over stays")
    }
}

#[tokio::test]
async fn mcp15_users_allow_sampling_of_an_app_and_see_its_result() {
    let inn = open().await;
    let scene = AppSampling::new(&inn).await;
    let asking = scene.view.request::<Value>(METHOD, scene.params("Name a colour."));
    let deciding = async {
        let question = scene.question().await;
        let message = question["request"]["message"].as_str().unwrap_or_default().to_owned();
        for part in [
            "An app of the MCP server \"odd\"",
            "at most 50 tokens",
            "> Name a colour.",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
        let remember = json!({ "remember": { "state": "submitted", "value": { "kind": "boolean", "value": true } } });
        scene.answer(&question, "accept", remember).await;
    };
    let (answer, ()) = tokio::join!(asking, deciding);
    let answer = answer.expect("allowed");
    assert_eq!(
        (&answer["role"], &answer["stopReason"]),
        (&json!("assistant"), &json!("endTurn"))
    );
    let text = answer["content"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("You said: Name a colour."), "{answer}");
    let turn = scene.app_turn(0).await;
    assert_eq!(
        markdown(&turn.response_parts),
        text,
        "every client sees what the app got"
    );
    let message = json!(turn.message);
    assert_eq!(message["origin"]["kind"], "tool", "{message}");

    // For the rest of the session, as the user said. The chat goes on as before.
    let again = scene.view.request::<Value>(METHOD, scene.params("And another one."));
    assert!(again.await.expect("allowed")["content"]["text"].is_string());
    scene.app_turn(1).await;
    scene.room.say("t1", "hello").await;
    inn.client.assert_converged().await;
    scene.view.assert_converged().await;
}

#[tokio::test]
async fn mcp15_a_declined_or_invalid_request_of_an_app_is_an_error() {
    let inn = open().await;
    let scene = AppSampling::new(&inn).await;
    let (code, message) = scene
        .view
        .refused(METHOD, json!({ "channel": scene.channel, "messages": [] }))
        .await;
    assert_eq!(code, -32602, "{message}");
    let asking = scene.view.refused(METHOD, scene.params("Name a colour."));
    let cancelling = async {
        let question = scene.question().await;
        let chat = &scene.room.uris.chat;
        let turn = scene.room.client.chat(chat).active_turn.expect("a turn runs").id;
        scene.room.client.cancel_turn(chat, &turn).await;
        question
    };
    let ((code, message), _) = tokio::join!(asking, cancelling);
    assert_eq!(code, -32603);
    assert!(message.contains("ask again"), "{message}");
    scene.room.client.nothing_waits(&scene.room.uris.session).await;

    let asking = scene.view.refused(METHOD, scene.params("Name a colour."));
    let deciding = async {
        let question = scene.question().await;
        scene.answer(&question, "decline", json!({})).await;
    };
    let ((code, message), ()) = tokio::join!(asking, deciding);
    assert_eq!(code, -1);
    assert!(message.contains("a user did not allow the request"), "{message}");
    // A page that asks again and again does not bother users.
    let (code, message) = scene.view.refused(METHOD, scene.params("Name a colour.")).await;
    assert_eq!(code, -1);
    assert!(message.contains("a moment ago"), "{message}");
    scene.room.client.nothing_waits(&scene.room.uris.session).await;
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn mcp15_while_a_turn_runs_users_are_asked_in_it() {
    let inn = open().await;
    let scene = AppSampling::new(&inn).await;
    let AppSampling { room, .. } = &scene;
    room.client
        .start_turn(&room.uris.chat, "t1", "/mcp odd echo {\"text\": \"hi\"}")
        .await;
    let wait = room.client.wait_for(&room.uris.session, "toolConfirmation").await;
    let asking = scene.view.request::<Value>(METHOD, scene.params("Name a colour."));
    let deciding = async {
        let question = scene.question().await;
        assert_eq!(question["chat"], wait["chat"]);
        scene.answer(&question, "accept", json!({})).await;
    };
    let (answer, ()) = tokio::join!(asking, deciding);
    assert!(answer.expect("allowed")["content"]["text"].is_string());
    room.client.decide(&wait, json!({ "approved": true })).await;
    let (words, _) = room.end("t1").await;
    assert!(words.contains("hi"), "{words}");
    assert!(!words.contains("Name a colour"), "{words}");
    inn.client.assert_converged().await;
}
