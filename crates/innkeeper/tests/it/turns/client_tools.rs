//! Client tools: announcement, execution, and who may report results.

use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown, offer, tool_calls_of};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use crate::{options, start, start_with_client};

/// Has the tool `open` of some client executed.
pub(crate) const CALL: &str = r#"/client-tool open {"path": "a.txt"}"#;

/// A host with this grace, the owner of a tool, and a witness in the same session.
pub(crate) async fn stage(grace_ms: u64) -> (HostProcess, OfficialClient, OfficialClient, SessionUris) {
    let host = HostProcess::start(options().limit("grace_ms", grace_ms)).await;
    let owner = OfficialClient::connect(host.address(), "owner").await;
    let witness = OfficialClient::connect(host.address(), "witness").await;
    let uris = owner.create_session("tools").await;
    witness.join(&uris.session).await;
    owner.offer(&uris.session, &["open"]).await;
    (host, owner, witness, uris)
}

/// Returns the result of a client tool call.
pub(crate) fn result(success: bool, text: &str) -> Value {
    json!({
        "result": { "success": success, "pastTenseMessage": "Opened it", "content": [{ "type": "text", "text": text }] }
    })
}

/// The error of a call that failed.
pub(crate) fn failed(call: &Value) -> String {
    assert_eq!(
        (&call["status"], &call["success"]),
        (&json!("completed"), &json!(false)),
        "ACT-11: complete, not cancelled: {call}"
    );
    call["error"]["message"]
        .as_str()
        .expect("a failure says why")
        .to_owned()
}

#[tokio::test]
async fn act_06_act_07_only_the_client_of_a_tool_reports_its_result() {
    let (_host, owner, witness, uris) = stage(30_000).await;
    witness.start_turn(&uris.chat, "t1", CALL).await;
    let wait = owner.wait_for(&uris.session, "toolClientExecution").await;
    assert_eq!(wait["clientId"], "owner");
    let call = owner.call_in(&uris.chat, "running").await;
    assert_eq!(call["contributor"], json!({ "kind": "client", "clientId": "owner" }));
    assert_eq!(call["toolInput"], r#"{"path": "a.txt"}"#);
    assert_eq!(call["confirmed"], "not-needed", "TOOL-05: it may start at once");
    // E-23: a client works, and no user has to answer.
    let status = owner.view().chat(&uris.chat).expect("mirrored").status;
    assert_eq!(status & 31, 8);

    let piece = json!({ "content": [{ "type": "text", "text": "opening" }] });
    witness
        .answer(&wait, "chat/toolCallContentChanged", piece.clone())
        .await;
    witness
        .answer(&wait, "chat/toolCallComplete", result(true, "forged"))
        .await;
    for number in [1, 2] {
        // TOOL-11, ACT-16
        assert_eq!(
            witness.refusal(number).await,
            "another client runs this tool; only that one may report about it"
        );
    }
    owner.answer(&wait, "chat/toolCallContentChanged", piece).await;
    witness
        .until("the content is seen", |view| {
            view.tool_calls(&uris.chat)[0]["content"][0]["text"] == "opening"
        })
        .await;
    owner
        .answer(&wait, "chat/toolCallComplete", result(true, "opened"))
        .await;
    let turn = witness.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts), "Your client says: opened");
    let kinds: Vec<String> = owner
        .view()
        .actions_on(&uris.chat)
        .iter()
        .filter_map(|action| action["type"].as_str())
        .filter(|kind| kind.starts_with("chat/toolCall"))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        kinds,
        [
            "chat/toolCallStart",
            "chat/toolCallDelta",
            "chat/toolCallReady",
            "chat/toolCallContentChanged",
            "chat/toolCallComplete"
        ]
    );
    owner.nothing_waits(&uris.session).await;
    // Once is enough.
    owner
        .answer(&wait, "chat/toolCallComplete", result(false, "twice"))
        .await;
    assert_eq!(owner.refusal(1).await, "the turn of this tool call is not running");
    owner.turn_end(&uris.chat, "t1").await;
    owner.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn ses_07_act_02_a_client_announces_itself_while_it_creates_the_session() {
    let (_host, client) = start_with_client().await;
    let announced = offer("first", &["open"])["activeClient"].clone();
    let uris = client
        .create_session_with("joined", json!({ "activeClient": announced }))
        .await;
    assert_eq!(client.view().members(&uris.session)[0].tools[0].name, "open");
    client.start_turn(&uris.chat, "t1", CALL).await;
    let wait = client.wait_for(&uris.session, "toolClientExecution").await;
    client.answer(&wait, "chat/toolCallComplete", result(false, "")).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert!(markdown(&turn.response_parts).starts_with("Your client says: it failed"));
    client.assert_converged().await;
}

#[tokio::test]
async fn act_03_a_client_announces_only_itself_and_each_tool_once() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("announce").await;
    for (number, (action, reason)) in [
        (
            offer("another-client", &["open"]),
            "a client may only announce itself: activeClient.clientId is not the dispatcher's",
        ),
        (
            offer("first", &["open", "open"]),
            "activeClient.tools[1].name: \"open\" is offered twice",
        ),
        (
            offer("first", &[""]),
            "activeClient.tools[0].name: has between 1 and 256 bytes",
        ),
        (
            json!({ "type": "session/activeClientRemoved", "clientId": "another-client" }),
            "a client may only remove itself: clientId is not the dispatcher's",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        client.dispatch(&uris.session, action).await;
        assert_eq!(client.refusal(number + 1).await, reason);
    }
    assert!(client.view().members(&uris.session).is_empty());
    // ACT-01: what is set replaces what was there.
    client.offer(&uris.session, &["open", "close"]).await;
    client.offer(&uris.session, &["close"]).await;
    assert_eq!(client.view().members(&uris.session).len(), 1);
    client
        .dispatch(
            &uris.session,
            json!({ "type": "session/activeClientRemoved", "clientId": "first" }),
        )
        .await;
    client
        .until("it has left", |view| view.members(&uris.session).is_empty())
        .await;
    let turn = client.run_turn(&uris.chat, "t1", CALL).await;
    assert_eq!(
        markdown(&turn.response_parts),
        "No client offers a tool called `open`; no client of this session offers any."
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn act_04_a_client_tool_with_the_name_of_an_agent_tool_is_distinguished() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("names").await;
    client.offer(&uris.session, &["ring_bell"]).await;
    client
        .start_turn(&uris.chat, "t1", "/client-tool client_ring_bell")
        .await;
    let wait = client.wait_for(&uris.session, "toolClientExecution").await;
    assert_eq!(
        wait["toolCall"]["toolName"], "ring_bell",
        "its owner knows it by its own name"
    );
    client
        .answer(&wait, "chat/toolCallComplete", result(true, "rung"))
        .await;
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn tool_20_an_owner_that_does_not_know_its_tool_denies_the_call() {
    let (_host, owner, witness, uris) = stage(30_000).await;
    owner.start_turn(&uris.chat, "t1", CALL).await;
    let wait = owner.wait_for(&uris.session, "toolClientExecution").await;
    // Only the owner can deny a call that runs already.
    witness.decide(&wait, json!({ "approved": false })).await;
    assert_eq!(
        witness.refusal(1).await,
        "this call is not waiting for a decision: it is running"
    );
    owner.decide(&wait, json!({ "approved": false })).await;
    assert_eq!(
        owner.refusal(1).await,
        "the call is running already, so it was ended as failed"
    );
    let turn = witness.turn_end(&uris.chat, "t1").await;
    let error = failed(&tool_calls_of(&turn)[0]);
    assert!(error.contains("does not know it any more"), "{error}");
    owner.turn_end(&uris.chat, "t1").await;
    owner.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn act_05_of_two_tool_owners_the_author_runs_the_call() {
    let (host, owner, witness, uris) = stage(30_000).await;
    witness.offer(&uris.session, &["open"]).await;
    let asker = OfficialClient::connect(host.address(), "asker").await;
    asker.join(&uris.session).await;
    // The asker's own tool, or else the one that was announced last.
    for (turn_id, who, runs) in [
        ("t1", &owner, &owner),
        ("t2", &witness, &witness),
        ("t3", &asker, &witness),
    ] {
        who.start_turn(&uris.chat, turn_id, CALL).await;
        let wait = runs.wait_for(&uris.session, "toolClientExecution").await;
        assert_eq!(wait["clientId"], runs.client_id.as_str(), "{turn_id}");
        runs.answer(&wait, "chat/toolCallComplete", result(true, "opened"))
            .await;
        for seer in [&owner, &witness, &asker] {
            seer.turn_end(&uris.chat, turn_id).await;
            seer.nothing_waits(&uris.session).await;
        }
    }
    witness.start_turn(&uris.chat, "t4", CALL).await;
    witness.wait_for(&uris.session, "toolClientExecution").await;
    witness.unsubscribe(&uris.session).await;
    let turn = asker.turn_end(&uris.chat, "t4").await;
    let error = failed(&tool_calls_of(&turn)[0]);
    assert!(
        error.ends_with("another client of this session offers the same tool, so try again"),
        "{error}"
    );
    for who in [&owner, &witness, &asker] {
        who.turn_end(&uris.chat, "t4").await;
        who.assert_converged().await;
    }
}

/// Does what the reference client does until all is quiet: whatever changes in a session, its own echo included, it
/// announces itself again. Returns how often that was.
async fn announce_on_every_change(clients: [&OfficialClient; 2], session: &str, answered: &mut [usize; 2]) -> usize {
    let mut announcements = 0;
    loop {
        for client in clients {
            client.caught_up().await;
        }
        let before = announcements;
        for (client, answered) in clients.into_iter().zip(&mut *answered) {
            let seen = client.view().actions_on(session).len();
            for _ in *answered..seen {
                client.dispatch(session, offer(&client.client_id, &["open"])).await;
                announcements += 1;
            }
            *answered = seen;
        }
        if announcements == before {
            return announcements;
        }
        assert!(announcements < 200, "the clients talk for ever");
    }
}

#[tokio::test]
async fn e_52_clients_that_announce_themselves_on_every_change_fall_silent() {
    let host = start().await;
    let one = OfficialClient::connect(host.address(), "one").await;
    let two = OfficialClient::connect(host.address(), "two").await;
    let uris = one.create_session("loop").await;
    two.join(&uris.session).await;
    let mut answered = [0, 0];
    one.dispatch(&uris.session, offer("one", &["open"])).await;
    two.dispatch(&uris.session, offer("two", &["open"])).await;
    announce_on_every_change([&one, &two], &uris.session, &mut answered).await;
    assert_eq!(one.view().members(&uris.session).len(), 2);
    // A session in use falls silent as well.
    for turn_id in ["t1", "t2", "t3"] {
        one.run_turn(&uris.chat, turn_id, "/tool").await;
        two.turn_end(&uris.chat, turn_id).await;
        announce_on_every_change([&one, &two], &uris.session, &mut answered).await;
    }
    one.assert_converged().await;
    two.assert_converged().await;
}
