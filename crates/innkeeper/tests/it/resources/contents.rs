//! Contents that are too long for a turn: the reference in the turn, and the stored content.

use ahp_types::state::ResponsePart;
use innkeeper_testkit::raw::RawClient;
use serde_json::json;

use crate::resources::files::ask;
use crate::start_with_client;

#[tokio::test]
async fn res03_a_long_report_is_a_part_that_refers_to_it() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("long").await;
    let turn = client.run_turn(&uris.chat, "t1", "/long 200").await;
    let part = turn.response_parts.iter().find_map(|part| match part {
        ResponsePart::ContentRef(part) => Some(part.clone()),
        _ => None,
    });
    let part = part.expect("a contentRef part");
    assert!(
        part.uri.starts_with("innkeeper-content://") && part.uri.ends_with("/guest-book.md"),
        "{part:?}"
    );
    assert_eq!(part.content_type.as_deref(), Some("text/markdown"));
    let read = ask(&client, "resourceRead", json!({ "uri": part.uri })).await;
    let text = read["data"].as_str().expect("text");
    assert!(text.starts_with("# The guest book\n") && text.len() >= 200 << 10);
    assert_eq!(part.size_hint, i64::try_from(text.len()).ok());
    assert_eq!(read["contentType"], "text/markdown");
    // The state is small, also for clients of the earlier line of the protocol.
    let mut old = RawClient::connect(host.address()).await;
    old.initialize("old", &["0.9.0"]).await.expect("initialized");
    let refused = old.call("resourceRead", json!({ "uri": part.uri })).await;
    assert_eq!(refused.expect_err("it listens to nothing").code, -32009);
    let subscribed = old
        .call("subscribe", json!({ "channel": uris.chat }))
        .await
        .expect("subscribed");
    let shown = &subscribed["snapshot"]["state"]["turns"][0]["responseParts"][0];
    let expected = json!({
        "kind": "contentRef", "uri": part.uri, "sizeHint": text.len(), "contentType": "text/markdown",
    });
    assert_eq!(*shown, expected);
    assert!(subscribed.to_string().len() < 10_000);
    old.call("resourceRead", json!({ "uri": part.uri }))
        .await
        .expect("read");
    client.assert_converged().await;
}
