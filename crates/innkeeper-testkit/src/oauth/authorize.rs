//! The page on which users agree. It does not ask: the behaviour of the server decides.

use std::collections::HashMap;

use url::Url;

use super::ServerState;
use super::http::OAuthResponse;
use super::registry::Client;

pub(super) fn answer(shared: &ServerState, query: &HashMap<String, String>) -> OAuthResponse {
    let field = |name: &str| query.get(name).map(String::as_str);
    let mut registry = shared.registry();
    let client = field("client_id").and_then(|id| Some((id, registry.client(id)?)));
    let Some((client_id, client)) = client else {
        return OAuthResponse::text(400, "This client is not registered here.");
    };
    let client_id = client_id.to_owned();
    // A redirect to an unregistered address would let an attacker steal codes.
    let compares_ports = shared.behaviour().compares_ports;
    let may_return_to = |address: &&str| may_return_to(client, address, compares_ports);
    let Some(redirect) = field("redirect_uri").filter(may_return_to) else {
        return OAuthResponse::text(400, "The client did not register this redirect address.");
    };
    let behaviour = shared.behaviour();
    let back = |fields: &[(&str, &str)]| {
        let mut address = Url::parse(redirect).expect("a registered address");
        {
            let mut pairs = address.query_pairs_mut();
            pairs.extend_pairs(fields);
            if let Some(state) = behaviour.echoes.as_deref().or_else(|| field("state")) {
                pairs.append_pair("state", state);
            }
            pairs.append_pair(
                "iss",
                behaviour.answers_as.as_deref().unwrap_or_else(|| shared.issuer()),
            );
        }
        OAuthResponse::empty(302).header("location", address.as_str())
    };
    let refuse = |error: &str, why: &str| back(&[("error", error), ("error_description", why)]);
    if field("response_type") != Some("code") {
        return refuse("unsupported_response_type", "only codes are given out");
    }
    let challenge = field("code_challenge").unwrap_or_default();
    if field("code_challenge_method") != Some("S256") || challenge.len() != 43 {
        return refuse("invalid_request", "a challenge of the method S256 is needed");
    }
    let is_resource = |address: &&str| Url::parse(address).is_ok_and(|url| url.has_host() && url.fragment().is_none());
    let Some(resource) = field("resource").filter(is_resource) else {
        return refuse("invalid_target", "the resource that the token is for is needed");
    };
    if !behaviour.consents {
        return refuse("access_denied", "the user said no");
    }
    let asked = field("scope").unwrap_or_default().split_ascii_whitespace();
    let is_granted = |scope: &&str| {
        let most = behaviour.grants_at_most.as_ref();
        most.is_none_or(|most| most.iter().any(|granted| granted == scope))
    };
    let scopes = asked.filter(is_granted).map(str::to_owned).collect();
    let code = registry.give_code(&client_id, resource, scopes, redirect, challenge);
    back(&[("code", &code)])
}

/// Addresses are compared letter by letter, but for the port on loopback, which programs choose anew each time; some
/// servers compare that as well.
fn may_return_to(client: &Client, address: &str, compares_ports: bool) -> bool {
    let without_port = |address: &str| {
        let mut url = Url::parse(address).ok()?;
        url.set_port(None).ok()?;
        Some(url)
    };
    client.redirects.iter().any(|registered| {
        registered == address
            || !compares_ports
                && is_loopback(registered)
                && is_loopback(address)
                && without_port(registered) == without_port(address)
    })
}

pub(super) fn is_loopback(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| url.scheme() == "http" && matches!(url.host_str(), Some("127.0.0.1" | "[::1]")))
}
