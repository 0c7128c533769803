//! Plugins of clients, and the custom agents that messages may choose.

use innkeeper_core::customization::ClientPlugin;
use innkeeper_core::{AgentCommand, AgentProfile, ClientId, Effect, TurnEnd};
use serde_json::{Value, json};

use super::publishing::off;
use super::*;

/// A plugin as a client publishes it.
fn published(client: &str, name: &str) -> Value {
    json!({ "type": "plugin", "id": "mine", "uri": format!("virtual://{client}/{name}"), "name": name, "nonce": "1" })
}

fn publish(client: &str, plugins: &[Value]) -> Value {
    json!({ "type": "session/activeClientSet", "activeClient": { "clientId": client, "tools": [], "customizations": plugins } })
}

fn choosing(stage: &Stage, turn: &str, agent: &str) -> Value {
    let mut started = stage.turn_started(turn);
    started["message"]["agent"] = json!({ "uri": agent });
    started
}

fn agent_uri(id: &str) -> String {
    format!("file:///agents/{id}.md")
}

#[test]
fn cus22_act15_the_plugins_of_active_clients_are_followed() {
    let (mut stage, conn, _) = stage();
    stage.dispatch(conn, SESSION, 1, publish("c", &[published("c", "p")]));
    let plugin = |nonce: &str| ClientPlugin {
        client: ClientId::new("c"),
        uri: "virtual://c/p".to_owned(),
        name: "p".to_owned(),
        nonce: Some(nonce.to_owned()),
        publication: 0,
    };
    assert_eq!(stage.wanted(SESSION).expect("followed").1.client_plugins, [plugin("1")]);
    let mut changed = published("c", "p");
    changed["nonce"] = json!("2");
    stage.dispatch(conn, SESSION, 2, publish("c", &[changed]));
    assert_eq!(stage.wanted(SESSION).expect("followed").1.client_plugins, [plugin("2")]);
    stage.dispatch(
        conn,
        SESSION,
        3,
        json!({ "type": "session/activeClientRemoved", "clientId": "c" }),
    );
    assert!(stage.wanted(SESSION).expect("followed").1.client_plugins.is_empty());
}

#[test]
fn act13_case_75_a_client_that_leaves_removes_its_plugins_and_not_before() {
    let (mut stage, conn, _) = stage();
    let other = stage.client("other", &[SESSION]);
    stage.dispatch(conn, SESSION, 1, publish("c", &[published("c", "p")]));
    let list = json!([plugin("h", &[]), of_client(plugin("p", &[skill("s")]), "c")]);
    stage.found(SESSION, list.clone());
    stage.inbox(other);
    stage.disconnect(conn);
    assert!(stage.told(other).is_empty(), "it may come back");
    stage.pass(CoreConfig::default().grace_ms);
    let told = stage.action_types(other);
    assert_eq!(told, ["session/activeClientRemoved", "session/customizationRemoved"]);
    assert_eq!(stage.shown(SESSION), json!([plugin("h", &[])]));
    // Discovery has not seen that yet.
    stage.found(SESSION, list);
    assert_eq!(stage.shown(SESSION), json!([plugin("h", &[])]));
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.start_turn(other, &chat, "t");
    assert_eq!(off(&stage), ["p", "s"], "an unpublished customization is not used");
}

#[test]
fn act02_customizations_of_a_client_are_checked() {
    let (mut stage, conn, _) = stage();
    let with = |field: &str, value: Value| {
        let mut plugin = published("c", "p");
        plugin[field] = value;
        vec![plugin]
    };
    let many: Vec<Value> = (0..257).map(|n| published("c", &format!("p{n}"))).collect();
    for (plugins, problem) in [
        (
            with("type", json!("directory")),
            "activeClient.customizations[0].type: ",
        ),
        (
            with("uri", json!("no uri")),
            "activeClient.customizations[0].uri: must be a URI",
        ),
        (with("id", json!("")), "activeClient.customizations[0].id: "),
        (
            with("name", json!("x".repeat(2000))),
            "activeClient.customizations[0].name: ",
        ),
        (
            with("nonce", json!("x".repeat(2000))),
            "activeClient.customizations[0].nonce: ",
        ),
        (
            with("clientId", json!("other")),
            "activeClient.customizations[0].clientId: ",
        ),
        (
            with("enablement", json!([{ "kind": "x" }])),
            "activeClient.customizations[0].enablement[0]: ",
        ),
        (
            with("childEnablement", json!({ "s": [globally(true), {}] })),
            "activeClient.customizations[0].childEnablement.s[1]: ",
        ),
        (
            vec![published("c", "p"), published("c", "p")],
            "activeClient.customizations[1].uri: ",
        ),
        (
            many,
            "activeClient.customizations: a client publishes at most 256 plugins",
        ),
    ] {
        stage.inbox(conn);
        stage.dispatch(conn, SESSION, 1, publish("c", &plugins));
        let refusal = stage.refusal(conn).expect("refused");
        assert!(refusal.starts_with(problem), "{refusal}");
    }
}

#[test]
fn cus16_cus17_a_client_decides_globally_about_its_own_plugin() {
    let (mut stage, conn, _) = stage();
    let mut decided = published("c", "p");
    decided["enablement"] = json!([globally(false)]);
    decided["childEnablement"] = json!({ "s": [globally(false)], "m": [globally(true)] });
    stage.dispatch(conn, SESSION, 1, publish("c", &[decided.clone()]));
    stage.found(
        SESSION,
        json!([of_client(plugin("p", &[skill("s"), server("m"), skill("t")]), "c")]),
    );
    let shown = stage.shown(SESSION);
    assert_eq!(shown[0]["enablement"], json!([globally(false)]));
    assert_eq!(shown[0]["children"][0]["enabled"], json!(false));
    assert_eq!(shown[0]["children"][1]["enablement"], json!([globally(true)]));
    assert_eq!(shown[0]["children"][2]["enabled"], Value::Null);
    stage.inbox(conn);
    // Another client cannot decide about it for all sessions, and can for this one.
    let other = stage.client("other", &[SESSION]);
    stage.toggle(other, SESSION, "p", json!([in_session(true), globally(true)]));
    assert_eq!(
        stage.shown(SESSION)[0]["enablement"],
        json!([in_session(true), globally(false)])
    );
    assert_eq!(
        stage.action_types(conn),
        ["session/customizationToggled", "session/customizationUpdated"]
    );
    decided["enablement"] = json!([globally(true)]);
    stage.dispatch(conn, SESSION, 2, publish("c", &[decided]));
    assert_eq!(
        stage.shown(SESSION)[0]["enablement"],
        json!([in_session(true), globally(true)])
    );
}

#[test]
fn case_76_two_clients_may_publish_the_same_uri() {
    let (mut stage, conn, _) = stage();
    let other = stage.client("other", &[SESSION]);
    let mut plugin_of_both = published("c", "p");
    stage.dispatch(conn, SESSION, 1, publish("c", &[plugin_of_both.clone()]));
    plugin_of_both["enablement"] = json!([globally(false)]);
    stage.dispatch(other, SESSION, 1, publish("other", &[plugin_of_both]));
    let wanted = stage.wanted(SESSION).expect("followed").1.client_plugins;
    let clients: Vec<&str> = wanted.iter().map(|plugin| plugin.client.as_str()).collect();
    assert_eq!(clients, ["c", "other"]);
    let mine = of_client(plugin("p", &[]), "c");
    let mut theirs = mine.clone();
    theirs["id"] = json!("p of other");
    theirs["clientId"] = json!("other");
    stage.found(SESSION, json!([mine, theirs]));
    let shown = stage.shown(SESSION);
    assert_eq!(shown[0]["enablement"], Value::Null);
    assert_eq!(shown[1]["enablement"], json!([globally(false)]));
}

#[test]
fn cus24_a_message_chooses_an_agent_that_is_present_enabled_and_invocable() {
    let (mut stage, conn, chat) = stage();
    let mut inner = custom_agent("inner");
    inner["disableUserInvocation"] = json!(true);
    let mut quiet = custom_agent("quiet");
    quiet["disableModelInvocation"] = json!(true);
    let mut closed = custom_agent("closed");
    closed["disableUserInvocation"] = json!(true);
    closed["disableModelInvocation"] = json!(true);
    let agents = [custom_agent("plain"), inner, quiet, closed, custom_agent("off")];
    stage.found(
        SESSION,
        json!([plugin("p", &agents), plugin("q", &[custom_agent("gone")])]),
    );
    stage.toggle(conn, SESSION, "off", json!([in_session(false)]));
    stage.toggle(conn, SESSION, "q", json!([in_session(false)]));
    for (agent, problem) in [
        (
            agent_uri("unknown"),
            "message.agent.uri: this session has no agent \"file:///agents/unknown.md\"; it has: plain, quiet",
        ),
        (
            agent_uri("inner"),
            "message.agent.uri: the agent \"inner\" works for other agents only",
        ),
        (
            agent_uri("closed"),
            "message.agent.uri: the agent \"closed\" cannot be used: its file",
        ),
        (agent_uri("off"), "message.agent.uri: the agent \"off\" is disabled"),
        (agent_uri("gone"), "message.agent.uri: the agent \"gone\" is disabled"),
        ("not a uri".to_owned(), "message.agent.uri: must be the URI of an agent"),
    ] {
        let started = choosing(&stage, "t", &agent);
        let queued =
            json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": started["message"] });
        for action in [started.clone(), queued] {
            stage.inbox(conn);
            stage.dispatch(conn, &chat, 1, action);
            let refusal = stage.refusal(conn).expect("refused");
            assert!(refusal.starts_with(problem), "{refusal}");
        }
        stage.inbox(conn);
        let draft = json!({ "type": "chat/draftChanged", "draft": started["message"] });
        stage.dispatch(conn, &chat, 1, draft);
        assert_eq!(
            stage.refusal(conn).is_none(),
            agent != "not a uri",
            "a draft may name anything"
        );
    }
    let started = choosing(&stage, "t", &agent_uri("quiet"));
    stage.dispatch(conn, &chat, 1, started);
    let chosen = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::StartTurn { start, .. }) => start.info.agent.clone(),
        _ => None,
    });
    assert_eq!(chosen, Some(agent_uri("quiet")));
}

#[test]
fn cus24_an_undiscovered_agent_is_not_rejected() {
    let (mut stage, conn, chat) = stage();
    let started = choosing(&stage, "t", &agent_uri("any"));
    stage.dispatch(conn, &chat, 1, started);
    assert_eq!(stage.refusal(conn), None);
    stage.ends(TurnEnd::Complete);
    let mut loading = plugin("p", &[]);
    loading["load"] = json!({ "kind": "loading" });
    stage.found(SESSION, json!([loading]));
    stage.inbox(conn);
    let started = choosing(&stage, "t2", &agent_uri("any"));
    stage.dispatch(conn, &chat, 1, started);
    assert_eq!(stage.refusal(conn), None, "it may be in what is still read");
    stage.ends(TurnEnd::Complete);
    stage.found(SESSION, json!([plugin("p", &[])]));
    stage.dispatch(conn, SESSION, 1, publish("c", &[published("c", "q")]));
    stage.inbox(conn);
    let started = choosing(&stage, "t3", "virtual://c/q/agents/any.md");
    stage.dispatch(conn, &chat, 1, started);
    assert_eq!(stage.refusal(conn), None, "it was published a moment ago");
    stage.ends(TurnEnd::Complete);
    stage.found(SESSION, json!([plugin("p", &[]), of_client(plugin("q", &[]), "c")]));
    stage.inbox(conn);
    let started = choosing(&stage, "t4", "virtual://c/q/agents/any.md");
    stage.dispatch(conn, &chat, 1, started);
    assert!(stage.refusal(conn).is_some(), "everything was read");
}

#[test]
fn case_78_a_queued_message_for_a_missing_agent_fails_alone() {
    let (mut stage, conn, chat) = stage();
    stage.found(SESSION, json!([plugin("p", &[custom_agent("a")])]));
    stage.start_turn(conn, &chat, "t1");
    let message = choosing(&stage, "t", &agent_uri("a"))["message"].clone();
    for (id, message) in [("q1", message), ("q2", super::message("and this"))] {
        let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message });
        stage.dispatch(conn, &chat, 2, queued);
    }
    stage.found(SESSION, json!([plugin("p", &[])]));
    stage.ends(TurnEnd::Complete);
    let state = stage.state(&chat);
    let failed = state["turns"]
        .as_array()
        .expect("turns")
        .last()
        .expect("a turn")
        .clone();
    assert_eq!(failed["state"], "error");
    let error = &failed["responseParts"][0]["error"];
    assert_eq!(error["errorType"], "agentNotFound");
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.starts_with("message.agent.uri: this session has no agent"),
        "{message}"
    );
    assert_eq!(
        state["queuedMessages"][0]["id"], "q2",
        "PEND-06: nothing starts by itself after an error"
    );
    stage.inbox(conn);
    stage.start_turn(conn, &chat, "t3");
    assert_eq!(stage.refusal(conn), None);
    let opened = stage
        .agent
        .iter()
        .filter(|effect| matches!(effect, Effect::Agent(AgentCommand::OpenChat(_))))
        .count();
    assert_eq!(opened, 2, "its agent is told of the turn that it has not heard of");
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.state(&chat)["activeTurn"]["message"]["text"], "and this");
}

#[test]
fn cus21_agents_list_their_customizations_before_a_session_exists() {
    let mut stage = Stage::finding();
    let conn = stage.client("c", &[ROOT]);
    let mut info = agent("tour");
    info.customizations = Some(vec![serde_json::from_value(directory("d", &[])).expect("a directory")]);
    stage.handle(Input::AgentsChanged(vec![AgentProfile::from(info)]));
    let told = stage.told(conn);
    assert_eq!(told[0]["agents"][0]["customizations"], json!([directory("d", &[])]));
    assert_eq!(
        stage.state(ROOT)["agents"][0]["customizations"],
        json!([directory("d", &[])])
    );
}

#[test]
fn cht19_a_moved_chats_session_has_the_old_customizations_but_no_clients() {
    let (mut stage, conn, _) = stage();
    let chat = "ahp-chat:/further";
    stage.create_chat(conn, new_chat(SESSION, chat));
    stage.dispatch(conn, SESSION, 1, publish("c", &[published("c", "p")]));
    stage.found(
        SESSION,
        json!([plugin("h", &[skill("s")]), of_client(plugin("p", &[]), "c")]),
    );
    stage.toggle(conn, SESSION, "s", json!([in_session(false)]));
    let answer = stage.move_chat(conn, chat, innkeeper_core::request::MoveDestination::NewSession);
    let moved = answer["result"]["session"].as_str().expect("a session").to_owned();
    let shown = stage.shown(&moved);
    assert_eq!(shown.as_array().map(Vec::len), Some(1));
    assert_eq!(shown[0]["children"][0]["enabled"], json!(false));
    assert!(stage.wanted(&moved).expect("followed").1.client_plugins.is_empty());
    stage.found(&moved, json!([plugin("h", &[skill("s")])]));
    assert_eq!(stage.shown(&moved), shown);
}

#[test]
fn without_a_service_starting_or_stopping_servers_is_rejected() {
    let (mut stage, conn, _) = stage();
    stage.found(SESSION, json!([server("m"), plugin("p", &[server("n")])]));
    for name in ["Start", "Stop", "Background"] {
        for (id, problem) in [
            ("m", "this host does not run MCP servers"),
            ("n", "this host does not run MCP servers"),
            ("p", "id: this session has no MCP server \"p\""),
            ("x", "id: this session has no MCP server \"x\""),
        ] {
            stage.inbox(conn);
            let request = json!({ "type": format!("session/mcpServer{name}Requested"), "id": id });
            stage.dispatch(conn, SESSION, 1, request);
            let refusal = stage.refusal(conn).expect("refused");
            assert!(refusal.starts_with(problem), "{refusal}");
        }
    }
}
