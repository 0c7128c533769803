//! The metadata of an authorization server (RFC 8414, OpenID Discovery).

use serde_json::Value;
use url::Url;

use crate::failure::{Failure, Kind};
use crate::terminal::{note, one_line};

use super::authorization_request::OFFLINE_ACCESS;
use super::http;

/// Most authorization servers of one resource that are tried.
const MAX_SERVERS: usize = 5;

/// The metadata of an authorization server.
#[derive(Debug)]
pub(super) struct Metadata {
    /// The issuer.
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    /// The client authentication methods of the token endpoint; empty if unknown.
    pub(super) client_auth: Vec<String>,
    /// Whether its authorization responses name the issuer (RFC 9207).
    pub(super) names_issuer: bool,
    /// Whether refresh tokens must be requested with a scope.
    pub(super) offers_offline_access: bool,
}

impl Metadata {
    /// Returns the metadata of the first usable server.
    pub(super) async fn find(authorization_servers: &[String], resource: &str) -> Result<Self, Failure> {
        let mut problem = None;
        for server in authorization_servers.iter().take(MAX_SERVERS) {
            match Self::of(server, resource).await {
                Ok(found) => return Ok(found),
                Err(failure) => problem = problem.or(Some(failure)),
            }
        }
        Err(problem.unwrap_or_else(|| {
            Failure::new(Kind::Rejected, "the server names no authorization server")
                .hint("get a token from its operator, and pass it with --token-stdin")
        }))
    }

    async fn of(server: &str, resource: &str) -> Result<Self, Failure> {
        let issuer = http::address(server, "the authorization server")?;
        let mut problem = None;
        for place in places(&issuer) {
            match http::get(&place).await {
                Ok(answer) if answer.status.is_success() && answer.json.is_object() => {
                    return Self::read(server, &answer.json);
                }
                Ok(answer) if answer.status.is_server_error() => {
                    let status = answer.status;
                    let message = format!("{} answered with HTTP status {status}", one_line(server, 300));
                    problem = problem.or_else(|| Some(Failure::new(Kind::Unexpected, message).hint("try again later")));
                }
                Ok(_) => {}
                Err(failure) => problem = problem.or(Some(failure)),
            }
        }
        if problem.is_none()
            && let Some(default) = Self::of_2025_03_26(&issuer, resource)
        {
            note(&format!(
                "{} does not describe itself: trying the addresses that MCP 2025-03-26 has for that.",
                one_line(server, 300)
            ));
            return Ok(default);
        }
        Err(problem.unwrap_or_else(|| {
            let shown = one_line(server, 300);
            Failure::new(
                Kind::Rejected,
                format!("{shown} does not describe itself as an authorization server"),
            )
            .hint("get a token from the operator of the MCP server, and pass it with --token-stdin")
        }))
    }

    /// Returns the default endpoints of MCP 2025-03-26 for a server without metadata. In that revision the MCP server
    /// itself issues tokens, at the root of its own origin, and protects codes with PKCE. Any other server must have
    /// metadata.
    fn of_2025_03_26(issuer: &Url, resource: &str) -> Option<Self> {
        let resource = Url::parse(resource).ok()?;
        if resource.origin() != issuer.origin() || issuer.path() != "/" {
            return None;
        }
        let below = |path: &str| issuer.join(path).ok();
        Some(Self {
            issuer: issuer.origin().ascii_serialization(),
            authorization_endpoint: below("/authorize")?,
            token_endpoint: below("/token")?,
            registration_endpoint: below("/register"),
            revocation_endpoint: None,
            client_auth: Vec::new(),
            names_issuer: false,
            offers_offline_access: false,
        })
    }

    fn read(server: &str, document: &Value) -> Result<Self, Failure> {
        let shown = one_line(server, 300);
        let refused = |problem: String| {
            Failure::new(Kind::Rejected, format!("the authorization server {shown} {problem}"))
                .hint("the browser was not sent there; report it to the operator")
        };
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        // Metadata of another issuer could send users anywhere (RFC 8414, 3.3).
        let issuer = text("issuer").unwrap_or_default();
        if issuer.trim_end_matches('/') != server.trim_end_matches('/') {
            return Err(refused(format!("says that it is {:?}", one_line(issuer, 300))));
        }
        let list = |name: &str| -> Vec<String> {
            let items = document.get(name).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        // MCP requires clients to stop here: without PKCE a stolen code is a stolen token.
        if !list("code_challenge_methods_supported")
            .iter()
            .any(|method| method == "S256")
        {
            return Err(refused(
                "does not say that it protects codes with PKCE (S256)".to_owned(),
            ));
        }
        let endpoint = |name: &str| {
            let value = text(name).ok_or_else(|| refused(format!("has no {name}")))?;
            http::address(value, &format!("the {name} of {shown}"))
        };
        let optional = |name: &str| match text(name) {
            Some(_) => endpoint(name).map(Some),
            None => Ok(None),
        };
        let names_issuer = document.get("authorization_response_iss_parameter_supported");
        Ok(Self {
            issuer: issuer.to_owned(),
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            registration_endpoint: optional("registration_endpoint")?,
            revocation_endpoint: optional("revocation_endpoint")?,
            client_auth: list("token_endpoint_auth_methods_supported"),
            names_issuer: names_issuer.and_then(Value::as_bool).unwrap_or_default(),
            offers_offline_access: list("scopes_supported").iter().any(|scope| scope == OFFLINE_ACCESS),
        })
    }
}

/// Returns the possible addresses of the metadata, in the order of MCP.
fn places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    places.iter().filter_map(|place| issuer.join(place).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(issuer: &str) -> Value {
        json!({
            "issuer": issuer, "authorization_endpoint": "https://a.test/authorize",
            "token_endpoint": "https://a.test/token", "code_challenge_methods_supported": ["plain", "S256"],
        })
    }

    #[test]
    fn t16_metadata_of_another_issuer_is_rejected() {
        for (issuer, is_believed) in [
            ("https://a.test", true),
            ("https://a.test/", true),
            ("https://a.test/x", false),
            ("https://b.test", false),
            ("", false),
        ] {
            assert_eq!(
                Metadata::read("https://a.test", &document(issuer)).is_ok(),
                is_believed,
                "{issuer}"
            );
        }
    }

    #[test]
    fn t16_servers_without_pkce_or_encryption_are_rejected() {
        for (field, value) in [
            ("code_challenge_methods_supported", json!(["plain"])),
            ("code_challenge_methods_supported", Value::Null),
            ("authorization_endpoint", json!("javascript:alert(1)")),
            ("token_endpoint", json!("http://a.test/token")),
            ("token_endpoint", Value::Null),
            ("registration_endpoint", json!("http://a.test/register")),
        ] {
            let mut document = document("https://a.test");
            document[field] = value.clone();
            assert!(Metadata::read("https://a.test", &document).is_err(), "{field}: {value}");
        }
    }

    #[test]
    fn a_2025_03_26_server_without_metadata_has_default_endpoints() {
        let issuer = |address: &str| Url::parse(address).expect("an address");
        let found = Metadata::of_2025_03_26(&issuer("https://a.test"), "https://a.test/mcp").expect("addresses");
        assert_eq!(found.authorization_endpoint.as_str(), "https://a.test/authorize");
        assert_eq!(found.token_endpoint.as_str(), "https://a.test/token");
        let register = found.registration_endpoint.map(|address| address.to_string());
        assert_eq!(register.as_deref(), Some("https://a.test/register"));
        // Another server without metadata is not used.
        for (server, resource) in [
            ("https://b.test", "https://a.test/mcp"),
            ("http://a.test", "https://a.test/mcp"),
            ("https://a.test/tenant", "https://a.test/mcp"),
            ("https://a.test", "nonsense"),
        ] {
            assert!(Metadata::of_2025_03_26(&issuer(server), resource).is_none(), "{server}");
        }
    }

    #[test]
    fn metadata_of_a_server_with_a_path_has_three_addresses() {
        let places: Vec<String> = places(&Url::parse("https://a.test/inn/").unwrap())
            .iter()
            .map(Url::to_string)
            .collect();
        let expected = [
            "https://a.test/.well-known/oauth-authorization-server/inn",
            "https://a.test/.well-known/openid-configuration/inn",
            "https://a.test/inn/.well-known/openid-configuration",
        ];
        assert_eq!(places, expected);
    }
}
