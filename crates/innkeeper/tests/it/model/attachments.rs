//! Attachments in model requests.

use innkeeper_testkit::model_server::{Api, ConversationPart, ModelServer, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, markdown, turn_started};
use serde_json::{Value, json};

use crate::model::support::{Setup, Stage, create_session, error_of, users};

/// Runs a turn whose message has more than words.
async fn run(stage: &Stage, id: &str, more: Value) -> ReceivedRequest {
    let mut action = turn_started(id, "Look at this.");
    for (name, value) in more.as_object().expect("fields") {
        action["message"][name] = value.clone();
    }
    stage.client.dispatch(&stage.uris.chat, action).await;
    let turn = stage.turn_end(id).await;
    assert_eq!(markdown(&turn.response_parts), "I see.", "{turn:#?}");
    stage.last_asked()
}

fn always() -> Script {
    Script::by(|_| Reply::words("I see."))
}

const PNG: &str = "iVBORw0KGgo=";

#[tokio::test]
async fn images_and_files_reach_the_model() {
    for api in Api::ALL {
        let stage = Setup::new(api).stage(always()).await;
        let attachments = json!([
            { "type": "embeddedResource", "label": "shot", "data": PNG, "contentType": "image/png" },
            { "type": "embeddedResource", "label": "notes", "data": "aGVsbG8=", "contentType": "text/plain" },
            { "type": "simple", "label": "note", "modelRepresentation": "remember the milk" },
            { "type": "resource", "label": "main", "uri": "file:///inn/main.rs" },
        ]);
        let asked = run(&stage, "t1", json!({ "attachments": attachments })).await;
        let said = asked.said();
        assert!(
            said.contains(&ConversationPart::Image("image/png".into())),
            "{api:?}: {said:?}"
        );
        let heard = users(&asked).join("\n");
        for needle in ["hello", "remember the milk", "/inn/main.rs", "Look at this."] {
            assert!(heard.contains(needle), "{api:?}: {needle} in {heard}");
        }
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_model_without_vision_gets_no_images() {
    let provider = "keyless = true\nmodels = [{ id = \"scripted\", vision = false }]";
    let stage = Setup::new(Api::Chat).provider(provider).stage(always()).await;
    let image = json!([{ "type": "embeddedResource", "label": "shot", "data": PNG, "contentType": "image/png" }]);
    let asked = run(&stage, "t1", json!({ "attachments": image })).await;
    assert!(!asked.body.to_string().contains(PNG), "{:#}", asked.body);
    assert!(users(&asked).join("\n").contains("you cannot see"), "{asked:#?}");
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_message_selects_its_model_and_effort() {
    for (api, effort) in [
        (Api::Chat, "/reasoning_effort"),
        (Api::Responses, "/reasoning/effort"),
        (Api::Messages, "/thinking/budget_tokens"),
    ] {
        let provider = "keyless = true\nmodels = [{ id = \"plain\" }, { id = \"deep\", effort = true }]";
        let stage = Setup::new(api).provider(provider).stage(always()).await;
        let high = json!({ "effort": "high" });
        let asked = run(&stage, "t1", json!({})).await;
        assert_eq!((asked.model(), asked.body.pointer(effort)), ("plain", None));
        let asked = run(&stage, "t2", json!({ "model": { "id": "deep", "config": high } })).await;
        assert_eq!(asked.model(), "deep");
        assert!(asked.body.pointer(effort).is_some(), "{api:?}: {:#}", asked.body);
        let asked = run(&stage, "t3", json!({ "model": { "id": "plain", "config": high } })).await;
        assert_eq!((asked.model(), asked.body.pointer(effort)), ("plain", None));
        // The host refuses what the agent does not have, in words of its own.
        let mut action = turn_started("t4", "Hello?");
        action["message"]["model"] = json!({ "id": "unheard-of" });
        stage.client.dispatch(&stage.uris.chat, action).await;
        let reason = stage.client.refusal(1).await;
        assert!(reason.contains("has no model \"unheard-of\""), "{reason}");
        let asked = run(&stage, "t5", json!({})).await;
        assert_eq!(asked.model(), "plain", "a choice is for one message");
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn a_server_that_comes_up_late_and_one_without_a_list_can_be_used() {
    let server = ModelServer::start(always()).await;
    server.list_models(None);
    let host = Setup::new(Api::Chat).provider("keyless = true").host(&server).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let directory = tempfile::tempdir().expect("a directory");
    let uris = create_session(&client, "work", directory.path()).await;
    let turn = client.run_turn(&uris.chat, "t1", "Hello?").await;
    let (kind, message, resumable) = error_of(&turn).expect("there is no model");
    assert_eq!((kind.as_str(), resumable), ("noModel", true), "{message}");
    // A client can name any model.
    let mut action = turn_started("t2", "Hello?");
    action["message"]["model"] = json!({ "id": "unheard-of" });
    client.dispatch(&uris.chat, action).await;
    let turn = client.turn_end(&uris.chat, "t2").await;
    assert_eq!(markdown(&turn.response_parts), "I see.");
    assert_eq!(server.requests()[0].model(), "unheard-of");
    // And once the server says what it has, that is used.
    server.list_models(Some(vec![json!({ "id": "late" })]));
    client.run_turn(&uris.chat, "t3", "Hello?").await;
    let asked = server.requests().pop().expect("asked");
    assert_eq!(asked.model(), "late");
    let heard = users(&asked).join("\n");
    assert_eq!(heard.matches("Hello?").count(), 3, "no words were lost: {heard}");
    client.assert_converged().await;
}
