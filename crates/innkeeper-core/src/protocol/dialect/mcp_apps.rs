//! The fields of a session that only clients with MCP Apps see (MCP-14, E-58).
//!
//! The state of a session is shared, but `mcpApp` and `channel` of its MCP servers are for clients that declared
//! `capabilities.mcpApps`. The state, the journal and the replay window have them; all other clients are shown the
//! same without them. Removing them from a state and from an action gives the same as removing them from the state
//! after the action, so either kind of client has the state that its own snapshot would show.

use std::borrow::Cow;

use ahp_types::actions::StateAction;
use ahp_types::state::{ChildCustomization, Customization, McpServerCustomization};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::protocol::frame::{ActionFrame, action_name};

/// An action as clients without MCP Apps see it, if it differs.
pub(crate) fn without_apps(action: &StateAction) -> Option<StateAction> {
    match action {
        StateAction::SessionMcpServerStateChanged(changed) if changed.channel.is_some() => {
            let mut changed = changed.clone();
            changed.channel = None;
            Some(StateAction::SessionMcpServerStateChanged(changed))
        }
        StateAction::SessionCustomizationsChanged(changed) if changed.customizations.iter().any(has_apps) => {
            let mut changed = changed.clone();
            changed.customizations.iter_mut().for_each(strip_apps);
            Some(StateAction::SessionCustomizationsChanged(changed))
        }
        StateAction::SessionCustomizationUpdated(updated) if has_apps(&updated.customization) => {
            let mut updated = updated.clone();
            strip_apps(&mut updated.customization);
            Some(StateAction::SessionCustomizationUpdated(updated))
        }
        _ => None,
    }
}

/// An action of the replay window as clients without MCP Apps see it, if it differs.
pub(crate) fn replayed_without_apps(frame: &ActionFrame) -> Option<ActionFrame> {
    if !may_have_apps(&frame.bytes) {
        return None;
    }
    let mut message: Value = serde_json::from_slice(&frame.bytes).ok()?;
    let slot = message.pointer_mut("/params/action")?;
    let action: StateAction = serde_json::from_slice(&serde_json::to_vec(slot).ok()?).ok()?;
    *slot = serde_json::to_value(without_apps(&action)?).ok()?;
    let bytes = serde_json::to_vec(&message).ok()?;
    Some(ActionFrame::replayed(frame.seq, bytes))
}

/// Whether a message is an action about customizations.
fn may_have_apps(message: &[u8]) -> bool {
    action_name(message)
        .is_some_and(|name| name.starts_with("session/customization") || name.starts_with("session/mcpServer"))
}

fn shows_apps(server: &McpServerCustomization) -> bool {
    server.channel.is_some() || server.mcp_app.is_some()
}

fn children(entry: &Customization) -> &[ChildCustomization] {
    let children = match entry {
        Customization::Plugin(plugin) => plugin.children.as_deref(),
        Customization::Directory(directory) => directory.children.as_deref(),
        Customization::McpServer(_) | Customization::Unknown(_) => None,
    };
    children.unwrap_or_default()
}

fn has_apps(entry: &Customization) -> bool {
    match entry {
        Customization::McpServer(server) => shows_apps(server),
        entry => children(entry)
            .iter()
            .any(|child| matches!(child, ChildCustomization::McpServer(server) if shows_apps(server))),
    }
}

pub(crate) fn strip_apps(entry: &mut Customization) {
    let strip_server = |server: &mut McpServerCustomization| {
        server.channel = None;
        server.mcp_app = None;
    };
    let children = match entry {
        Customization::McpServer(server) => return strip_server(server),
        Customization::Plugin(plugin) => plugin.children.as_mut(),
        Customization::Directory(directory) => directory.children.as_mut(),
        Customization::Unknown(_) => None,
    };
    for child in children.into_iter().flatten() {
        if let ChildCustomization::McpServer(server) = child {
            strip_server(server);
        }
    }
}

/// The customizations of a session as clients without MCP Apps see them. Only an entry with something to remove is
/// copied, one at a time.
pub(crate) struct WithoutApps<'a>(pub(crate) &'a [Customization]);

impl Serialize for WithoutApps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|entry| {
            if !has_apps(entry) {
                return Cow::Borrowed(entry);
            }
            let mut entry = entry.clone();
            strip_apps(&mut entry);
            Cow::Owned(entry)
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::Seq;
    use crate::protocol::dialect::extension::ExtensionFields;
    use crate::protocol::frame::encode_action;

    fn server(id: &str) -> Value {
        json!({
            "type": "mcpServer", "id": id, "uri": "file:///mcp.json", "name": id,
            "state": { "kind": "ready" }, "channel": "mcp://servers/1",
            "mcpApp": { "capabilities": { "serverTools": {} } },
        })
    }

    fn action(value: Value) -> StateAction {
        serde_json::from_value(value).expect("an action")
    }

    #[test]
    fn e58_mcp14_channel_and_app_are_left_out_at_every_depth() {
        let plugin = json!({
            "type": "plugin", "id": "p", "uri": "file:///p", "name": "p",
            "children": [server("inner"), { "type": "skill", "id": "s", "uri": "file:///s", "name": "s" }],
        });
        let list = json!([server("outer"), plugin]);
        let changed = action(json!({ "type": "session/customizationsChanged", "customizations": list }));
        let told = serde_json::to_value(without_apps(&changed)).expect("JSON");
        assert!(
            !told.to_string().contains("mcpApp") && !told.to_string().contains("mcp://"),
            "{told}"
        );
        assert_eq!(told["customizations"][1]["children"][1]["id"], "s");
        let list: Vec<Customization> = serde_json::from_value(list).expect("customizations");
        let shown = serde_json::to_value(WithoutApps(&list)).expect("JSON");
        assert_eq!(shown, told["customizations"], "actions and snapshots agree");
    }

    #[test]
    fn e58_an_action_without_apps_is_the_same_for_all_clients() {
        let stopped = json!({ "type": "session/mcpServerStateChanged", "id": "s", "state": { "kind": "stopped" } });
        assert_eq!(without_apps(&action(stopped)), None);
    }

    #[test]
    fn e58_stored_forms_are_distinguished_by_type() {
        let ready = json!({
            "type": "session/mcpServerStateChanged", "id": "s", "state": { "kind": "ready" },
            "channel": "mcp://servers/1",
        });
        let channel = r#""ahp-session:/\"type\":\"x""#;
        let frame = encode_action(channel, &action(ready), ExtensionFields::Nothing, Seq(7), None);
        let told = replayed_without_apps(&frame).expect("it has a channel");
        let told: Value = serde_json::from_slice(&told.bytes).expect("JSON");
        assert_eq!(
            told["params"]["action"],
            json!({ "type": "session/mcpServerStateChanged", "id": "s", "state": { "kind": "ready" } })
        );
        assert_eq!(told["params"]["serverSeq"], 7);
        let text = json!({ "type": "chat/delta", "turnId": "t", "partId": "p", "content": "session/mcpServer mcp://" });
        let frame = encode_action(channel, &action(text), ExtensionFields::Nothing, Seq(8), None);
        assert!(replayed_without_apps(&frame).is_none());
    }
}
