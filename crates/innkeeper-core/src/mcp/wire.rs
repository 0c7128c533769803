//! Converts between reports of servers and AHP's types.

use ahp_types::actions::{SessionMcpServerStateChangedAction, StateAction};
use ahp_types::common::JsonObject;
use ahp_types::state::{
    AhpMcpUiHostCapabilities, ChildCustomization, Customization, Icon, McpServerAuthRequiredState,
    McpServerCustomization, McpServerCustomizationApps, McpServerErrorState, McpServerReadyState,
    McpServerStartingState, McpServerState, McpServerStoppedState, SessionState,
};
use serde_json::{Map, Value, json};

use super::{AppCapabilities, ServerFacts, ServerIcon, ServerStatus};
use crate::agent::Failure;
use crate::chat::tool_call::wire::auth;
use crate::resources::content;
use crate::session::create::error_info;

/// Where `_meta` of a server says what its token is for, while there is one.
const RESOURCE: &str = "innkeeper.resource";
/// In `_meta` of a server: whether the token outlives the client that gave it (AUTH-07).
const KEPT: &str = "innkeeper.tokenKept";
/// And how many tools it has that models may call.
const TOOLS: &str = "innkeeper.tools";
/// In `_meta` of a server: its tools that cannot be called, because they need tasks of MCP.
const TASK_TOOLS: &str = "innkeeper.taskTools";

pub(super) fn starting(blocking: bool) -> McpServerState {
    McpServerState::Starting(McpServerStartingState {
        blocking: blocking.then_some(true),
    })
}

pub(super) fn stopped() -> McpServerState {
    McpServerState::Stopped(McpServerStoppedState {})
}

pub(super) fn failed(failure: Failure) -> McpServerState {
    let error = error_info(failure);
    McpServerState::Error(McpServerErrorState { error })
}

/// The published state of a server, except for whether turns wait for it, which the server does not decide.
pub(super) fn state(status: ServerStatus) -> McpServerState {
    match status {
        ServerStatus::Starting => starting(false),
        ServerStatus::Ready { .. } => McpServerState::Ready(McpServerReadyState {}),
        ServerStatus::AuthRequired(requirement) => {
            let auth = auth(*requirement);
            McpServerState::AuthRequired(Box::new(McpServerAuthRequiredState {
                reason: auth.reason,
                oauth_client: auth.oauth_client,
                resource: auth.resource,
                required_scopes: auth.required_scopes,
                description: auth.description,
            }))
        }
        ServerStatus::Failed(failure) => failed(failure),
        ServerStatus::Stopped => stopped(),
    }
}

/// Whether turns wait for a server (MCP-03).
pub(super) fn is_blocking(server: &McpServerCustomization) -> bool {
    matches!(&server.state, McpServerState::Starting(starting) if starting.blocking == Some(true))
}

/// The same as AHP publishes it (MCP-15).
pub(super) fn apps(capabilities: AppCapabilities) -> McpServerCustomizationApps {
    let list = |changes: bool| {
        if changes {
            json!({ "listChanged": true })
        } else {
            json!({})
        }
    };
    let sampling = |tools: bool| if tools { json!({ "tools": {} }) } else { json!({}) };
    McpServerCustomizationApps {
        capabilities: AhpMcpUiHostCapabilities {
            server_tools: capabilities.tools.map(list),
            server_resources: capabilities.resources.map(list),
            logging: capabilities.logging.then(Map::new),
            sampling: capabilities.sampling.map(sampling),
        },
    }
}

/// Whether the published capability promises notifications about changes of a list (MCP-17).
pub(super) fn notifies_changes(capability: &Option<Value>) -> bool {
    let told = capability.as_ref().and_then(|capability| capability.get("listChanged"));
    told.and_then(Value::as_bool).unwrap_or_default()
}

pub(super) fn changed(id: &str, state: McpServerState, channel: Option<String>) -> StateAction {
    StateAction::SessionMcpServerStateChanged(Box::new(SessionMcpServerStateChangedAction {
        id: id.to_owned(),
        state,
        channel,
    }))
}

/// The MCP servers of a session, in order, each with the entry it is in.
pub(super) fn servers(state: &SessionState) -> impl Iterator<Item = (&Customization, &McpServerCustomization)> {
    let entries = state.customizations.iter().flatten();
    entries.flat_map(|entry| {
        let (own, children) = match entry {
            Customization::McpServer(server) => (Some(&**server), None),
            Customization::Plugin(plugin) => (None, plugin.children.as_deref()),
            Customization::Directory(directory) => (None, directory.children.as_deref()),
            Customization::Unknown(_) => (None, None),
        };
        let children = children.unwrap_or_default().iter().filter_map(|child| match child {
            ChildCustomization::McpServer(server) => Some(&**server),
            _ => None,
        });
        own.into_iter().chain(children).map(move |server| (entry, server))
    })
}

/// One of them.
pub(super) fn find<'a>(state: &'a SessionState, id: &str) -> Option<&'a McpServerCustomization> {
    servers(state).map(|(_, server)| server).find(|server| server.id == id)
}

/// Customizations none of whose servers runs.
pub(crate) fn at_rest(mut list: Vec<Customization>) -> Vec<Customization> {
    for entry in &mut list {
        each_server(entry, |server| {
            server.state = stopped();
            server.channel = None;
            server.mcp_app = None;
        });
    }
    list
}

fn each_server(entry: &mut Customization, mut change: impl FnMut(&mut McpServerCustomization)) {
    let children = match entry {
        Customization::McpServer(server) => return change(server),
        Customization::Plugin(plugin) => plugin.children.as_mut(),
        Customization::Directory(directory) => directory.children.as_mut(),
        Customization::Unknown(_) => None,
    };
    for child in children.into_iter().flatten() {
        if let ChildCustomization::McpServer(server) = child {
            change(server);
        }
    }
}

/// The entry that a server is in, after a change of the server.
pub(super) fn with(
    state: &SessionState,
    id: &str,
    mut change: impl FnMut(&mut McpServerCustomization),
) -> Option<Customization> {
    let mut entry = servers(state).find(|(_, server)| server.id == id)?.0.clone();
    each_server(&mut entry, |server| {
        if server.id == id {
            change(server);
        }
    });
    Some(entry)
}

/// The `_meta` of a server with these facts.
pub(super) fn with_facts(meta: Option<&JsonObject>, facts: &ServerFacts, keeps_tokens: bool) -> Option<JsonObject> {
    let mut meta = meta.cloned().unwrap_or_default();
    for (key, value) in [
        (RESOURCE, facts.resource.as_ref().map(|resource| json!(resource))),
        (KEPT, facts.resource.as_ref().map(|_| json!(keeps_tokens))),
        (TOOLS, Some(json!(facts.tools))),
        (
            TASK_TOOLS,
            (!facts.task_tools.is_empty()).then(|| json!(facts.task_tools)),
        ),
    ] {
        match value {
            Some(value) => meta.insert(key.to_owned(), value),
            None => meta.remove(key),
        };
    }
    Some(meta)
}

/// The resource that a server says there is a token of for it.
pub(super) fn shown_token_resource(server: &McpServerCustomization) -> Option<&str> {
    let said = server.meta.as_ref().and_then(|meta| meta.get(RESOURCE));
    said.and_then(Value::as_str)
}

/// Removes the mark of the token from `_meta`.
pub(super) fn hide_token(server: &mut McpServerCustomization) {
    for key in [RESOURCE, KEPT] {
        server.meta.as_mut().map(|meta| meta.remove(key));
    }
}

/// Its icons in the published form, if it has any.
pub(super) fn icons(icons: &[ServerIcon]) -> Option<Vec<Icon>> {
    let shown = icons.iter().map(|icon| {
        let (src, content_type) = content::icon(&icon.src, icon.content_type.as_deref());
        Icon {
            src,
            content_type,
            sizes: (!icon.sizes.is_empty()).then(|| icon.sizes.clone()),
            theme: icon.theme.clone(),
        }
    });
    (!icons.is_empty()).then(|| shown.collect())
}

/// Lets a server that was read again show the facts that are known of it.
pub(crate) fn take_over_facts(server: &mut McpServerCustomization, shown: &McpServerCustomization) {
    if server.icons.is_none() {
        server.icons.clone_from(&shown.icons);
    }
    let shown = shown.meta.iter().flatten();
    let facts = shown.filter(|(key, _)| [RESOURCE, KEPT, TOOLS, TASK_TOOLS].contains(&key.as_str()));
    for (key, value) in facts {
        let meta = server.meta.get_or_insert_default();
        meta.insert(key.clone(), value.clone());
    }
}
