//! Deletion and retention remove exactly the intended sessions.

use ahp_types::commands::ListSessionsResult;
use innkeeper_store::{Archive, FILE_NAME, Mode, OnlyIf, PrunedSession, RetentionPolicy};
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostProcess, StoppedHost};
use innkeeper_testkit::raw::{RawClient, Refusal};
use serde_json::{Value, json};

use crate::durable::start_with_client;

const SESSION: &str = "ahp-session:/kept";

/// Chooses as retention does, in the file beside a running host.
fn choose(host: &HostProcess, archived_only: bool) -> Vec<PrunedSession> {
    let policy = RetentionPolicy {
        total_bytes: Some(0),
        archived_only,
        ..RetentionPolicy::default()
    };
    let mut archive = Archive::open(&host.data_path(FILE_NAME), Mode::ReadOnly).expect("readable");
    archive.prune(&policy, true).expect("readable")
}

async fn dispose_if(client: &mut RawClient, only_if: OnlyIf) -> Result<Value, Refusal> {
    let condition = json!({ "modifiedMs": only_if.modified_ms, "isArchived": only_if.is_archived });
    let params = json!({ "channel": SESSION, "_meta": { "innkeeper.onlyIf": condition } });
    client.call("disposeSession", params).await
}

#[tokio::test]
async fn sessions_that_changed_after_they_were_chosen_stay() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    let archive = json!({ "type": "session/isArchivedChanged", "isArchived": true });
    client.dispatch(SESSION, archive.clone()).await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    // In the store only: no client has opened it since the restart.
    let host = host.stop().await.start().await;
    let chosen = choose(&host, true);
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    let only_if = chosen[0].only_if;
    let mut tidy = RawClient::initialized(host.address(), "tidy").await;

    let client = OfficialClient::connect(host.address(), "again").await;
    client.join(SESSION).await;
    let refusal = dispose_if(&mut tidy, only_if)
        .await
        .expect_err("a client is subscribed to it");
    assert!(refusal.message.contains("is in use"), "{refusal:?}");
    client
        .dispatch(
            SESSION,
            json!({ "type": "session/isArchivedChanged", "isArchived": false }),
        )
        .await;
    client.caught_up().await;
    drop(client);
    // The reader is gone when its connection is, and its changes are announced.
    let host = host.stop().await.start().await;
    let mut tidy = RawClient::initialized(host.address(), "tidy").await;
    let refusal = dispose_if(&mut tidy, only_if)
        .await
        .expect_err("it was taken out of the archive");
    assert!(refusal.message.contains("is no longer archived"), "{refusal:?}");

    let client = OfficialClient::connect(host.address(), "once more").await;
    client.join(SESSION).await;
    client.dispatch(SESSION, archive).await;
    client.run_turn(&uris.chat, "t2", "and on").await;
    let host = host.stop().await.start().await;
    let mut tidy = RawClient::initialized(host.address(), "tidy").await;
    let refusal = dispose_if(&mut tidy, only_if)
        .await
        .expect_err("something was said in it");
    assert_eq!(refusal.code, -32011, "{refusal:?}");
    assert!(
        refusal.message.contains("has changed since it was chosen"),
        "{refusal:?}"
    );

    // Chosen as it is now, it goes.
    let again = choose(&host, true);
    dispose_if(&mut tidy, again[0].only_if).await.expect("nothing changed");
    assert_eq!(choose(&host, false), []);
}

#[tokio::test]
async fn a_condition_that_is_not_understood_is_no_permission() {
    let (host, client) = start_with_client().await;
    client.create_listed_session("kept").await;
    let mut tidy = RawClient::initialized(host.address(), "tidy").await;
    for condition in [
        json!(true),
        json!(null),
        json!({ "modified": 1 }),
        json!({ "isArchived": "yes" }),
    ] {
        let params = json!({ "channel": SESSION, "_meta": { "innkeeper.onlyIf": condition } });
        let refusal = tidy.call("disposeSession", params).await.expect_err("not understood");
        assert_eq!(refusal.code, -32602, "{condition}: {refusal:?}");
    }
    assert_eq!(client.listed(SESSION).await.resource, SESSION);
}

/// Returns the sessions of the file.
fn stored(killed: &StoppedHost) -> Archive {
    Archive::open(&killed.data_path(FILE_NAME), Mode::ReadOnly).expect("readable")
}

#[tokio::test]
async fn lesson_30_ses37_a_disposed_session_is_gone_at_once_and_can_be_restored() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    let other = client.create_session("other").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.create_chat(SESSION, "ahp-chat:/kept-too", json!({})).await;
    client.run_turn(&other.chat, "t1", "hello").await;
    // Its agent goes on talking while it is disposed of.
    client.start_turn(&uris.chat, "t2", "/stream 5000 1 20").await;
    client.running_text(&uris.chat, 200).await;
    let params = json!({ "channel": SESSION });
    client
        .request::<Value>("disposeSession", params)
        .await
        .expect("answered");
    let killed = host.kill().await;

    let archive = stored(&killed);
    assert_eq!(archive.count().expect("readable"), 1);
    for uri in [SESSION, &uris.chat, "ahp-chat:/kept-too"] {
        assert!(archive.load(uri).expect("readable").is_none(), "{uri} is still there");
    }
    archive
        .turns(&uris.chat, 0..1)
        .expect_err("no turn of a chat that is gone");
    assert_eq!(archive.check().expect("readable"), []);
    drop(archive);

    let host = killed.start().await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    let listed: ListSessionsResult = reader
        .request("listSessions", json!({ "channel": "ahp-root://" }))
        .await
        .expect("listed");
    let listed: Vec<String> = listed.items.into_iter().map(|session| session.resource).collect();
    assert_eq!(listed, [other.session.as_str()]);
    // Until it is removed for good it can be restored, also after a kill (SES-37).
    let refused = reader.refused("createSession", json!({ "channel": SESSION })).await;
    assert_eq!(refused.0, -32003, "{refused:?}");
    let list: Value = reader
        .request("innkeeper/listDeletedSessions", json!({ "channel": "ahp-root://" }))
        .await
        .expect("listed");
    assert_eq!(list["items"][0]["session"], SESSION, "{list}");
    assert_eq!(list["items"][0]["summary"]["resource"], SESSION, "{list}");
    let restore = json!({ "channel": "ahp-root://", "session": SESSION });
    let restored: Value = reader
        .request("innkeeper/restoreSession", restore.clone())
        .await
        .expect("restored");
    let counted = (&restored["session"], &restored["chats"], &restored["turns"]);
    assert_eq!(counted, (&json!(SESSION), &json!(2), &json!(2)), "{restored}");
    let refused = reader.refused("innkeeper/restoreSession", restore).await;
    assert!(refused.1.contains("no deleted session"), "{refused:?}");
    let host = host.kill_and_restart().await;
    let reader = OfficialClient::connect(host.address(), "after all").await;
    assert_eq!(reader.listed(SESSION).await.resource, SESSION);
    let again = reader.join(SESSION).await;
    assert_eq!(reader.chat(&again.chat).turns.len(), 2);
    reader.run_turn(&again.chat, "t3", "still there").await;
    reader.assert_converged().await;
    let killed = host.kill().await;
    assert_eq!(stored(&killed).check().expect("readable"), []);
}

#[tokio::test]
async fn lesson_30_late_agent_events_do_not_restore_a_disposed_session() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    client.start_turn(&uris.chat, "t1", "/stream 5000 1 20").await;
    client.running_text(&uris.chat, 200).await;
    let params = json!({ "channel": SESSION, "_meta": { "innkeeper.forGood": true } });
    client
        .request::<Value>("disposeSession", params)
        .await
        .expect("answered");
    // Under the same name, while the old agent may still be talking.
    let again = client.create_session("kept").await;
    client.run_turn(&again.chat, "t2", "hello").await;
    client.assert_converged().await;
    assert_eq!(client.chat(&again.chat).turns.len(), 1);
    let killed = host.kill().await;
    let archive = stored(&killed);
    assert_eq!(archive.turns(&again.chat, 0..1).expect("readable").len(), 1);
    assert_eq!(
        (archive.count().expect("readable"), archive.check().expect("readable")),
        (1, vec![])
    );
}

#[tokio::test]
async fn lesson_30_the_reference_client_deletes_a_session() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    let host = host.stop().await.start().await;
    let mut window = RawClient::connect(host.address()).await;
    let initialize = json!({
        "channel": "ahp-root://", "clientId": "window", "protocolVersions": ["1.0.0"],
        "clientInfo": { "name": "vscode-agents-window", "version": "1.0.0" },
    });
    window.call("initialize", initialize).await.expect("initialized");
    let deleted = window.call("disposeSession", json!({ "channel": SESSION })).await;
    deleted.expect("deleted");
    let host = host.kill_and_restart().await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    assert_eq!(
        reader.refused("subscribe", json!({ "channel": SESSION })).await.0,
        -32001
    );
    let restore = json!({ "channel": "ahp-root://", "session": SESSION });
    let _: Value = reader
        .request("innkeeper/restoreSession", restore)
        .await
        .expect("restored");
    reader.join(SESSION).await;
    assert_eq!(reader.chat(&uris.chat).turns.len(), 1);
}
