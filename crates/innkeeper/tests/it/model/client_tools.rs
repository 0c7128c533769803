//! Client tools beside the built-in tools.

use innkeeper_testkit::model_server::{Api, ConversationPart, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, markdown, offer};
use serde_json::json;

use crate::model::support::Setup;

const PNG: &str = "iVBORw0KGgo=";

#[tokio::test]
async fn act04_a_clients_tool_has_its_own_name_and_its_result_reaches_the_model() {
    for api in Api::ALL {
        let script = Script::by(|asked| match asked.last_results().first() {
            None => Reply::new()
                .call("client_read_file", json!({ "path": "open.txt" }))
                .deltas([1])
                .call("read_file", json!({ "path": "a" })),
            Some(_) => Reply::words("Both read."),
        });
        let stage = Setup::new(api).stage(script).await;
        stage.write("a", "on disk\n");
        stage.client.offer(&stage.uris.session, &["read_file", "paint"]).await;
        stage.start_turn("t1", "Read.").await;
        let wait = stage.client.wait_for(&stage.uris.session, "toolClientExecution").await;
        assert_eq!(
            wait["toolCall"]["toolName"], "read_file",
            "the client knows it by its own name"
        );
        assert_eq!(wait["toolCall"]["toolInput"], json!({ "path": "open.txt" }).to_string());
        let deltas = stage.client.view().actions_on(&stage.uris.chat);
        let deltas = deltas
            .iter()
            .filter(|action| action["type"] == "chat/toolCallDelta")
            .count();
        assert!(deltas > 1, "the input was streamed");
        let content = json!([
            { "type": "text", "text": "in the editor" },
            { "type": "embeddedResource", "data": PNG, "contentType": "image/png" },
        ]);
        let result = json!({ "result": { "success": true, "pastTenseMessage": "Read it", "content": content } });
        stage.client.answer(&wait, "chat/toolCallComplete", result).await;
        let turn = stage.turn_end("t1").await;
        assert_eq!(markdown(&turn.response_parts), "Both read.", "{turn:#?}");
        let asked = stage.last_asked();
        let mut names = asked.tools();
        for name in ["read_file", "client_read_file", "paint"] {
            assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
        }
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "every name once");
        let results = asked.last_results();
        assert!(
            results.iter().any(|text| text.contains("in the editor")),
            "{api:?}: {results:?}"
        );
        assert!(results.iter().any(|text| text.contains("on disk")), "{results:?}");
        let has_image = asked.body.to_string().contains(PNG);
        assert!(has_image, "{api:?}: the image reaches the model: {:?}", asked.said());
        stage.assert_in_order().await;
    }
}

#[tokio::test]
async fn act11_the_model_sees_that_a_client_left_during_its_call() {
    let script = Script::by(|asked| match asked.last_results().first() {
        None => Reply::new().call("paint", json!({ "what": "a door" })),
        Some(_) => Reply::words("No client paints any more."),
    });
    let setup = Setup::new(Api::Messages).options(|options| options.limit("grace_ms", 0));
    let stage = setup.stage(script).await;
    let mut painter = OfficialClient::connect(stage.host.address(), "painter").await;
    painter.join(&stage.uris.session).await;
    painter
        .dispatch(&stage.uris.session, offer("painter", &["paint"]))
        .await;
    stage
        .client
        .until("the painter is there", |view| {
            !view.members(&stage.uris.session).is_empty()
        })
        .await;
    stage.start_turn("t1", "Paint.").await;
    painter.wait_for(&stage.uris.session, "toolClientExecution").await;
    painter.cut().await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "No client paints any more.");
    let said = stage.last_asked().said();
    let last = said.last().expect("something was said");
    assert!(
        matches!(last, ConversationPart::Result { text, .. } if !text.is_empty()),
        "{said:?}"
    );
    stage.assert_in_order().await;
}
