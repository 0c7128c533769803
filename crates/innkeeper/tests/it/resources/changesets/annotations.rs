//! Annotations of two clients of different versions, over a kill of the host.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use super::{repository, uri};
use crate::start;

fn annotation(session: &str, file: &str, id: &str, entries: Value) -> Value {
    let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 1, "character": 0 } });
    json!({
        "id": id, "origin": { "session": session }, "resource": file, "range": range, "resolved": false,
        "entries": entries,
    })
}

/// The state of a channel, which the client is subscribed to from then on.
async fn state_of(client: &OfficialClient, channel: &str) -> Value {
    let answer: Value = client
        .request("subscribe", json!({ "channel": channel }))
        .await
        .expect("subscribed");
    answer["snapshot"]["state"].clone()
}

#[tokio::test]
async fn ann01_ann05_ann07_annotations_of_two_versions_survive_a_kill() {
    let host = start().await;
    let client = OfficialClient::connect(host.address(), "first")
        .await
        .of_a_mortal_host();
    let repository = repository();
    let uris = client.create_session_in("remarks", &uri(&repository)).await;
    let channel = format!("{}/annotations", uris.session);
    let file = format!("{}/a.txt", uri(&repository));
    let _ = state_of(&client, &channel).await;
    let mut old = RawClient::connect(host.address()).await;
    old.initialize("old", &["0.9.0"]).await.expect("initialized");
    let answer = old
        .call("subscribe", json!({ "channel": channel }))
        .await
        .expect("subscribed");
    assert_eq!(answer["snapshot"]["state"], json!({ "annotations": [] }));
    let echo = |number: u64| move |message: &Value| message["params"]["origin"]["clientSeq"] == number;
    // The older client writes, and both change it: all five actions.
    let entries = json!([{ "id": "e1", "text": "first" }]);
    let set = json!({ "type": "annotations/set", "annotation": annotation(&uris.session, &file, "a1", entries) });
    old.dispatch(&channel, 1, set.clone()).await;
    old.notification("its echo", echo(1)).await;
    let mut second = set.clone();
    second["annotation"]["id"] = json!("a2");
    client.dispatch(&channel, second).await;
    let entry =
        json!({ "type": "annotations/entrySet", "annotationId": "a1", "entry": { "id": "e2", "text": "answer" } });
    client.dispatch(&channel, entry.clone()).await;
    client.caught_up().await;
    let mut third = entry;
    third["entry"]["id"] = json!("e3");
    old.dispatch(&channel, 2, third).await;
    old.notification("its echo", echo(2)).await;
    // Both see the entries in the order in which the host accepted them.
    let resolved = json!({ "type": "annotations/updated", "annotationId": "a1", "resolved": true });
    client.dispatch(&channel, resolved).await;
    let removed = json!({ "type": "annotations/entryRemoved", "annotationId": "a1", "entryId": "e1" });
    client.dispatch(&channel, removed).await;
    client
        .dispatch(&channel, json!({ "type": "annotations/removed", "annotationId": "a2" }))
        .await;
    // A rule that is broken is told to its author alone, by either version (ANN-02).
    let empty = json!({ "type": "annotations/set", "annotation": annotation(&uris.session, &file, "a3", json!([])) });
    old.dispatch(&channel, 3, empty).await;
    let refused = old.notification("a refusal", echo(3)).await;
    assert!(
        refused["params"]["rejectionReason"]
            .as_str()
            .is_some_and(|text| text.contains("entries")),
        "{refused}"
    );
    client.caught_up().await;
    let expected = |state: &Value| {
        let [only] = state["annotations"].as_array().map(Vec::as_slice).unwrap_or_default() else {
            panic!("{state}");
        };
        let ids: Vec<&str> = only["entries"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it["id"].as_str())
            .collect();
        assert_eq!(
            (only["id"].as_str(), only["resolved"].as_bool(), ids),
            (Some("a1"), Some(true), vec!["e2", "e3"])
        );
        assert_eq!(only["range"]["end"]["line"], 1, "an update leaves the range");
    };
    expected(&state_of(&client, &channel).await);
    let counts = client.listed(&uris.session).await.annotations.expect("counts");
    assert_eq!((counts.annotation_count, counts.entry_count), (1, 2));
    let host = host.kill_and_restart().await;
    let client = OfficialClient::connect(host.address(), "second").await;
    expected(&state_of(&client, &channel).await);
    let counts = client.listed(&uris.session).await.annotations.expect("counts");
    assert_eq!((counts.annotation_count, counts.entry_count), (1, 2));
}
