//! The OAuth client: one that the user registered, or one that registers itself (RFC 7591).

use serde_json::{Value, json};

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use super::discovery::Metadata;
use super::http;

/// The client that the user registered, if any.
#[derive(Default)]
pub(crate) struct RegisteredClient {
    pub(crate) id: Option<String>,
    pub(crate) secret: Option<String>,
}

/// A client of an authorization server. There is no `Debug`: it may have a secret.
pub(crate) struct OAuthClient {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    pub(crate) method: Method,
}

/// The client authentication method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Nothing,
    Basic,
    Post,
}

impl Method {
    /// Returns the name of the method in OAuth.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    /// Prefers the header, unless the server supports only the form.
    fn of(has_secret: bool, supported: &[String]) -> Self {
        let takes = |method: Self| supported.iter().any(|name| name == method.name());
        match has_secret {
            false => Self::Nothing,
            true if takes(Self::Post) && !takes(Self::Basic) => Self::Post,
            true => Self::Basic,
        }
    }
}

impl OAuthClient {
    /// Returns the registered client; without one, registers a client for this redirect address.
    pub(crate) async fn find(
        metadata: &Metadata,
        registered: RegisteredClient,
        redirect: &str,
    ) -> Result<Self, Failure> {
        if let Some(id) = registered.id {
            return Ok(Self {
                id,
                method: Method::of(registered.secret.is_some(), &metadata.client_auth),
                secret: registered.secret,
            });
        }
        let issuer = one_line(&metadata.issuer, 300);
        let advice = "register a client there, and name it with --client-id or as oauth.clientId of the MCP server";
        let Some(endpoint) = &metadata.registration_endpoint else {
            let message = format!("{issuer} does not support client registration");
            return Err(Failure::new(Kind::Rejected, message).hint(advice));
        };
        let wanted = json!({
            "client_name": "Innkeeper", "redirect_uris": [redirect], "application_type": "native",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        });
        let answer = http::post_json(endpoint, &wanted).await?;
        let text = |name: &str| answer.json.get(name).and_then(Value::as_str).map(str::to_owned);
        let id = text("client_id").filter(|id| !id.is_empty() && answer.status.is_success());
        let Some(id) = id else {
            let why = answer
                .json
                .get("error")
                .and_then(Value::as_str)
                .unwrap_or("no reason was given");
            let message = format!("{issuer} refused to register a client ({})", one_line(why, 100));
            return Err(Failure::new(Kind::Rejected, message).hint(advice));
        };
        let secret = text("client_secret").filter(|secret| !secret.is_empty());
        let method = match text("token_endpoint_auth_method").as_deref() {
            Some("client_secret_post") if secret.is_some() => Method::Post,
            Some("client_secret_basic") if secret.is_some() => Method::Basic,
            _ => Method::of(secret.is_some(), &metadata.client_auth),
        };
        Ok(Self { id, secret, method })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sent_as_the_server_takes_it() {
        let supported = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(Method::of(false, &supported(&["client_secret_basic"])), Method::Nothing);
        assert_eq!(Method::of(true, &[]), Method::Basic);
        assert_eq!(Method::of(true, &supported(&["client_secret_post"])), Method::Post);
        let both = supported(&["client_secret_post", "client_secret_basic"]);
        assert_eq!(Method::of(true, &both), Method::Basic);
    }
}
