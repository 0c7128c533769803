//! Every method and notification of AHP 1.0, and where each goes.
//!
//! A method without a handler answers `-32601`: an empty success would make a client wait for
//! something that never comes.

use innkeeper_core::decode::{add_missing_customization_types, decode_action, plain};
use innkeeper_core::request::{CreateSession, Initialize, ListSessions, Reconnect, Subscribe};
use innkeeper_core::{ClientId, Command, Dispatch, RpcError, Scope, uri};
use serde::Deserialize;
use serde_json::value::RawValue;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// The name on the wire.
    pub name: &'static str,
    /// What `params.channel` names.
    pub channel: Target,
    /// The scope it needs.
    pub scope: Scope,
    /// Who handles it.
    pub route: Route,
}

/// What a method's `channel` names (TRN-05, TRN-06).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The connection itself: the literal root channel.
    Root,
    /// The thing the method is about.
    Named,
}

/// Who handles a message.
#[derive(Debug, Clone, Copy)]
pub enum Route {
    /// A request for the core.
    Core(fn(&RawValue) -> Result<Command, RpcError>),
    /// A notification for the core that changes a channel.
    Dispatch,
    /// A notification for the core that ends a subscription.
    Unsubscribe,
    /// Nobody yet: `-32601`.
    Unsupported,
}

const fn row(name: &'static str, channel: Target, scope: Scope, route: Route) -> Method {
    Method {
        name,
        channel,
        scope,
        route,
    }
}

/// The table. Scopes of core requests are enforced by the core; they stand here so that one look
/// tells all.
pub const METHODS: &[Method] = {
    use Route::{Core, Dispatch, Unsubscribe, Unsupported};
    use Scope::{Admin, Drive, View};
    use Target::{Named, Root};
    &[
        row("initialize", Root, View, Core(initialize)),
        row("reconnect", Root, View, Core(reconnect)),
        row("ping", Root, View, Core(ping)),
        row("subscribe", Named, View, Core(subscribe)),
        row("unsubscribe", Named, View, Unsubscribe),
        row("dispatchAction", Named, Drive, Dispatch),
        row("listSessions", Root, View, Core(list_sessions)),
        row("createSession", Named, Drive, Core(create_session)),
        row("disposeSession", Named, Drive, Core(dispose_session)),
        row("createChat", Named, Drive, Unsupported),
        row("disposeChat", Named, Drive, Unsupported),
        row("moveChat", Named, Drive, Unsupported),
        row("fetchTurns", Named, View, Unsupported),
        row("completions", Named, View, Unsupported),
        row("resolveSessionConfig", Root, View, Unsupported),
        row("sessionConfigCompletions", Root, View, Unsupported),
        row("authenticate", Root, Drive, Unsupported),
        row("createTerminal", Named, Drive, Unsupported),
        row("disposeTerminal", Named, Drive, Unsupported),
        row("invokeChangesetOperation", Named, Drive, Unsupported),
        row("listAutomationTriggerDefinitions", Root, View, Unsupported),
        row("runAutomation", Named, Admin, Unsupported),
        row("fetchAutomationRuns", Named, View, Unsupported),
        row("resourceRead", Root, View, Unsupported),
        row("resourceWrite", Root, Drive, Unsupported),
        row("resourceList", Root, View, Unsupported),
        row("resourceCopy", Root, Drive, Unsupported),
        row("resourceDelete", Root, Drive, Unsupported),
        row("resourceMove", Root, Drive, Unsupported),
        row("resourceResolve", Root, View, Unsupported),
        row("resourceMkdir", Root, Drive, Unsupported),
        row("resourceRequest", Root, View, Unsupported),
        row("createResourceWatch", Root, View, Unsupported),
    ]
};

/// Finds a method's row.
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
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

fn initialize(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_versions: Vec<String>,
        client_id: String,
        initial_subscriptions: Option<Vec<String>>,
        client_info: Option<ClientInfo>,
        locale: Option<String>,
        capabilities: Option<Capabilities>,
    }
    #[derive(Deserialize)]
    struct ClientInfo {
        name: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Capabilities {
        mcp_apps: Option<serde_json::Map<String, serde_json::Value>>,
    }
    let params: Params = read(params)?;
    let initial_subscriptions = params.initial_subscriptions.unwrap_or_default();
    check_subscription_count("initialSubscriptions", initial_subscriptions.len())?;
    if params.protocol_versions.is_empty() {
        return Err(RpcError::invalid_params(
            "protocolVersions",
            "is empty; offer at least one version, as in [\"1.0.0\"]",
        ));
    }
    Ok(Command::Initialize(Box::new(Initialize {
        protocol_versions: params.protocol_versions,
        client_id: client_id(&params.client_id)?,
        initial_subscriptions,
        client_name: params.client_info.map(|info| info.name),
        mcp_apps: params
            .capabilities
            .is_some_and(|capabilities| capabilities.mcp_apps.is_some()),
        locale: params.locale,
    })))
}

fn reconnect(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        client_id: String,
        last_seen_server_seq: i64,
        subscriptions: Vec<String>,
    }
    let params: Params = read(params)?;
    check_subscription_count("subscriptions", params.subscriptions.len())?;
    let last_seen = u64::try_from(params.last_seen_server_seq)
        .map_err(|_| RpcError::invalid_params("lastSeenServerSeq", "must not be negative"))?;
    Ok(Command::Reconnect(Box::new(Reconnect {
        client_id: client_id(&params.client_id)?,
        last_seen,
        subscriptions: params.subscriptions,
    })))
}

fn ping(_: &RawValue) -> Result<Command, RpcError> {
    Ok(Command::Ping)
}

fn subscribe(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
        delivery: Option<Delivery>,
        view: Option<View>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Delivery {
        max_latency_ms: Option<i64>,
    }
    #[derive(Deserialize)]
    struct View {
        turns: Option<i64>,
    }
    let params: Params = read(params)?;
    let max_latency_ms = match params.delivery.and_then(|delivery| delivery.max_latency_ms) {
        Some(ms) if ms < 0 => {
            return Err(RpcError::invalid_params(
                "delivery.maxLatencyMs",
                "must not be negative",
            ));
        }
        Some(ms) => Some(u32::try_from(ms).unwrap_or(MAX_LATENCY_MS).min(MAX_LATENCY_MS)),
        None => None,
    };
    if params.view.and_then(|view| view.turns).is_some_and(|turns| turns < 0) {
        return Err(RpcError::invalid_params("view.turns", "must not be negative"));
    }
    Ok(Command::Subscribe(Box::new(Subscribe {
        channel: params.channel,
        max_latency_ms,
    })))
}

fn list_sessions(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        limit: Option<i64>,
        cursor: Option<String>,
    }
    let params: Params = read(params)?;
    let limit = match params.limit {
        Some(limit) if limit < 1 => return Err(RpcError::invalid_params("limit", "must be at least 1")),
        Some(limit) => Some(u32::try_from(limit).unwrap_or(u32::MAX)),
        None => None,
    };
    Ok(Command::ListSessions(Box::new(ListSessions {
        limit,
        cursor: params.cursor,
    })))
}

fn create_session(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        channel: String,
        provider: Option<String>,
        working_directories: Option<Vec<String>>,
        active_client: Option<serde_json::Value>,
    }
    let params: Params = read(params)?;
    let active_client = match params.active_client {
        None => None,
        Some(mut value) => {
            add_missing_customization_types(&mut value);
            let client = serde_path_to_error::deserialize(value).map_err(|error| at("activeClient", &error))?;
            Some(client)
        }
    };
    Ok(Command::CreateSession(Box::new(CreateSession {
        channel: params.channel,
        provider: params.provider,
        working_directories: params.working_directories.unwrap_or_default(),
        active_client,
    })))
}

fn dispose_session(params: &RawValue) -> Result<Command, RpcError> {
    unsubscribe(params).map(|channel| Command::DisposeSession { channel })
}

/// Longest intentional delay a subscription can ask for.
const MAX_LATENCY_MS: u32 = 60_000;
/// Most channels named in one handshake.
const MAX_SUBSCRIPTIONS: usize = 1024;

fn check_subscription_count(field: &str, count: usize) -> Result<(), RpcError> {
    if count > MAX_SUBSCRIPTIONS {
        return Err(RpcError::invalid_params(
            field,
            format!("has {count} entries; a connection has at most {MAX_SUBSCRIPTIONS} subscriptions"),
        ));
    }
    Ok(())
}

fn client_id(id: &str) -> Result<ClientId, RpcError> {
    uri::check_client_id(id).map_err(|problem| RpcError::invalid_params("clientId", problem))?;
    Ok(ClientId::new(id))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn params(json: &str) -> Box<RawValue> {
        serde_json::from_str(json).expect("test JSON")
    }

    fn problem(method: &str, json: &str) -> String {
        let params = params(json);
        let method = find(method).expect("a method");
        let Route::Core(parse) = method.route else {
            panic!("not a core method")
        };
        match check_channel(method, &params).and_then(|()| parse(&params)) {
            Ok(command) => format!("{command:?}"),
            Err(error) => format!("{} {}", error.code, error.message),
        }
    }

    #[test]
    fn every_method_stands_in_the_table_once() {
        let mut names: Vec<_> = METHODS.iter().map(|method| method.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METHODS.len());
        assert_eq!(METHODS.len(), 33, "31 commands and 2 notifications of AHP 1.0");
    }

    #[test]
    fn bad_parameters_are_named() {
        let cases = [
            (
                "initialize",
                r#"{"clientId":"c"}"#,
                "-32602 params: missing field `protocolVersions`",
            ),
            (
                "initialize",
                r#"{"protocolVersions":[],"clientId":"c"}"#,
                "-32602 params.protocolVersions: is empty; offer at least one version, as in [\"1.0.0\"]",
            ),
            (
                "initialize",
                r#"{"protocolVersions":["1.0.0",2],"clientId":"c"}"#,
                "-32602 params.protocolVersions[1]: invalid type: integer `2`, expected a string",
            ),
            (
                "initialize",
                r#"{"protocolVersions":["1.0.0"],"clientId":""}"#,
                "-32602 params.clientId: a client id is not empty",
            ),
            (
                "initialize",
                r#"{"channel":"ahp-session:/x","protocolVersions":["1.0.0"],"clientId":"c"}"#,
                "-32602 params.channel: initialize is addressed to ahp-root://",
            ),
            ("initialize", "[]", "-32602 params: must be an object"),
            (
                "reconnect",
                r#"{"clientId":"c","lastSeenServerSeq":-1,"subscriptions":[]}"#,
                "-32602 params.lastSeenServerSeq: must not be negative",
            ),
            ("subscribe", "{}", "-32602 params.channel: is missing"),
            (
                "subscribe",
                r#"{"channel":"no scheme"}"#,
                "-32602 params.channel: a channel URI has no control characters or white space",
            ),
            (
                "subscribe",
                r#"{"channel":"a:/b","delivery":{"maxLatencyMs":-1}}"#,
                "-32602 params.delivery.maxLatencyMs: must not be negative",
            ),
            (
                "listSessions",
                r#"{"limit":0}"#,
                "-32602 params.limit: must be at least 1",
            ),
            (
                "createSession",
                r#"{"channel":"a:/b","activeClient":{"clientId":"c"}}"#,
                "-32602 params.activeClient: missing field `tools`",
            ),
        ];
        for (method, json, expected) in cases {
            assert_eq!(problem(method, json), expected, "{method} {json}");
        }
    }

    #[test]
    fn trn15_unknown_fields_are_ignored() {
        assert!(problem("ping", r#"{"_meta":{"x":1},"unknown":[]}"#).starts_with("Ping"));
        assert!(
            problem("subscribe", r#"{"channel":"a:/b","view":{"turns":3,"future":true}}"#).starts_with("Subscribe")
        );
    }
}
