//! Negotiation: the highest common version of any offer, and a refusal that names them all.

use innkeeper_testkit::raw::{Incoming, RawClient, get};
use serde_json::{Value, json};

use crate::start;

/// Sends an offer and returns the confirmed version, or the error.
async fn negotiate(host: &innkeeper_testkit::process::HostProcess, offer: Value) -> Result<Value, (i64, Value)> {
    let mut client = RawClient::connect(host.address()).await;
    let mut params = offer;
    params["clientId"] = json!("negotiator");
    let answer = client.call("initialize", params).await;
    answer
        .map(|result| result["protocolVersion"].clone())
        .map_err(|refusal| (refusal.code, refusal.data))
}

fn list(versions: &[&str]) -> Value {
    json!({ "channel": "ahp-root://", "protocolVersions": versions })
}

#[tokio::test]
async fn neg_02_the_highest_common_version_is_confirmed_as_it_was_offered() {
    let host = start().await;
    for (offer, confirmed) in [
        // The single version of each published Rust client, VS Code and its CLI.
        (&["0.2.0"][..], "0.2.0"),
        (&["0.3.0"], "0.3.0"),
        (&["0.4.0"], "0.4.0"),
        (&["0.5.0"], "0.5.0"),
        (&["0.5.1"], "0.5.1"),
        (&["0.5.2"], "0.5.2"),
        (&["0.6.0"], "0.6.0"),
        (&["0.7.0"], "0.7.0"),
        (&["0.8.0"], "0.8.0"),
        (&["0.9.0"], "0.9.0"),
        (&["1.0.0"], "1.0.0"),
        // The lists of the Swift and Go SDKs and of VS Code.
        (&["0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"], "0.8.0"),
        (&["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"], "0.9.0"),
        (&["0.5.0", "0.4.0", "0.3.0"], "0.5.0"),
        (&["1.0.0", "0.8.0"], "1.0.0"),
        // The order of a list does not matter, and unknown versions are passed over.
        (&["0.2.0", "0.7.0", "0.3.0"], "0.7.0"),
        (&["7.0.0", "0.4.0"], "0.4.0"),
        // Unpublished patches.
        (&["0.6.4"], "0.6.4"),
        (&["0.5.9"], "0.5.9"),
        (&["1.0.3"], "1.0.3"),
    ] {
        assert_eq!(negotiate(&host, list(offer)).await, Ok(json!(confirmed)), "{offer:?}");
    }
}

#[tokio::test]
async fn the_integer_of_0_1_is_confirmed_as_an_integer() {
    let host = start().await;
    assert_eq!(negotiate(&host, json!({ "protocolVersion": 1 })).await, Ok(json!(1)));
    // With the members in the order in which older builds write them.
    let mut client = RawClient::connect(host.address()).await;
    let frame = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"CLIENT","#,
        r#""initialSubscriptions":["agenthost:/"#,
        r#"root"],"protocolVersion":1}}"#
    );
    client.send(frame).await;
    let result = client.answer(&json!(1)).await.expect("accepted");
    assert_eq!(
        result["snapshots"][0]["resource"],
        innkeeper_compat::version::Version::V0_1.root()
    );
}

#[tokio::test]
async fn neg_05_a_list_without_a_common_version_is_refused_with_all_versions() {
    let host = start().await;
    for offer in [list(&["2.0.0"]), list(&["0.0.9"]), json!({ "protocolVersion": 2 })] {
        let (code, data) = negotiate(&host, offer.clone()).await.expect_err("refused");
        assert_eq!(code, -32005, "{offer}");
        let supported = data["supportedVersions"].as_array().expect("a list");
        for version in innkeeper_compat::version::Version::ALL {
            let minor = version.number().rsplit_once('.').map_or("", |(minor, _)| minor);
            let is_named = supported
                .iter()
                .any(|entry| entry.as_str().is_some_and(|entry| entry.contains(minor)));
            assert!(is_named || !version.has_channels(), "{version:?} in {data}");
        }
    }
    let mut client = RawClient::connect(host.address()).await;
    client
        .call("initialize", {
            let mut offer = list(&["2.0.0"]);
            offer["clientId"] = json!("x");
            offer
        })
        .await
        .expect_err("refused");
    assert!(
        matches!(client.end().await, Incoming::Closed(1000, _)),
        "the host hangs up"
    );
}

#[tokio::test]
async fn neg_04_a_malformed_entry_is_named() {
    let host = start().await;
    for offer in [
        list(&["0.2.0", "newest"]),
        json!({ "channel": "ahp-root://", "protocolVersions": "0.2.0" }),
    ] {
        let (code, _) = negotiate(&host, offer.clone()).await.expect_err("refused");
        assert_eq!(code, -32602, "{offer}");
    }
}

#[tokio::test]
async fn the_versions_are_shown_over_http() {
    let host = start().await;
    let answer = get(host.address(), "/version", &[]).await;
    let shown: Value = serde_json::from_str(&answer.body).expect("JSON");
    let protocol = shown["protocol"].to_string();
    for minor in [
        "1.0", "0.9", "0.8", "0.7", "0.6", "0.5.2", "0.5.1", "0.5.0", "0.4", "0.3", "0.2",
    ] {
        assert!(protocol.contains(minor), "{minor} in {protocol}");
    }
}
