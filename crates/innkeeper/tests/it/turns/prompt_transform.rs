//! `systemMessageTransform`: a client rewrites sections of the guide's prompt. It is a raw client, because the
//! published one does not know the method; the mirror of the published one has to match.

use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use innkeeper_testkit::rewriter::{METHOD, Rewriter, asked_for, entry};
use serde_json::{Value, json};

use crate::{options, start_with_client};

/// A host, a published client that watches, and a session of its own.
pub(crate) async fn stage() -> (HostProcess, OfficialClient, SessionUris) {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("prompted").await;
    (host, client, uris)
}

/// Waits for the end of a turn and returns what the guide said.
pub(crate) async fn words(client: &OfficialClient, uris: &SessionUris, turn_id: &str) -> String {
    markdown(&client.turn_end(&uris.chat, turn_id).await.response_parts)
}

#[tokio::test]
async fn smt01_smt04_smt07_one_request_replaces_all_sections() {
    let (host, client, uris) = stage().await;
    let wanted = ["tone", "guidelines", "last_instructions", "identity", "of_tomorrow"];
    let mut desk = Rewriter::join(host.address(), "desk", &uris.session, &wanted).await;
    client.start_turn(&uris.chat, "t1", "/prompt").await;
    let request = desk.request().await;
    assert!(request["id"].is_u64(), "TRN-11: {request}");
    // SMT-03: what it named, what there is, and what is not restricted.
    let sections = json!({
        "tone": { "content": "Be cheerful and brief." },
        "guidelines": { "content": "Show, do not tell. Say what to try next." },
        "last_instructions": { "content": "When in doubt, point to /help." },
    });
    assert_eq!(
        request["params"],
        json!({ "channel": uris.session, "sections": sections })
    );
    let answer = json!({
        "tone": { "content": "Speak like a pirate." },
        "guidelines": { "content": "" },
        "identity": { "content": "You are a parrot." },
        "made_up": { "content": "And more." },
    });
    desk.answer(&request, json!({ "sections": answer })).await;
    let said = words(&client, &uris, "t1").await;
    for line in [
        "11 sections and ",
        "- `tone` (20 bytes, rewritten by the client `desk`): Speak like a pirate.\n",
        "- `guidelines` (0 bytes, rewritten by the client `desk`): empty\n",
        "- `last_instructions` (30 bytes): When in doubt, point to /help.\n",
        "- `identity` (35 bytes, restricted): You are the tour guide of this inn.\n",
        "- `safety` (36 bytes, restricted): Never send guests out into the rain.\n",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(!said.contains("And more"), "SMT-07: no client adds sections: {said}");
    assert!(!desk.was_asked().await, "SMT-04: once for each render");
    client.assert_converged().await;
}

#[tokio::test]
async fn smt01_the_host_rejects_transform_requests() {
    let (host, _client, uris) = stage().await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let params = json!({ "channel": uris.session, "sections": { "tone": { "content": "x" } } });
    let refused = raw.call(METHOD, params).await.expect_err("no such method");
    assert_eq!(refused.code, -32601, "{refused:?}");
}

#[tokio::test]
async fn smt02_smt05_clients_without_opt_in_get_no_request() {
    let (host, client, uris) = stage().await;
    let mut silent = Rewriter::join(host.address(), "silent", &uris.session, &[]).await;
    let mut restricted = Rewriter::join(host.address(), "restricted", &uris.session, &["identity", "x"]).await;
    let plain = json!({ "clientId": "silent", "tools": [] });
    silent
        .dispatch(json!({ "type": "session/activeClientSet", "activeClient": plain }))
        .await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    assert!(!silent.was_asked().await, "SMT-18: it does not know the method");
    assert!(!restricted.was_asked().await, "SMT-05: nothing was left to ask for");
    let mut echo = silent
        .dispatch(
            json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "silent", "tools": [],
            "systemMessageTransform": { "sections": "all" } } }),
        )
        .await;
    let reason = echo["rejectionReason"].take();
    let field = "malformed action: action.activeClient.systemMessageTransform.sections: ";
    assert!(
        reason.as_str().is_some_and(|reason| reason.starts_with(field)),
        "{reason}"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn smt05_of_two_opted_in_clients_the_starter_or_else_the_newest_is_asked() {
    let (host, client, uris) = stage().await;
    let mut older = Rewriter::join(host.address(), "older", &uris.session, &["tone"]).await;
    let mut newer = Rewriter::join(host.address(), "newer", &uris.session, &["tone", "guidelines"]).await;
    client.start_turn(&uris.chat, "t1", "/prompt tone").await;
    newer.rewrite(&[("tone", "by newer")]).await;
    let said = words(&client, &uris, "t1").await;
    assert_eq!(said, "`tone` (8 bytes, rewritten by the client `newer`):\n\nby newer\n");
    older.start_turn(&uris.chat, "t2", "/prompt tone").await;
    let request = older.rewrite(&[("tone", "by older")]).await;
    assert_eq!(asked_for(&request), ["tone"]);
    let said = words(&client, &uris, "t2").await;
    assert_eq!(said, "`tone` (8 bytes, rewritten by the client `older`):\n\nby older\n");
    assert!(
        !newer.was_asked().await && !older.was_asked().await,
        "one client for each render"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn smt06_smt19_a_session_created_with_an_opt_in_has_a_rewritten_prompt() {
    let (host, client) = start_with_client().await;
    let mut raw = RawClient::initialized(host.address(), "desk").await;
    let session = "ahp-session:/rewritten";
    for (broken, field) in [
        (json!({ "sections": 5 }), "systemMessageTransform.sections: "),
        (json!("tone"), "systemMessageTransform: "),
        (json!({ "sections": [""] }), "systemMessageTransform.sections[0]: "),
    ] {
        let mut entry = entry("desk", &[]);
        entry["systemMessageTransform"] = broken;
        let create = json!({ "channel": session, "activeClient": entry });
        let refused = raw.call("createSession", create).await.expect_err(field);
        assert_eq!(refused.code, -32602);
        assert!(refused.message.contains(field), "{refused:?}");
    }
    let create = json!({ "channel": session, "activeClient": entry("desk", &["tone", "tone", "x"]) });
    raw.call("createSession", create).await.expect("created");
    let mut desk = Rewriter::over(raw, "desk", session).await;
    // The session is not ready before its first prompt is.
    let request = desk.rewrite(&[("tone", "Whisper.")]).await;
    assert_eq!(request["params"]["channel"], session);
    let uris = client.join(session).await;
    client.start_turn(&uris.chat, "t1", "/prompt").await;
    let request = desk.request().await;
    assert_eq!(
        request["params"]["sections"],
        json!({ "tone": { "content": "Be cheerful and brief." } }),
        "SMT-06: every render starts from what the agent wrote"
    );
    desk.answer(&request, json!({ "sections": {} })).await;
    let said = words(&client, &uris, "t1").await;
    assert!(
        said.contains("- `tone` (22 bytes): Be cheerful"),
        "SMT-07: omitted: {said}"
    );
    let opened = "and the client `desk` had rewritten some of it";
    assert!(said.contains(opened), "SMT-06: also when it was opened: {said}");
    client.assert_converged().await;
}

#[tokio::test]
async fn smt11_agents_publish_their_sections() {
    let (host, _client, _) = stage().await;
    let mut raw = RawClient::connect(host.address()).await;
    let params = json!({
        "channel": "ahp-root://", "clientId": "raw", "protocolVersions": ["1.0.0"],
        "initialSubscriptions": ["ahp-root://"],
    });
    let answer = raw.call("initialize", params).await.expect("initialized");
    let agent = &answer["snapshots"][0]["state"]["agents"][0];
    let sections = agent["systemMessageSections"].as_array().expect("published");
    let ids: Vec<&str> = sections.iter().filter_map(|section| section["id"].as_str()).collect();
    let standard = [
        "identity",
        "tone",
        "tool_efficiency",
        "environment_context",
        "code_change_rules",
        "guidelines",
        "safety",
        "tool_instructions",
        "custom_instructions",
        "runtime_instructions",
        "last_instructions",
    ];
    assert_eq!(ids, standard);
    let restricted: Vec<&Value> = sections
        .iter()
        .filter(|section| section["restricted"] == true)
        .collect();
    assert_eq!(restricted.len(), 2);
    assert_eq!(
        *restricted[0],
        json!({ "id": "identity", "label": "Identity", "description": "The role of the agent.",
            "restricted": true })
    );
    assert_eq!(restricted[1]["id"], "safety");
}

#[tokio::test]
async fn smt12_the_operator_restricts_sections() {
    let host = HostProcess::start(options().setting(r#"restricted_sections = ["tone"]"#)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("restricted").await;
    let mut desk = Rewriter::join(host.address(), "desk", &uris.session, &["tone", "identity"]).await;
    client.start_turn(&uris.chat, "t1", "/prompt").await;
    let request = desk
        .rewrite(&[("identity", "You are a parrot."), ("tone", "Shriek.")])
        .await;
    assert_eq!(asked_for(&request), ["identity"]);
    let said = words(&client, &uris, "t1").await;
    assert!(
        said.contains("`identity` (17 bytes, rewritten by the client `desk`)"),
        "{said}"
    );
    assert!(said.contains("`tone` (22 bytes, restricted): Be cheerful"), "{said}");
}

#[tokio::test]
async fn smt17_opt_ins_are_state_and_contents_are_not() {
    let (host, client, uris) = stage().await;
    let mut watcher = RawClient::initialized(host.address(), "watcher").await;
    let subscribe = json!({ "channel": uris.session });
    let subscribed = watcher.call("subscribe", subscribe.clone()).await.expect("subscribed");
    let seen = &subscribed["snapshot"]["fromSeq"];
    let mut desk = Rewriter::join(host.address(), "desk", &uris.session, &["tone", "x"]).await;
    let opt_in = json!({ "sections": ["tone", "x"] });
    let told = watcher
        .notification("the announcement", |message| {
            message["params"]["action"]["type"] == "session/activeClientSet"
        })
        .await;
    let announced = |message: &Value| message["action"]["activeClient"]["systemMessageTransform"].clone();
    assert_eq!(announced(&told["params"]), opt_in);
    let mut late = RawClient::initialized(host.address(), "late").await;
    let snapshot = late.call("subscribe", subscribe).await.expect("subscribed");
    let members = &snapshot["snapshot"]["state"]["activeClients"];
    assert_eq!(members[0]["systemMessageTransform"], opt_in, "{snapshot}");

    let marker = "a secret that only the model hears";
    client.start_turn(&uris.chat, "t1", "hello").await;
    desk.rewrite(&[("tone", marker)]).await;
    client.turn_end(&uris.chat, "t1").await;
    drop(watcher);
    let mut watcher = RawClient::connect(host.address()).await;
    let reconnect = json!({
        "channel": "ahp-root://", "clientId": "watcher", "lastSeenServerSeq": seen,
        "subscriptions": [uris.session],
    });
    let text = watcher.call_for_text("reconnect", reconnect).await;
    let replay: Value = serde_json::from_str(&text).expect("JSON");
    let actions = replay["result"]["actions"].as_array().expect("a replay");
    assert!(actions.iter().any(|envelope| announced(envelope) == opt_in), "{text}");
    assert!(!text.contains(marker));
    client.assert_converged().await;
    let stopped = host.stop().await;
    let kept: Vec<u8> = ["sessions.db", "sessions.db-wal"]
        .iter()
        .filter_map(|name| std::fs::read(stopped.data_path(name)).ok())
        .flatten()
        .collect();
    let has = |needle: &str| kept.windows(needle.len()).any(|window| window == needle.as_bytes());
    assert!(has("systemMessageTransform"), "the opt-in was kept");
    assert!(!has(marker), "what it was rewritten to was not");
}
