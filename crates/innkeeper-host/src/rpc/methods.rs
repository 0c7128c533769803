//! Every method and notification of AHP 1.0, of MCP on its side channel and of this host alone, and where
//! each goes.
//!
//! A method without a handler answers `-32601`: an empty success would make a client wait for
//! something that never comes.

use innkeeper_core::decode::{DecodeError, decode_action, decode_choice, plain};
use innkeeper_core::{Command, Dispatch, RpcError, Scope, scope_of, uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

mod approvals;
mod changesets;
mod chats;
mod connection;
mod mcp;
mod refresh;
mod resources;
mod sessions;
mod terminals;

use approvals::{allow_approval, list_approvals, revoke_approval};
use changesets::invoke_changeset_operation;
use chats::{completions, create_chat, create_older_chat, dispose_chat, fetch_turns, fetch_turns_before, move_chat};
use connection::{authenticate, initialize, ping, reconnect, subscribe};
pub use mcp::mcp_request;
use resources::{
    allow_resource, import_content, list_resource_grants, resource_copy, resource_delete, resource_list,
    resource_mkdir, resource_move, resource_read, resource_request, resource_resolve, resource_write, revoke_resource,
    watch_resource,
};
use sessions::{
    create_older_session, create_session, dispose_session, import_session, list_deleted_sessions, list_sessions,
    resolve_session_config, restore_session, session_config_completions,
};
use terminals::{create_terminal, dispose_terminal};

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// The name on the wire.
    pub name: &'static str,
    /// The kind of channel that `params.channel` names.
    pub channel: Target,
    /// The part of the host that handles it.
    pub route: Route,
}

impl Method {
    /// Returns the scope that a connection needs for this method.
    pub fn scope(&self) -> Scope {
        scope_of(self.name)
    }
}

/// The kind of channel that a method's `channel` names (TRN-05, TRN-06).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The connection itself: the literal root channel.
    Root,
    /// The thing the method is about.
    Named,
}

/// The part of the host that handles a message.
#[derive(Debug, Clone, Copy)]
pub enum Route {
    /// A request for the core.
    Core(fn(&RawValue) -> Result<Command, RpcError>),
    /// A notification for the core that changes a channel.
    Dispatch,
    /// A notification for the core that ends a subscription.
    Unsubscribe,
    /// A request of MCP, for one of a session's servers.
    Mcp,
    /// A notification of MCP, likewise.
    McpNotification,
    /// Not supported yet: `-32601`.
    Unsupported,
}

const fn row(name: &'static str, channel: Target, route: Route) -> Method {
    Method { name, channel, route }
}

/// The table. The scope of each method is in [`METHOD_SCOPES`](innkeeper_core::METHOD_SCOPES), which the core enforces.
pub const METHODS: &[Method] = {
    use Route::{Core, Dispatch, Mcp, McpNotification, Unsubscribe, Unsupported};
    use Target::{Named, Root};
    &[
        row("initialize", Root, Core(initialize)),
        row("reconnect", Root, Core(reconnect)),
        row("ping", Root, Core(ping)),
        row("subscribe", Named, Core(subscribe)),
        row("unsubscribe", Named, Unsubscribe),
        row("dispatchAction", Named, Dispatch),
        row("listSessions", Root, Core(list_sessions)),
        row("createSession", Named, Core(create_session)),
        row("disposeSession", Named, Core(dispose_session)),
        row("createChat", Named, Core(create_chat)),
        row("disposeChat", Named, Core(dispose_chat)),
        row("moveChat", Named, Core(move_chat)),
        row("fetchTurns", Named, Core(fetch_turns)),
        row("completions", Named, Core(completions)),
        row("resolveSessionConfig", Root, Core(resolve_session_config)),
        row("sessionConfigCompletions", Root, Core(session_config_completions)),
        row("authenticate", Root, Core(authenticate)),
        row("createTerminal", Named, Core(create_terminal)),
        row("disposeTerminal", Named, Core(dispose_terminal)),
        row("invokeChangesetOperation", Named, Core(invoke_changeset_operation)),
        row("listAutomationTriggerDefinitions", Root, Unsupported),
        row("runAutomation", Named, Unsupported),
        row("fetchAutomationRuns", Named, Unsupported),
        row("resourceRead", Root, Core(resource_read)),
        row("resourceWrite", Root, Core(resource_write)),
        row("resourceList", Root, Core(resource_list)),
        row("resourceCopy", Root, Core(resource_copy)),
        row("resourceDelete", Root, Core(resource_delete)),
        row("resourceMove", Root, Core(resource_move)),
        row("resourceResolve", Root, Core(resource_resolve)),
        row("resourceMkdir", Root, Core(resource_mkdir)),
        row("resourceRequest", Root, Core(resource_request)),
        row("createResourceWatch", Root, Core(watch_resource)),
        // Of MCP, for servers whose apps a client shows.
        row("tools/list", Named, Mcp),
        row("tools/call", Named, Mcp),
        row("resources/list", Named, Mcp),
        row("resources/templates/list", Named, Mcp),
        row("resources/read", Named, Mcp),
        row("logging/setLevel", Named, Mcp),
        row("sampling/createMessage", Named, Mcp),
        row("notifications/message", Named, McpNotification),
        // This host's own.
        row("innkeeper/importSession", Root, Core(import_session)),
        row("innkeeper/listDeletedSessions", Root, Core(list_deleted_sessions)),
        row("innkeeper/restoreSession", Root, Core(restore_session)),
        row("innkeeper/importContent", Root, Core(import_content)),
        row("innkeeper/listResourceGrants", Root, Core(list_resource_grants)),
        row("innkeeper/allowResource", Root, Core(allow_resource)),
        row("innkeeper/revokeResource", Root, Core(revoke_resource)),
        row("innkeeper/listApprovals", Root, Core(list_approvals)),
        row("innkeeper/allowApproval", Root, Core(allow_approval)),
        row("innkeeper/revokeApproval", Root, Core(revoke_approval)),
    ]
};

/// The methods that only clients of older versions have, after the translation of their messages.
pub const OLDER_METHODS: &[Method] = &[
    row(
        "innkeeper/fetchTurnsBefore",
        Target::Named,
        Route::Core(fetch_turns_before),
    ),
    row("createSession", Target::Named, Route::Core(create_older_session)),
    row("createChat", Target::Named, Route::Core(create_older_chat)),
];

/// Finds a method's row.
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// Finds the row of a method that a client of an older version calls.
pub fn find_older(name: &str) -> Option<&'static Method> {
    OLDER_METHODS
        .iter()
        .find(|method| method.name == name)
        .or_else(|| find(name))
}

/// Checks what a method's `channel` names before its parameters are read.
pub fn check_channel(method: &Method, params: &RawValue) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        channel: Option<String>,
    }
    let head: Head = read(params)?;
    match (method.channel, head.channel) {
        // TRN-07: the reference client leaves it out at times; naming another one is an error.
        (Target::Root, None) => Ok(()),
        (Target::Root, Some(channel)) if channel == uri::ROOT => Ok(()),
        (Target::Root, Some(_)) => Err(RpcError::invalid_params(
            "channel",
            format!("{} is addressed to {}", method.name, uri::ROOT),
        )),
        (Target::Named, Some(channel)) => {
            uri::check(&channel).map_err(|problem| RpcError::invalid_params("channel", problem))
        }
        (Target::Named, None) => Err(RpcError::invalid_params("channel", "is missing")),
    }
}

/// Reads the parameters of `dispatchAction`. The action itself may be broken: that is for the
/// core to refuse, because a notification gets no error (DSP-01, DSP-08).
pub fn dispatch(params: &RawValue) -> Result<Dispatch, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        channel: String,
        client_seq: i64,
        action: Box<RawValue>,
    }
    let Params {
        channel,
        client_seq,
        action: raw,
    } = read(params)?;
    let action = decode_action(&raw);
    Ok(Dispatch {
        channel,
        client_seq,
        raw,
        action,
        choice: None,
    })
}

/// Reads the parameters of `dispatchAction` from a client of an older version, which chooses the model and the agent of
/// a session with actions of their own.
pub fn older_dispatch(params: &RawValue) -> Result<Dispatch, RpcError> {
    let mut dispatch = dispatch(params)?;
    match decode_choice(&dispatch.raw) {
        Some(Ok(choice)) => dispatch.choice = Some(choice),
        Some(Err(problem)) => dispatch.action = Err(problem),
        None => {}
    }
    Ok(dispatch)
}

/// The rejection of an action that could not be translated.
pub fn rejected_dispatch(channel: String, client_seq: i64, action: &Value, reason: String) -> Option<Dispatch> {
    Some(Dispatch {
        channel,
        client_seq,
        raw: to_raw_value(action).ok()?,
        action: Err(DecodeError::Unusable(reason)),
        choice: None,
    })
}

/// Reads the parameters of `unsubscribe`.
pub fn unsubscribe(params: &RawValue) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
    }
    read::<Params>(params).map(|params| params.channel)
}

/// Parses parameters, naming the field that is wrong.
fn read<'a, T: Deserialize<'a>>(params: &'a RawValue) -> Result<T, RpcError> {
    if !params.get().starts_with('{') {
        return Err(RpcError::new(
            innkeeper_core::error::code::INVALID_PARAMS,
            "params: must be an object",
        ));
    }
    let mut json = serde_json::Deserializer::from_str(params.get());
    serde_path_to_error::deserialize(&mut json).map_err(|error| at("", &error))
}

fn at(prefix: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> RpcError {
    let path = error.path().to_string();
    let mut field = String::from("params");
    for piece in [prefix, &path] {
        if !piece.is_empty() && piece != "." {
            field.push('.');
            field.push_str(piece);
        }
    }
    RpcError::new(
        innkeeper_core::error::code::INVALID_PARAMS,
        format!("{field}: {}", plain(error.inner())),
    )
}

/// Reads a part of the parameters that was kept as JSON.
fn read_part<T: DeserializeOwned>(path: &str, value: Value) -> Result<T, RpcError> {
    // From text, like `read`: deserializing from a value would compile all these types once more.
    let text = value.to_string();
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(&text)).map_err(|error| at(path, &error))
}

/// Takes apart a tagged union. The published types read a broken variant as an unknown one (E-42),
/// so its tag is looked at first: what is unknown, what is missing and what is merely wrong are
/// three different mistakes.
fn tag<'a>(path: &str, field: &str, value: &'a Value, known: &[&'static str]) -> Result<&'a str, RpcError> {
    let Some(fields) = value.as_object() else {
        return Err(RpcError::invalid_params(path, "must be an object"));
    };
    let path = format!("{path}.{field}");
    let choices = known.join(", ");
    match fields.get(field) {
        None => Err(RpcError::invalid_params(
            &path,
            format!("is missing; it is one of {choices}"),
        )),
        Some(Value::String(tag)) if known.contains(&tag.as_str()) => Ok(tag),
        Some(Value::String(tag)) => {
            let shown: String = tag.chars().take(128).collect();
            let problem = format!("{shown:?} is unknown to this host; it is one of {choices}");
            Err(RpcError::invalid_params(&path, problem))
        }
        Some(_) => Err(RpcError::invalid_params(&path, format!("must be one of {choices}"))),
    }
}

/// Checks a list of directories.
fn check_directories(field: &str, uris: &[String]) -> Result<(), RpcError> {
    for (index, one) in uris.iter().enumerate() {
        uri::check_directory(one).map_err(|problem| RpcError::invalid_params(&format!("{field}[{index}]"), problem))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
