//! The token endpoint: exchanges codes, refreshes tokens, revokes them.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::ServerState;
use super::http::{HttpRequest, OAuthResponse};
use super::registry::{Grant, IssuedTokens, Registry};

/// An error of RFC 6749.
struct Refusal(u16, &'static str, &'static str);

pub(super) fn answer(shared: &ServerState, asked: &HttpRequest) -> OAuthResponse {
    let form = asked.form();
    shared.registry().note_request(form.clone());
    match issue(shared, asked, &form) {
        Ok(issued) => {
            let mut answer = json!({
                "access_token": issued.access, "token_type": "Bearer",
                "expires_in": issued.lifetime.as_secs(), "scope": issued.scopes.join(" "),
            });
            if let Some(refresh) = issued.refresh {
                answer["refresh_token"] = json!(refresh);
            }
            OAuthResponse::json(200, &answer)
        }
        Err(refusal) => refusal.answer(),
    }
}

/// RFC 7009: what is not known is as good as taken back.
pub(super) fn revoke(shared: &ServerState, asked: &HttpRequest) -> OAuthResponse {
    let form = asked.form();
    let mut registry = shared.registry();
    registry.note_request(form.clone());
    match client_of(&registry, asked, &form) {
        Ok(client) => {
            registry.revoke(form.get("token").map_or("", String::as_str), &client);
            OAuthResponse::empty(200)
        }
        Err(refusal) => refusal.answer(),
    }
}

fn issue(shared: &ServerState, asked: &HttpRequest, form: &HashMap<String, String>) -> Result<IssuedTokens, Refusal> {
    let (lifetime, refreshes) = {
        let behaviour = shared.behaviour();
        (behaviour.lifetime, behaviour.refreshes)
    };
    let mut registry = shared.registry();
    let field = |name: &str| form.get(name).map_or("", String::as_str);
    let client = client_of(&registry, asked, form)?;
    let invalid = |why| Refusal(400, "invalid_grant", why);
    let mut grant: Grant = match field("grant_type") {
        "authorization_code" => registry
            .use_code(field("code"), &client, field("redirect_uri"), field("code_verifier"))
            .map_err(invalid)?,
        "refresh_token" => registry.use_refresh(field("refresh_token"), &client).map_err(invalid)?,
        _ => {
            return Err(Refusal(
                400,
                "unsupported_grant_type",
                "this kind of grant is not known here",
            ));
        }
    };
    if field("resource") != grant.resource {
        return Err(Refusal(
            400,
            "invalid_target",
            "the resource is not the one that was agreed to",
        ));
    }
    let narrower: Vec<String> = field("scope").split_ascii_whitespace().map(str::to_owned).collect();
    if !narrower.is_empty() {
        if !narrower.iter().all(|scope| grant.scopes.contains(scope)) {
            return Err(Refusal(400, "invalid_scope", "more than was agreed to"));
        }
        grant.scopes = narrower;
    }
    Ok(registry.issue(&grant, lifetime, refreshes))
}

/// Which client asks. One with a secret has to prove it, in the header or in the form.
fn client_of(registry: &Registry, asked: &HttpRequest, form: &HashMap<String, String>) -> Result<String, Refusal> {
    let basic = asked
        .header("authorization")
        .and_then(|header| header.strip_prefix("Basic "));
    let basic = basic.and_then(|encoded| String::from_utf8(STANDARD.decode(encoded).ok()?).ok());
    let (id, secret) = match basic.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((id, secret)) => (decoded(id), Some(decoded(secret))),
        None => (
            form.get("client_id").cloned().unwrap_or_default(),
            form.get("client_secret").cloned(),
        ),
    };
    match registry.client(&id) {
        Some(client) if client.secret == secret => Ok(id),
        _ => Err(Refusal(
            401,
            "invalid_client",
            "the client is not known, or did not prove itself",
        )),
    }
}

/// In the header both are encoded as in a form (RFC 6749, 2.3.1).
fn decoded(text: &str) -> String {
    let mut pairs = url::form_urlencoded::parse(text.as_bytes());
    pairs.next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

impl Refusal {
    fn answer(&self) -> OAuthResponse {
        let Self(status, error, description) = self;
        OAuthResponse::json(*status, &json!({ "error": error, "error_description": description }))
    }
}
