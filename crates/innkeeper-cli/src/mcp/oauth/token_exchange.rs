//! Exchanges a code for tokens (RFC 6749, 4.1.3).

use serde_json::Value;

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use super::authorization_request::{AuthorizationRequest, refused};
use super::client::{Method, OAuthClient};
use super::discovery::Metadata;
use super::http;

/// The token response. It has no `Debug`, because it is secret.
pub(super) struct TokenResponse {
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
}

pub(super) async fn tokens(
    metadata: &Metadata,
    client: &OAuthClient,
    request: &AuthorizationRequest,
    redirect: &str,
    resource: &str,
    code: &str,
) -> Result<TokenResponse, Failure> {
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", redirect),
        ("code_verifier", &request.verifier),
        ("resource", resource),
    ];
    let secret = client.secret.as_deref();
    let mut basic = None;
    match (client.method, secret) {
        (Method::Basic, Some(secret)) => basic = Some((client.id.as_str(), secret)),
        (Method::Post, Some(secret)) => form.extend([("client_id", client.id.as_str()), ("client_secret", secret)]),
        (Method::Nothing | Method::Basic | Method::Post, _) => form.push(("client_id", &client.id)),
    }
    let answer = http::post_form(&metadata.token_endpoint, &form, basic).await?;
    let text = |name: &str| answer.json.get(name).and_then(Value::as_str);
    if let Some(error) = text("error") {
        return Err(refused(error, text("error_description")));
    }
    let granted = answer.status.is_success().then(|| read(&answer.json)).flatten();
    granted.ok_or_else(|| {
        let place = one_line(&metadata.issuer, 300);
        let message = format!("{place} sent no usable token (status {})", answer.status.as_u16());
        Failure::new(Kind::Rejected, message)
    })
}

fn read(answer: &Value) -> Option<TokenResponse> {
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    let is_bearer = text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let access_token = text("access_token").filter(|token| !token.is_empty() && is_bearer)?;
    // Some servers send the number as a string.
    let expires_in = answer.get("expires_in").and_then(|value| match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    });
    // OAuth separates scopes by spaces, and some servers use commas.
    let scopes = text("scope").map(|scope| {
        let scopes = scope.split([' ', ',']).filter(|scope| !scope.is_empty());
        scopes.map(str::to_owned).collect()
    });
    Some(TokenResponse {
        access_token: access_token.to_owned(),
        refresh_token: text("refresh_token")
            .filter(|token| !token.is_empty())
            .map(str::to_owned),
        expires_in: expires_in.filter(|seconds| *seconds > 0),
        scopes,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_bearer_tokens_are_accepted() {
        let good = read(&json!({ "access_token": "t", "token_type": "bearer", "expires_in": "60", "scope": "a b" }));
        let good = good.unwrap();
        assert_eq!(good.expires_in, Some(60));
        assert_eq!(good.scopes.unwrap(), ["a", "b"]);
        assert!(good.refresh_token.is_none());
        let odd = read(&json!({ "access_token": "t", "scope": "repo,gist" })).unwrap();
        assert_eq!(odd.scopes.unwrap(), ["repo", "gist"]);
        for bad in [
            json!({ "access_token": "", "token_type": "Bearer" }),
            json!({ "access_token": "t", "token_type": "DPoP" }),
            json!({ "token_type": "Bearer" }),
            json!("t"),
        ] {
            assert!(read(&bad).is_none(), "{bad}");
        }
    }
}
