//! Checks the model and the custom agent that `innkeeper send` was given.

use ahp_types::state::{ChildCustomization, Customization, PluginCustomization, RootState, SessionState};
use serde_json::Value;

use crate::failure::{Failure, Kind};

use crate::connection::Connection;

const ROOT: &str = "ahp-root://";

/// Key in `_meta` of a plugin: the name of its customizations, where the plugin shows another one.
pub const PLUGIN_NAME: &str = "innkeeper.name";

/// Checks that the agent of a new session has a model, before the session is created.
pub(crate) async fn check_model(connection: &Connection, provider: Option<&str>, model: &str) -> Result<(), Failure> {
    let (root, _): (RootState, i64) = connection.subscribe_to_state(ROOT).await?;
    let agent = match provider {
        Some(provider) => root.agents.iter().find(|agent| agent.provider == provider),
        None => root.agents.first(),
    };
    // The host rejects unknown agents, and an agent that lists no models accepts any.
    let Some(agent) = agent.filter(|agent| !agent.models.is_empty()) else {
        return Ok(());
    };
    if agent.models.iter().any(|offered| offered.id == model) {
        return Ok(());
    }
    let known: Vec<&str> = agent.models.iter().map(|offered| offered.id.as_str()).collect();
    let message = format!("{} has no model {model:?}", agent.display_name);
    Err(Failure::new(Kind::Usage, message).hint(format!("it has: {}", known.join(", "))))
}

/// Returns the URI of a custom agent by its name, its `plugin:name` or its URI.
pub(crate) fn custom_agent(state: &SessionState, wanted: &str) -> Option<String> {
    let (plugin, name) = match wanted.split_once(':') {
        Some((plugin, name)) if !name.starts_with('/') => (Some(plugin), name),
        _ => (None, wanted),
    };
    let fits = |agent: &Listed<'_>| {
        agent.uri == wanted || (agent.name == name && plugin.is_none_or(|plugin| agent.plugin == Some(plugin)))
    };
    listed(state).find(fits).map(|agent| agent.uri.to_owned())
}

/// Returns a failure that lists the custom agents.
pub(crate) fn no_custom_agent(state: &SessionState, wanted: &str) -> Failure {
    let failure = Failure::new(
        Kind::Usage,
        format!("the session has no custom agent {wanted:?} that is switched on"),
    );
    let mut known: Vec<&str> = listed(state).map(|agent| agent.name).collect();
    known.sort_unstable();
    known.dedup();
    match known.is_empty() {
        true => failure.hint("put one into .claude/agents or .github/agents of the working directory"),
        false => failure.hint(format!("it has: {}", known.join(", "))),
    }
}

/// Returns the name of a plugin in commands; its display name may differ.
pub(crate) fn name_of(plugin: &PluginCustomization) -> &str {
    let name = plugin.meta.as_ref().and_then(|meta| meta.get(PLUGIN_NAME));
    name.and_then(Value::as_str).unwrap_or(&plugin.name)
}

struct Listed<'a> {
    plugin: Option<&'a str>,
    name: &'a str,
    uri: &'a str,
}

fn listed(state: &SessionState) -> impl Iterator<Item = Listed<'_>> {
    let containers = state.customizations.iter().flatten();
    containers.flat_map(|container| {
        let (plugin, children) = match container {
            Customization::Plugin(plugin) => (Some(name_of(plugin)), plugin.children.as_deref()),
            Customization::Directory(directory) => (None, directory.children.as_deref()),
            Customization::McpServer(_) | Customization::Unknown(_) => (None, None),
        };
        children
            .unwrap_or_default()
            .iter()
            .filter_map(move |child| match child {
                ChildCustomization::Agent(agent) if agent.enabled != Some(false) => Some(Listed {
                    plugin,
                    name: &agent.name,
                    uri: &agent.uri,
                }),
                _ => None,
            })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cus25_an_agent_of_a_plugin_is_called_by_the_plugins_name() {
        let agent = |uri: &str| json!({ "type": "agent", "id": uri, "uri": uri, "name": "reviewer" });
        let plugin = |id: &str, name: &str, meta: Value| {
            json!({
                "type": "plugin", "id": id, "uri": format!("file:///{id}"), "name": name,
                "children": [agent(&format!("file:///{id}/reviewer.md"))], "_meta": meta,
            })
        };
        let state: SessionState = serde_json::from_value(json!({
            "provider": "scripted", "title": "", "status": 0, "lifecycle": "ready", "activeClients": [], "chats": [],
            "customizations": [
                plugin("a", "tools", json!({ PLUGIN_NAME: "fine-tools" })),
                plugin("b", "tools", json!({})),
            ],
        }))
        .unwrap();
        let found = |wanted: &str| custom_agent(&state, wanted);
        assert_eq!(found("fine-tools:reviewer").as_deref(), Some("file:///a/reviewer.md"));
        assert_eq!(found("tools:reviewer").as_deref(), Some("file:///b/reviewer.md"));
        assert_eq!(found("reviewer").as_deref(), Some("file:///a/reviewer.md"));
        assert_eq!(found("other:reviewer"), None);
    }
}
