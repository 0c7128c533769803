//! Customizations of plugins, directories and clients in a session (CUS).

use ahp_types::state::Customization;
use innkeeper_core::customization::{CustomizationSources, Shadows};
use innkeeper_core::{ChannelId, ConnId, CoreConfig, CustomizationCommand, Effect, Input, Principal, Scope};
use serde_json::{Value, json};

use crate::harness::*;

mod decisions;
mod messages;
mod published;
mod publishing;
mod restarts;
mod shadows;

pub const WORKSPACE: &str = "file:///home/me/project";

impl Stage {
    /// A host with discovery of customizations.
    pub fn finding() -> Self {
        Self::able(CoreConfig {
            serves_customizations: true,
            ..CoreConfig::default()
        })
    }

    /// The latest request for discovery, about a session.
    pub fn wanted(&self, session: &str) -> Option<(ChannelId, CustomizationSources)> {
        self.agent.iter().rev().find_map(|effect| match effect {
            Effect::Customizations(CustomizationCommand::Follow { session: id, wanted })
                if *wanted.session_uri == *session =>
            {
                Some((*id, (**wanted).clone()))
            }
            _ => None,
        })
    }

    /// Reports what was found for a session.
    pub fn found(&mut self, session: &str, entries: Value) {
        let session = self.wanted(session).expect("the session is followed").0;
        let entries: Vec<Customization> = serde_json::from_value(entries).expect("customizations");
        self.handle(Input::CustomizationsFound {
            session,
            entries,
            shadows: Shadows::new(),
        });
    }

    /// The same, with what stands back behind something else.
    pub fn found_shadowed(&mut self, session: &str, entries: Value, shadows: Value) {
        let session = self.wanted(session).expect("the session is followed").0;
        let entries: Vec<Customization> = serde_json::from_value(entries).expect("customizations");
        let shadows: Shadows = serde_json::from_value(shadows).expect("ids");
        self.handle(Input::CustomizationsFound {
            session,
            entries,
            shadows,
        });
    }

    /// Reports what there is to show while a session's customizations are read.
    pub fn announced(&mut self, session: &str, entries: Value) {
        let session = self.wanted(session).expect("the session is followed").0;
        let entries: Vec<Customization> = serde_json::from_value(entries).expect("customizations");
        self.handle(Input::CustomizationsAnnounced { session, entries });
    }

    /// A session in the workspace that is ready and in which nothing was found yet.
    pub fn session_in_workspace(&mut self, conn: ConnId, channel: &str) -> String {
        let mut create = new_session(channel);
        create.working_directories = vec![WORKSPACE.to_owned()];
        let answer = self.request(conn, innkeeper_core::Command::CreateSession(Box::new(create)));
        assert_eq!(answer["result"], Value::Null, "{answer}");
        self.opened(Ok(()));
        innkeeper_core::uri::default_chat(channel)
    }

    /// The customizations of a session.
    pub fn shown(&self, session: &str) -> Value {
        self.state(session)["customizations"].clone()
    }

    /// Toggles a customization.
    pub fn toggle(&mut self, conn: ConnId, session: &str, id: &str, enablement: Value) {
        self.dispatch(conn, session, 7, toggle(id, enablement));
    }

    /// The actions that a connection was sent, without those about summaries.
    pub fn told(&mut self, conn: ConnId) -> Vec<Value> {
        let actions = self.actions(conn).into_iter();
        actions.map(|mut envelope| envelope["action"].take()).collect()
    }
}

pub fn toggle(id: &str, enablement: Value) -> Value {
    json!({ "type": "session/customizationToggled", "id": id, "enablement": enablement })
}

pub fn plugin(id: &str, children: &[Value]) -> Value {
    json!({ "type": "plugin", "id": id, "uri": format!("file:///plugins/{id}"), "name": id, "load": { "kind": "loaded" }, "children": children })
}

pub fn of_client(mut plugin: Value, client: &str) -> Value {
    plugin["clientId"] = json!(client);
    plugin["uri"] = json!(format!(
        "virtual://{client}/{}",
        plugin["name"].as_str().unwrap_or_default()
    ));
    plugin
}

pub fn directory(id: &str, children: &[Value]) -> Value {
    json!({ "type": "directory", "id": id, "uri": format!("file:///dirs/{id}"), "name": id, "enabled": true, "contents": "skill", "writable": true, "load": { "kind": "loaded" }, "children": children })
}

pub fn skill(id: &str) -> Value {
    json!({ "type": "skill", "id": id, "uri": format!("file:///skills/{id}/SKILL.md"), "name": id })
}

pub fn custom_agent(id: &str) -> Value {
    json!({ "type": "agent", "id": id, "uri": format!("file:///agents/{id}.md"), "name": id })
}

pub fn server(id: &str) -> Value {
    json!({ "type": "mcpServer", "id": id, "uri": "file:///plugins/.mcp.json", "name": id, "state": { "kind": "stopped" } })
}

pub fn in_session(enabled: bool) -> Value {
    json!({ "kind": "session", "enabled": enabled })
}

pub fn in_workspace(enabled: bool) -> Value {
    json!({ "kind": "workspace", "uri": WORKSPACE, "enabled": enabled })
}

pub fn globally(enabled: bool) -> Value {
    json!({ "kind": "global", "enabled": enabled })
}

/// A session in which nothing was found yet, and its subscriber.
pub fn stage() -> (Stage, ConnId, String) {
    let mut stage = Stage::finding();
    let conn = stage.client("c", &[]);
    let chat = stage.session_in_workspace(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.inbox(conn);
    (stage, conn, chat)
}

/// A client that may drive sessions and nothing else.
pub fn driver(stage: &mut Stage) -> ConnId {
    let conn = stage.connect_as(Principal::new("token:guest", Scope::Drive));
    let answer = stage.initialize(conn, "guest", &["1.0.0"], &[SESSION]);
    assert!(answer.get("error").is_none(), "{answer}");
    conn
}
