//! Approvals: remembered in their scope, listed, revoked, and never wider.

use innkeeper_testkit::official::{OfficialClient, decided_by, markdown, tool_calls_of};
use serde_json::{Value, json};

use crate::start_with_client;
use crate::turns::approvals::allow;

fn change(name: &str, value: Value) -> Value {
    json!({ "type": "session/configChanged", "config": { name: value } })
}

#[tokio::test]
async fn lesson_42_session_approvals_are_listed_revocable_and_stay_there() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("one").await;
    let others = client.create_session("two").await;
    client.start_turn(&uris.chat, "t1", "/confirm").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    let options: Vec<_> = wait["toolCall"]["options"]
        .as_array()
        .expect("options")
        .iter()
        .map(|option| option["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(
        options,
        ["allow-once", "allow-session", "allow-session-every", "deny"],
        "there is no workspace"
    );
    client.decide(&wait, allow("allow-session")).await;
    client.turn_end(&uris.chat, "t1").await;
    client
        .until("it is listed", |view| {
            view.setting(&uris.session, "approvedTools") == json!([r#"ring_bell({"times":3})"#])
        })
        .await;
    // TOOL-04: an automatic approval says so, and names no client.
    let turn = client.run_turn(&uris.chat, "t2", "/confirm").await;
    let call = tool_calls_of(&turn).remove(0);
    assert_eq!(
        (&call["status"], &call["confirmed"]),
        (&json!("completed"), &json!("setting"))
    );
    assert_eq!(decided_by(&call), None);
    assert!(markdown(&turn.response_parts).ends_with("because your settings said yes."));
    // Another tool, and another session, still ask; so does the same session of another client.
    client.start_turn(&uris.chat, "t3", "/parallel 1").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, allow("allow-once")).await;
    client.turn_end(&uris.chat, "t3").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&others.session).await;
    other.start_turn(&others.chat, "t1", "/confirm").await;
    let wait = other.wait_for(&others.session, "toolConfirmation").await;
    other.decide(&wait, allow("allow-once")).await;
    other.turn_end(&others.chat, "t1").await;
    // Any subscriber of the session can revoke it.
    let revoker = OfficialClient::connect(host.address(), "revoker").await;
    revoker.subscribe(&uris.session).await;
    revoker
        .dispatch(&uris.session, change("approvedTools", json!([])))
        .await;
    client
        .until("it is taken back", |view| {
            view.setting(&uris.session, "approvedTools") == json!([])
        })
        .await;
    client.start_turn(&uris.chat, "t4", "/confirm").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": false })).await;
    client.turn_end(&uris.chat, "t4").await;
    for who in [&client, &other, &revoker] {
        who.assert_converged().await;
    }
}

#[tokio::test]
async fn lesson_42_workspace_approvals_apply_to_its_sessions_only() {
    let (host, client) = start_with_client().await;
    let [workspace, elsewhere] = ["work", "elsewhere"].map(|name| {
        std::fs::create_dir(host.path(name)).expect("created");
        format!("file://{}", host.path(name).display())
    });
    let one = client.create_session_in("one", &workspace).await;
    let two = client.create_session_in("two", &workspace).await;
    let away = client.create_session_in("away", &elsewhere).await;
    client.start_turn(&one.chat, "t1", "/confirm").await;
    let wait = client.wait_for(&one.session, "toolConfirmation").await;
    client.decide(&wait, allow("allow-workspace")).await;
    client.turn_end(&one.chat, "t1").await;
    client
        .until("both sessions of the workspace list it", |view| {
            [&one, &two].iter().all(|uris| {
                view.setting(&uris.session, "workspaceApprovedTools") == json!([r#"ring_bell({"times":3})"#])
            })
        })
        .await;
    let later = client.create_session_in("later", &workspace).await;
    for uris in [&two, &later] {
        let turn = client.run_turn(&uris.chat, "t1", "/confirm").await;
        assert_eq!(tool_calls_of(&turn)[0]["confirmed"], "setting");
    }
    client.start_turn(&away.chat, "t1", "/confirm").await;
    let wait = client.wait_for(&away.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": false })).await;
    client.turn_end(&away.chat, "t1").await;
    assert_eq!(
        client.view().setting(&away.session, "workspaceApprovedTools"),
        json!([])
    );
    // Taken back in one session, it is taken back in all of them.
    client
        .dispatch(&later.session, change("workspaceApprovedTools", json!([])))
        .await;
    client
        .until("it is taken back everywhere", |view| {
            [&one, &two, &later]
                .iter()
                .all(|uris| view.setting(&uris.session, "workspaceApprovedTools") == json!([]))
        })
        .await;
    client.start_turn(&two.chat, "t2", "/confirm").await;
    let wait = client.wait_for(&two.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": false })).await;
    client.turn_end(&two.chat, "t2").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_42_allowing_everything_is_a_setting_of_one_session() {
    let (_host, client) = start_with_client().await;
    let trusting = client.create_session("trusting").await;
    let careful = client.create_session("careful").await;
    client
        .dispatch(&trusting.session, change("autoApprove", json!("autoApprove")))
        .await;
    let turn = client.run_turn(&trusting.chat, "t1", "/parallel 3").await;
    assert_eq!(
        markdown(&turn.response_parts),
        "3 of 3 errands were allowed and are done."
    );
    client.start_turn(&careful.chat, "t1", "/confirm").await;
    let wait = client.wait_for(&careful.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": false })).await;
    client.turn_end(&careful.chat, "t1").await;
    assert_eq!(client.view().setting(&careful.session, "autoApprove"), json!("default"));
    client.assert_converged().await;
}
