//! Scopes view and drive: allowed methods, and the owner of a client id.

use innkeeper_testkit::official::{OfficialClient, turn_started};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::{Address, RawClient};
use serde_json::json;

use crate::options;

/// A host with three tokens, and the addresses that go with the narrower ones.
pub(crate) async fn start_with_scopes() -> (HostProcess, Address, Address) {
    let options = options()
        .setting("drive_token_file = \"drive\"")
        .setting("view_token_file = \"view\"");
    let host = HostProcess::start(options).await;
    let with_token = |file: &str| {
        let token = std::fs::read_to_string(host.path(file)).expect("the token file is there");
        Address {
            url: host.address().url.clone(),
            token: Some(token.trim().to_owned()),
        }
    };
    let (drive, view) = (with_token("drive"), with_token("view"));
    (host, drive, view)
}

#[tokio::test]
async fn b_2_scope_view_reads_everything_and_changes_nothing() {
    let (host, _, view) = start_with_scopes().await;
    let owner = OfficialClient::connect(host.address(), "owner").await;
    let uris = owner.create_session("shown").await;
    let visitor = OfficialClient::connect(&view, "visitor").await;
    visitor.join(&uris.session).await;
    visitor.start_turn(&uris.chat, "t1", "let me").await;
    assert_eq!(
        visitor.refusal(1).await,
        "chat/turnStarted needs the scope drive and this connection has view"
    );
    let mut raw = RawClient::initialized(&view, "raw").await;
    raw.call("listSessions", json!({})).await.expect("may look");
    for method in ["createSession", "disposeSession"] {
        let refused = raw
            .call(method, json!({ "channel": uris.session }))
            .await
            .expect_err(method);
        assert_eq!(refused.code, -32009, "{method}");
        assert_eq!(
            refused.message,
            format!(
                "{method} needs the scope drive and this connection's credential has view; connect with a credential \
                 of a wider scope"
            )
        );
    }
    owner.run_turn(&uris.chat, "t1", "/stream 100").await;
    visitor.turn_end(&uris.chat, "t1").await;
    visitor.assert_converged().await;
    owner.assert_converged().await;
}

#[tokio::test]
async fn b_2_scope_drive_does_not_change_the_host() {
    let (_host, drive, _) = start_with_scopes().await;
    let driver = OfficialClient::connect(&drive, "driver").await;
    let uris = driver.create_session("driven").await;
    driver.run_turn(&uris.chat, "t1", "hello").await;
    let mut raw = RawClient::initialized(&drive, "raw").await;
    let change = json!({ "type": "root/configChanged", "config": { "autoApprove": "autoApprove" } });
    raw.dispatch("ahp-root://", 1, change).await;
    let refused = raw
        .notification("a refusal", |message| message["method"] == "action")
        .await;
    assert_eq!(
        refused["params"]["rejectionReason"],
        "root/configChanged needs the scope admin and this connection has drive"
    );
    let refused = raw
        .call("innkeeper/importSession", json!({ "lines": ["{}"] }))
        .await
        .expect_err("not for every scope");
    assert_eq!(refused.code, -32009, "{}", refused.message);
    driver.assert_converged().await;
}

#[tokio::test]
async fn t_10_a_client_id_belongs_to_the_credential_that_used_it_first() {
    let (host, drive, _) = start_with_scopes().await;
    let owner = OfficialClient::connect(host.address(), "owner").await;
    let uris = owner.create_session("mine").await;
    let mut thief = RawClient::connect(&drive).await;
    let reconnect = json!({ "clientId": "owner", "lastSeenServerSeq": 0, "subscriptions": [uris.chat] });
    let refused = thief.call("reconnect", reconnect).await.expect_err("refused");
    assert_eq!(refused.code, -32008, "to a stranger the client does not exist");
    let refused = thief.initialize("owner", &["1.0.0"]).await.expect_err("refused");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            -32009,
            "the client id \"owner\" belongs to another credential; choose another id"
        )
    );
    thief.initialize("thief", &["1.0.0"]).await.expect("under its own name");
    thief.dispatch(&uris.chat, 1, turn_started("t1", "hello")).await;
    owner.turn_end(&uris.chat, "t1").await;
    let origin = owner.view().actions.iter().find_map(|envelope| envelope.origin.clone());
    assert_eq!(
        origin.map(|origin| origin.client_id).as_deref(),
        Some("thief"),
        "DSP-09"
    );
    owner.assert_converged().await;
}
