//! Things that published clients cannot do, and what becomes of them.

use innkeeper_compat::client::{CompatClient, Failure};
use innkeeper_compat::version::Version;
use innkeeper_compat::words::merge;
use serde_json::json;

use crate::start;

/// The types of 0.2 and 0.3 have actions of watches and no state of one.
#[tokio::test]
async fn only_clients_from_0_4_on_read_a_watch() {
    let host = start().await;
    let url = host.address().url_with_token();
    let folder = tempfile::tempdir().expect("a directory");
    let uri = format!("file://{}", folder.path().canonicalize().expect("there").display());
    let owner = CompatClient::connect(&url, Version::V1_0, "owner").await;
    owner
        .create_session("watched", json!({ "workingDirectories": [uri] }))
        .await;
    for version in Version::ALL.into_iter().filter(|version| version.has_channels()) {
        let client = CompatClient::connect(&url, version, &format!("watcher-{}", version.number())).await;
        client.join("ahp-session:/watched").await;
        let mut params = version.connection_params();
        merge(&mut params, json!({ "uri": uri, "recursive": false }));
        let created = client.request("createResourceWatch", params).await;
        let channel = created["channel"].as_str().expect("a channel");
        let subscribed = client.try_subscribe(channel).await;
        match version.has_chats() {
            true => assert!(subscribed.is_ok(), "{version:?}: {subscribed:?}"),
            false => assert!(
                matches!(subscribed, Err(Failure::Client(_))),
                "{version:?}: {subscribed:?}"
            ),
        }
        // The connection goes on.
        client.caught_up().await;
    }
}
