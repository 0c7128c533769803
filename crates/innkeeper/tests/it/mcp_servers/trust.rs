//! Trust decisions while servers wait and while they run.

use std::fs;

use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, TestSession};

/// Returns the states of a server in order, after a number of actions.
fn states(room: &TestSession<'_>, after: usize) -> Vec<String> {
    let actions = room.client.view().actions_on(&room.uris.session);
    let news = actions.iter().skip(after);
    let changes = news.filter(|action| action["type"] == "session/mcpServerStateChanged");
    let kinds = changes.map(|action| action["state"]["kind"].as_str().unwrap_or_default().to_owned());
    kinds.collect()
}

#[tokio::test]
async fn p12_revoking_trust_ends_running_servers_and_calls() {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("plain") });
    let inn = Inn::open(place, servers).await;
    let room = inn.ready_room("one", "odd").await;
    let other = inn.room("two").await;
    other.server_is("odd", "ready").await;
    room.begin("t1", "odd wait").await;
    inn.trust("revoke", &inn.place.workspace());
    for room in [&room, &other] {
        let server = room.server_is("odd", "error").await;
        assert_eq!(server["state"]["error"]["errorType"], "notTrusted", "{server}");
        let message = server["state"]["error"]["message"].as_str().expect("a sentence");
        assert!(message.contains("no user has allowed"), "{message}");
    }
    let (words, call) = room.end("t1").await;
    assert!(words.contains("was stopped before it answered"), "{words}");
    assert_eq!(call["success"], false, "{call}");
    inn.place.until_living(0).await;
    // It starts by itself when they think better of it.
    inn.allow();
    for room in [&room, &other] {
        room.server_is("odd", "ready").await;
    }
    let (words, _) = room.call("t2", r#"odd echo {"text": "hello"}"#).await;
    assert!(words.contains("hello"), "{words}");
    assert_eq!(inn.place.living(), 1);
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn p12_a_waiting_server_ignores_decisions_about_others() {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("plain") });
    let inn = Inn::open(place, servers.clone()).await;
    let room = inn.room("one").await;
    room.server_is("odd", "error").await;
    let actions = |room: &TestSession<'_>| room.client.view().actions_on(&room.uris.session);
    let before = actions(&room).len();

    // In another workspace a user allows the server and revokes it.
    let elsewhere = inn.place.beside("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    fs::write(
        elsewhere.join(".mcp.json"),
        json!({ "mcpServers": servers }).to_string(),
    )
    .expect("written");
    let uri = format!("file://{}", elsewhere.display());
    let there = TestSession {
        client: &inn.client,
        uris: inn.client.create_session_in("two", &uri).await,
    };
    for (state, decision) in [("error", "allow"), ("ready", "revoke"), ("error", "allow")] {
        there.server_is("odd", state).await;
        inn.trust(decision, &elsewhere);
    }
    there.server_is("odd", "ready").await;

    inn.allow();
    room.server_is("odd", "ready").await;
    let all: Vec<Value> = actions(&room).into_iter().skip(before).collect();
    assert_eq!(states(&room, before), ["starting", "ready"], "{all:#?}");
    inn.client.assert_converged().await;
}
