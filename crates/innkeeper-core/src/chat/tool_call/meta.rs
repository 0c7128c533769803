//! `_meta` of tool calls: fields that clients render beside the published ones.
//!
//! The published reducers replace the `_meta` of a call by that of each action that carries one. So every action that
//! the host sends with `_meta` has all of it, old and new.

use ahp_types::state::ToolResultSubagentContent;
use serde_json::{Map, Value, json};

use crate::agent::{ToolKind, ToolStart};
use crate::chat::approval::APPROVAL;
use crate::core::json_bytes;
use crate::ids::ClientId;

/// Maximum bytes of a server's data about the view of a call, and of each field of an agent's own.
const MAX_UI_BYTES: usize = 16 << 10;

/// Presentation of the call in clients.
const KIND: &str = "toolKind";
/// The language that the input of a terminal call is highlighted in.
const LANGUAGE: &str = "language";
/// The view of an MCP App.
const UI: &str = "ui";
/// Prefixes of the keys that only the host writes: a client that wrote them could pass its call off as another.
const RESERVED: [&str; 8] = [
    KIND,
    LANGUAGE,
    UI,
    "subagent",
    "mcpServerName",
    "mcpToolName",
    "autoApprove",
    "innkeeper.",
];
/// Key for the client that decided about a call, so that later clients see it too.
const DECIDED_BY: &str = "innkeeper.decidedBy";

pub(crate) type Meta = Map<String, Value>;

/// The `_meta` that a call begins with.
pub(super) fn of_start(start: &ToolStart) -> Option<Meta> {
    let mut meta = Meta::new();
    if let Some(kind) = start.kind {
        let name = match kind {
            ToolKind::Terminal => "terminal",
            ToolKind::Read => "read",
            ToolKind::Search => "search",
        };
        meta.insert(KIND.to_owned(), name.into());
        if kind == ToolKind::Terminal {
            meta.insert(LANGUAGE.to_owned(), "shellscript".into());
        }
    }
    if let Some(mcp) = &start.mcp {
        meta.insert("mcpServerName".to_owned(), mcp.server.as_str().into());
        meta.insert("mcpToolName".to_owned(), mcp.tool.as_str().into());
    }
    if let Some(ui) = start.ui.as_ref().filter(|ui| json_bytes(ui) <= MAX_UI_BYTES) {
        meta.insert(UI.to_owned(), Value::Object(ui.clone()));
    }
    meta.extend(of_agent(&start.meta));
    (!meta.is_empty()).then_some(meta)
}

/// Returns the fields of an agent's own, unless they are too long or named like a field of others.
pub(crate) fn of_agent(fields: &Meta) -> impl Iterator<Item = (String, Value)> + '_ {
    let is_own = |name: &String| name.starts_with("innkeeper.") && ![DECIDED_BY, APPROVAL].contains(&name.as_str());
    let fields = fields
        .iter()
        .filter(move |(name, value)| is_own(name) && json_bytes(value) <= MAX_UI_BYTES);
    fields.map(|(name, value)| (name.clone(), value.clone()))
}

/// The `_meta` of a call that has started a subagent, whose chat exists.
pub(crate) fn with_subagent(known: Option<&Meta>, subagent: &ToolResultSubagentContent) -> Meta {
    let mut meta = known.cloned().unwrap_or_default();
    meta.insert(KIND.to_owned(), "subagent".into());
    meta.insert("subagentChatUri".to_owned(), subagent.resource.as_str().into());
    let name = subagent.agent_name.as_deref().unwrap_or(&subagent.title);
    meta.insert("subagentAgentName".to_owned(), name.into());
    let description = subagent.description.as_deref().unwrap_or(&subagent.title);
    meta.insert("subagentDescription".to_owned(), description.into());
    meta
}

/// The `_meta` of an action that a client sent with one: that of the call, and the fields that the client may add.
/// `None` leaves the call unchanged.
pub(crate) fn with_clients(known: Option<&Meta>, sent: Option<Meta>) -> Option<Meta> {
    let mut sent = sent?;
    sent.retain(|key, _| !RESERVED.iter().any(|reserved| key.starts_with(reserved)));
    sent.extend(known.cloned().unwrap_or_default());
    (!sent.is_empty()).then_some(sent)
}

/// The `_meta` of a call that a client decided about.
pub(crate) fn decided(known: Option<&Meta>, sent: Option<Meta>, by: &ClientId) -> Meta {
    let mut meta = with_clients(known, sent).or_else(|| known.cloned()).unwrap_or_default();
    meta.insert(DECIDED_BY.to_owned(), json!({ "clientId": by.as_str() }));
    meta
}

/// Whether a client decided about the call.
pub(crate) fn is_decided(meta: &Meta) -> bool {
    meta.contains_key(DECIDED_BY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Option<Meta> {
        value.as_object().cloned()
    }

    #[test]
    fn tool19_a_client_adds_to_meta_and_cannot_override_the_hosts_keys() {
        let known = object(json!({ "toolKind": "terminal", "language": "shellscript" }));
        let sent = object(json!({ "toolKind": "read", "ui": {}, "innkeeper.x": 1, "mine": true }));
        let merged = with_clients(known.as_ref(), sent);
        let expected = json!({ "mine": true, "toolKind": "terminal", "language": "shellscript" });
        assert_eq!(merged, object(expected));
        assert_eq!(with_clients(known.as_ref(), None), None);
        assert_eq!(with_clients(None, object(json!({ "ui": {} }))), None);
    }

    #[test]
    fn a_decision_and_a_subagent_keep_existing_meta() {
        let known = object(json!({ "toolKind": "read", "ui": { "resourceUri": "ui://x" } }));
        let decided = decided(known.as_ref(), None, &ClientId::new("c"));
        assert_eq!(decided["toolKind"], "read");
        assert!(is_decided(&decided));
        let subagent = ToolResultSubagentContent {
            resource: "ahp-chat:/w".to_owned(),
            title: "Look".to_owned(),
            agent_name: None,
            description: None,
        };
        let meta = with_subagent(Some(&decided), &subagent);
        assert_eq!(meta["toolKind"], "subagent");
        assert_eq!(meta["subagentChatUri"], "ahp-chat:/w");
        assert_eq!(meta["ui"]["resourceUri"], "ui://x");
        assert!(is_decided(&meta));
    }
}
