//! Requests to the authorization server: renewal (RFC 6749, 6) and revocation (RFC 7009) of tokens.
//!
//! The requests contain secrets, so redirects are not followed (T16). Answers are bounded, and only known error codes are
//! passed on (AUTH-12).

use std::time::Duration;

use futures_util::StreamExt as _;
use innkeeper_host::mcp::ClientAuth;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::engine::wire::http_client_without_redirects;
use crate::hosted::vault::SavedRefresh;

const TIME: Duration = Duration::from_secs(15);
const MAX_BYTES: usize = 256 << 10;
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// A granted token.
pub(crate) struct Granted {
    pub(crate) token: String,
    pub(crate) expires_in: Option<u64>,
    pub(crate) scopes: Option<Vec<String>>,
    /// The next refresh token, if the old one is not valid any more.
    pub(crate) refresh_token: Option<String>,
}

/// Why no token was granted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotGranted {
    /// The server refused with an OAuth error that a second try does not change.
    Refused(String),
    /// A second try may succeed.
    Failed(String),
}

/// The OAuth errors that no second try changes (RFC 6749, 5.2; RFC 8707, 2).
const REFUSALS: [&str; 7] = [
    "invalid_grant",
    "invalid_client",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "unauthorized_client",
    "unsupported_grant_type",
];

/// Exchanges a refresh token for the next token of a resource.
pub(crate) async fn refresh(with: &SavedRefresh, refresh_token: &str, resource: &str) -> Result<Granted, NotGranted> {
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh_token),
        ("resource", resource),
    ];
    let (status, body) = post(with, &with.token_endpoint, &fields).await?;
    if status.is_success() {
        return granted(&body);
    }
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let refusal: Option<Refusal> = serde_json::from_slice(&body).ok();
    let known = refusal.and_then(|refusal| REFUSALS.into_iter().find(|known| *known == refusal.error));
    match known {
        Some(known) if status.is_client_error() => Err(NotGranted::Refused(known.to_owned())),
        _ => Err(NotGranted::Failed(format!("it answered with {}", status.as_u16()))),
    }
}

/// Revokes a token: the refresh token, and with it the tokens from it, or else the token itself.
pub(crate) async fn revoke(with: &SavedRefresh, token: &str, endpoint: &str) -> Result<(), NotGranted> {
    let (token, hint) = match &with.refresh_token {
        Some(refresh_token) => (refresh_token.as_str(), "refresh_token"),
        None => (token, "access_token"),
    };
    let fields = [("token", token), ("token_type_hint", hint)];
    let (status, _) = post(with, endpoint, &fields).await?;
    match status.is_success() {
        true => Ok(()),
        false => Err(NotGranted::Failed(format!("it answered with {}", status.as_u16()))),
    }
}

fn granted(body: &[u8]) -> Result<Granted, NotGranted> {
    #[derive(Deserialize)]
    struct TokenAnswer {
        access_token: String,
        token_type: String,
        expires_in: Option<serde_json::Value>,
        refresh_token: Option<String>,
        scope: Option<String>,
    }
    let not_understood = || NotGranted::Failed("its answer cannot be understood".to_owned());
    let answer: TokenAnswer = serde_json::from_slice(body).map_err(|_| not_understood())?;
    let is_fine = |token: &str, least: u8| {
        (1..=MAX_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(|byte| (least..=0x7e).contains(&byte))
    };
    // It is sent in a header, which cannot have spaces (RFC 6750).
    let is_usable = is_fine(&answer.access_token, 0x21) && answer.token_type.eq_ignore_ascii_case("bearer");
    if !is_usable || !answer.refresh_token.as_deref().is_none_or(|token| is_fine(token, 0x20)) {
        return Err(not_understood());
    }
    // Some servers write the number as text, and some write 0 if they do not know.
    let expires_in = answer.expires_in.and_then(|value| match value {
        serde_json::Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    });
    let expires_in = expires_in.filter(|seconds| *seconds > 0);
    // OAuth separates scopes with spaces; some servers use commas.
    let scopes = answer.scope.map(|scope| {
        let scopes = scope.split([' ', ',']).filter(|scope| !scope.is_empty());
        scopes.map(str::to_owned).collect()
    });
    Ok(Granted {
        token: answer.access_token,
        expires_in,
        scopes,
        refresh_token: answer.refresh_token,
    })
}

async fn post(
    with: &SavedRefresh,
    endpoint: &str,
    fields: &[(&str, &str)],
) -> Result<(StatusCode, Vec<u8>), NotGranted> {
    let failed = |why: &str| NotGranted::Failed(why.to_owned());
    let address = Url::parse(endpoint).map_err(|_| failed("its address cannot be read"))?;
    let client = http_client_without_redirects(&address).map_err(|error| failed(&error.to_string()))?;
    let request = signed(with, client.post(address), fields);
    let asking = async {
        // Errors of the library may name the address and nothing else.
        let response = request.send().await.map_err(|_| failed("it cannot be reached"))?;
        Ok((response.status(), body(response).await?))
    };
    let asked = tokio::time::timeout(TIME, asking).await;
    asked.unwrap_or_else(|_| Err(failed("it did not answer in time")))
}

/// Returns the form with the client's authentication.
fn signed(with: &SavedRefresh, request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields);
    let secret = with.client_secret.as_deref().unwrap_or_default();
    let mut request = request.header("accept", "application/json");
    if with.client_auth == ClientAuth::Basic.name() {
        // Both are form-encoded before they are encoded for the header (RFC 6749, 2.3.1).
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        request = request.basic_auth(encoded(&with.client_id), Some(encoded(secret)));
    } else {
        form.append_pair("client_id", &with.client_id);
        if with.client_auth == ClientAuth::Post.name() {
            form.append_pair("client_secret", secret);
        }
    }
    request
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form.finish())
}

async fn body(response: Response) -> Result<Vec<u8>, NotGranted> {
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| NotGranted::Failed("its answer broke off".to_owned()))?;
        if body.len() + piece.len() > MAX_BYTES {
            return Err(NotGranted::Failed("its answer is too large".to_owned()));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_tokens_are_refused() {
        let good = granted(br#"{"access_token":"a","token_type":"bearer","expires_in":"60","scope":"r w"}"#);
        let good = good.ok().unwrap();
        assert_eq!((good.expires_in, good.scopes.unwrap().len()), (Some(60), 2));
        let odd = granted(br#"{"access_token":"a","token_type":"bearer","expires_in":0,"scope":"repo,gist, "}"#);
        let odd = odd.ok().unwrap();
        assert_eq!(odd.expires_in, None, "it is good until the server says otherwise");
        assert_eq!(odd.scopes.unwrap(), ["repo", "gist"]);
        for bad in [
            "",
            "[]",
            r#"{"access_token":"a"}"#,
            r#"{"access_token":"","token_type":"Bearer"}"#,
            r#"{"access_token":"a b","token_type":"Bearer"}"#,
            r#"{"access_token":"a\r\nx: y","token_type":"Bearer"}"#,
            r#"{"access_token":"a","token_type":"mac"}"#,
            r#"{"access_token":"a","token_type":"Bearer","refresh_token":"\n"}"#,
        ] {
            assert!(granted(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
