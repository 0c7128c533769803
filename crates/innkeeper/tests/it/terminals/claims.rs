//! Claims: which client may type, and races between clients.

use innkeeper_testkit::official::{OfficialClient, SessionUris};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::Address;
use serde_json::{Value, json};

use super::support::{TERMINAL, bash, create, listed, of_client, shows, start_with_terminal, text, type_into};

fn claimed_by(client: &str) -> Value {
    json!({ "type": "terminal/claimed", "claim": { "kind": "client", "clientId": client } })
}

fn of_session(uris: &SessionUris) -> Value {
    json!({ "kind": "session", "session": uris.session, "chat": uris.chat })
}

fn claim(client: &OfficialClient) -> Value {
    let view = client.view();
    let state = view.terminal(TERMINAL).expect("subscribed");
    serde_json::to_value(&state.claim).expect("JSON")
}

#[tokio::test]
async fn trm05_trm18_an_observer_cannot_type_until_the_holder_hands_over() {
    let (host, holder) = start_with_terminal(bash()).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    other.subscribe(TERMINAL).await;
    let held = "the client \"first\" holds this terminal; it can hand the terminal over with terminal/claimed";
    let attempts = [
        json!({ "type": "terminal/input", "data": "echo intr''uder\r" }),
        json!({ "type": "terminal/resized", "cols": 10, "rows": 5 }),
        json!({ "type": "terminal/titleChanged", "title": "mine" }),
        json!({ "type": "terminal/cleared" }),
        claimed_by("second"),
    ];
    for (number, attempt) in attempts.into_iter().enumerate() {
        other.dispatch(TERMINAL, attempt).await;
        assert_eq!(other.refusal(number + 1).await, held);
    }
    type_into(&holder, TERMINAL, "echo mi''ne\r").await;
    shows(&other, TERMINAL, "mine").await;
    assert!(!text(&other.view(), TERMINAL).contains("intruder"));
    // Handed over, the roles change, and the list says so.
    holder.dispatch(TERMINAL, claimed_by("second")).await;
    other
        .until("it is handed over", |view| {
            let info = serde_json::to_value(listed(view)).expect("JSON");
            info[0]["claim"]["clientId"] == "second"
        })
        .await;
    type_into(&other, TERMINAL, "echo the''irs\r").await;
    shows(&holder, TERMINAL, "theirs").await;
    type_into(&holder, TERMINAL, "echo no''more\r").await;
    assert!(holder.refusal(1).await.contains("\"second\" holds this terminal"));
    holder.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn trm03_trm05_of_two_clients_that_claim_a_shared_terminal_one_wins() {
    let host = HostProcess::start(bash()).await;
    let first = OfficialClient::connect(host.address(), "first").await;
    let second = OfficialClient::connect(host.address(), "second").await;
    let uris = first.create_session("shared").await;
    for round in 0..5 {
        let uri = format!("ahp-terminal:/race-{round}");
        create(&first, &uri, json!({ "claim": of_session(&uris) })).await;
        first.subscribe(&uri).await;
        second.subscribe(&uri).await;
        let refused_before = first.view().refusals.len() + second.view().refusals.len();
        tokio::join!(
            first.dispatch(&uri, claimed_by("first")),
            second.dispatch(&uri, claimed_by("second"))
        );
        first.caught_up().await;
        second.caught_up().await;
        let refused = first.view().refusals.len() + second.view().refusals.len();
        assert_eq!(refused - refused_before, 1, "one of them is refused");
    }
    first.assert_converged().await;
    second.assert_converged().await;
}

#[tokio::test]
async fn trm03_trm18_clients_that_may_drive_share_a_terminal_of_a_session() {
    let (host, drive, view) = start_with_scopes().await;
    let owner = OfficialClient::connect(host.address(), "owner").await;
    let uris = owner.create_session("shared").await;
    create(&owner, TERMINAL, json!({ "claim": of_session(&uris) })).await;
    let driver = OfficialClient::connect(&drive, "driver").await;
    let viewer = OfficialClient::connect(&view, "viewer").await;
    for client in [&owner, &driver, &viewer] {
        client.subscribe(TERMINAL).await;
        assert_eq!(claim(client), of_session(&uris));
    }
    for (client, word) in [(&owner, "one"), (&driver, "two")] {
        type_into(client, TERMINAL, &format!("echo wo''rd {word}\r")).await;
        shows(&viewer, TERMINAL, &format!("word {word}")).await;
    }
    type_into(&viewer, TERMINAL, "echo thr''ee\r").await;
    let refused = viewer.refusal(1).await;
    assert_eq!(
        refused,
        "terminal/input needs the scope drive and this connection has view"
    );
    for (method, params) in [
        ("createTerminal", of_client(&viewer, "ahp-terminal:/two", json!({}))),
        ("disposeTerminal", json!({ "channel": TERMINAL })),
    ] {
        let refused = viewer.refused(method, params).await;
        assert_eq!(refused.0, -32009, "{refused:?}");
    }
    viewer.assert_converged().await;
    driver.assert_converged().await;
}

#[tokio::test]
async fn trm04_a_claim_names_the_client_itself_or_a_session_that_exists() {
    let (host, client) = start_with_terminal(bash()).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    let uris = client.create_session("mine").await;
    let second = other.create_session("other").await;
    let claims = [
        (
            json!({ "kind": "client", "clientId": "second" }),
            "claim.clientId: a client claims a terminal for itself, or for a session",
        ),
        (
            json!({ "kind": "session", "session": "ahp-session:/none", "chat": uris.chat }),
            "claim.session: there is no session \"ahp-session:/none\"",
        ),
        (
            json!({ "kind": "session", "session": uris.session, "chat": second.chat }),
            "claim.chat: the session has no chat",
        ),
    ];
    for (claim, problem) in claims {
        let params = of_client(&client, "ahp-terminal:/two", json!({ "claim": claim }));
        let (code, message) = client.refused("createTerminal", params).await;
        assert_eq!(code, -32602, "{message}");
        assert!(message.contains(problem), "{message}");
    }
    let without = json!({ "channel": "ahp-terminal:/two" });
    assert_eq!(client.refused("createTerminal", without).await.0, -32602, "TRM-03");
    // A terminal is not handed over to a client that is not there.
    client.dispatch(TERMINAL, claimed_by("absent")).await;
    let refused = client.refusal(1).await;
    assert_eq!(refused, "claim.clientId: there is no client \"absent\"");
    client.assert_converged().await;
}

#[tokio::test]
async fn trm05_a_client_that_stays_away_no_longer_holds_its_terminal() {
    let (host, mut holder) = start_with_terminal(bash().limit("grace_ms", 200)).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    other.subscribe(TERMINAL).await;
    type_into(&other, TERMINAL, "echo ear''ly\r").await;
    assert!(other.refusal(1).await.contains("holds this terminal"));
    holder.cut().await;
    // Its grace period has to end; each attempt before that is refused.
    let claimed = || claim(&other)["clientId"] == "second";
    for attempt in 2.. {
        other.dispatch(TERMINAL, claimed_by("second")).await;
        other.caught_up().await;
        if claimed() {
            break;
        }
        assert!(other.refusal(attempt).await.contains("holds this terminal"));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    type_into(&other, TERMINAL, "echo la''te\r").await;
    shows(&other, TERMINAL, "late").await;
    holder.reconnect().await.expect("known");
    type_into(&holder, TERMINAL, "echo ba''ck\r").await;
    assert!(holder.refusal(1).await.contains("\"second\" holds this terminal"));
}

/// A host with terminals and tokens for the narrower scopes.
async fn start_with_scopes() -> (HostProcess, Address, Address) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let options = crate::options()
        .setting("drive_token_file = \"drive\"")
        .setting("view_token_file = \"view\"")
        .setting("[terminals]\nshell = \"/bin/bash\"")
        .environment("PATH", path);
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
