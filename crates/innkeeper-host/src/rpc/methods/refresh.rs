//! The fields with which the host refreshes tokens of MCP servers by itself: `_meta["innkeeper.refresh"]` of
//! `authenticate`.
//!
//! AHP passes on an access token alone. A client that got more from the authorization server may pass that on here, or
//! only the address at which the token is revoked in the end; all of it is optional. An error names the field and does
//! not repeat its value (AUTH-12).

use innkeeper_core::RpcError;
use innkeeper_core::agent::Secret;
use innkeeper_core::mcp::{ClientAuth, TokenRefresh};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::{Host, Url};

use super::connection::MAX_TOKEN_BYTES;
use super::read_part;

/// The key.
const REFRESH: &str = "innkeeper.refresh";
/// Longest address.
const MAX_ADDRESS_BYTES: usize = 2048;
/// Longest name and password of an OAuth client.
const MAX_CLIENT_BYTES: usize = 4096;

/// Reads and checks it, if it is there. Whether the addresses are those of who gives out tokens for the
/// resource, the core knows.
pub(super) fn refresh(meta: Option<Map<String, Value>>) -> Result<Option<Box<TokenRefresh>>, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields {
        refresh_token: Option<String>,
        token_endpoint: String,
        revocation_endpoint: Option<String>,
        client_id: String,
        client_secret: Option<String>,
        auth_method: Option<String>,
    }
    let Some(value) = meta.and_then(|mut meta| meta.remove(REFRESH)) else {
        return Ok(None);
    };
    let path = format!("_meta[{REFRESH:?}]");
    if !value.is_object() {
        return Err(RpcError::invalid_params(&path, "must be an object"));
    }
    let fields: Fields = read_part(&path, value)?;
    let wrong = |field: &str, problem: String| RpcError::invalid_params(&format!("{path}.{field}"), problem);
    match &fields.refresh_token {
        Some(token) => check_visible(token, MAX_TOKEN_BYTES).map_err(|problem| wrong("refreshToken", problem))?,
        None if fields.revocation_endpoint.is_some() => {}
        None => {
            let problem = "is missing, and without it nothing but revocationEndpoint is of any use";
            return Err(wrong("refreshToken", problem.to_owned()));
        }
    }
    check_visible(&fields.client_id, MAX_CLIENT_BYTES).map_err(|problem| wrong("clientId", problem))?;
    if let Some(secret) = &fields.client_secret {
        check_visible(secret, MAX_CLIENT_BYTES).map_err(|problem| wrong("clientSecret", problem))?;
    }
    let token_endpoint = address(&fields.token_endpoint).map_err(|problem| wrong("tokenEndpoint", problem))?;
    let revocation_endpoint = fields.revocation_endpoint.as_deref().map(address).transpose();
    let client_auth = match (fields.auth_method.as_deref(), &fields.client_secret) {
        (None, None) => ClientAuth::None,
        (None, Some(_)) => ClientAuth::Basic,
        (Some(name), secret) => {
            let known = ClientAuth::ALL.into_iter().find(|known| known.name() == name);
            let known = known.ok_or_else(|| {
                let names = ClientAuth::ALL.map(ClientAuth::name).join(", ");
                wrong("authMethod", format!("is not supported; use one of: {names}"))
            })?;
            if (known == ClientAuth::None) == secret.is_some() {
                let problem = match secret {
                    Some(_) => "must be left out if authMethod is none",
                    None => "is missing; this authMethod needs it",
                };
                return Err(wrong("clientSecret", problem.to_owned()));
            }
            known
        }
    };
    Ok(Some(Box::new(TokenRefresh {
        refresh_token: fields.refresh_token.map(Secret::new),
        token_endpoint,
        revocation_endpoint: revocation_endpoint.map_err(|problem| wrong("revocationEndpoint", problem))?,
        client_id: fields.client_id,
        client_secret: fields.client_secret.map(Secret::new),
        client_auth,
    })))
}

fn check_visible(text: &str, most: usize) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() > most {
        return Err(format!("has more than {most} bytes"));
    }
    // The characters that RFC 6749 allows in all of them.
    match text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
        true => Ok(()),
        false => Err("has a character that cannot be sent, such as the end of a line; copy it again".to_owned()),
    }
}

/// Secrets travel encrypted, unless they stay on this machine.
fn address(text: &str) -> Result<String, String> {
    if text.len() > MAX_ADDRESS_BYTES {
        return Err(format!("has more than {MAX_ADDRESS_BYTES} bytes"));
    }
    let url = Url::parse(text).map_err(|_| "is not a valid URL; write https://…".to_owned())?;
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" if url.has_host() => {}
        "http" if is_here => {}
        _ => return Err("must begin with https://, or with http:// on this machine".to_owned()),
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("must have neither a user name, nor a password, nor a fragment".to_owned());
    }
    Ok(url.into())
}
