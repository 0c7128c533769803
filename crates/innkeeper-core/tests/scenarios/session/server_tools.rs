//! The tools that a session's agent offers, as clients see them (`SessionState.serverTools`).

use innkeeper_core::agent::ToolInfo;
use innkeeper_core::{AgentCommand, ChannelId, CoreConfig, Effect, Input};
use serde_json::{Value, json};

use crate::harness::*;

fn stage() -> (Stage, innkeeper_core::ConnId) {
    let mut stage = Stage::with(CoreConfig {
        lists_tools: true,
        ..CoreConfig::default()
    });
    let conn = stage.client("c", &[]);
    stage.session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.inbox(conn);
    (stage, conn)
}

/// The agents that were asked for tools since the last call.
fn asked(stage: &mut Stage) -> Vec<(ChannelId, String)> {
    let mut asked = Vec::new();
    stage.agent.retain(|effect| match effect {
        Effect::Agent(AgentCommand::ListTools { session, provider }) => {
            asked.push((*session, provider.clone()));
            false
        }
        _ => true,
    });
    asked
}

fn tool(name: &str) -> ToolInfo {
    ToolInfo {
        name: name.to_owned(),
        title: None,
        description: Some("does it".to_owned()),
        input_schema: Some(json!({ "type": "object" })),
    }
}

fn names(stage: &Stage) -> Vec<String> {
    let state = stage.state(SESSION);
    let tools = state["serverTools"].as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    tools.iter().map(name).collect()
}

#[test]
fn the_agent_of_a_session_says_which_tools_it_offers_there() {
    let (mut stage, conn) = stage();
    let asked = asked(&mut stage);
    let [(session, provider)] = &asked[..] else {
        panic!("asked once, when the session is created: {asked:?}");
    };
    let listed = |provider: &str, names: &[&str]| Input::ToolsListed {
        session: *session,
        provider: provider.to_owned(),
        tools: names.iter().map(|name| tool(name)).collect(),
    };
    stage.handle(listed(provider, &["read_file", "inn__ring"]));
    assert_eq!(names(&stage), ["read_file", "inn__ring"]);
    let actions = stage.actions(conn);
    let [changed] = &actions[..] else {
        panic!("one action: {actions:?}");
    };
    assert_eq!(changed["action"]["type"], "session/serverToolsChanged");
    assert_eq!(changed["action"]["tools"], stage.state(SESSION)["serverTools"]);
    // The same once more is no change.
    stage.handle(listed(provider, &["read_file", "inn__ring"]));
    assert!(stage.actions(conn).is_empty());
    stage.handle(listed("another-agent", &["other"]));
    assert_eq!(names(&stage), ["read_file", "inn__ring"]);
    // The tools of a stopped server are removed.
    stage.handle(listed(provider, &["read_file"]));
    assert_eq!(names(&stage), ["read_file"]);
    stage.handle(listed(provider, &[]));
    assert_eq!(stage.actions(conn).len(), 2);
    assert!(names(&stage).is_empty());
}
