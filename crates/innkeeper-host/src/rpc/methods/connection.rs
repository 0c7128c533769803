//! Parameters of what a connection is about: the handshake, subscriptions, signing in.

use innkeeper_core::agent::Secret;
use innkeeper_core::request::{Authenticate, Initialize, Reconnect, Subscribe};
use innkeeper_core::{ClientId, Command, RpcError, error::code, uri};
use innkeeper_dialects::Offer;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::read;
use super::refresh::refresh;

pub(super) fn initialize(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_versions: Option<Vec<String>>,
        protocol_version: Option<i64>,
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
        mcp_apps: Option<Map<String, Value>>,
    }
    let params: Params = read(params)?;
    let initial_subscriptions = params.initial_subscriptions.unwrap_or_default();
    check_subscription_count("initialSubscriptions", initial_subscriptions.len())?;
    let offer = match (params.protocol_versions, params.protocol_version) {
        (Some(list), _) if list.is_empty() => {
            return Err(RpcError::invalid_params(
                "protocolVersions",
                "is empty; offer at least one version, as in [\"1.0.0\"]",
            ));
        }
        (Some(list), _) => Offer::List(list),
        // The one number of 0.1.
        (None, Some(number)) => Offer::Number(number),
        (None, None) => {
            let problem = "params: missing field `protocolVersions`";
            return Err(RpcError::new(code::INVALID_PARAMS, problem));
        }
    };
    Ok(Command::Initialize(Box::new(Initialize {
        offer,
        client_id: client_id(&params.client_id)?,
        initial_subscriptions,
        client_name: params.client_info.map(|info| info.name),
        mcp_apps: params
            .capabilities
            .is_some_and(|capabilities| capabilities.mcp_apps.is_some()),
        locale: params.locale,
    })))
}

pub(super) fn reconnect(params: &RawValue) -> Result<Command, RpcError> {
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

pub(super) fn ping(_: &RawValue) -> Result<Command, RpcError> {
    Ok(Command::Ping)
}

pub(super) fn subscribe(params: &RawValue) -> Result<Command, RpcError> {
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
    let turns = match params.view.and_then(|view| view.turns) {
        Some(turns) => {
            let negative = |_| RpcError::invalid_params("view.turns", "must not be negative");
            Some(usize::try_from(turns).map_err(negative)?)
        }
        None => None,
    };
    Ok(Command::Subscribe(Box::new(Subscribe {
        channel: params.channel,
        max_latency_ms,
        turns,
    })))
}

pub(super) fn authenticate(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        resource: String,
        token: String,
        expires_in: Option<i64>,
        scopes: Option<Vec<String>>,
        #[serde(rename = "_meta")]
        meta: Option<Map<String, Value>>,
    }
    let params: Params = read(params)?;
    check_token(&params.token)?;
    check_scopes(params.scopes.as_deref().unwrap_or_default())?;
    let expires_in = match params.expires_in {
        // How long nothing is good for means nothing.
        Some(_) if params.token.is_empty() => None,
        Some(seconds) => match u64::try_from(seconds) {
            Ok(seconds) if seconds > 0 => Some(seconds),
            Ok(_) | Err(_) => {
                let problem = "must be a positive number of seconds; leave it out if it is unknown";
                return Err(RpcError::invalid_params("expiresIn", problem));
            }
        },
        None => None,
    };
    let is_given = !params.token.is_empty();
    Ok(Command::Authenticate(Box::new(Authenticate {
        resource: params.resource,
        token: Secret::new(params.token),
        expires_in,
        scopes: params.scopes,
        // Nothing is refreshed that is taken back.
        refresh: refresh(params.meta.filter(|_| is_given))?,
    })))
}

/// Longest token, and longest list of scopes.
pub(super) const MAX_TOKEN_BYTES: usize = 64 << 10;

/// A token ends up in a header of a request, so it is visible ASCII (RFC 6750). The error does not repeat the token
/// (AUTH-12).
fn check_token(token: &str) -> Result<(), RpcError> {
    if token.len() > MAX_TOKEN_BYTES {
        let problem = format!("has more than {MAX_TOKEN_BYTES} bytes");
        return Err(RpcError::invalid_params("token", problem));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = "has a character that no token has, such as a space or the end of a line; copy it again";
        return Err(RpcError::invalid_params("token", problem));
    }
    Ok(())
}

fn check_scopes(scopes: &[String]) -> Result<(), RpcError> {
    if scopes.iter().map(|scope| scope.len() + 1).sum::<usize>() > MAX_TOKEN_BYTES {
        let problem = format!("has more than {MAX_TOKEN_BYTES} bytes");
        return Err(RpcError::invalid_params("scopes", problem));
    }
    Ok(())
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
