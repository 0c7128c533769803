//! The literal examples of the documents that describe 0.2, 0.3, 0.4 and 0.5, sent as they are written there.

mod customizations;
mod mcp_servers;
mod reader;
mod session_channel;

use innkeeper_compat::version::Version;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::{options, start};

/// A raw client that has initialized with this version and subscribed to a new session.
async fn in_session(host: &HostProcess, version: &str, id: &str, session: &str) -> (RawClient, Value) {
    let mut client = RawClient::connect(host.address()).await;
    let params = json!({
        "channel": "ahp-root://", "clientId": id, "protocolVersions": [version], "initialSubscriptions": ["ahp-root://"],
    });
    client.call("initialize", params).await.expect("initialized");
    let created = client.call("createSession", json!({ "channel": session })).await;
    assert_eq!(created, Ok(Value::Null));
    let subscribed = client
        .call("subscribe", json!({ "channel": session }))
        .await
        .expect("subscribed");
    let state = subscribed["snapshot"]["state"].clone();
    if state["lifecycle"] != "ready" {
        action(&mut client, "session/ready").await;
    }
    (client, state)
}

/// Waits for an action of this type on the session and returns its envelope.
async fn action(client: &mut RawClient, kind: &str) -> Value {
    let envelope = client
        .notification(kind, |message| {
            message["method"] == "action" && message["params"]["action"]["type"] == kind
        })
        .await;
    envelope["params"].clone()
}

/// Reads until something is true of the notifications that came.
async fn until_turn_ends(client: &mut RawClient, complete: &str, turn: &str) -> Vec<Value> {
    let mut seen = Vec::new();
    loop {
        let message = client
            .notification("the turn goes on", |message| message["method"] == "action")
            .await;
        let params = message["params"].clone();
        if params["channel"] == "ahp-root://" {
            continue;
        }
        let is_end = params["action"]["type"] == complete && params["action"]["turnId"] == turn;
        seen.push(params);
        if is_end {
            return seen;
        }
    }
}

#[tokio::test]
async fn the_session_channel_of_0_2_works_as_its_reference_says() {
    let host = start().await;
    let session = "ahp-session:/1f3c7a52-0b57-4a6e-9f0e-2d4b5c6d7e8f";
    let (mut client, state) = in_session(&host, "0.2.0", "seed-0.2", session).await;
    // SessionState: summary, lifecycle and turns are required; times are numbers.
    for member in ["summary", "lifecycle", "turns"] {
        assert!(state.get(member).is_some(), "{member} in {state}");
    }
    assert!(
        state["summary"]["createdAt"].is_u64() && state["summary"]["modifiedAt"].is_u64(),
        "{state}"
    );
    assert_eq!(state["summary"]["resource"], session);

    // session/turnStarted with a userMessage; then session/responsePart, session/delta and session/turnComplete.
    for number in 1..=3 {
        let turn = format!("t{number}");
        let started = json!({ "type": "session/turnStarted", "turnId": turn, "userMessage": { "text": "/stream 3" } });
        client.dispatch(session, number, started.clone()).await;
        let seen = until_turn_ends(&mut client, "session/turnComplete", &turn).await;
        assert!(seen.iter().all(|params| params["channel"] == session), "{seen:#?}");
        let kinds: Vec<&str> = seen
            .iter()
            .filter_map(|params| params["action"]["type"].as_str())
            .collect();
        for kind in ["session/turnStarted", "session/responsePart"] {
            assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
        }
        assert!(kinds.iter().all(|kind| kind.starts_with("session/")), "{kinds:?}");
        let echo = seen
            .iter()
            .find(|params| params["action"]["type"] == "session/turnStarted")
            .expect("the echo");
        assert_eq!(echo["origin"], json!({ "clientId": "seed-0.2", "clientSeq": number }));
        assert_eq!(echo["action"]["userMessage"]["text"], "/stream 3");
        assert!(echo["action"].get("message").is_none(), "{echo}");
    }

    // The requests of the example, with their numbers and the URI filled in.
    let frame = format!(
        "{{ \"jsonrpc\": \"2.0\", \"id\": 8, \"method\": \"fetchTurns\",\n\"params\": {{ \"channel\": \"{session}\", \"limit\": 20 }} }}"
    );
    client.send(frame).await;
    let page = client.answer(&json!(8)).await.expect("fetched");
    let ids = |page: &Value| -> Vec<String> {
        let turns = page["turns"].as_array().expect("turns").iter();
        turns
            .filter_map(|turn| turn["id"].as_str())
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        (ids(&page), &page["hasMore"]),
        (vec!["t1".into(), "t2".into(), "t3".into()], &json!(false))
    );
    assert_eq!(page["turns"][0]["userMessage"]["text"], "/stream 3", "a turn of 0.2");
    let frame = format!(
        "{{ \"jsonrpc\": \"2.0\", \"id\": 9, \"method\": \"fetchTurns\",\n\"params\": {{ \"channel\": \"{session}\", \"before\": \"t3\", \"limit\": 1 }} }}"
    );
    client.send(frame).await;
    let page = client.answer(&json!(9)).await.expect("fetched");
    assert_eq!((ids(&page), &page["hasMore"]), (vec!["t2".into()], &json!(true)));

    let frame = format!(
        "{{ \"jsonrpc\": \"2.0\", \"id\": 10, \"method\": \"fetchTurns\",\n\"params\": {{ \"channel\": \"{session}\", \"before\": \"t1\", \"limit\": 20 }} }}"
    );
    client.send(frame).await;
    let page = client.answer(&json!(10)).await.expect("fetched");
    assert_eq!(page, json!({ "turns": [], "hasMore": false }));

    // A client renames the session.
    client
        .dispatch(
            session,
            10,
            json!({ "type": "session/titleChanged", "title": "A reference" }),
        )
        .await;
    assert_eq!(
        action(&mut client, "session/titleChanged").await["action"]["title"],
        "A reference"
    );

    // A tool of the active client: session/toolCallStart names it with toolClientId, and it reports the result.
    let tools = json!([{ "name": "runUnitTests", "title": "Run Unit Tests", "inputSchema": { "type": "object" } }]);
    let active = json!({ "clientId": "seed-0.2", "displayName": "VS Code", "tools": tools });
    client
        .dispatch(
            session,
            11,
            json!({ "type": "session/activeClientChanged", "activeClient": active }),
        )
        .await;
    let changed = action(&mut client, "session/activeClientChanged").await;
    assert_eq!(changed["action"]["activeClient"]["tools"][0]["name"], "runUnitTests");
    let text = "/client-tool runUnitTests {\"pattern\": \"*\"}";
    let started = json!({ "type": "session/turnStarted", "turnId": "t4", "userMessage": { "text": text } });
    client.dispatch(session, 12, started).await;
    let call = action(&mut client, "session/toolCallStart").await;
    assert_eq!(call["action"]["toolClientId"], "seed-0.2", "{call}");
    let ready = action(&mut client, "session/toolCallReady").await;
    assert_eq!(ready["action"]["confirmed"], "not-needed", "{ready}");
    let complete = json!({
        "type": "session/toolCallComplete", "turnId": "t4", "toolCallId": call["action"]["toolCallId"],
        "result": { "success": true, "pastTenseMessage": "Ran the tests", "content": [{ "type": "text", "text": "all green" }] },
    });
    client.dispatch(session, 13, complete).await;
    until_turn_ends(&mut client, "session/turnComplete", "t4").await;

    // "Server SHOULD reject if another client is already active": this host has several, and shows the latest.
    client
        .dispatch(
            session,
            14,
            json!({ "type": "session/activeClientChanged", "activeClient": null }),
        )
        .await;
    let changed = action(&mut client, "session/activeClientChanged").await;
    assert!(
        changed["action"].get("activeClient").is_none_or(Value::is_null),
        "{changed}"
    );
    let disposed = client.call("disposeSession", json!({ "channel": session })).await;
    assert_eq!(disposed, Ok(Value::Null));
    client
        .notification("the end is announced", |message| {
            message["method"] == "root/sessionRemoved" && message["params"]["session"] == session
        })
        .await;
}

#[tokio::test]
async fn a_model_chosen_in_0_2_during_a_turn_counts_after_it() {
    let host = start().await;
    let session = "ahp-session:/deferral";
    let (mut client, _) = in_session(&host, "0.2.0", "seed-0.2", session).await;
    let started = json!({ "type": "session/turnStarted", "turnId": "t1", "userMessage": { "text": "/slow 1" } });
    client.dispatch(session, 1, started).await;
    action(&mut client, "session/turnStarted").await;
    let chosen = json!({ "type": "session/modelChanged", "model": { "id": "tour" } });
    client.dispatch(session, 2, chosen.clone()).await;
    let seen = until_turn_ends(&mut client, "session/turnComplete", "t1").await;
    let is_choice = |params: &&Value| params["action"]["type"] == "session/modelChanged";
    assert_eq!(
        seen.iter().filter(is_choice).count(),
        0,
        "deferred until the active turn completes"
    );
    let echo = action(&mut client, "session/modelChanged").await;
    assert_eq!((&echo["action"], &echo["origin"]["clientSeq"]), (&chosen, &json!(2)));
}

#[tokio::test]
async fn customizations_and_client_tools_of_0_5_work_as_their_guide_says() {
    let host = start().await;
    let session = "ahp-session:/guide";
    let (mut client, state) = in_session(&host, "0.5.0", "my-client-id", session).await;
    assert!(
        state["activeClients"].is_array() && state.get("summary").is_none(),
        "flat: {state}"
    );
    // The dispatches of the guide as they stand: plugins, then tools with the member `session`, then other tools.
    let published = json!({
        "type": "plugin",
        "id": "client-plugin-1",
        "uri": "virtual://my-client/workspace-skills",
        "name": "Workspace Skills",
        "enabled": true,
        "nonce": "sha256:...",
    });
    let joined = json!({
        "type": "session/activeClientSet",
        "activeClient": {
            "clientId": "my-client-id",
            "displayName": "VS Code",
            "tools": [],
            "customizations": [published],
        },
    });
    client.dispatch(session, 1, joined).await;
    let set = action(&mut client, "session/activeClientSet").await;
    assert_eq!(
        set["action"]["activeClient"]["customizations"][0]["enabled"], true,
        "{set}"
    );
    client
        .notification("the host surfaces the plugin", |message| {
            let action = &message["params"]["action"];
            let kind = action["type"].as_str().unwrap_or_default();
            kind.starts_with("session/customization") && action.to_string().contains("virtual://my-client")
        })
        .await;
    let subscribed = client
        .call("subscribe", json!({ "channel": session }))
        .await
        .expect("subscribed");
    let state = &subscribed["snapshot"]["state"];
    let plugin = state["customizations"].as_array().and_then(|entries| {
        entries
            .iter()
            .find(|entry| entry["uri"] == "virtual://my-client/workspace-skills")
            .cloned()
    });
    let plugin = plugin.unwrap_or_else(|| panic!("the plugin is surfaced: {state}"));
    assert_eq!(
        (&plugin["clientId"], &plugin["enabled"]),
        (&json!("my-client-id"), &json!(true))
    );
    // Toggling, as the guide writes it.
    let toggle = json!({ "type": "session/customizationToggled", "id": plugin["id"], "enabled": false });
    client.dispatch(session, 2, toggle.clone()).await;
    let toggled = action(&mut client, "session/customizationToggled").await;
    assert_eq!(toggled["action"], toggle);

    let run_unit_tests = json!({
        "name": "runUnitTests",
        "title": "Run Unit Tests",
        "description": "Runs unit tests in the project",
        "inputSchema": {
            "type": "object",
            "properties": { "pattern": { "type": "string" } }
        },
    });
    let lint = json!({ "name": "lint" });
    for (number, tools) in [(3, json!([lint])), (4, json!([run_unit_tests, lint]))] {
        let updated = json!({
            "type": "session/activeClientSet",
            "session": session,
            "activeClient": {
                "clientId": "my-client-id",
                "displayName": "VS Code",
                "tools": tools,
                "customizations": [published],
            },
        });
        client.dispatch(session, number, updated).await;
        let set = action(&mut client, "session/activeClientSet").await;
        assert_eq!(set["action"]["activeClient"]["tools"], tools, "full replacement: {set}");
    }

    // The client does not recognize a tool call and denies it; chat/toolCallComplete reports another.
    let chat = state["defaultChat"].as_str().expect("a chat").to_owned();
    client
        .call("subscribe", json!({ "channel": chat }))
        .await
        .expect("subscribed");
    let start = |turn: &str, tool: &str| {
        let message =
            json!({ "text": format!("/client-tool {tool} {{\"pattern\": \"*\"}}"), "origin": { "kind": "user" } });
        json!({ "type": "chat/turnStarted", "turnId": turn, "message": message })
    };
    client.dispatch(&chat, 5, start("t1", "lint")).await;
    let call = action(&mut client, "chat/toolCallStart").await;
    action(&mut client, "chat/toolCallReady").await;
    let denied = json!({
        "type": "chat/toolCallConfirmed",
        "session": session,
        "turnId": "t1",
        "toolCallId": call["action"]["toolCallId"],
        "approved": false,
        "reason": "denied",
    });
    client.dispatch(&chat, 6, denied).await;
    let seen = until_turn_ends(&mut client, "chat/turnComplete", "t1").await;
    // The reducers of no version deny a call that runs, so the host ends it as failed and says so to its author.
    let echo = seen.iter().find(|params| params["origin"]["clientSeq"] == 6);
    let reason = &echo.expect("an answer")["rejectionReason"];
    assert_eq!(reason, "the call is running already, so it was ended as failed");
    let is_end = |params: &&Value| params["action"]["type"] == "chat/toolCallComplete";
    let end = seen.iter().find(is_end).expect("the end of the call");
    assert_eq!(end["action"]["result"]["success"], false, "{end}");

    client.dispatch(&chat, 7, start("t2", "runUnitTests")).await;
    let call = action(&mut client, "chat/toolCallStart").await;
    assert_eq!(
        call["action"]["contributor"],
        json!({ "kind": "client", "clientId": "my-client-id" })
    );
    action(&mut client, "chat/toolCallReady").await;
    let complete = json!({
        "type": "chat/toolCallComplete", "turnId": "t2", "toolCallId": call["action"]["toolCallId"],
        "result": { "success": true, "pastTenseMessage": "Ran the tests", "content": [{ "type": "text", "text": "all green" }] },
    });
    client.dispatch(&chat, 8, complete).await;
    until_turn_ends(&mut client, "chat/turnComplete", "t2").await;
    client
        .dispatch(
            session,
            9,
            json!({ "type": "session/activeClientRemoved", "clientId": "my-client-id" }),
        )
        .await;
    action(&mut client, "session/activeClientRemoved").await;
}

/// The guide about MCP servers: the shape of an entry, its position, its toggle, and the contributor of a call.
#[tokio::test]
async fn mcp_servers_of_0_3_are_shown_as_their_guide_says() {
    let program = std::env::current_exe().expect("this program").display().to_string();
    let section = format!(
        "[mcp.servers.garden]\ncommand = {program:?}\nargs = [\"--exact\", \"odd_server\", \"--nocapture\"]\n\
         env = {{ {} = \"plain\" }}\n",
        innkeeper_testkit::misbehaving_server::KIND
    );
    let path = std::env::var_os("PATH").unwrap_or_default();
    let host = HostProcess::start(options().setting(&section).environment("PATH", path)).await;
    let session = "ahp-session:/garden";
    let (mut client, _) = in_session(&host, "0.3.0", "guide-0.3", session).await;
    // `state.customizations?.flatMap(c => c.type === 'mcpServer' ? [c] : (c.children ?? []))
    //   .filter(c => c.type === 'mcpServer')`
    let servers = |state: &Value| -> Vec<Value> {
        let top = state["customizations"].as_array().cloned().unwrap_or_default();
        let all = top.into_iter().flat_map(|entry| match entry["type"] == "mcpServer" {
            true => vec![entry],
            false => entry["children"].as_array().cloned().unwrap_or_default(),
        });
        all.filter(|entry| entry["type"] == "mcpServer").collect()
    };
    let server = loop {
        let params = json!({ "channel": session });
        let subscribed = client.call("subscribe", params).await.expect("subscribed");
        let found = servers(&subscribed["snapshot"]["state"]).into_iter().next();
        match found.filter(|server| server["state"]["kind"] == "ready") {
            Some(server) => break server,
            None => {
                client
                    .notification("the server changes", |message| {
                        let kind = message["params"]["action"]["type"].as_str().unwrap_or_default();
                        kind.starts_with("session/customization") || kind == "session/mcpServerStateChanged"
                    })
                    .await;
            }
        }
    };
    for member in ["id", "uri", "name"] {
        assert!(server[member].is_string(), "{member} in {server}");
    }
    assert_eq!(server["enabled"], true, "{server}");
    assert!(server.get("mcpApp").is_none(), "the client did not opt in: {server}");

    // An MCP tool call is a tool call with an MCP contributor.
    let allowed = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    client.dispatch(session, 1, allowed).await;
    action(&mut client, "session/configChanged").await;
    let text = "/mcp garden echo {\"text\": \"hello\"}";
    let message = json!({ "text": text, "origin": { "kind": "user" } });
    let started = json!({ "type": "session/turnStarted", "turnId": "t1", "message": message });
    client.dispatch(session, 2, started).await;
    let seen = until_turn_ends(&mut client, "session/turnComplete", "t1").await;
    let call = seen
        .iter()
        .find(|params| params["action"]["type"] == "session/toolCallStart")
        .expect("a tool call");
    assert_eq!(
        call["action"]["contributor"],
        json!({ "kind": "mcp", "customizationId": server["id"] })
    );

    // Disabling a server signals the host to stop it, and it goes through `stopped`.
    let toggle = json!({ "type": "session/customizationToggled", "id": server["id"], "enabled": false });
    client.dispatch(session, 3, toggle.clone()).await;
    assert_eq!(
        action(&mut client, "session/customizationToggled").await["action"],
        toggle
    );
    client
        .notification("the server stops", |message| {
            let action = &message["params"]["action"];
            action["type"] == "session/mcpServerStateChanged"
                && action["id"] == server["id"]
                && action["state"]["kind"] == "stopped"
        })
        .await;
}

/// The proposal about children describes 0.4: a toggle reaches containers, and a child has no flag. This host toggles
/// children for every version.
#[tokio::test]
async fn a_child_is_toggled_by_0_4_and_its_container_is_not() {
    let folder = tempfile::tempdir().expect("a directory");
    let skill = folder.path().join(".claude/skills/one");
    std::fs::create_dir_all(&skill).expect("created");
    let text = "---\nname: one\ndescription: Does it.\n---\nDo it.\n";
    std::fs::write(skill.join("SKILL.md"), text).expect("written");
    let host = start().await;
    let mut client = RawClient::connect(host.address()).await;
    let params = json!({ "channel": "ahp-root://", "clientId": "proposal", "protocolVersions": ["0.4.0"] });
    client.call("initialize", params).await.expect("initialized");
    let session = "ahp-session:/children";
    let directory = format!("file://{}", folder.path().canonicalize().expect("there").display());
    let params = json!({ "channel": session, "workingDirectory": directory });
    client.call("createSession", params).await.expect("created");
    let entry = loop {
        let subscribed = client.call("subscribe", json!({ "channel": session })).await;
        let state = subscribed.expect("subscribed")["snapshot"]["state"].take();
        let entries = state["customizations"].as_array().cloned().unwrap_or_default();
        let found = entries.into_iter().find(|entry| entry["name"] == ".claude/skills");
        match found.filter(|entry| {
            entry["children"]
                .as_array()
                .is_some_and(|children| !children.is_empty())
        }) {
            Some(entry) => break entry,
            None => {
                client
                    .notification("the skills are found", |message| {
                        let kind = message["params"]["action"]["type"].as_str().unwrap_or_default();
                        kind.starts_with("session/customization")
                    })
                    .await;
            }
        }
    };
    let child = &entry["children"][0]["id"];
    let toggle = json!({ "type": "session/customizationToggled", "id": child, "enabled": false });
    client.dispatch(session, 1, toggle.clone()).await;
    let echo = action(&mut client, "session/customizationToggled").await;
    assert_eq!((&echo["action"], &echo["origin"]["clientSeq"]), (&toggle, &json!(1)));
    let subscribed = client.call("subscribe", json!({ "channel": session })).await;
    let state = subscribed.expect("subscribed")["snapshot"]["state"].take();
    let entries = state["customizations"].as_array().expect("customizations");
    let shown = entries
        .iter()
        .find(|known| known["id"] == entry["id"])
        .expect("the container");
    assert_eq!(
        (&shown["enabled"], &shown["children"][0]["enabled"]),
        (&json!(true), &json!(false))
    );
}

/// The proposal of `systemMessageTransform`, for clients of every version that has requests of the host.
#[tokio::test]
async fn clients_of_every_version_opt_in_to_prompt_transforms() {
    let host = start().await;
    let versions = Version::ALL
        .into_iter()
        .filter(|version| version.published().has_reverse_requests());
    for version in versions {
        let session = format!("ahp-session:/transform-{}", version.number());
        let (mut client, _) = in_session(
            &host,
            version.number(),
            &format!("rewriter-{}", version.number()),
            &session,
        )
        .await;
        let root = client.call("subscribe", json!({ "channel": "ahp-root://" })).await;
        let root = root.expect("subscribed");
        let sections = &root["snapshot"]["state"]["agents"][0]["systemMessageSections"];
        let ids = sections
            .as_array()
            .expect("a catalogue")
            .iter()
            .map(|section| &section["id"]);
        assert!(ids.into_iter().any(|id| id == "tone"), "{version:?}: {sections}");

        let active = json!({
            "clientId": format!("rewriter-{}", version.number()), "tools": [], "systemMessageTransform": { "sections": ["tone"] },
        });
        let kind = match version.has_active_clients() {
            true => "session/activeClientSet",
            false => "session/activeClientChanged",
        };
        client
            .dispatch(&session, 1, json!({ "type": kind, "activeClient": active }))
            .await;
        let changed = action(&mut client, kind).await;
        assert_eq!(
            changed["action"]["activeClient"]["systemMessageTransform"]["sections"],
            json!(["tone"])
        );

        let (chat, prefix) = match version.has_chats() {
            false => (session.clone(), "session"),
            true => {
                let state = client
                    .call("subscribe", json!({ "channel": session }))
                    .await
                    .expect("subscribed");
                let chat = state["snapshot"]["state"]["defaultChat"]
                    .as_str()
                    .expect("a chat")
                    .to_owned();
                client
                    .call("subscribe", json!({ "channel": chat }))
                    .await
                    .expect("subscribed");
                (chat, "chat")
            }
        };
        let started = version.turn_started("t1", "/prompt tone");
        client.dispatch(&chat, 2, started).await;
        let echo = action(&mut client, &format!("{prefix}/turnStarted")).await;
        assert_eq!(echo.get("rejectionReason"), None, "{echo}");
        let asked = client
            .notification("the host asks for a rewrite", |message| {
                message["method"] == "systemMessageTransform"
            })
            .await;
        assert_eq!(asked["params"]["channel"], session, "{asked}");
        let asked_about = asked["params"]["sections"].as_object().expect("sections");
        assert_eq!(
            asked_about.keys().collect::<Vec<_>>(),
            ["tone"],
            "only the sections of the opt-in"
        );
        assert!(asked_about["tone"]["content"].is_string(), "{asked}");
        let sections = json!({ "tone": { "content": "Speak like a pirate." } });
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "sections": sections } });
        client.send(answer.to_string()).await;
        let seen = until_turn_ends(&mut client, &format!("{prefix}/turnComplete"), "t1").await;
        let said: String = seen.iter().map(|params| params["action"].to_string()).collect();
        assert!(said.contains("Speak like a pirate."), "{version:?}: {said}");
    }
}

/// Clients of 0.1 cannot be asked, so their opt-in changes no prompt, and no turn waits for them.
#[tokio::test]
async fn a_client_of_0_1_that_opts_in_to_prompt_transforms_stalls_no_turn() {
    // Longer than this test waits for anything.
    let host = HostProcess::start(options().limit("system_message_transform_ms", 600_000)).await;
    let session = "tour:/opts-in";
    let mut client = RawClient::connect(host.address()).await;
    let params = json!({ "protocolVersion": 1, "clientId": "oldest" });
    client.call("initialize", params).await.expect("initialized");
    let created = client.call("createSession", json!({ "session": session })).await;
    assert_eq!(created, Ok(Value::Null));
    let active = json!({ "clientId": "oldest", "tools": [], "systemMessageTransform": { "sections": ["tone"] } });
    let subscribed = client.call("subscribe", json!({ "resource": session })).await;
    if subscribed.expect("subscribed")["snapshot"]["state"]["lifecycle"] != "ready" {
        action(&mut client, "session/ready").await;
    }
    let opts_in = json!({ "type": "session/activeClientChanged", "session": session, "activeClient": active });
    let params = json!({ "clientSeq": 1, "action": opts_in });
    client.notify("dispatchAction", params).await;
    let changed = action(&mut client, "session/activeClientChanged").await;
    assert_eq!(
        (
            &changed["action"]["activeClient"]["clientId"],
            &changed["origin"]["clientSeq"]
        ),
        (&json!("oldest"), &json!(1))
    );
    for number in [2, 3] {
        let turn = format!("t{number}");
        let started = json!({
            "type": "session/turnStarted", "session": session, "turnId": turn, "userMessage": { "text": "/prompt tone" },
        });
        let params = json!({ "clientSeq": number, "action": started });
        client.notify("dispatchAction", params).await;
        let seen = until_turn_ends(&mut client, "session/turnComplete", &turn).await;
        let is_failure = |params: &&Value| params["action"]["type"] == "session/error";
        assert_eq!(seen.iter().filter(is_failure).count(), 0, "{seen:#?}");
        let said: String = seen.iter().map(|params| params["action"].to_string()).collect();
        assert!(said.contains("tone"), "the prompt as the agent wrote it: {said}");
    }
    assert!(
        !client.has_notification(|message| message.get("id").is_some()),
        "0.1 has no requests of the host: {:?}",
        client.notifications
    );
}
