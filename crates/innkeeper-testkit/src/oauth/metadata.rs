//! Metadata of the authorization server (RFC 8414, OpenID Discovery).

use serde_json::json;

use super::ServerState;
use super::http::{HttpRequest, OAuthResponse};

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// The metadata, if that was asked for. A name with a path has it between its host and its path; OpenID also has it
/// behind everything.
pub(super) fn answer(shared: &ServerState, prefix: &str, asked: &HttpRequest) -> Option<OAuthResponse> {
    let is_openid = shared.behaviour().is_openid;
    let places = match is_openid {
        true => vec![format!("{OPENID}{prefix}"), format!("{prefix}{OPENID}")],
        false => vec![format!("{OAUTH}{prefix}")],
    };
    if asked.method != "GET" || !places.contains(&asked.path) {
        return None;
    }
    let issuer = shared.issuer();
    let behaviour = shared.behaviour();
    let mut document = json!({
        "issuer": behaviour.claims_to_be.as_deref().unwrap_or(issuer),
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "revocation_endpoint": format!("{issuer}/revoke"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    });
    if behaviour.registers {
        document["registration_endpoint"] = json!(format!("{issuer}/register"));
    }
    Some(OAuthResponse::json(200, &document))
}
