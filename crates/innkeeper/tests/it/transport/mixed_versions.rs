//! Clients of several versions in one session: all see the same conversation, and any of them takes part.

use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use innkeeper_testkit::rewriter::{Rewriter, entry};
use serde_json::{Value, json};

use crate::start;

/// A client of an older version, and the channel on which it sees the chat.
struct Older {
    client: RawClient,
    /// The prefix of the chat's actions: the session is the chat up to 0.3.
    prefix: &'static str,
    channel: String,
    sequence: i64,
}

impl Older {
    async fn join(host: &HostProcess, version: &'static str, uris: &SessionUris) -> Self {
        let mut client = RawClient::connect(host.address()).await;
        let result = client.initialize(&format!("client of {version}"), &[version]).await;
        assert_eq!(result.expect("initialized")["protocolVersion"], version);
        let knows_chats = version > "0.3.0";
        let (prefix, channel) = match knows_chats {
            true => ("chat", &uris.chat),
            false => ("session", &uris.session),
        };
        let mut older = Self {
            client,
            prefix,
            channel: channel.clone(),
            sequence: 0,
        };
        older.subscribe(&uris.session).await;
        if knows_chats {
            older.subscribe(&uris.chat).await;
        }
        older
    }

    async fn subscribe(&mut self, channel: &str) -> Value {
        let subscribed = self.client.call("subscribe", json!({ "channel": channel })).await;
        subscribed.expect("subscribed")["snapshot"].take()
    }

    /// Waits for an action on the chat, in the words of the version.
    async fn sees(&mut self, name: &str) -> Value {
        let kind = format!("{}/{name}", self.prefix);
        let channel = self.channel.clone();
        let fits = |message: &Value| {
            message["method"] == "action"
                && message["params"]["channel"] == channel
                && message["params"]["action"]["type"] == kind
        };
        self.client.notification(&kind, fits).await["params"]["action"].take()
    }

    /// Dispatches an action on the chat, in the words of the version.
    async fn does(&mut self, name: &str, mut action: Value) {
        self.sequence += 1;
        action["type"] = json!(format!("{}/{name}", self.prefix));
        let channel = self.channel.clone();
        self.client.dispatch(&channel, self.sequence, action).await;
    }

    /// Dispatches an action on the session.
    async fn does_on_session(&mut self, session: &str, action: Value) {
        self.sequence += 1;
        self.client.dispatch(session, self.sequence, action).await;
    }

    /// Waits for the end of a turn.
    async fn sees_end(&mut self, turn: &str) {
        let kind = format!("{}/turnComplete", self.prefix);
        let fits = |message: &Value| {
            message["params"]["action"]["type"] == kind && message["params"]["action"]["turnId"] == turn
        };
        self.client.notification("the end of the turn", fits).await;
    }

    /// The texts of all turns in a fresh snapshot.
    async fn conversation(&mut self) -> Vec<(String, String)> {
        let channel = self.channel.clone();
        let state = self.subscribe(&channel).await["state"].take();
        let turns = state["turns"].as_array().expect("turns").clone();
        turns.iter().map(|turn| (question(turn), answer(turn))).collect()
    }
}

fn question(turn: &Value) -> String {
    let message = turn.get("message").unwrap_or_else(|| &turn["userMessage"]);
    message["text"].as_str().expect("a text").to_owned()
}

fn answer(turn: &Value) -> String {
    let parts = turn["responseParts"].as_array().expect("parts");
    let texts = parts.iter().filter(|part| part["kind"] == "markdown");
    texts.filter_map(|part| part["content"].as_str()).collect()
}

/// A host, a client of 1.0 with a session, and clients of 0.2, 0.5 and 0.9 in it.
async fn company() -> (HostProcess, OfficialClient, SessionUris, [Older; 3]) {
    let host = start().await;
    let newest = OfficialClient::connect(host.address(), "newest").await;
    let uris = newest.create_session("mixed").await;
    let company = [
        Older::join(&host, "0.2.0", &uris).await,
        Older::join(&host, "0.5.2", &uris).await,
        Older::join(&host, "0.9.0", &uris).await,
    ];
    (host, newest, uris, company)
}

#[tokio::test]
async fn neg_07_clients_of_four_versions_hold_one_conversation() {
    let (_host, newest, uris, mut company) = company().await;
    let [oldest, older, old] = &mut company;

    // 0.2 starts a turn in its own words.
    oldest
        .does(
            "turnStarted",
            json!({ "turnId": "t1", "userMessage": { "text": "from 0.2" } }),
        )
        .await;
    newest.turn_end(&uris.chat, "t1").await;
    for client in [&mut *oldest, older, old] {
        client.sees_end("t1").await;
    }

    // 1.0 starts a call, and 0.2 approves it.
    newest.start_turn(&uris.chat, "t2", "/confirm").await;
    let ready = oldest.sees("toolCallReady").await;
    for client in [&mut *older, old] {
        assert_eq!(client.sees("toolCallReady").await["toolCallId"], ready["toolCallId"]);
    }
    let approval =
        json!({ "turnId": "t2", "toolCallId": ready["toolCallId"], "approved": true, "confirmed": "user-action" });
    oldest.does("toolCallConfirmed", approval).await;
    newest.turn_end(&uris.chat, "t2").await;

    // 0.9 asks for a question, and 0.5 answers it.
    old.does("turnStarted", innkeeper_testkit::official::turn_started("t3", "/ask"))
        .await;
    let asked = older.sees("inputRequested").await;
    assert_eq!(
        oldest.sees("inputRequested").await["request"]["id"],
        asked["request"]["id"]
    );
    let name = json!({ "state": "submitted", "value": { "kind": "text", "value": "Ada" } });
    let answers = json!({ "name": name });
    older
        .does(
            "inputCompleted",
            json!({ "requestId": asked["request"]["id"], "response": "accept", "answers": answers }),
        )
        .await;
    let turn = newest.turn_end(&uris.chat, "t3").await;
    assert!(markdown(&turn.response_parts).contains("Ada"), "the answer counts");

    // 0.5 steers a turn of 1.0.
    newest.start_turn(&uris.chat, "t4", "/steer 20").await;
    newest.running_text(&uris.chat, 10).await;
    let said = json!({ "text": "enough", "origin": { "kind": "user" } });
    older
        .does(
            "pendingMessageSet",
            json!({ "kind": "steering", "id": "s1", "message": said }),
        )
        .await;
    let turn = newest.turn_end(&uris.chat, "t4").await;
    assert!(markdown(&turn.response_parts).contains("enough"));

    let mut conversations = Vec::new();
    for client in &mut company {
        client.sees_end("t4").await;
        conversations.push(client.conversation().await);
    }
    let shown = |view: &innkeeper_testkit::official::View| {
        let chat = view.chat(&uris.chat).expect("mirrored");
        let turns = chat.turns.iter();
        turns
            .map(|turn| (turn.message.text.clone(), markdown(&turn.response_parts)))
            .collect::<Vec<_>>()
    };
    let newest_sees = shown(&newest.view());
    assert_eq!(newest_sees.len(), 4);
    for conversation in conversations {
        assert_eq!(conversation, newest_sees);
    }
    newest.assert_converged().await;
}

#[tokio::test]
async fn act_07_a_tool_of_a_0_2_client_runs_for_a_turn_of_a_1_0_client() {
    let (_host, newest, uris, mut company) = company().await;
    let [oldest, older, _] = &mut company;
    let tool = json!({ "name": "open", "description": "Opens a file", "inputSchema": { "type": "object" } });
    let active = json!({ "clientId": "client of 0.2.0", "tools": [tool] });
    oldest
        .does_on_session(
            &uris.session,
            json!({ "type": "session/activeClientChanged", "activeClient": active }),
        )
        .await;
    newest
        .until("the client joined", |view| !view.members(&uris.session).is_empty())
        .await;
    newest
        .start_turn(&uris.chat, "t1", r#"/client-tool open {"path": "a.txt"}"#)
        .await;
    let started = oldest.sees("toolCallStart").await;
    assert_eq!(started["toolClientId"], "client of 0.2.0");
    let ready = oldest.sees("toolCallReady").await;
    assert_eq!(ready["toolInput"], r#"{"path": "a.txt"}"#);
    let result =
        json!({ "success": true, "pastTenseMessage": "Opened it", "content": [{ "type": "text", "text": "opened" }] });
    // Another client may not report for it, whatever its version.
    let forged = json!({ "turnId": "t1", "toolCallId": started["toolCallId"], "result": result });
    older.does("toolCallComplete", forged.clone()).await;
    let refused = |message: &Value| message["params"].get("rejectionReason").is_some();
    let refused = older.client.notification("the rejection", refused).await;
    assert_eq!(
        refused["params"]["rejectionReason"],
        "another client runs this tool; only that one may report about it"
    );
    oldest.does("toolCallComplete", forged).await;
    let turn = newest.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts), "Your client says: opened");
    newest.assert_converged().await;
}

#[tokio::test]
async fn clients_up_to_0_5_0_fetch_turns_before_a_turn() {
    let (host, newest, uris, mut company) = company().await;
    for turn in ["t1", "t2", "t3"] {
        newest.run_turn(&uris.chat, turn, turn).await;
    }
    let [oldest, _, _] = &mut company;
    let fetched = oldest.client.call(
        "fetchTurns",
        json!({ "channel": uris.session, "before": "t3", "limit": 1 }),
    );
    let fetched = fetched.await.expect("fetched");
    assert_eq!(fetched["hasMore"], true);
    assert_eq!(fetched["turns"][0]["id"], "t2");
    assert_eq!(fetched["turns"][0]["userMessage"]["text"], "t2");
    let mut paging = Older::join(&host, "0.5.0", &uris).await;
    let fetched = paging
        .client
        .call("fetchTurns", json!({ "channel": uris.chat, "before": "t2" }));
    let fetched = fetched.await.expect("fetched");
    assert_eq!(
        (&fetched["hasMore"], &fetched["turns"][0]["id"]),
        (&json!(false), &json!("t1"))
    );
    let refused = paging
        .client
        .call("fetchTurns", json!({ "channel": uris.chat, "before": "t9" }));
    assert_eq!(refused.await.expect_err("unknown").code, -32602);
    // The method under which older requests reach the core is not on the wire.
    let mut raw = RawClient::initialized(host.address(), "curious").await;
    let refused = raw.call("innkeeper/fetchTurnsBefore", json!({ "channel": uris.chat }));
    assert_eq!(refused.await.expect_err("unknown").code, -32601);
}

#[tokio::test]
async fn a_client_of_0_8_forks_a_session() {
    let (host, newest, uris, _company) = company().await;
    for turn in ["t1", "t2", "t3"] {
        newest.run_turn(&uris.chat, turn, turn).await;
    }
    let mut old = RawClient::connect(host.address()).await;
    old.initialize("forking", &["0.8.0"]).await.expect("initialized");
    let fork = json!({ "channel": "ahp-session:/fork", "fork": { "session": uris.session, "turnId": "t2" } });
    old.call("createSession", fork).await.expect("created");
    let forked = newest.join("ahp-session:/fork").await;
    newest.session_ready(&forked.session).await;
    let turns = |view: &innkeeper_testkit::official::View| {
        let chat = view.chat(&forked.chat).expect("mirrored");
        chat.turns.iter().map(|turn| turn.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(turns(&newest.view()), ["t1", "t2"]);
    newest.run_turn(&forked.chat, "t4", "goes on").await;
    assert_eq!(newest.view().chat(&uris.chat).expect("mirrored").turns.len(), 3);
    for (fork, code) in [
        (json!({ "session": "ahp-session:/nowhere", "turnId": "t1" }), -32001),
        (json!({ "session": uris.session, "turnId": "t9" }), -32602),
    ] {
        let create = json!({ "channel": "ahp-session:/other", "fork": fork });
        assert_eq!(old.call("createSession", create).await.expect_err("refused").code, code);
    }
    newest.assert_converged().await;
}

#[tokio::test]
async fn rec_05_older_clients_come_back_with_snapshots_and_0_9_with_a_replay() {
    let (host, newest, uris, company) = company().await;
    drop(company);
    newest.run_turn(&uris.chat, "t1", "while they were away").await;
    for (version, kind, channels) in [
        ("0.2.0", "snapshot", vec![&uris.session]),
        ("0.5.2", "snapshot", vec![&uris.session, &uris.chat]),
        ("0.9.0", "replay", vec![&uris.session, &uris.chat]),
    ] {
        let seen = {
            // Its first connection was before the turn.
            let mut client = RawClient::connect(host.address()).await;
            let result = client.initialize(&format!("back {version}"), &[version]).await;
            for channel in &channels {
                let subscribed = client.call("subscribe", json!({ "channel": channel })).await;
                subscribed.expect("subscribed");
            }
            result.expect("initialized")["serverSeq"].as_u64().expect("a number")
        };
        let turn = format!("after {version}");
        newest.run_turn(&uris.chat, &turn, &turn).await;
        let mut client = RawClient::connect(host.address()).await;
        let params = json!({ "channel": "ahp-root://", "clientId": format!("back {version}"),
            "lastSeenServerSeq": seen, "subscriptions": channels });
        let result = client.call("reconnect", params).await.expect("reconnected");
        assert_eq!(result["type"], kind, "{version}");
        if version == "0.2.0" {
            let state = &result["snapshots"][0]["state"];
            let last = state["turns"].as_array().expect("turns").last().expect("a turn");
            assert_eq!(last["userMessage"]["text"], turn, "it is shown in its own words");
        }
    }
}

#[tokio::test]
async fn a_client_of_0_2_comes_back_to_a_host_that_was_killed() {
    let host = HostProcess::start(crate::options()).await;
    let newest = OfficialClient::connect(host.address(), "newest")
        .await
        .of_a_mortal_host();
    let uris = newest.create_session("mortal").await;
    newest.run_turn(&uris.chat, "t1", "before").await;
    let mut old = Older::join(&host, "0.2.0", &uris).await;
    old.does(
        "turnStarted",
        json!({ "turnId": "t2", "userMessage": { "text": "by 0.2" } }),
    )
    .await;
    old.sees_end("t2").await;
    let host = host.kill_and_restart().await;
    let mut client = RawClient::connect(host.address()).await;
    let params = json!({ "channel": "ahp-root://", "clientId": "client of 0.2.0", "lastSeenServerSeq": 1,
        "subscriptions": [uris.session] });
    let result = client.call("reconnect", params).await.expect("reconnected");
    assert_eq!(result["type"], "snapshot");
    let state = &result["snapshots"][0]["state"];
    let turns: Vec<String> = state["turns"].as_array().expect("turns").iter().map(question).collect();
    assert_eq!(turns, ["before", "by 0.2"]);
    // It still speaks its own version.
    let action = json!({ "type": "session/turnStarted", "turnId": "t3", "userMessage": { "text": "after" } });
    client.dispatch(&uris.session, 9, action).await;
    let ended = |message: &Value| {
        message["params"]["action"]["type"] == "session/turnComplete" && message["params"]["action"]["turnId"] == "t3"
    };
    client.notification("the end of its turn", ended).await;
}

#[tokio::test]
async fn smt_01_clients_of_every_kind_of_session_opt_in_to_rewrite_prompts() {
    let (host, newest, uris, _company) = company().await;
    for (number, version) in ["0.2.0", "0.4.0", "0.5.0", "0.8.0", "0.9.0"].into_iter().enumerate() {
        let mut raw = RawClient::connect(host.address()).await;
        let name = format!("desk of {version}");
        raw.initialize(&name, &[version]).await.expect("initialized");
        let mut desk = Rewriter::over(raw, &name, &uris.session).await;
        let kind = match version {
            "0.2.0" | "0.4.0" => "session/activeClientChanged",
            _ => "session/activeClientSet",
        };
        let echo = desk
            .dispatch(json!({ "type": kind, "activeClient": entry(&name, &["tone"]) }))
            .await;
        assert_eq!(echo.get("rejectionReason"), None, "{echo}");
        assert_eq!(
            echo["action"]["activeClient"]["systemMessageTransform"],
            json!({ "sections": ["tone"] }),
            "{version}"
        );
        let turn = format!("t{number}");
        newest.start_turn(&uris.chat, &turn, "/prompt").await;
        desk.rewrite(&[("tone", &format!("Speak like {version}."))]).await;
        let said = markdown(&newest.turn_end(&uris.chat, &turn).await.response_parts);
        assert!(said.contains(&format!("Speak like {version}.")), "{said}");
        let left = match version {
            "0.2.0" | "0.4.0" => json!({ "type": kind, "activeClient": null }),
            _ => json!({ "type": "session/activeClientRemoved", "clientId": name }),
        };
        desk.dispatch(left).await;
    }
}
