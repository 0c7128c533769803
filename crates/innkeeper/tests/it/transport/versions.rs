//! Version negotiation, and the dialect of older clients.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::{Incoming, RawClient};
use serde_json::json;

use crate::start;

/// The name of the root channel in 0.1.
const ROOT_OF_0_1: &str = concat!("agenthost:", "/", "root");

/// The versions that the host names when it refuses one.
const SUPPORTED: [&str; 12] = [
    "^1.0.0", "^0.9.0", "^0.8.0", "^0.7.0", "^0.6.0", "0.5.2", "0.5.1", "0.5.0", "^0.4.0", "^0.3.0", "^0.2.0", "^0.1.0",
];

#[tokio::test]
async fn neg_02_the_highest_version_in_range_is_chosen_and_returned_as_offered() {
    let host = start().await;
    for (offered, chosen) in [
        (vec!["1.0.0"], "1.0.0"),
        (vec!["1.4.0"], "1.4.0"),
        (vec!["0.9.0", "1.0.0"], "1.0.0"),
        (vec!["1.10.0", "1.9.0", "2.0.0"], "1.10.0"),
        (vec!["0.9.7", "0.9.2", "0.8.0"], "0.9.7"),
        (vec!["3.0.0", "0.1.0", "1.0.3"], "1.0.3"),
        (vec!["0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"], "0.8.0"),
        (vec!["0.6.4"], "0.6.4"),
        (vec!["0.5.0"], "0.5.0"),
        (vec!["0.4.0", "0.3.0", "0.2.0"], "0.4.0"),
    ] {
        let mut raw = RawClient::connect(host.address()).await;
        let result = raw.initialize("negotiating", &offered).await.expect("initialized");
        assert_eq!(result["protocolVersion"], chosen, "{offered:?}");
    }
}

#[tokio::test]
async fn lesson_08_unknown_versions_alone_are_refused_with_the_supported_ones() {
    let host = start().await;
    for offered in [vec!["0.0.1"], vec!["2.0.0"], vec!["0.10.0", "3.0.0"]] {
        let mut raw = RawClient::connect(host.address()).await;
        let refused = raw.initialize("old", &offered).await.expect_err("refused");
        assert_eq!(refused.code, -32005);
        assert_eq!(refused.data, json!({ "supportedVersions": SUPPORTED }));
        assert_eq!(
            refused.message,
            format!(
                "none of the offered protocol versions ({}) is supported; this host speaks {}",
                offered.join(", "),
                SUPPORTED.join(", ")
            )
        );
        assert_eq!(
            raw.end().await,
            Incoming::Closed(1000, "no common protocol version".to_owned())
        );
    }
}

#[tokio::test]
async fn neg_02_the_integer_of_0_1_is_answered_with_the_integer() {
    let host = start().await;
    let mut raw = RawClient::connect(host.address()).await;
    let offer = json!({ "protocolVersion": 1, "clientId": "oldest", "initialSubscriptions": [ROOT_OF_0_1] });
    let result = raw.call("initialize", offer).await.expect("initialized");
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["snapshots"][0]["resource"], ROOT_OF_0_1);
    let mut raw = RawClient::connect(host.address()).await;
    let offer = json!({ "protocolVersion": 2, "clientId": "unpublished" });
    let refused = raw.call("initialize", offer).await.expect_err("refused");
    assert_eq!(
        (refused.code, &refused.data["supportedVersions"]),
        (-32005, &json!(SUPPORTED))
    );
}

#[tokio::test]
async fn neg_04_a_malformed_version_is_an_error_of_the_whole_call() {
    let host = start().await;
    for malformed in ["1.0", "v1.0.0", "1.0.0-beta", "01.0.0", "", "1.0.0 "] {
        let mut raw = RawClient::connect(host.address()).await;
        let refused = raw.initialize("odd", &["1.0.0", malformed]).await.expect_err(malformed);
        assert_eq!(refused.code, -32602, "{malformed:?}");
        assert!(
            refused.message.starts_with("params.protocolVersions: "),
            "{}",
            refused.message
        );
        raw.initialize("odd", &["1.0.0"]).await.expect("may be corrected");
    }
}

#[tokio::test]
async fn root_16_a_client_of_0_9_gets_no_unknown_actions() {
    let host = start().await;
    let client = OfficialClient::connect(host.address(), "new").await;
    let mut old = RawClient::connect(host.address()).await;
    let result = old.initialize("old", &["0.9.0"]).await.expect("initialized");
    assert_eq!(result["protocolVersion"], "0.9.0");
    old.call("subscribe", json!({ "channel": "ahp-root://" }))
        .await
        .expect("subscribed");
    let uris = client.create_listed_session("both").await;
    let turn = client.run_turn(&uris.chat, "t1", "a title").await;
    assert_eq!(turn.id, "t1");
    let titled = |message: &serde_json::Value| {
        message["method"] == "root/sessionSummaryChanged" && message["params"]["changes"]["title"] == "a title"
    };
    let changed = old.notification("the new title", titled).await;
    assert_eq!(changed["params"]["session"], uris.session);
    let list = old.call("listSessions", json!({})).await.expect("listed");
    let mut summaries = vec![list["items"][0].clone(), changed["params"]["changes"].clone()];
    for message in old.notifications.drain(..) {
        match message["method"].as_str() {
            Some("root/sessionAdded") => summaries.push(message["params"]["summary"].clone()),
            Some("root/sessionSummaryChanged") => summaries.push(message["params"]["changes"].clone()),
            _ => {}
        }
    }
    assert!(summaries.len() >= 3);
    for summary in summaries {
        assert!(summary.get("chats").is_none(), "{summary}");
        assert!(summary.get("defaultChat").is_none(), "{summary}");
        assert_ne!(summary, json!({}), "a change that 0.9 cannot see is not announced");
    }
    // And it can take part all the same.
    old.dispatch(
        &uris.chat,
        1,
        innkeeper_testkit::official::turn_started("t2", "from 0.9"),
    )
    .await;
    client.turn_end(&uris.chat, "t2").await;
    client.assert_converged().await;
}
