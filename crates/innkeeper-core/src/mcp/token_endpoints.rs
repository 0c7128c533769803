//! The endpoints at which tokens may be refreshed: only those of the issuer (T16, T21).
//!
//! The client names the endpoint. The host then sends secrets there, from its own network; so the URL has to belong
//! to an authorization server that the resource itself named.

use super::TokenRefresh;
use crate::protocol::error::RpcError;

/// The field of `authenticate` that says how to get the next token.
const REFRESH: &str = "_meta[\"innkeeper.refresh\"]";

/// Checks that both URLs belong to an authorization server of the resource. The error names the field.
pub(crate) fn check_endpoints(refresh: &TokenRefresh, authorization_servers: &[String]) -> Result<(), RpcError> {
    let told: Vec<String> = authorization_servers.iter().filter_map(|url| origin(url)).collect();
    let endpoints = [
        ("tokenEndpoint", Some(&refresh.token_endpoint)),
        ("revocationEndpoint", refresh.revocation_endpoint.as_ref()),
    ];
    for (field, endpoint) in endpoints {
        let Some(endpoint) = endpoint else {
            continue;
        };
        if !origin(endpoint).is_some_and(|origin| told.contains(&origin)) {
            let problem = match told.is_empty() {
                true => "no MCP server has named an authorization server of this resource, so no token is sent there; \
                         leave the field out"
                    .to_owned(),
                false => format!(
                    "is not a URL of an authorization server that this resource named ({}); leave the field out if \
                     its tokens come from elsewhere",
                    told.join(", ")
                ),
            };
            return Err(RpcError::invalid_params(&format!("{REFRESH}.{field}"), problem));
        }
    }
    Ok(())
}

/// The origin of an address, if it has one that can be compared.
fn origin(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let authority = rest.get(..end)?.to_ascii_lowercase();
    let usual_port = match scheme.as_str() {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let host = authority.strip_suffix(usual_port).unwrap_or(&authority);
    (!host.is_empty() && !host.contains('@')).then(|| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Secret;
    use crate::mcp::ClientAuth;

    fn refresh(endpoint: &str) -> TokenRefresh {
        TokenRefresh {
            refresh_token: Some(Secret::new("r")),
            token_endpoint: endpoint.to_owned(),
            revocation_endpoint: None,
            client_id: "c".to_owned(),
            client_secret: None,
            client_auth: ClientAuth::None,
        }
    }

    #[test]
    fn t21_tokens_are_refreshed_at_their_issuer_alone() {
        let told = ["https://Login.example.com:443/tenant".to_owned()];
        for (endpoint, is_fine) in [
            ("https://login.example.com/token", true),
            ("https://login.example.com:443/token", true),
            ("https://login.example.com:8443/token", false),
            ("http://login.example.com/token", false),
            ("https://login.example.com@evil.example/token", false),
            ("https://evil.example\\@login.example.com/token", false),
            ("https://evil.example/?https://login.example.com/", false),
            ("https://login.example.com.evil.example/token", false),
            ("token", false),
        ] {
            let checked = check_endpoints(&refresh(endpoint), &told);
            assert_eq!(checked.is_ok(), is_fine, "{endpoint}");
        }
        let mut elsewhere = refresh("https://login.example.com/token");
        elsewhere.revocation_endpoint = Some("https://evil.example/revoke".to_owned());
        let refused = check_endpoints(&elsewhere, &told).expect_err("refused");
        assert!(refused.message.contains("revocationEndpoint"), "{}", refused.message);
        assert!(
            check_endpoints(&refresh("https://a.test"), &[]).is_err(),
            "no token endpoint is known"
        );
    }
}
